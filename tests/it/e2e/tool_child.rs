//! A command that the agent runs cannot speak for its user: it may read and no more, however it hides.

use super::{command, of_kind, world};
use agent_tests::deadline::Deadline;
use agent_tests::events::show;
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, ScriptedModel};

/// The attempts, one a line: what is written to `codes` is `NAME CODE`.
fn script(home: &TestHome, session: &str, request: &str) -> String {
    let agentctl = format!("env AGENTD_HOME={} {}", home.agentd().display(), home.binary().display());
    let mut lines = vec![format!("{agentctl} ls --json > listed; echo ls $? >> codes")];
    for (name, args) in [
        ("approve", format!("approve {request}")),
        ("set", format!("set {session} --permission-mode full")),
        ("send", format!("send {session} more")),
        ("run", "run hello".to_owned()),
        ("new", "new".to_owned()),
        ("probe", "models --probe anthropic".to_owned()),
    ] {
        let attempt = |name: &str| format!("{args} > out-{name} 2>&1; echo {name} $? >> codes");
        let (plain, setsid, fork) = (name.to_owned(), format!("{name}-setsid"), format!("{name}-fork"));
        lines.push(format!("{agentctl} {}", attempt(&plain)));
        lines.push(format!("setsid --wait {agentctl} {}", attempt(&setsid)));
        // The processes in the middle exit, so that the last one has lost its parents; the command waits for it.
        lines.push(format!("( ( setsid sh -c '{agentctl} {}; touch end-{name}' & ) & )", attempt(&fork)));
        lines.push(format!("while [ ! -e end-{name} ]; do sleep 0.05; done"));
    }
    lines.join("\n") + "\n"
}

/// A session with an open request that nobody has answered.
fn waiting_session(home: &TestHome, model: &ScriptedModel) -> (String, String) {
    model.push(command("toolu_wait", "echo never >> never"));
    let session = home.new_session(["--permission-mode", "ask"]);
    home.send(&session, "ask me");
    let opened = home.follow(&session, 0).wait_for_kind("request_opened", Deadline::secs(20));
    (session, opened.text("request_id").to_owned())
}

fn attempt_in(mode: &str) {
    let (model, home) = world([]);
    let (victim, request) = waiting_session(&home, &model);
    let session = home.new_session(["--permission-mode", mode]);
    home.write("attempt.sh", script(&home, &victim, &request));
    model.push(command("toolu_attempt", "sh attempt.sh"));
    model.push(Answer::saying("tried"));
    home.send(&session, "try it");
    let follower = home.follow(&session, 0);
    if mode != "full" {
        // Modes that ask are answered by a person; what is asked must not be allowed by what it does.
        let decided = follower.wait_for_kind("call_decided", Deadline::secs(20));
        match decided.text("verdict") {
            "ask" => {
                let opened = follower.wait_for_kind("request_opened", Deadline::secs(20));
                home.cli(["approve", opened.text("request_id")]).run().ok();
            }
            "deny" => {
                assert_eq!(mode, "read-only", "{}", decided.json);
                follower.wait_for_kind("turn_finished", Deadline::secs(20));
                assert_eq!(home.read("codes"), None, "it ran although it was denied");
                return close(&model, &home, &victim, &request);
            }
            _ => {}
        }
    }
    follower.wait_for_kind("turn_finished", Deadline::secs(60));

    let codes =
        home.read("codes").unwrap_or_else(|| panic!("the attempts did not run:\n{}", show(&follower.all())));
    assert_eq!(codes.lines().count(), 19, "{codes}");
    for line in codes.lines() {
        let (name, code) = line.split_once(' ').unwrap();
        let out = home.read(&format!("out-{name}")).unwrap_or_default();
        assert_eq!(code == "0", name == "ls", "{mode}: {line}\n{out}");
        // For this reason and no other: a mistake in the attempt would be refused too.
        assert!(name == "ls" || out.contains("may only read"), "{mode}: {line}\n{out}");
    }
    assert!(home.read("listed").is_some_and(|listed| listed.contains(&victim)), "reading is allowed");
    let sessions = home.cli(["ls", "--json"]).run().ok().json();
    assert_eq!(sessions.as_array().map(Vec::len), Some(2), "{sessions}");
    let events = home.events(&victim);
    assert_eq!(of_kind(&events, "input_accepted").len(), 1, "{}", show(&events));
    assert!(of_kind(&events, "request_closed").is_empty(), "{}", show(&events));
    assert!(of_kind(&events, "session_changed").is_empty(), "{}", show(&events));
    assert_eq!(home.read("never"), None);
    close(&model, &home, &victim, &request);
}

/// Ends the waiting turn, so that the home can be left idle.
fn close(model: &ScriptedModel, home: &TestHome, victim: &str, request: &str) {
    model.push(Answer::saying("as you wish"));
    home.cli(["deny", request]).run().ok();
    home.wait_for_turn_end(victim, 1, Deadline::secs(20));
}

#[test]
fn a_tool_child_speaks_for_nobody_in_full() {
    attempt_in("full");
}

#[test]
fn a_tool_child_speaks_for_nobody_in_workspace() {
    attempt_in("workspace");
}

#[test]
fn a_tool_child_speaks_for_nobody_in_ask() {
    attempt_in("ask");
}

#[test]
fn a_tool_child_speaks_for_nobody_in_read_only() {
    attempt_in("read-only");
}

/// A command that kills its supervisor, from a process that has left its session, its parents and its mark. What is
/// left of it is below the daemon: refused while it lives, and ended with the supervisor.
#[test]
fn an_orphan_of_a_killed_supervisor_speaks_for_nobody_and_is_ended() {
    let (model, home) = world([]);
    let (victim, request) = waiting_session(&home, &model);
    let approve = format!(
        "env AGENTD_HOME={} {} approve {request} >> out 2>&1; echo $? >> codes",
        home.agentd().display(),
        home.binary().display()
    );
    let orphan = format!("echo $$ > orphan\nkill -9 $1\n{approve}\nsleep 1\n{approve}\nexec sleep 300\n");
    home.write("orphan.sh", orphan);
    let line = "setsid bash -c \"( env -i setsid sh $PWD/orphan.sh $PPID & )\"; sleep 300";
    model.push(command("toolu_orphan", line));
    model.push(Answer::saying("tried"));
    let session = home.new_session(["--permission-mode", "full"]);
    home.send(&session, "try it");
    let follower = home.follow(&session, 0);
    let ended = follower.wait_for_kind("turn_finished", Deadline::secs(20));
    let result = model.last_request().result_of("toolu_orphan");
    assert!(result.is_error && result.text.contains("Outcome unknown"), "{result:?}");

    let pid: u32 = home.read("orphan").and_then(|pid| pid.trim().parse().ok()).expect("the orphan ran");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    assert!(stat.is_err(), "it is neither alive nor a zombie: {stat:?}\n{}", ended.json);
    let codes = home.read("codes").unwrap_or_default();
    assert!(codes.lines().all(|code| code != "0"), "{codes}");
    let events = home.events(&victim);
    assert!(of_kind(&events, "request_closed").is_empty(), "{}", show(&events));
    assert_eq!(home.read("never"), None);
    close(&model, &home, &victim, &request);
}
