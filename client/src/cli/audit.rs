//! `agentctl audit`: what was asked, decided, executed and returned, and whether the trail is whole.

use super::{GlobalArgs, print_json, print_line};
use crate::api;
use crate::connect::link::Link;
use crate::connect::{connect, stub};
use crate::error::ClientError;
use crate::render::style::Style;
use crate::render::{json, safe};
use agentd_proto::v1;
use agentd_proto::v1::read_audit_response::Frame;
use std::process::ExitCode;

/// What `audit` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agentctl audit ls s_01h
  agentctl audit ls --json | jq '.[] | select(.action == \"decided\")'
  agentctl audit verify")]
pub struct AuditArgs {
    /// What to do with the trail
    #[command(subcommand)]
    pub what: AuditCommand,
}

/// What to do with the trail.
#[derive(Debug, clap::Subcommand)]
pub enum AuditCommand {
    /// List its rows
    Ls {
        /// Only of this session
        #[arg(value_name = "ID")]
        session: Option<String>,
        /// Only of this call
        #[arg(long, value_name = "CALL")]
        call: Option<String>,
    },
    /// Check that no row was changed or removed
    Verify,
}

/// Runs the command.
pub async fn run(args: AuditArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let link = Link::from(connect(global).await?);
    match args.what {
        AuditCommand::Ls { session, call } => list(&link, session, call, global).await,
        AuditCommand::Verify => verify(&link, global).await,
    }
}

async fn list(
    link: &Link,
    session: Option<String>,
    call: Option<String>,
    global: &GlobalArgs,
) -> Result<ExitCode, ClientError> {
    let session_id = match session {
        // The trail outlives its sessions: a whole id is taken as it is.
        Some(id) if id.starts_with("s_") && id.len() == 28 => Some(id),
        Some(name) => Some(api::find_session(link, &name).await?.summary.unwrap_or_default().session_id),
        None => None,
    };
    let request = v1::ReadAuditRequest { session_id, call_id: call, ..Default::default() };
    let (channel, _) = link.channel();
    let mut client = stub::audit(channel);
    let mut stream = client.read_audit(request).await?.into_inner();
    let style = Style::of(std::io::stdout());
    let mut rows = Vec::new();
    while let Some(message) = stream.message().await? {
        let Some(Frame::Row(row)) = message.frame else { continue };
        if global.json {
            rows.push(json::audit_row(&row));
        } else {
            print_line(&line(style, &row))?;
        }
    }
    if global.json {
        print_json(&rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn line(style: Style, row: &v1::AuditRow) -> String {
    let mut facts = vec![format!("{:>6}  {:<9}", row.audit_no, safe::inline(&row.action))];
    for text in [&row.tool, &row.decision, &row.outcome] {
        if !text.is_empty() {
            facts.push(safe::inline_cut(text, 40));
        }
    }
    if !row.rule.is_empty() {
        facts.push(format!("({})", safe::inline_cut(&row.rule, 60)));
    }
    if row.actor.starts_with("client") || row.action == "answered" {
        facts.push(format!("by {}", safe::inline_cut(&row.actor, 60)));
    }
    facts.push(safe::inline(&row.call_id).into_owned());
    let head = facts.join(" ");
    if row.args.is_empty() {
        return head.trim_end().to_owned();
    }
    let room = style.room(head.chars().count() + 2);
    format!("{head}  {}", safe::inline_cut(&row.args, room))
}

async fn verify(link: &Link, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let request = v1::ReadAuditRequest { verify: true, ..Default::default() };
    let (channel, _) = link.channel();
    let mut stream = stub::audit(channel).read_audit(request).await?.into_inner();
    let mut found = None;
    while let Some(message) = stream.message().await? {
        if let Some(Frame::Verification(verification)) = message.frame {
            found = Some(verification);
        }
    }
    let Some(found) = found else {
        return Err(ClientError::failed("the daemon ended the verification without a result"));
    };
    if global.json {
        print_json(&serde_json::json!({"ok": found.ok, "rows": found.rows, "first_bad": found.first_bad}))?;
    } else if found.ok {
        print_line(&format!("the audit trail is whole: {} rows", found.rows))?;
    }
    if found.ok {
        return Ok(ExitCode::SUCCESS);
    }
    let bad = found.first_bad.map_or_else(|| "an unknown row".to_owned(), |row| format!("row {row}"));
    Err(ClientError::failed(format!(
        "the audit trail is broken at {bad}: it was changed after it was written"
    ))
    .hint("keep the data folder as it is; rows before that one can be trusted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_safe_line() {
        let row = v1::AuditRow {
            audit_no: 3,
            action: "answered".into(),
            tool: "run_command".into(),
            decision: "allow".into(),
            actor: "agentctl approve (pid 7)".into(),
            call_id: "c_1".into(),
            args: "{\"command\":\"a\nb\x1b\"}".into(),
            ..Default::default()
        };
        assert_eq!(
            line(Style::PLAIN, &row),
            "     3  answered  run_command allow by agentctl approve (pid 7) c_1  {\"command\":\"a\\nb\\x1b\"}"
        );
    }
}
