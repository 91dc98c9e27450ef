//! The arguments of a tool call: what may be them, and whether they are whole yet.
//!
//! Invariant: what passes [`object_fault`] is an object for every later reader.

use super::json::repeated_key;

/// What is said of arguments that an output limit ended.
pub(crate) const CUT_OFF: &str = "the answer was cut off before the arguments were complete";

/// Why a text cannot be the arguments of a call. Checked with the reader that every later user has: nesting,
/// numbers and escapes that it refuses are refused here.
pub(crate) fn object_fault(args: &str) -> Option<String> {
    match serde_json::from_str::<serde_json::Value>(args) {
        Err(error) => Some(format!("the arguments are not valid JSON: {error}")),
        Ok(serde_json::Value::Object(_)) => {
            repeated_key(args).map(|key| format!("the arguments name {key:?} more than once"))
        }
        Ok(_) => Some("the arguments are not a JSON object".to_owned()),
    }
}

/// Whether the outermost object of a text that comes in pieces has been closed; looks at each byte once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closing {
    depth: u64,
    in_string: bool,
    escaped: bool,
    begun: bool,
}

impl Closing {
    /// Takes the next piece.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => {
                    self.begun = true;
                    self.depth += 1;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Whether it is closed.
    pub(crate) const fn is_closed(self) -> bool {
        self.begun && self.depth == 0 && !self.in_string
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_without_repeated_keys_are_arguments() {
        for good in ["{}", " {\"a\":[1,{\"a\":2}]} "] {
            assert_eq!(object_fault(good), None, "{good}");
        }
        for bad in ["", "null", "[]", "{\"a\":1,\"a\":1}", "{}{}", "{\"a\":\"\\ud800\"}"] {
            assert!(object_fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn an_object_is_closed_by_its_own_brace() {
        let rows = [
            ("", false),
            ("x", false),
            ("{", false),
            ("{}", true),
            ("{\"a\":\"}\"", false),
            ("{\"a\":\"\\\"}\"}", true),
            ("{\"a\":[{}]", false),
            (" {\"a\":[{}]} ", true),
            ("\"{}\"", false),
        ];
        for (text, closed) in rows {
            for at in 0..=text.len() {
                let mut closing = Closing::default();
                closing.push(&text.as_bytes()[..at]);
                closing.push(&text.as_bytes()[at..]);
                assert_eq!(closing.is_closed(), closed, "{text} in two at {at}");
            }
        }
    }
}
