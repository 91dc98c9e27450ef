//! Several calls, and several sessions, in one workspace: none disturbs another, and no change is lost.

use super::{binary, command, of_kind, world};
use agent_tests::deadline::{Deadline, poll};
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, Dialect, Received, ScriptedModel};
use serde_json::json;
use std::process::Stdio;

/// The text of a file as `read_file` showed it.
fn shown_text(page: &str) -> String {
    let lines = page.lines().filter_map(|line| line.split_once('\t')).map(|(_, line)| format!("{line}\n"));
    lines.collect()
}

/// A model that adds its name to a file as often as it was told to: it reads, and writes what it read with its line
/// below. Refused, it reads again.
fn writer(request: &Received) -> Answer {
    let prompt = request.user_texts().remove(0);
    let (name, times) = prompt.split_once(' ').expect("NAME TIMES");
    let results = request.tool_results();
    let step = results.len();
    let written = results.iter().filter(|result| result.text.starts_with("Wrote")).count();
    let read =
        || Answer::calling(&format!("toolu_{name}_{step}"), "read_file", json!({"path": "shared.txt"}));
    match results.last() {
        _ if written == times.parse::<usize>().expect("a number") => Answer::saying("done"),
        Some(page) if page.text.contains('\t') => {
            let content = format!("{}{name} {written}\n", shown_text(&page.text));
            let args = json!({"path": "shared.txt", "content": content});
            Answer::calling(&format!("toolu_{name}_{step}"), "write_file", args)
        }
        _ => read(),
    }
}

#[test]
fn conflicting_writes_of_three_sessions_are_applied_to_what_was_seen_or_refused() {
    const TIMES: usize = 6;
    let model = ScriptedModel::start();
    model.respond_with(writer);
    let home = TestHome::with_model(binary(), &model);
    home.write("shared.txt", "start\n");
    let names = ["ann", "ben", "cem"];
    let sessions = names.map(|_| home.new_session(["--permission-mode", "workspace"]));
    for (name, session) in names.iter().zip(&sessions) {
        home.send(session, &format!("{name} {TIMES}"));
    }
    for session in &sessions {
        assert_eq!(home.wait_for_turn_end(session, 1, Deadline::secs(60)), "completed");
    }
    let content = home.read("shared.txt").expect("the file is there");
    let mut lines: Vec<&str> = content.lines().collect();
    assert_eq!(lines.remove(0), "start");
    let mut wanted: Vec<String> =
        names.iter().flat_map(|name| (0..TIMES).map(move |at| format!("{name} {at}"))).collect();
    let in_file = lines.clone();
    lines.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(lines, wanted, "a change was lost");

    // The trail has the writes in the order in which the file got them.
    let trail = home.cli(["audit", "ls", "--json"]).run().ok().json();
    let of_writes = trail
        .as_array()
        .expect("an array")
        .iter()
        .filter(|row| row["tool"] == "write_file" && row["outcome"] == "ok");
    let order: Vec<String> = of_writes
        .filter_map(|row| {
            sessions.iter().position(|session| {
                row["session_id"].as_str().is_some_and(|id| id.starts_with(session.as_str()))
            })
        })
        .map(|at| names[at].to_owned())
        .collect();
    let lines: Vec<String> =
        in_file.iter().map(|line| line.split(' ').next().unwrap_or("").to_owned()).collect();
    assert_eq!(order, lines);
}

/// A session whose command has the workspace until there is a file `go`, and another one that is to write `a.txt`.
fn held_workspace() -> (ScriptedModel, TestHome, String, String) {
    let model = ScriptedModel::start();
    model.respond_with(|request| match (request.user_texts()[0].as_str(), request.tool_results().len()) {
        ("hold", 0) => command("toolu_hold", "until [ -e go ]; do sleep 0.05; done"),
        ("write", 0) => {
            Answer::calling("toolu_write", "write_file", json!({"path": "a.txt", "content": "a\n"}))
        }
        _ => Answer::saying("done"),
    });
    let home = TestHome::with_model(binary(), &model);
    let holder = home.new_session(["--permission-mode", "full"]);
    home.send(&holder, "hold");
    poll("the command runs", Deadline::secs(20), || home.processes_with("until [ -e go ]").pop());
    let writer = home.new_session(["--permission-mode", "full"]);
    home.send(&writer, "write");
    (model, home, holder, writer)
}

#[test]
fn a_call_that_waits_for_the_workspace_says_for_whom() {
    let (_model, home, holder, writer) = held_workspace();
    let waits = poll("the call waits", Deadline::secs(20), || {
        let open =
            home.show(&writer)["open_call_list"][0]["evidence"].as_str().unwrap_or_default().to_owned();
        open.contains("waits for the workspace").then_some(open)
    });
    assert!(waits.contains(&holder) && waits.contains("run_command"), "{waits}");
    assert_eq!(home.read("a.txt"), None);
    home.write("go", "");
    for session in [&holder, &writer] {
        assert_eq!(home.wait_for_turn_end(session, 1, Deadline::secs(20)), "completed");
    }
    assert_eq!(home.read("a.txt").as_deref(), Some("a\n"));
}

#[test]
fn one_failing_call_never_cancels_its_siblings() {
    let batch = Answer::new()
        .text("All at once.")
        .tool_use("toolu_1", "read_file", json!({"path": "gone.txt"}))
        .tool_use("toolu_2", "read_file", json!({"path": "a.txt"}))
        .tool_use("toolu_3", "run_command", json!({"command": "exit 3"}))
        .tool_use("toolu_4", "write_file", json!({"path": "sub/../../outside.txt", "content": "x"}))
        .tool_use("toolu_5", "write_file", json!({"path": "b.txt", "content": "b\n"}))
        .tool_use("toolu_6", "read_file", json!({"path": "b.txt"}));
    let (model, home) = world([batch, Answer::saying("done")]);
    home.write("a.txt", "alpha\n");
    let session = home.new_session(["--permission-mode", "workspace"]);
    let request = {
        home.send(&session, "go");
        let open = home
            .wait_for_event(&session, "a question", Deadline::secs(20), |event| event.is("request_opened"));
        open.text("request_id").to_owned()
    };
    home.cli(["approve", &request]).run().ok();
    assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(20)), "completed");
    let results = model.last_request().tool_results();
    let said: Vec<(bool, &str)> =
        results.iter().map(|result| (result.is_error, result.text.as_str())).collect();
    assert!(said[0].0 && said[0].1.starts_with("File not found: gone.txt. Nearest folder: "), "{said:?}");
    assert!(!said[1].0 && said[1].1.contains("alpha"), "{said:?}");
    assert!(said[2].0 && said[2].1.starts_with("Exit code 3\n"), "{said:?}");
    assert!(said[3].0 && said[3].1.starts_with("Not executed: "), "{said:?}");
    assert!(!said[4].0 && !said[5].0 && said[5].1.contains("b"), "{said:?}");
}

/// A file that another program holds a lease on cannot be opened at once; it gives it up when it is asked.
const HOLDER: &str = "import fcntl, os, signal, sys, time\n\
fd = os.open(sys.argv[1], os.O_RDWR)\n\
signal.signal(signal.SIGIO, lambda *_: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK))\n\
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
print('held', flush=True)\n\
time.sleep(60)\n";

#[test]
fn a_read_of_a_busy_file_is_tried_again_and_every_try_is_an_event() {
    use std::io::BufRead as _;
    let read = Answer::calling("toolu_read", "read_file", json!({"path": "a.txt"}));
    let (model, home) = world([read, Answer::saying("done")]);
    home.write("a.txt", "alpha\n");
    let session = home.new_session(["--permission-mode", "read-only"]);
    let mut holder = std::process::Command::new("python3")
        .args(["-c", HOLDER])
        .arg(home.workspace().join("a.txt"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test needs python3");
    let mut line = String::new();
    let out = holder.stdout.take().expect("a pipe");
    std::io::BufReader::new(out).read_line(&mut line).expect("the holder speaks");
    assert_eq!(line, "held\n");
    home.send_and_wait(&session, "read").ok();
    holder.kill().expect("the holder is ended");
    holder.wait().expect("the holder is reaped");
    let events = home.events(&session);
    let tries = of_kind(&events, "call_started");
    assert!((2..=4).contains(&tries.len()), "{tries:?}");
    assert!(tries[0].field("repeats").is_null(), "{tries:?}");
    assert!(tries[1].text("repeats").contains("cannot be read"), "{tries:?}");
    let result = model.last_request().result_of("toolu_read");
    assert!(!result.is_error && result.text.contains("alpha"), "{result:?}");
}

#[test]
fn what_is_missing_is_not_tried_again() {
    let read = Answer::calling("toolu_read", "read_file", json!({"path": "folder"}));
    let edit = Answer::calling("toolu_edit", "edit_file", json!({"path": "a.txt", "old": "x", "new": "y"}));
    let (_model, home) = world([read, edit, command("toolu_exit", "exit 7"), Answer::saying("done")]);
    home.write("folder/a", "");
    home.write("a.txt", "alpha\n");
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();
    let events = home.events(&session);
    assert!(of_kind(&events, "call_started").iter().all(|event| event.field("repeats").is_null()));
    assert_eq!(of_kind(&events, "call_finished").len(), 3);
}

#[test]
fn a_disabled_tool_is_not_offered_and_not_known() {
    let calls = Answer::calling("toolu_1", "run_command", json!({"command": "echo x > made"}));
    let (model, home) = world([calls, Answer::saying("done")]);
    home.configure(Dialect::Anthropic, "\n[tools]\ndisable = [\"run_command\"]\n");
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();
    assert!(!model.last_request().tool_names().contains(&"run_command".to_owned()));
    let result = model.last_request().result_of("toolu_1");
    assert!(result.is_error && result.text.starts_with("Unknown tool run_command. Tools: ["), "{result:?}");
    assert!(!result.text[result.text.find('[').unwrap_or(0)..].contains("run_command"), "{result:?}");
    assert_eq!(home.read("made"), None);
}

#[test]
fn a_write_that_waits_for_the_workspace_can_be_interrupted_and_never_happens() {
    let (_model, home, holder, writer) = held_workspace();
    poll("the call waits", Deadline::secs(20), || {
        let evidence = home.show(&writer)["open_call_list"][0]["evidence"].clone();
        evidence.as_str().is_some_and(|text| text.contains("waits for the workspace")).then_some(())
    });
    home.cli(["interrupt", &writer]).run().ok();
    assert_eq!(home.wait_for_turn_end(&writer, 1, Deadline::secs(5)), "interrupted");
    home.write("go", "");
    assert_eq!(home.wait_for_turn_end(&holder, 1, Deadline::secs(20)), "completed");
    assert_eq!(home.read("a.txt"), None);
}
