//! `read_artifact`: a range of bytes of stored content, cut between characters.

use super::{Tools, answer, args, text};
use crate::ports::CallContext;
use agentd_core::command::{CallEnd, CallFault};
use agentd_core::ids::ArtifactId;
use agentd_core::limits;

pub(super) async fn run(tools: &Tools, ctx: &CallContext) -> CallEnd {
    match read(tools, ctx).await {
        Ok(text) => answer::done(ctx, text),
        Err(fault) => answer::from_fault(ctx, fault),
    }
}

async fn read(tools: &Tools, ctx: &CallContext) -> Result<String, CallFault> {
    let args: args::ReadArtifact = args::parse(ctx)?;
    let failed = |error: crate::ports::StoreError| {
        answer::fault("storage", format!("The artifact cannot be read: {error}"))
    };
    let unknown = || {
        let shown: String = args.id.chars().take(64).flat_map(char::escape_debug).collect();
        answer::fault("not_found", format!("Artifact not found in this session: {shown}"))
    };
    let row =
        tools.store.artifact(&ArtifactId::new(args.id.clone())).await.map_err(failed)?.ok_or_else(unknown)?;
    if row.session_id != ctx.session.session_id {
        return Err(unknown());
    }
    let (offset, total) = (args.offset.unwrap_or(0), row.stored.size_bytes);
    if offset > 0 && offset >= total {
        return Err(answer::fault(
            "range",
            format!("Offset {offset} is past the end: the artifact has {total} bytes."),
        ));
    }
    let limit = args
        .limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(limits::ARTIFACT_READ_DEFAULT_BYTES);
    let limit = limit.min(limits::RESULT_MAX_BYTES);
    // A few bytes more, so that the last character is whole.
    let gone = || answer::fault("not_found", "The artifact's content is gone: it was removed by retention.");
    let bytes =
        tools.store.read_blob(&row.stored.hash, offset, limit + 3).await.map_err(failed)?.ok_or_else(gone)?;
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
