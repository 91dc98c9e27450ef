//! `agentctl new`: a session that somebody will attend.

use super::{GlobalArgs, print_json, print_line, values};
use crate::api;
use crate::connect::link::Link;
use crate::connect::{connect, session_env};
use crate::error::ClientError;
use crate::render::json;
use agentd_proto::v1;
use std::path::PathBuf;
use std::process::ExitCode;

/// What `new` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  id=$(agentctl new --name docs --cwd ~/project) && agentctl attach \"$id\"")]
pub struct NewArgs {
    /// Folder of the session (default: here)
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// A name to call it by
    #[arg(long)]
    pub name: Option<String>,
    /// Model, as provider/model
    #[arg(long, value_name = "P/M")]
    pub model: Option<String>,
    /// What may be done without asking
    #[arg(long, value_enum, value_name = "MODE", default_value = "ask")]
    pub permission_mode: values::Mode,
    /// Most model steps of a turn
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u32>,
    /// Most money of a turn, in US dollars
    #[arg(long, value_name = "USD", value_parser = values::micro_usd)]
    pub max_cost: Option<i64>,
    /// The workspace may be / or contain agentd's own home
    #[arg(long)]
    pub broad_workspace: bool,
}

/// Runs the command.
pub async fn run(args: NewArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let cwd = values::folder(args.cwd.as_deref())?;
    let link = Link::from(connect(global).await?);
    let given_limits = args.max_steps.is_some() || args.max_cost.is_some();
    let request = v1::CreateSessionRequest {
        request_id: api::fresh_request_id()?,
        client_label: "agentctl new".to_owned(),
        cwd: values::path_bytes(&cwd),
        env: session_env().into_iter().collect(),
        model: args.model,
        mode: v1::PermissionMode::from(args.permission_mode).into(),
        limits: given_limits.then(|| v1::TurnLimits {
            max_steps: args.max_steps,
            max_cost_micro_usd: args.max_cost,
            ..Default::default()
        }),
        attended: true,
        name: args.name,
        broad_workspace: args.broad_workspace,
        ..Default::default()
    };
    let session = api::create_session(&link, request).await?.session.unwrap_or_default();
    if global.json {
        print_json(&json::session(&session))?;
    } else {
        print_line(&session.summary.unwrap_or_default().session_id)?;
    }
    Ok(ExitCode::SUCCESS)
}
