//! A session as it is read, from events and live text in every order they may come in.

use super::style::Style;
use super::transcript::{Piece, Transcript};
use agentd_proto::v1;
use agentd_proto::v1::event::Body;

const OWN_PID: u32 = 42;

fn transcript() -> Transcript {
    Transcript::new(Style::PLAIN, OWN_PID)
}

fn event(kind: &str, body: Body) -> v1::Event {
    v1::Event { kind: kind.into(), call_id: "c_1".into(), body: Some(body), ..Default::default() }
}

fn from_client(mut event: v1::Event, pid: u32) -> v1::Event {
    let client = v1::ClientOrigin { label: "agentctl attach".into(), pid, ..Default::default() };
    event.origin = Some(v1::Origin { kind: Some(v1::origin::Kind::Client(client)) });
    event
}

fn delta(source: &str, kind: &str, offset: u64, text: &str) -> v1::Delta {
    v1::Delta {
        source_id: source.into(),
        kind: kind.into(),
        block: 0,
        offset_bytes: offset,
        text: text.into(),
    }
}

fn answer(blocks: &[(&str, &str)]) -> v1::Event {
    let blocks = blocks
        .iter()
        .map(|(kind, text)| v1::AnswerBlock { kind: (*kind).into(), text: (*text).into() })
        .collect();
    event(
        "model_call_finished",
        Body::Answer(v1::Answer { model_call_id: "m_1".into(), blocks, ..Default::default() }),
    )
}

fn requested(tool: &str, args: &str) -> v1::Event {
    event(
        "call_requested",
        Body::Call(v1::CallInfo { tool: tool.into(), args_json: args.into(), ..Default::default() }),
    )
}

fn finished(text: &str) -> v1::Event {
    event(
        "call_finished",
        Body::CallResult(v1::CallResult {
            outcome: v1::CallOutcome::Ok as i32,
            text: text.into(),
            exit_code: Some(0),
            ..Default::default()
        }),
    )
}

fn shown(pieces: &[Piece]) -> String {
    pieces.iter().fold(String::new(), |mut out, piece| {
        match piece {
            Piece::Flow(text) => out.push_str(text),
            Piece::Line(line) => {
                if !out.is_empty() && !out.ends_with('\n') {
                    out.push('\n');
                }
                out.push_str(line);
                out.push('\n');
            }
        }
        out
    })
}

#[test]
fn streamed_text_is_not_repeated_by_the_final_event() {
    let mut transcript = transcript();
    let mut pieces = transcript.delta(&delta("m_1", "text", 0, "Hello "));
    pieces.extend(transcript.delta(&delta("m_1", "text", 6, "you")));
    pieces.extend(transcript.event(&answer(&[
        ("text", "Hello you."),
        ("tool_use", ""),
        ("text", "Second."),
    ])));
    assert_eq!(shown(&pieces), "Hello you.\nSecond.");
}

/// Each citation begins a new block in the middle of a sentence.
#[test]
fn texts_side_by_side_are_one_text() {
    let blocks = [("text", "rain, with "), ("text", "a storm"), ("server", ""), ("text", "Then sun.")];
    assert_eq!(shown(&transcript().event(&answer(&blocks))), "rain, with a storm\nThen sun.");
}

/// An empty block that is not in the final answer moves the numbers of those behind it.
#[test]
fn text_is_shown_once_although_its_number_changed() {
    let mut transcript = transcript();
    let at = |block, text: &str| v1::Delta { block, ..delta("m_1", "text", 0, text) };
    let mut pieces = transcript.delta(&at(1, "One."));
    pieces.extend(transcript.delta(&at(3, "Two")));
    pieces.extend(transcript.event(&answer(&[("text", "One."), ("server", ""), ("text", "Two.")])));
    assert_eq!(shown(&pieces), "One.\nTwo.");
}

#[test]
fn text_without_deltas_comes_whole_from_the_event() {
    assert_eq!(
        shown(&transcript().event(&answer(&[("thinking", "hm"), ("text", "Whole\n\x1b[2J")]))),
        "Whole\n\\x1b[2J"
    );
}

#[test]
fn a_lag_is_repaired_by_the_draft() {
    let mut transcript = transcript();
    let mut pieces = transcript.delta(&delta("m_1", "text", 0, "one "));
    pieces.extend(transcript.delta(&delta("m_1", "text", 8, "three ")));
    pieces.extend(transcript.delta(&delta("m_1", "text", 0, "one two three ")));
    pieces.extend(transcript.delta(&delta("m_1", "text", 14, "four")));
    pieces.extend(transcript.event(&answer(&[("text", "one two three four")])));
    assert_eq!(shown(&pieces), "one two three four");
}

#[test]
fn output_is_shown_line_by_line_and_once_over_a_restart() {
    let mut transcript = transcript();
    let mut pieces = transcript.event(&requested("run_command", r#"{"command":"sh test.sh"}"#));
    pieces.extend(transcript.delta(&delta("c_1", "output", 0, "line 1\nli")));
    pieces.extend(transcript.event(&event(
        "call_adopted",
        Body::Recovery(v1::RecoveryInfo { run_id: "d_2".into(), ..Default::default() }),
    )));
    // The new run sends the whole output from its beginning.
    pieces.extend(transcript.delta(&delta("c_1", "output", 0, "line 1\nline 2\n")));
    pieces.extend(transcript.delta(&delta("c_1", "output", 14, "line 3")));
    pieces.extend(transcript.event(&finished("Exit code 0\nline 1\nline 2\nline 3")));
    assert_eq!(
        shown(&pieces),
        "* run_command sh test.sh\n  | line 1\n! run_command was still running and is followed again\n  \
         | line 2\n  | line 3\n  run_command: ok, exit 0\n"
    );
}

#[test]
fn output_that_was_not_seen_live_comes_with_the_result() {
    let mut transcript = transcript();
    let mut pieces = transcript.event(&requested("run_command", r#"{"command":"true"}"#));
    pieces.extend(transcript.event(&finished("Exit code 0\ndone \x1b]0;t\x07\n")));
    assert_eq!(
        shown(&pieces),
        "* run_command true\n  run_command: ok, exit 0\n  | Exit code 0\n  | done \\x1b]0;t\\x07\n"
    );
}

#[test]
fn a_failed_attempt_is_said_not_to_count() {
    let mut transcript = transcript();
    let mut pieces = transcript.delta(&delta("m_1", "text", 0, "Half"));
    let mut failed = event(
        "model_call_failed",
        Body::ModelFailure(v1::ModelFailure {
            model_call_id: "m_1".into(),
            class: "cut".into(),
            message: "the stream ended".into(),
            retry_at_ms: Some(2_500),
            attempt: 1,
            max_attempts: 8,
            ..Default::default()
        }),
    );
    failed.at_ms = 1_000;
    pieces.extend(transcript.event(&failed));
    assert_eq!(
        shown(&pieces),
        "Half\n! the model call failed, asking again in 1.5 s, attempt 2 of 8 (cut): the stream ended\n  \
         the text above is not part of the conversation\n"
    );
    assert_eq!(transcript.open_text(), "");
}

#[test]
fn a_failure_says_what_happens_next() {
    let line = |change: fn(&mut v1::ModelFailure)| {
        let mut failure =
            v1::ModelFailure { class: "bad_request".into(), message: "no\x1b".into(), ..Default::default() };
        change(&mut failure);
        shown(&transcript().event(&event("model_call_failed", Body::ModelFailure(failure))))
    };
    assert_eq!(line(|_| {}), "! the model call failed (bad_request): no\\x1b\n");
    assert_eq!(
        line(|failure| (failure.mend, failure.retry_at_ms) = ("strip_thinking".into(), Some(0))),
        "! refused, asking again without the thinking of earlier answers (bad_request): no\\x1b\n"
    );
    assert_eq!(
        line(|failure| failure.mend = "x\x1b".into()),
        "! refused, asking again mended (x\\x1b) (bad_request): no\\x1b\n"
    );
    assert_eq!(
        line(|failure| failure.retry_at_ms = Some(0)),
        "! the model call failed, asking again now (bad_request): no\\x1b\n"
    );
    assert_eq!(
        line(|failure| (failure.retry_at_ms, failure.attempt) = (Some(i64::MAX), u32::MAX)).lines().count(),
        1
    );
}

#[test]
fn what_was_odd_about_an_answer_is_noted_below_it() {
    let mut transcript = transcript();
    let mut pieces = transcript.delta(&delta("m_1", "text", 0, "Done"));
    let answer = v1::Answer {
        model_call_id: "m_1".into(),
        blocks: vec![v1::AnswerBlock { kind: "text".into(), text: "Done".into() }],
        warnings: vec!["no stop reason\x1b".into(), "two".into()],
        ..Default::default()
    };
    pieces.extend(transcript.event(&event("model_call_finished", Body::Answer(answer))));
    assert_eq!(shown(&pieces), "Done\n  (noted: no stop reason\\x1b)\n  (noted: two)\n");
}

#[test]
fn answers_of_others_are_named_and_ours_are_ours() {
    let end = v1::RequestEnd {
        request_id: "r_1".into(),
        close: "answered".into(),
        decision: v1::Verdict::Allow as i32,
        ..Default::default()
    };
    let closed = event("request_closed", Body::RequestEnd(end));
    let mut transcript = transcript();
    let other = transcript.event(&from_client(closed.clone(), 7));
    assert_eq!(shown(&other), "  approved by agentctl attach (pid 7)\n");
    assert_eq!(shown(&transcript.event(&from_client(closed, OWN_PID))), "  approved by you\n");
}

#[test]
fn inputs_of_others_are_named() {
    let input = v1::InputInfo { input_id: "i_1".into(), text: "fix it\nplease".into(), steer: true };
    let accepted = event("input_accepted", Body::Input(input));
    let mut transcript = transcript();
    assert_eq!(
        shown(&transcript.event(&from_client(accepted.clone(), 7))),
        "> fix it\n> please\n  (steering) (agentctl attach (pid 7))\n"
    );
    assert_eq!(
        shown(&transcript.event(&from_client(accepted, OWN_PID))),
        "> fix it\n> please\n  (steering)\n"
    );
}

#[test]
fn an_unknown_kind_is_skipped() {
    let unknown = v1::Event { seq: 1, kind: "not_yet_invented".into(), ..Default::default() };
    assert!(transcript().event(&unknown).is_empty());
}

/// One body of each kind that holds text from elsewhere.
#[rustfmt::skip]
fn bodies_with(bad: &str) -> Vec<(&'static str, Body)> {
    let bad = bad.to_owned();
    let path = v1::Path { path: Vec::new(), path_display: bad.clone() };
    vec![
        (
            "session_created",
            Body::Session(v1::SessionInfo {
                name: bad.clone(),
                model: bad.clone(),
                mode: 2,
                cwd: Some(path.clone()),
            }),
        ),
        ("input_accepted", Body::Input(v1::InputInfo { input_id: bad.clone(), text: bad.clone(), steer: false })),
        (
            "turn_finished",
            Body::TurnEnd(v1::TurnEnd {
                status: 9,
                stop_raw: bad.clone(),
                error: bad.clone(),
                ..Default::default()
            }),
        ),
        ("turn_paused", Body::Pause(v1::PauseInfo { reason: bad.clone(), next: bad.clone() })),
        (
            "model_call_failed",
            Body::ModelFailure(v1::ModelFailure {
                class: bad.clone(),
                message: bad.clone(),
                ..Default::default()
            }),
        ),
        (
            "call_requested",
            Body::Call(v1::CallInfo { tool: bad.clone(), args_json: bad.clone(), ..Default::default() }),
        ),
        ("call_decided", Body::Call(v1::CallInfo { verdict: 3, reason: bad.clone(), ..Default::default() })),
        ("call_adopted", Body::Recovery(v1::RecoveryInfo::default())),
        (
            "call_finished",
            Body::CallResult(v1::CallResult {
                outcome: 2,
                text: bad.clone(),
                artifact_ids: vec![bad.clone()],
                ..Default::default()
            }),
        ),
        (
            "request_opened",
            Body::Request(v1::RequestInfo {
                request_id: bad.clone(),
                kind: bad.clone(),
                tool: bad.clone(),
                shown: bad.clone(),
                reason: bad.clone(),
                ..Default::default()
            }),
        ),
        ("request_closed", Body::RequestEnd(v1::RequestEnd { close: bad.clone(), reason: bad.clone(), ..Default::default() })),
        ("files_changed", Body::Files(v1::FilesInfo { paths: vec![path] })),
        ("notice_added", Body::Notice(v1::NoticeInfo { kind: bad.clone(), text: bad.clone() })),
        (
            "session_recovered",
            Body::Recovery(v1::RecoveryInfo { run_id: bad.clone(), next: bad, calls: vec![] }),
        ),
    ]
}

#[test]
fn untrusted_text_of_every_event_is_safe() {
    let bad = "x\x1b]52;c;YQ==\x07\u{9b}2J\u{202e}y".to_owned();
    let mut transcript = transcript();
    let mut pieces = transcript.delta(&delta("m_1", "text", 0, &bad));
    pieces.extend(transcript.delta(&delta("c_9", "output", 0, &format!("{bad}\n"))));
    pieces.extend(transcript.event(&answer(&[("text", &bad)])));
    for (kind, body) in bodies_with(&bad) {
        let mut event = event(kind, body);
        let client = v1::ClientOrigin { label: bad.clone(), pid: 7, ..Default::default() };
        event.origin = Some(v1::Origin { kind: Some(v1::origin::Kind::Client(client)) });
        pieces.extend(transcript.event(&event));
    }
    let all = shown(&pieces);
    assert!(!all.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{all:?}");
    assert!(all.contains("\\x1b]52"));
}
