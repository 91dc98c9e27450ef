//! The models that are known without asking anybody.
//!
//! State of the table: 2026-11-30. A row is for one model by its id, and for its dated snapshots
//! (`gpt-4o-2024-08-06`); a family row is the last resort for models that came later, whose servers do not describe
//! them. Every row says what its figures rest on: *published* by the provider, or *assumed* from the models next to
//! it. A price that nobody has published is unknown, never zero. Windows are what every tier of an account has.
//!
//! To change something: change a row, its source, and the date above.

use agentd_core::event::ThinkingForm::{self, Adaptive, Omit};

/// What figures rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The provider's own documents.
    Published,
    /// What models next to it have.
    Assumed,
}

/// Dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ListPrice {
    /// Prompt tokens.
    pub input: f64,
    /// Answer tokens.
    pub output: f64,
    /// Tokens read from the cache.
    pub cache_read: f64,
    /// Tokens written to it.
    pub cache_write: f64,
    /// What it rests on.
    pub source: Source,
}

/// A model of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownModel {
    /// The provider.
    pub provider: &'static str,
    /// Its id; what a family's ids begin with.
    pub id: &'static str,
    /// The row is for all models that begin so and have no row of their own.
    pub family: bool,
    /// Tokens of prompt and answer together.
    pub context_window: u64,
    /// Tokens of one answer.
    pub max_output_tokens: u32,
    /// How thinking is asked for.
    pub thinking: ThinkingForm,
    /// Whether several calls in one message are wanted, where nobody says.
    pub parallel_tool_calls: bool,
    /// What it costs; none for unknown.
    pub price: Option<ListPrice>,
    /// What the other figures rest on.
    pub source: Source,
}

const P: Source = Source::Published;
const A: Source = Source::Assumed;

/// A price of Anthropic: reading the cache costs a tenth of the prompt, writing it a quarter more than the prompt.
const fn usd(input: f64, output: f64, source: Source) -> Option<ListPrice> {
    cached(input, output, 0.1, source)
}

const fn cached(input: f64, output: f64, read: f64, source: Source) -> Option<ListPrice> {
    Some(ListPrice { input, output, cache_read: input * read, cache_write: input * 1.25, source })
}

/// A price of OpenAI, which writes its cache for nothing.
const fn openai_usd(input: f64, cache_read: f64, output: f64) -> Option<ListPrice> {
    Some(ListPrice { input, output, cache_read, cache_write: input, source: P })
}

const fn claude(
    id: &'static str,
    max_output_tokens: u32,
    thinking: ThinkingForm,
    price: Option<ListPrice>,
    source: Source,
) -> KnownModel {
    KnownModel {
        provider: "anthropic",
        id,
        family: false,
        context_window: 200_000,
        max_output_tokens,
        thinking,
        parallel_tool_calls: true,
        price,
        source,
    }
}

const fn gpt(
    id: &'static str,
    context_window: u64,
    max_output_tokens: u32,
    price: Option<ListPrice>,
) -> KnownModel {
    KnownModel {
        provider: "openai",
        id,
        family: false,
        context_window,
        max_output_tokens,
        thinking: Omit,
        parallel_tool_calls: true,
        price,
        source: P,
    }
}

const fn gpt_family(beginning: &'static str, context_window: u64, max_output_tokens: u32) -> KnownModel {
    KnownModel { family: true, source: A, ..gpt(beginning, context_window, max_output_tokens, None) }
}

/// The table, in the order of lists. Thinking of the Fable and Mythos lines is always on and not asked for; models
/// up to 4.5 take a budget only, which is not sent.
const KNOWN: &[KnownModel] = &[
    claude("claude-fable-5-2", 64_000, Omit, cached(8.0, 40.0, 0.025, P), A),
    claude("claude-fable-5-1", 64_000, Omit, cached(10.0, 50.0, 0.025, P), A),
    claude("claude-fable-5", 64_000, Omit, None, A),
    claude("claude-mythos-5-2", 64_000, Omit, None, A),
    claude("claude-mythos-5-1", 64_000, Omit, None, A),
    claude("claude-mythos-5", 64_000, Omit, None, A),
    claude("claude-opus-5-5", 64_000, Adaptive, usd(5.0, 25.0, A), A),
    claude("claude-opus-5", 64_000, Adaptive, usd(5.0, 25.0, P), A),
    claude("claude-sonnet-5-5", 64_000, Adaptive, None, A),
    claude("claude-sonnet-5", 64_000, Adaptive, None, A),
    claude("claude-haiku-5-5", 64_000, Adaptive, None, A),
    claude("claude-opus-4-8", 64_000, Adaptive, usd(5.0, 25.0, A), A),
    claude("claude-opus-4-7", 64_000, Adaptive, usd(5.0, 25.0, P), A),
    claude("claude-opus-4-6", 64_000, Adaptive, usd(5.0, 25.0, P), P),
    claude("claude-opus-4-5", 64_000, Omit, usd(5.0, 25.0, P), P),
    claude("claude-opus-4-1", 32_000, Omit, usd(15.0, 75.0, P), P),
    claude("claude-sonnet-4-6", 64_000, Adaptive, usd(3.0, 15.0, P), P),
    claude("claude-sonnet-4-5", 64_000, Omit, usd(3.0, 15.0, P), P),
    claude("claude-haiku-4-5", 64_000, Omit, usd(1.0, 5.0, P), P),
    gpt("gpt-5.2", 400_000, 128_000, openai_usd(1.75, 0.175, 14.0)),
    gpt("gpt-5.1", 400_000, 128_000, openai_usd(1.25, 0.125, 10.0)),
    gpt("gpt-5", 400_000, 128_000, openai_usd(1.25, 0.125, 10.0)),
    gpt("gpt-5-mini", 400_000, 128_000, openai_usd(0.25, 0.025, 2.0)),
    gpt("gpt-5-nano", 400_000, 128_000, openai_usd(0.05, 0.005, 0.4)),
    gpt("gpt-4.1", 1_047_576, 32_768, openai_usd(2.0, 0.5, 8.0)),
    gpt("gpt-4.1-mini", 1_047_576, 32_768, openai_usd(0.4, 0.1, 1.6)),
    gpt("gpt-4.1-nano", 1_047_576, 32_768, openai_usd(0.1, 0.025, 0.4)),
    gpt("gpt-4o", 128_000, 16_384, openai_usd(2.5, 1.25, 10.0)),
    gpt("gpt-4o-mini", 128_000, 16_384, openai_usd(0.15, 0.075, 0.6)),
    gpt("o4-mini", 200_000, 100_000, openai_usd(1.1, 0.275, 4.4)),
    gpt("o3", 200_000, 100_000, openai_usd(2.0, 0.5, 8.0)),
    gpt("o3-mini", 200_000, 100_000, openai_usd(1.1, 0.55, 4.4)),
    gpt("o1", 200_000, 100_000, openai_usd(15.0, 7.5, 60.0)),
    gpt_family("gpt-6", 400_000, 128_000),
    gpt_family("gpt-5", 400_000, 128_000),
    gpt_family("gpt-4.1", 1_047_576, 32_768),
    gpt_family("gpt-4o", 128_000, 16_384),
    gpt_family("o4-", 200_000, 100_000),
    gpt_family("o3-", 200_000, 100_000),
    KnownModel {
        provider: "demo",
        id: "tour",
        family: false,
        context_window: 200_000,
        max_output_tokens: 8_192,
        thinking: Omit,
        parallel_tool_calls: true,
        price: Some(ListPrice { input: 0.0, output: 0.0, cache_read: 0.0, cache_write: 0.0, source: P }),
        source: P,
    },
];

/// The whole table.
pub const fn known_models() -> &'static [KnownModel] {
    KNOWN
}

/// The row of a model, or of a snapshot of it.
pub(super) fn of_model(provider: &str, model: &str) -> Option<&'static KnownModel> {
    let exact = |row: &&KnownModel| !row.family && row.provider == provider && is_same(row.id, model);
    KNOWN.iter().find(exact)
}

/// The row of the family that a model seems to belong to; the longest beginning counts.
pub(super) fn of_family(provider: &str, model: &str) -> Option<&'static KnownModel> {
    let fits = |row: &&KnownModel| row.family && row.provider == provider && model.starts_with(row.id);
    KNOWN.iter().filter(fits).max_by_key(|row| row.id.len())
}

/// `claude-opus-4-5` is also `claude-opus-4-5-20251101` and `claude-opus-4-5-latest`.
fn is_same(id: &str, model: &str) -> bool {
    let Some(rest) = model.strip_prefix(id) else { return false };
    let Some(rest) = rest.strip_prefix(['-', '@']) else { return rest.is_empty() };
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    rest == "latest" || (digits == 8 && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_snapshot_is_its_model_and_a_later_model_is_not() {
        let id = |provider, model| of_model(provider, model).map(|row| row.id);
        assert_eq!(id("anthropic", "claude-opus-4-5-20251101"), Some("claude-opus-4-5"));
        assert_eq!(id("openai", "gpt-4o-2024-08-06"), Some("gpt-4o"));
        assert_eq!(id("openai", "gpt-4o-mini"), Some("gpt-4o-mini"));
        for later in ["claude-opus-5-7", "claude-opus-4-55", "gpt-5.9", "gpt-5-pro", "o3-pro", "gpt-4o-audio"]
        {
            assert_eq!((id("anthropic", later), id("openai", later)), (None, None), "{later}");
        }
        let pro = of_family("openai", "gpt-5-pro").unwrap();
        assert_eq!((pro.id, pro.price), ("gpt-5", None), "it costs something else");
        assert_eq!(of_family("anthropic", "claude-opus-9"), None, "its server describes it");
    }

    #[test]
    fn the_table_is_sound() {
        let mut seen = BTreeSet::new();
        for row in KNOWN {
            assert!(seen.insert((row.provider, row.id, row.family)), "{} stands twice", row.id);
            assert!(u64::from(row.max_output_tokens) < row.context_window, "{}", row.id);
            assert!(!row.family || (row.price.is_none() && row.source == Source::Assumed), "{}", row.id);
            if let Some(price) = row.price {
                assert!(price.input <= price.output && price.cache_read <= price.input, "{}", row.id);
                assert!(price.output > 0.0 || row.provider == "demo", "{} is not free", row.id);
            }
        }
    }
}
