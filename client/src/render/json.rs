//! The JSON that scripts read. Keys are part of the contract: they are added to, never renamed.
//!
//! Invariants: an event's body is the stored one, token for token; nothing is made visible or cut here. All JSON
//! that is printed goes through [`line`]: characters that a terminal would obey or that hide text stand as `\u`
//! escapes, which are the same value.

use super::{safe, words};
use agentd_proto::v1;
use agentd_proto::v1::origin::Kind;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// One JSON document on one line, safe for a terminal.
pub(crate) fn line(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(value).map(inert)
}

/// The same JSON value without characters that act on a terminal. They can stand only inside strings: outside of them
/// JSON has no such character.
fn inert(json: String) -> String {
    if !json.chars().any(safe::acts) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if safe::acts(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// An event, one line of NDJSON.
pub(crate) fn event(event: &v1::Event) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Line<'a> {
        seq: u64,
        at_ms: i64,
        kind: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        turn_id: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        call_id: &'a str,
        origin: Value,
        body: Option<Box<RawValue>>,
    }
    let line = Line {
        seq: event.seq,
        at_ms: event.at_ms,
        kind: &event.kind,
        turn_id: &event.turn_id,
        call_id: &event.call_id,
        origin: origin(event.origin.as_ref()),
        body: raw_body(&event.raw_json)?,
    };
    self::line(&line)
}

/// Line ends outside strings are only white space, and inside strings JSON has none.
fn raw_body(raw: &str) -> Result<Option<Box<RawValue>>, serde_json::Error> {
    if raw.is_empty() {
        return Ok(None);
    }
    let one_line = if raw.contains(['\n', '\r']) { raw.replace(['\n', '\r'], " ") } else { raw.to_owned() };
    RawValue::from_string(one_line).map(Some)
}

/// Who caused something.
pub(crate) fn origin(origin: Option<&v1::Origin>) -> Value {
    match origin.and_then(|origin| origin.kind.as_ref()) {
        Some(Kind::Client(client)) => json!({"client": {
            "client_id": client.client_id, "label": client.label, "uid": client.uid, "pid": client.pid,
        }}),
        Some(Kind::Daemon(_)) => json!("daemon"),
        Some(Kind::Model(_)) => json!("model"),
        None => Value::Null,
    }
}

/// A piece of live text, one line of NDJSON.
pub(crate) fn delta(delta: &v1::Delta) -> String {
    let value = json!({
        "kind": "delta", "source_id": delta.source_id, "of": delta.kind, "block": delta.block,
        "offset_bytes": delta.offset_bytes, "text": delta.text,
    });
    inert(value.to_string())
}

/// Tokens.
pub(crate) fn usage(usage: &v1::Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens,
    })
}

/// A path as text; a path that is not UTF-8 has a second key with its bytes.
fn path(path: Option<&v1::Path>) -> Value {
    match path {
        Some(path) => json!(path.path_display),
        None => Value::Null,
    }
}

/// A request that waits.
pub(crate) fn open_request(request: &v1::OpenRequest) -> Value {
    json!({
        "request_id": request.request_id, "session_id": request.session_id, "call_id": request.call_id,
        "kind": request.kind, "tool": request.tool, "shown": request.shown, "shown_hash": request.shown_hash,
        "reason": request.reason, "expires_at_ms": request.expires_at_ms,
        "scopes": request.scopes.iter().map(|scope| words::grant_scope(*scope)).collect::<Vec<_>>(),
    })
}

/// A session in a list.
pub(crate) fn summary(summary: &v1::SessionSummary) -> Value {
    json!({
        "id": summary.session_id,
        "name": (!summary.name.is_empty()).then_some(&summary.name),
        "cwd": path(summary.cwd.as_ref()),
        "state": words::session_state(summary.state),
        "model": summary.model,
        "permission_mode": words::permission_mode(summary.mode),
        "last_seq": summary.last_seq,
        "turns": summary.turn,
        "open_calls": summary.open_calls,
        "open_requests": summary.open_requests.iter().map(open_request).collect::<Vec<_>>(),
        "calls": calls(summary.calls.as_ref()),
        "usage": usage(&summary.usage.unwrap_or_default()),
        "cost_usd": words::known_usd(summary.cost_micro_usd, summary.cost_unknown),
        "created_at_ms": summary.created_at_ms,
        "updated_at_ms": summary.updated_at_ms,
        "revision": summary.revision,
    })
}

fn calls(counts: Option<&v1::CallCounts>) -> Value {
    let counts = counts.copied().unwrap_or_default();
    json!({
        "ok": counts.ok, "error": counts.error, "denied": counts.denied, "invalid": counts.invalid,
        "timed_out": counts.timed_out, "cancelled": counts.cancelled, "unknown": counts.unknown,
    })
}

/// A model of the catalogue. What nobody knows is null.
pub(crate) fn model(entry: &v1::CatalogEntry) -> Value {
    let facts = entry.model.clone().unwrap_or_default();
    json!({
        "name": entry.name,
        "state": entry.state,
        "default": facts.is_default,
        "protocol": text_or_null(&facts.protocol),
        "context_window": facts.context_window,
        "max_output_tokens": facts.max_output_tokens,
        "price": facts.price.map(|price| json!({
            "input": words::usd(price.input_micro_usd), "output": words::usd(price.output_micro_usd),
            "cache_read": words::usd(price.cache_read_micro_usd),
            "cache_write": words::usd(price.cache_write_micro_usd),
        })),
        "origin": entry.origin,
        "detail": text_or_null(&entry.detail),
    })
}

/// A session in detail: everything of the list, and more.
pub(crate) fn session(session: &v1::Session) -> Value {
    let mut value = summary(&session.summary.clone().unwrap_or_default());
    let limits = session.limits.unwrap_or_default();
    let detail = json!({
        "root": path(session.root.as_ref()),
        "limits": {
            "max_steps": limits.max_steps, "max_calls_per_message": limits.max_calls_per_message,
            "max_cost_usd": limits.max_cost_micro_usd.map(words::usd), "max_minutes": limits.max_minutes,
            "command_timeout_s": limits.command_timeout_s,
        },
        "attended": session.attended,
        "on_restart": words::on_restart(session.on_restart),
        "pause_reason": text_or_null(&session.pause_reason),
        "next": text_or_null(&session.next),
        "waiting_inputs": session.waiting_inputs.iter().map(|input| json!({
            "input_id": input.input_id, "text": input.text,
            "delivery": if input.steer { "steer" } else { "queue" },
        })).collect::<Vec<_>>(),
        "open_call_list": session.open_calls.iter().map(|call| json!({
            "call_id": call.call_id, "tool": call.tool, "state": call.state, "evidence": call.evidence,
        })).collect::<Vec<_>>(),
        "last_status": session.last_status.map(words::turn_status),
        "last_error": text_or_null(&session.last_error),
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut value, detail) {
        all.extend(more);
    }
    value
}

fn text_or_null(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { json!(text) }
}

/// The ledger of a context.
pub(crate) fn context(ledger: &v1::GetContextResponse) -> Value {
    json!({
        "window": ledger.window_tokens,
        "usable": ledger.usable_tokens,
        "used": ledger.used_tokens,
        "regions": ledger.regions.iter().map(|region| json!({
            "name": region.name, "cap": region.cap_tokens, "used": region.used_tokens,
        })).collect::<Vec<_>>(),
        "items": ledger.items.iter().map(|item| json!({
            "region": item.region, "source": item.source, "tokens": item.tokens, "measured": item.measured,
            "state": item.state, "reason": item.reason, "seq": item.seq,
        })).collect::<Vec<_>>(),
        "epochs": ledger.epochs.iter().map(|epoch| json!({
            "epoch": epoch.epoch, "reason": epoch.reason, "start_seq": epoch.start_seq,
            "tokens_before": epoch.tokens_before, "tokens_after": epoch.tokens_after,
        })).collect::<Vec<_>>(),
        "forecast": ledger.forecast,
    })
}

/// An artifact.
pub(crate) fn artifact(artifact: &v1::Artifact) -> Value {
    json!({
        "artifact_id": artifact.artifact_id, "session_id": artifact.session_id, "call_id": artifact.call_id,
        "source": artifact.source, "mime": artifact.mime, "hash": artifact.hash,
        "size_bytes": artifact.size_bytes, "line_count": artifact.line_count,
        "created_at_ms": artifact.created_at_ms, "redactions": artifact.redactions,
    })
}

/// A row of the audit trail.
pub(crate) fn audit_row(row: &v1::AuditRow) -> Value {
    let client = row.actor.starts_with("client").then_some(&row.actor);
    json!({
        "audit_no": row.audit_no, "at_ms": row.at_ms, "session_id": row.session_id, "call_id": row.call_id,
        "actor": row.actor, "client": client, "action": row.action, "tool": row.tool,
        "args": row.args, "decision": row.decision, "rule": row.rule, "outcome": row.outcome,
        "answered_by": (row.action == "answered").then_some(&row.actor), "hash": row.hash,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(raw: &str) -> v1::Event {
        v1::Event {
            seq: 7,
            at_ms: 1_000,
            kind: "call_finished".into(),
            turn_id: "t_x_1".into(),
            call_id: "c_1".into(),
            origin: Some(v1::Origin { kind: Some(Kind::Daemon(v1::DaemonOrigin {})) }),
            raw_json: raw.into(),
            ..Default::default()
        }
    }

    #[test]
    fn the_body_is_spliced_byte_for_byte() {
        let raw = r#"{"b":1.50,"a":"\u001b[2J","z":1e3}"#;
        assert_eq!(
            event(&sample(raw)).unwrap(),
            format!(
                r#"{{"seq":7,"at_ms":1000,"kind":"call_finished","turn_id":"t_x_1","call_id":"c_1","origin":"daemon","body":{raw}}}"#
            )
        );
    }

    #[test]
    fn nothing_that_is_printed_acts_on_a_terminal_and_the_value_stays() {
        let all: String = (0..=0x10_ffff).filter_map(char::from_u32).collect();
        let body = serde_json::to_string(&json!({ &all: &all })).unwrap();
        let piece = v1::Delta { text: all.clone(), ..Default::default() };
        let printed = [line(&json!([&all])).unwrap(), delta(&piece), event(&sample(&body)).unwrap()];
        for text in &printed {
            assert!(!text.chars().any(|c| c.is_control() || safe::acts(c)));
        }
        let values = printed.map(|text| serde_json::from_str::<Value>(&text).unwrap());
        assert!(values[0][0] == all && values[1]["text"] == all && values[2]["body"][&all] == all);
        assert_eq!(line(&"\u{9b}\u{7f}\u{202e}\u{e0041}é").unwrap(), r#""\u009b\u007f\u202e\udb40\udc41é""#);
    }

    #[test]
    fn an_event_is_one_line_whatever_its_body() {
        let line = event(&sample("{\"a\":\n 1,\r\n\"b\":2}")).unwrap();
        assert!(!line.contains(['\n', '\r']));
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["body"]["b"], 2);
        assert!(event(&sample("")).unwrap().ends_with(r#""body":null}"#));
        assert!(event(&sample("{broken")).is_err());
    }

    #[test]
    fn raw_text_stays_raw_and_escaped() {
        let request = v1::OpenRequest { shown: "a\x1b\u{202e}".into(), ..Default::default() };
        let text = open_request(&request).to_string();
        assert!(!text.contains('\x1b') && text.contains(r"\u001b"));
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["shown"], "a\x1b\u{202e}");
    }

    #[test]
    fn a_session_has_what_the_contract_names() {
        let value = session(&v1::Session {
            summary: Some(v1::SessionSummary {
                session_id: "s_1".into(),
                state: v1::SessionState::Waiting as i32,
                cost_micro_usd: 1_500_000,
                ..Default::default()
            }),
            pause_reason: "limit".into(),
            ..Default::default()
        });
        let keys =
            ["id", "name", "cwd", "state", "model", "last_seq", "open_requests", "cost_usd", "next", "calls"];
        for key in keys {
            assert!(value.get(key).is_some(), "{key}");
        }
        assert_eq!((&value["state"], &value["cost_usd"]), (&json!("waiting"), &json!(1.5)));
        for key in ["ok", "error", "denied", "invalid", "timed_out", "cancelled", "unknown"] {
            assert_eq!(value["calls"][key], 0, "{key}");
        }
    }
}
