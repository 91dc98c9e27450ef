//! Commands end when they end, and nothing of them is left.

use super::{binary, command, of_kind, world};
use agent_tests::deadline::{Deadline, poll};
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, Received};
use serde_json::json;

/// A command that fails or hangs must not take longer than this to be reported, deadline and grace included.
const TIMED_OUT_WITHIN_MS: u64 = 6_000;

/// E1: a child that holds the pipe does not hold the call.
#[test]
fn a_background_child_does_not_hold_its_call() {
    let lines = [
        "sleep 300.5 & echo done",
        "(while :; do echo x; sleep 1.5; done) & echo done",
        "sleep 300.5 2>&1 >/dev/null &",
        "setsid sleep 300.5 & echo done",
    ];
    let calls = lines.iter().enumerate().map(|(n, line)| command(&format!("toolu_{n}"), line));
    let (model, home) = world(calls.chain([Answer::saying("all ran")]));
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "run them").ok();

    let events = home.events(&session);
    let finished = of_kind(&events, "call_finished");
    assert_eq!(finished.len(), lines.len());
    for (line, event) in lines.iter().zip(finished) {
        assert_eq!(event.field("exit_code"), &json!(0), "{line}: {}", event.json);
        assert!(event.field("duration_ms").as_u64().unwrap() < 2_000, "{line}: {}", event.json);
        assert!(event.text("text").contains("done") || !line.contains("done"), "{line}: {}", event.json);
        assert!(
            event.text("text").contains("killed"),
            "{line}: what is left is killed, and the result says so"
        );
    }
    home.wait_gone("sleep 300.5", Deadline::secs(5));
    home.wait_gone("sleep 1.5", Deadline::secs(5));
    assert_eq!(model.last_request().tool_results().len(), lines.len());
}

/// E1: a hundred of them leave neither descriptor nor thread behind in the daemon.
#[test]
fn a_hundred_commands_leave_nothing_in_the_daemon() {
    let (model, home) = world([]);
    model.respond_with(|request: &Received| match request.tool_results().len() {
        done @ 0..100 => command(&format!("toolu_{done}"), "sleep 300.75 & echo done"),
        _ => Answer::saying("enough"),
    });
    let session = home.new_session(["--permission-mode", "full"]);
    let count =
        |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", home.daemon_pid())).unwrap().count();
    let before = (count("fd"), count("task"));
    let sent = home.cli(["send", &session, "go", "--wait"]).within_secs(90).run();
    assert_eq!(sent.code, Some(0), "{sent}");
    // The answer is there when the turn is; its connections close a moment later.
    poll("descriptors and threads as before", Deadline::secs(15), || {
        let now = (count("fd"), count("task"));
        (now.0 <= before.0 + 8 && now.1 <= before.1 + 8).then_some(())
    });
    home.wait_gone("sleep 300.75", Deadline::secs(5));
    let left = std::fs::read_dir(home.jobs()).map_or(0, Iterator::count);
    assert_eq!(left, 0, "job folders are deleted once their results are durable");
}

const STUBBORN: &str =
    "echo begun; trap \"\" TERM; (trap \"\" TERM; sleep 5.5; touch late) & sleep 60.5; touch late";

fn stubborn_call(timeout_s: Option<u32>) -> Answer {
    let mut args = json!({ "command": format!("bash -c '{STUBBORN}'") });
    if let Some(seconds) = timeout_s {
        args["timeout_s"] = seconds.into();
    }
    Answer::calling("toolu_stubborn", "run_command", args)
}

/// The whole tree is gone, so nothing is left that could write later.
fn assert_tree_gone(home: &TestHome) {
    for text in ["sleep 5.5", "sleep 60.5", "touch late"] {
        home.wait_gone(text, Deadline::secs(5));
    }
    assert_eq!(home.read("late"), None);
    let zombies: Vec<_> = home.processes().into_iter().filter(|found| found.state == 'Z').collect();
    assert!(zombies.is_empty(), "{zombies:?}");
}

/// E2: a deadline ends the tree, also one that ignores TERM.
#[test]
fn a_deadline_ends_the_whole_tree() {
    let fifo = json!({"command": "mkfifo p; while :; do echo x; done > p & echo begun; cat p > /dev/null", "timeout_s": 2});
    let answers = [
        stubborn_call(Some(2)),
        Answer::calling("toolu_fifo", "run_command", fifo),
        Answer::saying("both timed out"),
    ];
    let (model, home) = world(answers);
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();
    let events = home.events(&session);
    let finished = of_kind(&events, "call_finished");
    assert_eq!(finished.len(), 2);
    for event in finished {
        assert_eq!(event.text("outcome"), "timed_out", "{}", event.json);
        assert!(event.field("duration_ms").as_u64().unwrap() < TIMED_OUT_WITHIN_MS, "{}", event.json);
    }
    for id in ["toolu_stubborn", "toolu_fifo"] {
        let result = model.last_request().result_of(id);
        assert!(
            result.is_error && result.text.starts_with("Timed out after 2 s, killed; output so far:"),
            "{result:?}"
        );
        assert!(result.text.contains("begun"), "{result:?}");
    }
    assert_tree_gone(&home);
    home.wait_gone("cat p", Deadline::secs(5));
}

/// E2: so does an interrupt.
#[test]
fn an_interrupt_ends_the_whole_tree() {
    let (_model, home) = world([stubborn_call(None)]);
    let session = home.new_session(["--permission-mode", "full"]);
    home.send(&session, "go");
    poll("the tree stands", Deadline::secs(20), || home.processes_with("sleep 5.5").pop());
    home.cli(["interrupt", &session]).run().ok();
    assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(20)), "interrupted");
    assert_tree_gone(&home);
}

/// A command that stops its supervisor and puts a fifo in its folder holds neither the daemon nor its session.
#[test]
fn a_command_that_holds_its_supervisor_can_be_interrupted() {
    let line = "rm $AGENTD_JOB/id; mkfifo $AGENTD_JOB/id; kill -STOP $PPID; sleep 300.5";
    let (_model, home) = world([command("toolu_hold", line)]);
    let session = home.new_session(["--permission-mode", "full"]);
    home.send(&session, "go");
    poll("the command runs", Deadline::secs(20), || home.processes_with("sleep 300.5").pop());
    home.cli(["interrupt", &session]).run().ok();
    assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(20)), "interrupted");
    home.wait_gone("sleep 300.5", Deadline::secs(10));
    home.wait_gone("__exec", Deadline::secs(10));
}

/// E2: a stopped daemon leaves the command to its supervisor, which keeps its deadline; the next daemon reports it.
#[test]
fn a_deadline_holds_while_no_daemon_runs() {
    let (model, home) = world([stubborn_call(Some(2)), Answer::saying("timed out")]);
    let session = home.new_session(["--permission-mode", "full"]);
    home.send(&session, "go");
    poll("the tree stands", Deadline::secs(20), || home.processes_with("sleep 5.5").pop());
    home.cli(["daemon", "stop", "--now"]).run().ok();
    assert_tree_gone_with_supervisor(&home);
    home.start_daemon();
    home.cli(["resume", &session]).run().ok();
    assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(20)), "completed");
    let result = model.last_request().result_of("toolu_stubborn");
    assert!(result.is_error && result.text.starts_with("Timed out after 2 s"), "{result:?}");
}

fn assert_tree_gone_with_supervisor(home: &TestHome) {
    home.wait_gone("__exec", Deadline::secs(15));
    assert_tree_gone(home);
}

/// A reader that goes away ends what it read, also when nothing more is printed; output that cannot be written is
/// an error.
#[test]
fn nobody_reads_and_nothing_can_be_written() {
    let (_model, home) = world([Answer::saying("one")]);
    let session = home.new_session::<&str>([]);
    home.send_and_wait(&session, "say").ok();
    for args in [
        ["attach", &session, "--json", "--history", "full"],
        ["events", &session, "--json", "--follow", "--after=0"],
    ] {
        let mut command = home.command(binary());
        command.args(args).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut reading = command.spawn().unwrap();
        let mut one = [0_u8; 1];
        std::io::Read::read_exact(reading.stdout.as_mut().unwrap(), &mut one).unwrap();
        drop(reading.stdout.take());
        let ended = agent_tests::process::wait_child(&mut reading, Deadline::secs(20));
        if ended.is_none() {
            reading.kill().unwrap();
        }
        assert!(ended.is_some_and(|status| status.success()), "{args:?}: {ended:?}");
    }
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let help = home.command(binary()).arg("--help").stdout(full).output().unwrap();
    assert_eq!(help.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&help.stderr).contains("error:"));
    let large = "x".repeat((1 << 20) + 1);
    let refused = home.cli(["send", &session, "-"]).stdin(large).run().expect_code(2);
    assert!(refused.stderr.contains("larger than"), "{refused}");
}

/// A `run` that is told to end by its terminal or a service manager stops its turn first.
#[test]
fn run_stops_its_turn_when_it_is_told_to_end() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::HUP] {
        let (_model, home) = world([command("toolu_s", "echo begun; sleep 300.75")]);
        let mut run = home.cli(["run", "--permission-mode", "full", "work", "--output", "json"]).spawn();
        poll("the command runs", Deadline::secs(20), || home.processes_with("sleep 300.75").pop());
        run.signal(signal);
        assert_eq!(run.wait(Deadline::secs(20)), Some(130), "{}", run.so_far());
        assert!(run.stdout.all().concat().contains("\"status\":\"interrupted\""), "{}", run.so_far());
        home.wait_gone("sleep 300.75", Deadline::secs(10));
        // The turn is over for its clients a moment before the daemon has put everything of it away.
        poll("the daemon is idle", Deadline::secs(20), || {
            home.daemon_status().filter(|status| status["sessions"] == 0 && status["jobs"] == 0)
        });
    }
}

/// What each stream printed is marked, in the order of the writes, and live as in the result.
#[test]
fn both_streams_are_marked_in_the_order_of_their_writes() {
    let script = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done; exit 3";
    let (model, home) =
        world([command("toolu_1", script), command("toolu_2", "echo only >&2"), Answer::saying("done")]);
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();
    let mut wanted = String::from("Exit code 3");
    for at in 1..=9 {
        let back = if at > 1 { "\n[stdout]" } else { "" };
        wanted.push_str(&format!("{back}\nout {at}\n[stderr]\nerr {at}"));
    }
    let result = model.last_request().result_of("toolu_1");
    assert!(result.is_error);
    assert_eq!(result.text.trim_start_matches("Error: "), wanted);
    assert_eq!(model.last_request().result_of("toolu_2").text, "[stderr]\nonly");
}

/// The reason of a failure is shown, however much was printed after it.
#[test]
fn the_end_of_stderr_is_kept_under_a_flood_of_stdout() {
    let script = "echo 'first' ; echo 'fatal: the reason' >&2; seq 1 20000; exit 2";
    let (model, home) = world([command("toolu_1", script), Answer::saying("done")]);
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();
    let text = model.last_request().result_of("toolu_1").text;
    assert!(text.contains("Exit code 2\nfirst\n[stderr]\nfatal: the reason\n[stdout]\n1\n"), "{text}");
    let late = "seq 1 9000; seq 1 20 >&2; echo 'fatal: late' >&2; seq 1 20000; exit 2";
    model.push(command("toolu_2", late));
    model.push(Answer::saying("done"));
    home.send_and_wait(&session, "again").ok();
    let text = model.last_request().result_of("toolu_2").text;
    let (_, end) = text.split_once("[end of stderr]").unwrap_or_else(|| panic!("no end of stderr: {text}"));
    assert!(end.ends_with("fatal: late"), "{text}");
}

/// E3: nobody can answer, and a command that asks ends at once and says so.
#[test]
fn a_command_that_wants_a_person_ends_at_once() {
    let setup = "git init -q . && git config user.email a@b && git config user.name n && echo x > f && git add f \
                 && git commit -qm one && echo y > g && git add g && git commit -qm two && echo z > h && git add h";
    let rows = [
        ("cat", false),
        ("read x", false),
        ("git commit", true),
        ("git stash -q && git rebase -i HEAD~1", true),
        // Six failures in a row would end the turn.
        ("true", false),
        ("python3 -c 'input()'", true),
        ("bash -c 'exec 3</dev/tty'", true),
        ("git ls-remote https://127.0.0.1:9/x.git", false),
    ];
    let calls = rows.iter().enumerate().map(|(at, (line, _))| command(&format!("toolu_{at}"), line));
    let (model, home) =
        world([command("toolu_setup", setup)].into_iter().chain(calls).chain([Answer::saying("done")]));
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();
    let events = home.events(&session);
    let ends = of_kind(&events, "call_finished");
    assert_eq!(ends[0].field("exit_code"), &json!(0), "{}", ends[0].json);
    for ((line, hinted), end) in rows.iter().zip(&ends[1..]) {
        assert!(end.field("duration_ms").as_u64().unwrap() < 5_000, "{line}: {}", end.json);
        assert!(
            ["cat", "true"].contains(line) || end.field("exit_code") != &json!(0),
            "{line}: {}",
            end.json
        );
        let has_hint = end.text("text").contains("there is no terminal and standard input is empty");
        assert_eq!(has_hint, *hinted, "{line}: {}", end.json);
    }
    let log =
        home.command("git").args(["log", "--format=%s"]).current_dir(home.workspace()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&log.stdout), "two\none\n", "nothing was committed or rebased");
    assert_eq!(model.last_request().tool_results().len(), rows.len() + 1);
}

/// E6: a deleted folder makes no session useless.
#[test]
fn a_deleted_folder_is_told_and_the_session_goes_on() {
    let (model, home) = world([
        command("toolu_1", "rm -rf \"$PWD\"; echo gone"),
        command("toolu_2", "ls -A; cd /tmp && pwd"),
        Answer::calling("toolu_3", "write_file", json!({"path": "a.txt", "content": "a\n"})),
        command("toolu_4", "cat a.txt"),
        Answer::saying("done"),
    ]);
    let folder = home.workspace().join("worktree");
    std::fs::create_dir(&folder).unwrap();
    let new = home.cli(["new", "--permission-mode", "full", "--cwd", folder.to_str().unwrap()]).run().ok();
    let session = new.stdout.trim().to_owned();
    home.send(&session, "go");
    // The workspace comes back while the model works on: file tools and commands find it again.
    let follower = home.follow(&session, 0);
    follower.wait_for_nth("the second result", 2, Deadline::secs(20), |event| event.is("call_finished"));
    std::fs::create_dir_all(&folder).unwrap();
    assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(20)), "completed");
    let second = model.last_request().result_of("toolu_2").text;
    assert!(second.starts_with("[the session's folder ") && second.contains("is gone"), "{second}");
    assert!(second.contains("worktree") && second.ends_with("/tmp"), "{second}");
    assert_eq!(model.last_request().tool_results().len(), 4);
}

/// However much a command prints, it can be stopped, and the daemon answers everybody else meanwhile.
#[test]
fn floods_hold_neither_their_own_interrupt_nor_the_daemon() {
    let (_model, home) = world([command("toolu_1", "yes one"), command("toolu_2", "yes two")]);
    let sessions = [home.workspace().join("a"), home.workspace().join("b")].map(|folder| {
        std::fs::create_dir_all(&folder).unwrap();
        let new =
            home.cli(["new", "--permission-mode", "full", "--cwd", folder.to_str().unwrap()]).run().ok();
        new.stdout.trim().to_owned()
    });
    for session in &sessions {
        home.send(session, "go");
        home.follow(session, 0).wait_for_kind("call_started", Deadline::secs(20));
    }
    poll("both run", Deadline::secs(20), || {
        (!home.processes_with("yes one").is_empty() && !home.processes_with("yes two").is_empty())
            .then_some(())
    });
    for session in &sessions {
        assert_eq!(home.show(session)["state"], "running");
        home.cli(["interrupt", session]).within_secs(5).run().ok();
        assert_eq!(home.wait_for_turn_end(session, 1, Deadline::secs(15)), "interrupted");
    }
    for session in &sessions {
        let events = home.events(session);
        let end = of_kind(&events, "call_finished")[0];
        assert_eq!(end.text("outcome"), "cancelled", "{}", end.json);
        assert!(end.text("text").starts_with("Interrupted; output so far:"), "{}", end.json);
    }
}
