//! What of one answer is sent, by who gave it and who is spoken to.

use super::*;
use crate::event::{CallIdForm, ChatForm, ModelProfile, Price, ThinkingForm};
use std::sync::Arc;

fn profile(provider: &str, model: &str, dialect: Dialect) -> ModelProfile {
    ModelProfile {
        provider: provider.into(),
        model: model.into(),
        dialect,
        context_window: 1,
        max_output_tokens: 1,
        thinking: ThinkingForm::Omit,
        parallel_tool_calls: true,
        cache_markers: false,
        price: Price::default(),
        price_unknown: false,
        chat: ChatForm::default(),
        window_is_guess: false,
    }
}

fn raw(json: &str) -> Arc<serde_json::value::RawValue> {
    Arc::from(serde_json::value::RawValue::from_string(json.to_owned()).unwrap())
}

fn block(kind: BlockKind, json: &str, text: Option<&str>) -> Block {
    Block { kind, raw: raw(json), text: text.map(str::to_owned), call: None, altered: false }
}

fn call(id: &str, name: &str, json: &str) -> Block {
    let call = BlockCall {
        provider_call_id: id.to_owned(),
        name: name.to_owned(),
        args: raw(r#"{"b":1, "a":2}"#),
        complete: true,
        fault: None,
    };
    Block { call: Some(call), ..block(BlockKind::ToolUse, json, None) }
}

const TEXT: &str = r#"{"type":"text", "text":"words"}"#;
const THOUGHT: &str = r#"{"type":"thinking","thinking":"hm","signature":"s"}"#;
const HIDDEN: &str = r#"{"type":"redacted_thinking","data":"x"}"#;
const SEARCH: &str = r#"{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}"#;
const FOUND: &str = r#"{"type":"web_search_tool_result","tool_use_id":"srv","content":[]}"#;
const CALL: &str =
    r#"{"type":"tool_use","id":"t", "name":"f","input":{"b":1, "a":2},"caller":{"type":"direct"}}"#;

/// An answer with a block of every kind.
fn everything() -> Vec<Block> {
    vec![
        block(BlockKind::Thinking, THOUGHT, Some("hm")),
        block(BlockKind::RedactedThinking, HIDDEN, None),
        block(BlockKind::Text, r#"{"type":"text","text":" "}"#, Some(" ")),
        block(BlockKind::Other, SEARCH, None),
        block(BlockKind::Other, FOUND, None),
        block(BlockKind::Text, TEXT, Some("words")),
        call("t", "f", CALL),
    ]
}

fn said_by(profile: &ModelProfile) -> Speaker {
    Speaker { provider: profile.provider.clone(), model: profile.model.clone(), dialect: profile.dialect }
}

/// What is sent of the blocks, each part in one line.
fn lines(to: &ModelProfile, from: &ModelProfile, blocks: &[Block], strip: Option<Seq>) -> Vec<String> {
    let epoch = EpochStarted {
        epoch: 1,
        reason: String::new(),
        profile: to.clone(),
        system: "".into(),
        tools: raw("[]"),
        summary: None,
        strip_thinking: strip.is_some(),
        tokens_before: 0,
        tokens_after: 0,
    };
    let listener = Listener { epoch: &epoch, began: strip.unwrap_or(0) };
    let (speaker, model_call_id) = (said_by(from), ModelCallId::new("m_1"));
    let answer = Answer { seq: 10, model_call_id: &model_call_id, speaker: &speaker, blocks };
    let sent = sent(listener, answer, &mut CallIds::new(to));
    let line = |part: AnswerPart<'_>| match part {
        AnswerPart::Own { raw, .. } => raw.get().to_owned(),
        AnswerPart::Text(text) => format!("text {text}"),
        AnswerPart::Call { id, name, args } => format!("call {id} {name} {}", args.get()),
    };
    sent.parts.into_iter().map(line).collect()
}

fn anthropic() -> ModelProfile {
    profile("a", "m", Dialect::Anthropic)
}

fn chat() -> ModelProfile {
    profile("o", "m", Dialect::OpenAiChat)
}

#[test]
fn its_own_answer_goes_back_whole_and_in_order() {
    let own = [THOUGHT, HIDDEN, SEARCH, FOUND, TEXT, CALL];
    assert_eq!(lines(&anthropic(), &anthropic(), &everything(), None), own);
}

#[test]
fn thinking_goes_back_to_the_model_that_thought_it() {
    let other = profile("a", "n", Dialect::Anthropic);
    assert_eq!(lines(&other, &anthropic(), &everything(), None), [SEARCH, FOUND, TEXT, CALL]);
}

#[test]
fn an_epoch_that_strips_thinking_strips_what_came_before_it() {
    let stripped = [SEARCH, FOUND, TEXT, CALL];
    assert_eq!(lines(&anthropic(), &anthropic(), &everything(), Some(11)), stripped);
    assert_eq!(lines(&anthropic(), &anthropic(), &everything(), Some(9)).len(), 6);
}

#[test]
fn elsewhere_it_is_text_and_calls() {
    let plain = ["text words", r#"call t f {"b":1, "a":2}"#];
    for to in [
        chat(),
        profile("a", "m", Dialect::OpenAiChat),
        profile("b", "m", Dialect::Anthropic),
        profile("o", "m", Dialect::Anthropic),
    ] {
        assert_eq!(lines(&to, &anthropic(), &everything(), None), plain, "{to:?}");
    }
    // What comes back from there is as plain.
    let reasoning = r#"{"type":"reasoning","field":"r","text":"hm"}"#;
    let said = [
        block(BlockKind::Thinking, reasoning, Some("hm")),
        call("functions.f:0", "f", r#"{"id":"functions.f:0","type":"function","function":{}}"#),
        block(BlockKind::Text, TEXT, Some("words")),
    ];
    assert_eq!(
        lines(&anthropic(), &chat(), &said, None),
        ["text words", r#"call call_m_1_0 f {"b":1, "a":2}"#]
    );
}

#[test]
fn an_answer_of_which_nothing_is_left_is_left_out() {
    let searched = [
        block(BlockKind::Thinking, THOUGHT, Some("hm")),
        block(BlockKind::Other, SEARCH, None),
        block(BlockKind::Other, FOUND, None),
    ];
    assert_eq!(lines(&chat(), &anthropic(), &searched, None), [] as [&str; 0]);
    // Reasoning beside nothing is a message at Anthropic only.
    let thought = [block(BlockKind::Thinking, r#"{"type":"reasoning","field":"r","text":"x"}"#, Some("x"))];
    assert_eq!(lines(&chat(), &chat(), &thought, None), [] as [&str; 0]);
    assert_eq!(lines(&anthropic(), &anthropic(), &searched[..1], None), [THOUGHT]);
}

#[test]
fn a_server_that_takes_no_reasoning_gets_none() {
    let reasoning = r#"{"type":"reasoning","field":"r","text":"hm"}"#;
    let said =
        [block(BlockKind::Thinking, reasoning, Some("hm")), block(BlockKind::Text, TEXT, Some("words"))];
    assert_eq!(lines(&chat(), &chat(), &said, None), [reasoning, TEXT]);
    let never = ChatForm { reasoning: ReasoningReplay::Never, ..ChatForm::default() };
    let never = ModelProfile { chat: never, ..chat() };
    assert_eq!(lines(&never, &chat(), &said, None), [TEXT]);
}

#[test]
fn chat_completions_have_no_place_for_what_is_unknown() {
    let said =
        [block(BlockKind::Other, r#"{"type":"audio"}"#, None), block(BlockKind::Text, TEXT, Some("words"))];
    assert_eq!(lines(&chat(), &chat(), &said, None), [TEXT]);
}

#[test]
fn an_id_may_be_longer_where_it_was_made() {
    let id = "y".repeat(41);
    let json = format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#);
    let blocks = [call(&id, "f", &json)];
    assert_eq!(lines(&chat(), &chat(), &blocks, None), [json]);
    let elsewhere = profile("p", "m", Dialect::OpenAiChat);
    assert_eq!(lines(&elsewhere, &chat(), &blocks, None), [r#"call call_m_1_0 f {"b":1, "a":2}"#]);
}

#[test]
fn calls_go_last_where_text_came_after_them() {
    let late = [
        call("t", "f", CALL),
        block(BlockKind::Thinking, THOUGHT, Some("hm")),
        call("u", "f", r#"{"type":"tool_use","id":"u","name":"f","input":{}}"#),
    ];
    let own: Vec<&str> = late.iter().map(|block| block.raw.get()).collect();
    assert_eq!(lines(&anthropic(), &anthropic(), &late, None), own);
    let later = [late.as_slice(), &[block(BlockKind::Text, TEXT, Some("words"))]].concat();
    assert_eq!(lines(&anthropic(), &anthropic(), &later, None), [own[1], TEXT, own[0], own[2]]);
}

#[test]
fn a_name_is_as_long_as_the_dialect_lets_it_be() {
    let long = "n".repeat(100);
    let json = format!(r#"{{"type":"tool_use","id":"t","name":"{long}","input":{{}}}}"#);
    let blocks = [call("t", &long, &json)];
    assert_eq!(lines(&anthropic(), &anthropic(), &blocks, None), [json]);
    let short = format!(r#"call t {} {{"b":1, "a":2}}"#, "n".repeat(64));
    assert_eq!(lines(&chat(), &anthropic(), &blocks, None), [short]);
    let odd = [call("t", "mcp.f g", CALL)];
    assert_eq!(lines(&anthropic(), &anthropic(), &odd, None), [r#"call t mcp_f_g {"b":1, "a":2}"#]);
}

#[test]
fn an_own_call_under_another_id_stays_what_it_was() {
    let signed =
        r#"{"id":"c","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"x":1}}"#;
    let blocks = [call("c", "f", signed), call("c", "f", signed)];
    let renamed = signed.replace(r#""id":"c""#, r#""id":"call_m_1_1""#);
    assert_eq!(lines(&chat(), &chat(), &blocks, None), [signed, renamed.as_str()]);
    let nine = ChatForm { call_ids: CallIdForm::NineAlphanumeric, ..ChatForm::default() };
    let nine = ModelProfile { chat: nine, ..chat() };
    let kept = [call("abcdefgh1", "f", &signed.replace("\"c\"", "\"abcdefgh1\""))];
    assert_eq!(lines(&nine, &nine, &kept, None), [kept[0].raw.get()]);
}

#[test]
fn a_signature_is_for_the_model_that_signed() {
    let signed = r#"{"id":"c","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}"#;
    let google = ChatForm { stand_in_signature: true, ..ChatForm::default() };
    let pro = ModelProfile { chat: google, ..profile("g", "pro", Dialect::OpenAiChat) };
    let flash = ModelProfile { model: "flash".to_owned(), ..pro.clone() };
    let blocks = [call("c", "f", signed)];
    assert_eq!(lines(&pro, &pro, &blocks, None), [signed]);
    assert_eq!(lines(&flash, &pro, &blocks, None), [r#"call c f {"b":1, "a":2}"#]);
}
