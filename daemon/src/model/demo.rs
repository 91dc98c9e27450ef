//! `demo/tour`: a scripted model inside the daemon.
//!
//! Purpose: show the main job without key and network. It reads the request body that a provider would get,
//! decides its next answer from what the conversation really holds, and speaks it as the bytes of an Anthropic
//! stream through the same decoder as everybody.
//!
//! Invariants: the same body gives the same bytes; it never claims what the results do not show; the pauses
//! that make streaming visible are bounded.
//!
//! Deliberately absent: anything that looks at files, clock or network.

use super::http::finish;
use super::outcome::{Answer, CallFailure};
use super::provider::DEMO_URL;
use super::record::Recorder;
use agentd_core::event::{Dialect, FailureClass};
use agentd_core::model::live::{LiveDelta, Progress};
use agentd_core::model::reader::AnswerReader;
use bytes::Bytes;
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use std::time::Duration;

/// A prompt that makes the model give its tour. Any prompt about a failing test does.
pub const TOUR_PROMPT: &str =
    "The tests of this project fail. Find out why, fix it, and show that they pass.";

/// The files of the scratch workspace: path, content, mode.
pub fn tour_workspace() -> &'static [(&'static str, &'static str, u32)] {
    &[
        ("README.md", include_str!("tour/README.md"), 0o644),
        ("greet.sh", include_str!("tour/greet.sh"), 0o755),
        ("test.sh", include_str!("tour/test.sh"), 0o755),
    ]
}

const OLD_LINE: &str = "echo \"Hello, $nmae!\"";
const NEW_LINE: &str = "echo \"Hello, $name!\"";
const TEST: &str = "sh test.sh";
const SLOW_TEST: &str = "sh test.sh --slow";
const TOOLS: [&str; 4] = ["list_dir", "read_file", "run_command", "edit_file"];

/// All pauses of one answer together.
const PAUSES_MS: u64 = 480;
/// One pause at most.
const PAUSE_MAX_MS: u64 = 12;
/// Bytes of one piece of the stream: odd, so that pieces end inside events and characters.
const PIECE_BYTES: usize = 61;
/// Characters of one delta.
const DELTA_CHARS: usize = 9;

/// Answers a request.
pub(super) async fn call(
    seed: &str,
    body: &Bytes,
    recorder: &Recorder,
    on_delta: &mut (dyn FnMut(LiveDelta) + Send),
) -> Result<Answer, CallFailure> {
    let broken = |failure| CallFailure::decoding(failure, "demo");
    if let Ok(nowhere) = Url::parse(DEMO_URL) {
        recorder.request(&nowhere, &HeaderMap::new(), body);
    }
    let stream = answer(body)?;
    let mut reader = AnswerReader::new(Dialect::Anthropic);
    let pieces = stream.len().div_ceil(PIECE_BYTES).max(1) as u64;
    let pause = Duration::from_micros((PAUSES_MS * 1_000 / pieces).min(PAUSE_MAX_MS * 1_000));
    recorder.status(200, &HeaderMap::new());
    for piece in stream.chunks(PIECE_BYTES) {
        recorder.chunk(&Bytes::copy_from_slice(piece));
        if reader.push(piece, &mut *on_delta).map_err(broken)? == Progress::Complete {
            break;
        }
        tokio::time::sleep(pause).await;
    }
    let decoded = finish(reader, seed, body, on_delta).map_err(broken)?;
    Ok(Answer { decoded, provider_request_id: None })
}

/// The bytes of the answer to a request body.
fn answer(body: &[u8]) -> Result<Vec<u8>, CallFailure> {
    let request: Value = serde_json::from_slice(body).map_err(|error| {
        CallFailure::new(FailureClass::BadRequest, format!("demo: the request is not JSON: {error}"))
    })?;
    let talk = Talk::read(&request);
    let step = next_step(&talk);
    Ok(speak(&step, &talk, body.len()))
}

/// What the model says next.
#[derive(Debug, Default, PartialEq)]
struct Step {
    text: String,
    calls: Vec<(&'static str, Value)>,
}

impl Step {
    fn say(text: impl Into<String>) -> Self {
        Self { text: text.into(), calls: Vec::new() }
    }
    fn call(mut self, tool: &'static str, input: Value) -> Self {
        self.calls.push((tool, input));
        self
    }
}

/// One call and what came of it.
#[derive(Debug)]
struct Done {
    tool: String,
    input: Value,
    result: String,
    is_error: bool,
}

impl Done {
    fn is_command(&self, command: &str) -> bool {
        self.tool == "run_command" && self.input["command"] == command
    }
    fn passed(&self) -> bool {
        self.result.contains(" checks passed") && !self.result.contains("not ok ")
    }
    fn failed(&self) -> bool {
        self.result.contains("not ok ")
    }
    /// The first line of the result, for quoting.
    fn first_line(&self) -> &str {
        self.result.lines().find(|line| !line.trim().is_empty()).unwrap_or("(nothing)")
    }
    /// The line that sums the checks up.
    fn verdict(&self) -> &str {
        self.result.lines().find(|line| line.contains(" checks passed")).unwrap_or_else(|| self.first_line())
    }
}

/// The conversation as the script needs it.
#[derive(Debug, Default)]
struct Talk {
    prompt: String,
    done: Vec<Done>,
    calls_before: usize,
    /// The last answer made no call: the turn was over.
    ended: bool,
    answers: usize,
    tools: Vec<String>,
}

impl Talk {
    fn read(request: &Value) -> Self {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let name = |tool: &Value| tool["name"].as_str().map(str::to_owned);
        let mut talk =
            Self { tools: list(&request["tools"]).iter().filter_map(name).collect(), ..Self::default() };
        let mut open: Vec<(String, Done)> = Vec::new();
        for message in list(&request["messages"]) {
            let blocks = match &message["content"] {
                Value::String(text) => vec![json!({"type": "text", "text": text})],
                content => list(content),
            };
            if message["role"] == "assistant" {
                talk.answers += 1;
                talk.ended = !blocks.iter().any(|block| block["type"] == "tool_use");
            } else if !blocks.iter().any(|block| block["type"] == "tool_result") {
                talk.hear(&blocks);
            }
            for block in &blocks {
                let text = |field: &str| block[field].as_str().unwrap_or_default().to_owned();
                match block["type"].as_str().unwrap_or_default() {
                    "tool_use" => {
                        talk.calls_before += 1;
                        let (tool, input) = (text("name"), block["input"].clone());
                        open.push((text("id"), Done { tool, input, result: String::new(), is_error: false }));
                    }
                    "tool_result" => {
                        let id = text("tool_use_id");
                        if let Some(at) = open.iter().position(|(call, _)| *call == id) {
                            let mut done = open.remove(at).1;
                            done.result = result_text(&block["content"]);
                            done.is_error = block["is_error"] == true;
                            talk.done.push(done);
                        }
                    }
                    _ => {}
                }
            }
        }
        talk
    }

    /// A message that stands alone begins something new; inside a tour, and beside results, it is a remark (of
    /// the harness after a restart, or of a person), and the tour goes on.
    fn hear(&mut self, blocks: &[Value]) {
        let words: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let words = words.join("\n");
        if self.prompt.is_empty() || self.ended || is_tour(&words) {
            self.prompt = words;
            self.done.clear();
            self.ended = false;
        }
    }

    fn find(&self, wanted: impl Fn(&Done) -> bool) -> Option<&Done> {
        self.done.iter().rev().find(|done| wanted(done))
    }
}

fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn is_tour(prompt: &str) -> bool {
    let prompt = prompt.to_lowercase();
    prompt.contains("test") && ["fail", "fix", "pass", "broken"].iter().any(|word| prompt.contains(word))
}

fn next_step(talk: &Talk) -> Step {
    if !is_tour(&talk.prompt) {
        return Step::say(
            "I am demo/tour, a script inside the daemon and no language model: I can only show how a failing test is \
             found and fixed in the demo's own workspace. Ask me to fix the failing tests there, or choose a real model, \
             for example with ANTHROPIC_API_KEY set: `agentctl run --model anthropic/claude-sonnet-5-5 \"...\"`.",
        );
    }
    let missing: Vec<&str> =
        TOOLS.into_iter().filter(|tool| !talk.tools.iter().any(|offered| offered == tool)).collect();
    if !missing.is_empty() {
        return Step::say(format!("I cannot give the tour here: I was not offered {}.", missing.join(", ")));
    }
    let Some(source) = talk.find(|done| done.tool == "read_file" && done.input["path"] == "greet.sh") else {
        return Step::say("I will look around first: what is here, and what the script does.")
            .call("list_dir", json!({"path": "."}))
            .call("read_file", json!({"path": "greet.sh"}));
    };
    if source.is_error {
        return Step::say(format!(
            "I could not read greet.sh, so this is not the workspace of the tour. The tool said: {}",
            source.first_line()
        ));
    }
    let Some(test) = talk.find(|done| done.is_command(TEST)) else {
        return Step::say("Now the tests, to see the failure with my own eyes.")
            .call("run_command", json!({"command": TEST}));
    };
    match talk.find(|done| done.tool == "edit_file") {
        None => before_edit(source, test),
        Some(edit) if edit.is_error => Step::say(format!(
            "The edit of greet.sh was not made, so I stop here and the tests still fail. What I was told: {}",
            edit.first_line()
        )),
        Some(_) => after_edit(talk.find(|done| done.is_command(SLOW_TEST))),
    }
}

fn before_edit(source: &Done, test: &Done) -> Step {
    if test.passed() {
        return Step::say(format!("There is nothing to fix: {}.", test.verdict()));
    }
    if !test.failed() {
        return Step::say(format!(
            "The tests did not run to their end, so I change nothing. Result: {}",
            test.first_line()
        ));
    }
    if !source.result.contains("$nmae") {
        return Step::say(
            "The tests fail, but not with the mistake that I know from my script, so I change nothing. A real model would \
             look further.",
        );
    }
    Step::say(format!(
        "{}: every greeting lacks its name. The script sets `name` and prints `$nmae`, a typing mistake. I will correct \
         that one line.",
        test.verdict()
    ))
    .call("edit_file", json!({"path": "greet.sh", "old": OLD_LINE, "new": NEW_LINE}))
}

fn after_edit(slow: Option<&Done>) -> Step {
    match slow {
        None => Step::say(
            "The line is corrected. I will run the tests again, slowly this time, one line a second.",
        )
        .call("run_command", json!({"command": SLOW_TEST})),
        Some(slow) if slow.passed() => Step::say(format!(
            "Done. greet.sh printed `$nmae` where it meant `$name`; after the correction {}.",
            slow.verdict()
        )),
        Some(slow) => Step::say(format!(
            "I corrected the typing mistake in greet.sh, but I cannot say that the tests pass. The last run ended with: {}",
            slow.verdict()
        )),
    }
}

/// The step as the bytes of a stream. Token counts are estimates of four bytes each.
fn speak(step: &Step, talk: &Talk, body_bytes: usize) -> Vec<u8> {
    let mut out = String::new();
    let mut event = |data: &Value| {
        let name = data["type"].as_str().unwrap_or_default();
        out.push_str(&format!("event: {name}\ndata: {data}\n\n"));
    };
    let input_tokens = body_bytes.div_ceil(4);
    event(&json!({"type": "message_start", "message": {
        "id": format!("msg_demo_{}", talk.answers), "type": "message", "role": "assistant", "model": "tour", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": input_tokens, "output_tokens": 1}}}));
    event(&json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}));
    event(&json!({"type": "ping"}));
    for piece in pieces(&step.text, DELTA_CHARS) {
        event(
            &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}),
        );
    }
    event(&json!({"type": "content_block_stop", "index": 0}));
    let mut output_bytes = step.text.len();
    for (at, (tool, input)) in step.calls.iter().enumerate() {
        let index = at + 1;
        let id = format!("toolu_demo_{}", talk.calls_before + at + 1);
        event(&json!({"type": "content_block_start", "index": index,
            "content_block": {"type": "tool_use", "id": id, "name": tool, "input": {}}}));
        let args = input.to_string();
        output_bytes += args.len() + tool.len();
        for piece in pieces(&args, 3 * DELTA_CHARS) {
            let delta = json!({"type": "input_json_delta", "partial_json": piece});
            event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        event(&json!({"type": "content_block_stop", "index": index}));
    }
    let stop = if step.calls.is_empty() { "end_turn" } else { "tool_use" };
    event(&json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": {"output_tokens": output_bytes.div_ceil(4)}}));
    event(&json!({"type": "message_stop"}));
    out.into_bytes()
}

fn pieces(text: &str, chars: usize) -> Vec<String> {
    let chars_of: Vec<char> = text.chars().collect();
    chars_of.chunks(chars).map(|chunk| chunk.iter().collect()).collect()
}

#[cfg(test)]
#[path = "demo_tests.rs"]
mod tests;
