//! Thinking and what it is bound to: the model, `system`, `tools` and every earlier message, exactly.
//!
//! A signature that the server makes says itself what it is bound to, so that a check needs no memory; one that a
//! test made up is looked up in the ledger. Markers of the cache may move, and thinking may be removed from the
//! front; everything else counts as a change, as the vendor's documents say.

use super::messages::{Merged, merge, without_cache_markers};
use super::{Refusal, invalid};
use crate::scripted::ledger::Sent;
use crate::scripted::{Ledger, Rules};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What the signatures of this server begin with.
const MARK: &str = "sealed";

/// Where in a conversation an answer stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::scripted) struct Place {
    /// Blocks of its own message that stood there before it, thinking not counted: of a paused answer.
    pub(super) blocks_before: usize,
    /// Hash of all before it.
    pub(super) prefix: String,
}

/// What one thinking block is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::scripted) struct Seal {
    place: Place,
    /// Hash of the thinking block before it; none when there was none.
    previous: Option<String>,
    /// Hash of its text.
    text: String,
}

impl Seal {
    /// The seal of thinking in an answer to `request`, after the thinking with the signature `previous`.
    pub(super) fn new(place: Place, previous: Option<&str>, thinking: &str) -> Self {
        Self { place, previous: previous.map(hash), text: hash(thinking) }
    }

    pub(super) fn signature(&self) -> String {
        let previous = self.previous.as_deref().unwrap_or("-");
        format!("{MARK}.{}.{}.{previous}.{}", self.place.blocks_before, self.place.prefix, self.text)
    }

    fn parse(signature: &str) -> Option<Self> {
        let words: Vec<&str> = signature.split('.').collect();
        let [MARK, blocks_before, prefix, previous, text] = words[..] else { return None };
        let place = Place { blocks_before: blocks_before.parse().ok()?, prefix: prefix.to_owned() };
        let previous = (previous != "-").then(|| previous.to_owned());
        Some(Self { place, previous, text: text.to_owned() })
    }
}

fn hash(text: &str) -> String {
    hash_bytes(text.as_bytes())
}

fn hash_bytes(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// What proves a thinking block's origin: its signature, or its sealed data.
pub(super) fn signature(block: &Value) -> Option<&str> {
    match block["type"].as_str()? {
        "thinking" => Some(block["signature"].as_str().unwrap_or_default()),
        "redacted_thinking" => Some(block["data"].as_str().unwrap_or_default()),
        _ => None,
    }
}

fn text_of(block: &Value) -> &str {
    block["thinking"].as_str().unwrap_or_default()
}

fn said(message: &Merged) -> impl Iterator<Item = &Value> {
    message.blocks.iter().filter(|block| signature(block).is_none())
}

/// The place of an answer to `request`.
pub(super) fn place_of_answer(request: &Value) -> Place {
    let merged = merge(request["messages"].as_array().map_or(&[], Vec::as_slice));
    match merged.last() {
        Some(last) if last.role == "assistant" => {
            place(request, &merged, merged.len() - 1, said(last).count())
        }
        _ => place(request, &merged, merged.len(), 0),
    }
}

/// The place in message `index` after `blocks_before` of its blocks, thinking not counted.
fn place(body: &Value, merged: &[Merged], index: usize, blocks_before: usize) -> Place {
    // Thinking is bound by its own chain, see `Seal::previous`. A message of nothing else is not there without it.
    let mut kept: Vec<(&str, Vec<&Value>)> = Vec::new();
    let earlier = merged.iter().take(index).map(|message| (message, usize::MAX));
    for (message, count) in earlier.chain(merged.get(index).map(|message| (message, blocks_before))) {
        let blocks: Vec<&Value> = said(message).take(count).collect();
        match kept.last_mut() {
            _ if blocks.is_empty() => {}
            Some((role, last)) if *role == message.role => last.extend(blocks),
            _ => kept.push((&message.role, blocks)),
        }
    }
    let system = match &body["system"] {
        Value::String(text) => json!([{"type": "text", "text": text}]),
        blocks => blocks.clone(),
    };
    let prefix = without_cache_markers(json!([body["model"], system, body["tools"], kept]));
    Place { blocks_before, prefix: hash_bytes(prefix.to_string().as_bytes()) }
}

/// The signature of the newest thinking in a request.
pub(super) fn newest(request: &Value) -> Option<String> {
    let messages = request["messages"].as_array()?;
    let blocks: Vec<Value> = messages.iter().flat_map(super::messages::message_blocks).collect();
    blocks.iter().rev().find_map(|block| signature(block).map(str::to_owned))
}

/// Thinking comes back as it was sent, after the same prefix, and whole in an open tool loop.
pub(super) fn check(body: &Value, merged: &[Merged], rules: &Rules, ledger: &Ledger) -> Result<(), Refusal> {
    let latest = merged.iter().rposition(|message| message.role == "assistant");
    let mut previous: Option<&str> = None;
    for (index, message) in merged.iter().enumerate() {
        for (at, block) in message.blocks.iter().enumerate() {
            let Some(signature) = signature(block) else { continue };
            let path = format!("messages.{index}.content.{at}");
            if rules.refuse_replayed_thinking {
                return Err(bound_elsewhere(&path).switched());
            }
            let seals = seals_of(signature, ledger);
            if seals.is_empty() {
                return Err(bound_elsewhere(&path));
            }
            let genuine: Vec<&Seal> = seals.iter().filter(|seal| seal.text == hash(text_of(block))).collect();
            if genuine.is_empty() {
                let unchanged = format!("{path}: Invalid `signature` in `thinking` block");
                return Err(if latest == Some(index) { modified(&path) } else { invalid(unchanged) });
            }
            let fits = |seal: &&Seal| {
                seal.place == place(body, merged, index, seal.place.blocks_before)
                    && previous.is_none_or(|previous| seal.previous.as_deref() == Some(&hash(previous)))
            };
            if !genuine.into_iter().any(|seal| fits(&seal)) {
                return Err(bound_elsewhere(&path));
            }
            previous = Some(signature);
        }
    }
    check_latest(body, merged, ledger, previous.is_some())
}

fn seals_of(signature: &str, ledger: &Ledger) -> Vec<Seal> {
    let made_up = ledger.answers().flat_map(|sent| {
        let blocks = sent.blocks.iter().filter(|block| self::signature(block).is_some());
        blocks.zip(&sent.seals).filter(|(block, _)| self::signature(block) == Some(signature))
    });
    Seal::parse(signature).into_iter().chain(made_up.map(|(_, seal)| seal.clone())).collect()
}

/// The thinking of the newest answer is there if it would be valid. A client may leave out all thinking of a request
/// after some of it was refused, never some of the newest answer's.
fn check_latest(body: &Value, merged: &[Merged], ledger: &Ledger, any: bool) -> Result<(), Refusal> {
    let newest = merged.iter().enumerate().rev().find(|(_, message)| message.role == "assistant");
    let Some((index, last)) = newest else { return Ok(()) };
    if !any && (ledger.thinking_was_refused() || body["thinking"]["type"] == "disabled") {
        return Ok(());
    }
    // A new word of the user ends the loop; then the thinking of all of it may be left out.
    let goes_on = |message: &Merged| message.blocks.iter().all(|block| block["type"] == "tool_result");
    if !any && !merged.last().is_some_and(goes_on) {
        return Ok(());
    }
    let Some(call) = last.ids("tool_use", "id").pop() else { return Ok(()) };
    let here: Vec<&str> = last.blocks.iter().filter_map(signature).collect();
    let mut said_here = ledger
        .answers()
        .filter(|sent| sent.blocks.iter().any(|block| block["type"] == "tool_use" && block["id"] == call))
        .filter(|sent| sent.place == place(body, merged, index, sent.place.blocks_before))
        .peekable();
    let whole = |thinking: Vec<&str>| here.ends_with(&thinking);
    if said_here.peek().is_none()
        || said_here.any(|sent| whole(sent.blocks.iter().filter_map(signature).collect()))
    {
        return Ok(());
    }
    Err(modified(&format!("messages.{index}.content.0")))
}

fn bound_elsewhere(path: &str) -> Refusal {
    invalid(format!(
        "{path}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the \
         block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
    ))
}

fn modified(path: &str) -> Refusal {
    invalid(format!(
        "{path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These \
         blocks must remain as they were in the original response."
    ))
}

/// Whether the trailing assistant message is one of these answers, unchanged and in its place.
pub(super) fn continues<'a>(
    body: &Value,
    merged: &[Merged],
    mut paused: impl Iterator<Item = &'a Sent>,
    last: &Merged,
) -> bool {
    let shape = |block: &Value| (block["type"].clone(), block["text"].clone());
    paused.any(|sent| {
        let before = sent.place.blocks_before;
        let said_before = sent.blocks.iter().filter(|block| signature(block).is_none());
        sent.place == place(body, merged, merged.len() - 1, before)
            && said(last).skip(before).map(shape).eq(said_before.map(shape))
    })
}
