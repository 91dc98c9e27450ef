use super::*;
use agentd_core::event::CallOutcome;
use proptest::prelude::*;
use std::os::unix::fs::{MetadataExt as _, symlink};

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn an_edit_keeps_line_ends_and_other_bytes() {
    let mut bench = Bench::new();
    let rows: &[(&[u8], &str, &str, &[u8])] = &[
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\nc\r\n"),
        (b"alpha\nbeta\r\ngamma\n", "beta", "BETA", b"alpha\nBETA\r\ngamma\n"),
        (b"a\rb\rc", "a\nb", "a\nB", b"a\rB\rc"),
        (b"a\nlast", "last", "end", b"a\nend"),
        (b"a\nb\n", "a\r\nb\r\n", "x\r\n", b"x\n"),
        (b"const x = 1;\n// caf\xe9\n", "x = 1", "x = 2", b"const x = 2;\n// caf\xe9\n"),
        (b"\xef\xbb\xbfx = 1\n", "x = 1", "x = 2", b"\xef\xbb\xbfx = 2\n"),
        (b"x = 1 \x93\xfa\x96{\n", "x = 1", "x = 2", b"x = 2 \x93\xfa\x96{\n"),
    ];
    for (before, old, new, after) in rows {
        bench.put("f", before);
        bench.read("f").await;
        let end = bench.edit("f", old, new).await;
        assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
        assert_eq!(bench.get("f"), *after);
    }
    for before in [&b"\xff\xfex\0\0\xd8"[..], b"x \x93\xfa\x96{\n"] {
        bench.put("f", before);
        bench.read("f").await;
        let end = bench.edit("f", "x", "\u{6708}").await;
        assert_eq!(end.error_class.as_deref(), Some("encoding"), "{}", end.text);
        assert_eq!(bench.get("f"), before);
    }
}

#[tokio::test]
async fn modes_links_and_names_stay() {
    let mut bench = Bench::new();
    for (name, mode) in [("run.sh", 0o755), ("secret.txt", 0o600), ("real.txt", 0o644), ("odd", 0o2750)] {
        chmod(&bench.put(name, "one\n"), mode);
    }
    symlink("real.txt", bench.at("link.txt")).unwrap();
    std::fs::hard_link(bench.at("run.sh"), bench.at("other.sh")).unwrap();
    for (round, name) in ["run.sh", "secret.txt", "link.txt", "odd"].into_iter().enumerate() {
        let before = bench.mode_of(name);
        bench.read(name).await;
        let end = bench.edit(name, "one", "two").await;
        assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
        assert_eq!((bench.mode_of(name), bench.get(name)), (before, b"two\n".to_vec()));
        let end = bench.write(name, &format!("three {round}\n")).await;
        assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
        assert_eq!((bench.mode_of(name), bench.get(name)), (before, format!("three {round}\n").into_bytes()));
    }
    assert!(std::fs::symlink_metadata(bench.at("link.txt")).unwrap().is_symlink());
    assert_eq!(bench.get("real.txt"), b"three 2\n");
    assert_eq!(bench.get("other.sh"), b"one\n");
    assert_eq!(std::fs::metadata(bench.at("run.sh")).unwrap().nlink(), 1);
    assert_eq!(bench.names(), ["link.txt", "odd", "other.sh", "real.txt", "run.sh", "secret.txt"]);
}

#[tokio::test]
async fn a_change_goes_to_the_very_name_and_never_to_a_look_alike() {
    let mut bench = Bench::new();
    let names = ["a b.txt", "a\u{a0}b.txt", "\u{e9}.txt", "e\u{301}.txt", "-n\n\"q\"", " lead", "trail "];
    for name in names {
        bench.put(name, "one\n");
    }
    for name in names {
        let end = bench.edit(name, "one", name).await;
        assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
        let end = bench.write(name, &format!("two {name}\n")).await;
        assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
    }
    for name in names {
        assert_eq!(bench.get(name), format!("two {name}\n").into_bytes());
    }
    assert_eq!(bench.names().len(), names.len());
    std::fs::remove_file(bench.at("\u{e9}.txt")).unwrap();
    let end = bench.edit("\u{e9}.txt", "two", "three").await;
    assert_eq!(end.error_class.as_deref(), Some("not_found"), "{}", end.text);
    assert_eq!(bench.get("e\u{301}.txt"), "two e\u{301}.txt\n".as_bytes());
}

#[tokio::test]
async fn a_new_file_gets_its_folders_and_an_ordinary_mode() {
    let mut bench = Bench::new();
    let end = bench.write("a/b/c.txt", "x\n").await;
    assert_eq!(end.text, "Wrote a/b/c.txt: 2 bytes, new file, folders made");
    assert_eq!(bench.get("a/b/c.txt"), b"x\n");
    let umask = 0o777 & !bench.mode_of("a");
    assert_eq!(bench.mode_of("a/b/c.txt"), 0o644 & !umask);
    let change = &end.files[0];
    assert_eq!((&change.before, change.before_mode), (&None, None));
    assert_eq!(change.after.as_deref(), Some(text::hash(b"x\n").as_str()));
    assert_eq!(change.path, path_bytes(&bench.at("a/b/c.txt")));
    // What the model wrote it knows.
    assert_eq!(bench.write("a/b/c.txt", "y\n").await.outcome, CallOutcome::Ok);
    for path in [".", "a", "a/b/", "new/"] {
        assert_eq!(bench.write(path, "x").await.outcome, CallOutcome::Error, "{path}");
    }
    assert_eq!(bench.names(), ["a"]);
}

#[tokio::test]
async fn a_file_is_overwritten_only_over_what_the_model_knows() {
    let mut bench = Bench::new();
    bench.put("f", "one\n");
    let end = bench.write("f", "mine\n").await;
    assert_eq!(end.error_class.as_deref(), Some("not_read"), "{}", end.text);
    bench.read("f").await;
    bench.put("f", "somebody else\n");
    for end in [bench.write("f", "mine\n").await, bench.edit("f", "else", "mine").await] {
        assert_eq!(end.error_class.as_deref(), Some("changed"), "{}", end.text);
    }
    assert_eq!(bench.get("f"), b"somebody else\n");
    // Touched, but the same content: by content, not by time.
    bench.read("f").await;
    bench.put("f", "somebody else\n");
    assert_eq!(bench.write("f", "mine\n").await.outcome, CallOutcome::Ok);
}

#[tokio::test]
async fn what_was_approved_must_be_what_is_done() {
    let mut bench = Bench::new();
    bench.put("f", "one two\n");
    bench.put("other", "one two\n");
    let mut ctx = bench.call("edit_file", &json!({ "path": "f", "old": "one", "new": "1" }));
    let found = bench.tools.inspect(&ctx, &bench.redactor).await.unwrap();
    let preview = found.preview.unwrap();
    assert_eq!(preview, "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-one two\n+1 two\n");
    assert_eq!(found.paths[0].content_hash, Some(text::hash(b"one two\n")));
    ctx.binding = found.binding;
    bench.put("f", "one three\n");
    let end = bench.tools.run(&ctx, &bench.redactor).await;
    assert_eq!(end.error_class.as_deref(), Some("changed"), "{}", end.text);
    assert!(end.text.contains("the content of f has changed since this call was checked"), "{}", end.text);
    std::fs::remove_file(bench.at("f")).unwrap();
    symlink("other", bench.at("f")).unwrap();
    let end = bench.tools.run(&ctx, &bench.redactor).await;
    assert!(end.text.contains("and leads to"), "{}", end.text);
    assert_eq!(bench.get("other"), b"one two\n");

    let mut ctx = bench.call("write_file", &json!({ "path": "new", "content": "x" }));
    ctx.binding = bench.tools.inspect(&ctx, &bench.redactor).await.unwrap().binding;
    bench.put("new", "theirs");
    assert_eq!(bench.tools.run(&ctx, &bench.redactor).await.outcome, CallOutcome::Error);
    assert_eq!(bench.get("new"), b"theirs");
    ctx.binding = None;
    bench.put("new2", "");
    assert_eq!(bench.tools.run(&ctx, &bench.redactor).await.outcome, CallOutcome::Error);
    let end = bench.edit("nosuch", "a", "b").await;
    assert_eq!(end.error_class.as_deref(), Some("not_found"));
}

#[tokio::test]
async fn both_contents_are_kept_before_anything_is_written() {
    let mut bench = Bench::new();
    bench.put("f", "old\n");
    let end = bench.edit("f", "old", "new").await;
    assert_eq!(end.text, "Edited f: 1 replacement, line 1");
    let blobs = bench.store.blobs.lock().unwrap();
    let change = &end.files[0];
    assert_eq!(blobs[change.before.as_ref().unwrap()], b"old\n");
    assert_eq!(blobs[change.after.as_ref().unwrap()], b"new\n");
    assert_eq!(end.seen[0].hash, text::hash(b"new\n"));
}

#[tokio::test]
async fn evidence_is_read_from_the_file() {
    let bench = Bench::new();
    bench.put("f", "old\n");
    let mut ctx = bench.call("edit_file", &json!({ "path": "f", "old": "old", "new": "new" }));
    ctx.binding = bench.tools.inspect(&ctx, &bench.redactor).await.unwrap().binding;
    let leftover = commit::temp_name(&ctx.call_id);
    bench.put(&leftover, "half");
    assert!(matches!(bench.tools.evidence(&ctx).await, Evidence::NotStarted { .. }));
    assert_eq!(bench.names(), ["f"]);
    bench.put("f", "new\n");
    assert!(matches!(bench.tools.evidence(&ctx).await, Evidence::Finished { .. }));
    let end = bench.tools.finished(&ctx).await;
    assert_eq!((end.outcome, end.files.len(), end.seen.len()), (CallOutcome::Ok, 1, 1));
    assert!(end.evidence.is_some());
    bench.put("f", "other\n");
    assert!(matches!(bench.tools.evidence(&ctx).await, Evidence::Unknown { .. }));
    std::fs::remove_file(bench.at("f")).unwrap();
    assert!(matches!(bench.tools.evidence(&ctx).await, Evidence::Unknown { .. }));
    let mut ctx = bench.call("write_file", &json!({ "path": "n/m", "content": "x" }));
    ctx.binding = bench.tools.inspect(&ctx, &bench.redactor).await.unwrap().binding;
    assert!(matches!(bench.tools.evidence(&ctx).await, Evidence::NotStarted { .. }));
    bench.put("n/m", "x");
    assert!(matches!(bench.tools.evidence(&ctx).await, Evidence::Finished { .. }));
    let reading = bench.call("read_file", &json!({ "path": "f" }));
    assert!(matches!(bench.tools.evidence(&reading).await, Evidence::NotStarted { .. }));
}

#[tokio::test]
async fn a_failure_leaves_the_old_bytes_and_no_temp_files() {
    let mut bench = Bench::new();
    bench.put("f", "old\n");
    bench.store.fail_blobs.store(true, Ordering::Relaxed);
    let end = bench.edit("f", "old", "new").await;
    assert!(end.text.starts_with("Nothing was changed: the contents cannot be kept"), "{}", end.text);
    bench.store.fail_blobs.store(false, Ordering::Relaxed);
    let end = bench.run("edit_file", json!({ "path": "f", "old": "o", "new": "o", "all": true })).await;
    assert_eq!(end.error_class.as_deref(), Some("edit_empty"));
    if !is_root() {
        chmod(&bench.at("f"), 0o444);
        assert_eq!(bench.edit("f", "old", "new").await.error_class.as_deref(), Some("permission"));
        chmod(&bench.at("."), 0o555);
        chmod(&bench.at("f"), 0o644);
        assert_eq!(bench.edit("f", "old", "new").await.error_class.as_deref(), Some("io"));
        chmod(&bench.at("."), 0o755);
    }
    assert_eq!(bench.get("f"), b"old\n");
    assert_eq!(bench.names(), ["f"]);
}

#[tokio::test]
async fn a_whole_write_keeps_mark_encoding_and_line_ends_and_says_so() {
    let mut bench = Bench::new();
    bench.put("f", b"\xef\xbb\xbfa\r\nb\r\n");
    bench.read("f").await;
    let end = bench.write("f", "a\nc\n").await;
    assert_eq!(end.text, "Wrote f: 9 bytes, replaced, byte order mark kept, line ends kept: CRLF");
    assert_eq!(bench.get("f"), b"\xef\xbb\xbfa\r\nc\r\n");
    bench.put("f", b"\xff\xfea\0\r\0\n\0");
    bench.read("f").await;
    let end = bench.write("f", "\u{65e5}\n").await;
    assert_eq!(end.text, "Wrote f: 8 bytes, replaced, encoding kept: UTF-16LE, line ends kept: CRLF");
    assert_eq!(bench.get("f"), b"\xff\xfe\xe5\x65\r\0\n\0");
    // Mixed line ends are nobody's wish; what was given is written, and said.
    bench.put("f", b"a\nb\r\n");
    bench.read("f").await;
    let end = bench.write("f", "a\nb\n").await;
    assert_eq!(end.text, "Wrote f: 4 bytes, replaced, line ends were mixed and are LF");
    bench.put("f", b"a\rb\r");
    bench.read("f").await;
    let end = bench.write("f", "a\nb").await;
    assert_eq!(
        end.text,
        "Wrote f: 3 bytes, replaced, line ends were CR and are LF, the newline at the end is gone"
    );
    bench.put("f", b"caf\xe9\n");
    bench.read("f").await;
    let end = bench.write("f", "th\u{e9}\n").await;
    assert_eq!(end.text, "Wrote f: 4 bytes, replaced, encoding kept: windows-1252");
    assert_eq!(bench.get("f"), b"th\xe9\n");
    for content in ["th\u{65e5}\n", "th\u{fffd}\n"] {
        let end = bench.write("f", content).await;
        assert_eq!(end.error_class.as_deref(), Some("encoding"), "{}", end.text);
        assert_eq!(bench.get("f"), b"th\xe9\n");
    }
}

/// Somebody swaps the file for a link to the outside while the tool writes, 2,000 times; every tenth time nobody does,
/// and the write must succeed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_with_a_link_touches_nothing_outside() {
    let mut bench = Bench::new();
    let (file, side, outside) = (bench.at("f.txt"), bench.at("side"), bench.dir.path().join("out/t.txt"));
    bench.put("f.txt", "a\n");
    let is_over = Arc::new(AtomicBool::new(false));
    let quiet = Arc::new(tokio::sync::Mutex::new(()));
    let swapper = {
        let (file, outside, is_over, quiet) = (file.clone(), outside.clone(), is_over.clone(), quiet.clone());
        std::thread::spawn(move || {
            let mut pause = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                let _held = quiet.blocking_lock();
                let _ = std::fs::remove_file(&side);
                symlink(&outside, &side).unwrap();
                std::fs::rename(&side, &file).unwrap();
                std::fs::write(&side, "a\n").unwrap();
                std::fs::rename(&side, &file).unwrap();
                drop(_held);
                // Another length each time, so that every stage of the write is hit.
                pause = (pause * 7 + 13) % 4_001;
                (0..pause * 20).for_each(|_| std::hint::spin_loop());
            }
        })
    };
    let (mut refused, mut beaten) = (0, 0);
    for round in 0..2_000 {
        let held = if round % 10 == 0 { Some(quiet.lock().await) } else { None };
        if held.is_some() {
            // What they wrote last is there, unless a write of ours came after it and was allowed.
            assert!(std::fs::symlink_metadata(&file).unwrap().is_file());
            bench.put("f.txt", "a\n");
        }
        bench.seen.insert(path_bytes(&file), text::hash(b"a\n"));
        let end = bench.write("f.txt", &format!("b{round}\n")).await;
        if held.is_some() {
            assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
            assert_eq!(bench.get("f.txt"), format!("b{round}\n").into_bytes());
        }
        refused += u32::from(end.outcome != CallOutcome::Ok);
        beaten += u32::from(end.text.contains("changed by somebody else in this moment"));
    }
    is_over.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(refused > 0 && beaten > 0, "no race: {refused} refused, {beaten} in the last moment");
    assert!(!outside.exists());
    let left: Vec<String> = bench.names().into_iter().filter(|name| name.starts_with(".agentd")).collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn a_change_in_the_last_moment_is_put_back() {
    let bench = Bench::new();
    bench.put("f", "one\n");
    let workspace = inspect::Workspace::open(&bench.root, &bench.cwd).unwrap();
    let Ok(inspect::Found::Existing(existing)) = workspace.lookup(b"f") else { panic!() };
    // The same file, with another content: nothing but the exchange can tell.
    bench.put("f", "theirs\n");
    let found = commit::replace(&workspace, &existing, &text::hash(b"one\n"), b"mine\n", ".t");
    assert!(matches!(found, Err(commit::CommitError::Changed)));
    assert_eq!((bench.get("f"), bench.names()), (b"theirs\n".to_vec(), vec!["f".to_owned()]));
    let found = commit::replace(&workspace, &existing, &text::hash(b"theirs\n"), b"mine\n", ".t");
    assert!(found.is_ok());
    assert_eq!((bench.get("f"), bench.names()), (b"mine\n".to_vec(), vec!["f".to_owned()]));
}

#[tokio::test]
async fn planted_temp_names_are_never_followed() {
    let mut bench = Bench::new();
    let outside = bench.dir.path().join("out/t.txt");
    for number in 0..20 {
        symlink(&outside, bench.at(&commit::temp_name(&CallId::new(format!("c_{number}"))))).unwrap();
    }
    assert_eq!(bench.write("f.txt", "x").await.outcome, CallOutcome::Ok);
    assert!(!outside.exists());
    assert_eq!(bench.get("f.txt"), b"x");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_edits_change_what_the_pure_edit_says_and_keep_the_mode(
        content in prop::collection::vec(prop::sample::select(&b"ab\r\n\xe9 "[..]), 0..40),
        old in "[ab\n]{1,3}", new in "[abc\n]{0,3}",
        mode in prop::sample::select(&[0o600_u32, 0o644, 0o755, 0o640][..]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut bench = Bench::new();
            chmod(&bench.put("f", &content), mode);
            let expected = agentd_core::edit::replace(&content, &old, &new, false);
            let end = bench.edit("f", &old, &new).await;
            match expected {
                Ok(edited) => {
                    assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
                    assert_eq!(bench.get("f"), edited.bytes);
                }
                Err(_) => {
                    assert_eq!(end.outcome, CallOutcome::Error);
                    assert_eq!(bench.get("f"), content);
                }
            }
            assert_eq!(bench.mode_of("f"), mode);
            assert_eq!(bench.names(), ["f"]);
        });
    }
}

/// What somebody else wrote in the moment of an exchange lies beside the file afterwards, and is never tidied away.
#[tokio::test]
async fn recovery_keeps_what_is_not_of_the_call() {
    let bench = Bench::new();
    bench.put("f", b"old\n");
    let mut ctx = bench.call("edit_file", &json!({"path": "f", "old": "old", "new": "new"}));
    ctx.binding = bench.tools.inspect(&ctx, &bench.redactor).await.unwrap().binding;
    let temp = commit::temp_name(&ctx.call_id);
    // Killed between the exchange and the look at what was displaced.
    bench.put("f", b"new\n");
    bench.put(&temp, b"somebody else\n");
    let Evidence::Unknown { why, .. } = bench.tools.evidence(&ctx).await else { panic!("known") };
    assert!(why.contains(&temp), "{why}");
    assert_eq!(bench.get(&temp), b"somebody else\n");
    // Displaced by the call itself, or half-written before the exchange: tidied.
    bench.put(&temp, b"old\n");
    assert!(matches!(bench.tools.evidence(&ctx).await, Evidence::Finished { .. }));
    bench.put("f", b"old\n");
    bench.put(&temp, b"ne");
    assert!(matches!(bench.tools.evidence(&ctx).await, Evidence::NotStarted { .. }));
    assert_eq!(bench.names(), ["f"]);
}

/// Runs itself again as a writer and kills it with SIGKILL, each time after another number of writes.
#[test]
fn a_kill_leaves_the_old_or_the_new_content() {
    use std::io::{BufRead as _, BufReader, Write as _};
    const FOLDER: &str = "AGENTD_TEST_KILL_FOLDER";
    let contents = [b"a".repeat(300_000), b"b".repeat(300_000)];
    if let Some(root) = std::env::var_os(FOLDER) {
        let root = path_bytes(Path::new(&root));
        let mut stdout = std::io::stdout().lock();
        for round in 0.. {
            let workspace = inspect::Workspace::open(&root, &root).unwrap();
            let Ok(inspect::Found::Existing(existing)) = workspace.lookup(b"f") else { panic!() };
            let now = std::fs::read(Path::new(&existing.path.display())).unwrap();
            let next = &contents[usize::from(now == contents[0])];
            let temp = commit::temp_name(&CallId::new("c_1"));
            assert!(commit::replace(&workspace, &existing, &text::hash(&now), next, &temp).is_ok());
            writeln!(stdout, "round {round}").unwrap();
        }
    }
    let bench = Bench::new();
    for rounds in 1..=20 {
        bench.put("f", &contents[0]);
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "tools::tests::change_tests::a_kill_leaves_the_old_or_the_new_content",
                "--nocapture",
            ])
            .env(FOLDER, bench.at("."))
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let seen = lines.map_while(Result::ok).filter(|line| line.starts_with("round ")).take(rounds).count();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, rounds);
        assert!(contents.contains(&bench.get("f")));
        // What is left beside it is known by the call, and recovery removes it.
        let leftovers: Vec<String> = bench.names().into_iter().filter(|name| name != "f").collect();
        assert!(
            leftovers.iter().all(|name| *name == commit::temp_name(&CallId::new("c_1"))),
            "{leftovers:?}"
        );
        let mut ctx = bench.call("write_file", &json!({}));
        ctx.call_id = CallId::new("c_1");
        ctx.binding = Some(Binding::File {
            path: path_bytes(&bench.at("f")),
            before: Some(text::hash(&contents[0])),
            after: text::hash(&contents[1]),
        });
        assert!(matches!(evidence::of_call(&ctx), Evidence::NotStarted { .. } | Evidence::Finished { .. }));
        assert_eq!(bench.names(), ["f"]);
    }
}
