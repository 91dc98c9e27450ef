//! `agentctl artifacts`: what was too large for the conversation.

use super::{GlobalArgs, note, print_json, print_line};
use crate::api;
use crate::connect::link::Link;
use crate::connect::{connect, stub};
use crate::error::ClientError;
use crate::render::style::{Ink, Style};
use crate::render::{json, safe, words};
use agentd_proto::v1;
use agentd_proto::v1::read_artifact_request::Part;
use agentd_proto::v1::read_artifact_response::Frame;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Artifacts of a page.
const PAGE_ARTIFACTS: u32 = 200;

/// What `artifacts` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agentctl artifacts ls s_01h
  agentctl artifacts get a_01h > whole.txt
  agentctl artifacts get a_01h --range 0-4096
  agentctl artifacts grep a_01h 'error|panicked' -B 2 -A 5")]
pub struct ArtifactsArgs {
    /// What to do with artifacts
    #[command(subcommand)]
    pub what: ArtifactsCommand,
}

/// What to do with artifacts.
#[derive(Debug, clap::Subcommand)]
pub enum ArtifactsCommand {
    /// List those of a session
    Ls {
        /// The session: id, beginning of an id, or name
        #[arg(value_name = "ID")]
        session: String,
    },
    /// Print one
    Get {
        /// The artifact's id
        #[arg(value_name = "A")]
        artifact: String,
        /// Only these bytes: from A up to B, B not included; B may be left out
        #[arg(long, value_name = "A-B", value_parser = byte_range)]
        range: Option<(u64, Option<u64>)>,
    },
    /// Print the lines of one that match a pattern
    #[command(after_help = "\
Examples:
  agentctl artifacts grep a_01h 'error|panicked'
  agentctl artifacts grep a_01h '(?i)warning' -B 2 -A 5 --max 20
  agentctl artifacts grep a_01h '^test .* FAILED$' --json

Matching lines are `number:line`, lines around them `number-line`. Exit code 1 when nothing matches.")]
    Grep(GrepArgs),
}

/// What `artifacts grep` is told.
#[derive(Debug, clap::Args)]
pub struct GrepArgs {
    /// The artifact's id
    #[arg(value_name = "A")]
    artifact: String,
    /// A regular expression in Rust's syntax, matched line by line
    #[arg(value_name = "PATTERN", allow_hyphen_values = true)]
    pattern: String,
    /// Lines to print before each match
    #[arg(short = 'B', long, value_name = "N", default_value_t = 0)]
    before: u32,
    /// Lines to print after each match
    #[arg(short = 'A', long, value_name = "N", default_value_t = 0)]
    after: u32,
    /// Matching lines, at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max: Option<u32>,
}

fn byte_range(text: &str) -> Result<(u64, Option<u64>), String> {
    let wrong = || format!("{text:?} is not a range of bytes; write 0-4096 or 4096-");
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let from: u64 = from.parse().map_err(|_| wrong())?;
    let to: Option<u64> = if to.is_empty() { None } else { Some(to.parse().map_err(|_| wrong())?) };
    if to.is_some_and(|to| to < from) { Err(wrong()) } else { Ok((from, to)) }
}

/// Runs the command.
pub async fn run(args: ArtifactsArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let link = Link::from(connect(global).await?);
    match args.what {
        ArtifactsCommand::Ls { session } => list(&link, &session, global).await?,
        ArtifactsCommand::Get { artifact, range } => get(&link, artifact, range, global).await?,
        ArtifactsCommand::Grep(args) => return grep(&link, args, global).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(link: &Link, session: &str, global: &GlobalArgs) -> Result<(), ClientError> {
    let session_id = api::find_session(link, session).await?.summary.unwrap_or_default().session_id;
    let mut all = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListArtifactsRequest {
            session_id: session_id.clone(),
            page_token: page_token.clone(),
            page_size: PAGE_ARTIFACTS,
        };
        let page = api::list_artifacts(link, request).await?;
        all.extend(page.artifacts);
        if page.next_page_token.is_empty() || page.next_page_token == page_token {
            break;
        }
        page_token = page.next_page_token;
    }
    if global.json {
        return print_json(&all.iter().map(json::artifact).collect::<Vec<_>>());
    }
    for artifact in &all {
        print_line(&format!(
            "{}  {:>12} bytes {:>9} lines  {}  {}",
            safe::inline(&artifact.artifact_id),
            words::grouped(artifact.size_bytes),
            words::grouped(artifact.line_count),
            safe::inline(&artifact.source),
            safe::inline(&artifact.call_id)
        ))?;
    }
    Ok(())
}

async fn get(
    link: &Link,
    artifact_id: String,
    range: Option<(u64, Option<u64>)>,
    global: &GlobalArgs,
) -> Result<(), ClientError> {
    let part = range.map(|(from_bytes, to_bytes)| Part::Bytes(v1::ByteRange { from_bytes, to_bytes }));
    let (channel, _) = link.channel();
    let mut client = stub::artifacts(channel);
    let mut stream = client.read_artifact(v1::ReadArtifactRequest { artifact_id, part }).await?.into_inner();
    let mut out = std::io::stdout();
    let terminal = out.is_terminal();
    let mut about = v1::Artifact::default();
    let mut whole = Vec::new();
    while let Some(message) = stream.message().await? {
        match message.frame {
            Some(Frame::Artifact(artifact)) => about = artifact,
            // A terminal must not obey bytes of a tool; a file or pipe gets them as they are.
            Some(Frame::Chunk(bytes)) if terminal || global.json => whole.extend_from_slice(&bytes),
            Some(Frame::Chunk(bytes)) => out.write_all(&bytes)?,
            Some(Frame::Match(_) | Frame::Searched(_)) | None => {}
        }
    }
    let text = String::from_utf8_lossy(&whole);
    if global.json {
        let mut value = json::artifact(&about);
        value["text"] = serde_json::Value::from(text.as_ref());
        return print_json(&value);
    }
    if terminal {
        out.write_all(safe::text(&text).as_bytes())?;
    }
    out.flush()?;
    Ok(())
}

async fn grep(link: &Link, args: GrepArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let pattern = v1::ArtifactPattern {
        regex: args.pattern,
        before: args.before,
        after: args.after,
        max: args.max.unwrap_or(0),
    };
    let request = v1::ReadArtifactRequest { artifact_id: args.artifact, part: Some(Part::Pattern(pattern)) };
    let (channel, _) = link.channel();
    let mut stream = stub::artifacts(channel).read_artifact(request).await?.into_inner();
    let style = Style::of(std::io::stdout());
    let has_context = args.before > 0 || args.after > 0;
    let (mut last, mut searched) = (None, None);
    while let Some(message) = stream.message().await? {
        match message.frame {
            Some(Frame::Match(found)) if global.json => print_json(&serde_json::json!({
                "line": found.line,
                "text": found.text,
                "match": !found.context,
                "offset": found.offset_bytes,
            }))?,
            Some(Frame::Match(found)) => {
                if has_context && last.is_some_and(|last| found.line > last + 1) {
                    print_line("--")?;
                }
                last = Some(found.line);
                let mark = if found.context { '-' } else { ':' };
                let number = style.paint(Ink::Dim, &format!("{}{mark}", found.line));
                print_line(&format!("{number}{}", safe::exact(&found.text)))?;
            }
            Some(Frame::Searched(end)) => searched = Some(end),
            Some(Frame::Artifact(_) | Frame::Chunk(_)) | None => {}
        }
    }
    let Some(searched) = searched else {
        return Err(ClientError::failed("the daemon ended the search before it was complete"));
    };
    if searched.stopped {
        note(&format!("stopped after {} matching lines; more follow (--max)", searched.matches));
    }
    if searched.long_lines > 0 {
        note(&format!(
            "{} lines are longer than 1 MiB and were searched in pieces; a match over 4 KiB may be missed there",
            searched.long_lines
        ));
    }
    Ok(ExitCode::from(u8::from(searched.matches == 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_go_forward() {
        assert_eq!(byte_range("0-4096"), Ok((0, Some(4096))));
        assert_eq!(byte_range("7-"), Ok((7, None)));
        for wrong in ["", "7", "-7", "9-3", "a-b"] {
            assert!(byte_range(wrong).is_err(), "{wrong}");
        }
    }
}
