use super::*;
use crate::event::CommandPart;
use crate::path_bytes::PathBytes;
use proptest::prelude::*;

fn path(op: PathOp, inside: bool) -> Inspection {
    Inspection {
        paths: vec![PathFacts {
            requested: PathBytes::from("a.txt"),
            resolved: PathBytes::from("/w/a.txt"),
            op,
            inside,
            protected: None,
            caution: None,
            content_hash: None,
        }],
        sandbox: NO_SANDBOX.to_owned(),
        ..Inspection::default()
    }
}

fn command(effect: EffectClass, sandbox: &str) -> Inspection {
    Inspection {
        command: Some(CommandFacts {
            command: "x".to_owned(),
            cwd: PathBytes::from("/w"),
            effect,
            parts: Vec::new(),
            forbidden: None,
        }),
        sandbox: sandbox.to_owned(),
        ..Inspection::default()
    }
}

fn verdict(mode: PermissionMode, tool: &str, effect: EffectClass, facts: &Inspection) -> Verdict {
    decide(&Question { mode, tool, effect, facts }).verdict
}

/// The table of the contract, cell by cell: read-only, ask, workspace, full.
#[test]
fn the_table_of_modes_is_the_contract() {
    use EffectClass::{Idempotent, ReadOnly, Unsafe};
    use Verdict::{Allow, Ask, Deny};
    let rows: Vec<(&str, &str, EffectClass, Inspection, [Verdict; 4])> = vec![
        ("read inside", "read_file", ReadOnly, path(PathOp::Read, true), [Allow; 4]),
        ("list inside", "list_dir", ReadOnly, path(PathOp::List, true), [Allow; 4]),
        ("write inside", "edit_file", Idempotent, path(PathOp::Write, true), [Deny, Ask, Allow, Allow]),
        ("read outside", "read_file", ReadOnly, path(PathOp::Read, false), [Deny, Deny, Deny, Allow]),
        ("write outside", "write_file", Idempotent, path(PathOp::Write, false), [Deny, Deny, Deny, Allow]),
        ("judged read-only", "run_command", Unsafe, command(ReadOnly, "read-only"), [Allow; 4]),
        (
            "other, sandboxed",
            "run_command",
            Unsafe,
            command(Unsafe, "workspace-write"),
            [Deny, Ask, Allow, Allow],
        ),
        ("other, no sandbox", "run_command", Unsafe, command(Unsafe, NO_SANDBOX), [Deny, Ask, Ask, Allow]),
        ("other, odd sandbox", "run_command", Unsafe, command(Unsafe, ""), [Deny, Ask, Ask, Allow]),
        ("own read", "read_artifact", ReadOnly, Inspection::default(), [Allow; 4]),
        ("unknown tool", "x__y", ReadOnly, Inspection::default(), [Deny, Ask, Ask, Allow]),
        ("file without facts", "read_file", ReadOnly, Inspection::default(), [Deny, Ask, Ask, Ask]),
        ("command without facts", "run_command", Unsafe, Inspection::default(), [Deny, Ask, Ask, Ask]),
    ];
    for (name, tool, effect, facts, expected) in &rows {
        for (mode, expected) in PermissionMode::ALL.iter().zip(expected) {
            assert_eq!(verdict(*mode, tool, *effect, facts), *expected, "{name} in {mode:?}");
        }
    }
}

#[test]
fn protected_and_forbidden_hold_in_every_mode() {
    let mut protected = path(PathOp::Write, true);
    let mut cautious = path(PathOp::Read, true);
    protected.paths[0].protected = Some("git".to_owned());
    cautious.paths[0].caution = Some("hard link".to_owned());
    let mut forbidden = command(EffectClass::ReadOnly, "read-only");
    if let Some(facts) = &mut forbidden.command {
        facts.forbidden = Some("wipes the disk".to_owned());
    }
    for mode in PermissionMode::ALL {
        assert_eq!(verdict(*mode, "write_file", EffectClass::Idempotent, &protected), Verdict::Deny);
        assert_eq!(verdict(*mode, "run_command", EffectClass::Unsafe, &forbidden), Verdict::Deny);
        assert_eq!(verdict(*mode, "read_file", EffectClass::ReadOnly, &cautious), Verdict::Ask);
    }
}

#[test]
fn one_part_that_changes_something_makes_the_line_change_something() {
    let mut facts = command(EffectClass::ReadOnly, NO_SANDBOX);
    if let Some(command) = &mut facts.command {
        command.parts.push(CommandPart { words: vec!["rm".to_owned()], effect: EffectClass::Unsafe });
    }
    assert_eq!(verdict(PermissionMode::Ask, "run_command", EffectClass::Unsafe, &facts), Verdict::Ask);
}

#[test]
fn a_denial_outside_names_the_grant() {
    let facts = path(PathOp::Read, false);
    let decision = decide(&Question {
        mode: PermissionMode::Ask,
        tool: "read_file",
        effect: EffectClass::ReadOnly,
        facts: &facts,
    });
    assert_eq!(decision.rule, "outside");
    let reason = "a.txt is outside the workspace; reading it needs a folder grant for /w. Folder grants are not built \
                  yet: start the session in a folder above, or use mode full";
    assert_eq!(decision.reason, reason);
    // A folder that is listed or searched is named itself.
    for (tool, op, words) in [
        ("list_dir", PathOp::List, "listing it needs a folder grant for /w/a.txt. "),
        ("search", PathOp::Read, "searching it needs a folder grant for /w/a.txt or a folder above it. "),
    ] {
        let facts = path(op, false);
        let mode = PermissionMode::Workspace;
        let decision = decide(&Question { mode, tool, effect: EffectClass::ReadOnly, facts: &facts });
        assert!(decision.reason.contains(words), "{}", decision.reason);
    }
}

/// Facts of one patch.
fn patch(paths: &[(&str, PathOp, bool)]) -> Inspection {
    let mut facts = Inspection { sandbox: NO_SANDBOX.to_owned(), ..Inspection::default() };
    for (name, op, inside) in paths {
        let mut one = path(*op, *inside).paths.remove(0);
        one.requested = PathBytes::from(*name);
        one.resolved = PathBytes::from(format!("/w/{name}").as_str());
        facts.paths.push(one);
    }
    facts
}

#[test]
fn the_reason_about_several_paths_names_them_all_and_what_goes_first() {
    let reason = |mode, facts: &Inspection| {
        decide(&Question { mode, tool: "apply_patch", effect: EffectClass::Idempotent, facts }).reason
    };
    let rows = [
        ("src/util.py", PathOp::Write, true),
        ("src/sub.py", PathOp::Create, true),
        ("src/calc.py", PathOp::Delete, true),
    ];
    let mut facts = patch(&rows);
    let acts = "removing src/calc.py; writing src/util.py; making src/sub.py";
    assert_eq!(reason(PermissionMode::Ask, &facts), format!("{acts}: changes are asked for in this session"));
    assert_eq!(reason(PermissionMode::ReadOnly, &facts), format!("{acts}: this session is read-only"));
    assert_eq!(reason(PermissionMode::Workspace, &facts), format!("{acts}: inside the workspace"));
    // What makes it ask anyway does not hide the others.
    facts.paths[0].caution = Some("hard link".to_owned());
    let told = format!("src/util.py: hard link; {acts}: changes are asked for in this session");
    assert_eq!(reason(PermissionMode::Ask, &facts), told);
    assert_eq!(reason(PermissionMode::Workspace, &facts), "src/util.py: hard link");
    facts.paths[1].protected = Some("git".to_owned());
    assert_eq!(reason(PermissionMode::Full, &facts), "src/sub.py is protected: git");

    let outside = patch(&[("x/a", PathOp::Write, false), ("x/b", PathOp::Delete, false), rows[0]]);
    let told = reason(PermissionMode::Workspace, &outside);
    let begin = "removing x/b; writing x/a: outside the workspace; that needs folder grants for /w/x. ";
    assert!(told.starts_with(begin), "{told}");

    let names: Vec<String> = (1..=1_000).map(|n| format!("f{n}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), PathOp::Write, true)).collect();
    let told = reason(PermissionMode::Ask, &patch(&many));
    let end = "; writing f10; and 990 more: changes are asked for in this session";
    assert!(told.starts_with("writing f1; ") && told.ends_with(end), "{told}");
}

fn any_facts() -> impl Strategy<Value = Inspection> {
    let effects = prop::sample::select(EffectClass::ALL);
    let path = (
        prop::sample::select(
            &[PathOp::Read, PathOp::List, PathOp::Write, PathOp::Create, PathOp::Delete][..],
        ),
        any::<bool>(),
        prop::option::of(Just("p".to_owned())),
        prop::option::of(Just("c".to_owned())),
    )
        .prop_map(|(op, inside, protected, caution)| PathFacts {
            requested: PathBytes::from("p"),
            resolved: PathBytes::from("/p"),
            op,
            inside,
            protected,
            caution,
            content_hash: None,
        });
    let command =
        (effects.clone(), prop::collection::vec(effects, 0..3), prop::option::of(Just("f".to_owned())))
            .prop_map(|(effect, parts, forbidden)| CommandFacts {
                command: "c".to_owned(),
                cwd: PathBytes::from("/"),
                effect,
                parts: parts.into_iter().map(|effect| CommandPart { words: Vec::new(), effect }).collect(),
                forbidden,
            });
    let sandbox = prop::sample::select(&["none", "read-only", "workspace-write", "full", ""][..]);
    (prop::collection::vec(path, 0..3), prop::option::of(command), sandbox).prop_map(
        |(paths, command, sandbox)| Inspection {
            paths,
            command,
            sandbox: sandbox.to_owned(),
            ..Inspection::default()
        },
    )
}

proptest! {
    #[test]
    fn a_freer_mode_is_never_stricter_and_holds_are_never_loosened(
        facts in any_facts(),
        tool in prop::sample::select(&["read_file", "write_file", "run_command", "read_artifact", "x__y"][..]),
        effect in prop::sample::select(EffectClass::ALL),
    ) {
        let levels: Vec<u8> = PermissionMode::ALL.iter()
            .map(|mode| strictness(verdict(*mode, tool, effect, &facts))).collect();
        prop_assert!(levels.is_sorted_by(|a, b| a >= b), "{levels:?}");
        let writes = facts.paths.iter().any(|p| p.op.changes() || effect != EffectClass::ReadOnly);
        if writes {
            prop_assert_eq!(levels[0], strictness(Verdict::Deny));
        }
        let held = facts.paths.iter().any(|p| p.protected.is_some())
            || facts.command.as_ref().is_some_and(|c| c.forbidden.is_some());
        if held {
            prop_assert!(levels.iter().all(|level| *level == strictness(Verdict::Deny)));
        }
        if facts.paths.iter().any(|p| p.caution.is_some()) {
            prop_assert!(levels.iter().all(|level| *level >= strictness(Verdict::Ask)));
        }
    }

    #[test]
    fn folding_never_panics_and_is_idempotent(name in prop::collection::vec(any::<u8>(), 0..40)) {
        let once = names::fold(&name);
        prop_assert_eq!(names::fold(once.as_bytes()), once);
    }
}
