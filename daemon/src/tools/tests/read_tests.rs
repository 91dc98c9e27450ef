use super::*;
use agentd_core::event::CallOutcome;
use agentd_core::limits;
use std::os::unix::net::UnixListener;

#[tokio::test]
async fn a_page_has_no_hole_and_ends_with_the_next_offset() {
    let mut bench = Bench::new();
    let lines: Vec<String> = (1..=450).map(|n| format!("line {n}")).collect();
    bench.put("a.txt", lines.join("\n") + "\n");
    let (mut offset, mut found) = (0, Vec::new());
    loop {
        let end = bench.run("read_file", json!({ "path": "a.txt", "offset": offset })).await;
        assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
        for line in end.text.lines() {
            if let Some((number, text)) = line.split_once('\t') {
                assert_eq!(number.trim().parse::<usize>().unwrap(), found.len() + 1);
                found.push(text.to_owned());
            }
        }
        let Some((rest, next)) = end.text.rsplit_once("next offset ") else { break };
        let left = rest.rsplit_once("... ").unwrap().1;
        offset = next.parse::<usize>().unwrap();
        assert_eq!(offset, found.len());
        assert_eq!(left, format!("{} more lines; ", 450 - offset));
    }
    assert_eq!(found, lines);
    let end = bench.run("read_file", json!({ "path": "a.txt", "offset": 450 })).await;
    assert_eq!(end.text, "Offset 450 is past the end: a.txt has 450 lines.");
    assert_eq!(end.error_class.as_deref(), Some("range"));
}

#[tokio::test]
async fn what_is_unusual_about_a_file_is_said() {
    let mut bench = Bench::new();
    let rows: &[(&str, &[u8], &str)] = &[
        ("plain", b"a\nb\n", "     1\ta\n     2\tb"),
        ("empty", b"", "empty is empty (0 bytes)"),
        ("open", b"a", "     1\ta\n[no newline at the end]"),
        ("crlf", b"a\r\nb\r\n", "     1\ta\n     2\tb\n[lines end in CRLF]"),
        ("mixed", b"a\r\nb\n", "     1\ta\n     2\tb\n[lines end in LF and in CRLF]"),
        ("cr", b"a\rb\n", "     1\ta\u{240d}b\n[\u{240d} is a CR]"),
        ("bom", b"\xef\xbb\xbfa\n", "     1\ta\n[UTF-8 with byte order mark]"),
        (
            "latin",
            b"caf\xe9\n",
            "     1\tcaf\u{e9}\n[read as windows-1252, a guess: there are too few letters to be sure]",
        ),
        (
            "broken",
            b"caf\xc3\xa9 \xff\n",
            "     1\tcaf\u{e9} \u{fffd}\n[not UTF-8: \u{fffd} stands for other bytes]",
        ),
        ("utf16", b"\xff\xfea\0\n\0", "     1\ta\n[UTF-16LE, shown as UTF-8]"),
        (
            "utf16-cr",
            b"\xfe\xff\0a\0\r\0\n\x0a\0\0b",
            "     1\ta\n     2\t\u{a00}b\n[UTF-16BE, shown as UTF-8; lines end in CRLF; no newline at the end]",
        ),
        ("bare16", b"a\0b\0\n\0", "     1\tab\n[UTF-16LE without byte order mark, shown as UTF-8]"),
        (
            "half16",
            b"\xff\xfea\0\n\0b",
            "     1\ta\n     2\t\u{fffd}\n[UTF-16LE, shown as UTF-8; not UTF-16LE: \u{fffd} stands for other bytes; no newline at the end]",
        ),
        (
            "bin",
            b"\x7fELF\0\0",
            "bin is a binary file, an ELF program or library: 6 bytes, beginning with 7f 45 4c 46 00 00",
        ),
    ];
    for (name, content, expected) in rows {
        bench.put(name, content);
        assert_eq!(bench.read(name).await.text, *expected);
    }
}

#[tokio::test]
async fn a_long_line_can_be_read_to_its_end() {
    let mut bench = Bench::new();
    bench.redactor = Arc::new(Redactor::new([("key", b"secret-value-1".as_slice())]));
    let long: String = (0..200_000).map(|n| format!("{n:09}é")).collect();
    bench.put("a.json", format!("{long}secret-value-1\nlast\n"));
    let end = bench.read("a.json").await;
    assert!(end.text.len() < limits::RESULT_MAX_BYTES + 1_000, "{}", end.text.len());
    assert!(end.text.ends_with("\n... 1 more lines; next offset 1"), "{}", &end.text[end.text.len() - 200..]);
    let artifact = end.artifacts[0].clone();
    assert_eq!(artifact.redactions, 1);
    let at = end.text.rsplit_once("at offset ").unwrap().1;
    let mut offset: usize = at[..at.find(']').unwrap()].parse().unwrap();
    let mut whole = end.text.split_once('\t').unwrap().1.split("\n... [line").next().unwrap().to_owned();
    assert_eq!(whole.len(), offset);
    loop {
        let args = json!({ "id": artifact.artifact_id.as_str(), "offset": offset, "limit": 32_768 });
        let part = bench.run("read_artifact", args).await;
        assert_eq!(part.outcome, CallOutcome::Ok, "{}", part.text);
        match part.text.split_once("\n... ") {
            Some((text, rest)) => {
                whole.push_str(text);
                offset = rest.rsplit_once("next offset ").unwrap().1.parse().unwrap();
            }
            None => {
                whole.push_str(&part.text);
                break;
            }
        }
    }
    assert!(whole == format!("{long}[REDACTED:key]"));
    assert_eq!(bench.run("read_file", json!({ "path": "a.json", "offset": 1 })).await.text, "     2\tlast");
    assert_eq!(std::fs::read_dir(&bench.tools.scratch).unwrap().count(), 0);
}

#[tokio::test]
async fn a_long_line_in_the_middle_ends_the_page_before_it() {
    let mut bench = Bench::new();
    bench.put("a.txt", format!("one\ntwo\n{}\nfour\n", "x".repeat(10_000_000)));
    let end = bench.read("a.txt").await;
    assert_eq!(end.text, "     1\tone\n     2\ttwo\n... 2 more lines; next offset 2");
    let end = bench.run("read_file", json!({ "path": "a.txt", "offset": 2 })).await;
    assert!(end.text.contains("line 3 is cut here: the whole line (10000000 bytes)"));
    assert!(end.text.ends_with("1 more lines; next offset 3"));
    let whole = bench.store.blobs.lock().unwrap()[&end.artifacts[0].hash].clone();
    assert!(whole == "x".repeat(10_000_000).into_bytes());
    let args = json!({ "id": end.artifacts[0].artifact_id.as_str(), "offset": 9_999_990 });
    assert_eq!(bench.run("read_artifact", args).await.text, "xxxxxxxxxx");
    let end = bench.run("read_file", json!({ "path": "a.txt", "offset": 3 })).await;
    assert_eq!(end.text, "     4\tfour");
}

#[tokio::test]
async fn a_sparse_file_costs_nothing() {
    let mut bench = Bench::new();
    let path = bench.put("big", b"");
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(5 << 30).unwrap();
    let began = Instant::now();
    let end = bench.read("big").await;
    assert!(end.text.starts_with("big is a binary file: 5368709120 bytes"), "{}", end.text);
    assert!(end.seen.is_empty());
    bench.put("text", format!("{}\n", "a".repeat(9_000)));
    std::fs::OpenOptions::new().write(true).open(bench.at("text")).unwrap().set_len(5 << 30).unwrap();
    let end = bench.run("read_file", json!({ "path": "text", "limit": 1 })).await;
    assert!(end.text.contains("... 1 more lines; next offset 1"), "{}", &end.text[9_000..]);
    let end = bench.run("read_file", json!({ "path": "text", "offset": 2 })).await;
    assert_eq!(end.text, "Offset 2 is past the end: text has 2 lines.");
    assert!(began.elapsed().as_secs() < 2);
}

#[tokio::test]
async fn what_could_block_is_refused_at_once() {
    let mut bench = Bench::new();
    let made = std::process::Command::new("mkfifo").arg(bench.at("pipe")).status().unwrap();
    assert!(made.success());
    let _listener = UnixListener::bind(bench.at("s")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", bench.at("z")).unwrap();
    bench.put("a.txt", "x");
    let began = Instant::now();
    for (name, kind) in [("pipe", "a FIFO"), ("s", "a socket")] {
        for end in [bench.read(name).await, bench.edit(name, "a", "b").await, bench.write(name, "x").await] {
            assert_eq!(end.outcome, CallOutcome::Error);
            assert!(end.text.contains(&format!("is {kind}, not a regular file")), "{}", end.text);
        }
    }
    for path in ["z", "/dev/stdin", "/proc/self/mem", "/dev/zero"] {
        assert!(bench.read(path).await.text.contains("outside the workspace"));
    }
    let end = bench.run("list_dir", json!({})).await;
    assert_eq!(end.text, "a.txt  1 byte\npipe  a FIFO\ns  a socket\nz -> /dev/zero");
    bench.mode = PermissionMode::Full;
    let end = bench.read("/dev/zero").await;
    assert!(end.text.contains("a character device, not a regular file"), "{}", end.text);
    assert!(began.elapsed().as_secs() < 1);
}

#[tokio::test]
async fn names_are_bytes_and_a_look_alike_is_only_suggested() {
    let mut bench = Bench::new();
    bench.put("a b.txt", "space");
    bench.put("a\u{a0}b.txt", "nbsp");
    bench.put("\u{e9}.txt", "nfc");
    bench.put("e\u{301}.txt", "nfd");
    for (name, content) in
        [("a b.txt", "space"), ("a\u{a0}b.txt", "nbsp"), ("\u{e9}.txt", "nfc"), ("e\u{301}.txt", "nfd")]
    {
        assert!(bench.read(name).await.text.starts_with(&format!("     1\t{content}")));
    }
    std::fs::remove_file(bench.at("a\u{a0}b.txt")).unwrap();
    let end = bench.read("a\u{a0}b.txt").await;
    assert!(end.text.contains("Entries: [a b.txt, "), "{}", end.text);
    use std::os::unix::ffi::OsStrExt as _;
    let odd = std::ffi::OsStr::from_bytes(b"f\xffo");
    std::fs::write(bench.at(".").join(odd), "x").unwrap();
    bench.put("-n\n\"q\"", "x");
    let end = bench.run("list_dir", json!({})).await;
    assert!(end.text.contains("\"f\\xffo\"  1 byte"), "{}", end.text);
    assert!(end.text.contains("\"-n\\n\\\"q\\\"\"  1 byte"), "{}", end.text);
}

#[tokio::test]
async fn a_missing_file_is_answered_with_its_neighbours() {
    let mut bench = Bench::new();
    for n in 0..30 {
        bench.put(&format!("src/file{n:02}.rs"), "");
    }
    std::fs::create_dir(bench.at("src/files")).unwrap();
    let end = bench.read("src/file7.rs").await;
    let expected =
        format!("File not found: src/file7.rs. Nearest folder: {}. Entries: [", bench.at("src").display());
    assert!(end.text.starts_with(&expected), "{}", end.text);
    assert!(end.text.ends_with("], 11 more"), "{}", end.text);
    assert!(end.text.contains("file07.rs") && end.text.contains("file17.rs"), "{}", end.text);
    assert_eq!(end.error_class.as_deref(), Some("not_found"));
    let end = bench.read("nosuch/deep/x").await;
    assert!(end.text.ends_with("ws. Entries: [src/]"), "{}", end.text);
    assert!(bench.read("src/file00.rs/x").await.text.contains("is not a folder"));
}

#[tokio::test]
async fn a_secret_in_a_file_does_not_reach_the_result() {
    let mut bench = Bench::new();
    bench.redactor = Arc::new(Redactor::new([("key", b"secret-value-1".as_slice())]));
    bench.put(".env", "KEY=secret-value-1\nOTHER=x\n");
    let end = bench.read(".env").await;
    assert_eq!(end.text, "     1\tKEY=[REDACTED:key]\n     2\tOTHER=x");
    let end = bench.edit(".env", "KEY=[REDACTED:key]\nOTHER=x", "KEY=[REDACTED:key]\nOTHER=y").await;
    assert!(end.text.contains("redaction mark"), "{}", end.text);
    let end = bench.write(".env", "KEY=[REDACTED:key]\nOTHER=y\n").await;
    assert_eq!(end.error_class.as_deref(), Some("redaction_mark"));
    let end = bench.edit(".env", "KEY=secret-value-2", "KEY=1").await;
    assert!(end.text.contains("Nearest lines:\n     1\tKEY=[REDACTED:key]"), "{}", end.text);
    // A quotation that is cut does not cut a secret in two.
    let padded = format!("{} secret-value-1 is the key\n", "x".repeat(190));
    bench.put("long", &padded);
    let end = bench.edit("long", &format!("{} secret", "x".repeat(189) + "y"), "z").await;
    assert!(end.text.contains("xxx") && !end.text.contains("secret-"), "{}", end.text);
    let ctx = bench.call("edit_file", &json!({ "path": ".env", "old": "OTHER=x", "new": "OTHER=y" }));
    let preview = bench.tools.inspect(&ctx, &bench.redactor).await.unwrap().preview.unwrap();
    assert!(preview.contains(" KEY=[REDACTED:key]\n-OTHER=x\n+OTHER=y\n"), "{preview}");
    assert_eq!(bench.edit(".env", "OTHER=x", "OTHER=y").await.outcome, CallOutcome::Ok);
    assert_eq!(bench.get(".env"), b"KEY=secret-value-1\nOTHER=y\n");
}

#[tokio::test]
async fn lists_are_ordered_and_bounded() {
    let mut bench = Bench::new();
    for n in 0..510 {
        bench.put(&format!("many/{n:04}"), "");
    }
    std::fs::create_dir(bench.at("none")).unwrap();
    let end = bench.run("list_dir", json!({ "path": "many" })).await;
    assert!(end.text.starts_with("0000  0 bytes\n0001  0 bytes\n"));
    assert!(end.text.ends_with("0499  0 bytes\n... 10 more entries"));
    assert_eq!(bench.run("list_dir", json!({ "path": "none" })).await.text, "none is an empty folder");
    assert_eq!(bench.run("list_dir", json!({})).await.text, "many/\nnone/");
}
