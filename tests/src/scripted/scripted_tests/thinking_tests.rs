//! Thinking comes back as it was, where it was made, for the model that made it.

use super::anthropic::{assistant, call, plain, request, result, tool, user, with};
use super::turn::{opening, step};
use super::wire::ask;
use crate::scripted::{Answer, Dialect, Ledger, Rules, ScriptedModel, refusal};
use serde_json::{Value, json};

const ELSEWHERE: &str = "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".";
const MODIFIED: &str = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.";

/// A conversation of three answers that think, and what is known of it.
struct Conversation {
    request: Value,
    ledger: Ledger,
}

impl Conversation {
    fn new() -> Self {
        let mut this = Self { request: opening(Dialect::Anthropic, "hi"), ledger: Ledger::default() };
        this.request["system"] = "Be brief.".into();
        for number in 1..=3 {
            let scripted = Answer::new().thought(&format!("thought {number}")).text("I look.").tool_use(
                &format!("c{number}"),
                "read_file",
                json!({}),
            );
            let body = scripted.body_to(Dialect::Anthropic, &this.request, &Rules::default());
            this.ledger.record(Dialect::Anthropic, &this.request, &body);
            let messages = this.request["messages"].as_array_mut().unwrap();
            messages.push(super::turn::answer(Dialect::Anthropic, &body));
            messages.push(user([result(&format!("c{number}"))]));
        }
        this
    }

    /// What a changed request is refused with.
    fn said(&self, change: impl FnOnce(&mut Value)) -> Option<String> {
        let mut request = self.request.clone();
        change(&mut request);
        let body = request.to_string();
        refusal(Dialect::Anthropic, body.as_bytes(), &Rules::default(), &self.ledger)
            .map(|refused| refused.message)
    }

    /// As [`Self::said`], by the signatures alone.
    fn said_without_memory(&self, change: impl FnOnce(&mut Value)) -> Option<String> {
        Self { request: self.request.clone(), ledger: Ledger::default() }.said(change)
    }
}

fn blocks(request: &mut Value, message: usize) -> &mut Vec<Value> {
    request["messages"][message]["content"].as_array_mut().unwrap()
}

/// Named changes of a conversation, and what each is refused with.
type Change = (&'static str, fn(&mut Value), &'static str);

const CHANGES: [Change; 13] = [
    ("first message edited", |r| r["messages"][0]["content"] = "hello".into(), ELSEWHERE),
    ("system rebuilt", |r| r["system"] = "Be brief!".into(), ELSEWHERE),
    ("tools rebuilt", |r| r["tools"][0]["description"] = "Reads files.".into(), ELSEWHERE),
    ("tool added", |r| r["tools"].as_array_mut().unwrap().push(with(tool(), "name", "b")), ELSEWHERE),
    ("other model", |r| r["model"] = "claude-opus-5-5".into(), ELSEWHERE),
    ("old result edited", |r| blocks(r, 2)[0]["content"] = "cleared".into(), ELSEWHERE),
    ("text slipped into an old turn", |r| blocks(r, 2).push(super::anthropic::text("note")), ELSEWHERE),
    ("old answer's text edited", |r| blocks(r, 1)[1]["text"] = "I looked.".into(), ELSEWHERE),
    ("thinking dropped from the middle", |r| drop(blocks(r, 3).remove(0)), ELSEWHERE),
    (
        "old thinking edited",
        |r| blocks(r, 1)[0]["thinking"] = "?".into(),
        "Invalid `signature` in `thinking` block",
    ),
    ("newest thinking edited", |r| blocks(r, 5)[0]["thinking"] = "?".into(), MODIFIED),
    ("newest thinking left out", |r| drop(blocks(r, 5).remove(0)), MODIFIED),
    (
        "all thinking left out",
        |r| {
            for message in [1, 3, 5] {
                blocks(r, message).remove(0);
            }
        },
        MODIFIED,
    ),
];

#[test]
fn thinking_is_bound_to_all_that_was_before_it() {
    let conversation = Conversation::new();
    assert_eq!(conversation.said(|_| {}), None);
    for (name, change, expected) in CHANGES {
        let said = conversation.said(change).unwrap_or_default();
        assert!(said.contains(expected), "{name}: {said:?}");
        if !name.ends_with("left out") {
            let said = conversation.said_without_memory(change).unwrap_or_default();
            assert!(said.contains(expected), "{name}, by the signature alone: {said:?}");
        }
    }
}

#[test]
fn what_is_no_change_is_taken() {
    let conversation = Conversation::new();
    let marker = || json!({"type": "ephemeral"});
    let marked = |request: &mut Value| {
        request["system"] = json!([{"type": "text", "text": "Be brief.", "cache_control": marker()}]);
        blocks(request, 2)[0]["cache_control"] = marker();
        request["messages"][0]["content"] =
            json!([{"type": "text", "text": "hi", "cache_control": marker()}]);
    };
    assert_eq!(conversation.said(marked), None, "markers move");
    assert_eq!(conversation.said(|r| r["output_config"] = json!({"effort": "low"})), None, "effort");
    assert_eq!(conversation.said(|r| drop(blocks(r, 1).remove(0))), None, "the oldest thinking left out");
    let two = |r: &mut Value| {
        blocks(r, 1).remove(0);
        blocks(r, 3).remove(0);
    };
    assert_eq!(conversation.said(two), None, "the two oldest left out");
    assert_eq!(
        conversation.said(|r| blocks(r, 6).push(super::anthropic::text("and?"))),
        None,
        "something new"
    );
}

#[test]
fn after_a_refusal_all_thinking_may_go() {
    let mut conversation = Conversation::new();
    let none = |r: &mut Value| {
        for message in [1, 3, 5] {
            blocks(r, message).remove(0);
        }
    };
    let body = with(conversation.request.clone(), "system", "Other.").to_string();
    let refused =
        refusal(Dialect::Anthropic, body.as_bytes(), &Rules::default(), &conversation.ledger).unwrap();
    assert!(conversation.said(none).is_some());
    conversation.ledger.record_refusal(&refused);
    assert_eq!(conversation.said(none), None);
}

#[test]
fn the_server_holds_clients_to_it() {
    let server = ScriptedModel::with([
        Answer::new().thought("").thought("and again").tool_use("c1", "read_file", json!({})),
        Answer::new().redacted_thinking("opaque").thought("third").tool_use("c2", "read_file", json!({})),
        Answer::saying("ok"),
    ]);
    let first = step(&server, Dialect::Anthropic, plain());
    let second = step(&server, Dialect::Anthropic, first);
    assert_eq!(ask(&server, &second).status, 200);
    server.assert_no_violations();
    server.expect_violations();
    let mut changed = second;
    blocks(&mut changed, 3)[0]["data"] = "other".into();
    assert!(ask(&server, &changed).text().contains("Invalid `signature`"));
    assert_eq!(server.violations().len(), 1);
}

#[test]
fn a_signature_that_a_test_made_up_is_held_to_the_same() {
    let answer = || Answer::new().thinking("long", "sig-1").tool_use("c1", "read_file", json!({}));
    let thought = json!({"type": "thinking", "thinking": "long", "signature": "sig-1"});
    let history = |first: &str, thinking: Value| {
        request(json!([user(first), assistant([thinking, call("c1")]), user([result("c1")])]))
    };
    let server = ScriptedModel::with([answer(), Answer::saying("ok"), Answer::saying("ok")]);
    server.expect_violations();
    assert_eq!(ask(&server, &plain()).status, 200);
    assert_eq!(ask(&server, &history("hi", thought.clone())).status, 200);
    let marked = json!([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]);
    let mut moved = history("hi", thought.clone());
    moved["messages"][0]["content"] = marked;
    assert_eq!(ask(&server, &moved).status, 200, "cache markers may move");
    let altered = ask(&server, &history("hi", with(thought.clone(), "thinking", "short")));
    assert!(altered.text().contains("cannot be modified"));
    let other = ask(&server, &history("hello", thought));
    assert!(other.text().contains("bound to a different conversation"));
}

#[test]
fn a_paused_answer_may_be_continued_as_it_was() {
    let paused = |thought: &str| Answer::new().thought(thought).text("half").stop("pause_turn");
    let server = ScriptedModel::with([
        paused("one"),
        paused("two"),
        Answer::new().thought("three").tool_use("c1", "read_file", json!({})),
        Answer::saying("done"),
    ]);
    let mut history = plain();
    for _ in 0..2 {
        let reply = ask(&server, &history);
        assert_eq!(reply.status, 200, "{}", reply.text());
        history["messages"]
            .as_array_mut()
            .unwrap()
            .push(super::turn::answer(Dialect::Anthropic, &reply.body));
    }
    let history = step(&server, Dialect::Anthropic, history);
    assert_eq!(ask(&server, &history).status, 200);
    server.assert_no_violations();
    server.expect_violations();
    let mut altered = history;
    altered["messages"].as_array_mut().unwrap().truncate(2);
    blocks(&mut altered, 1)[1]["text"] = "other".into();
    assert!(ask(&server, &altered).text().contains("prefill"));
}
