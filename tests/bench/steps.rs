//! What one step costs: ours and the floor by turns.

use crate::figures::{head, median, percentile, row, spread};
use crate::script::{DONE, Tool, check, server, step_ms, write_files};
use crate::{binary, floor};
use agent_tests::home::TestHome;
use agent_tests::scripted::Received;

/// Seconds that one run may take.
const RUN_SECS: u64 = 120;

/// Measures `runs` runs of `steps` steps and prints them.
pub(crate) fn measure(tool: Tool, runs: usize, steps: usize) {
    let first = server(tool, steps);
    let mut home = TestHome::with_model(binary(), &first);
    write_files(&home, steps);
    home.start_daemon();
    // Not counted: caches of the disk and of the allocator fill.
    let warm_up = ours(tool, &mut home, steps);
    floor_ms(tool, &home, steps, &warm_up);
    let (mut own, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let requests = ours(tool, &mut home, steps);
        own.push(step_ms(&requests));
        bare.push(floor_ms(tool, &home, steps, &requests));
    }
    drop(home);
    report(tool, steps, &own, &bare);
}

/// One run of ours, as a person makes it: `agentctl run` with a daemon that runs already.
pub(crate) fn ours(tool: Tool, home: &mut TestHome, steps: usize) -> Vec<Received> {
    let model = server(tool, steps);
    home.use_model(&model);
    let run = home.cli(["run", "--permission-mode", "full", "read them"]).within_secs(RUN_SECS).run().ok();
    assert!(run.stdout.contains(DONE), "{run}");
    let requests = model.requests();
    check(&requests, steps);
    requests
}

fn floor_ms(tool: Tool, home: &TestHome, steps: usize, sent: &[Received]) -> Vec<f64> {
    let model = server(tool, steps);
    floor::run(tool, home, &model, sent);
    let requests = model.requests();
    check(&requests, steps);
    step_ms(&requests)
}

fn report(tool: Tool, steps: usize, own: &[Vec<f64>], bare: &[Vec<f64>]) {
    println!("{}: ms a step, {} runs of {steps} steps by turns\n", tool.name(), own.len());
    head(&["", "median", "p95", "first 10 steps", "last 10 steps"]);
    let each = |runs: &[Vec<f64>], figure: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        runs.iter().map(|run| figure(run)).collect()
    };
    for (name, runs) in [("ours", own), ("floor", bare)] {
        row(&[
            name.to_owned(),
            spread(&each(runs, &median)),
            spread(&each(runs, &|run| percentile(run, 95))),
            spread(&each(runs, &|run| median(&run[..run.len().min(10)]))),
            spread(&each(runs, &|run| median(&run[run.len().saturating_sub(10)..]))),
        ]);
    }
    let over = |figure: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        own.iter().zip(bare).map(|(own, bare)| figure(own) - figure(bare)).collect()
    };
    row(&[
        "ours - floor".to_owned(),
        spread(&over(&median)),
        spread(&over(&|run| percentile(run, 95))),
        String::new(),
        String::new(),
    ]);
    println!();
}
