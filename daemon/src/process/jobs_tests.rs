//! The daemon's side: starting, following, stopping, removing, and what it costs.

use super::ProcessError;
use super::test_support::{Bench, PATIENCE, exited, until};
use std::path::Path;
use std::time::{Duration, Instant};

#[tokio::test]
async fn names_and_specs_that_cannot_work_are_refused_before_anything_is_made() {
    let bench = Bench::new();
    for name in ["", "..", "a/b", "a b", "ä", &"x".repeat(101)] {
        assert!(
            matches!(bench.jobs.spawn(name, &bench.spec("true")), Err(ProcessError::BadName { .. })),
            "{name}"
        );
    }
    let mut spec = bench.spec("a\0b");
    assert!(matches!(bench.jobs.spawn("nul", &spec), Err(ProcessError::BadSpec { .. })));
    spec = bench.spec("true");
    spec.env.push((b"A=B".to_vec(), Vec::new()));
    assert!(matches!(bench.jobs.spawn("env", &spec), Err(ProcessError::BadSpec { .. })));
    spec = bench.spec("true");
    spec.cwd = "relative".into();
    assert!(matches!(bench.jobs.spawn("cwd", &spec), Err(ProcessError::BadSpec { .. })));
    assert_eq!(bench.jobs.list().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_job_is_never_started_over_its_evidence() {
    let bench = Bench::new();
    bench.run("once", "echo x >> log").await;
    assert!(matches!(
        bench.jobs.spawn("once", &bench.spec("echo x >> log")),
        Err(ProcessError::Exists { .. })
    ));
    assert_eq!(std::fs::read_to_string(bench.home.path().join("log")).unwrap(), "x\n");
    assert_eq!(bench.jobs.list().unwrap(), ["once"]);
}

#[tokio::test]
async fn a_program_that_is_gone_leaves_no_folder() {
    let bench = Bench::new();
    let jobs = super::Jobs::open(&bench.home.path().join("jobs"), "/no/such/program".into()).unwrap();
    let error = jobs.spawn("gone", &bench.spec("true")).unwrap_err();
    assert!(error.to_string().contains("/no/such/program"), "{error}");
    assert_eq!(jobs.list().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn output_is_followed_while_it_comes_and_ends_with_the_job() {
    let bench = Bench::new();
    assert!(
        std::process::Command::new("mkfifo").arg(bench.home.path().join("gate")).status().unwrap().success()
    );
    bench
        .jobs
        .spawn("live", &bench.spec("echo one; read l < gate; echo $l; sleep 0.01; printf end"))
        .unwrap();
    let mut follow = bench.jobs.follow("live", 0).unwrap();
    let first = tokio::time::timeout(PATIENCE, follow.next()).await.unwrap().unwrap().unwrap();
    assert_eq!((first.offset, &first.bytes[..]), (0, &b"one\n"[..]));
    std::fs::write(bench.home.path().join("gate"), "two\n").unwrap();
    let mut rest = Vec::new();
    while let Some(chunk) = tokio::time::timeout(PATIENCE, follow.next()).await.unwrap().unwrap() {
        assert_eq!(chunk.offset, 4 + rest.len() as u64);
        rest.extend(chunk.bytes);
    }
    assert_eq!(rest, b"two\nend");
}

#[tokio::test]
async fn a_stop_ends_the_tree_and_keeps_the_output() {
    let bench = Bench::new();
    bench
        .jobs
        .spawn("stop", &bench.spec("trap '' TERM; (setsid sleep 300 &); echo begun; sleep 300"))
        .unwrap();
    bench.printed("stop", "begun").await;
    assert!(bench.jobs.stop("stop").unwrap());
    let result = bench.finished("stop").await;
    assert!(result.stopped && !result.timed_out);
    assert_eq!(bench.output("stop"), b"begun\n");
    assert_eq!(bench.alive("stop"), Vec::<u32>::new());
}

#[tokio::test]
async fn a_command_that_holds_its_supervisor_is_stopped_or_killed() {
    let bench = Bench::new();
    let hold = "echo begun; kill -STOP $PPID; touch held; sleep 300";
    for name in ["stop", "kill"] {
        let _ = std::fs::remove_file(bench.home.path().join("held"));
        bench.jobs.spawn(name, &bench.spec(hold)).unwrap();
        until("the supervisor is held", || bench.home.path().join("held").exists());
        if name == "stop" {
            assert!(bench.jobs.stop(name).unwrap());
            let result = bench.finished(name).await;
            assert!(result.stopped && !result.timed_out);
        } else {
            assert!(bench.jobs.kill(name).unwrap());
            let outcome = tokio::time::timeout(PATIENCE, bench.jobs.wait(name)).await.unwrap().unwrap();
            assert!(matches!(outcome, super::JobOutcome::Unknown { .. }), "{outcome:?}");
            assert!(!bench.jobs.kill(name).unwrap(), "nobody is left");
        }
        assert_eq!(bench.alive(name), Vec::<u32>::new());
    }
}

#[tokio::test]
async fn deep_folders_are_removed_without_recursion() {
    let bench = Bench::new();
    bench.run("deep", "true").await;
    // Deeper than any path may be long: made step by step from inside.
    let mut here = std::fs::File::open(bench.folder("deep")).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&here, "dddd", 0o700.into()).unwrap();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        here = rustix::fs::openat(&here, "dddd", flags, 0.into()).unwrap().into();
    }
    bench.jobs.remove("deep").unwrap();
    assert!(!bench.folder("deep").exists());
    bench.jobs.remove("deep").unwrap();
}

#[tokio::test]
async fn a_hundred_runs_leave_no_descriptor_thread_or_process() {
    let bench = Bench::new();
    let count = |what: &str| std::fs::read_dir(Path::new("/proc/self").join(what)).unwrap().count();
    bench.run("warm", "true").await;
    let mut follow = bench.jobs.follow("warm", 0).unwrap();
    assert_eq!(follow.next().await.unwrap(), None);
    drop(follow);
    let before = own_children();
    let fds = count("fd");
    for at in 0..100 {
        let name = format!("leak{at}");
        let mut follow = {
            bench.jobs.spawn(&name, &bench.spec("sleep 300 & echo done")).unwrap();
            bench.jobs.follow(&name, 0).unwrap()
        };
        while follow.next().await.unwrap().is_some() {}
        assert_eq!(bench.finished(&name).await.end, exited(0));
        bench.jobs.remove(&name).unwrap();
    }
    // Other tests run in this process too; what they hold for a moment goes away, a leak does not.
    until("the descriptors of a hundred runs are closed", || count("fd") < fds + 60);
    until("every supervisor is reaped", || own_children() < before + 60);
    assert_eq!(bench.jobs.list().unwrap(), ["warm"]);
}

fn own_children() -> usize {
    super::procfs::descendants(std::process::id()).len()
}

/// Not a bound of the product but a guard against something silly, such as a poll loop: figures are printed.
#[tokio::test]
async fn starting_and_waiting_is_cheap() {
    let bench = Bench::new();
    std::fs::write(bench.home.path().join("small"), "some text\n").unwrap();
    for (label, command) in [("true", "true"), ("cat", "cat small")] {
        let (mut spawns, mut wholes) = (Vec::new(), Vec::new());
        for at in 0..30 {
            let name = format!("{label}{at}");
            let begun = Instant::now();
            bench.jobs.spawn(&name, &bench.spec(command)).unwrap();
            spawns.push(begun.elapsed());
            assert_eq!(bench.finished(&name).await.end, exited(0));
            wholes.push(begun.elapsed());
        }
        spawns.sort();
        wholes.sort();
        let floor = floor(bench.home.path(), command);
        println!("{label}: spawn {:?}, to result {:?}, floor {floor:?}", spawns[15], wholes[15]);
        assert!(wholes[15] < floor + Duration::from_millis(250), "{:?} against {floor:?}", wholes[15]);
    }
}

/// The median of the same command by posix_spawn, with its output read and one line made durable.
fn floor(home: &Path, command: &str) -> Duration {
    let mut times: Vec<Duration> = (0..30)
        .map(|_| {
            let begun = Instant::now();
            let mut bash = std::process::Command::new("/bin/bash");
            bash.args(["--norc", "--noprofile", "-c", command])
                .env_clear()
                .stdin(std::process::Stdio::null());
            bash.env("PATH", std::env::var_os("PATH").unwrap_or_default());
            let output = bash.current_dir(home).output().unwrap();
            let mut file = std::fs::File::create(home.join("floor")).unwrap();
            std::io::Write::write_all(&mut file, &output.stdout).unwrap();
            file.sync_data().unwrap();
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[15]
}
