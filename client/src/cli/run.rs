//! `agentctl run`: one turn, headless and unattended.

use super::wait::{Output, Wait};
use super::{GlobalArgs, print_json, print_line, values};
use crate::api;
use crate::attach::outcome::{TurnWatch, Which};
use crate::connect::link::Link;
use crate::connect::{connect, session_env};
use crate::error::ClientError;
use crate::render::safe;
use agentd_proto::v1;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// What this client calls itself.
const LABEL: &str = "agentctl run";

/// What `run` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agentctl run \"why does the build fail?\"
  agentctl run --permission-mode workspace \"fix the failing test\"
  git diff | agentctl run --output json -  | jq -r .text

Nobody is asked: what would ask is denied, unless --approvals wait.
Ctrl-C, SIGTERM and SIGHUP ask the turn to stop and wait for its end; a second one leaves at once.
Exit codes: 0 completed, 1 ended otherwise, 2 usage, 3 configuration, 4 daemon not reachable,
5 completed but a call was denied because nobody could approve it, 6 provider failed, 130 interrupted.")]
pub struct RunArgs {
    /// What to do; `-` reads it from stdin
    pub prompt: String,
    /// Folder of the session (default: here)
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Go on in this session (id, beginning of an id, or name)
    #[arg(long, value_name = "ID", conflicts_with_all = ["cwd", "continue_last"])]
    pub session: Option<String>,
    /// Go on in the session of this folder that changed last
    #[arg(long = "continue")]
    pub continue_last: bool,
    /// Model, as provider/model
    #[arg(long, value_name = "P/M")]
    pub model: Option<String>,
    /// What may be done without asking [default: ask]
    #[arg(long, value_enum, value_name = "MODE")]
    pub permission_mode: Option<values::Mode>,
    /// What happens where somebody would be asked: `deny`, `wait`, or `wait=30m`
    #[arg(long, value_name = "deny|wait[=T]", default_value = "deny", value_parser = approvals)]
    pub approvals: Approvals,
    /// Most model steps
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u32>,
    /// Most money, in US dollars
    #[arg(long, value_name = "USD", value_parser = values::micro_usd)]
    pub max_cost: Option<i64>,
    /// Ask the turn to stop after this time (90s, 30m, 2h)
    #[arg(long, value_name = "T", value_parser = values::duration)]
    pub timeout: Option<Duration>,
    /// How the result is printed [default: text, or json with --json]
    #[arg(long, value_enum)]
    pub output: Option<Output>,
    /// Print the session's id and leave it to work
    #[arg(long)]
    pub detach: bool,
    /// Keep the requests to the model and its answers as files, without secrets
    #[arg(long)]
    pub record: bool,
    /// The workspace may be / or contain agentd's own home
    #[arg(long)]
    pub broad_workspace: bool,
}

/// What happens where somebody would be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approvals {
    /// Denied at once.
    Deny,
    /// Asked, and waited for so long, or as long as configured.
    Wait(Option<Duration>),
}

fn approvals(text: &str) -> Result<Approvals, String> {
    match text.split_once('=') {
        None if text == "deny" => Ok(Approvals::Deny),
        None if text == "wait" => Ok(Approvals::Wait(None)),
        Some(("wait", time)) => values::duration(time).map(|time| Approvals::Wait(Some(time))),
        _ => Err("write deny, wait or wait=30m".to_owned()),
    }
}

/// Runs the command.
pub async fn run(args: RunArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let output = args.output.unwrap_or(if global.json { Output::Json } else { Output::Text });
    let prompt = values::prompt(&args.prompt)?;
    let cwd = values::folder(args.cwd.as_deref())?;
    let connection = connect(global).await?;
    let records = connection.place.records_dir();
    let link = Link::from(connection);
    let session = match existing(&link, &args, &cwd).await? {
        Some(session) => adjusted(&link, &args, session).await?,
        None => created(&link, &args, &cwd).await?,
    };
    let is_recorded = session.record;
    let summary = session.summary.unwrap_or_default();
    if is_recorded {
        let folder = records.join(&summary.session_id);
        super::note(&format!("recorded in {}", safe::inline(&folder.to_string_lossy())));
    }
    let sent = api::send_input(
        &link,
        v1::SendInputRequest {
            request_id: api::fresh_request_id()?,
            client_label: LABEL.to_owned(),
            session_id: summary.session_id.clone(),
            parts: vec![v1::InputPart { part: Some(v1::input_part::Part::Text(prompt)) }],
            delivery: v1::Delivery::Queue.into(),
            withdraw_input_id: None,
            env: session_env().into_iter().collect(),
        },
    )
    .await?;
    if args.detach {
        return detached(&summary.session_id, &sent, output);
    }
    if output == Output::Text {
        super::note(&format!("session {}", safe::inline(&summary.session_id)));
    }
    let which = sent.turn_id.map_or(Which::OfInput(sent.input_id), Which::Turn);
    let wait = Wait {
        link,
        label: LABEL,
        watch: TurnWatch::new(&summary.session_id, which),
        session_id: summary.session_id,
        after_seq: summary.last_seq,
        output,
        timeout: args.timeout,
    };
    wait.finish().await
}

fn detached(session_id: &str, sent: &v1::SendInputResponse, output: Output) -> Result<ExitCode, ClientError> {
    match output {
        Output::Text => print_line(session_id)?,
        Output::Json | Output::StreamJson => print_json(&serde_json::json!({
            "session": session_id, "input_id": sent.input_id, "turn_id": sent.turn_id, "seq": sent.seq,
        }))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn existing(link: &Link, args: &RunArgs, cwd: &Path) -> Result<Option<v1::Session>, ClientError> {
    if let Some(session) = &args.session {
        return api::find_session(link, session).await.map(Some);
    }
    if !args.continue_last {
        return Ok(None);
    }
    let list = api::list_sessions(link, Some(values::path_bytes(cwd)), false).await?;
    let Some(last) = list.first() else {
        return Err(ClientError::config(format!("no session to continue in {}", cwd.display()))
            .hint("agentctl run without --continue begins one"));
    };
    api::find_session(link, &last.session_id).await.map(Some)
}

fn limits(args: &RunArgs) -> Option<v1::TurnLimits> {
    let given = args.max_steps.is_some() || args.max_cost.is_some();
    given.then(|| v1::TurnLimits {
        max_steps: args.max_steps,
        max_cost_micro_usd: args.max_cost,
        ..Default::default()
    })
}

async fn created(link: &Link, args: &RunArgs, cwd: &Path) -> Result<v1::Session, ClientError> {
    let (unattended, expire) = match args.approvals {
        Approvals::Deny => (v1::UnattendedApprovals::Deny, None),
        Approvals::Wait(time) => (v1::UnattendedApprovals::Wait, time),
    };
    let request = v1::CreateSessionRequest {
        request_id: api::fresh_request_id()?,
        client_label: LABEL.to_owned(),
        cwd: values::path_bytes(cwd),
        env: session_env().into_iter().collect(),
        model: args.model.clone(),
        mode: args.permission_mode.map_or(v1::PermissionMode::Ask, Into::into).into(),
        limits: limits(args),
        attended: false,
        on_restart: v1::OnRestart::Continue.into(),
        unattended_approvals: unattended.into(),
        approvals_expire_ms: expire.map(values::wire_ms),
        broad_workspace: args.broad_workspace,
        record: args.record,
        ..Default::default()
    };
    let answer = api::create_session(link, request).await?;
    answer.session.ok_or_else(|| ClientError::failed("the daemon answered without the session"))
}

/// An existing session with what was asked for on the command line.
async fn adjusted(link: &Link, args: &RunArgs, session: v1::Session) -> Result<v1::Session, ClientError> {
    let limits = limits(args);
    if args.model.is_none() && args.permission_mode.is_none() && limits.is_none() && !args.record {
        return Ok(session);
    }
    let request = v1::UpdateSessionRequest {
        request_id: api::fresh_request_id()?,
        client_label: LABEL.to_owned(),
        session_id: session.summary.map(|summary| summary.session_id).unwrap_or_default(),
        model: args.model.clone(),
        mode: args.permission_mode.map(|mode| v1::PermissionMode::from(mode).into()),
        limits,
        // Only to begin with it: the flag's absence says nothing about what an earlier run began.
        record: args.record.then_some(true),
        env: session_env().into_iter().collect(),
        ..Default::default()
    };
    let answer = api::update_session(link, request).await?;
    answer.session.ok_or_else(|| ClientError::failed("the daemon answered without the session"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approvals_are_denied_or_waited_for() {
        assert_eq!(approvals("deny"), Ok(Approvals::Deny));
        assert_eq!(approvals("wait"), Ok(Approvals::Wait(None)));
        assert_eq!(approvals("wait=30m"), Ok(Approvals::Wait(Some(Duration::from_secs(1_800)))));
        for wrong in ["allow", "deny=3m", "wait=", "wait=soon"] {
            assert!(approvals(wrong).is_err(), "{wrong}");
        }
    }
}
