use super::*;
use proptest::prelude::*;

fn text(content: &[u8], old: &str, new: &str) -> Vec<u8> {
    replace(content, old, new, false).unwrap().bytes
}

#[test]
fn line_ends_of_the_file_are_kept() {
    assert_eq!(text(b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb"), b"a\r\nx\r\nb\r\nc\r\n");
    assert_eq!(text(b"a\r\nb\r\nc\r\n", "b\n", "B\n"), b"a\r\nB\r\nc\r\n");
    assert_eq!(
        text(b"alpha\nbeta\r\ngamma\n", "alpha\nbeta\ngamma", "alpha\nBETA\ngamma"),
        b"alpha\nBETA\r\ngamma\n"
    );
    assert_eq!(text(b"alpha\nbeta\r\ngamma\n", "beta", "BETA"), b"alpha\nBETA\r\ngamma\n");
    assert_eq!(text(b"a\rb\rc", "a\nb", "a\nB"), b"a\rB\rc");
    assert_eq!(text(b"a\nb\nc", "a\r\nb", "x\r\ny\r\nz"), b"x\ny\nz\nc");
    assert_eq!(text(b"a\nlast", "last", "end"), b"a\nend");
    assert_eq!(text(b"one", "one", "one\r\ntwo"), b"one\r\ntwo");
    assert_eq!(text(b"a\r\n\r\nb\r\n", "\n\n", "\n"), b"a\r\nb\r\n");
}

#[test]
fn a_line_end_after_a_lone_carriage_return_counts_as_one_more_match() {
    let found = replace(b"\rab\r\rab", "\nab", "x", false);
    assert!(matches!(found, Err(EditError::Ambiguous { count: 2, .. })), "{found:?}");
}

#[test]
fn other_bytes_stay_as_they_are() {
    assert_eq!(text(b"const x = 1;\n// caf\xe9\n", "x = 1", "x = 2"), b"const x = 2;\n// caf\xe9\n");
    assert_eq!(text(b"\xef\xbb\xbfx = 1\n", "x = 1", "x = 2"), b"\xef\xbb\xbfx = 2\n");
    let latin = b"x = 1 \xe9\n";
    assert!(matches!(replace(latin, "x = 1", "x = 日本", false), Err(EditError::Encoding(_))));
    assert_eq!(text(b"\xff\xfex\0=\0", "x", "\u{65e5}\u{1f600}"), b"\xff\xfe\xe5\x65\x3d\xd8\x00\xde=\0");
    // 0x83 0x5c is one Shift-JIS character whose second byte is a backslash.
    assert!(matches!(replace(b"\x83\x5cn", "\\n", "x", false), Err(EditError::Encoding(_))));
}

#[test]
fn a_miss_and_an_ambiguity_name_their_lines() {
    let content = b"fn main() {\n    let value = 1;\n    let other = 1;\n}\n";
    let Err(EditError::NotFound { nearest, .. }) = replace(content, "let valeu = 1;", "x", false) else {
        panic!()
    };
    assert_eq!(nearest[0].line, 2);
    let error = replace(content, "= 1;", "= 2;", false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`old` was found 2 times; give more of the lines around the one that is meant, or all=true to replace each:\n     2\t    let value = 1;\n     3\t    let other = 1;"
    );
    let error = replace(content, "fn main() {\nlet value", "x", false).unwrap_err().to_string();
    assert!(error.contains("but for blanks"), "{error}");
    assert!(matches!(replace(b"aaa", "aa", "b", false), Err(EditError::Ambiguous { count: 2, .. })));
    assert_eq!(replace(b"aaaa", "aa", "b", true).unwrap().bytes, b"bb");
    assert_eq!(replace(b"x", "", "y", false), Err(EditError::OldEmpty));
    assert_eq!(replace(b"x\n", "x\n", "x\r\n", false), Err(EditError::NoChange));
    let error = replace(b"key = abc", "key = [REDACTED:k]", "x", false).unwrap_err().to_string();
    assert!(error.contains("redaction mark"), "{error}");
}

#[test]
fn line_ends_spelled_out_can_single_out_a_match() {
    assert_eq!(text(b"a\nb\na\r\nb\n", "a\r\nb", "c"), b"a\nb\nc\n");
}

#[test]
fn the_diff_is_what_diff_prints() {
    let old = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let new = b"1\n2\n3\n4\nfive\n6\n7\n8\n9\nten";
    let expected = "--- a/f\n+++ b/f\n@@ -2,8 +2,9 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n 9\n+ten\n\\ No newline at end of file\n";
    assert_eq!(unified_diff("f", Some(old), new), expected);
    assert_eq!(unified_diff("f", None, b"a\n"), "--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+a\n");
    assert_eq!(unified_diff("f", Some(b"a\n"), b"a\n"), "");
    assert_eq!(unified_diff("f", Some(b"a\r\n"), b"a\n"), "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a␍\n+a\n");
}

#[test]
fn a_large_diff_is_bounded() {
    let old: Vec<u8> = (0..60_000).flat_map(|n| format!("old {n}\n").into_bytes()).collect();
    let new: Vec<u8> = (0..60_000).flat_map(|n| format!("new {n}\n").into_bytes()).collect();
    let diff = unified_diff("f", Some(&old), &new);
    assert!(diff.len() < limits::DIFF_MAX_BYTES + 200, "{}", diff.len());
    assert!(diff.ends_with("more places] ...\n"));
    let line = unified_diff("f", Some(&vec![b'a'; 3_000_000]), &vec![b'b'; 3_000_000]);
    assert!(line.len() < 10_000);
}

/// Applies a diff the plain way, as a check on it.
fn apply(old: &[u8], diff: &str) -> Vec<u8> {
    let mut lines: Vec<String> = Vec::new();
    let old: Vec<&str> = std::str::from_utf8(old).unwrap().split_inclusive('\n').collect();
    let mut at = 0;
    let mut diff_lines = diff.lines().skip(2).peekable();
    while let Some(line) = diff_lines.next() {
        if let Some(header) = line.strip_prefix("@@ -") {
            let range = header.split(' ').next().unwrap();
            let (start, len) = range.split_once(',').unwrap();
            let start: usize = start.parse().unwrap();
            let start = if len == "0" { start } else { start - 1 };
            lines.extend(old[at..start].iter().map(|line| (*line).to_owned()));
            at = start;
            continue;
        }
        if line.starts_with('\\') {
            continue;
        }
        let ended = !diff_lines.peek().is_some_and(|next| next.starts_with('\\'));
        let text = format!("{}{}", &line[1..], if ended { "\n" } else { "" });
        match line.as_bytes()[0] {
            b' ' => {
                assert_eq!(old[at], text);
                lines.push(text);
                at += 1;
            }
            b'-' => {
                assert_eq!(old[at], text);
                at += 1;
            }
            _ => lines.push(text),
        }
    }
    lines.extend(old[at..].iter().map(|line| (*line).to_owned()));
    lines.concat().into_bytes()
}

fn uniform_file() -> impl Strategy<Value = Vec<u8>> {
    (
        prop::collection::vec("[ab ]{0,3}", 0..12),
        prop::sample::select(&["\n", "\r\n", "\r"][..]),
        any::<bool>(),
    )
        .prop_map(|(lines, end, last)| {
            let mut text = lines.join(end);
            if last {
                text.push_str(end);
            }
            text.into_bytes()
        })
}

proptest! {
    #[test]
    fn bytes_outside_the_spans_are_identical(
        content in prop::collection::vec(prop::sample::select(&b"ab\r\n\xe9\xef"[..]), 0..60),
        old in "[ab\r\n]{1,4}", new in "[abc\r\n]{0,4}", all in any::<bool>(),
    ) {
        if let Ok(edited) = replace(&content, &old, &new, all) {
            let (mut old_at, mut new_at) = (0, 0);
            for span in &edited.spans {
                let kept = span.start - old_at;
                prop_assert_eq!(&content[old_at..span.start], &edited.bytes[new_at..new_at + kept]);
                prop_assert_eq!(span.line, 1 + count_lines(&content[..span.start]));
                new_at += kept + span.new_len;
                old_at = span.end;
            }
            prop_assert_eq!(&content[old_at..], &edited.bytes[new_at..]);
            prop_assert_eq!(edited.spans.is_empty(), false);
        }
    }

    #[test]
    fn the_inverse_edit_restores(content in uniform_file(), old in "[ab\n]{1,6}", new in "[xy\n]{1,6}") {
        // An edit that removes the last line end, or makes the first, leaves nothing to tell the line end by.
        let ends = |bytes: &[u8]| matching::line_ends(bytes).dominant;
        if let Ok(edited) = replace(&content, &old, &new, false)
            && ends(&edited.bytes) == ends(&content)
            && let Ok(back) = replace(&edited.bytes, &new, &old, false)
        {
            prop_assert_eq!(back.bytes, content);
        }
    }

    #[test]
    fn a_diff_leads_from_old_to_new(
        old in prop::collection::vec("[ab]{0,1}", 0..14), new in prop::collection::vec("[ab]{0,1}", 0..14),
        end in any::<bool>(),
    ) {
        let join = |lines: &[String], end: bool| (lines.join("\n") + if end { "\n" } else { "" }).into_bytes();
        let (old, new) = (join(&old, true), join(&new, end));
        let diff = unified_diff("f", Some(&old), &new);
        prop_assert_eq!(apply(&old, &diff), new);
    }
}
