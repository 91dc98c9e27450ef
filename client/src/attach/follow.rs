//! Following a session over everything that may happen to the stream.
//!
//! Invariants: every event comes out once and in order of its sequence number, whatever connections were
//! lost in between; after a loss the stream is opened after the last event that came out; a hole in the
//! numbers is a loss too; a daemon that said that it stops is not started again from here, because whoever stopped it
//! meant it. [`Follow::next`] may be dropped and called again at any await (it is used in
//! `select!`).

use crate::connect::link::{Link, Successor};
use crate::connect::stub;
use crate::error::ClientError;
use agentd_proto::v1;
use agentd_proto::v1::attach_response::Frame;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;
use tonic::Streaming;

/// Losses in a row, without one new event between them, after which following is given up.
const LOSSES_IN_A_ROW_MAX: u32 = 12;
/// Wait before the second and later openings in a row, times their number.
const REOPEN_STEP_MS: u64 = if cfg!(test) { 1 } else { 50 };

/// How long to wait for the successor of a daemon that was told to stop, once that one is gone: a restart starts it.
const SUCCESSOR_WAIT: Duration =
    if cfg!(test) { Duration::from_millis(200) } else { Duration::from_secs(10) };
/// How often to look for it.
const LOOK_EVERY: Duration = if cfg!(test) { Duration::from_millis(2) } else { Duration::from_millis(100) };

/// What to follow and how.
#[derive(Clone, Debug)]
pub(crate) struct FollowOptions {
    /// The session's id.
    pub(crate) session_id: String,
    /// Events after this one; overrides `history`.
    pub(crate) after_seq: Option<u64>,
    /// How much of the past.
    pub(crate) history: v1::History,
    /// Shown to others.
    pub(crate) role: v1::AttachRole,
    /// Live text too.
    pub(crate) deltas: bool,
    /// Events with their stored bodies.
    pub(crate) include_raw: bool,
}

/// What came.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// How things are; the first after each opening.
    Snapshot(Box<v1::Session>),
    /// The next event.
    Event(Box<v1::Event>),
    /// A piece of live text, or the open block from its beginning.
    Delta(v1::Delta),
    /// The log has been read to its end.
    CaughtUp,
    /// Live text was dropped; a draft follows.
    Lagged(u64),
    /// The daemon is gone; it is looked for.
    Lost(String),
    /// The daemon is there again: its run, and whether it is another one.
    Back {
        /// The run that answers now.
        run_id: String,
        /// It is not the run from before.
        new_run: bool,
    },
    /// The session is gone; nothing follows.
    Ended(String),
    /// The daemon was stopped and nobody started another one; nothing follows. The session is still there.
    Stopped,
}

/// A session being followed.
pub(crate) struct Follow {
    link: Link,
    options: FollowOptions,
    stream: Option<Streaming<v1::AttachResponse>>,
    /// The generation of the link that the stream, or the last try, used.
    generation: u64,
    run_id: String,
    /// The last event that came out, or the place where the stream began.
    seen_seq: Option<u64>,
    losses: u32,
    link_is_lost: bool,
    /// The daemon said that it stops: it is waited for, not started.
    stopping: bool,
    /// Until when a successor is waited for; set when nobody answers.
    successor_by: Option<Instant>,
    waiting: VecDeque<Step>,
    /// What every further step is.
    over: Option<Step>,
}

impl Follow {
    /// Nothing is sent before the first [`Self::next`].
    pub(crate) fn new(link: Link, options: FollowOptions) -> Self {
        let (opened, generation) = link.now();
        Self {
            link,
            seen_seq: options.after_seq,
            options,
            stream: None,
            generation,
            run_id: opened.hello.run_id,
            losses: 0,
            link_is_lost: false,
            stopping: false,
            successor_by: None,
            waiting: VecDeque::new(),
            over: None,
        }
    }

    /// The last event that came out; 0 when none did.
    pub(crate) fn seen_seq(&self) -> u64 {
        self.seen_seq.unwrap_or(0)
    }

    /// The next step. Fails when the daemon refuses, or cannot be found again.
    pub(crate) async fn next(&mut self) -> Result<Step, ClientError> {
        loop {
            if let Some(step) = self.waiting.pop_front() {
                return Ok(step);
            }
            if let Some(over) = &self.over {
                return Ok(over.clone());
            }
            if self.stopping {
                self.wait_for_successor().await?;
                continue;
            }
            if self.link_is_lost {
                self.find_again().await?;
                continue;
            }
            let Some(stream) = self.stream.as_mut() else {
                self.open().await?;
                continue;
            };
            match stream.message().await {
                Ok(Some(v1::AttachResponse { frame: Some(frame) })) => {
                    if let Some(step) = self.take(frame)? {
                        return Ok(step);
                    }
                }
                // A frame of a later protocol.
                Ok(Some(v1::AttachResponse { frame: None })) => {}
                Ok(None) => self.lose("the stream ended")?,
                Err(status) => self.refused(status)?,
            }
        }
    }

    async fn open(&mut self) -> Result<(), ClientError> {
        if self.losses > 1 {
            tokio::time::sleep(Duration::from_millis(REOPEN_STEP_MS * u64::from(self.losses))).await;
        }
        let (opened, generation) = self.link.now();
        self.generation = generation;
        if opened.hello.run_id != self.run_id {
            // Somebody else of this command dialled again before we noticed.
            self.run_id.clone_from(&opened.hello.run_id);
            self.waiting.push_back(Step::Back { run_id: opened.hello.run_id, new_run: true });
        }
        let request = v1::AttachRequest {
            session_id: self.options.session_id.clone(),
            after_seq: self.seen_seq,
            history: self.options.history.into(),
            role: self.options.role.into(),
            deltas: self.options.deltas,
            include_raw: self.options.include_raw,
        };
        match stub::turns(opened.channel).attach(request).await {
            Ok(response) => self.stream = Some(response.into_inner()),
            Err(status) => self.refused(status)?,
        }
        Ok(())
    }

    /// Looks once, after a while.
    async fn wait_for_successor(&mut self) -> Result<(), ClientError> {
        tokio::time::sleep(LOOK_EVERY).await;
        match self.link.look_for_successor(self.generation, &self.run_id).await? {
            Successor::Found => {
                self.stopping = false;
                self.successor_by = None;
                self.found();
            }
            Successor::NotYet => {}
            Successor::Nobody => {
                let by = *self.successor_by.get_or_insert_with(|| Instant::now() + SUCCESSOR_WAIT);
                if Instant::now() >= by {
                    self.over = Some(Step::Stopped);
                }
            }
        }
        Ok(())
    }

    async fn find_again(&mut self) -> Result<(), ClientError> {
        self.link.renew(self.generation).await?;
        self.found();
        Ok(())
    }

    fn found(&mut self) {
        let (opened, generation) = self.link.now();
        self.link_is_lost = false;
        self.generation = generation;
        let new_run = opened.hello.run_id != self.run_id;
        self.run_id.clone_from(&opened.hello.run_id);
        self.waiting.push_back(Step::Back { run_id: opened.hello.run_id, new_run });
    }

    /// What the daemon refused, or a loss.
    fn refused(&mut self, status: tonic::Status) -> Result<(), ClientError> {
        let error = ClientError::from(status);
        let draining = error.reason == Some(agentd_proto::reason::Reason::Draining);
        if error.is_lost_connection() || draining { self.lose(&error.message) } else { Err(error) }
    }

    fn lose(&mut self, why: &str) -> Result<(), ClientError> {
        self.stream = None;
        self.losses += 1;
        if self.losses > LOSSES_IN_A_ROW_MAX {
            return Err(ClientError::unreachable(format!(
                "the daemon was lost {LOSSES_IN_A_ROW_MAX} times in a row while following the session ({why})"
            ))
            .hint("agentctl daemon logs   shows why it ended"));
        }
        if !self.link_is_lost {
            self.link_is_lost = true;
            self.waiting.push_back(Step::Lost(why.to_owned()));
        }
        Ok(())
    }

    fn take(&mut self, frame: Frame) -> Result<Option<Step>, ClientError> {
        Ok(Some(match frame {
            Frame::Snapshot(session) => Step::Snapshot(Box::new(session)),
            Frame::Event(event) => return self.take_event(event),
            Frame::Draft(delta) | Frame::Delta(delta) => Step::Delta(delta),
            Frame::CaughtUp(caught_up) => {
                self.seen_seq.get_or_insert(caught_up.last_seq);
                Step::CaughtUp
            }
            Frame::Lagged(lagged) => Step::Lagged(lagged.dropped),
            Frame::GoingAway(away) => {
                self.stream = None;
                if away.reason.contains("deleted") || away.reason.contains("removed") {
                    self.over = Some(Step::Ended(String::new()));
                    return Ok(Some(Step::Ended(away.reason)));
                }
                self.stopping = away.reason.contains("stopping");
                self.lose(&away.reason)?;
                return Ok(None);
            }
        }))
    }

    fn take_event(&mut self, event: v1::Event) -> Result<Option<Step>, ClientError> {
        match self.seen_seq {
            // It came out before the loss.
            Some(seen) if event.seq <= seen => return Ok(None),
            Some(seen) if event.seq > seen + 1 => {
                // The daemon is well, but this stream has a hole: read again from before it.
                self.stream = None;
                self.losses += 1;
                if self.losses > LOSSES_IN_A_ROW_MAX {
                    return Err(ClientError::failed(format!(
                        "the log has a hole between events {seen} and {}",
                        event.seq
                    ))
                    .hint("agentctl audit verify   checks the trail beside the log")
                    .hint("agentctl daemon logs   shows what the daemon says of it"));
                }
                return Ok(None);
            }
            _ => {}
        }
        self.seen_seq = Some(event.seq);
        self.losses = 0;
        Ok(Some(Step::Event(Box::new(event))))
    }
}
