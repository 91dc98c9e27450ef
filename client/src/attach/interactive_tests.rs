//! A session in a terminal, against a daemon that answers over real gRPC.

use super::fake_daemon::{FakeDaemon, everything};
use super::interactive::{Attached, LABEL, Manner};
use super::typed::Typed;
use crate::render::out::tests::Kept;
use crate::render::out::{Printer, To};
use crate::render::style::Style;
use crate::render::transcript::Transcript;
use agentd_proto::v1;
use agentd_proto::v1::attach_response::Frame;
use agentd_proto::v1::event::Body;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(20);
const OWN_PID: u32 = 42;

struct Terminal {
    fake: FakeDaemon,
    out: Kept,
    err: Kept,
    keys: mpsc::Sender<String>,
    attached: Attached,
    typed: Typed,
}

async fn terminal(frames: Vec<Frame>, manner: Manner) -> Terminal {
    let fake = FakeDaemon::scripted([frames.into_iter().map(Ok).collect()]);
    let (out, err) = (Kept::default(), Kept::default());
    let (keys, lines) = mpsc::channel(8);
    let printer = Printer::on(Box::new(out.clone()), Box::new(err.clone()), To::Stdout, To::Stdout, false);
    let transcript = Transcript::new(Style::PLAIN, OWN_PID);
    let attached = Attached::new(fake.link().await, "s_1".into(), manner, transcript, printer);
    let typed = Typed::from_channel(lines, true);
    Terminal { fake, out, err, keys, attached, typed }
}

/// Waits until `stream` holds `text`.
async fn shows(stream: &Kept, text: &str) {
    let seen = async {
        while !stream.text().contains(text) {
            tokio::task::yield_now().await;
        }
    };
    assert!(timeout(DEADLINE, seen).await.is_ok(), "{text:?} was not shown, but {:?}", stream.text());
}

fn event(seq: u64, kind: &str, body: Body, pid: u32) -> Frame {
    let client = v1::ClientOrigin { label: LABEL.into(), pid, ..Default::default() };
    let origin = Some(v1::Origin { kind: Some(v1::origin::Kind::Client(client)) });
    Frame::Event(v1::Event { seq, kind: kind.into(), origin, body: Some(body), ..Default::default() })
}

fn asked(seq: u64, id: &str) -> Frame {
    let info = v1::RequestInfo {
        request_id: id.into(),
        kind: "approval".into(),
        tool: "run_command".into(),
        shown: "rm -rf \u{202e}build\x1b[8m".into(),
        shown_hash: format!("hash of {id}"),
        ..Default::default()
    };
    event(seq, "request_opened", Body::Request(info), 0)
}

fn approved(seq: u64, id: &str, pid: u32) -> Frame {
    let end = v1::RequestEnd {
        request_id: id.into(),
        close: "answered".into(),
        decision: v1::Verdict::Allow.into(),
        ..Default::default()
    };
    event(seq, "request_closed", Body::RequestEnd(end), pid)
}

fn caught_up(last_seq: u64) -> Frame {
    Frame::CaughtUp(v1::AttachCaughtUp { last_seq })
}

const TRANSCRIPT: Manner = Manner { json: false, read_only: false };

#[tokio::test]
async fn a_request_is_shown_whole_and_answered_with_the_hash_of_what_was_shown() {
    let Terminal { fake, out, err, keys, attached, typed } =
        terminal(vec![asked(1, "r_1"), caught_up(1)], TRANSCRIPT).await;
    let person = async {
        shows(&out, "  | rm -rf \\u{202e}build\\x1b[8m").await;
        shows(&err, "approve? [y]es/[n]o").await;
        keys.send("y".into()).await.unwrap();
        while fake.answers().is_empty() {
            tokio::task::yield_now().await;
        }
        fake.push(approved(2, "r_1", OWN_PID)).await;
        shows(&out, "approved by you").await;
        keys.send("y".into()).await.unwrap();
        shows(&err, "nothing waits for an answer").await;
        keys.send("/quit".into()).await.unwrap();
    };
    let (left, ()) =
        timeout(DEADLINE, async { tokio::join!(attached.run(everything(), typed), person) }).await.unwrap();
    left.unwrap();
    let answers = fake.answers();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].answered_request_id, "r_1");
    assert_eq!(answers[0].shown_hash.as_deref(), Some("hash of r_1"));
    assert_eq!(answers[0].decision, v1::Verdict::Allow as i32);
    assert!(err.text().contains("agentctl attach s_1 --after 2"));
    assert!(fake.inputs().is_empty(), "a lone y is never sent to the model");
}

#[tokio::test]
async fn the_answer_of_another_is_told_and_closed_requests_are_not_asked_again() {
    let frames = vec![asked(1, "r_1"), approved(2, "r_1", 7), caught_up(2)];
    let Terminal { out, err, keys, attached, typed, .. } = terminal(frames, TRANSCRIPT).await;
    let person = async {
        shows(&out, "approved by agentctl attach (pid 7)").await;
        keys.send("/quit".into()).await.unwrap();
    };
    let (left, ()) =
        timeout(DEADLINE, async { tokio::join!(attached.run(everything(), typed), person) }).await.unwrap();
    left.unwrap();
    assert!(!err.text().contains("approve?"));
}

#[tokio::test]
async fn text_queues_when_idle_and_steers_when_running() {
    let started = event(1, "turn_started", Body::Turn(v1::TurnInfo::default()), 0);
    let files = event(2, "files_changed", Body::Files(v1::FilesInfo::default()), 0);
    let Terminal { fake, out, keys, attached, typed, .. } = terminal(vec![caught_up(0)], TRANSCRIPT).await;
    let person = async {
        keys.send("begin".into()).await.unwrap();
        while fake.inputs().is_empty() {
            tokio::task::yield_now().await;
        }
        fake.push(started).await;
        fake.push(files).await;
        shows(&out, "changed:").await;
        keys.send("more".into()).await.unwrap();
        while fake.inputs().len() < 2 {
            tokio::task::yield_now().await;
        }
        keys.send("/quit".into()).await.unwrap();
    };
    let (left, ()) =
        timeout(DEADLINE, async { tokio::join!(attached.run(everything(), typed), person) }).await.unwrap();
    left.unwrap();
    let deliveries: Vec<_> = fake.inputs().iter().map(|input| input.delivery).collect();
    assert_eq!(deliveries, [v1::Delivery::Queue as i32, v1::Delivery::Steer as i32]);
}

#[tokio::test]
async fn read_only_sends_nothing() {
    let manner = Manner { json: false, read_only: true };
    let Terminal { fake, err, keys, attached, typed, .. } =
        terminal(vec![asked(1, "r_1"), caught_up(1)], manner).await;
    let person = async {
        for line in ["y", "do it", "/interrupt", "/quit"] {
            keys.send(line.into()).await.unwrap();
        }
    };
    let (left, ()) =
        timeout(DEADLINE, async { tokio::join!(attached.run(everything(), typed), person) }).await.unwrap();
    left.unwrap();
    assert!(fake.inputs().is_empty() && fake.answers().is_empty());
    assert_eq!(err.text().matches("nothing was sent").count(), 3);
}

#[tokio::test]
async fn json_is_one_object_a_line_with_raw_text() {
    let manner = Manner { json: true, read_only: false };
    let delta = v1::Delta {
        source_id: "m_1".into(),
        kind: "text".into(),
        text: "a\x1b\n".into(),
        ..Default::default()
    };
    let frames = vec![asked(1, "r_1"), caught_up(1), Frame::Delta(delta)];
    let Terminal { out, keys, attached, typed, .. } = terminal(frames, manner).await;
    let person = async {
        shows(&out, "\"delta\"").await;
        keys.send("/quit".into()).await.unwrap();
    };
    let (left, ()) =
        timeout(DEADLINE, async { tokio::join!(attached.run(everything(), typed), person) }).await.unwrap();
    left.unwrap();
    let text = out.text();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["seq"], &lines[0]["kind"]), (&1.into(), &"request_opened".into()));
    assert_eq!((&lines[1]["kind"], &lines[1]["text"]), (&"delta".into(), &"a\x1b\n".into()));
    assert!(!text.contains('\x1b'));
}
