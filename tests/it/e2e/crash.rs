//! `kill -9` of the daemon at every point of a turn of five calls, two of which append to a file.
//!
//! After each kill a new daemon takes over and the turn is led to its end. Then nothing that was recorded is gone,
//! nothing was done twice, and every call has one result. `AGENT_TESTS_CRASH_RUNS` sets the number of runs (200 for
//! a full matrix); the histogram of where the kills fell is printed (`--nocapture`).

use super::frames::{Frames, Histogram, Stored, log_of_the_dead};
use super::{of_kind, world};
use agent_tests::deadline::{Deadline, try_poll};
use agent_tests::events::{Event, assert_no_holes, show};
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, Received, ScriptedModel};
use serde_json::{Value, json};

/// Runs when nothing is said: enough to touch every room, short enough for every push.
const RUNS_DEFAULT: u32 = 16;
/// Runs of the variant with slow supervisors, as a share of the others.
const DELAYED_SHARE: u32 = 4;
/// Kills wanted in each frame of a full matrix.
const KILLS_WANTED: u32 = 5;
/// From so many runs on, the matrix must be full.
const FULL_MATRIX_RUNS: u32 = 200;

fn runs() -> u32 {
    std::env::var("AGENT_TESTS_CRASH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS_DEFAULT)
}

fn append(run: u32, number: u32) -> Value {
    json!({"command": format!("echo begun; echo 'run {run} call {number}' >> log; sleep 0.05; echo ended")})
}

/// Three steps with five calls: read, append; read, append; read.
fn five_calls(request: &Received) -> Answer {
    let first = request.user_texts().first().cloned().unwrap_or_default();
    let run: u32 =
        first.rsplit_once("crash run ").and_then(|(_, n)| n.trim().parse().ok()).expect("a numbered prompt");
    let id = |number: u32| format!("toolu_{run}_{number}");
    let read =
        |number: u32, answer: Answer| answer.tool_use(&id(number), "read_file", json!({"path": "notes.txt"}));
    let write =
        |number: u32, answer: Answer| answer.tool_use(&id(number), "run_command", append(run, number));
    match request.tool_results().len() {
        0 => write(2, read(1, Answer::new().text("First."))),
        2 => write(4, read(3, Answer::new().text("Second."))),
        4 => read(5, Answer::new()),
        5 => Answer::saying("All five are done."),
        other => panic!("{other} results in a request of run {run}"),
    }
}

struct Crash {
    model: ScriptedModel,
    home: TestHome,
    histogram: Histogram,
}

impl Crash {
    fn new(delay_ms: Option<u32>) -> Self {
        let (model, mut home) = world([]);
        model.respond_with(five_calls);
        home.write("notes.txt", "remember the milk\n");
        if let Some(delay_ms) = delay_ms {
            home.env("AGENTD_TEST_EXEC_DELAY_MS", delay_ms.to_string());
        }
        Self { model, home, histogram: Histogram::default() }
    }

    /// One turn. `target` says where the daemon is killed; without one it is only looked at. True when it was killed.
    fn run(&mut self, run: u32, aimed: bool) -> bool {
        let session = self.home.new_session(["--permission-mode", "full"]);
        let pid = self.home.daemon_pid();
        let frames = Frames::new(&self.home, &session);
        let target = aimed.then(|| self.histogram.aim(KILLS_WANTED, run));
        let mut send = self.home.cli(["send", &session, &format!("crash run {run}")]).spawn();
        let histogram = std::cell::RefCell::new(&mut self.histogram);
        let killed = frames.kill_when(
            pid,
            Deadline::secs(60),
            |frame| histogram.borrow_mut().seen(frame),
            |frame| {
                // Past the target, any frame that lacks kills is as good.
                target.as_ref().is_some_and(|target| {
                    frame.label == target.label
                        || (frame.events > target.events && histogram.borrow().kills(frame) < KILLS_WANTED)
                })
            },
        );
        drop(frames);
        if let Some(frame) = &killed {
            self.histogram.killed(frame);
        }
        let before = if killed.is_some() { log_of_the_dead(&self.home, &session) } else { Vec::new() };
        // The client that waits brings the daemon back, or says that its input was not taken.
        let acknowledged = send.wait(Deadline::secs(30)) == Some(0);
        let told = format!("run {run}, killed at {killed:?}");
        let accepted = before.iter().any(|(_, kind, _)| kind == "input_accepted");
        self.home.start_daemon();
        let taken = acknowledged || accepted;
        if !taken && of_kind(&self.home.events(&session), "input_accepted").is_empty() {
            assert_eq!(self.lines(run), 0, "{told}: something ran for an input that was never taken");
            return killed.is_some();
        }
        self.lead_to_the_end(&session, &told);
        self.check(run, &session, &before, &told);
        killed.is_some()
    }

    /// Tells the session to go on whenever it waits, until its turn has ended.
    fn lead_to_the_end(&self, session: &str, told: &str) {
        let follower = self.home.follow(session, 0);
        let mut handled = 0;
        loop {
            let ended_or_waits =
                |event: &Event| event.is("turn_finished") || (event.is("turn_paused") && event.seq > handled);
            let event = follower.wait_for(
                &format!("{told}: the end of the turn"),
                Deadline::secs(30),
                ended_or_waits,
            );
            if event.is("turn_finished") {
                return;
            }
            handled = event.seq;
            // It may have been told already: a pause is history as soon as the turn goes on.
            let resumed = follower.all().iter().any(|later| later.is("turn_resumed") && later.seq > handled);
            if !resumed {
                assert_eq!(event.text("reason"), "interrupted", "{told}:\n{}", show(&follower.all()));
                self.home.cli(["resume", session]).run().ok();
            }
        }
    }

    fn check(&self, run: u32, session: &str, before: &[Stored], told: &str) {
        let events = self.home.events(session);
        let log = show(&events);
        assert_no_holes(&events, 1);
        for (event, (seq, kind, body)) in events.iter().zip(before) {
            let body: Value = serde_json::from_str(body).unwrap();
            // Large bodies are stored beside the log and named by their hash.
            let same = body.get("$blob").is_some() || event.json["body"] == body;
            assert!(event.seq == *seq && event.kind == *kind && same, "{told}: event {seq} changed\n{log}");
        }
        assert!(events.len() >= before.len(), "{told}: events are gone\n{log}");
        assert_eq!(of_kind(&events, "input_accepted").len(), 1, "{told}\n{log}");
        let end = of_kind(&events, "turn_finished");
        assert_eq!((end.len(), end[0].text("status")), (1, "completed"), "{told}\n{log}");
        let requested = of_kind(&events, "call_requested");
        assert_eq!(requested.len(), 5, "{told}\n{log}");
        for call in requested {
            let results =
                of_kind(&events, "call_finished").iter().filter(|end| end.call_id == call.call_id).count();
            assert_eq!(results, 1, "{told}: results of {:?}\n{log}", call.call_id);
        }
        for number in [2, 4] {
            let line = format!("run {run} call {number}");
            let written =
                self.home.read("log").unwrap_or_default().lines().filter(|found| *found == line).count();
            assert_eq!(written, 1, "{told}: {line:?} was written {written} times\n{log}");
            let last = self.requests_of(run).pop().unwrap();
            let result = last.result_of(&format!("toolu_{run}_{number}"));
            let lines: Vec<&str> =
                result.text.lines().filter(|line| ["begun", "ended"].contains(line)).collect();
            assert_eq!(lines, ["begun", "ended"], "{told}: {result:?}\n{log}");
            assert!(!result.is_error, "{told}: {result:?}");
        }
        self.model.assert_no_violations();
        let idle = self.home.wait_for_state(session, "idle", Deadline::secs(10));
        let mut left = Vec::new();
        let gone = try_poll(Deadline::secs(5), || {
            let folders = std::fs::read_dir(self.home.jobs()).into_iter().flatten().flatten();
            left = folders.map(|entry| entry.file_name()).collect();
            left.is_empty().then_some(())
        });
        assert!(gone.is_some(), "{told}: job folders are left: {left:?}\n{log}");
        assert_eq!(idle["calls"]["ok"], 5, "{told}: {idle}");
    }

    fn requests_of(&self, run: u32) -> Vec<Received> {
        let of_run = format!("crash run {run}");
        let all = self.model.requests().into_iter();
        all.filter(|request| {
            request.user_texts().first().is_some_and(|text| text.trim_end().ends_with(&of_run))
        })
        .collect()
    }

    fn lines(&self, run: u32) -> usize {
        let start = format!("run {run} ");
        self.home.read("log").unwrap_or_default().lines().filter(|line| line.starts_with(&start)).count()
    }
}

fn matrix(name: &str, runs: u32, delay_ms: Option<u32>) {
    let mut crash = Crash::new(delay_ms);
    // Two turns without a kill teach where the frames are.
    crash.run(1, false);
    crash.run(2, false);
    let (mut kills, mut run) = (0, 2);
    // A full matrix goes on until every frame that is often there has its kills.
    let thin = |crash: &Crash, run| {
        if runs < FULL_MATRIX_RUNS { Vec::new() } else { crash.histogram.thin(KILLS_WANTED, run) }
    };
    while kills < runs || !thin(&crash, run).is_empty() {
        run += 1;
        let lacking = thin(&crash, run).join("\n");
        assert!(run < 4 * runs + 12, "only {kills} kills in {run} turns; {lacking}\n{}", crash.histogram);
        kills += u32::from(crash.run(run, true));
    }
    println!("{name}: {kills} kills in {run} turns\n{}", crash.histogram);
}

#[test]
fn a_turn_survives_kill_9_at_any_point() {
    matrix("kill -9", runs(), None);
}

#[test]
fn a_turn_survives_kill_9_while_supervisors_start_slowly() {
    matrix("kill -9, slow supervisors", (runs() / DELAYED_SHARE).max(1), Some(500));
}
