//! `agentctl events`: the log of a session as NDJSON.

use super::{GlobalArgs, print_line};
use crate::api;
use crate::attach::follow::{Follow, FollowOptions, Step};
use crate::attach::interactive::bad_body;
use crate::connect::connect;
use crate::connect::link::Link;
use crate::error::ClientError;
use crate::render::json;
use agentd_proto::v1;
use std::process::ExitCode;

/// Events of a page.
const PAGE_EVENTS: u32 = 500;

/// What `events` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
One JSON object a line: seq, at_ms, kind, turn_id, call_id, origin, body.

Examples:
  agentctl events s_01h | jq -c 'select(.kind == \"call_finished\") | .body.outcome'
  agentctl events s_01h --after 120 --follow")]
pub struct EventsArgs {
    /// The session: id, beginning of an id, or name
    #[arg(value_name = "ID")]
    pub session: String,
    /// Only events after this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub after: u64,
    /// Go on with what happens
    #[arg(long, short)]
    pub follow: bool,
}

/// Runs the command.
pub async fn run(args: EventsArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let link = Link::from(connect(global).await?);
    let session_id = api::find_session(&link, &args.session).await?.summary.unwrap_or_default().session_id;
    if args.follow {
        super::while_read(follow(link, session_id, args.after)).await?;
    } else {
        pages(&link, &session_id, args.after).await?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(event: &v1::Event) -> Result<(), ClientError> {
    print_line(&json::event(event).map_err(|source| bad_body(event, source))?)
}

async fn pages(link: &Link, session_id: &str, after: u64) -> Result<(), ClientError> {
    let mut after_seq = after;
    loop {
        let request = v1::ReadEventsRequest {
            session_id: session_id.to_owned(),
            after_seq: Some(after_seq),
            limit: PAGE_EVENTS,
            include_raw: true,
            ..Default::default()
        };
        let page = api::read_events(link, request).await?;
        for event in page.events.iter().filter(|event| event.seq > after_seq) {
            print(event)?;
        }
        let last = page.events.last().map_or(after_seq, |event| event.seq);
        // A page that brings nothing new is the end, whatever it says of a next one.
        if page.next_seq.is_none() || last <= after_seq {
            return Ok(());
        }
        after_seq = last;
    }
}

async fn follow(link: Link, session_id: String, after: u64) -> Result<(), ClientError> {
    let session = session_id.clone();
    let mut follow = Follow::new(
        link,
        FollowOptions {
            session_id,
            after_seq: Some(after),
            history: v1::History::Full,
            role: v1::AttachRole::Observer,
            deltas: false,
            include_raw: true,
        },
    );
    loop {
        match follow.next().await? {
            Step::Event(event) => print(&event)?,
            Step::Lost(why) => super::note(&format!("! the daemon is gone ({why}); looking for it")),
            Step::Ended(_) => return Ok(()),
            Step::Stopped => {
                let at = follow.seen_seq();
                super::note(&format!(
                    "the daemon was stopped; to go on: agentctl events {session} --after {at} --follow"
                ));
                return Ok(());
            }
            Step::Snapshot(_) | Step::Delta(_) | Step::CaughtUp | Step::Lagged(_) | Step::Back { .. } => {}
        }
    }
}
