//! From the conversation to messages.
//!
//! Between two answers of the model stands one message from us: first the results of the answer's calls, in
//! call order whatever the order they ended in, then inputs and notices. Answers that follow each other
//! (after `pause_turn`) are one message.

use crate::event::{Block, BlockKind, EpochStarted};
use crate::ids::Seq;
use crate::model::request::{Message, Request, UserPart};
use crate::session::Session;
use crate::transcript::{Content, Item};
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// The request in no dialect.
pub(super) fn assemble<'a>(
    session: &'a Session,
    epoch: &'a EpochStarted,
    included_seq: Seq,
    max_output_tokens: u32,
) -> Request<'a> {
    let items = session.transcript.iter().take_while(|item| item.seq <= included_seq);
    let messages = messages(items, epoch.strip_thinking);
    let continuation = matches!(messages.last(), Some(Message::Assistant(_)));
    Request {
        profile: &epoch.profile,
        system: &epoch.system,
        tools: &epoch.tools,
        messages,
        max_output_tokens,
        continuation,
    }
}

fn messages<'a>(items: impl Iterator<Item = &'a Item>, strip_thinking: bool) -> Vec<Message<'a>> {
    let mut messages = Vec::new();
    let mut ours = Ours::default();
    for item in items {
        match &item.content {
            Content::Assistant { blocks, .. } => {
                ours.flush(&mut messages);
                push_answer(&mut messages, blocks, strip_thinking);
            }
            Content::Result { provider_call_id, position, text, is_error, .. } => ours
                .results
                .push((*position, UserPart::ToolResult { provider_call_id, text, is_error: *is_error })),
            Content::Input { text, .. } | Content::Notice { text, .. } => {
                ours.texts.push(UserPart::Text(text));
            }
        }
    }
    ours.flush(&mut messages);
    messages
}

/// What we say between two answers.
#[derive(Default)]
struct Ours<'a> {
    results: Vec<(u32, UserPart<'a>)>,
    texts: Vec<UserPart<'a>>,
}

impl<'a> Ours<'a> {
    fn flush(&mut self, messages: &mut Vec<Message<'a>>) {
        self.results.sort_by_key(|(position, _)| *position);
        let mut parts: Vec<UserPart<'a>> = self.results.drain(..).map(|(_, part)| part).collect();
        parts.append(&mut self.texts);
        if parts.is_empty() {
            return;
        }
        if let Some(Message::User(last)) = messages.last_mut() {
            last.append(&mut parts);
        } else {
            messages.push(Message::User(parts));
        }
    }
}

fn push_answer<'a>(messages: &mut Vec<Message<'a>>, blocks: &'a [Block], strip_thinking: bool) {
    let kept = |block: &&Block| {
        let thinks = matches!(block.kind, BlockKind::Thinking | BlockKind::RedactedThinking);
        !(block.is_blank() || thinks && strip_thinking)
    };
    // Text after a call breaks the pairing at the provider, although it sends it; calls go last.
    let late_text = blocks
        .iter()
        .skip_while(|block| block.kind != BlockKind::ToolUse)
        .any(|block| block.kind == BlockKind::Text && !block.is_blank());
    let mut raws: Vec<&RawValue> = Vec::with_capacity(blocks.len());
    if late_text {
        raws.extend(
            blocks
                .iter()
                .filter(kept)
                .filter(|block| block.kind != BlockKind::ToolUse)
                .map(|block| &*block.raw),
        );
        raws.extend(blocks.iter().filter(|block| block.kind == BlockKind::ToolUse).map(|block| &*block.raw));
    } else {
        raws.extend(blocks.iter().filter(kept).map(|block| &*block.raw));
    }
    if raws.is_empty() {
        return;
    }
    if let Some(Message::Assistant(last)) = messages.last_mut() {
        last.append(&mut raws);
    } else {
        messages.push(Message::Assistant(raws));
    }
}

/// An answer as it would stand in the next request, each of its calls answered.
pub(super) fn with_answer<'a>(epoch: &'a EpochStarted, blocks: &'a [Block]) -> Request<'a> {
    let mut messages = vec![Message::User(vec![UserPart::Text("-")])];
    push_answer(&mut messages, blocks, epoch.strip_thinking);
    let calls = blocks.iter().filter_map(|block| block.call.as_ref());
    let results: Vec<UserPart<'a>> = calls
        .map(|call| UserPart::ToolResult {
            provider_call_id: &call.provider_call_id,
            text: "-",
            is_error: false,
        })
        .collect();
    if !results.is_empty() {
        messages.push(Message::User(results));
    }
    let continuation = matches!(messages.last(), Some(Message::Assistant(_)));
    Request {
        profile: &epoch.profile,
        system: &epoch.system,
        tools: &epoch.tools,
        messages,
        max_output_tokens: 1,
        continuation,
    }
}

/// The first id of a call in these blocks that an earlier answer has used.
pub(super) fn used_id<'a>(session: &Session, blocks: &'a [Block]) -> Option<&'a str> {
    let earlier: BTreeSet<&str> = session
        .transcript
        .iter()
        .filter_map(|item| match &item.content {
            Content::Assistant { blocks, .. } => Some(blocks),
            _ => None,
        })
        .flat_map(|blocks| blocks.iter().filter_map(|block| block.call.as_ref()))
        .map(|call| call.provider_call_id.as_str())
        .collect();
    let ids =
        blocks.iter().filter_map(|block| block.call.as_ref()).map(|call| call.provider_call_id.as_str());
    ids.into_iter().find(|id| earlier.contains(id))
}
