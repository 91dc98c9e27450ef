//! Tests are run: none forgotten, none switched off, none that waits by sleeping.

use crate::tree::{Source, none_of, root, rust};
use std::path::Path;

/// Files of tests that may sleep, each with its reason.
const MAY_SLEEP: &[&str] = &[
    // The one place that looks again and again, with a deadline.
    "tests/src/deadline.rs",
];

/// Whether Cargo itself compiles this file, without a `mod` line.
fn is_target(file: &Source) -> bool {
    let roots = ["lib.rs", "main.rs"];
    let name = file.path.rsplit('/').next().unwrap_or_default();
    roots.contains(&name) || ["tests/bin/", "proto/tests/"].iter().any(|folder| file.path.starts_with(folder))
}

/// Files in which a `mod` line for this file can stand.
fn parents(file: &Source) -> Vec<std::path::PathBuf> {
    let path = Path::new(&file.path);
    let folder = if file.stem() == "mod" { path.parent().unwrap().parent() } else { path.parent() }.unwrap();
    let beside = folder.with_extension("rs");
    ["mod.rs", "lib.rs", "main.rs"]
        .iter()
        .map(|name| folder.join(name))
        .chain([beside])
        .map(|path| root().join(path))
        .collect()
}

#[test]
fn every_file_is_part_of_a_build() {
    let mut forgotten = Vec::new();
    let all = rust();
    for file in all.iter().filter(|file| !is_target(file)) {
        let path = Path::new(&file.path);
        let module = if file.stem() == "mod" {
            path.parent().unwrap().file_name().unwrap().to_str().unwrap()
        } else {
            file.stem()
        };
        let declared =
            parents(file).iter().filter_map(|parent| std::fs::read_to_string(parent).ok()).any(|text| {
                text.lines().any(|line| {
                    let line = line.trim();
                    line.ends_with(&format!("mod {module};")) && !line.starts_with("//")
                })
            });
        // A file of unit tests may also be named by the module beside it.
        let by_path = format!("#[path = \"{module}.rs\"]");
        let declared = declared
            || all.iter().any(|other| {
                Path::new(&other.path).parent() == path.parent() && other.all_code().contains(&by_path)
            });
        if !declared {
            forgotten.push(format!("{}: no `mod {module};`", file.path));
        }
    }
    none_of("files that nothing compiles", &forgotten);
}

#[test]
fn no_test_is_switched_off_or_unwritten() {
    let words = [
        concat!("#[", "ignore"),
        concat!("to", "do!("),
        concat!("un", "implemented!("),
        concat!("#[should_", "panic"),
    ];
    let mut found = Vec::new();
    for file in rust() {
        let code = file.all_code();
        found.extend(
            words.iter().filter(|word| code.contains(**word)).map(|word| format!("{}: {word}", file.path)),
        );
    }
    none_of("switched off or unwritten", &found);
}

#[test]
fn no_test_sleeps() {
    let words = [concat!("thread::", "sleep"), concat!("time::", "sleep")];
    let mut found = Vec::new();
    for file in rust().iter().filter(|file| !MAY_SLEEP.contains(&file.path.as_str())) {
        let code = file.all_code();
        let tests = if file.is_test() {
            Some(code.as_str())
        } else {
            code.split_once("#[cfg(test)]\nmod tests {").map(|(_, tests)| tests)
        };
        let Some(tests) = tests else { continue };
        found.extend(
            words.iter().filter(|word| tests.contains(**word)).map(|word| format!("{}: {word}", file.path)),
        );
    }
    none_of("wait for an event with a deadline instead", &found);
}
