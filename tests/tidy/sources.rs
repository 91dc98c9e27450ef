//! What every source file has, and what none has.

use crate::tree::{files, none_of, rust};

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "manager", "misc", "common", "stuff", "lib2", "types"];

/// What may appear nowhere: places on somebody's machine.
const MACHINE_PLACES: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Files that may name such places because they are about them.
const ABOUT_PLACES: &[(&str, &str)] = &[];

#[test]
fn every_module_says_what_it_is_for() {
    let silent: Vec<String> = rust()
        .iter()
        // The header of a file of unit tests is the module that it tests.
        .filter(|file| !file.stem().ends_with("_tests") && file.stem() != "tests")
        .filter(|file| !file.text.starts_with("//!"))
        .map(|file| file.path.clone())
        .collect();
    none_of("files without a `//!` header", &silent);
}

#[test]
fn names_say_something() {
    let empty: Vec<String> = rust()
        .iter()
        .filter(|file| {
            let parts = file.path.trim_end_matches(".rs").split('/');
            parts.filter(|part| *part != "tests").any(|part| EMPTY_NAMES.contains(&part))
        })
        .map(|file| file.path.clone())
        .collect();
    none_of("names that say nothing", &empty);
}

#[test]
fn raw_json_never_stands_in_a_tagged_enum() {
    // RawValue does not survive serde's buffering in internally tagged, untagged and flattened types.
    let traps = [concat!("serde(ta", "g"), concat!("untag", "ged"), concat!("flat", "ten)")];
    let mut found = Vec::new();
    for file in rust() {
        let code = file.all_code();
        if !code.contains(concat!("Raw", "Value")) {
            continue;
        }
        for trap in traps {
            let attributes =
                code.lines().filter(|line| line.trim_start().starts_with("#[") && line.contains("serde"));
            if attributes.filter(|line| line.contains(trap)).count() > 0 {
                found.push(format!("{}: {trap} beside raw JSON", file.path));
            }
        }
    }
    none_of("raw JSON in tagged types", &found);
}

#[test]
fn no_file_names_a_place_on_somebodys_machine() {
    let mut found = Vec::new();
    for file in files() {
        for place in MACHINE_PLACES {
            let excused = ABOUT_PLACES.iter().any(|(path, known)| *path == file.path && known == place);
            if file.text.contains(place) && !excused {
                found.push(format!("{}: {place}", file.path));
            }
        }
    }
    none_of("places on somebody's machine", &found);
}

#[test]
fn unsafe_code_stays_in_its_room() {
    let found: Vec<String> = rust()
        .iter()
        .filter(|file| !file.path.starts_with("daemon/src/process/") && !file.path.starts_with("tests/tidy/"))
        .filter(|file| file.all_code().contains(concat!("allow(unsafe_", "code)")))
        .map(|file| file.path.clone())
        .collect();
    none_of("unsafe code outside daemon/src/process", &found);
}
