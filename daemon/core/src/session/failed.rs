//! What a failed model call comes to: another attempt, the same request mended, a smaller one, or the end of the turn.
//!
//! Invariants: a mend is recorded only where it changes the next request, so that none is tried for ever; it does not
//! use up an attempt; money, keys and a conversation that is too long are never simply tried again. The epoch of a mend
//! is a function of the state, so that a crash between the failure and it leads to the same.

use super::decide::Draft;
use super::report::expect_open;
use super::state::Session;
use crate::command::{ModelFailure, Reject};
use crate::event::{
    BlockKind, Dialect, EpochStarted, FailureClass, MaxTokensField, Mend, ModelCallFailed, ModelProfile,
    Origin, ReasoningReplay, ThinkingForm, TurnLimits, Usage,
};
use crate::ids::Stamp;
use crate::limits;
use crate::retry::{self, Failed, GivenUp};
use crate::transcript::{Content, Speaker};
use crate::turn::{OpenModelCall, fitting_output};

/// Records a failure. `spent` is what an answer that came after all has used.
pub(super) fn failure_facts(
    draft: &mut Draft,
    failure: ModelFailure,
    spent: Option<Usage>,
    stamp: &Stamp,
) -> Result<(), Reject> {
    let session = &draft.session;
    let open = expect_open(session, &failure.model_call_id)?;
    let turn_limits = session.settings.as_ref().map(|settings| settings.limits.clone()).unwrap_or_default();
    let mend = failure.mend.filter(|mend| can_mend(session, *mend));
    let learned_window = believed_window(session, &failure);
    let learned_output = failure.learned_output.filter(|most| {
        failure.class == FailureClass::BadRequest
            && (limits::LEARNED_OUTPUT_MIN..open.max_output_tokens).contains(most)
    });
    let asks_for_less = learned_output.is_some()
        || learned_window.is_some_and(|window| less_output_helps(session, open, window));
    let attempts_left = open.attempt < turn_limits.retry_max_attempts;
    let failed = Failed {
        class: failure.class,
        should_retry: failure.should_retry,
        attempt: open.attempt,
        retry_after_ms: failure.retry_after_ms,
        jitter: failure.jitter,
    };
    let (retry_at_ms, message) = if mend.is_some() || (asks_for_less && attempts_left) {
        (Some(stamp.now_ms), failure.message)
    } else {
        match retry::wait_ms(&turn_limits, &failed) {
            Ok(wait) => (Some(stamp.now_ms.saturating_add(wait)), failure.message),
            Err(why) => {
                let window = learned_window.or_else(|| known_window(session));
                (None, last_words(&failure.message, failure.class, why, &turn_limits, open, window))
            }
        }
    };
    let price = session.epoch.as_ref().map(|epoch| epoch.profile.price).unwrap_or_default();
    let body = ModelCallFailed {
        http_status: failure.http_status,
        retry_at_ms,
        partial_text: failure.partial_text,
        learned_window,
        mend,
        learned_output,
        attempt: open.attempt,
        max_attempts: turn_limits.retry_max_attempts,
        usage: spent,
        cost_micro_usd: spent.map_or(0, |usage| retry::cost_micro_usd(&usage, &price)),
        ..ModelCallFailed::new(failure.model_call_id, failure.class, message)
    };
    draft.record(body, Origin::Daemon, stamp);
    Ok(())
}

/// The window that the error names, if it is believed: where ours is a guess, or larger.
fn believed_window(session: &Session, failure: &ModelFailure) -> Option<u64> {
    let profile = &session.epoch.as_ref()?.profile;
    // Less than this holds no system text: it is a number of something else.
    let named = failure.learned_window.filter(|window| *window >= limits::LEARNED_WINDOW_MIN)?;
    let believed = failure.class == FailureClass::ContextExceeded
        && (profile.window_is_guess || named <= profile.context_window);
    believed.then_some(named)
}

/// The window, unless it is only guessed.
fn known_window(session: &Session) -> Option<u64> {
    let is_guess = session.epoch.as_ref().is_none_or(|epoch| epoch.profile.window_is_guess);
    session.learned.window.or_else(|| (!is_guess).then(|| session.context_window()))
}

/// Whether it was only the answer that did not fit beside the prompt.
fn less_output_helps(session: &Session, open: &OpenModelCall, window: u64) -> bool {
    let asked = u64::from(open.max_output_tokens);
    let quarter = u32::try_from(window / 4).unwrap_or(u32::MAX);
    let less = fitting_output(window, open.est_tokens, open.max_output_tokens.min(quarter));
    session.epoch.is_some()
        && open.est_tokens.saturating_add(asked) > window
        && less.is_some_and(|less| less < open.max_output_tokens)
}

/// What people read when there is no other attempt: what the provider said, why that was all, and what to do.
fn last_words(
    message: &str,
    class: FailureClass,
    why: GivenUp,
    turn_limits: &TurnLimits,
    open: &OpenModelCall,
    window: Option<u64>,
) -> String {
    match why {
        GivenUp::Never if class == FailureClass::ContextExceeded => {
            let window = window.map(|window| format!("its window is {window} tokens, ")).unwrap_or_default();
            format!(
                "{message}. The conversation does not fit the model any more: {window}the request had about {} and \
                 asked for up to {} of answer. Go on in a new session with a shorter task, or choose a model with a \
                 larger window; older messages are not summarised yet",
                open.est_tokens, open.max_output_tokens
            )
        }
        GivenUp::Never => message.to_owned(),
        GivenUp::Attempts if turn_limits.retry_max_attempts > 1 => {
            format!("{message} (attempt {} of {})", open.attempt, turn_limits.retry_max_attempts)
        }
        GivenUp::Attempts => message.to_owned(),
        GivenUp::AskedTooLong { asked_ms } => format!(
            "{message}. The provider asks to wait {}, and a turn waits for {} at most; send again then",
            retry::span(asked_ms),
            retry::span(limits::RETRY_AFTER_MAX_MS)
        ),
    }
}

/// Whether a mend is worth a try: once for a model, and only where it changes something. Thinking can be stripped again
/// when there is more of it, or one bad signature would end the session for good.
pub(super) fn can_mend(session: &Session, mend: Mend) -> bool {
    let before = session.learned.mends.iter().filter(|known| **known == mend).count();
    let again = match mend {
        // There may be new thinking.
        Mend::StripThinking => true,
        // A refusal that only looked as if it were about the name is taken back by the refusal of the other one.
        Mend::RenameMaxTokens => before < 2,
        Mend::OmitThinkingForm | Mend::OmitStreamOptions => before == 0,
    };
    again && mended_epoch(session, mend).is_some()
}

/// The epoch that a mend begins; none when nothing would change.
pub(super) fn mended_epoch(session: &Session, mend: Mend) -> Option<EpochStarted> {
    let epoch = session.epoch.as_deref()?;
    let mut next = epoch.clone();
    match mend {
        Mend::StripThinking => {
            // Where calls need reasoning beside them, a request without it is refused for that.
            if !sends_thinking(session, epoch) || is_chat(epoch) && epoch.profile.chat.reasoning_with_calls {
                return None;
            }
            next.strip_thinking = true;
            if epoch.profile.dialect == Dialect::OpenAiChat {
                // It is the field that is refused, in later answers too.
                next.profile.chat.reasoning = ReasoningReplay::Never;
            }
        }
        Mend::OmitThinkingForm => next.profile.thinking = ThinkingForm::Omit,
        Mend::OmitStreamOptions if is_chat(epoch) => next.profile.chat.stream_options = false,
        Mend::RenameMaxTokens if is_chat(epoch) => {
            next.profile.chat.max_tokens_field = match epoch.profile.chat.max_tokens_field {
                MaxTokensField::MaxTokens => MaxTokensField::MaxCompletionTokens,
                MaxTokensField::MaxCompletionTokens => MaxTokensField::MaxTokens,
            };
        }
        Mend::OmitStreamOptions | Mend::RenameMaxTokens => return None,
    }
    if mend != Mend::StripThinking && next.profile == epoch.profile {
        return None;
    }
    next.epoch = epoch.epoch + 1;
    next.reason = "request_mended".to_owned();
    next.tokens_before = 0;
    next.tokens_after = 0;
    Some(next)
}

/// What a later epoch keeps of earlier ones: stripped thinking stays stripped, and a mend holds for its model.
pub(super) fn carry(session: &Session, next: &mut EpochStarted) {
    let Some(current) = session.epoch.as_deref() else { return };
    next.strip_thinking |= current.strip_thinking;
    if !is_same_model(&current.profile, &next.profile) {
        return;
    }
    for mend in &session.learned.mends {
        match mend {
            Mend::StripThinking => next.profile.chat.reasoning = current.profile.chat.reasoning,
            Mend::OmitThinkingForm => next.profile.thinking = current.profile.thinking,
            Mend::OmitStreamOptions => next.profile.chat.stream_options = current.profile.chat.stream_options,
            Mend::RenameMaxTokens => {
                next.profile.chat.max_tokens_field = current.profile.chat.max_tokens_field;
            }
        }
    }
}

/// Whether what one of them has taught holds for the other.
pub(super) fn is_same_model(one: &ModelProfile, other: &ModelProfile) -> bool {
    one.provider == other.provider && one.model == other.model && one.dialect == other.dialect
}

fn is_chat(epoch: &EpochStarted) -> bool {
    epoch.profile.dialect == Dialect::OpenAiChat
}

/// Whether requests of this epoch carry thinking of earlier answers.
fn sends_thinking(session: &Session, epoch: &EpochStarted) -> bool {
    if is_chat(epoch) && epoch.profile.chat.reasoning == ReasoningReplay::Never {
        return false;
    }
    let start = session.epochs.last().map_or(0, |(_, start)| *start);
    let from = if epoch.strip_thinking { start } else { 0 };
    // Only its own model gets thinking back.
    let own = |speaker: &Speaker| {
        let profile = &epoch.profile;
        speaker.provider == profile.provider
            && speaker.model == profile.model
            && speaker.dialect == profile.dialect
    };
    session.transcript.iter().any(|item| match &item.content {
        Content::Assistant { blocks, speaker, .. } if item.seq > from && own(speaker) => {
            blocks.iter().any(|block| matches!(block.kind, BlockKind::Thinking | BlockKind::RedactedThinking))
        }
        _ => false,
    })
}
