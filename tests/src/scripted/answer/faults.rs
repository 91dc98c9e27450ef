//! How an answer goes wrong on its way: where it is cut, held, split. Places are found when the bytes are known.

use super::render::Asked;
use super::{Answer, Dialect};
use crate::scripted::Rules;
use crate::scripted::delivery::{Cut, Delivery, Gate};
use serde_json::Value;
use std::time::Duration;

/// A place in a body.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Byte(usize),
    After(String),
    AfterEvent(String),
    Events(usize),
}

/// What happens at a place.
#[derive(Clone, Debug)]
enum Happening {
    Cut(Cut),
    Babble { every: Duration, gate: Gate },
}

/// Something that happens somewhere in a body.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    place: Place,
    happening: Happening,
}

impl Answer {
    /// Never an answer: the request is read and nothing comes, until `gate` opens (then this answer does).
    #[must_use]
    pub fn held_by(mut self, gate: &Gate) -> Self {
        self.hold = Some(gate.clone());
        self
    }

    /// Resets the connection instead of answering: not even a head comes.
    #[must_use]
    pub fn reset_at_once(mut self) -> Self {
        self.dropped = true;
        self
    }

    /// Ends lines with CR LF.
    #[must_use]
    pub fn crlf(mut self) -> Self {
        self.crlf = true;
        self
    }

    /// Sends everything, chunk framing included, one byte a write.
    #[must_use]
    pub fn one_byte_per_write(mut self) -> Self {
        self.delivery.write_size = Some(1);
        self
    }

    /// Splits the body into writes at these offsets.
    #[must_use]
    pub fn split_at(mut self, offsets: &[usize]) -> Self {
        self.delivery.splits.extend_from_slice(offsets);
        self
    }

    /// Ends the body with the connection instead of a last chunk.
    #[must_use]
    pub fn until_close(mut self) -> Self {
        self.delivery.until_close = true;
        self
    }

    /// Does something at this byte of the body.
    #[must_use]
    pub fn cut_at(self, offset: usize, cut: Cut) -> Self {
        self.fault(Place::Byte(offset), Happening::Cut(cut))
    }

    /// Does something right after the first place in the body where `needle` stands. Call it when the part with the
    /// needle is there. A request in a dialect whose body has no such place gets a 500 and is a violation.
    #[must_use]
    pub fn cut_after(self, needle: &str, cut: Cut) -> Self {
        self.must_hold(needle);
        self.fault(Place::After(needle.to_owned()), Happening::Cut(cut))
    }

    /// Does something after this many events of the stream (comments count), in either dialect.
    #[must_use]
    pub fn cut_after_events(self, events: usize, cut: Cut) -> Self {
        self.fault(Place::Events(events), Happening::Cut(cut))
    }

    /// Sends nothing but signs of life after the event that holds `needle` until the gate opens.
    #[must_use]
    pub fn babble_after(self, needle: &str, every: Duration, gate: &Gate) -> Self {
        self.must_hold(needle);
        self.fault(Place::AfterEvent(needle.to_owned()), Happening::Babble { every, gate: gate.clone() })
    }

    fn fault(mut self, place: Place, happening: Happening) -> Self {
        self.faults.push(Fault { place, happening });
        self
    }

    /// A needle that is in neither dialect's body is a mistake of the test, said where it was made.
    fn must_hold(&self, needle: &str) {
        let rules = Rules::default();
        let found = Dialect::ALL.into_iter().any(|dialect| {
            let body = self.body_for(&Asked { dialect, request: &Value::Null, rules: &rules });
            Place::After(needle.to_owned()).offset(&body).is_some()
        });
        assert!(found, "{needle:?} is not in the answer:\n{}", String::from_utf8_lossy(&self.body()));
    }

    /// The delivery of this body, faults at their bytes. The error says which place it does not have.
    pub(super) fn delivery_of(&self, dialect: Dialect, body: &[u8]) -> Result<Delivery, String> {
        let mut delivery = self.delivery.clone();
        for fault in &self.faults {
            let Some(at) = fault.place.offset(body) else {
                return Err(format!("the scripted answer has no {:?} in dialect {dialect}", fault.place));
            };
            delivery.cuts.push((at, fault.happening.cut(dialect)));
        }
        Ok(delivery)
    }
}

impl Happening {
    fn cut(&self, dialect: Dialect) -> Cut {
        match self {
            Self::Cut(cut) => cut.clone(),
            Self::Babble { every, gate } => {
                Cut::Babble { text: sign_of_life(dialect).to_owned(), every: *every, gate: gate.clone() }
            }
        }
    }
}

/// What a server sends to keep a connection alive.
pub(in crate::scripted) fn sign_of_life(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Anthropic => "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        Dialect::OpenAi => ": keepalive\n\n",
    }
}

impl Place {
    fn offset(&self, body: &[u8]) -> Option<usize> {
        match self {
            Self::Byte(at) => Some(*at),
            Self::After(needle) => {
                let mut windows = body.windows(needle.len());
                windows.position(|window| window == needle.as_bytes()).map(|at| at + needle.len())
            }
            Self::AfterEvent(needle) => {
                let at = Self::After(needle.clone()).offset(body)?;
                event_ends(body).find(|end| *end >= at)
            }
            Self::Events(0) => Some(0),
            Self::Events(events) => event_ends(body).nth(events - 1),
        }
    }
}

fn event_ends(body: &[u8]) -> impl Iterator<Item = usize> {
    let blank_line = |at: &usize| body[..*at].ends_with(b"\n\n") || body[..*at].ends_with(b"\r\n\r\n");
    (1..=body.len()).filter(blank_line)
}
