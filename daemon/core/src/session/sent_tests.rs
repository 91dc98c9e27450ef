//! What holds of every request of every log, read from its bytes without the builder's own types, by the rules of
//! the wire: whoever is spoken to, and whoever spoke before.

use super::Session;
use super::machine_tests::cases;
use super::world_tests::*;
use crate::event::*;
use crate::ids::Seq;
use crate::prompt;
use crate::transcript::{Content, Item};
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeSet;

type Checked = Result<(), TestCaseError>;

/// Runs a check on every request of a log, with the state it was built on.
fn each_request(world: &World, mut check: impl FnMut(&Session, &ModelCallStarted) -> Checked) -> Checked {
    let mut fold = Session::empty();
    for event in &world.log {
        fold.apply(event);
        if let EventBody::ModelCallStarted(started) = &event.body {
            check(&fold, started)?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_request_is_one_that_its_server_takes(setup in setup(), steps in switching_steps(80)) {
        let world = World::lived(&setup, &steps);
        each_request(&world, |fold, started| {
            let built = prompt::build(fold, started.included_seq, started.max_output_tokens);
            let built = built.map_err(|error| TestCaseError::fail(error.to_string()))?;
            let profile = &fold.epoch.as_ref().unwrap().profile;
            let body: Value = serde_json::from_slice(&built.body).unwrap();
            let said = match profile.dialect {
                Dialect::Anthropic => anthropic(&body)?,
                _ => chat(profile, &body)?,
            };
            says_what_was_said(fold, profile, started.included_seq, &said)
        })?;
        // No turn may end because its request could not be built.
        for event in &world.log {
            if let EventBody::TurnFinished(TurnFinished { error: Some(error), .. }) = &event.body {
                prop_assert!(!error.contains("was not sent"), "{}", error);
            }
        }
    }

    #[test]
    fn the_sent_prefix_of_an_epoch_never_changes(setup in setup(), steps in switching_steps(60)) {
        let world = World::lived(&setup, &steps);
        let mut last: Option<(u32, Vec<u8>)> = None;
        each_request(&world, |fold, started| {
            let body = prompt::unmarked_body(fold, started.included_seq, started.max_output_tokens).unwrap();
            if let Some((epoch, before)) = &last && *epoch == started.epoch {
                goes_on(before, &body)?;
            }
            last = Some((started.epoch, body));
            Ok(())
        })?;
    }

    #[test]
    fn only_kinds_that_add_content_change_what_is_sent(setup in setup(), steps in switching_steps(40)) {
        let world = World::lived(&setup, &steps);
        let mut fold = Session::empty();
        let mut before = None;
        for event in &world.log {
            fold.apply(event);
            let after = prompt::unmarked_body(&fold, event.seq, 1_000);
            if !event.body.kind().adds_content() {
                prop_assert_eq!(&after, &before, "changed by {:?}", event.body.kind());
            }
            before = after;
        }
    }
}

/// What a request says, whatever its dialect.
#[derive(Default)]
struct Said {
    ours: String,
    theirs: String,
    /// Arguments and result of each call.
    calls: Vec<(Value, String)>,
    thoughts: Vec<u64>,
}

fn text_of(value: &Value) -> Result<&str, TestCaseError> {
    value.as_str().ok_or_else(|| TestCaseError::fail(format!("not a text: {value}")))
}

fn is_word(name: &str, max: usize) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.len() <= max && name.chars().all(legal)
}

/// Every thought in a text, in order.
fn thoughts_in(text: &str) -> Vec<u64> {
    let numbers = text.split("think#").skip(1).map(|rest| rest.split_once(';').unwrap().0);
    numbers.map(|number| number.parse().unwrap()).collect()
}

/// The rules of Anthropic Messages.
fn anthropic(body: &Value) -> Result<Said, TestCaseError> {
    let mut said = Said::default();
    let mut ids = BTreeSet::new();
    let mut open: Vec<(String, Value)> = Vec::new();
    let messages = body["messages"].as_array().unwrap();
    prop_assert!(body["max_tokens"].as_u64().unwrap() > 0 && body["stream"] == true);
    for (at, message) in messages.iter().enumerate() {
        let content = message["content"].as_array().unwrap();
        prop_assert!(!content.is_empty());
        prop_assert_eq!(&message["role"], if at % 2 == 0 { "user" } else { "assistant" });
        let mut texts = 0;
        if at % 2 == 0 {
            for (place, block) in content.iter().enumerate() {
                if block["type"] == "text" {
                    said.ours.push_str(text_of(&block["text"])?);
                    prop_assert!(!text_of(&block["text"])?.trim().is_empty());
                    texts += 1;
                } else {
                    prop_assert_eq!(&block["type"], "tool_result");
                    prop_assert!(texts == 0 && place < open.len(), "a result stands first and has a call");
                    prop_assert_eq!(&block["tool_use_id"], open[place].0.as_str());
                    let result = block["content"].as_str().unwrap_or_default();
                    said.calls.push((open[place].1.clone(), result.to_owned()));
                }
            }
            prop_assert_eq!(content.len() - texts, open.len(), "a result for each call");
            open.clear();
            continue;
        }
        for block in content {
            match block["type"].as_str().unwrap() {
                "text" => {
                    prop_assert!(open.is_empty(), "text after a call");
                    prop_assert!(!text_of(&block["text"])?.trim().is_empty());
                    said.theirs.push_str(text_of(&block["text"])?);
                }
                "tool_use" => {
                    let id = text_of(&block["id"])?.to_owned();
                    prop_assert!(is_word(&id, usize::MAX) && ids.insert(id.clone()), "id {}", id);
                    prop_assert!(is_word(text_of(&block["name"])?, 128) && block["input"].is_object());
                    open.push((id, block["input"].clone()));
                }
                "thinking" => prop_assert!(block["signature"].is_string()),
                "redacted_thinking" => prop_assert!(block["data"].is_string()),
                "server_tool_use" | "web_search_tool_result" => {}
                other => prop_assert!(false, "a block of type {}", other),
            }
        }
    }
    prop_assert!(open.is_empty());
    said.thoughts = thoughts_in(&body["messages"].to_string());
    Ok(said)
}

/// The rules of Chat Completions, as the strictest of its servers keep them.
fn chat(profile: &ModelProfile, body: &Value) -> Result<Said, TestCaseError> {
    let mut said = Said::default();
    let mut ids = BTreeSet::new();
    let mut open: Vec<(String, Value)> = Vec::new();
    let messages = body["messages"].as_array().unwrap();
    let mistral = profile.provider == "mistral";
    let google = profile.provider == "google";
    let mut before = "system";
    prop_assert_eq!(&messages[0]["role"], "system");
    for (at, message) in messages.iter().enumerate().skip(1) {
        let role = message["role"].as_str().unwrap();
        prop_assert!(
            open.is_empty() || role == "tool",
            "message {} stands between a call and its result",
            at
        );
        match role {
            "tool" => {
                prop_assert!(!open.is_empty(), "a result without a call");
                let (id, args) = open.remove(0);
                prop_assert_eq!(&message["tool_call_id"], id.as_str());
                said.calls.push((args, text_of(&message["content"])?.to_owned()));
            }
            "user" => {
                prop_assert!(before != "user" && !(mistral && before == "tool"), "user after {}", before);
                prop_assert!(!text_of(&message["content"])?.trim().is_empty());
                said.ours.push_str(&text_of(&message["content"])?.replace("\n\n", ""));
            }
            _ => {
                prop_assert_eq!(role, "assistant");
                prop_assert!(before == "user" || before == "tool");
                spoken(profile, message, &mut said, &mut open)?;
                for (id, _) in &open {
                    prop_assert!(!id.is_empty() && ids.insert(id.clone()), "id {:?}", id);
                    let nine = id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric());
                    prop_assert!(!mistral || nine, "id {:?}", id);
                }
                if google && !open.is_empty() {
                    let first = &message["tool_calls"][0];
                    let signature = text_of(&first["extra_content"]["google"]["thought_signature"])?;
                    let own = format!("{}#{}", profile.model, open[0].1["n"]);
                    let is_own = signature == own || open[0].1 == serde_json::json!({});
                    prop_assert!(is_own || signature == "skip_thought_signature_validator", "{signature}");
                }
            }
        }
        before = role;
    }
    prop_assert!(open.is_empty() && (before == "user" || before == "tool"));
    said.thoughts = thoughts_in(&body["messages"].to_string());
    // A message says its reasoning in fields, so its order within the message is not the order it was made in.
    said.thoughts.sort_unstable();
    Ok(said)
}

/// One message of the model.
fn spoken(
    profile: &ModelProfile,
    message: &Value,
    said: &mut Said,
    open: &mut Vec<(String, Value)>,
) -> Checked {
    let calls = message["tool_calls"].as_array();
    prop_assert!(calls.is_none_or(|calls| !calls.is_empty()));
    match &message["content"] {
        Value::Null => prop_assert!(calls.is_some() && !profile.chat.empty_content),
        Value::String(text) if text.is_empty() => {
            prop_assert!(calls.is_some() && profile.chat.empty_content);
        }
        // Mistral's own word between results and us.
        Value::String(text) if text == "Done." => prop_assert!(calls.is_none()),
        Value::String(text) => {
            prop_assert!(!text.trim().is_empty());
            said.theirs.push_str(text);
        }
        Value::Array(parts) => {
            prop_assert!(profile.provider == "mistral" && !parts.is_empty());
            for part in parts {
                match part["type"].as_str().unwrap() {
                    "text" => said.theirs.push_str(text_of(&part["text"])?),
                    kind => prop_assert_eq!(kind, "thinking"),
                }
            }
        }
        other => prop_assert!(false, "content {}", other),
    }
    for call in calls.into_iter().flatten() {
        prop_assert_eq!(&call["type"], "function");
        prop_assert!(is_word(text_of(&call["function"]["name"])?, 64));
        let args: Value = serde_json::from_str(text_of(&call["function"]["arguments"])?).unwrap();
        prop_assert!(args.is_object());
        open.push((text_of(&call["id"])?.to_owned(), args));
    }
    Ok(())
}

/// All that was said is in the request, and each result with the call at its place; nothing else is.
fn says_what_was_said(fold: &Session, profile: &ModelProfile, included: Seq, said: &Said) -> Checked {
    let mut expected = Said::default();
    let items: Vec<&Item> = fold.transcript.iter().take_while(|item| item.seq <= included).collect();
    for (at, item) in items.iter().enumerate() {
        match &item.content {
            Content::Input { text, .. } | Content::Notice { text, .. } => expected.ours.push_str(text),
            Content::Result { .. } => {}
            Content::Assistant { blocks, .. } => {
                for block in blocks.iter().filter(|block| block.kind == BlockKind::Text) {
                    let words = block.text.as_deref().unwrap();
                    expected.theirs.push_str(if words.trim().is_empty() { "" } else { words });
                }
                let results = &items[at + 1..];
                let calls = blocks.iter().filter_map(|block| block.call.as_ref());
                expected.calls.extend(calls.enumerate().map(|(place, call)| {
                    let args = serde_json::from_str(call.args.get()).unwrap();
                    (args, result_at(profile.dialect, results, place))
                }));
                expected.thoughts.extend(allowed_thoughts(fold, profile, item));
            }
        }
    }
    prop_assert_eq!(&said.ours, &expected.ours.replace("\n\n", ""));
    prop_assert_eq!(&said.theirs, &expected.theirs);
    prop_assert_eq!(&said.calls, &expected.calls);
    prop_assert_eq!(&said.thoughts, &expected.thoughts);
    Ok(())
}

/// The text of the result at this place of the answer before.
fn result_at(dialect: Dialect, results: &[&Item], wanted: usize) -> String {
    for item in results {
        if let Content::Result { position, text, is_error, .. } = &item.content
            && *position as usize == wanted
        {
            let says_so = text.to_lowercase().starts_with("error");
            return match (dialect, *is_error && !says_so) {
                (Dialect::Anthropic, _) | (_, false) => text.to_string(),
                (_, true) if text.is_empty() => "Error: no output".to_owned(),
                (_, true) => format!("Error: {text}"),
            };
        }
    }
    panic!("call {wanted} has no result");
}

/// The thoughts of an answer that may and must go back: those of the very model, unless the epoch strips what came
/// before it, or the server takes none.
fn allowed_thoughts(fold: &Session, profile: &ModelProfile, item: &Item) -> Vec<u64> {
    let Content::Assistant { speaker, blocks, .. } = &item.content else { return Vec::new() };
    let is_chat = profile.dialect != Dialect::Anthropic;
    let same = (speaker.provider.as_str(), speaker.model.as_str(), speaker.dialect)
        == (profile.provider.as_str(), profile.model.as_str(), profile.dialect);
    let (_, began) = *fold.epochs.last().unwrap();
    let stripped = fold.epoch.as_ref().unwrap().strip_thinking && item.seq < began;
    let says_something = blocks.iter().any(|block| {
        block.call.is_some()
            || block.kind == BlockKind::Text && !block.text.as_deref().unwrap().trim().is_empty()
    });
    let never = is_chat && (profile.chat.reasoning == ReasoningReplay::Never || !says_something);
    if !same || stripped || never {
        return Vec::new();
    }
    blocks.iter().flat_map(|block| thoughts_in(block.raw.get())).collect()
}

/// The messages of a body, each as its bytes.
fn messages_of(body: &[u8]) -> Vec<Box<RawValue>> {
    #[derive(serde::Deserialize)]
    struct Body {
        messages: Vec<Box<RawValue>>,
    }
    serde_json::from_slice::<Body>(body).unwrap().messages
}

/// Every message stays to the byte; only the last one may get more said behind it, by us or (after `pause_turn`) by
/// the model.
fn goes_on(before: &[u8], after: &[u8]) -> Checked {
    let (before, after) = (messages_of(before), messages_of(after));
    prop_assert!(before.len() <= after.len());
    for (at, (old, new)) in before.iter().zip(&after).enumerate() {
        let (old, new) = (old.get(), new.get());
        // `"}` closes a text, `]}` the parts of one: what was said before them is said again.
        let said = ["\"}", "]}"].iter().find_map(|end| old.strip_suffix(end)).unwrap();
        let grows = [r#"{"role":"user""#, r#"{"role":"assistant","content":[{"#];
        let may_grow = at + 1 == before.len() && grows.iter().any(|role| old.starts_with(role));
        prop_assert!(
            old == new || may_grow && new.starts_with(said),
            "message {}: {} became {}",
            at,
            old,
            new
        );
    }
    Ok(())
}

/// A property that is never put to the test holds of anything. So what the scripts come to is counted.
#[test]
fn scripts_reach_every_server_with_the_words_of_every_other() {
    use proptest::strategy::ValueTree;
    use std::collections::BTreeMap;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..300 {
        let (setup, steps) = (setup(), switching_steps(80)).new_tree(&mut runner).unwrap().current();
        let world = World::lived(&setup, &steps);
        each_request(&world, |fold, started| {
            let body = prompt::unmarked_body(fold, started.included_seq, 1).unwrap();
            let body = String::from_utf8(body).unwrap();
            let marks = [
                ("a word for Mistral", r#""content":"Done.""#),
                ("a stand-in", "skip_thought_signature_validator"),
                ("a signature", r#"_signature":"pro#"#),
                ("a made id", r#""id":"call_m_"#),
                ("thinking", r#""type":"thinking""#),
                ("hidden thinking", r#""type":"redacted_thinking""#),
                ("reasoning", r#""reasoning_content":"#),
                ("reasoning details", r#""reasoning_details":"#),
                ("a search", r#""type":"server_tool_use""#),
                ("an error", r#""content":"Error: "#),
                ("calls only", r#""content":null,"tool_calls""#),
                ("calls only", r#""content":"","tool_calls""#),
            ];
            for (corner, _) in marks.iter().filter(|mark| body.contains(mark.1)) {
                *seen.entry((*corner).to_owned()).or_default() += 1;
            }
            for item in fold.transcript.iter() {
                let Content::Assistant { speaker, blocks, .. } = &item.content else { continue };
                if blocks.iter().any(|block| block.call.is_some()) {
                    *seen
                        .entry(format!("{} called, {} listens", speaker.provider, started.provider))
                        .or_default() += 1;
                }
            }
            Ok(())
        })
        .unwrap();
    }
    let providers = ["fake", "mirror", "open", "mistral", "google", "local"];
    let met = providers.iter().flat_map(|from| providers.map(|to| format!("{from} called, {to} listens")));
    let corners = [
        "a word for Mistral",
        "a stand-in",
        "a signature",
        "a made id",
        "thinking",
        "hidden thinking",
        "reasoning",
        "reasoning details",
        "a search",
        "an error",
        "calls only",
    ];
    for corner in met.chain(corners.map(str::to_owned)) {
        assert!(seen.get(&corner).is_some_and(|count| *count >= 3), "{corner} is hardly reached: {seen:#?}");
    }
}
