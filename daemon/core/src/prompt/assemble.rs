//! From the conversation to messages.
//!
//! Between two answers of the model stands one message from us: first the results of the answer's calls, in
//! call order whatever the order they ended in, then inputs and notices. Answers that follow each other
//! (after `pause_turn`) are one message, and so is what we say around an answer of which nothing is sent.

use super::answer::{Answer, Listener, Sent, sent};
use super::call_ids::CallIds;
use crate::event::{Block, EpochStarted};
use crate::ids::{ModelCallId, Seq};
use crate::model::request::{AnswerPart, Message, Request, UserPart};
use crate::session::Session;
use crate::transcript::{Content, Item, Speaker};
use std::borrow::Cow;

/// The request in no dialect.
pub(super) fn assemble<'a>(
    session: &'a Session,
    epoch: &'a EpochStarted,
    included_seq: Seq,
    max_output_tokens: u32,
) -> Request<'a> {
    let items = session.transcript.iter().take_while(|item| item.seq <= included_seq);
    request(epoch, messages(listener(session, epoch), items), max_output_tokens)
}

fn request<'a>(epoch: &'a EpochStarted, messages: Vec<Message<'a>>, max_output_tokens: u32) -> Request<'a> {
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

fn listener<'a>(session: &Session, epoch: &'a EpochStarted) -> Listener<'a> {
    let began = session.epochs.iter().rev().find(|(no, _)| *no == epoch.epoch).map_or(0, |(_, seq)| *seq);
    Listener { epoch, began }
}

fn messages<'a>(listener: Listener<'a>, items: impl Iterator<Item = &'a Item>) -> Vec<Message<'a>> {
    let mut messages = Vec::new();
    let mut ids = CallIds::new(&listener.epoch.profile);
    // The ids of the last answer's calls, by place.
    let mut open: Vec<Cow<'a, str>> = Vec::new();
    let mut ours = Ours::default();
    for item in items {
        match &item.content {
            Content::Assistant { model_call_id, speaker, blocks } => {
                ours.flush(&mut messages);
                let answer = Answer { seq: item.seq, model_call_id, speaker, blocks };
                let Sent { parts, ids } = sent(listener, answer, &mut ids);
                push_answer(&mut messages, parts);
                open = ids;
            }
            Content::Result { provider_call_id, position, text, is_error, .. } => {
                let known = usize::try_from(*position).ok().and_then(|place| open.get(place));
                let provider_call_id = known.cloned().unwrap_or_else(|| Cow::Borrowed(&**provider_call_id));
                ours.results
                    .push((*position, UserPart::ToolResult { provider_call_id, text, is_error: *is_error }));
            }
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

fn push_answer<'a>(messages: &mut Vec<Message<'a>>, mut parts: Vec<AnswerPart<'a>>) {
    if parts.is_empty() {
        return;
    }
    if let Some(Message::Assistant(last)) = messages.last_mut() {
        last.append(&mut parts);
    } else {
        messages.push(Message::Assistant(parts));
    }
}

/// An answer as it would stand in the next request, each of its calls answered.
pub(super) fn with_answer<'a>(
    epoch: &'a EpochStarted,
    speaker: &'a Speaker,
    model_call_id: &'a ModelCallId,
    blocks: &'a [Block],
) -> Request<'a> {
    let listener = Listener { epoch, began: 0 };
    let mut ids = CallIds::new(&epoch.profile);
    let Sent { parts, ids } = sent(listener, Answer { seq: 1, model_call_id, speaker, blocks }, &mut ids);
    let mut messages = vec![Message::User(vec![UserPart::Text("-")])];
    push_answer(&mut messages, parts);
    let results: Vec<UserPart<'a>> = ids
        .into_iter()
        .map(|provider_call_id| UserPart::ToolResult { provider_call_id, text: "-", is_error: false })
        .collect();
    // An answer of nothing that is sent leaves nothing behind. Without calls it is a person's word that follows.
    if matches!(messages.last(), Some(Message::Assistant(_))) {
        messages.push(Message::User(if results.is_empty() { vec![UserPart::Text("-")] } else { results }));
    }
    request(epoch, messages, 1)
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
