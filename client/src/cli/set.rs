//! `agentctl set`: changing a session while it lives.

use super::{GlobalArgs, print_json, values};
use crate::api;
use crate::connect::link::Link;
use crate::connect::{connect, session_env};
use crate::error::ClientError;
use agentd_proto::v1;
use std::process::ExitCode;

/// What `set` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A stricter mode holds at once; a new model begins with the next turn.

Examples:
  agentctl set s_01h --permission-mode read-only
  agentctl set s_01h --name parser")]
#[command(group = clap::ArgGroup::new("changes").required(true).multiple(true))]
pub struct SetArgs {
    /// The session: id, beginning of an id, or name
    #[arg(value_name = "ID")]
    pub session: String,
    /// A new name; empty removes it
    #[arg(long, value_name = "NAME", group = "changes")]
    pub name: Option<String>,
    /// Another model, as provider/model; only between turns
    #[arg(long, value_name = "P/M", group = "changes")]
    pub model: Option<String>,
    /// What may be done without asking
    #[arg(long, value_enum, value_name = "MODE", group = "changes")]
    pub permission_mode: Option<values::Mode>,
}

/// Runs the command.
pub async fn run(args: SetArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let link = Link::from(connect(global).await?);
    let session = api::find_session(&link, &args.session).await?;
    let request = v1::UpdateSessionRequest {
        request_id: api::fresh_request_id()?,
        client_label: "agentctl set".to_owned(),
        session_id: session.summary.unwrap_or_default().session_id,
        name: args.name,
        model: args.model,
        mode: args.permission_mode.map(|mode| v1::PermissionMode::from(mode).into()),
        env: session_env().into_iter().collect(),
        ..Default::default()
    };
    let answer = api::update_session(&link, request).await?;
    if global.json {
        let last_seq = answer.session.and_then(|session| session.summary).unwrap_or_default().last_seq;
        print_json(&serde_json::json!({"last_seq": last_seq}))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use crate::cli::parse;
    use std::ffi::OsString;

    #[test]
    fn there_must_be_something_to_set() {
        let parsed = |args: &[&str]| {
            let all = ["agentctl", "set"].iter().chain(args).map(OsString::from);
            parse(all).map(|_| ())
        };
        assert_eq!(parsed(&["s_1"]), Err(std::process::ExitCode::from(2)));
        assert_eq!(parsed(&["--name", "x"]), Err(std::process::ExitCode::from(2)));
        assert_eq!(parsed(&["s_1", "--name", "x", "--permission-mode", "full"]), Ok(()));
    }
}
