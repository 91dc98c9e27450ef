//! How compatible servers differ from OpenAI in what they send.

/// A deviation that was seen at some server. Several can be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quirk {
    /// Index 0 for every call (Ollama).
    SameIndex,
    /// No index (Mistral).
    NoIndex,
    /// The first index is 1 (Claude behind a proxy).
    IndexFromOne,
    /// No id anywhere.
    NoIds,
    /// Later deltas of a call repeat its id and name as "" (Qwen, hosted Mistral).
    EmptyIds,
    /// The name comes with the second delta of a call.
    LateName,
    /// No `type` in calls.
    NoType,
    /// Each call whole in one delta (xAI, Groq, Gemini, GLM, Ollama).
    WholeCalls,
    /// All calls whole in one single delta.
    AllCallsInOneDelta,
    /// Arguments as an object instead of text; only where they are one. Implies whole calls.
    ObjectArguments,
    /// The calls' fragments interleaved: one of each, over and over.
    Interleaved,
    /// `tool_calls: null` in deltas that have none.
    NullToolCalls,
    /// Reasoning as `reasoning` (vLLM, Groq) instead of `reasoning_content`.
    ReasoningField,
    /// Reasoning as `reasoning` and `reasoning_details` (OpenRouter).
    ReasoningDetails,
    /// Reasoning as content parts (Mistral).
    ReasoningParts,
    /// Reasoning in `<think>` tags in the content.
    ThinkTags,
    /// No `[DONE]`.
    NoDone,
    /// No `finish_reason` that says anything, anywhere (Snowflake).
    NoFinish,
    /// `finish_reason: "stop"` although there are calls (Gemini, Ollama).
    StopWithCalls,
    /// The finish reason on the last delta with content (Mistral).
    FinishOnLastDelta,
    /// The key `finish_reason` is absent until the end (xAI).
    NoFinishKey,
    /// The finish reason on two chunks, usage on the second (OpenRouter).
    FinishTwice,
    /// Usage on the chunk with the finish reason (Moonshot, Z.ai).
    UsageOnFinish,
    /// Usage on every chunk (some gateways).
    UsageEverywhere,
    /// Usage in `x_groq` on the chunk with the finish reason.
    UsageInGroq,
    /// Usage although it was not asked for.
    UsageUnasked,
    /// No usage although it was asked for.
    NoUsage,
    /// Cached tokens as `prompt_cache_hit_tokens` (DeepSeek).
    UsageOfDeepSeek,
    /// A first chunk without choices, id or model (Azure).
    EmptyFirstChunk,
    /// Empty ids and zero dates on all chunks (Snowflake).
    EmptyChunkIds,
    /// Comments before the first chunk (OpenRouter).
    Comments,
    /// `event:` lines before each chunk.
    EventLines,
    /// No space after `data:`.
    NoSpace,
    /// The first call carries `extra_content.google.thought_signature` (Gemini).
    ThoughtSignature,
    /// The first call carries `thought_signature` (gateways to Gemini).
    BareThoughtSignature,
}

impl Quirk {
    /// All of them, to hold a client to each in turn.
    pub const ALL: [Self; 35] = [
        Self::SameIndex,
        Self::NoIndex,
        Self::IndexFromOne,
        Self::NoIds,
        Self::EmptyIds,
        Self::LateName,
        Self::NoType,
        Self::WholeCalls,
        Self::AllCallsInOneDelta,
        Self::ObjectArguments,
        Self::Interleaved,
        Self::NullToolCalls,
        Self::ReasoningField,
        Self::ReasoningDetails,
        Self::ReasoningParts,
        Self::ThinkTags,
        Self::NoDone,
        Self::NoFinish,
        Self::StopWithCalls,
        Self::FinishOnLastDelta,
        Self::NoFinishKey,
        Self::FinishTwice,
        Self::UsageOnFinish,
        Self::UsageEverywhere,
        Self::UsageInGroq,
        Self::UsageUnasked,
        Self::NoUsage,
        Self::UsageOfDeepSeek,
        Self::EmptyFirstChunk,
        Self::EmptyChunkIds,
        Self::Comments,
        Self::EventLines,
        Self::NoSpace,
        Self::ThoughtSignature,
        Self::BareThoughtSignature,
    ];
}
