//! `agentctl interrupt` and `resume`: stopping work and letting it go on.

use super::{GlobalArgs, print_json};
use crate::api;
use crate::attach::said;
use crate::connect::link::Link;
use crate::connect::{connect, session_env};
use crate::error::ClientError;
use agentd_proto::v1;
use std::process::ExitCode;

/// What `interrupt` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Running calls are stopped and keep what they had printed; the session stays usable.

Example:
  agentctl interrupt s_01h")]
pub struct InterruptArgs {
    /// The session: id, beginning of an id, or name
    #[arg(value_name = "ID")]
    pub session: String,
    /// Stop only this call
    #[arg(long, value_name = "CALL")]
    pub call: Option<String>,
}

/// What `resume` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Lets a turn go on that waits after a restart, at a limit, or for a key. A call whose outcome is not known
needs a word: done (it happened), retry (run it again), failed (it did not happen).

Examples:
  agentctl resume s_01h
  agentctl resume s_01h --call c_01h=done")]
pub struct ResumeArgs {
    /// The session: id, beginning of an id, or name
    #[arg(value_name = "ID")]
    pub session: String,
    /// What became of a call: CALL=done|retry|failed, with an optional :TEXT for the model
    #[arg(long = "call", value_name = "CALL=WORD")]
    pub calls: Vec<String>,
}

/// Runs `interrupt`.
pub async fn interrupt(args: InterruptArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let link = Link::from(connect(global).await?);
    let session = api::find_session(&link, &args.session).await?;
    let request = v1::InterruptRequest {
        request_id: api::fresh_request_id()?,
        client_label: "agentctl interrupt".to_owned(),
        session_id: session.summary.unwrap_or_default().session_id,
        target: args.call.map(v1::interrupt_request::Target::CallId),
        hard: false,
    };
    let answer = api::interrupt(&link, request).await?;
    if global.json {
        print_json(&serde_json::json!({"seq": answer.seq, "already_over": answer.already_over}))?;
    } else if answer.already_over {
        super::note("nothing was running");
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `resume`.
pub async fn resume(args: ResumeArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let resolutions = args.calls.iter().map(|text| said::resolution(text)).collect::<Result<_, _>>()?;
    let link = Link::from(connect(global).await?);
    let session = api::find_session(&link, &args.session).await?;
    let request = v1::ResumeTurnRequest {
        request_id: api::fresh_request_id()?,
        client_label: "agentctl resume".to_owned(),
        session_id: session.summary.unwrap_or_default().session_id,
        resolutions,
        extend_limits: true,
        env: session_env().into_iter().collect(),
    };
    let answer = api::resume_turn(&link, request).await?;
    if global.json {
        print_json(&serde_json::json!({"seq": answer.seq}))?;
    }
    Ok(ExitCode::SUCCESS)
}
