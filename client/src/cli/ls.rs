//! `agentctl ls`: the sessions.

use super::{GlobalArgs, print_json, print_line, values};
use crate::api;
use crate::connect::connect;
use crate::connect::link::Link;
use crate::error::ClientError;
use crate::render::style::{Ink, Style};
use crate::render::{json, safe, words};
use agentd_proto::v1;
use std::path::PathBuf;
use std::process::ExitCode;

/// What `ls` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agentctl ls
  agentctl ls --state waiting                     who waits for an answer
  agentctl ls --json | jq -r '.[] | select(.state == \"idle\") | .id'")]
pub struct LsArgs {
    /// Only sessions of this folder
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Only sessions in this state: idle, running, waiting, paused, interrupted, failed, closed
    #[arg(long)]
    pub state: Option<String>,
}

const STATES: &[&str] = &["idle", "running", "waiting", "paused", "interrupted", "failed", "closed"];

/// Runs the command.
pub async fn run(args: LsArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    if let Some(state) = args.state.as_deref().filter(|state| !STATES.contains(state)) {
        return Err(ClientError::usage(format!("there is no state {state:?}"))
            .hint(format!("the states are {}", STATES.join(", "))));
    }
    let cwd = args.cwd.map(|cwd| values::folder(Some(&cwd))).transpose()?;
    let link = Link::from(connect(global).await?);
    let mut list = api::list_sessions(&link, cwd.map(|cwd| values::path_bytes(&cwd)), true).await?;
    if let Some(state) = &args.state {
        list.retain(|summary| words::session_state(summary.state) == *state);
    }
    if global.json {
        print_json(&list.iter().map(json::summary).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if list.is_empty() {
        super::note("no sessions; agentctl run \"...\" or agentctl new begins one");
    }
    let style = Style::of(std::io::stdout());
    for summary in &list {
        print_line(&row(style, summary))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(style: Style, summary: &v1::SessionSummary) -> String {
    let state = words::session_state(summary.state);
    let padded = format!("{state:<11}");
    let inked = match state.as_str() {
        "waiting" | "paused" | "interrupted" => style.paint(Ink::Yellow, &padded),
        "running" => style.paint(Ink::Green, &padded),
        "failed" => style.paint(Ink::Red, &padded),
        _ => style.paint(Ink::Dim, &padded),
    };
    let mut facts = vec![safe::inline_cut(&summary.model, 40)];
    if !summary.open_requests.is_empty() {
        facts.push(format!("{} to answer", summary.open_requests.len()));
    }
    if summary.cost_micro_usd > 0 {
        facts.push(words::cost(summary.cost_micro_usd, summary.cost_unknown));
    }
    if !summary.name.is_empty() {
        facts.push(safe::inline_cut(&summary.name, 40));
    }
    let folder =
        summary.cwd.as_ref().map(|cwd| safe::inline(&cwd.path_display).into_owned()).unwrap_or_default();
    format!("{}  {inked} {}  {folder}", safe::inline(&summary.session_id), facts.join("  "))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_begins_with_the_whole_id() {
        let summary = v1::SessionSummary {
            session_id: "s_1".into(),
            name: "docs\x1b".into(),
            state: v1::SessionState::Waiting.into(),
            model: "demo/tour".into(),
            open_requests: vec![v1::OpenRequest::default()],
            ..Default::default()
        };
        assert_eq!(row(Style::PLAIN, &summary), "s_1  waiting     demo/tour  1 to answer  docs\\x1b");
    }

    #[test]
    fn every_state_has_its_word() {
        for (number, word) in (1..).zip(STATES) {
            assert_eq!(words::session_state(number), *word);
        }
    }
}
