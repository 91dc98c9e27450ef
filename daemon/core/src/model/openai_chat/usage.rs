//! Tokens as servers of this dialect report them, and as we count them.
//!
//! Invariants: cached tokens are inside the prompt here and beside it in [`Usage`]; a report without any count
//! says nothing; counts are bounded, so that sums of them cannot overflow.

use crate::event::Usage;
use crate::limits::TOKEN_COUNT_MAX;
use crate::limits::{ANSWER_FIELDS_MAX, USAGE_MAX_BYTES};
use crate::model::json::Object;
use serde_json::value::RawValue;
use std::sync::Arc;

/// What was reported so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    merged: Object,
}

impl Report {
    /// Takes a usage object. Reports are totals, so the newer one wins; some servers send one with each chunk,
    /// some two, some `null` or zeros until the end.
    pub(super) fn take(&mut self, raw: &str) {
        if raw.len() > USAGE_MAX_BYTES {
            return;
        }
        let Some(newer) = Object::parse(raw) else { return };
        let says = ["prompt_tokens", "completion_tokens", "total_tokens"];
        let fits = self.merged.len() + newer.len() <= 2 * ANSWER_FIELDS_MAX;
        if fits && says.iter().any(|name| count(&newer, name).is_some_and(|count| count > 0)) {
            self.merged.overwrite_with(&newer);
        }
    }

    /// Our counts; whether there were any.
    pub(super) fn normalised(&self) -> (Usage, bool) {
        let number = |name| count(&self.merged, name).unwrap_or(0);
        let inner = |object: &str, name| {
            self.merged.get(object).and_then(Object::parse).and_then(|object| count(&object, name))
        };
        let prompt = number("prompt_tokens");
        let completion = number("completion_tokens");
        let read = inner("prompt_tokens_details", "cached_tokens")
            .or_else(|| count(&self.merged, "prompt_cache_hit_tokens"))
            .or_else(|| count(&self.merged, "cached_tokens"))
            .unwrap_or(0);
        let written = inner("prompt_tokens_details", "cache_write_tokens")
            .or_else(|| inner("prompt_tokens_details", "cache_creation_tokens"))
            .or_else(|| count(&self.merged, "cache_write_tokens"))
            .or_else(|| count(&self.merged, "cache_creation_tokens"))
            .unwrap_or(0);
        // Most servers count reasoning into the answer; where the total says that it is not, it is added.
        let reasoning = inner("completion_tokens_details", "reasoning_tokens").unwrap_or(0);
        let beside = reasoning > 0 && number("total_tokens") == prompt + completion + reasoning;
        let usage = Usage {
            input_tokens: prompt.saturating_sub(read).saturating_sub(written),
            output_tokens: if beside { completion + reasoning } else { completion },
            cache_read_tokens: read,
            cache_write_tokens: written,
        };
        (usage, usage != Usage::default())
    }

    /// The server's own object.
    pub(super) fn raw(&self) -> Option<Arc<RawValue>> {
        if self.merged.is_empty() {
            return None;
        }
        RawValue::from_string(self.merged.render()).ok().map(Arc::from)
    }
}

fn count(object: &Object, name: &str) -> Option<u64> {
    let raw = object.get(name)?;
    let whole: Option<u64> = serde_json::from_str(raw).ok();
    // Some servers write counts as floats.
    let count = whole.or_else(|| {
        let number: f64 = serde_json::from_str(raw).ok()?;
        (number.is_finite() && number >= 0.0).then_some(number as u64)
    })?;
    Some(count.min(TOKEN_COUNT_MAX))
}
