//! What a turn came to, collected from its events. Pure.

use crate::error::ErrorKind;
use crate::render::{json, words};
use agentd_proto::v1;
use agentd_proto::v1::event::Body;
use serde::Serialize;
use serde_json::Value;

/// Which turn is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The turn with this id.
    Turn(String),
    /// The turn that takes this input.
    OfInput(String),
}

/// A turn that is waited for.
#[derive(Debug)]
pub(crate) struct TurnWatch {
    session_id: String,
    which: Which,
    last_answer: String,
    end: Option<v1::TurnEnd>,
    pause: Option<v1::PauseInfo>,
}

/// How it ended, as `run --output json` prints it. The order of the fields is theirs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    /// The session.
    pub(crate) session: String,
    /// The word of the contract.
    pub(crate) status: String,
    /// The answer; only when completed.
    pub(crate) text: Option<String>,
    /// What there was of one, otherwise.
    pub(crate) partial_text: Option<String>,
    /// Model steps.
    pub(crate) steps: u32,
    /// Tokens.
    pub(crate) usage: Value,
    /// Price in US dollars; none where nobody knows what the model costs.
    pub(crate) cost_usd: Option<f64>,
    /// Calls denied because nobody could approve them.
    pub(crate) denied: u32,
    /// What went wrong.
    pub(crate) error: Option<String>,
    #[serde(skip)]
    kind: Option<ErrorKind>,
}

impl TurnWatch {
    /// Waits for a turn of this session.
    pub(crate) fn new(session_id: &str, which: Which) -> Self {
        Self { session_id: session_id.to_owned(), which, last_answer: String::new(), end: None, pause: None }
    }

    /// The turn's id, once it is known.
    pub(crate) fn turn_id(&self) -> Option<&str> {
        match &self.which {
            Which::Turn(id) => Some(id),
            Which::OfInput(_) => None,
        }
    }

    /// An event of the session; true when it belongs to the turn.
    pub(crate) fn event(&mut self, event: &v1::Event) -> bool {
        let ours = match (&self.which, &event.body) {
            (Which::OfInput(input_id), Some(Body::Input(info))) => info.input_id == *input_id,
            _ => false,
        };
        match event.kind.as_str() {
            "input_delivered" if ours => self.which = Which::Turn(event.turn_id.clone()),
            // Taken back by somebody: nothing will come of it.
            "input_withdrawn" if ours => {
                self.end = Some(v1::TurnEnd {
                    status: v1::TurnStatus::Interrupted.into(),
                    error: "the input was taken back before a turn took it".to_owned(),
                    ..Default::default()
                });
            }
            _ => {}
        }
        // An input that waits behind a turn waits for whatever that turn waits for.
        let behind = self.turn_id().is_none();
        match &event.body {
            Some(Body::Pause(pause)) if behind => self.pause = Some(pause.clone()),
            Some(Body::Turn(_)) if behind && event.kind == "turn_resumed" => self.pause = None,
            Some(Body::TurnEnd(_)) if behind && self.end.is_none() => self.pause = None,
            _ => {}
        }
        if self.turn_id() != Some(event.turn_id.as_str()) {
            return false;
        }
        match &event.body {
            Some(Body::Answer(answer)) => self.last_answer = answer_text(answer),
            Some(Body::TurnEnd(end)) => self.end = Some(end.clone()),
            Some(Body::Pause(pause)) => self.pause = Some(pause.clone()),
            Some(Body::Turn(_)) if event.kind == "turn_resumed" => self.pause = None,
            _ => {}
        }
        true
    }

    /// Why the turn waits, if it waits for more than an answer.
    pub(crate) const fn pause(&self) -> Option<&v1::PauseInfo> {
        self.pause.as_ref()
    }

    /// How it ended; None while it goes on. `open_text`: what was shown of an answer that never came.
    pub(crate) fn outcome(&self, open_text: &str) -> Option<Outcome> {
        let end = self.end.as_ref()?;
        let completed = end.status == v1::TurnStatus::Completed as i32;
        let mut outcome = self.unfinished(&words::turn_status(end.status), &end.error, open_text);
        if completed {
            outcome.text = Some(self.last_answer.clone());
            outcome.partial_text = None;
        }
        outcome.steps = end.steps;
        outcome.usage = json::usage(&end.usage.unwrap_or_default());
        outcome.cost_usd = words::known_usd(end.cost_micro_usd, end.cost_unknown);
        outcome.denied = end.denied;
        outcome.kind = match v1::TurnStatus::try_from(end.status) {
            Ok(v1::TurnStatus::Completed) if end.denied == 0 => None,
            Ok(v1::TurnStatus::Completed) => Some(ErrorKind::Denied),
            Ok(v1::TurnStatus::ProviderFailed) => Some(ErrorKind::ProviderFailed),
            Ok(v1::TurnStatus::Interrupted) => Some(ErrorKind::Interrupted),
            _ => Some(ErrorKind::Failed),
        };
        Some(outcome)
    }

    /// What there is of a turn that nobody waits for any longer.
    pub(crate) fn unfinished(&self, status: &str, error: &str, open_text: &str) -> Outcome {
        let partial = if open_text.is_empty() { self.last_answer.as_str() } else { open_text };
        Outcome {
            session: self.session_id.clone(),
            status: status.to_owned(),
            text: None,
            partial_text: (!partial.is_empty()).then(|| partial.to_owned()),
            steps: 0,
            usage: json::usage(&v1::Usage::default()),
            // Nobody waited for the sum.
            cost_usd: None,
            denied: 0,
            error: (!error.is_empty()).then(|| error.to_owned()),
            kind: Some(ErrorKind::Failed),
        }
    }
}

impl Outcome {
    /// With another kind of failure.
    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// The exit code of the contract.
    pub(crate) fn exit_code(&self) -> u8 {
        self.kind.map_or(0, ErrorKind::exit_code)
    }
}

/// The text for the reader. Text blocks side by side are one text (each citation begins a new block); what stood apart
/// begins on a line of its own.
fn answer_text(answer: &v1::Answer) -> String {
    let mut all = String::new();
    let mut apart = false;
    for block in &answer.blocks {
        if block.kind != "text" {
            apart = true;
            continue;
        }
        // Blank lines that stand alone are no part of a text.
        if (apart || all.is_empty()) && block.text.trim().is_empty() {
            continue;
        }
        if apart && !all.is_empty() && !all.ends_with('\n') {
            all.push('\n');
        }
        apart = false;
        all.push_str(&block.text);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, turn: &str, body: Body) -> v1::Event {
        v1::Event { kind: kind.into(), turn_id: turn.into(), body: Some(body), ..Default::default() }
    }

    fn end(status: v1::TurnStatus, denied: u32) -> Body {
        Body::TurnEnd(v1::TurnEnd { status: status.into(), denied, steps: 2, ..Default::default() })
    }

    fn text(text: &str) -> Body {
        let block = |kind: &str, text: &str| v1::AnswerBlock { kind: kind.into(), text: text.into() };
        Body::Answer(v1::Answer {
            blocks: vec![block("thinking", "hm"), block("text", text)],
            ..Default::default()
        })
    }

    #[test]
    fn texts_side_by_side_are_one_text() {
        let block = |kind: &str, text: &str| v1::AnswerBlock { kind: kind.into(), text: text.into() };
        let blocks =
            vec![block("text", "with "), block("text", "a storm"), block("other", ""), block("text", "sun")];
        assert_eq!(answer_text(&v1::Answer { blocks, ..Default::default() }), "with a storm\nsun");
    }

    fn watch() -> TurnWatch {
        TurnWatch::new("s_1", Which::Turn("t_1".into()))
    }

    #[test]
    fn the_exit_code_follows_the_status() {
        for (status, denied, code) in [
            (v1::TurnStatus::Completed, 0, 0),
            (v1::TurnStatus::Completed, 1, 5),
            (v1::TurnStatus::Empty, 0, 1),
            (v1::TurnStatus::Limit, 3, 1),
            (v1::TurnStatus::ProviderFailed, 0, 6),
            (v1::TurnStatus::Interrupted, 0, 130),
        ] {
            let mut watch = watch();
            watch.event(&event("turn_finished", "t_1", end(status, denied)));
            assert_eq!(watch.outcome("").unwrap().exit_code(), code, "{status:?}");
        }
    }

    #[test]
    fn text_is_filled_only_when_completed() {
        let mut watch = watch();
        watch.event(&event("model_call_finished", "t_1", text("first")));
        watch.event(&event("model_call_finished", "t_0", text("of another turn")));
        assert!(watch.outcome("").is_none());
        let mut cut = TurnWatch { end: None, ..TurnWatch::new("s_1", watch.which.clone()) };
        cut.last_answer = "first".into();
        cut.event(&event("turn_finished", "t_1", end(v1::TurnStatus::Interrupted, 0)));
        let outcome = cut.outcome("half of the sec").unwrap();
        assert_eq!((outcome.text, outcome.partial_text.as_deref()), (None, Some("half of the sec")));
        watch.event(&event("turn_finished", "t_1", end(v1::TurnStatus::Completed, 0)));
        let outcome = watch.outcome("").unwrap();
        assert_eq!((outcome.text.as_deref(), outcome.partial_text.as_deref()), (Some("first"), None));
        let printed = serde_json::to_string(&outcome).unwrap();
        assert!(printed.starts_with(
            r#"{"session":"s_1","status":"completed","text":"first","partial_text":null,"steps":2,"#
        ));
    }

    #[test]
    fn a_queued_input_finds_its_turn() {
        let mut watch = TurnWatch::new("s_1", Which::OfInput("i_2".into()));
        assert!(!watch.event(&event("turn_finished", "t_1", end(v1::TurnStatus::Failed, 0))));
        assert!(watch.outcome("").is_none());
        let delivered = v1::InputInfo { input_id: "i_2".into(), ..Default::default() };
        assert!(watch.event(&event("input_delivered", "t_2", Body::Input(delivered))));
        assert_eq!(watch.turn_id(), Some("t_2"));
        watch.event(&event("turn_finished", "t_2", end(v1::TurnStatus::Completed, 0)));
        assert!(watch.outcome("").is_some());
    }

    #[test]
    fn an_input_taken_back_ends_the_wait() {
        let mut watch = TurnWatch::new("s_1", Which::OfInput("i_2".into()));
        let withdrawn = v1::InputInfo { input_id: "i_2".into(), ..Default::default() };
        watch.event(&event("input_withdrawn", "", Body::Input(withdrawn)));
        assert_eq!(watch.outcome("").unwrap().exit_code(), 130);
    }

    #[test]
    fn a_resumed_turn_waits_no_longer() {
        let mut watch = watch();
        let pause = v1::PauseInfo { reason: "credentials".into(), ..Default::default() };
        watch.event(&event("turn_paused", "t_1", Body::Pause(pause)));
        assert_eq!(watch.pause().unwrap().reason, "credentials");
        watch.event(&event("turn_resumed", "t_1", Body::Turn(v1::TurnInfo::default())));
        assert!(watch.pause().is_none());
    }
}
