//! What a client knows of a session from what it was sent: who is asked what, and which turn runs. Pure.

use agentd_proto::v1;
use agentd_proto::v1::event::Body;
use std::collections::BTreeSet;

/// A request that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Its id.
    pub(crate) request_id: String,
    /// The hash of what is shown.
    pub(crate) shown_hash: String,
    /// `approval`, `question`, `elicitation`.
    pub(crate) kind: String,
}

/// What is known of a session.
#[derive(Debug, Default)]
pub(crate) struct Known {
    asks: Vec<Ask>,
    closed: BTreeSet<String>,
    in_snapshot: Vec<v1::OpenRequest>,
    turn_id: Option<String>,
    snapshot_running: bool,
}

impl Known {
    /// How things are at the beginning of a stream.
    pub(crate) fn snapshot(&mut self, session: &v1::Session) {
        let Some(summary) = &session.summary else { return };
        self.in_snapshot.clone_from(&summary.open_requests);
        self.snapshot_running = matches!(
            v1::SessionState::try_from(summary.state),
            Ok(v1::SessionState::Running | v1::SessionState::Waiting)
        );
    }

    /// An event.
    pub(crate) fn event(&mut self, event: &v1::Event) {
        match &event.body {
            Some(Body::Request(info)) => self.asks.push(Ask {
                request_id: info.request_id.clone(),
                shown_hash: info.shown_hash.clone(),
                kind: info.kind.clone(),
            }),
            Some(Body::RequestEnd(end)) => {
                self.asks.retain(|ask| ask.request_id != end.request_id);
                self.closed.insert(end.request_id.clone());
            }
            Some(Body::Turn(_)) if event.kind == "turn_started" => {
                self.turn_id = Some(event.turn_id.clone());
                self.snapshot_running = false;
            }
            Some(Body::TurnEnd(_)) => {
                self.turn_id = None;
                self.snapshot_running = false;
            }
            _ => {}
        }
    }

    /// The log has been read: requests of the snapshot that the history did not hold.
    pub(crate) fn caught_up(&mut self) -> Vec<v1::OpenRequest> {
        let unseen: Vec<_> = std::mem::take(&mut self.in_snapshot)
            .into_iter()
            .filter(|open| !self.closed.contains(&open.request_id))
            .filter(|open| self.asks.iter().all(|ask| ask.request_id != open.request_id))
            .collect();
        self.asks.extend(unseen.iter().map(|open| Ask {
            request_id: open.request_id.clone(),
            shown_hash: open.shown_hash.clone(),
            kind: open.kind.clone(),
        }));
        unseen
    }

    /// Requests that wait, the oldest first.
    pub(crate) fn asks(&self) -> &[Ask] {
        &self.asks
    }

    /// The request a person means: the oldest, or the only one whose id begins so.
    pub(crate) fn ask(&self, prefix: Option<&str>) -> Option<&Ask> {
        let Some(prefix) = prefix else { return self.asks.first() };
        let mut fitting = self.asks.iter().filter(|ask| ask.request_id.starts_with(prefix));
        fitting.next().filter(|_| fitting.next().is_none())
    }

    /// Whether a turn is at work, as far as is known.
    pub(crate) const fn is_running(&self) -> bool {
        self.turn_id.is_some() || self.snapshot_running
    }

    /// The turn at work, if its beginning was seen.
    pub(crate) fn turn_id(&self) -> Option<&str> {
        self.turn_id.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(id: &str) -> v1::Event {
        let info = v1::RequestInfo {
            request_id: id.into(),
            shown_hash: format!("hash of {id}"),
            ..Default::default()
        };
        v1::Event { kind: "request_opened".into(), body: Some(Body::Request(info)), ..Default::default() }
    }

    fn closed(id: &str) -> v1::Event {
        let end = v1::RequestEnd { request_id: id.into(), ..Default::default() };
        v1::Event { kind: "request_closed".into(), body: Some(Body::RequestEnd(end)), ..Default::default() }
    }

    fn snapshot(ids: &[&str]) -> v1::Session {
        let open_requests =
            ids.iter().map(|id| v1::OpenRequest { request_id: (*id).into(), ..Default::default() }).collect();
        let summary = v1::SessionSummary { open_requests, state: 3, ..Default::default() };
        v1::Session { summary: Some(summary), ..Default::default() }
    }

    #[test]
    fn requests_come_from_the_log_or_the_snapshot_but_once() {
        let mut known = Known::default();
        known.snapshot(&snapshot(&["r_1", "r_2", "r_3"]));
        known.event(&opened("r_2"));
        known.event(&opened("r_9"));
        known.event(&closed("r_9"));
        known.event(&closed("r_3"));
        let unseen: Vec<_> = known.caught_up().into_iter().map(|open| open.request_id).collect();
        assert_eq!(unseen, ["r_1"]);
        assert_eq!(known.asks().len(), 2);
        assert_eq!(known.caught_up(), []);
        assert!(known.is_running());
    }

    #[test]
    fn a_beginning_must_mean_one_request() {
        let mut known = Known::default();
        known.event(&opened("r_12"));
        known.event(&opened("r_13"));
        assert_eq!(known.ask(None).unwrap().request_id, "r_12");
        assert_eq!(known.ask(Some("r_13")).unwrap().shown_hash, "hash of r_13");
        assert_eq!(known.ask(Some("r_1")), None);
        assert_eq!(known.ask(Some("r_7")), None);
    }

    #[test]
    fn a_turn_runs_from_its_start_to_its_end() {
        let mut known = Known::default();
        let start = v1::Event {
            kind: "turn_started".into(),
            turn_id: "t_1".into(),
            body: Some(Body::Turn(v1::TurnInfo::default())),
            ..Default::default()
        };
        known.event(&start);
        assert_eq!((known.is_running(), known.turn_id()), (true, Some("t_1")));
        let end = v1::Event { body: Some(Body::TurnEnd(v1::TurnEnd::default())), ..Default::default() };
        known.event(&end);
        assert!(!known.is_running());
    }
}
