//! Following over lost daemons, holes and lags, against a daemon that answers over real gRPC.

use super::fake_daemon::{FakeDaemon, everything, numbered};
use super::follow::{Follow, FollowOptions, Step};
use crate::api;
use crate::connect::link::{Dial, Dialled, Link, Looked};
use crate::error::ErrorKind;
use crate::render::style::Style;
use crate::render::transcript::{Piece, Transcript};
use agentd_proto::v1;
use agentd_proto::v1::attach_response::Frame;
use std::time::Duration;
use tonic::Status;

/// Longer than any of these tests may take.
const DEADLINE: Duration = Duration::from_secs(20);

fn lost() -> Result<Frame, Status> {
    Err(Status::unavailable("transport error"))
}

async fn next(follow: &mut Follow) -> Step {
    tokio::time::timeout(DEADLINE, follow.next()).await.unwrap().unwrap()
}

/// The numbers of the next events, other steps left out.
async fn numbers(follow: &mut Follow, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        if let Step::Event(event) = next(follow).await {
            numbers.push(event.seq);
        }
    }
    numbers
}

#[tokio::test]
async fn after_a_loss_it_goes_on_after_the_last_event_and_shows_nothing_twice() {
    let fake = FakeDaemon::scripted([
        vec![numbered(1), numbered(2), lost()],
        // A careless server sends again what was seen.
        vec![numbered(2), numbered(3), lost()],
        vec![numbered(4), numbered(5)],
    ]);
    let mut follow = Follow::new(fake.link().await, everything());
    assert_eq!(numbers(&mut follow, 5).await, [1, 2, 3, 4, 5]);
    let after: Vec<_> = fake.attaches().iter().map(|attach| attach.after_seq).collect();
    assert_eq!(after, [None, Some(2), Some(3)]);
    assert_eq!(follow.seen_seq(), 5);
}

#[tokio::test]
async fn a_loss_and_a_new_run_are_told() {
    let fake = FakeDaemon::scripted([vec![numbered(1), lost()], vec![numbered(2)]]);
    let mut follow = Follow::new(fake.link().await, everything());
    assert!(matches!(next(&mut follow).await, Step::Event(_)));
    assert!(matches!(next(&mut follow).await, Step::Lost(_)));
    assert_eq!(next(&mut follow).await, Step::Back { run_id: "d_2".into(), new_run: true });
    assert!(matches!(next(&mut follow).await, Step::Event(_)));
}

#[tokio::test]
async fn a_hole_in_the_numbers_is_read_again() {
    let fake =
        FakeDaemon::scripted([vec![numbered(1), numbered(4)], vec![numbered(2), numbered(3), numbered(4)]]);
    let mut follow = Follow::new(fake.link().await, everything());
    assert_eq!(numbers(&mut follow, 4).await, [1, 2, 3, 4]);
    assert_eq!(fake.attaches()[1].after_seq, Some(1));
}

#[tokio::test]
async fn a_hole_that_stays_is_an_error() {
    let fake = FakeDaemon::scripted((0..40).map(|_| vec![numbered(1), numbered(4)]));
    let mut follow = Follow::new(fake.link().await, everything());
    assert_eq!(numbers(&mut follow, 1).await, [1]);
    let error = tokio::time::timeout(DEADLINE, follow.next()).await.unwrap().unwrap_err();
    assert!(error.message.contains("hole between events 1 and 4"), "{}", error.message);
}

#[tokio::test]
async fn without_history_a_loss_before_the_first_event_misses_nothing() {
    let caught_up = Ok(Frame::CaughtUp(v1::AttachCaughtUp { last_seq: 7 }));
    let fake = FakeDaemon::scripted([vec![caught_up, lost()], vec![numbered(8)]]);
    let options = FollowOptions { history: v1::History::None, ..everything() };
    let mut follow = Follow::new(fake.link().await, options);
    assert_eq!(numbers(&mut follow, 1).await, [8]);
    assert_eq!(fake.attaches()[1].after_seq, Some(7));
}

#[tokio::test]
async fn a_stopping_daemon_is_left_for_its_successor_and_a_deleted_session_ends() {
    let away = |reason: &str| Ok(Frame::GoingAway(v1::GoingAway { reason: reason.into() }));
    let fake = FakeDaemon::scripted([
        vec![numbered(1), away("stopping")],
        vec![numbered(2), away("session deleted")],
    ]);
    let mut follow = Follow::new(fake.link().await, everything());
    assert_eq!(numbers(&mut follow, 2).await, [1, 2]);
    assert_eq!(next(&mut follow).await, Step::Ended("session deleted".into()));
    assert!(matches!(next(&mut follow).await, Step::Ended(_)));
    assert_eq!(fake.attaches().len(), 2);
}

/// A daemon that was told to stop: it answers some looks while it ends its work, then some find nobody, then its
/// successor is there, or never.
struct Stopped {
    fake: FakeDaemon,
    ending: u32,
    nobody: u32,
}

impl Dial for Stopped {
    fn redial(&mut self) -> Dialled<'_> {
        Box::pin(async { panic!("a stopped daemon was started again") })
    }

    fn look(&mut self) -> Looked<'_> {
        Box::pin(async move {
            if self.ending > 0 {
                self.ending -= 1;
                return Ok(Some(self.fake.listen("d_1").await));
            }
            if self.nobody > 0 {
                self.nobody -= 1;
                return Ok(None);
            }
            Ok(Some(self.fake.listen("d_2").await))
        })
    }
}

async fn stopped(scripts: Vec<super::fake_daemon::Script>, ending: u32, nobody: u32) -> (FakeDaemon, Follow) {
    let fake = FakeDaemon::scripted(scripts);
    let link = Link::new(fake.listen("d_1").await, Box::new(Stopped { fake: fake.clone(), ending, nobody }));
    (fake, Follow::new(link, everything()))
}

fn stops() -> Result<Frame, Status> {
    Ok(Frame::GoingAway(v1::GoingAway { reason: "the daemon is stopping".into() }))
}

#[tokio::test]
async fn a_stopped_daemon_is_not_started_again() {
    let (fake, mut follow) = stopped(vec![vec![numbered(1), stops()]], 3, u32::MAX).await;
    assert_eq!(numbers(&mut follow, 1).await, [1]);
    assert!(matches!(next(&mut follow).await, Step::Lost(_)));
    assert_eq!(next(&mut follow).await, Step::Stopped);
    assert_eq!(next(&mut follow).await, Step::Stopped);
    assert_eq!(fake.attaches().len(), 1);
}

#[tokio::test]
async fn the_successor_of_a_stopped_daemon_is_waited_for() {
    let (fake, mut follow) = stopped(vec![vec![numbered(1), stops()], vec![numbered(2)]], 3, 3).await;
    assert_eq!(numbers(&mut follow, 1).await, [1]);
    assert!(matches!(next(&mut follow).await, Step::Lost(_)));
    assert_eq!(next(&mut follow).await, Step::Back { run_id: "d_2".into(), new_run: true });
    assert_eq!(numbers(&mut follow, 1).await, [2]);
    assert_eq!(fake.attaches()[1].after_seq, Some(1));
}

#[tokio::test]
async fn a_refusal_is_not_a_loss() {
    let fake = FakeDaemon::scripted([]);
    let mut follow = Follow::new(fake.link().await, everything());
    let error = follow.next().await.unwrap_err();
    assert_eq!((error.kind, fake.attaches().len()), (ErrorKind::Failed, 1));
}

#[tokio::test]
async fn a_daemon_that_always_dies_is_given_up() {
    let fake = FakeDaemon::scripted((0..100).map(|_| vec![lost()]));
    let mut follow = Follow::new(fake.link().await, everything());
    let error = loop {
        match tokio::time::timeout(DEADLINE, follow.next()).await.unwrap() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(fake.attaches().len() < 20);
}

#[tokio::test]
async fn a_lag_leaves_no_hole_and_no_repeat_in_the_text() {
    let delta = |offset_bytes, text: &str| v1::Delta {
        source_id: "m_1".into(),
        kind: "text".into(),
        block: 0,
        offset_bytes,
        text: text.into(),
    };
    let answer = v1::Answer {
        model_call_id: "m_1".into(),
        blocks: vec![v1::AnswerBlock { kind: "text".into(), text: "one two three four".into() }],
        ..Default::default()
    };
    let finished = v1::Event {
        seq: 1,
        kind: "model_call_finished".into(),
        body: Some(v1::event::Body::Answer(answer)),
        ..Default::default()
    };
    let fake = FakeDaemon::scripted([
        vec![
            Ok(Frame::Delta(delta(0, "one "))),
            Ok(Frame::Lagged(v1::AttachLagged { dropped: 1 })),
            Ok(Frame::Draft(delta(0, "one two "))),
            Ok(Frame::Delta(delta(8, "three"))),
            lost(),
        ],
        vec![Ok(Frame::Draft(delta(0, "one two three fo"))), Ok(Frame::Event(finished))],
    ]);
    let mut follow = Follow::new(fake.link().await, everything());
    let mut transcript = Transcript::new(Style::PLAIN, 1);
    let mut text = String::new();
    loop {
        let (pieces, last) = match next(&mut follow).await {
            Step::Delta(delta) => (transcript.delta(&delta), false),
            Step::Event(event) => (transcript.event(&event), true),
            _ => (Vec::new(), false),
        };
        for piece in pieces {
            match piece {
                Piece::Flow(flow) => text.push_str(&flow),
                Piece::Line(line) => panic!("no line was to come: {line}"),
            }
        }
        if last {
            break;
        }
    }
    assert_eq!(text, "one two three four");
}

#[tokio::test]
async fn a_daemon_that_really_dies_is_replaced() {
    struct Successor(FakeDaemon);
    impl Dial for Successor {
        fn redial(&mut self) -> Dialled<'_> {
            Box::pin(async move { Ok(self.0.listen("d_2").await) })
        }
        fn look(&mut self) -> Looked<'_> {
            Box::pin(async { panic!("a daemon that was lost is not waited for") })
        }
    }
    let first = FakeDaemon::scripted([vec![numbered(1), numbered(2)]]);
    let second = FakeDaemon::scripted([vec![numbered(3)]]);
    // Served on a runtime of its own: ending that cuts the connection as kill -9 would.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let serving = first.clone();
    let address = runtime.spawn(async move { serving.serve().await.0 }).await.unwrap();
    let opened = FakeDaemon::opened(address, "d_1");
    let link = Link::new(opened, Box::new(Successor(second.clone())));
    let mut follow = Follow::new(link, everything());
    assert_eq!(numbers(&mut follow, 2).await, [1, 2]);
    runtime.shutdown_background();
    assert_eq!(numbers(&mut follow, 1).await, [3]);
    assert_eq!(second.attaches()[0].after_seq, Some(2));
}

#[tokio::test]
async fn an_input_is_sent_again_under_the_same_id() {
    let fake = FakeDaemon::scripted([]);
    fake.lose_answers(2);
    let request = v1::SendInputRequest {
        request_id: api::fresh_request_id().unwrap(),
        session_id: "s_1".into(),
        ..Default::default()
    };
    let link = fake.link().await;
    let answer = api::send_input(&link, request).await.unwrap();
    assert_eq!(answer.input_id, "i_1");
    let ids: Vec<_> = fake.inputs().into_iter().map(|input| input.request_id).collect();
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(link.now().0.hello.run_id, "d_3");
}
