//! `read_artifact`: a range of bytes of stored content, cut between characters; `search_artifact`: its lines that match.

use super::walk::amount;
use super::{Tools, answer, args, text};
use crate::artifact_search::{Pattern, Search, SearchError, Wanted};
use crate::ports::{ArtifactRow, CallContext, StoreError};
use agentd_core::command::{CallEnd, CallFault};
use agentd_core::ids::ArtifactId;
use agentd_core::limits;

/// Kept free for what is said after the lines of a search.
const END_BYTES: usize = 400;

pub(super) async fn run(tools: &Tools, ctx: &CallContext) -> CallEnd {
    match read(tools, ctx).await {
        Ok(text) => answer::done(ctx, text),
        Err(fault) => answer::from_fault(ctx, fault),
    }
}

fn failed(error: &StoreError) -> CallFault {
    answer::fault("storage", format!("The artifact cannot be read: {error}"))
}

fn gone() -> CallFault {
    answer::fault("not_found", "The artifact's content is gone: it was removed by retention.")
}

/// An artifact of this session; those of others are not there.
async fn find(tools: &Tools, ctx: &CallContext, id: &str) -> Result<ArtifactRow, CallFault> {
    let found = tools.store.artifact(&ArtifactId::new(id)).await.map_err(|error| failed(&error))?;
    found.filter(|row| row.session_id == ctx.session.session_id).ok_or_else(|| {
        let shown: String = id.chars().take(64).flat_map(char::escape_debug).collect();
        answer::fault("not_found", format!("Artifact not found in this session: {shown}"))
    })
}

/// Refuses what is no text: as such it would only be noise.
fn only_text(row: &ArtifactRow) -> Result<(), CallFault> {
    let stored = &row.stored;
    if stored.mime.starts_with("text/") {
        return Ok(());
    }
    Err(answer::fault(
        "file_type",
        format!(
            "Artifact {} is {} ({}), not text.",
            stored.artifact_id,
            stored.mime,
            amount(stored.size_bytes, "byte")
        ),
    ))
}

pub(super) async fn run_search(tools: &Tools, ctx: &CallContext) -> CallEnd {
    match search(tools, ctx).await {
        Ok(text) => answer::done(ctx, text),
        Err(fault) => answer::from_fault(ctx, fault),
    }
}

async fn search(tools: &Tools, ctx: &CallContext) -> Result<String, CallFault> {
    let args: args::SearchArtifact = args::parse(ctx)?;
    let pattern = Pattern::new(&args.pattern).map_err(|error| {
        answer::fault("pattern", format!("The pattern is not a regular expression: {error}."))
    })?;
    let row = find(tools, ctx, &args.id).await?;
    only_text(&row)?;
    let wanted = Wanted { before: 0, after: 0, max: limits::ARTIFACT_SEARCH_TOOL_MATCHES_MAX };
    let size = row.stored.size_bytes;
    let mut search = Search::new(tools.store.clone(), row.stored.hash.clone(), size, pattern, wanted);
    // Room for the words at the end.
    let room = ctx.bounds.max_bytes.saturating_sub(END_BYTES);
    let (mut text, mut shown, mut last, mut is_full) = (String::new(), 0_u64, 0, false);
    while !is_full {
        let next = search.next().await.map_err(|error| match error {
            SearchError::Store(error) => failed(&error),
            SearchError::Gone => gone(),
            SearchError::Broken(_) => answer::fault("internal", format!("The artifact: {error}.")),
        })?;
        let Some(lines) = next else { break };
        for line in lines {
            let (number, at) = (line.number, line.at_bytes);
            let line_text = format!("{number} (byte {at}): {}\n", line.text.replace('\r', "\u{240d}"));
            if !text.is_empty() && text.len() + line_text.len() > room {
                is_full = true;
                break;
            }
            (shown, last) = (shown + 1, line.number);
            text.push_str(&line_text);
        }
    }
    let searched = search.searched();
    if is_full || searched.stopped {
        let lines = row.stored.line_count;
        text.push_str(&format!(
            "... stopped after {}, at line {last} of {lines}; more follow: use a narrower pattern",
            amount(shown, "matching line")
        ));
    } else if shown == 0 {
        text = format!(
            "No line matches ({}, {} searched).",
            amount(row.stored.line_count, "line"),
            amount(size, "byte")
        );
        let plain = super::search::escaped(&args.pattern);
        if plain != args.pattern && has_line(tools, &row, &plain).await {
            text.push_str(&format!(
                " The text as it stands is there: escape what means something else in a pattern: {plain}"
            ));
        }
    } else {
        text.pop();
    }
    if searched.long_lines > 0 {
        text.push_str(&format!(
            "\n[{} longer than {} bytes searched in pieces; a match of more than {} bytes may be missed there]",
            amount(searched.long_lines, "line"),
            limits::ARTIFACT_SEARCH_LINE_MAX_BYTES,
            limits::ARTIFACT_SEARCH_OVERLAP_BYTES
        ));
    }
    Ok(text)
}

/// Whether a line matches. What goes wrong here was said by the search before.
async fn has_line(tools: &Tools, row: &ArtifactRow, pattern: &str) -> bool {
    let Ok(pattern) = Pattern::new(pattern) else { return false };
    let (wanted, stored) = (Wanted { before: 0, after: 0, max: 1 }, &row.stored);
    let mut search =
        Search::new(tools.store.clone(), stored.hash.clone(), stored.size_bytes, pattern, wanted);
    while let Ok(Some(lines)) = search.next().await {
        if !lines.is_empty() {
            return true;
        }
    }
    false
}

async fn read(tools: &Tools, ctx: &CallContext) -> Result<String, CallFault> {
    let args: args::ReadArtifact = args::parse(ctx)?;
    let row = find(tools, ctx, &args.id).await?;
    only_text(&row)?;
    let (offset, total) = (args.offset.unwrap_or(0), row.stored.size_bytes);
    if offset > 0 && offset >= total {
        return Err(answer::fault(
            "range",
            format!("Offset {offset} is past the end: the artifact has {}.", amount(total, "byte")),
        ));
    }
    let limit = args
        .limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(limits::ARTIFACT_READ_DEFAULT_BYTES);
    let limit = limit.min(ctx.bounds.max_bytes);
    // A few bytes more, so that the last character is whole.
    let read = tools.store.read_blob(&row.stored.hash, offset, limit + 3).await;
    let bytes = read.map_err(|error| failed(&error))?.ok_or_else(gone)?;
    let kept = text::whole_characters(&bytes, limit);
    let next = offset + u64::try_from(kept).unwrap_or(0);
    let mut shown = text::readable(&bytes[..kept]);
    if total == 0 {
        shown.push_str("the artifact is empty (0 bytes)");
    }
    if next < total {
        shown.push_str(&format!("\n... {} more bytes; next offset {next}", total - next));
    }
    Ok(shown)
}
