//! A supervisor that cannot do its work.

use super::{JobOutcome, Jobs, Patience, wait_out};
use crate::process::{JobSpec, SandboxSpec};
use std::future::pending;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;

/// Longest wait for anything in these tests.
const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(100);

/// A job whose supervisor is a script.
fn held(script: &str) -> (TempDir, Jobs) {
    let home = tempfile::tempdir().unwrap();
    let exec = home.path().join("supervisor");
    std::fs::write(&exec, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&exec, PermissionsExt::from_mode(0o755)).unwrap();
    let jobs = Jobs::open(&home.path().join("jobs"), exec).unwrap();
    let spec = JobSpec {
        command: b"true".to_vec(),
        cwd: "/".into(),
        env: Vec::new(),
        timeout_ms: 1_000,
        grace_ms: 100,
        spool_max_bytes: 1_000,
        umask: None,
        all_shell: false,
        sandbox: SandboxSpec::None,
    };
    jobs.spawn("held", &spec).unwrap();
    (home, jobs)
}

#[tokio::test]
async fn a_supervisor_that_is_deaf_is_killed_after_an_asked_stop() {
    let (_home, jobs) = held("trap '' TERM; exec sleep 300");
    let patience = Patience { whole: LONG, late: LONG, asked: SHORT };
    let outcome = tokio::time::timeout(LONG, wait_out(&jobs, "held", patience, async {})).await.unwrap();
    let JobOutcome::NotStarted { why } = outcome.unwrap() else { panic!("it never began") };
    assert!(why.contains("signal"), "{why}");
}

#[tokio::test]
async fn a_supervisor_that_is_late_is_stopped_and_then_killed() {
    let (_home, jobs) = held("trap '' TERM; kill -STOP $$; exec sleep 300");
    let patience = Patience { whole: SHORT, late: SHORT, asked: LONG };
    let outcome = tokio::time::timeout(LONG, wait_out(&jobs, "held", patience, pending())).await.unwrap();
    assert!(matches!(outcome.unwrap(), JobOutcome::NotStarted { .. }));
}

#[tokio::test]
async fn a_supervisor_that_was_held_goes_on_to_its_end_when_it_is_stopped() {
    let (_home, jobs) = held("kill -STOP $$; exec sleep 300");
    let patience = Patience { whole: SHORT, late: LONG, asked: LONG };
    let outcome = tokio::time::timeout(LONG, wait_out(&jobs, "held", patience, pending())).await.unwrap();
    let JobOutcome::NotStarted { why } = outcome.unwrap() else { panic!("it never began") };
    assert!(why.contains("15"), "{why}");
}
