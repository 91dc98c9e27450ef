//! Holds the edges of [`crate::rooms`].

use crate::rooms::{
    CLIENT, DAEMON, EXCEPTIONS, NOT_IN_CORE, PROTO_EVERYTHING, PROTO_EXCEPTIONS, PROTO_PARTS, PROTO_SOME,
};
use crate::tree::{Source, none_of, rust};
use std::collections::BTreeSet;

/// The room of a file: the folder or file right under `base`.
fn room<'a>(file: &'a Source, base: &str) -> Option<&'a str> {
    let inside = file.path.strip_prefix(base)?.strip_prefix('/')?;
    Some(inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs"))
}

/// The first names after `prefix::`, braces opened: of `crate::{a::b, c}` these are `a` and `c`.
fn named(code: &str, prefix: &str) -> BTreeSet<String> {
    let start = format!("{prefix}::");
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(&start) {
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == ':') {
            continue;
        }
        let rest = &code[at + start.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(group_names(group)),
            None => names.extend(ident(rest)),
        }
    }
    names
}

fn group_names(group: &str) -> Vec<String> {
    let (mut depth, mut item, mut names) = (0, String::new(), Vec::new());
    for char in group.chars() {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.extend(ident(&std::mem::take(&mut item))),
            _ if depth == 0 => item.push(char),
            _ => {}
        }
    }
    names.extend(ident(&item));
    names
}

fn ident(text: &str) -> Option<String> {
    let name: String =
        text.trim_start().chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
    (!name.is_empty()).then_some(name)
}

fn check(base: &str, table: &[(&str, &[&str])]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in rust().iter().filter(|file| !file.is_test()) {
        let Some(room) = room(file, base).filter(|room| *room != "lib" && *room != "main") else { continue };
        let Some((_, allowed)) = table.iter().find(|(name, _)| *name == room) else {
            wrong.push(format!("{}: room `{room}` is not in the table; what may it name?", file.path));
            continue;
        };
        for other in named(&file.code(), "crate") {
            let is_room = table.iter().any(|(name, _)| *name == other);
            let excepted =
                EXCEPTIONS.iter().any(|(path, name)| file.path.starts_with(path) && *name == other);
            if is_room && other != room && !allowed.contains(&other.as_str()) && !excepted {
                wrong.push(format!("{}: `{room}` names `{other}`", file.path));
            }
        }
    }
    wrong
}

#[test]
fn rooms_name_only_the_rooms_below_them() {
    none_of("edges of the daemon", &check("daemon/src", DAEMON));
    none_of("edges of the client", &check("client/src", CLIENT));
}

#[test]
fn the_tables_have_no_circles() {
    for table in [DAEMON, CLIENT] {
        let mut above: Vec<&str> = Vec::new();
        for (room, allowed) in table {
            // Rooms stand in the table after all they may name, but for the seam's own order within a wing.
            for name in *allowed {
                assert!(above.contains(name), "`{room}` may name `{name}`, which stands later in the table");
            }
            above.push(room);
        }
    }
}

#[test]
fn protobuf_is_known_to_api_and_client_only() {
    let mut wrong = Vec::new();
    for file in rust().iter().filter(|file| file.path.starts_with("daemon/src/") && !file.is_test()) {
        let Some(room) = room(file, "daemon/src") else { continue };
        let code = file.code();
        for part in named(&code, "agentd_proto") {
            let whole = PROTO_EVERYTHING.contains(&room);
            let excepted = PROTO_EXCEPTIONS.contains(&(file.path.as_str(), part.as_str()));
            let known =
                whole || excepted || (PROTO_SOME.contains(&room) && PROTO_PARTS.contains(&part.as_str()));
            if !known {
                wrong.push(format!("{}: `{room}` names agentd_proto::{part}", file.path));
            }
        }
        for framework in ["tonic", "prost"] {
            let serves = ["api", "lifecycle"].contains(&room);
            if !serves && !named(&code, framework).is_empty() {
                wrong.push(format!("{}: `{room}` names {framework}", file.path));
            }
        }
    }
    none_of("the wire contract outside its rooms", &wrong);
}

#[test]
fn only_main_links_the_daemon_into_the_client() {
    let wrong: Vec<String> = rust()
        .iter()
        .filter(|file| file.path.starts_with("client/") && file.path != "client/src/main.rs")
        .filter(|file| {
            !named(&file.code(), "agentd").is_empty() || !named(&file.code(), "agentd_core").is_empty()
        })
        .map(|file| file.path.clone())
        .collect();
    none_of("the client library names the daemon", &wrong);
}

#[test]
fn core_does_nothing_but_decide() {
    let mut wrong = Vec::new();
    for file in rust().iter().filter(|file| file.path.starts_with("daemon/core/src/") && !file.is_test()) {
        let code = file.code();
        for word in NOT_IN_CORE {
            let found = code.match_indices(word).any(|(at, _)| {
                let (before, after) = (&code[..at], &code[at + word.len()..]);
                let is_part = |char: char| char.is_alphanumeric() || char == '_';
                !before.ends_with(is_part) && !after.starts_with(is_part)
            });
            if found {
                wrong.push(format!("{}: {word}", file.path));
            }
        }
    }
    none_of("core reaches outside", &wrong);
}

#[test]
fn names_are_read_from_paths_and_groups() {
    let code = "use crate::store::X; use crate::{ports::{A, B}, session, self as me}; $crate::x; mycrate::y; crate ::z";
    assert_eq!(
        named(code, "crate").into_iter().collect::<Vec<_>>(),
        ["ports", "self", "session", "store", "x"]
    );
}
