//! The word of a supervisor: the same as its file, and never more than the file.

use super::JobOutcome;
use super::job::{record_line, result_of_line};
use super::test_support::{Bench, PATIENCE, exited};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;

#[tokio::test]
async fn the_word_is_what_the_file_will_say() {
    let bench = Bench::new();
    bench.jobs.spawn("word", &bench.spec("printf 'a\\nb'; exit 3")).unwrap();
    let told = timeout(PATIENCE, bench.jobs.outcome("word")).await.unwrap().unwrap();
    let JobOutcome::Finished(told) = told else { panic!("not finished: {told:?}") };
    assert_eq!((&told.end, told.total_bytes, told.total_lines), (&exited(3), 3, 2));
    assert_eq!(bench.finished("word").await, told);
    // Also for who asks after everything is over.
    let again = bench.jobs.outcome("word").await.unwrap();
    assert_eq!(again, JobOutcome::Finished(told));
}

#[tokio::test]
async fn without_a_word_the_folder_tells() {
    let bench = Bench::new();
    bench.jobs.spawn("mute", &bench.spec("echo begun; exec sleep 300.25")).unwrap();
    bench.printed("mute", "begun").await;
    let supervisor = bench.jobs.supervisors().unwrap().remove(0);
    kill_process(Pid::from_raw(i32::try_from(supervisor.pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let outcome = timeout(PATIENCE, bench.jobs.outcome("mute")).await.unwrap().unwrap();
    assert!(matches!(outcome, JobOutcome::Unknown { .. }), "{outcome:?}");
}

#[tokio::test]
async fn who_did_not_start_a_job_goes_by_its_folder() {
    let bench = Bench::new();
    let (result, _) = bench.run("other", "exit 4").await;
    let adopting = super::test_support::open(bench.home.path());
    assert_eq!(adopting.outcome("other").await.unwrap(), JobOutcome::Finished(result));
}

#[tokio::test]
async fn half_a_word_is_none() {
    let bench = Bench::new();
    let (result, _) = bench.run("line", "true").await;
    let line = record_line(&result).unwrap();
    let line = line.strip_suffix(b"\n").unwrap();
    assert_eq!(result_of_line(line), Some(result));
    for end in 0..line.len() {
        assert_eq!(result_of_line(&line[..end]), None, "{end}");
    }
    let newer = String::from_utf8_lossy(line).replacen("\"version\":1", "\"version\":2", 1);
    assert_eq!(result_of_line(newer.as_bytes()), None);
}
