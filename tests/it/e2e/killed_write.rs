//! A `kill -9` in the middle of a change leaves the old content or the new one, and nothing beside it.

use super::binary;
use agent_tests::deadline::{Deadline, poll};
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, ScriptedModel};
use serde_json::json;
use std::time::Instant;

/// Rounds, each with one kill at another moment of the same call.
const ROUNDS: u32 = 10;
/// Large enough that writing it takes a while.
const FILLER_BYTES: usize = 12 * 1024 * 1024;

fn content(version: &str) -> String {
    let line = "all the same, and a lot of it, line for line\n";
    format!("version {version}\n{}", line.repeat(FILLER_BYTES / line.len()))
}

#[test]
fn a_killed_write_leaves_the_old_or_the_new_content_and_is_finished_afterwards() {
    let model = ScriptedModel::start();
    model.respond_with(|request| {
        let prompts = request.user_texts();
        let prompt = prompts.last().cloned().unwrap_or_default();
        let id = format!("toolu_{}", prompt.replace(' ', "_"));
        match prompt.split_once(' ') {
            Some((old, new)) if request.results_of(&id).is_empty() => {
                let args = json!({"path": "big.txt", "old": format!("version {old}\n"), "new": format!("version {new}\n")});
                Answer::calling(&id, "edit_file", args)
            }
            _ => Answer::saying("done"),
        }
    });
    let home = TestHome::with_model(binary(), &model);
    home.write("big.txt", content("v0"));
    let session = home.new_session(["--permission-mode", "workspace"]);
    // How long the call takes when nobody is killed. The kills close in on the moment of the change from both sides.
    let whole = {
        let follower = home.follow(&session, 0);
        home.send(&session, "v0 v1");
        follower.wait_for_kind("call_started", Deadline::secs(20));
        let begun = Instant::now();
        follower.wait_for_kind("call_finished", Deadline::secs(20));
        begun.elapsed()
    };
    home.wait_for_turn_end(&session, 1, Deadline::secs(20));
    let (mut old_seen, mut new_seen, mut wait) = (0, 0, whole / 2);
    for round in 1..=ROUNDS {
        let (old, new) = (format!("v{round}"), format!("v{}", round + 1));
        let seen = home.show(&session)["last_seq"].as_u64().expect("a number");
        let follower = home.follow(&session, seen);
        home.send(&session, &format!("{old} {new}"));
        follower.wait_for_kind("call_started", Deadline::secs(20));
        let begun = Instant::now();
        while begun.elapsed() < wait {
            std::hint::spin_loop();
        }
        home.kill_daemon();
        drop(follower);
        let found = home.read("big.txt").expect("the file is there, whatever happens");
        if found == content(&old) {
            old_seen += 1;
            wait = wait * 3 / 2;
        } else {
            assert!(found == content(&new), "round {round}: a half-written file of {} bytes", found.len());
            new_seen += 1;
            wait = wait * 3 / 4;
        }
        home.start_daemon();
        poll("the session knows where it stands", Deadline::secs(20), || match home.show(&session)["state"]
            .as_str()
        {
            Some("idle") => Some(()),
            Some("interrupted" | "paused") => {
                home.cli(["resume", &session]).run();
                None
            }
            _ => None,
        });
        assert!(
            home.read("big.txt") == Some(content(&new)),
            "round {round}: the edit is not there after the resume"
        );
        let names: Vec<_> = std::fs::read_dir(home.workspace()).expect("the workspace").flatten().collect();
        assert_eq!(names.len(), 1, "something was left beside the file: {names:?}");
    }
    assert!(old_seen > 0 && new_seen > 0, "kills before the change: {old_seen}, after it: {new_seen}");
}
