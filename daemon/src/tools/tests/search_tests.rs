use super::*;
use agentd_core::event::CallOutcome;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

async fn search(bench: &mut Bench, args: Value) -> String {
    let end = bench.run("search", args).await;
    assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
    end.text
}

async fn lines_of(bench: &mut Bench, pattern: &str) -> Vec<String> {
    search(bench, json!({ "pattern": pattern })).await.lines().skip(1).map(str::to_owned).collect()
}

#[tokio::test]
async fn matches_stand_below_their_files_in_order() {
    let mut bench = Bench::new();
    bench.put("b.rs", "fn one() {}\nlet x;\nfn two() {}\n");
    bench.put("a/z.rs", "fn three() {}");
    bench.put("a-b/z.rs", "fn four() {}\r\nfn five();\r\n");
    bench.put(".hidden/h", "fn six");
    let text = search(&mut bench, json!({ "pattern": "fn \\w+" })).await;
    let expected = "6 matching lines in 4 files (4 files searched)\n.hidden/h\n  1: fn six\na/z.rs\n  1: fn three() {}\n\
                    a-b/z.rs\n  1: fn four() {}\n  2: fn five();\nb.rs\n  1: fn one() {}\n  3: fn two() {}";
    assert_eq!(text, expected);
    // The end of a line is before its CR LF.
    assert_eq!(lines_of(&mut bench, r"five\(\);$").await, ["a-b/z.rs", "  2: fn five();"]);
    let one = search(&mut bench, json!({ "pattern": "^fn", "path": "b.rs" })).await;
    assert_eq!(one, "2 matching lines in 1 file (1 file searched)\nb.rs\n  1: fn one() {}\n  3: fn two() {}");
    let glob = search(&mut bench, json!({ "pattern": "fn", "glob": "!*.rs" })).await;
    assert!(glob.ends_with("(1 file searched)\n.hidden/h\n  1: fn six"), "{glob}");
    let glob = search(&mut bench, json!({ "pattern": "fn", "glob": "a/**/*.{rs,ts}" })).await;
    assert!(glob.ends_with("(1 file searched)\na/z.rs\n  1: fn three() {}"), "{glob}");
    let none = search(&mut bench, json!({ "pattern": "FN" })).await;
    assert_eq!(none, "No matches for FN, case counts (4 files searched)");
    assert_eq!(lines_of(&mut bench, "(?i)FN SIX").await.len(), 2);
}

#[tokio::test]
async fn bad_patterns_say_where_and_what_to_do() {
    let mut bench = Bench::new();
    bench.put("a", "call(x)\na\rb\n");
    let end = bench.run("search", json!({ "pattern": "call(" })).await;
    assert_eq!((end.outcome, end.error_class.as_deref()), (CallOutcome::Invalid, Some("pattern")));
    assert!(end.text.contains("call(\n"), "{}", end.text);
    assert!(end.text.contains("unclosed group") && end.text.contains('^'), "{}", end.text);
    assert!(end.text.ends_with("escape it: call\\("), "{}", end.text);
    let end = bench.run("search", json!({ "pattern": "a\\nb" })).await;
    assert!(end.text.contains("line by line"), "{}", end.text);
    let end = bench.run("search", json!({ "pattern": "(a{1000}){1000}" })).await;
    assert!(end.text.contains("size limit"), "{}", end.text);
    assert_eq!(lines_of(&mut bench, "a\\rb").await, ["a", "  2: a\u{240d}b"]);
    let end = bench.run("search", json!({ "pattern": "a", "glob": "{a" })).await;
    assert!(end.text.starts_with("Invalid glob {a"), "{}", end.text);
    let end = bench.run("search", json!({ "pattern": "a", "path": "nope" })).await;
    assert!(end.text.starts_with("File not found: nope."), "{}", end.text);
    let end = bench.run("search", json!({ "pattern": "a", "path": "../out" })).await;
    assert_eq!(end.error_class.as_deref(), Some("outside"));
}

#[tokio::test]
async fn nothing_that_is_no_file_is_opened_and_no_link_followed() {
    let mut bench = Bench::new();
    make_fifo(&bench.at("pipe"));
    make_fifo(&bench.at(".gitignore"));
    bench.put("sub/real", "needle\n");
    make_fifo(&bench.at("sub/.ignore"));
    let _socket = std::os::unix::net::UnixListener::bind(bench.at("sock")).unwrap();
    std::fs::write(bench.dir.path().join("out/secret"), "needle\n").unwrap();
    symlink("../out", bench.at("outside")).unwrap();
    symlink("../out/secret", bench.at("outfile")).unwrap();
    symlink("/dev/zero", bench.at("zero")).unwrap();
    symlink("..", bench.at("sub/loop")).unwrap();
    symlink("sub/real", bench.at("link")).unwrap();
    let text = search(&mut bench, json!({ "pattern": "needle" })).await;
    let expected = "1 matching line in 1 file (1 file searched; 4 neither file nor folder; 5 links not followed)\n\
                    sub/real\n  1: needle";
    assert_eq!(text, expected);
    let one = search(&mut bench, json!({ "pattern": "needle", "path": "sub" })).await;
    assert!(
        one.starts_with(
            "1 matching line in 1 file (1 file searched; 1 neither file nor folder; 1 link not followed)"
        ),
        "{one}"
    );
    let linked = search(&mut bench, json!({ "pattern": "needle", "path": "link" })).await;
    assert!(linked.ends_with("sub/real\n  1: needle"), "{linked}");
    for (path, class) in
        [("pipe", "file_type"), ("zero", "outside"), ("outside", "outside"), ("outfile", "outside")]
    {
        let end = bench.run("search", json!({ "pattern": "needle", "path": path })).await;
        assert_eq!(end.error_class.as_deref(), Some(class), "{path}: {}", end.text);
    }
}

#[tokio::test]
async fn odd_contents_are_searched_or_counted() {
    let mut bench = Bench::new();
    bench.put("bin", b"needle\0\n");
    let utf16: Vec<u8> = "\u{feff}a\nneedle \u{e9}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    bench.put("le", utf16);
    let utf16: Vec<u8> = "\u{feff}needle\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    bench.put("be", utf16);
    bench.put("bom", "\u{feff}needle\n");
    bench.put("latin", b"caf\xe9 needle\n");
    bench.put("empty", "");
    let name = bench.at("").join(std::ffi::OsStr::from_bytes(b"z\xff"));
    std::fs::write(name, "needle").unwrap();
    let text = search(&mut bench, json!({ "pattern": "needle" })).await;
    assert!(text.starts_with("5 matching lines in 5 files (6 files searched; 1 binary)"), "{text}");
    assert!(text.contains("be\n  1: needle\n") && text.contains("le\n  2: needle \u{e9}\n"), "{text}");
    assert!(text.ends_with("\"z\\xff\"\n  1: needle"), "{text}");
    assert!(text.contains("latin\n  1: caf\u{fffd} needle"), "{text}");
    let bin = search(&mut bench, json!({ "pattern": "needle", "path": "bin" })).await;
    assert_eq!(bin, "bin is a binary file; it was not searched");
}

#[tokio::test]
async fn why_nothing_may_have_been_found_is_said() {
    let mut bench = Bench::new();
    bench.put("a.py", "print(total[0])\n");
    bench.put("latin", b"caf\xe9\n");
    let utf16: Vec<u8> = "\u{feff}th\u{e9}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    bench.put("le", utf16);
    let hint = "No matches for print(total[0]), case counts (3 files searched). 1 file has it as plain text: \\ ( ) [ ] { } . \
                * + ? | ^ $ mean something else in a pattern, escape them with \\: print\\(total\\[0\\]\\)";
    assert_eq!(search(&mut bench, json!({ "pattern": "print(total[0])" })).await, hint);
    let escaped = search(&mut bench, json!({ "pattern": "print\\(total\\[0\\]\\)" })).await;
    assert!(escaped.ends_with("a.py\n  1: print(total[0])"), "{escaped}");
    // A pattern that means what it says is not doubted.
    let none = search(&mut bench, json!({ "pattern": "sum[0-9]+" })).await;
    assert_eq!(none, "No matches for sum[0-9]+, case counts (3 files searched)");
    let hint = "No matches for caf\u{e9}, case counts (3 files searched). 1 file is not UTF-8 and was searched as bytes, in which \
                only ASCII text is found";
    assert_eq!(search(&mut bench, json!({ "pattern": "caf\u{e9}" })).await, hint);
    let found = search(&mut bench, json!({ "pattern": "th\u{e9}" })).await;
    assert_eq!(found, "1 matching line in 1 file (3 files searched)\nle\n  1: th\u{e9}");
}

#[tokio::test]
async fn long_lines_and_large_files_are_searched_and_cut_around_the_match() {
    let mut bench = Bench::new();
    let long = format!("{}needle{}", "\u{e9}".repeat(1_000_000), "y".repeat(1_000_000));
    bench.put("min.js", &long);
    let mut large = "nothing here\n".repeat(500_000);
    large.push_str("the needle\n");
    bench.put("large", large);
    let lines = lines_of(&mut bench, "needle").await;
    assert_eq!((lines[0].as_str(), lines[1].as_str()), ("large", "  500001: the needle"));
    assert!(lines[3].starts_with("  1: [... 1999") && lines[3].contains("needle"), "{}", lines[3]);
    assert!(lines[3].ends_with(" bytes ...]") && lines[3].len() < 600, "{}", lines[3]);
    assert!(!lines[3].contains('\u{fffd}'), "{}", lines[3]);
}

#[tokio::test]
async fn ignored_files_are_counted_and_searched_when_named() {
    let mut bench = Bench::new();
    bench.put(".gitignore", "build\n*.log\n");
    bench.put("build/out.txt", "needle");
    bench.put("a.log", "needle");
    bench.put(".git/config", "needle");
    bench.put(".git/info/exclude", "private\n");
    bench.put("private", "needle");
    let text = search(&mut bench, json!({ "pattern": "needle" })).await;
    assert!(
        text.starts_with(
            "No matches for needle, case counts (1 file searched; 2 files and 1 folder ignored by"
        ),
        "{text}"
    );
    for (args, expected) in [
        (json!({ "pattern": "needle", "path": "build" }), "build/out.txt\n  1: needle"),
        (json!({ "pattern": "needle", "path": "a.log" }), "a.log\n  1: needle"),
        (json!({ "pattern": "needle", "glob": "a.log" }), "a.log\n  1: needle"),
        (json!({ "pattern": "needle", "glob": "build/**" }), "build/out.txt\n  1: needle"),
        (json!({ "pattern": "needle", "path": ".git" }), "config\n  1: needle"),
    ] {
        let text = search(&mut bench, args.clone()).await;
        assert!(text.ends_with(expected), "{args}: {text}");
    }
}

#[tokio::test]
async fn rules_of_the_folders_above_count_up_to_the_workspace() {
    let mut bench = Bench::new();
    std::fs::write(bench.dir.path().join(".gitignore"), "*\n").unwrap();
    bench.put(".gitignore", "*.tmp\n/sub/x\n");
    for name in ["sub/a.tmp", "sub/x/f", "sub/b", "sub/repo/c.tmp"] {
        bench.put(name, "needle");
    }
    // Git's rules end at the top of a repository.
    std::fs::create_dir(bench.at("sub/repo/.git")).unwrap();
    let text = search(&mut bench, json!({ "pattern": "needle", "path": "sub" })).await;
    let expected = "2 matching lines in 2 files (2 files searched; 1 file and 1 folder ignored by .gitignore or .ignore)\n\
                    sub/b\n  1: needle\nsub/repo/c.tmp\n  1: needle";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn files_with_names_elsewhere_and_own_folders_are_left_out() {
    let mut bench = Bench::new();
    let outside = bench.dir.path().join("out/real");
    std::fs::write(&outside, "needle").unwrap();
    std::fs::hard_link(&outside, bench.at("hard")).unwrap();
    let twin = bench.put("twin", "needle");
    std::fs::hard_link(&twin, bench.at("twin2")).unwrap();
    let text = search(&mut bench, json!({ "pattern": "needle" })).await;
    assert!(
        text.starts_with("2 matching lines in 2 files (2 files searched; 1 with hard links elsewhere"),
        "{text}"
    );
    bench.root = path_bytes(&std::fs::canonicalize(bench.dir.path()).unwrap());
    bench.cwd = bench.root.clone();
    std::fs::write(bench.dir.path().join("state/key"), "needle").unwrap();
    let text = search(&mut bench, json!({ "pattern": "needle" })).await;
    assert!(text.contains("3 of agentd's own folders") && !text.contains("state/key"), "{text}");
}

#[tokio::test]
async fn an_unreadable_folder_and_file_are_counted() {
    let mut bench = Bench::new();
    bench.put("shut/a", "needle");
    bench.put("file", "needle");
    for name in ["shut", "file"] {
        std::fs::set_permissions(bench.at(name), std::fs::Permissions::from_mode(0o0)).unwrap();
    }
    // Permissions hold nobody who is root.
    let is_root = std::fs::read(bench.at("file")).is_ok();
    let text = search(&mut bench, json!({ "pattern": "needle" })).await;
    std::fs::set_permissions(bench.at("shut"), std::fs::Permissions::from_mode(0o700)).unwrap();
    if is_root {
        assert!(text.starts_with("2 matching lines"), "{text}");
    } else {
        assert!(text.contains("1 could not be read; 1 file that could not be read"), "{text}");
    }
}

#[tokio::test]
async fn secrets_are_removed_before_lines_are_cut() {
    let mut bench = Bench::new();
    let secret = "sk-very-secret-value-0123456789";
    bench.redactor = Arc::new(Redactor::new([("KEY", secret.as_bytes())]));
    bench.put("env", format!("KEY={secret} needle\n"));
    bench.put("long", format!("{}needle{}{secret}{}", "x".repeat(2_000), "y".repeat(285), "z".repeat(2_000)));
    for number in 0..300 {
        bench.put(&format!("many/{number:03}"), format!("needle {secret}"));
    }
    bench.put(&format!("named-{secret}"), "needle");
    let end = bench.run("search", json!({ "pattern": "needle" })).await;
    assert!(!end.text.contains("sk-very") && end.text.contains("KEY=[REDACTED:KEY] needle"), "{}", end.text);
    assert_eq!(end.artifacts[0].redactions, 303);
    let blobs = bench.store.blobs.lock().unwrap();
    assert!(blobs.values().all(|blob| !String::from_utf8_lossy(blob).contains("sk-very")));
}

#[tokio::test]
async fn a_huge_result_is_bounded_whole_in_the_artifact_and_always_the_same() {
    let mut bench = Bench::new();
    for folder in 0..20 {
        for file in 0..40 {
            let lines: String = (0..40).map(|line| format!("needle {folder} {file} {line}\n")).collect();
            bench.put(&format!("d{folder}/f{file}"), lines);
        }
    }
    bench.put("e/big", "needle in a large file\n".repeat(100_000));
    let first = bench.run("search", json!({ "pattern": "needle" })).await;
    assert!(first.text.len() <= bench.call("search", &json!({})).bounds.max_bytes);
    assert!(first.text.starts_with("132000 matching lines in 801 files"), "{}", &first.text[..300]);
    assert!(first.text.contains("] ... the whole result (") && first.text.contains("e/big (continued)"));
    for _ in 0..20 {
        let again = bench.run("search", json!({ "pattern": "needle" })).await;
        assert_eq!(again.artifacts[0].hash, first.artifacts[0].hash);
        assert_eq!(again.truncation, first.truncation);
    }
    let mut ctx = bench.call("search", &json!({ "pattern": "needle" }));
    ctx.bounds.max_bytes = 1_024;
    let small = bench.tools.run(&ctx, &bench.redactor).await;
    assert!(small.text.len() <= 1_024, "{}", small.text.len());
}

#[test]
fn what_is_kept_does_not_depend_on_order_or_threads() {
    use crate::tools::walk::Kept;
    let names: Vec<String> = (0..200).map(|number| format!("d{}/f{number}", number % 7)).collect();
    let kept = |order: &mut dyn Iterator<Item = &String>, parts: usize| {
        let mut all: Vec<Kept<()>> = (0..parts).map(|_| Kept::new(900)).collect();
        for (at, name) in order.enumerate() {
            all[at % parts].put(name.as_bytes(), name.len() * 3 % 11, ());
        }
        let mut whole = Kept::new(900);
        all.into_iter().for_each(|part| whole.merge(part));
        whole.into_values().map(|(path, ())| path).collect::<Vec<_>>()
    };
    let first = kept(&mut names.iter(), 1);
    assert!(first.len() > 20 && first.len() < 200);
    for parts in 1..6 {
        assert_eq!(kept(&mut names.iter().rev(), parts), first);
        assert_eq!(kept(&mut names.iter(), parts), first);
    }
}

#[test]
fn a_walk_that_nobody_waits_for_ends() {
    let bench = Bench::new();
    bench.put("a", "needle");
    let (stop, guard) = crate::tools::walk::Stop::after(std::time::Duration::from_secs(3_600));
    assert!(!stop.now());
    drop(guard);
    assert!(stop.now() && stop.was_early());
    let (stop, _guard) = crate::tools::walk::Stop::after(std::time::Duration::ZERO);
    assert!(stop.now() && stop.was_early());
}
