//! `agentctl show`: one session in detail.

use super::{GlobalArgs, print_json, print_line};
use crate::api;
use crate::connect::connect;
use crate::connect::link::Link;
use crate::error::ClientError;
use crate::render::style::Style;
use crate::render::{json, lines, safe, words};
use agentd_proto::v1;
use std::process::ExitCode;

/// What `show` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agentctl show s_01h
  agentctl show docs --json | jq .calls")]
pub struct ShowArgs {
    /// The session: id, beginning of an id, or name
    #[arg(value_name = "ID")]
    pub session: String,
}

/// Runs the command.
pub async fn run(args: ShowArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let link = Link::from(connect(global).await?);
    let session = api::find_session(&link, &args.session).await?;
    if global.json {
        print_json(&json::session(&session))?;
    } else {
        for line in detail(Style::of(std::io::stdout()), &session) {
            print_line(&line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn detail(style: Style, session: &v1::Session) -> Vec<String> {
    let summary = session.summary.clone().unwrap_or_default();
    let calls = summary.calls.unwrap_or_default();
    let fact = |name: &str, value: &str| format!("{name:<11}{}", safe::inline(value));
    let mut out = vec![fact("session", &summary.session_id)];
    let folder = summary.cwd.as_ref().map(|cwd| cwd.path_display.clone()).unwrap_or_default();
    let state = words::session_state(summary.state);
    for (name, value) in [
        ("name", summary.name.as_str()),
        ("folder", folder.as_str()),
        ("state", state.as_str()),
        ("waits for", session.pause_reason.as_str()),
        ("next", session.next.as_str()),
        ("model", summary.model.as_str()),
        ("mode", words::permission_mode(summary.mode).as_str()),
        ("last turn", session.last_status.map(words::turn_status).unwrap_or_default().as_str()),
        ("error", session.last_error.as_str()),
    ] {
        if !value.is_empty() {
            out.push(fact(name, value));
        }
    }
    out.push(fact("events", &summary.last_seq.to_string()));
    let ended = [
        ("ok", calls.ok),
        ("error", calls.error),
        ("denied", calls.denied),
        ("invalid", calls.invalid),
        ("timed out", calls.timed_out),
        ("cancelled", calls.cancelled),
        ("unknown", calls.unknown),
    ];
    let counted: Vec<String> =
        ended.iter().filter(|(_, n)| *n > 0).map(|(word, n)| format!("{n} {word}")).collect();
    out.push(fact("calls", &if counted.is_empty() { "none".to_owned() } else { counted.join(", ") }));
    out.push(fact("tokens", &lines::tokens(&summary.usage.unwrap_or_default())));
    out.push(fact("cost", &words::cost(summary.cost_micro_usd, summary.cost_unknown)));
    for call in &session.open_calls {
        let evidence = if call.evidence.is_empty() { String::new() } else { format!(" ({})", call.evidence) };
        out.push(fact("open call", &format!("{} {} {}{evidence}", call.call_id, call.tool, call.state)));
    }
    for input in &session.waiting_inputs {
        out.push(fact(
            "waiting",
            &format!("{} {}", input.input_id, safe::inline_cut(&input.text, style.room(42))),
        ));
    }
    for open in &summary.open_requests {
        out.extend(lines::question(style, &lines::Question::from(open)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_waits_and_what_comes_next() {
        let session = v1::Session {
            summary: Some(v1::SessionSummary {
                session_id: "s_1".into(),
                state: v1::SessionState::Paused.into(),
                calls: Some(v1::CallCounts { ok: 2, unknown: 1, ..Default::default() }),
                ..Default::default()
            }),
            pause_reason: "unknown_call".into(),
            next: "asks about c_1\x1b".into(),
            open_calls: vec![v1::OpenCall {
                call_id: "c_1".into(),
                tool: "run_command".into(),
                state: "unknown".into(),
                evidence: "no result".into(),
            }],
            ..Default::default()
        };
        let lines = detail(Style::PLAIN, &session);
        for line in [
            "state      paused",
            "waits for  unknown_call",
            "next       asks about c_1\\x1b",
            "calls      2 ok, 1 unknown",
            "open call  c_1 run_command unknown (no result)",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line} in {lines:#?}");
        }
    }
}
