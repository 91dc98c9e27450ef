//! What a result may show is bounded in one place: by the configuration, the window, and the calls beside it. What is
//! not shown is kept and can be read.

use super::{binary, command, of_kind};
use agent_tests::deadline::Deadline;
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, Dialect, Received, ScriptedModel};
use serde_json::json;

/// A home whose sessions have a window of so many tokens.
fn small_world(window: u32) -> (ScriptedModel, TestHome) {
    let model = ScriptedModel::start();
    let home = TestHome::with_model_in(binary(), Dialect::Anthropic, &model);
    home.configure(
        Dialect::Anthropic,
        &format!(
            "\n[models.\"{}\"]\ncontext_window = {window}\nmax_output_tokens = 1024\n",
            agent_tests::home::model_name(Dialect::Anthropic)
        ),
    );
    (model, home)
}

fn last_text(request: &Received) -> String {
    request.tool_results().last().map(|result| result.text.clone()).unwrap_or_default()
}

#[test]
fn pages_in_a_small_window_are_small_and_have_no_hole() {
    let (model, home) = small_world(16_384);
    let lines: String = (1..=160).map(|at| format!("line {at} of a file that has some length\n")).collect();
    home.write("a.txt", &lines);
    model.respond_with(|request| {
        let page = last_text(request);
        let step = request.tool_results().len();
        match page.rsplit_once("next offset ") {
            _ if step == 0 => Answer::calling("toolu_0", "read_file", json!({"path": "a.txt"})),
            Some((_, rest)) => {
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                let offset: u64 = digits.parse().expect("an offset");
                let args = json!({"path": "a.txt", "offset": offset});
                Answer::calling(&format!("toolu_{step}"), "read_file", args)
            }
            None => Answer::saying("done"),
        }
    });
    let session = home.new_session(["--permission-mode", "read-only"]);
    home.send_and_wait(&session, "read it").ok();
    let pages = model.last_request().tool_results();
    assert!(pages.len() >= 2, "{} page", pages.len());
    let mut text = String::new();
    for page in &pages {
        assert!(page.text.len() < 6_000, "{} bytes", page.text.len());
        let shown = page.text.lines().filter_map(|line| line.split_once('\t'));
        text.extend(shown.map(|(_, line)| format!("{line}\n")));
    }
    assert_eq!(text, lines);
}

#[test]
fn results_side_by_side_share_what_all_may_have() {
    let (model, home) = small_world(32_768);
    let calls = (0..8).fold(Answer::new(), |answer, at| {
        answer.tool_use(&format!("toolu_{at}"), "run_command", json!({"command": "seq 100000 105000"}))
    });
    model.push(calls);
    model.push(Answer::saying("done"));
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();
    let results = model.last_request().tool_results();
    assert_eq!(results.len(), 8);
    let together: usize = results.iter().map(|result| result.text.len()).sum();
    // 40 % of the window, at 3.3 bytes for a token.
    assert!(together < 45_000, "{together} bytes");
    for result in &results {
        assert!(result.text.starts_with("100000\n") && result.text.contains("\n105000"), "{}", result.text);
        assert!(result.text.contains("... [truncated "), "{}", result.text);
    }
}

#[test]
fn many_results_leave_room_in_the_smallest_windows() {
    let (model, home) = small_world(4_096);
    let long: String = (1..=900).map(|at| format!("line {at} of a file that has some length\n")).collect();
    home.write("a.txt", &long);
    let calls = (0..16).fold(Answer::new(), |answer, at| match at % 2 {
        0 => answer.tool_use(&format!("toolu_{at}"), "read_file", json!({"path": "a.txt"})),
        _ => answer.tool_use(&format!("toolu_{at}"), "run_command", json!({"command": "cat a.txt"})),
    });
    model.push(calls);
    model.push(Answer::saying("done"));
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();
    let results = model.last_request().tool_results();
    let together: usize = results.iter().map(|result| result.text.len()).sum();
    assert!(results.len() == 16 && together < 7_000, "{together} bytes");
    for result in &results {
        let goes_on = result.text.contains("next offset ") || result.text.contains("is artifact a_");
        assert!(goes_on, "the rest cannot be reached: {result:?}");
    }
}

#[test]
fn what_was_cut_can_be_read_to_the_last_byte() {
    let (model, home) = small_world(65_536);
    let whole: String = (1..=9_000).map(|at| format!("{at}\n")).collect();
    model.respond_with(|request| {
        let results = request.tool_results();
        let Some(first) = results.first() else { return command("toolu_cmd", "seq 1 9000") };
        let id = first
            .text
            .split("artifact ")
            .nth(1)
            .expect("an artifact")
            .split_whitespace()
            .next()
            .expect("its id");
        match last_text(request).rsplit_once("next offset ") {
            _ if results.len() == 1 => {
                Answer::calling("toolu_1", "read_artifact", json!({"id": id, "limit": 16384}))
            }
            Some((_, offset)) => {
                let offset: u64 = offset.trim().parse().expect("an offset");
                let args = json!({"id": id, "offset": offset, "limit": 16384});
                Answer::calling(&format!("toolu_{}", results.len()), "read_artifact", args)
            }
            None => Answer::saying("done"),
        }
    });
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();
    let results = model.last_request().tool_results();
    let text: String = results[1..]
        .iter()
        .map(|part| part.text.rsplit_once("\n... ").map_or(part.text.as_str(), |(text, _)| text))
        .collect();
    assert!(text == whole, "{} bytes of {}", text.len(), whole.len());
    let events = home.events(&session);
    assert_eq!(of_kind(&events, "artifact_stored").len(), 1);
    let ids = home.cli(["artifacts", "ls", &session, "--json"]).run().ok().json();
    let id = ids[0]["artifact_id"].as_str().expect("an id").to_owned();
    assert_eq!(home.cli(["artifacts", "get", &id]).run().ok().stdout, whole);
    assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(5)), "completed");
}
