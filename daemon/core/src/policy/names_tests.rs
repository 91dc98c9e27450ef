use super::*;

fn hold(path: &str) -> Option<Hold> {
    protection(path.as_bytes(), PathOp::Write).map(|found| found.hold)
}

#[test]
fn protected_names_are_found_however_they_are_written() {
    let rows: &[(&str, Option<Hold>)] = &[
        (".git/hooks/pre-commit", Some(Hold::Deny)),
        (".GIT/config", Some(Hold::Deny)),
        (".git\u{200c}/config", Some(Hold::Deny)),
        ("sub/.Git", Some(Hold::Deny)),
        (".git./config", Some(Hold::Deny)),
        (".gitmodules", Some(Hold::Ask)),
        (".gitattributes", Some(Hold::Ask)),
        ("deep/er/.envrc", Some(Hold::Ask)),
        (".VSCode/Settings.JSON", Some(Hold::Ask)),
        (".idea/workspace.xml", Some(Hold::Ask)),
        (".cargo/config.toml", Some(Hold::Ask)),
        (".cargo/config", Some(Hold::Ask)),
        (".npmrc", Some(Hold::Ask)),
        (".agentd/config.toml", Some(Hold::Ask)),
        ("rust-toolchain.toml", Some(Hold::Ask)),
        ("a\nb.txt", Some(Hold::Ask)),
        ("\u{202e}txt.exe", Some(Hold::Ask)),
        ("src/main.rs", None),
        (".gitignore", None),
        (".github/workflows/ci.yml", None),
        (".cargo/registry", None),
        ("git/config", None),
        ("-n", None),
        ("my dir/été 文.txt", None),
    ];
    for (path, expected) in rows {
        assert_eq!(hold(path), *expected, "{path:?}");
    }
}

#[test]
fn reading_is_never_held_by_a_name() {
    assert_eq!(protection(b".git/config", PathOp::Read), None);
    assert_eq!(protection(b".git", PathOp::List), None);
}

#[test]
fn a_shown_path_has_nothing_that_a_terminal_obeys() {
    assert_eq!(shown_bytes("été 文.txt".as_bytes()), "été 文.txt");
    assert_eq!(shown_bytes(b"a\nb\x1b[2J"), "\"a\\nb\\u001b[2J\"");
    assert_eq!(shown_bytes(b"f\xffo"), "\"f\\xffo\"");
    assert_eq!(shown_bytes("\u{202e}txt".as_bytes()), "\"\\u202etxt\"");
    assert_eq!(shown_bytes(b""), "\"\"");
    let odd = "a\u{a0}b e\u{301} \u{e0001}";
    assert_eq!(serde_json::from_str::<String>(&shown_bytes(odd.as_bytes())).unwrap(), odd);
    assert_ne!(shown_bytes(odd.as_bytes()), odd);
}
