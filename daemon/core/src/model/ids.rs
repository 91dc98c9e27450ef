//! Ids of tool calls and names of tools: which of them a provider takes, and others for those it does not.
//!
//! Invariants: what is made up is a function of its inputs, so the same answer decoded twice and the same
//! conversation sent twice have the same ids; a made-up id is free where it is used.

use std::collections::BTreeSet;

/// Bytes of a tool's name.
pub const TOOL_NAME_MAX_BYTES: usize = 128;

/// How the ids of tool uses are kept legal and unique in one answer.
pub struct IdRule<'a> {
    /// What new ids are made from: the id of the model call, so that they are the same at every decoding.
    pub seed: &'a str,
    /// Whether an id is in the conversation already.
    pub used: &'a dyn Fn(&str) -> bool,
}

/// The ids that stand in a request, whatever they are of. Read once for an answer, as far as its calls need it.
pub fn ids_in(body: &str) -> BTreeSet<String> {
    let value = |rest: &str| {
        let quoted = rest.trim_start().strip_prefix(':')?.trim_start();
        let mut values = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
        values.next()?.ok()
    };
    body.match_indices("\"id\"").filter_map(|(at, key)| value(&body[at + key.len()..])).collect()
}

/// Whether every provider takes an id of a tool use; the strictest one is the measure.
pub fn is_legal_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Whether a provider takes a tool's name.
pub fn is_legal_name(name: &str) -> bool {
    is_legal_id(name) && name.len() <= TOOL_NAME_MAX_BYTES
}

/// The nearest name that a provider takes: what the model made up must not make its own message unsendable.
pub(crate) fn legal_name(name: &str, max_bytes: usize) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().take(max_bytes).map(legal).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// A new id: `prefix`, the seed without what ids may not hold, and the place of the call in its answer.
pub(crate) fn new_id(prefix: &str, seed: &str, place: usize, free: &dyn Fn(&str) -> bool) -> String {
    let seed: String = seed.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let mut id = format!("{prefix}{seed}_{place}");
    let mut again = 1_u32;
    while !free(&id) && again < u32::MAX {
        id = format!("{prefix}{seed}_{place}_{again}");
        again += 1;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_request_are_found_however_they_are_written() {
        let body = r#"{"id":"a","x":[{"id" : "b\u0041\"c"},{"id":7},{"tool_call_id":"d"}],"id""#;
        assert_eq!(ids_in(body), ["a".to_owned(), "bA\"c".to_owned()].into());
    }
}
