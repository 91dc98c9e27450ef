//! Files that are not plain UTF-8, and files that are large, as a model meets them.

use super::*;
use agentd_core::event::CallOutcome;
use agentd_core::limits;
use agentd_core::text::{Charset, Encoding};
use proptest::prelude::*;
use std::io::Write as _;

const JAPANESE: &str = "設定ファイルを読み込みます。接続を確認してください。\r\n表示のテスト x = 1\r\n";

/// Shift_JIS of [`JAPANESE`].
fn shift_jis(text: &str) -> Vec<u8> {
    let found = agentd_core::text::detect(
        b"\x90\xdd\x92\xe8\x83\x74\x83\x40\x83\x43\x83\x8b\x82\xf0\x93\xc7\x82\xdd\x8d\x9e\x82\xdd\x82\xdc\x82\xb7\x81\x42\n",
    );
    let agentd_core::text::Content::Text(found) = found else { panic!() };
    assert_eq!(found.encoding.name(), "Shift_JIS");
    found.encoding.encode(text).unwrap()
}

fn utf16(text: &str) -> Vec<u8> {
    let encoding = Encoding { charset: Charset::Utf16Le, has_mark: true };
    [encoding.mark(), &encoding.encode(text).unwrap()].concat()
}

/// A clock that is far beyond every file's times, so that places of lines are remembered.
struct Later;

impl Clock for Later {
    fn now_ms(&self) -> i64 {
        i64::MAX / 2
    }
}

#[tokio::test]
async fn a_shift_jis_file_is_read_and_edited_as_text() {
    let mut bench = Bench::new();
    bench.put("f", shift_jis(JAPANESE));
    let end = bench.read("f").await;
    assert_eq!(
        end.text,
        "     1\t設定ファイルを読み込みます。接続を確認してください。\n     2\t表示のテスト x = 1\n[read as Shift_JIS, by detection; lines end in CRLF]"
    );
    let end = bench.run("read_file", json!({ "path": "f", "offset": 1 })).await;
    assert!(end.text.starts_with("     2\t表示のテスト x = 1\n[read as Shift_JIS"), "{}", end.text);
    let ctx = bench.call("edit_file", &json!({ "path": "f", "old": "x = 1", "new": "x = 2\n日本" }));
    let preview = bench.tools.inspect(&ctx, &bench.redactor).await.unwrap().preview.unwrap();
    assert!(preview.contains("-表示のテスト x = 1␍\n+表示のテスト x = 2␍\n+日本␍\n"), "{preview}");
    let end = bench.edit("f", "x = 1", "x = 2\n日本").await;
    assert_eq!(end.text, "Edited f: 1 replacement, line 2");
    assert_eq!(bench.get("f"), shift_jis(&JAPANESE.replace("x = 1", "x = 2\r\n日本")));
    let before = bench.get("f");
    let end = bench.edit("f", "x = 2", "x = 😀").await;
    assert_eq!(end.error_class.as_deref(), Some("encoding"));
    assert!(end.text.contains("'😀' (U+1F600) does not exist in Shift_JIS"), "{}", end.text);
    assert_eq!(bench.get("f"), before);
    let end = bench.write("f", "新しい\n").await;
    assert_eq!(end.text, "Wrote f: 8 bytes, replaced, encoding kept: Shift_JIS, line ends kept: CRLF");
    assert_eq!(bench.get("f"), shift_jis("新しい\r\n"));
}

#[tokio::test]
async fn a_utf_16_file_larger_than_any_edit_is_paged_as_a_stream() {
    let mut bench = Bench::new();
    let path = bench.put("big", b"\xff\xfe");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    // U+0A0A and U+0A00 have the bytes of line ends where none are.
    let block: Vec<u8> =
        (0..1_000).flat_map(|n| utf16(&format!("row {n:03} \u{a0a}\u{a00}日本\n"))[2..].to_vec()).collect();
    for _ in 0..700 {
        file.write_all(&block).unwrap();
    }
    assert!(file.metadata().unwrap().len() > limits::EDIT_MAX_BYTES);
    let end = bench.run("read_file", json!({ "path": "big", "offset": 500_123, "limit": 2 })).await;
    assert!(
        end.text.starts_with("500124\trow 123 \u{a0a}\u{a00}日本\n500125\trow 124 \u{a0a}\u{a00}日本\n... "),
        "{}",
        end.text
    );
    assert!(end.text.ends_with("\n[UTF-16LE, shown as UTF-8]"), "{}", end.text);
    let end = bench.run("read_file", json!({ "path": "big", "offset": 699_999 })).await;
    assert!(end.text.starts_with("700000\trow 999 \u{a0a}"), "{}", end.text);
    let end = bench.run("read_file", json!({ "path": "big", "offset": 700_000 })).await;
    assert_eq!(end.text, "Offset 700000 is past the end: big has 700000 lines.");
}

#[tokio::test]
async fn a_long_line_of_utf_16_is_an_artifact_of_text_without_its_secrets() {
    let mut bench = Bench::new();
    bench.redactor = Arc::new(Redactor::new([("key", b"secret-value-1".as_slice())]));
    let long = format!("{}secret-value-1", "日本\u{a0a}x".repeat(20_000));
    bench.put("f", utf16(&format!("{long}\nlast\n")));
    let end = bench.read("f").await;
    assert!(end.text.starts_with("     1\t日本\u{a0a}x日本"), "{}", &end.text[..40]);
    assert!(end.text.ends_with("1 more lines; next offset 1\n[UTF-16LE, shown as UTF-8]"));
    let blobs = bench.store.blobs.lock().unwrap();
    let kept = std::str::from_utf8(&blobs[&end.artifacts[0].hash]).unwrap();
    assert!(kept == long.replace("secret-value-1", "[REDACTED:key]"));
    assert!(end.text.len() <= limits::RESULT_MAX_BYTES);
}

#[tokio::test]
async fn letters_beyond_what_was_looked_at_are_read_by_their_page() {
    let mut bench = Bench::new();
    let path = bench.put("log", b"");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    let block = b"an ordinary line of a log, all of it ASCII\n".repeat(50_000);
    for _ in 0..9 {
        file.write_all(&block).unwrap();
    }
    file.write_all(&shift_jis(&JAPANESE.repeat(20))).unwrap();
    let end = bench.run("read_file", json!({ "path": "log", "offset": 449_999, "limit": 2 })).await;
    assert!(
        end.text.contains("450001\t設定ファイルを読み込みます。接続を確認してください。"),
        "{}",
        end.text
    );
    assert!(end.text.contains("[read as Shift_JIS from this page on, by detection;"), "{}", end.text);
    assert!(bench.read("log").await.text.ends_with("next offset 200"));
}

#[tokio::test]
async fn images_and_documents_become_artifacts_of_their_type() {
    let mut bench = Bench::new();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x06\0\0\0rest";
    bench.put("a.png", png);
    bench.put("named.txt", b"%PDF-1.7\nplain enough to look like text\n");
    let end = bench.read("a.png").await;
    let artifact = &end.artifacts[0];
    assert_eq!(
        end.text,
        format!(
            "a.png is a PNG image: 33 bytes, 640 x 480 pixels; kept as artifact {} (image/png)",
            artifact.artifact_id
        )
    );
    assert_eq!((artifact.mime.as_str(), artifact.size_bytes, artifact.redactions), ("image/png", 33, 0));
    assert_eq!(bench.store.blobs.lock().unwrap()[&artifact.hash], png);
    assert_eq!(bench.read("named.txt").await.artifacts[0].mime, "application/pdf");
    bench.put("words", "GIF89a is a format of pictures\n");
    assert_eq!(bench.read("words").await.text, "     1\tGIF89a is a format of pictures");
    bench.redactor = Arc::new(Redactor::new([("key", b"enough to look".as_slice())]));
    let end = bench.read("named.txt").await;
    assert!(
        end.text.ends_with("a known secret stands in it, so it is not kept as an artifact"),
        "{}",
        end.text
    );
    assert_eq!((end.artifacts.len(), bench.store.blobs.lock().unwrap().len()), (0, 2));
    std::fs::OpenOptions::new().write(true).open(bench.at("a.png")).unwrap().set_len(33 << 20).unwrap();
    let end = bench.read("a.png").await;
    assert!(end.text.ends_with("640 x 480 pixels; more than the 33554432 that are kept"), "{}", end.text);
    assert_eq!(std::fs::read_dir(&bench.tools.scratch).unwrap().count(), 0);
}

#[tokio::test]
async fn a_page_goes_by_the_bounds_of_its_call() {
    let bench = Bench::new();
    bench.put("f", "0123456789\n".repeat(2_000));
    bench.put("long", "x".repeat(50_000));
    for max_bytes in [1_024, 4_096, 16_384] {
        for name in ["f", "long"] {
            let mut ctx = bench.call("read_file", &json!({ "path": name, "limit": 2_000 }));
            ctx.bounds.max_bytes = max_bytes;
            let end = bench.tools.run(&ctx, &bench.redactor).await;
            assert!(end.text.len() <= max_bytes, "{} of {max_bytes}", end.text.len());
            assert!(end.text.len() > max_bytes / 3, "{} of {max_bytes}", end.text.len());
        }
    }
}

#[tokio::test]
async fn pages_go_on_from_where_lines_are_known_to_begin() {
    let mut bench = Bench::new();
    bench.tools.clock = Arc::new(Later);
    let line = |n: usize| format!("line {n:06} {}\n", "x".repeat(80));
    let content: String = (0..250_000).map(line).collect();
    bench.put("f", &content);
    assert!(content.len() as u64 > limits::EDIT_MAX_BYTES);
    for offset in [199_800_usize, 200_000, 10, 249_990, 199_900] {
        let end = bench.run("read_file", json!({ "path": "f", "offset": offset, "limit": 2 })).await;
        let expected = format!("{:>6}\t{}{:>6}\t{}", offset + 1, line(offset), offset + 2, line(offset + 1));
        assert!(end.text.starts_with(&expected), "{}", end.text);
    }
    let (files, places) = bench.tools.places.len();
    assert!(files == 1 && (5..=8).contains(&places), "{files} {places}");
    // Another content of the same size: other times, so nothing of what was known is used.
    bench.put("f", content.replacen("line 000000 xx", "line\n0000\n0 xx", 1));
    let end = bench.run("read_file", json!({ "path": "f", "offset": 200_002, "limit": 1 })).await;
    assert!(end.text.contains("\tline 200000 "), "{}", end.text);
    // More files than are remembered.
    for n in 0..limits::LINE_PLACES_FILES_MAX + 5 {
        bench.put(&format!("n{n}"), "a\nb\n");
        bench.read(&format!("n{n}")).await;
    }
    assert_eq!(bench.tools.places.len().0, limits::LINE_PLACES_FILES_MAX);
}

#[tokio::test]
async fn a_file_that_may_still_be_changing_is_not_remembered() {
    let mut bench = Bench::new();
    bench.put("f", "a\nb\n");
    bench.read("f").await;
    assert_eq!(bench.tools.places.len().0, 0);
}

/// How long pages of a large file take. The size is 64 MB unless `AGENTD_TEST_LARGE_MB` says another, and a release
/// build with 1000 gives the figure that is promised; here only the order of magnitude is held.
#[tokio::test]
async fn a_page_deep_in_a_large_file_is_quick_and_the_next_one_quicker() {
    let megabytes: usize =
        std::env::var("AGENTD_TEST_LARGE_MB").ok().and_then(|text| text.parse().ok()).unwrap_or(64);
    let mut bench = Bench::new();
    bench.tools.clock = Arc::new(Later);
    let path = bench.put("big", b"");
    let mut file = std::io::BufWriter::new(std::fs::OpenOptions::new().append(true).open(path).unwrap());
    let rows = megabytes * 1_000_000 / 100;
    for n in 0..rows {
        writeln!(file, "{n:09} {}", "abcdefghi ".repeat(9)).unwrap();
    }
    file.flush().unwrap();
    let mut times = Vec::new();
    let deep = rows.saturating_sub(3_000).min(1_998_000);
    for (offset, limit) in [(199_800, 200), (200_000, 200), (deep, 2_000), (deep + 200, 2_000)] {
        let began = Instant::now();
        let end = bench.run("read_file", json!({ "path": "big", "offset": offset, "limit": limit })).await;
        times.push((offset, limit, began.elapsed()));
        assert!(end.text.starts_with(&format!("{:>6}\t{offset:09} abc", offset + 1)), "{}", &end.text[..80]);
        assert!(end.text.contains("next offset"), "{}", &end.text[end.text.len() - 80..]);
    }
    let shown: Vec<String> = times.iter().map(|(o, l, t)| format!("offset {o} limit {l}: {t:?}")).collect();
    assert!(times.iter().all(|(.., time)| time.as_secs() < 2), "{shown:?}");
    if std::env::var_os("AGENTD_TEST_LARGE_MB").is_some() {
        std::fs::write("/tmp/agentd-page-times", shown.join("\n")).unwrap();
    }
}

fn contents() -> impl Strategy<Value = Vec<u8>> {
    let plain = prop::collection::vec(prop::sample::select(&b"ab\r\n\xe9 "[..]), 0..40);
    let words =
        prop::collection::vec(prop::sample::select(vec!["a", "b", "表示", "テスト", "\n", "\r\n"]), 0..20);
    (plain, words, 0..5).prop_map(|(plain, words, kind)| match kind {
        0 => [b"\xef\xbb\xbf", words.concat().as_bytes()].concat(),
        1 => utf16(&words.concat()),
        2 => shift_jis(&words.concat()),
        3 => words.concat().into_bytes(),
        _ => plain,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn edits_and_writes_keep_modes_links_and_names_and_leave_no_temp_files(
        content in contents(), old in "[ab\n]{1,2}", new in "[abc\n]{0,3}", write in any::<bool>(),
        mode in prop::sample::select(&[0o600_u32, 0o644, 0o755, 0o640, 0o4755, 0o200][..]),
        by_link in any::<bool>(), hard in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut bench = Bench::new();
            let mut names = vec!["f".to_owned()];
            let path = bench.put("f", &content);
            if hard {
                std::fs::hard_link(&path, bench.at("hard")).unwrap();
                names.push("hard".to_owned());
            }
            if by_link {
                std::os::unix::fs::symlink("f", bench.at("link")).unwrap();
                names.push("link".to_owned());
            }
            let name = if by_link { "link" } else { "f" };
            if write {
                bench.read(name).await;
            }
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let (end, expected) = if write {
                let expected = agentd_core::edit::written_over(&content, &new).map(|whole| whole.bytes).ok();
                (bench.write(name, &new).await, expected)
            } else {
                let expected = agentd_core::edit::replace(&content, &old, &new, false).map(|edited| edited.bytes).ok();
                (bench.edit(name, &old, &new).await, expected)
            };
            // A file that may not be read is not changed, unless root asks.
            let now = {
                std::fs::set_permissions(bench.at("f"), std::fs::Permissions::from_mode(bench.mode_of("f") | 0o400)).unwrap();
                bench.get("f")
            };
            if end.outcome == CallOutcome::Ok {
                assert_eq!(Some(now), expected);
            } else {
                assert_eq!(now, content);
                assert!(expected.is_none() || mode & 0o400 == 0, "{}", end.text);
            }
            assert_eq!(bench.mode_of("f"), mode | 0o400);
            if hard {
                assert_eq!(std::fs::read(bench.at("hard")).unwrap(), content);
            }
            if by_link {
                assert!(std::fs::symlink_metadata(bench.at("link")).unwrap().is_symlink());
            }
            assert_eq!(bench.names(), names);
        });
    }
}
