//! Documents that a newcomer and a machine both rely on.

use crate::tree::root;

/// What may stand visibly at the top of the repository.
const TOP: &[&str] = &[
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "client",
    "daemon",
    "editor-plugins",
    "proto",
    "target",
    "tests",
];

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_top_level_is_what_the_design_says() {
    for entry in std::fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            name.starts_with('.') || TOP.contains(&name.as_str()),
            "{name} does not belong at the top level"
        );
    }
}

#[test]
fn the_readme_begins_with_the_two_commands_and_ci_runs_the_second() {
    let readme = read("README.md");
    let commands: Vec<&str> = readme.lines().filter(|line| line.starts_with("cargo ")).take(2).collect();
    assert_eq!(commands, ["cargo run --release -p agentctl -- demo", "cargo test --workspace"]);
    let ci = read(".ci/run");
    assert!(
        ci.lines().any(|line| line.trim_end().ends_with(" cargo test --workspace")),
        ".ci/run does not run the README's test command as it stands"
    );
}

#[test]
fn licences_and_changelog_are_there() {
    assert!(read("LICENSE-MIT").contains("The agentd authors"));
    assert!(read("LICENSE-APACHE").contains("Version 2.0, January 2004"));
    assert!(read("CHANGELOG.md").contains("## [Unreleased]"));
}

#[test]
fn the_map_of_the_daemon_names_every_room() {
    let map = read("daemon/ARCHITECTURE.md");
    for (room, _) in crate::rooms::DAEMON {
        let there = root().join("daemon/src").join(room).exists()
            || root().join(format!("daemon/src/{room}.rs")).exists();
        assert!(
            !there || map.contains(&format!("`{room}`")),
            "daemon/ARCHITECTURE.md does not name `{room}`"
        );
    }
}
