//! Untrusted text made visible: nothing from a model, tool, file or server reaches a terminal raw.
//!
//! Invariant: the result holds no escape, no C0 or C1 control but newline and tab, and no character that
//! changes direction or hides text. What was there is shown as an escape (`\x1b`, `\u{202e}`), never
//! dropped: a person must see what they approve.

use std::borrow::Cow;
use std::fmt::Write as _;

/// How strict the reader has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Care {
    /// Running text: joiners of emoji and scripts stay, CR LF is a line end.
    Text,
    /// What is decided on: everything that cannot be seen is shown.
    Exact,
    /// One line: line ends and tabs are shown too.
    Inline,
}

/// Running text, over several lines.
pub(crate) fn text(raw: &str) -> Cow<'_, str> {
    escape(raw, Care::Text)
}

/// What a person decides on, over several lines: joiners and lone carriage returns are shown as well.
pub(crate) fn exact(raw: &str) -> Cow<'_, str> {
    escape(raw, Care::Exact)
}

/// Text for one line.
pub(crate) fn inline(raw: &str) -> Cow<'_, str> {
    escape(raw, Care::Inline)
}

/// Text for one line, at most `chars` characters of it.
pub(crate) fn inline_cut(raw: &str, chars: usize) -> String {
    // Escapes make text longer, never shorter: more than `chars` characters of the raw are not needed.
    let head: String = raw.chars().take(chars.saturating_add(1)).collect();
    let shown = inline(&head);
    if shown.chars().count() <= chars {
        return shown.into_owned();
    }
    let mut cut: String = shown.chars().take(chars.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

fn escape(raw: &str, care: Care) -> Cow<'_, str> {
    if !raw.chars().any(|c| must_show(c, care)) {
        return Cow::Borrowed(raw);
    }
    let mut out = String::with_capacity(raw.len() + 16);
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        if care == Care::Text && c == '\r' && chars.peek() == Some(&'\n') {
            continue;
        }
        if must_show(c, care) {
            push_escape(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn push_escape(out: &mut String, c: char) {
    let code = u32::from(c);
    // Writing to a String cannot fail.
    let _ = match c {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        _ if code < 0x100 => write!(out, "\\x{code:02x}"),
        _ => write!(out, "\\u{{{code:x}}}"),
    };
}

/// Whether a terminal could obey this character, or a reader not see it, in running text.
pub(crate) fn acts(c: char) -> bool {
    must_show(c, Care::Text)
}

fn must_show(c: char, care: Care) -> bool {
    match c {
        '\n' | '\t' => care == Care::Inline,
        // Zero-width joiners and variation selectors: letters and emoji need them, commands do not.
        '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' => care != Care::Text,
        _ => c.is_control() || turns_or_hides(c),
    }
}

/// Characters that change the direction of text or take no room.
fn turns_or_hides(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(text("a line\nand\ta tab, 漢字, e\u{301}"), Cow::Borrowed(_)));
    }

    #[test]
    fn escapes_and_controls_are_shown() {
        assert_eq!(text("\x1b]52;c;YQ==\x07"), "\\x1b]52;c;YQ==\\x07");
        assert_eq!(text("\u{9b}2J\u{7f}"), "\\x9b2J\\x7f");
        assert_eq!(text("rm -rf x\recho ok"), "rm -rf x\\recho ok");
    }

    #[test]
    fn direction_and_hidden_characters_are_shown() {
        assert_eq!(exact("a\u{202e}b\u{2066}c\u{200b}d"), "a\\u{202e}b\\u{2066}c\\u{200b}d");
        assert_eq!(exact("x\u{e0041}"), "x\\u{e0041}");
    }

    #[test]
    fn joiners_stay_in_text_and_show_in_decisions() {
        let family = "👩\u{200d}👧";
        assert_eq!(text(family), family);
        assert_eq!(exact(family), "👩\\u{200d}👧");
    }

    #[test]
    fn line_ends_of_other_systems_are_line_ends_in_text_only() {
        assert_eq!(text("a\r\nb"), "a\nb");
        assert_eq!(exact("a\r\nb"), "a\\r\nb");
        assert_eq!(inline("a\r\nb\tc"), "a\\r\\nb\\tc");
    }

    #[test]
    fn cutting_counts_what_is_shown() {
        assert_eq!(inline_cut("abcdef", 6), "abcdef");
        assert_eq!(inline_cut("abcdefg", 6), "abcde…");
        assert_eq!(inline_cut("\x1b\x1b\x1b", 6).chars().count(), 6);
        assert_eq!(inline_cut("abc", 0), "…");
    }

    #[test]
    fn no_input_of_any_character_leaves_a_control() {
        let all: String = (0..=0x10_ffff).filter_map(char::from_u32).collect();
        for shown in [text(&all), exact(&all), inline(&all)] {
            assert!(!shown.chars().any(|c| (c.is_control() && c != '\n' && c != '\t') || turns_or_hides(c)));
        }
    }
}
