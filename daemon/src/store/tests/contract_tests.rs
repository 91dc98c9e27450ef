//! What both stores promise, checked on both.

use super::*;
use crate::ports::{BlobSource, SummaryFilter};
use agentd_core::ids::{ArtifactId, CallId};
use bytes::Bytes;
use std::collections::BTreeSet;

#[tokio::test]
async fn every_kind_of_event_comes_back_as_it_was() {
    let kinds: BTreeSet<EventKind> = every_kind().iter().map(EventBody::kind).collect();
    assert_eq!(kinds.len(), EventKind::ALL.len(), "every_kind.txt lacks a kind");
    for (_dir, store) in each() {
        let written = append(&session(1), 0, every_kind());
        let events = written.events.clone();
        store.append(written).await.unwrap();
        let read = store.events_after(&session(1), 0, 100).await.unwrap();
        assert_eq!(shapes(&read), shapes(&events));
    }
}

#[tokio::test]
async fn pages_go_both_ways_without_holes() {
    for (_dir, store) in each() {
        let (a, b) = (session(1), session(2));
        for n in 0..10 {
            store.append(append(&a, n * 2, vec![notice("x"), notice("y")])).await.unwrap();
            store.append(append(&b, n, vec![notice("other")])).await.unwrap();
        }
        let page = |events: Vec<Event>| seqs(&events);
        assert_eq!(page(store.events_after(&a, 0, 3).await.unwrap()), [1, 2, 3]);
        assert_eq!(page(store.events_after(&a, 18, 5).await.unwrap()), [19, 20]);
        assert!(store.events_after(&a, 20, 5).await.unwrap().is_empty());
        assert_eq!(page(store.events_before(&a, 21, 3).await.unwrap()), [18, 19, 20]);
        assert_eq!(page(store.events_before(&a, Seq::MAX, 2).await.unwrap()), [19, 20]);
        assert_eq!(page(store.events_before(&a, 3, 9).await.unwrap()), [1, 2]);
        assert!(store.events_before(&a, 1, 9).await.unwrap().is_empty());
        assert_eq!(store.last_seq(&a).await.unwrap(), Some(20));
        assert_eq!(store.last_seq(&session(9)).await.unwrap(), None);
        assert!(store.events_after(&session(9), 0, 9).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_conflict_fails_one_append_and_says_where_the_log_is() {
    for (_dir, store) in each() {
        let (a, b) = (session(1), session(2));
        store.append(append(&a, 0, vec![notice("1"), notice("2")])).await.unwrap();
        // All at once, so that the real store has them in one batch.
        let results = futures_util::future::join_all([
            store.append(append(&b, 0, vec![notice("1")])),
            store.append(append(&a, 1, vec![notice("lost")])),
            store.append(append(&a, 2, vec![notice("3")])),
            store.append(append(&session(3), 4, vec![notice("lost")])),
            store.append(append(&b, 1, vec![input("2")])),
        ])
        .await;
        let conflict = |id: &SessionId, expected, current| {
            Err(StoreError::SeqConflict { session_id: id.clone(), expected, current })
        };
        assert_eq!(results, [Ok(()), conflict(&a, 1, 2), Ok(()), conflict(&session(3), 4, 0), Ok(())]);
        assert_eq!(store.last_seq(&a).await.unwrap(), Some(3));
        assert_eq!(store.last_seq(&b).await.unwrap(), Some(2));
        assert_eq!(store.last_seq(&session(3)).await.unwrap(), None);
    }
}

#[tokio::test]
async fn an_append_that_contradicts_itself_is_refused() {
    for (_dir, store) in each() {
        let mut hole = append(&session(1), 0, vec![notice("1"), notice("2")]);
        hole.events[1].seq = 3;
        assert!(matches!(store.append(hole).await, Err(StoreError::Failed(_))));
        let mut strange = append(&session(1), 0, vec![notice("1")]);
        strange.summary = summary(&session(2), 1);
        assert!(matches!(store.append(strange).await, Err(StoreError::Failed(_))));
        assert_eq!(store.last_seq(&session(1)).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_repeated_request_writes_nothing_and_finds_the_first_answer() {
    for (_dir, store) in each() {
        let id = session(1);
        let mut first = append(&id, 0, vec![input("hello")]);
        first.claim = Some(claim("req-1", 7));
        first.audit = vec![audit(&id, "requested")];
        store.append(first.clone()).await.unwrap();

        assert_eq!(store.append(first.clone()).await, Err(StoreError::RequestRepeated("req-1".into())));
        let mut other = append(&id, 1, vec![input("bye")]);
        other.claim = Some(claim("req-1", 8));
        assert_eq!(store.append(other).await, Err(StoreError::RequestIdReused("req-1".into())));

        assert_eq!(store.last_seq(&id).await.unwrap(), Some(1));
        assert_eq!(store.audit_after(None, 0, 10).await.unwrap().len(), 1);
        let answer = store.first_answer("req-1").await.unwrap().unwrap();
        assert_eq!((answer.method.as_str(), answer.content_hash), ("Turns.SendInput", [7; 32]));
        assert_eq!(answer.answer, [7, 0, 255]);
        assert_eq!(store.first_answer("req-2").await.unwrap(), None);

        // A request that changes nothing keeps its answer, and the log stays where it is.
        let mut nothing = append(&id, 1, vec![]);
        nothing.claim = Some(claim("req-3", 1));
        store.append(nothing).await.unwrap();
        assert!(store.first_answer("req-3").await.unwrap().is_some());
        assert_eq!(store.last_seq(&id).await.unwrap(), Some(1));
    }
}

#[tokio::test]
async fn sessions_are_found_by_id_name_and_beginning() {
    for (_dir, store) in each() {
        let (a, b) = (SessionId::new("s_01hfaaaa1"), SessionId::new("s_01hfaabb2"));
        let mut named = append(&a, 0, vec![notice("1")]);
        named.summary.name = Some("fix the tests".into());
        store.append(named).await.unwrap();
        store.append(append(&b, 0, vec![notice("1")])).await.unwrap();
        let found = |text: &'static str| {
            let found = store.find_sessions(text);
            async {
                found.await.unwrap().into_iter().map(|row| row.session_id.to_string()).collect::<Vec<_>>()
            }
        };
        assert_eq!(found("s_01hfaaaa1").await, ["s_01hfaaaa1"]);
        assert_eq!(found("s_01hfaab").await, ["s_01hfaabb2"]);
        assert_eq!(found("01hfaaa").await, ["s_01hfaaaa1"]);
        assert_eq!(found("01hf").await, ["s_01hfaaaa1", "s_01hfaabb2"]);
        assert_eq!(found("s").await, ["s_01hfaaaa1", "s_01hfaabb2"]);
        assert_eq!(found("fix the tests").await, ["s_01hfaaaa1"]);
        for text in ["fix", "", "s_01hfz", "%", "_01hf"] {
            assert!(found(text).await.is_empty(), "{text:?}");
        }
        assert_eq!(
            store.find_sessions("fix the tests").await.unwrap()[0].name.as_deref(),
            Some("fix the tests")
        );
    }
}

#[tokio::test]
async fn the_list_filters_and_is_ordered_by_its_last_change() {
    for (_dir, store) in each() {
        for n in 1..=4 {
            let mut one = append(&session(n), 0, vec![notice("1")]);
            one.summary.state = if n == 2 { SessionState::Idle } else { SessionState::Waiting };
            one.summary.cwd = PathBytes::new(if n == 3 { vec![b'/', 0xff] } else { b"/w".to_vec() });
            one.open_work = Some(vec![request(&format!("r_{n}"))]);
            store.append(one).await.unwrap();
        }
        let first = store.list(SummaryFilter::default()).await.unwrap();
        let ids = |rows: &[crate::ports::ListedSession]| -> Vec<SessionId> {
            rows.iter().map(|row| row.summary.session_id.clone()).collect()
        };
        assert_eq!(ids(&first), [session(4), session(3), session(2), session(1)]);
        assert!(first.windows(2).all(|pair| pair[0].revision > pair[1].revision));
        assert_eq!(first[0].requests, [request("r_4")]);
        assert_eq!(first[1].summary.cwd.as_bytes(), [b'/', 0xff]);

        let mut change = append(&session(1), 1, vec![notice("2")]);
        change.open_work = Some(vec![]);
        store.append(change.clone()).await.unwrap();
        let newer = SummaryFilter { after_revision: Some(first[0].revision), ..SummaryFilter::default() };
        let changed = store.list(newer).await.unwrap();
        assert_eq!(ids(&changed), [session(1)]);
        assert_eq!(changed[0].summary, change.summary);
        assert!(changed[0].requests.is_empty());

        let filter = SummaryFilter { state: Some(SessionState::Idle), ..SummaryFilter::default() };
        assert_eq!(ids(&store.list(filter).await.unwrap()), [session(2)]);
        let cwd = Some(PathBytes::new(vec![b'/', 0xff]));
        let filter = SummaryFilter { cwd, limit: 5, ..SummaryFilter::default() };
        assert_eq!(ids(&store.list(filter).await.unwrap()), [session(3)]);
        let filter = SummaryFilter { limit: 2, ..SummaryFilter::default() };
        assert_eq!(ids(&store.list(filter).await.unwrap()), [session(1), session(4)]);
    }
}

#[tokio::test]
async fn open_work_is_replaced_kept_or_emptied() {
    for (_dir, store) in each() {
        let (a, b) = (session(1), session(2));
        let turn = OpenWork { kind: OpenKind::Turn, id: "1".into(), detail: "{}".into() };
        let mut one = append(&a, 0, vec![notice("1")]);
        one.open_work = Some(vec![turn.clone(), request("r_1")]);
        store.append(one).await.unwrap();
        store.append(append(&b, 0, vec![notice("1")])).await.unwrap();
        assert_eq!(store.sessions_with_open_work().await.unwrap(), [session(1)]);

        store.append(append(&a, 1, vec![notice("2")])).await.unwrap();
        assert_eq!(store.list(SummaryFilter::default()).await.unwrap()[0].requests, [request("r_1")]);

        let mut changed = request("r_1");
        changed.detail = "{\"shown\":\"again\"}".into();
        let mut three = append(&a, 2, vec![notice("3")]);
        three.open_work = Some(vec![changed.clone(), request("r_2")]);
        store.append(three).await.unwrap();
        assert_eq!(
            store.list(SummaryFilter::default()).await.unwrap()[0].requests,
            [changed, request("r_2")]
        );

        let mut none = append(&a, 3, vec![notice("4")]);
        none.open_work = Some(vec![]);
        store.append(none).await.unwrap();
        assert!(store.sessions_with_open_work().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn requests_name_their_session_while_open_and_after() {
    const OPENED: &str = "r_01hf0000000000000000000001";
    for (_dir, store) in each() {
        let opened = every_kind().into_iter().find(|body| body.kind() == EventKind::RequestOpened).unwrap();
        let mut one = append(&session(1), 0, vec![opened]);
        one.open_work = Some(vec![request(OPENED)]);
        store.append(one).await.unwrap();
        for text in [OPENED, "r_01hf", "01hf", "r"] {
            assert_eq!(store.session_of_request(text).await.unwrap(), Some(session(1)), "{text}");
        }
        let mut closed = append(&session(1), 1, vec![notice("closed")]);
        closed.open_work = Some(vec![]);
        store.append(closed).await.unwrap();
        assert_eq!(store.session_of_request(OPENED).await.unwrap(), Some(session(1)));
        assert_eq!(store.session_of_request("01hf").await.unwrap(), Some(session(1)));

        // An open one is meant before one that is closed; of two open ones neither.
        let mut two = append(&session(2), 0, vec![notice("1")]);
        two.open_work = Some(vec![request("r_01hf0000000000000000000002")]);
        store.append(two).await.unwrap();
        assert_eq!(store.session_of_request("01hf").await.unwrap(), Some(session(2)));
        let mut three = append(&session(3), 0, vec![notice("1")]);
        three.open_work = Some(vec![request("r_01hf0000000000000000000003")]);
        store.append(three).await.unwrap();
        assert_eq!(store.session_of_request("01hf").await.unwrap(), None);
        assert_eq!(store.session_of_request(OPENED).await.unwrap(), Some(session(1)));
        assert_eq!(store.session_of_request("").await.unwrap(), None);
    }
}

#[tokio::test]
async fn artifacts_are_listed_and_read() {
    for (_dir, store) in each() {
        store.append(append(&session(1), 0, every_kind())).await.unwrap();
        let row = store.artifact(&ArtifactId::new("a_1")).await.unwrap().unwrap();
        assert_eq!(row.session_id, session(1));
        assert_eq!((row.stored.size_bytes, row.stored.line_count, row.stored.redactions), (10, 2, 1));
        assert_eq!(row.stored.call_id, Some(CallId::new("c_1")));
        assert_eq!(store.artifacts(&session(1)).await.unwrap(), [row]);
        assert!(store.artifacts(&session(2)).await.unwrap().is_empty());
        assert_eq!(store.artifact(&ArtifactId::new("a_2")).await.unwrap(), None);
    }
}

#[tokio::test]
async fn content_is_stored_once_and_read_by_range() {
    for (_dir, store) in each() {
        let bytes = Bytes::from_static(b"one\ntwo\nthree");
        let stored = store.put_blob(BlobSource::Bytes(bytes.clone())).await.unwrap();
        assert_eq!((stored.size_bytes, stored.line_count), (13, 3));
        assert_eq!(store.put_blob(BlobSource::Bytes(bytes.clone())).await.unwrap(), stored);
        let read = |offset, len| {
            let read = store.read_blob(&stored.hash, offset, len);
            async { read.await.unwrap().unwrap() }
        };
        assert_eq!(read(0, usize::MAX).await, bytes);
        assert_eq!(read(4, 3).await, "two");
        assert_eq!(read(8, 100).await, "three");
        assert!(read(13, 5).await.is_empty());
        assert!(read(u64::MAX, usize::MAX).await.is_empty());
        let empty = store.put_blob(BlobSource::Bytes(Bytes::new())).await.unwrap();
        assert_eq!((empty.size_bytes, empty.line_count), (0, 0));
        assert_eq!(store.read_blob(&empty.hash, 0, 9).await.unwrap(), Some(Bytes::new()));
        for hash in ["00".repeat(32), "zz".into(), String::new()] {
            assert_eq!(store.read_blob(&hash, 0, 1).await.unwrap(), None);
        }
        let missing = BlobSource::File("/nowhere/at/all".into());
        assert!(
            matches!(store.put_blob(missing).await, Err(StoreError::Failed(why)) if why.contains("/nowhere"))
        );
    }
}

#[tokio::test]
async fn audit_rows_are_read_by_session_and_in_pages() {
    let mut heads = Vec::new();
    for (_dir, store) in each() {
        for (n, id) in [session(1), session(2), session(1)].into_iter().zip([0, 0, 1]).map(|(id, n)| (n, id))
        {
            let mut one = append(&id, n, vec![notice("x")]);
            one.audit = vec![audit(&id, "decided"), audit(&id, "finished")];
            store.append(one).await.unwrap();
        }
        let numbers =
            |rows: Vec<crate::ports::AuditRow>| rows.iter().map(|row| row.audit_no).collect::<Vec<_>>();
        assert_eq!(numbers(store.audit_after(None, 0, 100).await.unwrap()), [1, 2, 3, 4, 5, 6]);
        assert_eq!(numbers(store.audit_after(None, 2, 2).await.unwrap()), [3, 4]);
        assert_eq!(numbers(store.audit_after(Some(&session(1)), 1, 100).await.unwrap()), [2, 5, 6]);
        let last = store.audit_after(None, 5, 1).await.unwrap().remove(0);
        assert_eq!(last.entry, audit(&session(1), "finished"));
        heads.push(last.hash);
        let verdict = store.verify_audit().await.unwrap();
        assert_eq!((verdict.rows, verdict.first_bad), (6, None));
    }
    assert_eq!(heads[0], heads[1], "both stores chain alike");
}

/// A future of a store can be dropped at any time: what it asked may be done or not, but never half.
#[tokio::test]
async fn a_dropped_append_is_done_or_not_but_never_half() {
    for (_dir, store) in each() {
        {
            let mut asked = store.append(append(&session(1), 0, vec![notice("1"), notice("2")]));
            let waker = futures_util::task::noop_waker();
            let _ = asked.as_mut().poll(&mut std::task::Context::from_waker(&waker));
        }
        // Behind it in the same queue.
        store.append(append(&session(2), 0, vec![notice("1")])).await.unwrap();
        assert_eq!(store.last_seq(&session(1)).await.unwrap(), Some(2));
    }
}
