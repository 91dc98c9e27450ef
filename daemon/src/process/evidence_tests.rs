//! The table of evidence, row by row.

use super::job::{IdRecord, JobFolder};
use super::test_support::{Bench, PATIENCE, exited, finished, open};
use super::{JobEvidence, JobOutcome, ProcId, ProcessError};
use std::process::{Command, Stdio};

fn kill(id: &ProcId) {
    rustix::process::kill_process(super::tree::pid(id.pid).unwrap(), rustix::process::Signal::KILL).unwrap();
}

/// A process that is dead and reaped, so that its identity is nobody's.
fn dead() -> ProcId {
    let mut child = Command::new("sleep").arg("300").spawn().unwrap();
    let id = ProcId::of(child.id()).unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    id
}

fn made(bench: &Bench, name: &str, id: Option<IdRecord>) -> JobFolder {
    let folder = JobFolder::new(bench.folder(name));
    std::fs::create_dir(folder.path()).unwrap();
    folder.write_spec(&bench.spec("echo ran > ran")).unwrap();
    if let Some(id) = id {
        assert!(folder.claim(&id).unwrap());
    }
    folder
}

#[test]
fn no_folder_is_not_started() {
    let bench = Bench::new();
    assert!(matches!(bench.jobs.evidence("none").unwrap(), JobEvidence::NotStarted { .. }));
    assert!(!bench.folder("none").exists(), "looking makes nothing");
}

#[tokio::test]
async fn a_command_that_spoils_its_id_still_runs_and_ends() {
    let bench = Bench::new();
    let command =
        "rm $AGENTD_JOB/id; mkfifo $AGENTD_JOB/id; mkfifo gate; echo spoilt; read line < gate; exit 8";
    bench.jobs.spawn("spoilt", &bench.spec(command)).unwrap();
    bench.printed("spoilt", "spoilt").await;
    let evidence = bench.jobs.evidence("spoilt").unwrap();
    assert!(matches!(evidence, JobEvidence::Running { bytes_seen: 7, .. }), "{evidence:?}");
    assert_eq!(bench.jobs.supervisors().unwrap().len(), 1);
    std::fs::write(bench.home.path().join("gate"), "go\n").unwrap();
    assert_eq!(bench.finished("spoilt").await.end, exited(8));
}

#[tokio::test]
async fn a_command_that_deletes_its_folder_has_begun_all_the_same() {
    let bench = Bench::new();
    // A supervisor that speaks is believed.
    bench.jobs.spawn("told", &bench.spec("rm -rf $AGENTD_JOB; exit 7")).unwrap();
    assert_eq!(bench.finished("told").await.end, exited(7));
    assert!(matches!(bench.jobs.evidence("told").unwrap(), JobEvidence::Finished(_)));

    // One that was killed is not taken for one that never began.
    bench
        .jobs
        .spawn("mute", &bench.spec("kill -STOP $PPID; rm -rf $AGENTD_JOB; touch gone; sleep 300"))
        .unwrap();
    super::test_support::until("the folder is deleted", || bench.home.path().join("gone").exists());
    let JobEvidence::Running { id, .. } = bench.jobs.evidence("mute").unwrap() else { panic!("not running") };
    // Another run of the daemon knows only the processes; it ends them.
    let second = open(bench.home.path());
    let JobEvidence::Unknown { why, .. } = second.evidence("mute").unwrap() else { panic!("not unknown") };
    assert!(why.contains("deleted") && why.contains("were killed"), "{why}");
    assert_eq!(bench.alive("mute"), Vec::<u32>::new());
    kill(&id);
    let outcome = tokio::time::timeout(PATIENCE, bench.jobs.wait("mute")).await.unwrap().unwrap();
    assert!(matches!(outcome, JobOutcome::Unknown { .. }), "{outcome:?}");
    bench.jobs.remove("mute").unwrap();
    assert!(matches!(bench.jobs.evidence("mute").unwrap(), JobEvidence::NotStarted { .. }));
}

#[test]
fn a_late_supervisor_finds_the_tombstone_and_starts_nothing() {
    let bench = Bench::new();
    made(&bench, "late", None);
    for _ in 0..2 {
        assert!(matches!(bench.jobs.evidence("late").unwrap(), JobEvidence::NotStarted { .. }));
    }
    let mut late = Command::new(std::env::current_exe().unwrap());
    late.arg("__exec").arg(bench.folder("late")).stdin(Stdio::null()).stdout(Stdio::null());
    assert!(late.status().unwrap().success());
    assert!(!bench.home.path().join("ran").exists());
    assert!(!bench.folder("late").join("result").exists() && !bench.folder("late").join("out").exists());
}

#[test]
fn only_one_claim_is_won() {
    let bench = Bench::new();
    let folder = made(&bench, "race", None);
    let me = ProcId::current().unwrap();
    let won: usize = std::thread::scope(|scope| {
        // One process at a time has one temporary name, so each thread has its own claimant in another process.
        let racers: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    let mut racer = Command::new(std::env::current_exe().unwrap());
                    racer.arg("__exec").arg(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
                    racer.status().unwrap()
                })
            })
            .collect();
        racers.into_iter().filter(|_| true).map(|racer| usize::from(racer.join().unwrap().success())).sum()
    });
    assert_eq!(won, 6, "losing is no failure");
    assert!(!folder.claim(&IdRecord::Tombstone(me)).unwrap());
    assert_eq!(std::fs::read_to_string(bench.home.path().join("ran")).unwrap(), "ran\n");
    assert!(folder.read_result().unwrap().is_some());
}

#[tokio::test]
async fn a_job_is_adopted_by_another_run_and_its_end_arrives_whole() {
    let bench = Bench::new();
    let gate = bench.home.path().join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    // A process of its own spawns the job and is gone: what a kill -9 of the daemon leaves.
    let folder = made(&bench, "adopt", None);
    let mut spec = bench.spec("echo one; read line < gate; echo $line; exit 5");
    spec.spool_max_bytes = 1000;
    std::fs::remove_file(folder.path().join("spec")).unwrap();
    folder.write_spec(&spec).unwrap();
    let starter = "\"$0\" __exec \"$1\" </dev/null >/dev/null 2>&1 & kill -9 $$";
    let mut parent = Command::new("bash");
    parent.args(["-c", starter]).arg(std::env::current_exe().unwrap()).arg(folder.path());
    assert!(!parent.status().unwrap().success());

    // The second run must not win a tombstone here: wait for the claim as the crash test of the whole would.
    super::test_support::until("the claim", || folder.read_id().unwrap().is_some());
    let second = open(bench.home.path());
    bench.printed("adopt", "one").await;
    let JobEvidence::Running { id, bytes_seen } = second.evidence("adopt").unwrap() else {
        panic!("not running")
    };
    assert!(id.is_alive() && bytes_seen == 4);
    assert_eq!(second.supervisors().unwrap(), [id]);
    assert!(matches!(second.remove("adopt"), Err(ProcessError::StillRunning { .. })));
    let waiting = tokio::spawn({
        let second = second.clone();
        async move { finished(&second, "adopt").await }
    });
    std::fs::write(&gate, "two\n").unwrap();
    let result = waiting.await.unwrap();
    assert_eq!(result.end, exited(5));
    assert_eq!(bench.output("adopt"), b"one\ntwo\n");
    assert_eq!(second.evidence("adopt").unwrap(), JobEvidence::Finished(result));
    second.remove("adopt").unwrap();
    assert!(!bench.folder("adopt").exists());
}

#[tokio::test]
async fn an_adopted_job_can_be_stopped() {
    let bench = Bench::new();
    bench.jobs.spawn("halt", &bench.spec("echo begun; sleep 300")).unwrap();
    bench.printed("halt", "begun").await;
    let second = open(bench.home.path());
    assert!(second.stop("halt").unwrap());
    let result = finished(&second, "halt").await;
    assert!(result.stopped && !result.timed_out);
    assert!(!second.stop("halt").unwrap(), "nobody is left to be told");
}

#[test]
fn a_recycled_pid_is_not_alive_and_is_never_signalled() {
    let bench = Bench::new();
    let mut other = Command::new("sleep").arg("300").spawn().unwrap();
    let mut id = ProcId::of(other.id()).unwrap().unwrap();
    id.start_ticks -= 1;
    made(&bench, "recycled", Some(IdRecord::Supervisor(id)));
    assert!(!bench.jobs.stop("recycled").unwrap());
    assert!(matches!(bench.jobs.evidence("recycled").unwrap(), JobEvidence::Unknown { .. }));
    assert!(other.try_wait().unwrap().is_none(), "the innocent process lives");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn another_boot_is_unknown_with_what_was_printed() {
    let bench = Bench::new();
    let id = ProcId { boot_id: "another".into(), ..ProcId::current().unwrap() };
    let folder = made(&bench, "boot", Some(IdRecord::Supervisor(id)));
    std::fs::write(folder.path().join("out"), "half\n").unwrap();
    let JobEvidence::Unknown { why, output } = bench.jobs.evidence("boot").unwrap() else {
        panic!("not unknown")
    };
    assert!(why.contains("restarted"), "{why}");
    assert_eq!((&output.head[..], output.total_lines), (&b"half\n"[..], 1));
}

#[test]
fn garbled_files_are_named_and_never_guessed_at() {
    let bench = Bench::new();
    let folder = made(&bench, "garbled", Some(IdRecord::Supervisor(dead())));
    for (text, word) in
        [("{\"version\":1,", "EOF"), ("{\"version\":9,\"body\":{}}", "version 9"), ("", "EOF")]
    {
        std::fs::write(folder.path().join("result"), text).unwrap();
        let JobEvidence::Unknown { why, .. } = bench.jobs.evidence("garbled").unwrap() else {
            panic!("{text}")
        };
        assert!(why.contains("garbled/result") && why.contains(word), "{why}");
    }
    let folder = made(&bench, "badid", None);
    std::fs::write(folder.path().join("id"), "nonsense").unwrap();
    let JobEvidence::Unknown { why, .. } = bench.jobs.evidence("badid").unwrap() else { panic!("guessed") };
    assert!(why.contains("badid/id"), "{why}");
}

/// What a command may put where a file of its job should be.
fn put(kind: &str, at: &std::path::Path) {
    let _ = std::fs::remove_file(at);
    match kind {
        "fifo" => assert!(Command::new("mkfifo").arg(at).status().unwrap().success()),
        "socket" => drop(std::os::unix::net::UnixListener::bind(at).unwrap()),
        "folder" => std::fs::create_dir(at).unwrap(),
        target => std::os::unix::fs::symlink(target, at).unwrap(),
    }
}

#[test]
fn what_is_no_file_is_named_and_never_waited_for() {
    let bench = Bench::new();
    for (at, kind) in ["fifo", "socket", "folder", "/dev/zero", "/etc/passwd"].into_iter().enumerate() {
        let word = if kind.starts_with('/') { "link" } else { kind };
        for file in ["id", "result"] {
            let name = format!("{file}-{at}");
            let folder = made(&bench, &name, Some(IdRecord::Supervisor(dead())));
            put(kind, &folder.path().join(file));
            let JobEvidence::Unknown { why, .. } = bench.jobs.evidence(&name).unwrap() else {
                panic!("{name}")
            };
            assert!(why.contains(&format!("{name}/{file}")) && why.contains(word), "{why}");
        }
        let name = format!("others-{at}");
        let folder = made(&bench, &name, Some(IdRecord::Supervisor(dead())));
        for file in ["out", "tail-0-0", "tail-9-9", "fault"] {
            put(kind, &folder.path().join(file));
        }
        let JobEvidence::Unknown { why, output } = bench.jobs.evidence(&name).unwrap() else {
            panic!("{name}")
        };
        assert!(output.head.is_empty() && !why.contains("it said"), "{why}: {output:?}");
        assert_eq!(bench.output(&name), b"");
    }
    assert_eq!(bench.jobs.supervisors().unwrap(), []);
}

#[tokio::test]
async fn a_lost_supervisor_is_unknown_and_its_runaways_are_killed() {
    let bench = Bench::new();
    let command = "setsid sleep 300 & (setsid sh -c 'sleep 300 & exit' &); echo begun; sleep 300";
    bench.jobs.spawn("lost", &bench.spec(command)).unwrap();
    bench.printed("lost", "begun").await;
    kill(&bench.jobs.supervisors().unwrap()[0]);
    let outcome = tokio::time::timeout(PATIENCE, bench.jobs.wait("lost")).await.unwrap().unwrap();
    let JobOutcome::Unknown { why, output } = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("died without leaving a result") && why.contains("were killed"), "{why}");
    assert_eq!(output.head, b"begun\n");
    assert_eq!(bench.alive("lost"), Vec::<u32>::new());
}

#[tokio::test]
async fn a_supervisor_that_dies_before_its_claim_is_noticed() {
    let bench = Bench::new();
    let exec = bench.home.path().join("broken");
    std::fs::write(&exec, "#!/bin/sh\nexit 9\n").unwrap();
    std::fs::set_permissions(&exec, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let jobs = super::Jobs::open(&bench.home.path().join("jobs"), exec).unwrap();
    jobs.spawn("early", &bench.spec("true")).unwrap();
    let outcome = tokio::time::timeout(PATIENCE, jobs.wait("early")).await.unwrap().unwrap();
    let JobOutcome::NotStarted { why } = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("exit status: 9"), "{why}");
}

#[tokio::test]
async fn a_living_child_of_ours_is_running_before_its_claim() {
    let bench = Bench::new();
    let exec = bench.home.path().join("slow");
    std::fs::write(&exec, "#!/bin/sh\nexec sleep 300\n").unwrap();
    std::fs::set_permissions(&exec, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let jobs = super::Jobs::open(&bench.home.path().join("jobs"), exec).unwrap();
    jobs.spawn("slow", &bench.spec("true")).unwrap();
    assert!(matches!(jobs.evidence("slow").unwrap(), JobEvidence::Running { bytes_seen: 0, .. }));
    assert!(matches!(jobs.remove("slow"), Err(ProcessError::StillRunning { .. })));
    assert!(jobs.stop("slow").unwrap());
    let outcome = tokio::time::timeout(PATIENCE, jobs.wait("slow")).await.unwrap().unwrap();
    assert!(matches!(outcome, JobOutcome::NotStarted { .. }), "{outcome:?}");
}
