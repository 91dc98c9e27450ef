//! Edits of files in every encoding: what is outside the edit stays, byte for byte.

use super::super::*;
use crate::text::{Charset, Encoding};
use encoding_rs::{BIG5, EUC_KR, GBK, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252};
use proptest::prelude::*;

const JAPANESE: &str = "表示する設定ファイルを読み込みます。この行はテストです。\nx = 1\n";

fn legacy(encoding: &'static encoding_rs::Encoding) -> Encoding {
    Encoding { charset: Charset::Legacy(encoding), has_mark: false }
}

fn bytes_of(encoding: Encoding, text: &str) -> Vec<u8> {
    [encoding.mark(), &encoding.encode(text).unwrap()].concat()
}

fn has_mark_of_replacement(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"\xef\xbf\xbd").is_some()
}

#[test]
fn japanese_is_put_into_a_shift_jis_file_as_shift_jis() {
    let encoding = legacy(SHIFT_JIS);
    let before = bytes_of(encoding, JAPANESE);
    let edited = replace(&before, "x = 1", "x = 2 // 表示", false).unwrap();
    assert_eq!(edited.bytes, bytes_of(encoding, &JAPANESE.replace("x = 1", "x = 2 // 表示")));
    assert_eq!(edited.spans[0].line, 2);
    // The second byte of 表 is a backslash; in the text there is none.
    assert!(matches!(replace(&before, "\\", "/", false), Err(EditError::NotFound { .. })));
    let edited = replace(&before, "表示", "画面", true).unwrap();
    assert_eq!(edited.bytes, bytes_of(encoding, &JAPANESE.replace("表示", "画面")));
}

#[test]
fn a_character_that_the_encoding_has_not_is_named_and_nothing_is_done() {
    let before = bytes_of(legacy(SHIFT_JIS), JAPANESE);
    let error = replace(&before, "x = 1", "x = 😀", false).unwrap_err();
    assert!(
        error.to_string().starts_with("the file is Shift_JIS and '😀' (U+1F600) does not exist in Shift_JIS"),
        "{error}"
    );
    let error = replace(b"caf\xe9 au lait\n", "lait", "日", false).unwrap_err();
    assert!(error.to_string().contains("too few letters to be sure that it is windows-1252"), "{error}");
    assert_eq!(
        replace(b"caf\xe9 au lait\n", "lait", "th\u{e9}", false).unwrap().bytes,
        b"caf\xe9 au th\xe9\n"
    );
}

#[test]
fn a_replacement_mark_never_gets_into_a_file() {
    for before in
        [&b"x = 1 // caf\xe9\n"[..], b"x = 1\n", b"\xff\xfex\0", "caf\u{e9} x \u{fffd}\n".as_bytes()]
    {
        let error = replace(before, "x", "\u{fffd}", false).unwrap_err();
        assert!(matches!(error, EditError::Encoding(_)), "{error}");
    }
    // Where it is in the file it may stay there.
    let edited = replace("a \u{fffd} b".as_bytes(), "\u{fffd} b", "\u{fffd} c", false).unwrap();
    assert_eq!(edited.bytes, "a \u{fffd} c".as_bytes());
}

#[test]
fn a_file_whose_utf_16_is_broken_is_not_edited() {
    let broken = b"\xff\xfex\0\0\xd8y\0";
    assert!(matches!(replace(broken, "x", "z", false), Err(EditError::Encoding(_))));
}

#[test]
fn what_is_binary_takes_ascii_alone() {
    assert_eq!(replace(b"ab\0\x01\xfe", "ab", "cd", false).unwrap().bytes, b"cd\0\x01\xfe");
    assert!(matches!(replace(b"ab\0\x01\xfe", "ab", "\u{e9}", false), Err(EditError::Encoding(_))));
}

/// A file of random lines in one encoding, one kind of line end or several, and words of it to edit.
#[derive(Clone, Debug)]
struct File {
    encoding: Option<Encoding>,
    bytes: Vec<u8>,
    text: String,
}

fn files() -> impl Strategy<Value = (File, Vec<&'static str>)> {
    let kinds: Vec<(Option<Encoding>, Vec<&'static str>)> = vec![
        (Some(Encoding::UTF8), vec!["ab", "é", "日本", "a", "😀", " "]),
        (Some(Encoding { charset: Charset::Utf8, has_mark: true }), vec!["ab", "é", "日本", "a", " "]),
        (
            Some(Encoding { charset: Charset::Utf16Le, has_mark: true }),
            vec!["ab", "é", "日本", "😀", "\u{a0a}"],
        ),
        (
            Some(Encoding { charset: Charset::Utf16Be, has_mark: true }),
            vec!["ab", "é", "日本", "😀", "\u{a0a}"],
        ),
        (Some(legacy(SHIFT_JIS)), vec!["表示", "ab", "テスト", "\\", "設定を読む", "ソ"]),
        (Some(legacy(GBK)), vec!["配置", "ab", "这是测试", "文件的说明"]),
        (Some(legacy(BIG5)), vec!["設定", "ab", "功能", "這是測試"]),
        (Some(legacy(EUC_KR)), vec!["설정", "ab", "시험 파일입니다", "이것은"]),
        (Some(legacy(WINDOWS_1251)), vec!["файл", "ab", "проверка", "Это"]),
        (Some(legacy(WINDOWS_1252)), vec!["été", "ab", "naïve", "là", "ça"]),
        // In no encoding: UTF-8 and other bytes side by side.
        (None, vec!["ab", "é", "a", " "]),
    ];
    let ends =
        prop::sample::select(vec![&["\n"][..], &["\r\n"], &["\r"], &["\n", "\r\n"], &["\n", "\r\n", "\r"]]);
    (prop::sample::select(kinds), ends).prop_flat_map(|((encoding, words), ends)| {
        let line = prop::collection::vec(prop::sample::select(words.clone()), 0..6);
        let lines = prop::collection::vec((line, prop::sample::select(ends.to_vec())), 0..12);
        (lines, any::<bool>()).prop_map(move |(lines, is_ended)| {
            let mut text: String = lines.iter().map(|(line, end)| line.concat() + end).collect();
            if !is_ended {
                text = text.trim_end_matches(['\r', '\n']).to_owned();
            }
            let mut bytes = match encoding {
                Some(encoding) => bytes_of(encoding, &text),
                None => [text.as_bytes(), b" \xe9\xff\x80 "].concat(),
            };
            if encoding.is_none() {
                bytes.extend_from_slice(text.as_bytes());
            }
            (File { encoding, bytes, text }, words.clone())
        })
    })
}

fn edits() -> impl Strategy<Value = (File, String, String, bool)> {
    files().prop_flat_map(|(file, words)| {
        let mut parts = words;
        parts.push("\n");
        parts.push("x = 1");
        parts.push("y = 2");
        let text = |range| {
            prop::collection::vec(prop::sample::select(parts.clone()), range)
                .prop_map(|parts: Vec<&str>| parts.concat())
        };
        // Mostly something that is there, so that there is something to edit.
        let letters: Vec<char> = file.text.replace("\r\n", "\n").chars().collect();
        let there = (any::<prop::sample::Index>(), 1_usize..8).prop_map(move |(from, len)| {
            let from = if letters.is_empty() { 0 } else { from.index(letters.len()) };
            letters.iter().skip(from).take(len).collect::<String>()
        });
        let old = prop_oneof![4 => there, 1 => text(1..4)];
        (Just(file), old, text(0..4), prop::bool::weighted(0.3))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn bytes_outside_the_spans_are_identical_in_every_encoding((file, old, new, all) in edits()) {
        let Ok(edited) = replace(&file.bytes, &old, &new, all) else { return Ok(()) };
        let (mut old_at, mut new_at) = (0, 0);
        for span in &edited.spans {
            let kept = span.start - old_at;
            prop_assert_eq!(&file.bytes[old_at..span.start], &edited.bytes[new_at..new_at + kept]);
            new_at += kept + span.new_len;
            old_at = span.end;
        }
        prop_assert_eq!(&file.bytes[old_at..], &edited.bytes[new_at..]);
        prop_assert_eq!(has_mark_of_replacement(&edited.bytes), false);
        // What is read afterwards is the edited text: nothing but the span has another meaning.
        if let Some((encoding, before)) = as_read(&file.bytes)
            && encoding.decode(&file.bytes[encoding.mark().len()..]).is_exact
        {
            prop_assert!(edited.bytes.starts_with(encoding.mark()));
            let after = encoding.decode(&edited.bytes[encoding.mark().len()..]);
            prop_assert!(after.is_exact);
            let plain = replace(before.as_bytes(), &old, &new, all).map(|edited| edited.bytes);
            if file.encoding.is_some_and(|e| e == encoding) && !before.is_empty() {
                prop_assert_eq!(plain, Ok(after.text.into_owned().into_bytes()));
            }
        }
    }

    #[test]
    fn the_inverse_edit_restores_every_file_byte_for_byte((file, old, new, _) in edits()) {
        // Mixed line ends cannot be told again from a text that has only `\n`.
        if line_ends_in_words(file.text.as_bytes()) == Some("mixed") {
            return Ok(());
        }
        let Ok(edited) = replace(&file.bytes, &old, &new, false) else { return Ok(()) };
        let read = |bytes: &[u8]| {
            as_read(bytes).map(|(encoding, text)| (encoding, matching::line_ends(text.as_bytes()).dominant))
        };
        if read(&edited.bytes) == read(&file.bytes)
            && !new.is_empty()
            && let Ok(back) = replace(&edited.bytes, &new, &old, false)
        {
            prop_assert_eq!(back.bytes, file.bytes);
        }
    }

    #[test]
    fn a_whole_write_is_read_as_what_was_written((file, old, new, _) in edits()) {
        let text = format!("{old}{new}{}", file.text.replace("\r\n", "\n"));
        let Some(encoding) = file.encoding else { return Ok(()) };
        let Ok(whole) = written_over(&file.bytes, &text) else { return Ok(()) };
        prop_assert_eq!(has_mark_of_replacement(&whole.bytes), false);
        let Some((read_as, before)) = as_read(&file.bytes) else { return Ok(()) };
        if read_as != encoding || before.is_empty() {
            return Ok(());
        }
        prop_assert!(whole.bytes.starts_with(encoding.mark()));
        let after = encoding.decode(&whole.bytes[encoding.mark().len()..]);
        let text = if whole.kept.contains(&Kept::CrLf) { text.replace('\n', "\r\n") } else { text };
        prop_assert_eq!(after.text.as_ref(), text);
    }
}
