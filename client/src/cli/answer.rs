//! `agentctl approvals`, `approve` and `deny`: what people are asked, and their answers, from anywhere.

use super::{GlobalArgs, print_json, print_line, values};
use crate::api;
use crate::connect::connect;
use crate::connect::link::Link;
use crate::error::ClientError;
use crate::render::style::Style;
use crate::render::{json, lines, safe};
use agentd_proto::v1;
use std::process::ExitCode;
use std::time::Duration;

/// What `approvals` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agentctl approvals                 everything that waits for an answer, whole
  agentctl approvals --json | jq -r '.[].request_id'")]
pub struct ApprovalsArgs {
    /// Only of this session
    #[arg(value_name = "ID")]
    pub session: Option<String>,
}

/// How far an approval reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ScopeArg {
    /// This call
    Once,
    /// The rest of the session
    Session,
    /// The project
    Project,
    /// Everything of this user
    User,
}

impl From<ScopeArg> for v1::GrantScope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::Once => Self::Once,
            ScopeArg::Session => Self::Session,
            ScopeArg::Project => Self::Project,
            ScopeArg::User => Self::User,
        }
    }
}

/// What `approve` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It prints what it approves. The first answer wins; a later one is told who was faster.

Example:
  agentctl approvals && agentctl approve r_01h")]
pub struct ApproveArgs {
    /// The request: id or a unique beginning of it
    #[arg(value_name = "REQUEST")]
    pub request: String,
    /// How far the approval reaches; only `once` works so far
    #[arg(long, value_enum, default_value = "once")]
    pub scope: ScopeArg,
    /// When a wider approval ends (2h, 1d); of no use until one works
    #[arg(long, value_name = "T", value_parser = values::duration)]
    pub expires: Option<Duration>,
}

/// What `deny` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  agentctl deny r_01h --reason \"not on the main branch\"      the model reads the reason")]
pub struct DenyArgs {
    /// The request: id or a unique beginning of it
    #[arg(value_name = "REQUEST")]
    pub request: String,
    /// Why, for the model
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Runs `approvals`.
pub async fn list(args: ApprovalsArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let link = Link::from(connect(global).await?);
    let only = match &args.session {
        Some(session) => {
            Some(api::find_session(&link, session).await?.summary.unwrap_or_default().session_id)
        }
        None => None,
    };
    let open = open_requests(&link, only.as_deref()).await?;
    if global.json {
        print_json(&open.iter().map(json::open_request).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if open.is_empty() {
        super::note("nothing waits for an answer");
    }
    let style = Style::of(std::io::stdout());
    for request in &open {
        for line in lines::question(style, &lines::Question::from(request)) {
            print_line(&line)?;
        }
        print_line(&format!("  of session {}", safe::inline(&request.session_id)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `approve`.
pub async fn approve(args: ApproveArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let answer = v1::AnswerRequestRequest {
        client_label: "agentctl approve".to_owned(),
        answered_request_id: args.request,
        decision: v1::Verdict::Allow.into(),
        scope: v1::GrantScope::from(args.scope).into(),
        expires_in_ms: args.expires.map(values::wire_ms),
        ..Default::default()
    };
    answered(answer, "approved", global).await
}

/// Runs `deny`.
pub async fn deny(args: DenyArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let answer = v1::AnswerRequestRequest {
        client_label: "agentctl deny".to_owned(),
        answered_request_id: args.request,
        decision: v1::Verdict::Deny.into(),
        scope: v1::GrantScope::Once.into(),
        reason: args.reason,
        ..Default::default()
    };
    answered(answer, "denied", global).await
}

async fn answered(
    mut answer: v1::AnswerRequestRequest,
    word: &str,
    global: &GlobalArgs,
) -> Result<ExitCode, ClientError> {
    let link = Link::from(connect(global).await?);
    let prefix = answer.answered_request_id.clone();
    let open = open_requests(&link, None).await?;
    let mut fitting = open.iter().filter(|request| request.request_id.starts_with(&prefix));
    // Whatever does not fit exactly one open request is the daemon's to explain: answered, expired, unknown.
    if let (Some(request), None) = (fitting.next(), fitting.next()) {
        answer.answered_request_id.clone_from(&request.request_id);
        answer.shown_hash = (!request.shown_hash.is_empty()).then(|| request.shown_hash.clone());
        if !global.json {
            let style = Style::of(std::io::stderr());
            let shown = lines::question(style, &lines::Question::from(request));
            shown.iter().for_each(|line| super::note(line));
        }
    }
    answer.request_id = api::fresh_request_id()?;
    let result = api::answer_request(&link, answer).await?;
    if global.json {
        print_json(&serde_json::json!({
            "won": result.won, "answered_by": result.answered_by, "seq": result.seq,
        }))?;
    }
    if !result.won {
        return Err(ClientError::failed(format!("already answered by {}", result.answered_by)));
    }
    if !global.json {
        super::note(word);
    }
    Ok(ExitCode::SUCCESS)
}

async fn open_requests(link: &Link, session: Option<&str>) -> Result<Vec<v1::OpenRequest>, ClientError> {
    let list = api::list_sessions(link, None, true).await?;
    let mut open: Vec<_> = list
        .into_iter()
        .filter(|summary| session.is_none_or(|id| summary.session_id == id))
        .flat_map(|summary| {
            let session_id = summary.session_id;
            summary.open_requests.into_iter().map(move |mut request| {
                if request.session_id.is_empty() {
                    request.session_id.clone_from(&session_id);
                }
                request
            })
        })
        .collect();
    // Ids sort by the time they were made: the oldest question first.
    open.sort_by(|a, b| a.request_id.cmp(&b.request_id));
    Ok(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;

    #[test]
    fn help_says_which_scope_works() {
        let help = ApproveArgs::augment_args(clap::Command::new("approve")).render_help().to_string();
        assert!(help.contains("How far the approval reaches; only `once` works so far"), "{help}");
    }
}
