//! The arguments of the built-in tools. They have passed their schema when they get here.

use super::answer;
use crate::ports::CallContext;
use agentd_core::command::CallFault;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
pub(super) struct ReadFile {
    pub(super) path: String,
    #[serde(default, deserialize_with = "whole")]
    pub(super) offset: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    pub(super) limit: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct ListDir {
    #[serde(default)]
    pub(super) path: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct FindFiles {
    pub(super) pattern: String,
    #[serde(default)]
    pub(super) path: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Search {
    pub(super) pattern: String,
    #[serde(default)]
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) glob: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct WriteFile {
    pub(super) path: String,
    pub(super) content: String,
}

#[derive(Deserialize)]
pub(super) struct EditFile {
    pub(super) path: String,
    pub(super) old: String,
    pub(super) new: String,
    #[serde(default)]
    pub(super) all: bool,
}

#[derive(Deserialize)]
pub(super) struct ApplyPatch {
    pub(super) patch: String,
}

#[derive(Deserialize)]
pub(super) struct RunCommand {
    pub(super) command: String,
    #[serde(default, deserialize_with = "whole")]
    pub(super) timeout_s: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct ReadArtifact {
    pub(super) id: String,
    #[serde(default, deserialize_with = "whole")]
    pub(super) offset: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    pub(super) limit: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct SearchArtifact {
    pub(super) id: String,
    pub(super) pattern: String,
}

/// Reads the arguments of a call.
pub(super) fn parse<T: for<'de> Deserialize<'de>>(ctx: &CallContext) -> Result<T, CallFault> {
    // Through a value, as the schema check did: where a key stands twice, both must take the same one.
    let value: Result<serde_json::Value, _> = serde_json::from_str(ctx.args.get());
    value.and_then(serde_json::from_value).map_err(|error| {
        answer::invalid(
            "arguments",
            format!("Invalid arguments for {}: at / expected other arguments: {error}", ctx.tool),
        )
    })
}

/// A whole number. JSON Schema counts `5.0` as an integer, so this must too.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    let from_float = |value: f64| {
        // Exact up to 2^53, far beyond every bound of the schemas.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked: whole, from 0 to 2^53"
        )]
        let is_whole = value >= 0.0 && value.fract() == 0.0 && value <= 9_007_199_254_740_992.0;
        is_whole.then_some(value as u64)
    };
    number
        .as_u64()
        .or_else(|| number.as_f64().and_then(from_float))
        .map(Some)
        .ok_or_else(|| serde::de::Error::custom(format!("a whole number, not {number}")))
}
