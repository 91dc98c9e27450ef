//! How the bytes of an answer reach the client: in which pieces, with which faults.

use crate::deadline::Deadline;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A point at which the server waits until the test lets it go on.
#[derive(Clone, Debug)]
pub struct Gate(Arc<GateInner>);

#[derive(Debug)]
struct GateInner {
    open: watch::Sender<bool>,
    reached: crate::watched::Watched<u32>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(Arc::new(GateInner {
            open: watch::channel(false).0,
            reached: crate::watched::Watched::default(),
        }))
    }

    /// Lets everything through from now on.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// Waits until the server stands at the gate.
    pub fn wait_reached(&self, deadline: Deadline) {
        let reached = self.0.reached.wait(deadline, |count| (*count > 0).then_some(()));
        assert!(
            reached.is_some(),
            "the scripted model did not get to its gate within {:?}",
            deadline.allowed()
        );
    }

    pub(super) async fn pass(&self) {
        self.0.reached.update(|count| *count += 1);
        let mut open = self.0.open.subscribe();
        // The sender lives in `self`, so this ends only when the gate opens.
        let _ = open.wait_for(|open| *open).await;
    }
}

/// What happens at a byte of the body.
#[derive(Clone, Debug)]
pub enum Cut {
    /// The connection is reset (RST), as by a crashed proxy.
    Reset,
    /// The connection is closed (FIN) without the end of the body.
    Close,
    /// Nothing more is sent until the gate opens.
    Stall(Gate),
    /// Pings (or comments) are sent until the gate opens: alive, but saying nothing.
    Babble {
        /// What is sent each time, as it stands.
        text: String,
        /// How often.
        every: Duration,
        /// Until when.
        gate: Gate,
    },
}

/// How a body is sent.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    /// Offsets into the body at which one write ends and the next begins.
    pub splits: Vec<usize>,
    /// Bytes of one write at most, chunk framing included; one write a piece when absent.
    pub write_size: Option<usize>,
    /// The body ends with the connection instead of with a last chunk.
    pub until_close: bool,
    /// What happens where.
    pub cuts: Vec<(usize, Cut)>,
}

/// A step of sending.
#[derive(Debug)]
pub(super) enum Step<'a> {
    Send(&'a [u8]),
    Do(&'a Cut),
}

impl Delivery {
    /// The body as pieces and what happens between them, in order.
    pub(super) fn steps<'a>(&'a self, body: &'a [u8]) -> Vec<Step<'a>> {
        let mut edges: Vec<usize> =
            self.splits.iter().chain(self.cuts.iter().map(|(at, _)| at)).copied().collect();
        edges.push(body.len());
        edges.retain(|edge| *edge <= body.len());
        edges.sort_unstable();
        edges.dedup();
        let mut steps = Vec::new();
        let mut sent = 0;
        for edge in edges {
            if edge > sent {
                steps.push(Step::Send(&body[sent..edge]));
                sent = edge;
            }
            steps.extend(self.cuts.iter().filter(|(at, _)| *at == edge).map(|(_, cut)| Step::Do(cut)));
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_split_at_its_offsets_and_cuts() {
        let delivery = Delivery { splits: vec![2, 99], cuts: vec![(4, Cut::Reset)], ..Delivery::default() };
        let steps = delivery.steps(b"abcdef");
        let shown: Vec<String> = steps
            .iter()
            .map(|step| match step {
                Step::Send(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Step::Do(cut) => format!("{cut:?}"),
            })
            .collect();
        assert_eq!(shown, ["ab", "cd", "Reset", "ef"]);
    }
}
