//! Tests of the store, and what they are made from.

mod audit_tests;
mod blob_tests;
mod contract_tests;
mod crash_tests;
mod full_tests;
mod log_tests;
mod schema_tests;
mod speed_tests;

use super::{MemoryStore, SqliteStore, open};
use crate::ports::{Append, RequestClaim, Store, StoreError};
use agentd_core::event::Delivery;
use agentd_core::event::{
    Event, EventBody, EventKind, InputAccepted, InputPart, NoticeAdded, NoticeKind, Origin, PermissionMode,
    Usage,
};
use agentd_core::ids::{ClientId, InputId, Seq, SessionId};
use agentd_core::path_bytes::PathBytes;
use agentd_core::projection::{AuditEntry, CallCounts, OpenKind, OpenWork, SessionState, Summary};
use std::path::Path;
use tempfile::TempDir;

/// 2023-11-14, in Unix milliseconds.
const T0: i64 = 1_700_000_000_000;

/// A store in a folder of its own.
fn fresh() -> (TempDir, SqliteStore) {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path()).unwrap();
    (dir, store)
}

/// Each implementation of the contract, with the folder it needs.
fn each() -> Vec<(Option<TempDir>, Box<dyn Store>)> {
    let (dir, store) = fresh();
    vec![(None, Box::new(MemoryStore::new())), (Some(dir), Box::new(store))]
}

fn session(n: u32) -> SessionId {
    SessionId::new(format!("s_01hf{n:022}"))
}

fn summary(id: &SessionId, last_seq: Seq) -> Summary {
    Summary {
        session_id: id.clone(),
        name: None,
        cwd: PathBytes::from("/home/ada/project"),
        model: "demo/tour".into(),
        mode: PermissionMode::Ask,
        state: SessionState::Running,
        last_seq,
        turn: 1,
        open_calls: 2,
        open_requests: 1,
        calls: CallCounts { ok: 1, error: 2, denied: 3, invalid: 4, timed_out: 5, cancelled: 6, unknown: 7 },
        usage: Usage { input_tokens: 11, output_tokens: 12, cache_read_tokens: 13, cache_write_tokens: 14 },
        cost_micro_usd: 1_234,
        created_at_ms: T0,
        updated_at_ms: T0 + i64::try_from(last_seq).unwrap(),
    }
}

fn event(seq: Seq, body: EventBody) -> Event {
    let origin = match seq % 3 {
        0 => Origin::Daemon,
        1 => Origin::Model,
        _ => Origin::Client {
            client_id: ClientId::new("k_1"),
            label: "agentctl \"attach\"".into(),
            uid: 1000,
            pid: 4242,
        },
    };
    let at_ms = T0 + i64::try_from(seq).unwrap();
    Event { seq, at_ms, turn: (seq > 1).then_some(1), origin, body }
}

/// A lazy event.
fn notice(text: &str) -> EventBody {
    NoticeAdded { kind: NoticeKind::Budget, text: text.into() }.into()
}

/// A barrier event.
fn input(text: &str) -> EventBody {
    InputAccepted {
        input_id: InputId::new("i_1"),
        delivery: Delivery::Queue,
        parts: vec![InputPart::Text(text.into())],
    }
    .into()
}

fn finished(text: &str) -> EventBody {
    let body = serde_json::json!({ "call_id": "c_1", "outcome": "ok", "text": text, "exit_code": 0 });
    EventBody::decode("call_finished", 1, &body.to_string()).unwrap()
}

fn append(id: &SessionId, expected_seq: Seq, bodies: Vec<EventBody>) -> Append {
    let events: Vec<Event> =
        bodies.into_iter().zip(expected_seq + 1..).map(|(body, seq)| event(seq, body)).collect();
    let last_seq = expected_seq + events.len() as u64;
    Append {
        session_id: id.clone(),
        expected_seq,
        events,
        claim: None,
        audit: vec![],
        summary: summary(id, last_seq),
        open_work: None,
    }
}

fn claim(id: &str, content: u8) -> RequestClaim {
    RequestClaim {
        request_id: id.into(),
        method: "Turns.SendInput".into(),
        content_hash: [content; 32],
        answer: vec![content, 0, 255],
    }
}

fn audit(id: &SessionId, action: &str) -> AuditEntry {
    AuditEntry {
        at_ms: T0,
        session_id: id.clone(),
        call_id: Some("c_1".into()),
        actor: "agentctl (pid 1, uid 2)".into(),
        action: action.into(),
        tool: Some("run_command".into()),
        decision: None,
        rule: Some(String::new()),
        args_hash: Some("ab".repeat(32)),
        args: Some("{\"command\":\"ls\"}".into()),
        outcome: None,
    }
}

fn request(id: &str) -> OpenWork {
    OpenWork { kind: OpenKind::Request, id: id.into(), detail: format!("{{\"tool\":\"{id}\"}}") }
}

/// What two equal events have in common.
fn shape(event: &Event) -> (Seq, i64, Option<u32>, Origin, EventKind, String) {
    (
        event.seq,
        event.at_ms,
        event.turn,
        event.origin.clone(),
        event.body.kind(),
        event.body.encode().unwrap(),
    )
}

fn shapes(events: &[Event]) -> Vec<(Seq, i64, Option<u32>, Origin, EventKind, String)> {
    events.iter().map(shape).collect()
}

fn seqs(events: &[Event]) -> Vec<Seq> {
    events.iter().map(|event| event.seq).collect()
}

/// One body of every kind; raw JSON in it has key orders, numbers and spaces that a JSON tree would lose.
fn every_kind() -> Vec<EventBody> {
    include_str!("every_kind.txt")
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (kind, body) = line.split_once(' ').unwrap();
            EventBody::decode(kind, 1, body).unwrap_or_else(|error| panic!("{kind}: {error}"))
        })
        .collect()
}

/// All rows of a table, in a fixed order, as text.
fn dump(dir: &Path, table: &str) -> Vec<String> {
    let conn = super::connection::open_reader(&dir.join("agentd.db")).unwrap();
    let mut statement = conn.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let columns = statement.column_count();
    let mut rows: Vec<String> = statement
        .query_map([], |row| {
            (0..columns)
                .map(|column| row.get::<_, rusqlite::types::Value>(column).map(|value| format!("{value:?}")))
                .collect::<rusqlite::Result<Vec<_>>>()
                .map(|values| values.join("|"))
        })
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap();
    rows.sort();
    rows
}

/// The whole database is sound.
fn assert_sound(path: &Path) {
    let conn = super::connection::open_reader(path).unwrap();
    let verdict: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let broken: i64 =
        conn.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0)).unwrap();
    assert_eq!(broken, 0);
}

fn is_full(result: &Result<(), StoreError>) -> bool {
    matches!(result, Err(StoreError::Full { .. }))
}
