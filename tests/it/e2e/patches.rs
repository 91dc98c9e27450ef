//! A patch over several files is applied whole or not at all: when it is approved, when it fails, and when the daemon
//! is killed in the middle of it.

use super::{binary, of_kind, world};
use agent_tests::deadline::{Deadline, poll};
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, ScriptedModel};
use serde_json::json;
use std::time::Instant;

fn patch(id: &str, text: &str) -> Answer {
    Answer::calling(id, "apply_patch", json!({ "patch": text }))
}

const GOOD: &str = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+TWO\n three\n*** Add File: sub/new.txt\n+new\n\
                    *** Update File: b.txt\n@@\n-old\n+fresh\n*** End Patch\n";
const BAD: &str = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+ONE\n*** Update File: b.txt\n@@\n-not there\n+x\n\
                   *** End Patch\n";

#[test]
fn a_patch_is_shown_whole_approved_once_and_listed_as_work() {
    let (model, home) = world([patch("toolu_1", GOOD), patch("toolu_2", BAD), Answer::saying("done")]);
    home.write("a.txt", "one\ntwo\nthree\n");
    home.write("b.txt", "old\n");
    let session = home.new_session(["--permission-mode", "ask"]);
    home.send(&session, "go");
    let open =
        home.wait_for_event(&session, "a question", Deadline::secs(20), |event| event.is("request_opened"));
    for part in ["a.txt", "-two", "+TWO", "sub/new.txt", "+new", "b.txt", "-old", "+fresh"] {
        assert!(open.text("shown").contains(part), "{part} is not shown: {}", open.json);
    }
    assert_eq!(home.read("sub/new.txt"), None, "nothing happens before the answer");
    home.cli(["approve", open.text("request_id")]).run().ok();
    assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(20)), "completed");
    assert_eq!(home.read("a.txt").as_deref(), Some("one\nTWO\nthree\n"));
    assert_eq!(home.read("b.txt").as_deref(), Some("fresh\n"));
    assert_eq!(home.read("sub/new.txt").as_deref(), Some("new\n"));
    let failed = model.last_request().result_of("toolu_2");
    assert!(failed.is_error && failed.text.contains("b.txt"), "{failed:?}");
    let events = home.events(&session);
    assert_eq!(of_kind(&events, "files_changed").len(), 1);
    let stat = home.cli(["diff", &session, "--stat"]).run().ok().stdout;
    for name in ["a.txt", "b.txt", "sub/new.txt"] {
        assert!(stat.contains(name), "{stat}");
    }
}

/// Files of the patch that is killed.
const FILES: usize = 120;
/// Kills, each closer to the middle of the change.
const ROUNDS: usize = 6;

fn content(file: usize, version: usize) -> String {
    format!("file {file}\nversion {version}\n{}", "the rest stays\n".repeat(200))
}

fn patch_of_all(old: usize, new: usize) -> String {
    let updates: String = (0..FILES)
        .map(|file| {
            format!("*** Update File: f{file}.txt\n@@\n file {file}\n-version {old}\n+version {new}\n")
        })
        .collect();
    format!("*** Begin Patch\n{updates}*** End Patch\n")
}

/// How many files have the old content and how many the new one; every file has one of them.
fn counted(home: &TestHome, old: usize, new: usize) -> (usize, usize) {
    let has = |version: usize| {
        (0..FILES).filter(|file| home.read(&format!("f{file}.txt")) == Some(content(*file, version))).count()
    };
    let found = (has(old), has(new));
    assert_eq!(found.0 + found.1, FILES, "a file has neither content");
    found
}

#[test]
fn a_killed_patch_is_nowhere_or_everywhere_afterwards() {
    let model = ScriptedModel::start();
    model.respond_with(|request| {
        let prompt = request.user_texts().last().cloned().unwrap_or_default();
        let id = format!("toolu_{}", prompt.replace(' ', "_"));
        match prompt.split_once(' ').and_then(|(old, new)| Some((old.parse().ok()?, new.parse().ok()?))) {
            Some((old, new)) if request.results_of(&id).is_empty() => patch(&id, &patch_of_all(old, new)),
            _ => Answer::saying("done"),
        }
    });
    let home = TestHome::with_model(binary(), &model);
    (0..FILES).for_each(|file| home.write(&format!("f{file}.txt"), content(file, 0)));
    let session = home.new_session(["--permission-mode", "workspace"]);
    let whole = {
        let follower = home.follow(&session, 0);
        home.send(&session, "0 1");
        follower.wait_for_kind("call_started", Deadline::secs(20));
        let begun = Instant::now();
        follower.wait_for_kind("call_finished", Deadline::secs(60));
        begun.elapsed()
    };
    assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(20)), "completed");
    assert_eq!(counted(&home, 0, 1), (0, FILES));
    let mut wait = whole / 2;
    for round in 1..=ROUNDS {
        let seen = home.show(&session)["last_seq"].as_u64().expect("a number");
        let follower = home.follow(&session, seen);
        home.send(&session, &format!("{round} {}", round + 1));
        follower.wait_for_kind("call_started", Deadline::secs(20));
        let begun = Instant::now();
        while begun.elapsed() < wait {
            std::hint::spin_loop();
        }
        home.kill_daemon();
        drop(follower);
        let (old, _) = counted(&home, round, round + 1);
        wait = if old == FILES { wait * 5 / 4 } else { wait * 7 / 8 };
        home.start_daemon();
        let open = home.show(&session)["state"].as_str().unwrap_or_default().to_owned();
        if open == "interrupted" {
            let (old, new) = counted(&home, round, round + 1);
            assert!(old == 0 || new == 0, "round {round}: {old} old and {new} new files after the restart");
        }
        poll("the session knows where it stands", Deadline::secs(30), || match home.show(&session)["state"]
            .as_str()
        {
            Some("idle") => Some(()),
            Some("interrupted" | "paused") => {
                home.cli(["resume", &session]).run();
                None
            }
            _ => None,
        });
        assert_eq!(counted(&home, round, round + 1), (0, FILES), "round {round}");
        let names = std::fs::read_dir(home.workspace()).expect("the workspace").flatten().count();
        assert_eq!(names, FILES, "something was left beside the files");
    }
}
