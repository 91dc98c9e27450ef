//! What a search costs over a tree of many files: a step with `search`, as a model has it, beside `rg` with the same
//! query. Ours has the whole step in it: the call's events on disk, the request to the model.

use crate::binary;
use crate::figures::{head, median, row, spread};
use crate::script::{DONE, step_ms};
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, Received, ScriptedModel};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const FILES: usize = 50_000;
const FILES_A_FOLDER: usize = 50;
/// As ours: hidden files too, without git's own, in the order of finding (ours sorts what it found).
const FLAGS: [&str; 6] = ["--hidden", "-g", "!.git", "--sort", "none", "-n"];
const QUERIES: [(&str, &str); 3] = [
    ("a literal, 5 files", "needle_1"),
    ("a pattern, no match", r"fn \w+_absent\("),
    ("one line of each file", "first line"),
];
/// Searches of one query in one run.
const STEPS: usize = 5;

/// Measures `runs` runs of each query by turns and prints them.
pub(crate) fn measure(runs: usize) {
    if Command::new("rg").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("search: skipped, there is no rg to compare with\n");
        return;
    }
    let model = server(QUERIES[0].1);
    let mut home = TestHome::with_model(binary(), &model);
    write_tree(&home);
    home.start_daemon();
    let place = home.workspace();
    println!("search: ms over {FILES} files, {runs} runs of {STEPS} by turns; rg {}\n", FLAGS.join(" "));
    head(&["query", "ours", "rg", "ratio"]);
    for (name, pattern) in QUERIES {
        ours(&mut home, pattern);
        rg(&place, pattern);
        let (mut own, mut floor) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            own.push(median(&ours(&mut home, pattern)));
            let times: Vec<f64> = (0..STEPS).map(|_| rg(&place, pattern)).collect();
            floor.push(median(&times));
        }
        let ratio = median(&own) / median(&floor);
        row(&[name.to_owned(), spread(&own), spread(&floor), format!("{ratio:.2}")]);
    }
    println!();
}

fn write_tree(home: &TestHome) {
    let body = "    let value = compute(input, &mut state).map_err(|error| wrap(error))?;\n".repeat(25);
    for file in 0..FILES {
        let mut text = format!("// first line of file {file}\n{body}");
        if file % 10_000 == 7 {
            text.push_str("let needle_1 = 1;\n");
        }
        let folder = file / FILES_A_FOLDER;
        home.write(&format!("d{}/e{folder}/f{file:05}.rs", folder / 40), text);
    }
}

fn server(pattern: &'static str) -> ScriptedModel {
    let model = ScriptedModel::start();
    model.respond_with(move |request: &Received| match request.tool_use_ids().len() {
        step if step < STEPS => {
            Answer::calling(&format!("toolu_step{step:04}"), "search", json!({ "pattern": pattern }))
        }
        _ => Answer::saying(DONE),
    });
    model
}

fn ours(home: &mut TestHome, pattern: &'static str) -> Vec<f64> {
    let model = server(pattern);
    home.use_model(&model);
    let run = home.cli(["run", "--permission-mode", "full", "search"]).within_secs(120).run().ok();
    assert!(run.stdout.contains(DONE), "{run}");
    let requests = model.requests();
    let results = requests.last().expect("there are requests").tool_results();
    let searched = format!("{FILES} files searched");
    assert!(results.iter().all(|result| result.text.contains(&searched)), "{results:?}");
    step_ms(&requests)
}

fn rg(place: &Path, pattern: &str) -> f64 {
    let began = Instant::now();
    let status = Command::new("rg").args(FLAGS).arg(pattern).arg(place).stdout(Stdio::null()).status();
    assert!(status.expect("rg runs").code().is_some_and(|code| code < 2), "rg failed");
    began.elapsed().as_secs_f64() * 1e3
}
