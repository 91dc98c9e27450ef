//! `agentctl send`: an input for a session, from anywhere.

use super::wait::{Output, Wait};
use super::{GlobalArgs, print_json, values};
use crate::api;
use crate::attach::outcome::{TurnWatch, Which};
use crate::connect::link::Link;
use crate::connect::{connect, session_env};
use crate::error::ClientError;
use agentd_proto::v1;
use std::process::ExitCode;

const LABEL: &str = "agentctl send";

/// What `send` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agentctl send s_01h \"and add a test\"            begins a turn, or waits for the running one
  agentctl send s_01h --steer \"leave main.rs\"     reaches the running turn after its current step
  agentctl send s_01h --wait \"sum it up\"          prints the answer; exit codes as of run")]
pub struct SendArgs {
    /// The session: id, beginning of an id, or name
    #[arg(value_name = "ID")]
    pub session: String,
    /// What to say; `-` reads it from stdin
    pub prompt: String,
    /// Deliver it to the running turn, after its current step
    #[arg(long, conflicts_with = "queue")]
    pub steer: bool,
    /// Deliver it as a turn of its own (the default)
    #[arg(long)]
    pub queue: bool,
    /// Wait for the end of the turn that takes it
    #[arg(long)]
    pub wait: bool,
    /// How the result of --wait is printed
    #[arg(long, value_enum, requires = "wait")]
    pub output: Option<Output>,
}

/// Runs the command.
pub async fn run(args: SendArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let prompt = values::prompt(&args.prompt)?;
    let link = Link::from(connect(global).await?);
    let summary = api::find_session(&link, &args.session).await?.summary.unwrap_or_default();
    let delivery = if args.steer { v1::Delivery::Steer } else { v1::Delivery::Queue };
    let request = v1::SendInputRequest {
        request_id: api::fresh_request_id()?,
        client_label: LABEL.to_owned(),
        session_id: summary.session_id.clone(),
        parts: vec![v1::InputPart { part: Some(v1::input_part::Part::Text(prompt)) }],
        delivery: delivery.into(),
        withdraw_input_id: None,
        env: session_env().into_iter().collect(),
    };
    let sent = api::send_input(&link, request).await?;
    if args.wait {
        let output = args.output.unwrap_or(if global.json { Output::Json } else { Output::Text });
        let which = sent.turn_id.map_or(Which::OfInput(sent.input_id), Which::Turn);
        let wait = Wait {
            link,
            label: LABEL,
            watch: TurnWatch::new(&summary.session_id, which),
            session_id: summary.session_id,
            after_seq: summary.last_seq,
            output,
            timeout: None,
        };
        return wait.finish().await;
    }
    if global.json {
        print_json(&serde_json::json!({
            "session": summary.session_id, "input_id": sent.input_id, "turn_id": sent.turn_id, "seq": sent.seq,
        }))?;
    }
    Ok(ExitCode::SUCCESS)
}
