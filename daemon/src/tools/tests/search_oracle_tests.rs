//! Random trees and rules, compared with the walker of ripgrep and with a search line by line.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c.rs", "d.log", ".e", "build", "x y", "\u{e9}"])
        .prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..4).prop_map(|parts| parts.join("/"))
}

fn rule() -> impl Strategy<Value = String> {
    let tail = prop::sample::select(vec!["", "/", "/*", "/**", "*"]);
    let head = prop::sample::select(vec!["", "/", "!", "!/", "**/", "*", "#", "\\!"]);
    (head, path(), tail).prop_map(|(head, path, tail)| format!("{head}{path}{tail}"))
}

fn tree() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(path(), 1..14)
}

fn rules() -> impl Strategy<Value = Vec<(Option<String>, bool, Vec<String>)>> {
    let one = (prop::option::of(path()), any::<bool>(), prop::collection::vec(rule(), 1..4));
    prop::collection::vec(one, 0..4)
}

/// Makes what of it can be made: a name may be a file and a folder.
fn make(bench: &Bench, files: &[String], rules: &[(Option<String>, bool, Vec<String>)]) {
    for file in files {
        let at = bench.at(file);
        if std::fs::create_dir_all(at.parent().unwrap()).is_ok() && !at.is_dir() {
            let _ = std::fs::write(at, "needle\n");
        }
    }
    for (folder, is_git, lines) in rules {
        let folder = folder.as_ref().map_or_else(|| bench.at("."), |folder| bench.at(folder));
        if folder.is_dir() {
            let name = if *is_git { ".gitignore" } else { ".ignore" };
            std::fs::write(folder.join(name), lines.join("\n")).unwrap();
        }
    }
}

fn by_oracle(bench: &Bench) -> BTreeSet<String> {
    let root = bench.at(".");
    let walk = ignore::WalkBuilder::new(&root)
        .hidden(false)
        .git_global(false)
        .require_git(false)
        .parents(false)
        .follow_links(false)
        .build();
    walk.map(Result::unwrap)
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| entry.path().strip_prefix(&root).unwrap().to_str().unwrap().to_owned())
        .collect()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_same_files_as_the_walker_of_ripgrep(files in tree(), rules in rules()) {
        let mut bench = Bench::new();
        make(&bench, &files, &rules);
        let end = block_on(bench.run("find_files", json!({ "pattern": "**" })));
        let found: BTreeSet<String> = if end.text.starts_with("No files") {
            BTreeSet::new()
        } else {
            end.text.lines().skip(1).filter(|line| !line.ends_with('/')).map(str::to_owned).collect()
        };
        prop_assert_eq!(found, by_oracle(&bench), "{}", end.text);
    }

    #[test]
    fn the_same_lines_as_one_by_one(
        lines in prop::collection::vec("[ab \u{e9}]{0,6}", 0..12),
        pattern in prop::sample::select(vec!["a", "^a", "b$", "a.b", "^$", "a*", "[^a]b", "(?i)A\\b", "\\s", "\u{e9}+"]),
        crlf in any::<bool>(), ended in any::<bool>(),
    ) {
        let mut bench = Bench::new();
        let end = if crlf { "\r\n" } else { "\n" };
        let mut content = lines.join(end);
        if ended && !lines.is_empty() {
            content.push_str(end);
        }
        bench.put("f", &content);
        let text = block_on(bench.run("search", json!({ "pattern": pattern }))).text;
        let shown: Vec<String> = text.lines().skip(2).map(str::to_owned).collect();
        let matcher = grep_regex::RegexMatcher::new(pattern).unwrap();
        let is_hit = |line: &str| grep_matcher::Matcher::is_match(&matcher, line.as_bytes()).unwrap();
        let expected: Vec<String> = content
            .split_terminator('\n')
            .map(|line| line.strip_suffix('\r').unwrap_or(line))
            .enumerate()
            .filter(|(_, line)| is_hit(line))
            .map(|(at, line)| format!("  {}: {line}", at + 1))
            .collect();
        prop_assert_eq!(shown, expected, "{}", text);
    }
}
