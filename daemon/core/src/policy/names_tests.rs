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
        ("git~1/hooks/pre-commit", Some(Hold::Deny)),
        ("GIT~1", Some(Hold::Deny)),
        (".git::$INDEX_ALLOCATION/config", Some(Hold::Deny)),
        (".git /config", Some(Hold::Deny)),
        (".git\\hooks\\pre-commit", Some(Hold::Deny)),
        ("sub/.git", Some(Hold::Deny)),
        ("GITMOD~1", Some(Hold::Ask)),
        (".Bashrc", Some(Hold::Ask)),
        (".husky/pre-commit", Some(Hold::Ask)),
        (".devcontainer/devcontainer.json", Some(Hold::Ask)),
        (".local/bin/ls", Some(Hold::Ask)),
        (".config/systemd/user/x.service", Some(Hold::Ask)),
        ("git~2", None),
        ("a:b", None),
        (".gitkeep", None),
        (".local/share/x", None),
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
fn what_a_shell_would_expand_is_told_from_names() {
    for path in ["~", "~/x", "~root/.bashrc", "$HOME/.bashrc", "${HOME}/x", "$TMPDIR"] {
        assert!(unexpanded(path.as_bytes()).is_some(), "{path}");
    }
    for path in
        ["./~/x", "a~", "~x.bak", "~$doc.docx", "$postId/route.tsx", "$", "$a", "src/$HOME", "${x}", "-n"]
    {
        assert_eq!(unexpanded(path.as_bytes()), None, "{path}");
    }
}

#[test]
fn a_name_that_is_not_text_is_asked_for_when_it_is_made() {
    assert_eq!(protection(b"f\xffo", PathOp::Write).map(|found| found.hold), Some(Hold::Ask));
    assert_eq!(protection(b"f\xffo", PathOp::Read), None);
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
