//! What of an answer is sent again.
//!
//! A block that the very provider and dialect wrote goes back byte for byte. What a model elsewhere said becomes
//! plain text and calls; its thinking, signatures and server tools mean nothing here and are left out.
//!
//! Thinking is bound to the model that wrote it and to the prefix it was written under, so it goes back to the same
//! model only, and not after an epoch that strips what came before it.

use super::call_ids::CallIds;
use crate::event::{Block, BlockCall, BlockKind, Dialect, EpochStarted, ReasoningReplay};
use crate::ids::{ModelCallId, Seq};
use crate::model::form;
use crate::model::ids::legal_name;
use crate::model::request::AnswerPart;
use crate::transcript::Speaker;
use std::borrow::Cow;

/// Who is spoken to, and since when.
#[derive(Clone, Copy)]
pub(super) struct Listener<'a> {
    /// The epoch.
    pub(super) epoch: &'a EpochStarted,
    /// The event that began it.
    pub(super) began: Seq,
}

/// How much of the listener an answer comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kin {
    /// The same model of the same provider.
    Same,
    /// Another model of the same provider in the same dialect.
    Provider,
    /// Another provider or dialect.
    Foreign,
}

impl Listener<'_> {
    fn kin(&self, speaker: &Speaker) -> Kin {
        let profile = &self.epoch.profile;
        if speaker.provider != profile.provider || speaker.dialect != profile.dialect {
            Kin::Foreign
        } else if speaker.model != profile.model {
            Kin::Provider
        } else {
            Kin::Same
        }
    }

    fn takes_thinking(&self, kin: Kin, said_at: Seq) -> bool {
        let profile = &self.epoch.profile;
        kin == Kin::Same
            && !(self.epoch.strip_thinking && said_at < self.began)
            && (profile.dialect == Dialect::Anthropic || profile.chat.reasoning != ReasoningReplay::Never)
    }
}

/// One answer.
#[derive(Clone, Copy)]
pub(super) struct Answer<'a> {
    /// The event it came with.
    pub(super) seq: Seq,
    /// The call it answered.
    pub(super) model_call_id: &'a ModelCallId,
    /// Who gave it.
    pub(super) speaker: &'a Speaker,
    /// What it consists of.
    pub(super) blocks: &'a [Block],
}

/// The parts of an answer that are sent, and the ids of its calls by their place among them.
#[derive(Default)]
pub(super) struct Sent<'a> {
    pub(super) parts: Vec<AnswerPart<'a>>,
    pub(super) ids: Vec<Cow<'a, str>>,
}

/// What is sent of an answer.
pub(super) fn sent<'a>(listener: Listener<'a>, answer: Answer<'a>, ids: &mut CallIds<'a>) -> Sent<'a> {
    let kin = listener.kin(answer.speaker);
    let thinking = listener.takes_thinking(kin, answer.seq);
    let dialect = listener.epoch.profile.dialect;
    // Text after a call breaks the pairing at the provider, although it sends it.
    let calls_go_last = kin == Kin::Foreign || has_late_text(answer.blocks);
    let mut sent = Sent::default();
    let mut calls = Vec::new();
    for block in answer.blocks {
        match &block.call {
            Some(call) => {
                let own = kin != Kin::Foreign;
                let id = ids.next(own, &call.provider_call_id, answer.model_call_id, sent.ids.len());
                sent.ids.push(id.clone());
                let part = call_part(listener, kin, block, call, id);
                if calls_go_last { calls.push(part) } else { sent.parts.push(part) }
            }
            None => sent.parts.extend(said_part(dialect, kin, thinking, block)),
        }
    }
    sent.parts.append(&mut calls);
    // In the other dialects reasoning is no message of its own.
    if dialect != Dialect::Anthropic && !sent.parts.iter().any(says_something) {
        sent.parts.clear();
    }
    sent
}

const fn says_something(part: &AnswerPart<'_>) -> bool {
    part.is_call() || matches!(part, AnswerPart::Text(_) | AnswerPart::Own { kind: BlockKind::Text, .. })
}

fn has_late_text(blocks: &[Block]) -> bool {
    blocks
        .iter()
        .skip_while(|block| block.kind != BlockKind::ToolUse)
        .any(|block| block.kind == BlockKind::Text && !block.is_blank())
}

/// A block that is no call.
fn said_part(dialect: Dialect, kin: Kin, thinking: bool, block: &Block) -> Option<AnswerPart<'_>> {
    if block.is_blank() {
        return None;
    }
    let is_sent = match block.kind {
        BlockKind::Text => true,
        BlockKind::Thinking | BlockKind::RedactedThinking => thinking,
        // Server tools and what is not known yet; Chat Completions has no place for such.
        BlockKind::Other | BlockKind::ToolUse => kin != Kin::Foreign && dialect == Dialect::Anthropic,
    };
    match (is_sent, kin) {
        (false, _) => None,
        (true, Kin::Foreign) => block.text.as_deref().map(AnswerPart::Text),
        (true, _) => Some(AnswerPart::own(block.kind, &block.raw)),
    }
}

fn call_part<'a>(
    listener: Listener<'a>,
    kin: Kin,
    block: &'a Block,
    call: &'a BlockCall,
    id: Cow<'a, str>,
) -> AnswerPart<'a> {
    let profile = &listener.epoch.profile;
    let takes_name = form::takes_name(profile.dialect, &call.name);
    // A signature is its model's own; where one is needed, the call of another model goes without its own.
    let signed_by_another = kin == Kin::Provider && profile.chat.stand_in_signature;
    // The view has the name as the model wrote it; the raw form of an altered block has one that can be sent.
    let sendable = takes_name || block.altered;
    if kin == Kin::Foreign || signed_by_another || !sendable {
        let name = if takes_name {
            Cow::Borrowed(call.name.as_str())
        } else {
            Cow::Owned(legal_name(&call.name, form::name_max_bytes(profile.dialect)))
        };
        return AnswerPart::Call { id, name, args: &call.args };
    }
    if *id == *call.provider_call_id {
        return AnswerPart::own(block.kind, &block.raw);
    }
    AnswerPart::Own { kind: block.kind, raw: Cow::Owned(form::with_id(&block.raw, &id)) }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
