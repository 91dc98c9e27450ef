//! Manifests: lints everywhere, no feature that changes the meaning of JSON.

use crate::tree::{files, none_of, root};
use std::process::Command;

#[test]
fn every_crate_takes_the_lints_and_versions_of_the_workspace() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        if !file.text.contains("[lints]\nworkspace = true") {
            wrong.push(format!("{}: does not inherit the lints", file.path));
        }
        for field in ["version", "edition", "license"] {
            if !file.text.contains(&format!("{field}.workspace = true")) {
                wrong.push(format!("{}: {field} is not the workspace's", file.path));
            }
        }
    }
    none_of("manifests", &wrong);
}

#[test]
fn json_numbers_and_key_order_are_plain() {
    // Either feature, switched on by any crate, changes `serde_json` for all of them.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .args([
            "tree",
            "--workspace",
            "--offline",
            "--locked",
            "--edges",
            "all",
            "--format",
            "{p} {f}",
            "--prefix",
            "none",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(tree.status.success(), "cargo tree: {}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let json: Vec<&str> = tree.lines().filter(|line| line.starts_with("serde_json v")).collect();
    assert!(
        json.iter().any(|line| line.contains("raw_value")),
        "serde_json and its features are not in the tree:\n{tree}"
    );
    for line in json {
        for trap in ["arbitrary_precision", "preserve_order"] {
            assert!(!line.contains(trap), "serde_json is built with {trap}: {line}");
        }
    }
}

#[test]
fn core_stays_free_of_everything_that_does_something() {
    let manifest = std::fs::read_to_string(root().join("daemon/core/Cargo.toml")).unwrap();
    let section = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    // Pure Rust that only computes. A new name here is a decision.
    let allowed = ["serde", "serde_json", "sha2", "thiserror", "memchr", "encoding_rs", "chardetng"];
    for line in section.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let name = line.split(['.', ' ', '=']).next().unwrap();
        assert!(allowed.contains(&name), "daemon/core depends on {name}");
    }
}
