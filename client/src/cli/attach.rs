//! `agentctl attach`: a session in a terminal, any number at once.

use super::{GlobalArgs, values};
use crate::api;
use crate::attach::follow::FollowOptions;
use crate::attach::interactive::{Attached, Manner};
use crate::attach::typed::Typed;
use crate::connect::connect;
use crate::connect::link::Link;
use crate::error::ClientError;
use crate::render::out::{Printer, To};
use crate::render::style::Style;
use crate::render::transcript::Transcript;
use agentd_proto::v1;
use std::process::ExitCode;

/// What `attach` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Type a text to say it to the model, y or n to answer a request, /help for the rest.
Leaving (/quit, Ctrl-C, Ctrl-D) never stops the session.

Examples:
  agentctl attach                     the session of this folder that changed last
  agentctl attach s_01h --after 120   only what came after event 120
  agentctl attach s_01h --read-only --plain | tee log")]
pub struct AttachArgs {
    /// The session: id, beginning of an id, or name (default: the last changed one, of this folder first)
    #[arg(value_name = "ID")]
    pub session: Option<String>,
    /// Show the events after this one
    #[arg(long, value_name = "SEQ", conflicts_with = "history")]
    pub after: Option<u64>,
    /// How much of the past to show
    #[arg(long, value_enum, default_value = "full")]
    pub history: HistoryArg,
    /// Look, do not touch
    #[arg(long)]
    pub read_only: bool,
    /// No colours
    #[arg(long)]
    pub plain: bool,
}

/// How much of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HistoryArg {
    /// All of it
    Full,
    /// From the beginning of the open turn
    Pending,
    /// None of it
    None,
}

/// Runs the command.
pub async fn run(args: AttachArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let link = Link::from(connect(global).await?);
    let session_id = chosen(&link, args.session.as_deref()).await?;
    let style = if args.plain { Style::PLAIN } else { Style::of(std::io::stdout()) };
    let options = FollowOptions {
        session_id: session_id.clone(),
        after_seq: args.after,
        history: match args.history {
            HistoryArg::Full => v1::History::Full,
            HistoryArg::Pending => v1::History::Pending,
            HistoryArg::None => v1::History::None,
        },
        role: if args.read_only { v1::AttachRole::Observer } else { v1::AttachRole::Interactive },
        deltas: true,
        include_raw: global.json,
    };
    let manner = Manner { json: global.json, read_only: args.read_only };
    let transcript = Transcript::new(style, std::process::id());
    let printer = Printer::new(To::Stdout, To::Stdout);
    let attached = Attached::new(link, session_id, manner, transcript, printer);
    super::while_read(attached.run(options, Typed::stdin())).await?;
    Ok(ExitCode::SUCCESS)
}

async fn chosen(link: &Link, given: Option<&str>) -> Result<String, ClientError> {
    if let Some(session) = given {
        return Ok(api::find_session(link, session).await?.summary.unwrap_or_default().session_id);
    }
    // A folder that is gone still has no session of its own; the last changed one is offered then.
    let here = values::folder(None).ok().map(|path| values::path_bytes(&path));
    let mut list = Vec::new();
    if here.is_some() {
        list = api::list_sessions(link, here, false).await?;
    }
    if list.is_empty() {
        list = api::list_sessions(link, None, false).await?;
    }
    let last = list.into_iter().next();
    last.map(|summary| summary.session_id).ok_or_else(|| {
        ClientError::config("there is no session to attach to").hint("agentctl new   begins one")
    })
}
