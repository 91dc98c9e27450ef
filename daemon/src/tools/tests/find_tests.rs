use super::*;
use std::os::unix::ffi::OsStrExt as _;

async fn found(bench: &mut Bench, pattern: &str) -> String {
    let end = bench.run("find_files", json!({ "pattern": pattern })).await;
    assert_eq!(end.outcome, agentd_core::event::CallOutcome::Ok, "{}", end.text);
    end.text
}

fn paths(text: &str) -> Vec<&str> {
    text.lines().skip(1).collect()
}

#[tokio::test]
async fn globs_match_names_at_any_depth_and_paths_from_the_folder() {
    let mut bench = Bench::new();
    for name in ["a.rs", "src/b.rs", "src/x/c.rs", "src/c.ts", "README.md", ".github/w.yml", "a-b/z", "a/z"] {
        bench.put(name, "x");
    }
    let text = found(&mut bench, "*.rs").await;
    assert_eq!(text.lines().next(), Some("3 found"));
    assert_eq!(paths(&text), ["a.rs", "src/b.rs", "src/x/c.rs"]);
    assert_eq!(paths(&found(&mut bench, "src/*.{rs,ts}").await), ["src/b.rs", "src/c.ts"]);
    assert_eq!(paths(&found(&mut bench, "**/c.*").await), ["src/c.ts", "src/x/c.rs"]);
    assert_eq!(paths(&found(&mut bench, "*.yml").await), [".github/w.yml"]);
    assert_eq!(paths(&found(&mut bench, "src/").await), ["src/"]);
    assert_eq!(paths(&found(&mut bench, "z").await), ["a/z", "a-b/z"]);
    assert_eq!(found(&mut bench, "readme.md").await, "No files match readme.md");
    let below = bench.run("find_files", json!({ "pattern": "src/x/*", "path": "src" })).await;
    assert_eq!(paths(&below.text), ["src/x/c.rs"]);
    let below = bench.run("find_files", json!({ "pattern": "x/*", "path": "src" })).await;
    assert_eq!(paths(&below.text), ["src/x/c.rs"]);
    let absolute = format!("{}/src/*.rs", bench.at("").display()).replace("//", "/");
    assert_eq!(paths(&found(&mut bench, &absolute).await), ["src/b.rs"]);
}

#[tokio::test]
async fn a_bad_glob_a_file_and_a_missing_folder_are_named() {
    let mut bench = Bench::new();
    bench.put("a.txt", "x");
    let end = bench.run("find_files", json!({ "pattern": "a[" })).await;
    assert!(end.text.starts_with("Invalid glob a["), "{}", end.text);
    let end = bench.run("find_files", json!({ "pattern": "*", "path": "a.txt" })).await;
    assert_eq!(end.error_class.as_deref(), Some("not_folder"));
    let end = bench.run("find_files", json!({ "pattern": "*", "path": "b" })).await;
    assert_eq!(end.error_class.as_deref(), Some("not_found"));
    let end = bench.run("find_files", json!({ "pattern": "*", "path": "../out" })).await;
    assert_eq!(end.error_class.as_deref(), Some("outside"), "{}", end.text);
}

#[tokio::test]
async fn odd_names_and_kinds_are_shown_and_links_are_not_followed() {
    let mut bench = Bench::new();
    bench.put("d/a\nb", "x");
    bench.put("d/n\u{a0}b", "x");
    bench.put("d/n b", "x");
    let raw = bench.at("d").join(std::ffi::OsStr::from_bytes(b"r\xff"));
    std::fs::write(raw, "x").unwrap();
    std::os::unix::fs::symlink("..", bench.at("d/loop")).unwrap();
    std::os::unix::fs::symlink("/etc", bench.at("d/out")).unwrap();
    make_fifo(&bench.at("d/pipe"));
    let text = found(&mut bench, "d/**").await;
    let expected =
        ["\"d/a\\nb\"", "d/loop@", "d/n b", "\"d/n\\u00a0b\"", "d/out@", "d/pipe  (FIFO)", "\"d/r\\xff\""];
    assert_eq!(paths(&text), expected, "{text}");
}

#[tokio::test]
async fn many_are_cut_in_the_middle_and_whole_in_the_artifact() {
    let mut bench = Bench::new();
    for number in 0..400 {
        bench.put(&format!("f{number:03}"), "");
    }
    let end = bench.run("find_files", json!({ "pattern": "f*" })).await;
    assert!(end.text.starts_with("400 found\nf000\n"), "{}", end.text);
    assert!(end.text.contains("... [truncated 250 lines] ..."), "{}", end.text);
    assert!(end.text.ends_with("f399"));
    let id = end.artifacts[0].artifact_id.to_string();
    let whole = bench.run("read_artifact", json!({ "id": id })).await;
    assert_eq!(whole.text.lines().count(), 401);
}

#[tokio::test]
async fn what_is_ignored_is_counted_and_found_when_it_is_named() {
    let mut bench = Bench::new();
    bench.put(".gitignore", "target/\n*.log\n!keep.log\n");
    bench.put("target/a.rs", "x");
    bench.put("x.log", "x");
    bench.put("keep.log", "x");
    bench.put(".git/a.rs", "x");
    bench.put("sub/.gitignore", "!y.log\n");
    bench.put("sub/y.log", "x");
    assert!(found(&mut bench, "*.rs").await.starts_with("No files match *.rs (1 folder ignored"));
    assert_eq!(paths(&found(&mut bench, "*.log").await), ["keep.log", "sub/y.log"]);
    assert_eq!(paths(&found(&mut bench, "x.log").await), ["x.log"]);
    assert_eq!(paths(&found(&mut bench, "target/*.rs").await), ["target/a.rs"]);
    let end = bench.run("find_files", json!({ "pattern": "*.rs", "path": "target" })).await;
    assert_eq!(paths(&end.text), ["target/a.rs"]);
}

#[tokio::test]
async fn a_huge_folder_is_listed_in_bounds() {
    let mut bench = Bench::new();
    std::fs::create_dir(bench.at("big")).unwrap();
    let first = bench.put("big/000000", "");
    for number in 1..3_000 {
        std::fs::hard_link(&first, bench.at(&format!("big/{number:06}"))).unwrap();
    }
    let end = bench.run("list_dir", json!({ "path": "big" })).await;
    assert!(end.text.starts_with("000000  0 bytes\n000001"), "{}", &end.text[..80]);
    assert!(end.text.ends_with("... 2500 more entries"), "{}", &end.text[end.text.len() - 80..]);
    let mut ctx = bench.call("list_dir", &json!({ "path": "big" }));
    ctx.bounds.max_bytes = 1_024;
    let end = bench.tools.run(&ctx, &bench.redactor).await;
    assert!(end.text.len() <= 1_024, "{}", end.text.len());
    assert!(end.text.contains("more entries"), "{}", end.text);
}
