//! What a step costs, how long the first request takes, and what an idle daemon holds: the figures of
//! `README.md` in this folder.
//!
//! Invariants: every figure of ours stands beside a floor that was taken in the same run, by turns, against the
//! same server and disk; ratios and differences count, absolute times are the machine's. A run whose requests,
//! results or exit code are not the expected ones fails instead of being counted.
//!
//! Absent on purpose: statistics beyond medians and percentiles, and any limit that fails a build: a shared machine
//! would make it lie.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench prints its figures and reports by failing"
)]

mod decode;
mod figures;
mod floor;
mod idle;
mod script;
mod search;
mod start;
mod steps;

use std::path::PathBuf;

/// The binary that was built with this bench.
fn binary() -> PathBuf {
    agent_tests::binary(option_env!("CARGO_BIN_EXE_agentctl-under-test"))
}

/// What is measured, and how often.
struct Plan {
    parts: Vec<String>,
    runs: usize,
    steps: usize,
}

impl Plan {
    /// `[read|command|start|idle|decode|search]... [--runs R] [--steps N]`; all parts when none is named.
    fn from_args() -> Self {
        let mut plan = Self { parts: Vec::new(), runs: 7, steps: 50 };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut number =
                || args.next().and_then(|text| text.parse().ok()).expect("a number after the flag");
            match arg.as_str() {
                // Cargo's own.
                "--bench" => {}
                "--runs" => plan.runs = number(),
                "--steps" => plan.steps = number(),
                "read" | "command" | "start" | "idle" | "decode" | "search" => plan.parts.push(arg),
                other => {
                    panic!(
                        "{other}: not one of read, command, start, idle, decode, search, --runs R, --steps N"
                    )
                }
            }
        }
        plan
    }

    fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }
}

fn main() {
    let plan = Plan::from_args();
    println!("{}\n", figures::machine());
    for tool in [script::Tool::ReadFile, script::Tool::RunCommand] {
        if plan.wants(tool.part()) {
            steps::measure(tool, plan.runs, plan.steps);
        }
    }
    if plan.wants("start") {
        start::measure(plan.runs * 3);
    }
    if plan.wants("idle") {
        idle::measure(plan.runs, plan.steps);
    }
    if plan.wants("decode") {
        decode::measure(plan.runs);
    }
    if plan.wants("search") {
        search::measure(plan.runs);
    }
    println!("load at the end: {}", figures::load());
}
