//! What a session may be called.
//!
//! A name is shown in terminals and typed in place of an id. So it has nothing that a terminal obeys or that cannot be
//! seen, it is short, and it cannot be taken for an id.

use super::status;
use agentd_core::ids::SessionId;
use agentd_core::limits::SESSION_NAME_MAX_CHARS;
use tonic::Status;

/// Characters of an id after its prefix.
const ID_CHARS: usize = 26;

/// The name as given, if a session may have it. An empty one is for the caller: it means none.
pub(super) fn check(name: &str) -> Result<(), Status> {
    let refuse = |why: String| Err(status::field("name", why).status());
    if name.is_empty() {
        return Ok(());
    }
    if name.trim().is_empty() {
        return refuse("must have more than spaces; leave it empty for no name".to_owned());
    }
    if name.trim() != name {
        return refuse("must not begin or end with a space".to_owned());
    }
    if let Some(c) = name.chars().find(|c| c.is_control() || hides(*c)) {
        return refuse(format!("must not have the character U+{:04X}, which cannot be seen", u32::from(c)));
    }
    let chars = name.chars().count();
    if chars > SESSION_NAME_MAX_CHARS {
        return refuse(format!("has {chars} characters; at most {SESSION_NAME_MAX_CHARS} are allowed"));
    }
    if looks_like_an_id(name) {
        return refuse("looks like the id of a session; choose another one".to_owned());
    }
    Ok(())
}

fn looks_like_an_id(name: &str) -> bool {
    let begins = name
        .get(..SessionId::PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(SessionId::PREFIX));
    let rest = name.get(SessionId::PREFIX.len()..).unwrap_or_default();
    begins && rest.len() == ID_CHARS && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Characters that change the direction of text or take no room.
fn hides(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_be_read_and_typed_are_taken() {
        for name in ["", "a", "fix the parser", "修正 é", "s_1", "s_01", &"é".repeat(100)] {
            assert!(check(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn names_that_deceive_are_refused_with_the_reason() {
        let long = "x".repeat(101);
        for (name, why) in [
            ("  ", "more than spaces"),
            (" a", "begin or end"),
            ("a\nb", "U+000A"),
            ("a\u{1b}[2J", "U+001B"),
            ("a\u{9b}b", "U+009B"),
            ("a\u{202e}b", "U+202E"),
            ("a\u{200b}b", "U+200B"),
            (long.as_str(), "at most 100"),
            ("s_01kby3zzzzzzzzzzzzzzzzzzzz", "looks like the id"),
            ("S_01KBY3ZZZZZZZZZZZZZZZZZZZZ", "looks like the id"),
        ] {
            let refused = check(name).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{name:?}");
            assert!(refused.message().contains(why), "{name:?}: {}", refused.message());
        }
    }
}
