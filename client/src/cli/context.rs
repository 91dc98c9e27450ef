//! `agentctl context`: what fills a session's context, and why.

use super::{GlobalArgs, print_json, print_line};
use crate::api;
use crate::connect::connect;
use crate::connect::link::Link;
use crate::error::ClientError;
use crate::render::style::Style;
use crate::render::{json, ledger};
use agentd_proto::v1;
use std::process::ExitCode;

/// What `context` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Tokens with ~ are estimated, the others counted by the provider.

Examples:
  agentctl context s_01h
  agentctl context s_01h --top 10
  agentctl context s_01h --json | jq '.regions'")]
pub struct ContextArgs {
    /// The session: id, beginning of an id, or name
    #[arg(value_name = "ID")]
    pub session: String,
    /// Only so many items, the largest first
    #[arg(long, value_name = "N")]
    pub top: Option<u32>,
}

/// Runs the command.
pub async fn run(args: ContextArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let link = Link::from(connect(global).await?);
    let session = api::find_session(&link, &args.session).await?;
    let request = v1::GetContextRequest {
        session_id: session.summary.unwrap_or_default().session_id,
        at_seq: None,
        items: args.top,
    };
    let answer = api::get_context(&link, request).await?;
    if global.json {
        print_json(&json::context(&answer))?;
        return Ok(ExitCode::SUCCESS);
    }
    let style = Style::of(std::io::stdout());
    let lines = ledger::regions(style, &answer)
        .into_iter()
        .chain(ledger::items(style, &answer))
        .chain(ledger::epochs(&answer));
    for line in lines {
        print_line(&line)?;
    }
    Ok(ExitCode::SUCCESS)
}
