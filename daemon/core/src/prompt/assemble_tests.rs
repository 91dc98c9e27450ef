//! Messages of a whole conversation, case by case.

use super::super::{build, unmarked_body};
use crate::event::*;
use crate::ids::{InputId, ModelCallId, RunId, Seq};
use crate::session::Session;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::Arc;

fn raw(json: &Value) -> Arc<RawValue> {
    Arc::from(RawValue::from_string(json.to_string()).unwrap())
}

/// A session that is told its facts one by one.
struct Told(Session, Seq);

impl Told {
    fn new(profile: ModelProfile) -> Self {
        let mut told = Self(Session::empty(), 0);
        told.epoch(profile, "created", false);
        told.fact(TurnStarted { turn: 1, input_ids: Vec::new(), run_id: RunId::new("d_1") });
        told
    }

    fn fact(&mut self, body: impl Into<EventBody>) {
        self.1 += 1;
        let event = Event { seq: self.1, at_ms: 0, turn: Some(1), origin: Origin::Daemon, body: body.into() };
        self.0.apply(&event);
    }

    fn epoch(&mut self, profile: ModelProfile, reason: &str, strip_thinking: bool) {
        let epoch = self.0.epochs.len() as u32 + 1;
        let tool = json!([{"name": "f", "description": "d", "input_schema": {"type": "object"}}]);
        self.fact(EpochStarted {
            epoch,
            reason: reason.to_owned(),
            profile,
            system: "s".into(),
            tools: raw(&tool),
            summary: None,
            strip_thinking,
            tokens_before: 0,
            tokens_after: 0,
        });
    }

    fn told(&mut self, text: &str) {
        let input_id = InputId::new(format!("i_{}", self.1));
        let parts = vec![InputPart::Text(text.to_owned())];
        self.fact(InputAccepted { input_id: input_id.clone(), delivery: Delivery::Queue, parts });
        self.fact(InputDelivered { input_id, step: 0 });
    }

    fn answers(&mut self, blocks: Vec<Block>) {
        let profile = self.0.epoch.as_ref().unwrap().profile.clone();
        let model_call_id = ModelCallId::new(format!("m_{}", self.1));
        self.fact(ModelCallStarted {
            model_call_id: model_call_id.clone(),
            purpose: "turn".to_owned(),
            attempt: 1,
            provider: profile.provider,
            model: profile.model,
            epoch: 1,
            included_seq: self.1,
            request_hash: String::new(),
            body_bytes: 0,
            est_tokens: 0,
            max_output_tokens: 1,
        });
        let stop = Stop { raw: None, class: StopClass::PauseTurn, explanation: None };
        self.fact(ModelCallFinished {
            model_call_id,
            blocks,
            stop,
            usage: Usage::default(),
            usage_raw: None,
            usage_reported: false,
            provider_message_id: None,
            provider_request_id: None,
            cost_micro_usd: 0,
            checks: Vec::new(),
            warnings: Vec::new(),
            last_prompt_tokens: None,
        });
    }

    fn messages(&self) -> Value {
        let built = build(&self.0, self.1, 100).unwrap();
        let body: Value = serde_json::from_slice(&built.body).unwrap();
        body["messages"].clone()
    }
}

fn profile(provider: &str, dialect: Dialect) -> ModelProfile {
    ModelProfile {
        provider: provider.to_owned(),
        model: "m".to_owned(),
        dialect,
        context_window: 100_000,
        max_output_tokens: 1_000,
        thinking: ThinkingForm::Omit,
        parallel_tool_calls: true,
        cache_markers: false,
        price: Price::default(),
        price_unknown: false,
        chat: ChatForm::default(),
        window_is_guess: false,
    }
}

fn thought(no: u8) -> Block {
    let json = json!({"type": "thinking", "thinking": format!("t{no}"), "signature": "s"});
    Block {
        kind: BlockKind::Thinking,
        raw: raw(&json),
        text: Some(format!("t{no}")),
        call: None,
        altered: false,
    }
}

fn words(text: &str) -> Block {
    let json = json!({"type": "text", "text": text});
    Block { kind: BlockKind::Text, raw: raw(&json), text: Some(text.to_owned()), call: None, altered: false }
}

fn search() -> Block {
    let json = json!({"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}});
    Block { kind: BlockKind::Other, raw: raw(&json), text: None, call: None, altered: false }
}

#[test]
fn what_we_said_around_an_answer_that_vanishes_is_one_message() {
    let mut told = Told::new(profile("a", Dialect::Anthropic));
    told.told("one");
    told.answers(vec![thought(1), search()]);
    told.told("two");
    assert_eq!(told.messages().as_array().unwrap().len(), 3);
    told.epoch(profile("o", Dialect::OpenAiChat), "model_changed", false);
    let both = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "one\n\ntwo"}]);
    assert_eq!(told.messages(), both);
    told.epoch(profile("b", Dialect::Anthropic), "model_changed", false);
    let parts = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]);
    assert_eq!(told.messages(), json!([{"role": "user", "content": parts}]));
}

#[test]
fn an_epoch_within_a_turn_strips_what_was_thought_before_it_and_nothing_after() {
    let anthropic = || profile("a", Dialect::Anthropic);
    let mut told = Told::new(anthropic());
    told.told("one");
    told.answers(vec![thought(1), words("x")]);
    told.told("two");
    told.epoch(anthropic(), "request_mended", true);
    let thoughts = |told: &Told| -> Vec<bool> {
        let said = told.messages().to_string();
        ["t1", "t2"].iter().map(|thought| said.contains(&format!("\"thinking\":\"{thought}\""))).collect()
    };
    assert_eq!(thoughts(&told), [false, false]);
    told.answers(vec![thought(2), words("y")]);
    told.told("three");
    assert_eq!(thoughts(&told), [false, true]);
    told.epoch(anthropic(), "tools_changed", false);
    assert_eq!(thoughts(&told), [true, true]);
}

#[test]
fn answers_that_follow_each_other_are_one_message_wherever_they_are_sent() {
    let mut told = Told::new(profile("a", Dialect::Anthropic));
    told.told("one");
    told.answers(vec![words("x"), search()]);
    told.answers(vec![words("y")]);
    assert_eq!(told.messages()[1]["content"].as_array().unwrap().len(), 3);
    told.told("two");
    told.epoch(profile("o", Dialect::OpenAiChat), "model_changed", false);
    assert_eq!(told.messages()[2], json!({"role": "assistant", "content": "xy"}));
}

#[test]
fn a_dialect_that_is_not_spoken_is_named() {
    let mut told = Told::new(profile("r", Dialect::OpenAiResponses));
    told.told("one");
    let error = build(&told.0, told.1, 100).unwrap_err().to_string();
    assert!(error.contains("provider r speaks openai-responses"), "{error}");
    assert!(unmarked_body(&told.0, told.1, 100).is_some());
}

#[test]
fn what_would_be_refused_is_not_built() {
    for dialect in [Dialect::Anthropic, Dialect::OpenAiChat] {
        let mut told = Told::new(profile("a", dialect));
        let error = build(&told.0, told.1, 100).unwrap_err().to_string();
        assert!(error.ends_with("no_messages"), "{error}");
        told.told("one");
        assert!(build(&told.0, told.1, 100).is_ok());
        assert!(build(&told.0, told.1, 0).unwrap_err().to_string().ends_with("max_tokens_zero"));
    }
}
