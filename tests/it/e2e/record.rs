//! What `--record` keeps, and that it can be played again.

use super::{binary, world_in};
use agent_tests::deadline::{Deadline, poll};
use agent_tests::home::TestHome;
use agent_tests::scripted::{API_KEY, Answer, Dialect};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The records of one kind, by name, once there are `count` of them.
fn records(folder: &Path, end: &str, count: usize) -> Vec<Vec<u8>> {
    poll(&format!("{count} files *{end} in {}", folder.display()), Deadline::secs(20), || {
        let mut found: Vec<_> = std::fs::read_dir(folder)
            .ok()?
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().ends_with(end))
            .collect();
        found.sort();
        (found.len() == count).then(|| found.iter().map(|path| std::fs::read(path).unwrap()).collect())
    })
}

#[test]
fn a_recorded_turn_can_be_played_again_and_holds_no_key() {
    for dialect in Dialect::ALL {
        let first = Answer::new().text("Looking.").tool_use("call_1", "list_dir", json!({}));
        let (model, home) = world_in(dialect, [first, Answer::saying("an empty folder")]);
        let prompt = format!("my key is {API_KEY}, keep it");
        let run = home.cli(["run", "--record", "--output", "json", &prompt]).run().ok();
        let outcome = run.json();
        let folder = home.agentd().join("data/records").join(outcome["session"].as_str().unwrap());
        assert!(run.stderr.contains(&format!("recorded in {}", folder.display())), "{run}");

        let ends = records(&folder, ".response.json", 2);
        for end in &ends {
            let end: Value = serde_json::from_slice(end).unwrap();
            assert_eq!((&end["status"], &end["end"]), (&json!(200), &json!("complete")), "{end}");
        }
        let answers = records(&folder, ".response", 2);
        let requests = records(&folder, ".request.json", 2);
        for (sent, kept) in model.requests().iter().zip(&requests) {
            let kept = String::from_utf8(kept.clone()).unwrap();
            let plain = String::from_utf8(sent.body().to_vec()).unwrap();
            assert!(plain.contains(API_KEY) && !kept.contains(API_KEY), "{kept}");
            let marked: Value = serde_json::from_str(&kept).unwrap();
            assert!(marked["body"].to_string().contains("[REDACTED:"), "{kept}");
            assert!(marked["url"].as_str().unwrap().starts_with(&model.base_url()), "{kept}");
        }
        for path in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);

        // The same turn from the record alone.
        let (_again, home) = world_in(dialect, answers.into_iter().map(Answer::recorded));
        let replayed = home.cli(["run", "--output", "json", "once more"]).run().ok().json();
        assert_eq!(replayed["text"], "an empty folder", "{dialect}: {replayed}");
        let folder = home.agentd().join("data/records").join(replayed["session"].as_str().unwrap());
        assert!(!folder.exists(), "nobody asked for a record of this one");
    }
}

#[test]
fn the_model_without_a_key_can_be_recorded_too() {
    let home = TestHome::new(binary());
    let args = ["run", "--record", "--model", "demo/tour", "--output", "json", "say hello"];
    let session = home.cli(args).run().json()["session"].as_str().unwrap().to_owned();
    let folder = home.agentd().join("data/records").join(session);
    let request = records(&folder, ".request.json", 1).remove(0);
    let request: Value = serde_json::from_slice(&request).unwrap();
    assert_eq!((&request["url"], &request["body"]["model"]), (&json!("demo:tour"), &json!("tour")));
}
