//! From the start of `agentctl run` to the first byte of the first request.

use crate::binary;
use crate::figures::{head, percentile, row, spread};
use crate::script::DONE;
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, ScriptedModel};
use std::time::Instant;

/// Measures `runs` cold and warm starts by turns and prints them.
pub(crate) fn measure(runs: usize) {
    let first = ScriptedModel::with([Answer::saying(DONE)]);
    let mut running = TestHome::with_model(binary(), &first);
    first_request_ms(&mut running);
    let (mut cold, mut warm, mut program) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let mut fresh = TestHome::new(binary());
        cold.push(first_request_ms(&mut fresh));
        drop(fresh);
        warm.push(first_request_ms(&mut running));
        program.push(program_ms(&running));
    }
    drop(running);
    drop(first);
    println!("start to first request: ms, {runs} starts by turns\n");
    head(&["", "median (min-max)", "p95"]);
    for (name, values) in [
        ("cold: a fresh home, no daemon", &cold),
        ("warm: the daemon runs", &warm),
        ("the program alone (`agentctl --version`)", &program),
    ] {
        row(&[name.to_owned(), spread(values), format!("{:.2}", percentile(values, 95))]);
    }
    println!();
}

fn first_request_ms(home: &mut TestHome) -> f64 {
    let model = ScriptedModel::with([Answer::saying(DONE)]);
    home.use_model(&model);
    let run = home.cli(["run", "hello"]);
    let begun = Instant::now();
    let run = run.run().ok();
    assert!(run.stdout.contains(DONE), "{run}");
    let requests = model.requests();
    assert_eq!(requests.len(), 1, "{run}");
    (requests[0].times.first_byte - begun).as_secs_f64() * 1e3
}

fn program_ms(home: &TestHome) -> f64 {
    let mut command = home.command(home.binary());
    command.arg("--version");
    let begun = Instant::now();
    let output = command.output().expect("the program starts");
    let took = begun.elapsed();
    assert!(output.status.success(), "{output:?}");
    took.as_secs_f64() * 1e3
}
