//! `read_file`: one page of numbered lines, read as a stream, so that the size of the file costs neither memory nor
//! time beyond the lines that are skipped, and those only once.
//!
//! A page has no hole: it ends before the first line that does not fit, and says where the next one begins. A line
//! that does not fit any page is cut, and the whole of it becomes an artifact. What is unusual about the text is
//! said in a last line in brackets. Lines are found in the bytes and decoded one by one, so pages of every encoding
//! begin where their lines do. Images and documents become artifacts of their own type.
//!
//! A page counts as reading the file, whose hash goes with it: a model that has seen a part knows that the rest is
//! there, and any change since then is still found.

mod lines;
mod media;
mod page;
mod places;

pub use places::LinePlaces;

use super::scratch::Scratch;
use super::{Tools, answer, args, blocking, text};
use crate::inspect::Existing;
use crate::ports::CallContext;
use crate::redact::Redactor;
use agentd_core::command::{CallEnd, CallFault};
use agentd_core::event::{PathOp, SeenFile, Truncation};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown;
use agentd_core::text::{Content, Detector, kind_of};
use page::{PageError, Request};
use places::FileKey;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// A page before its artifact has an id.
#[derive(Default)]
struct Page {
    text: String,
    cut: Option<Cut>,
    media: Option<media::Copied>,
    /// Where the next page begins, and what is left.
    rest: Option<String>,
    notes: Vec<String>,
    seen: Option<SeenFile>,
}

/// A line that was cut.
struct Cut {
    scratch: Scratch,
    line: u64,
    line_bytes: u64,
    shown_bytes: usize,
    redactions: u32,
}

pub(super) async fn run(tools: &Tools, ctx: &CallContext, redactor: &Arc<Redactor>) -> CallEnd {
    match page(tools, ctx, redactor).await {
        Ok(end) => end,
        Err(fault) => answer::from_fault(ctx, fault),
    }
}

async fn page(tools: &Tools, ctx: &CallContext, redactor: &Arc<Redactor>) -> Result<CallEnd, CallFault> {
    let (owned_tools, owned, owned_redactor) = (tools.clone(), ctx.clone(), redactor.clone());
    let page = blocking(move || read_page(&owned_tools, &owned, &owned_redactor)).await??;
    let mut end = answer::done(ctx, page.text);
    end.seen = page.seen.into_iter().collect();
    if let Some(cut) = page.cut {
        let blob = cut.scratch.store(tools).await;
        let blob = blob.map_err(|error| {
            answer::fault("storage", format!("The long line cannot be kept as an artifact: {error}"))
        })?;
        let artifact = tools.artifact_of(ctx, "file", &blob, cut.redactions);
        end.text.push_str(&format!(
            "\n... [line {} is cut here: the whole line ({} bytes) is artifact {}; go on with read_artifact at offset {}]",
            cut.line, cut.line_bytes, artifact.artifact_id, cut.shown_bytes
        ));
        end.truncation =
            Some(Truncation { head_lines: 1, tail_lines: 0, omitted_lines: 0, total_bytes: cut.line_bytes });
        end.artifacts.push(artifact);
    }
    if let Some(copied) = page.media {
        let blob = copied.scratch.store(tools).await;
        let blob = blob.map_err(|error| {
            answer::fault("storage", format!("The file cannot be kept as an artifact: {error}"))
        })?;
        let artifact = tools.artifact_of_type(ctx, "file", copied.mime, &blob, 0);
        end.text.push_str(&format!("; kept as artifact {} ({})", artifact.artifact_id, copied.mime));
        end.artifacts.push(artifact);
    }
    if let Some(rest) = page.rest {
        end.text.push_str(&rest);
    }
    if !page.notes.is_empty() {
        end.text.push_str(&format!("\n[{}]", page.notes.join("; ")));
    }
    Ok(end)
}

fn read_page(tools: &Tools, ctx: &CallContext, redactor: &Redactor) -> Result<Page, CallFault> {
    let args: args::ReadFile = args::parse(ctx)?;
    let path = PathBytes::from(args.path.as_str());
    let (existing, _) = tools.existing(ctx, &path, PathOp::Read)?;
    answer::only_regular(&existing)?;
    let name = shown(&path);
    let failed = |error: std::io::Error| {
        answer::fault(answer::io_class(&error), format!("{name} cannot be read: {error}"))
    };
    let file = File::from(existing.open().map_err(|errno| failed(errno.into()))?);
    let key = file.metadata().map(|found| FileKey::of(&found)).map_err(failed)?;
    let looked = look_into(&file, &existing).map_err(failed)?;
    let offset = args.offset.unwrap_or(0);
    let request = Request {
        name: &name,
        offset,
        limit: args.limit.unwrap_or(u64::try_from(limits::READ_LINES_DEFAULT).unwrap_or(u64::MAX)),
        max_bytes: ctx.bounds.max_bytes,
        redactor,
        tools,
        key: key.is_settled(tools.clock.now_ms()).then_some(key),
    };
    let size = existing.size();
    let page = match (kind_of(&looked.head), looked.content) {
        (Some(kind), content) if kind.mime.is_some() && !matches!(content, Content::Text(_)) => {
            media::page(&request, &file, size, &kind)
        }
        (_, Content::Empty) => Ok(Page { text: format!("{name} is empty (0 bytes)"), ..Page::default() }),
        (kind, Content::Binary) => {
            Ok(Page { text: media::describe(&name, size, &looked.head, kind.as_ref()), ..Page::default() })
        }
        (_, Content::Text(found)) => request.read(&file, found),
    };
    let mut page = page.map_err(|error| match error {
        PageError::Io(error) => failed(error),
        PageError::PastEnd { lines } => answer::fault(
            "range",
            format!("Offset {offset} is past the end: {name} has {lines} lines."),
        ),
        PageError::Late { line, is_kept } => answer::fault(
            "slow",
            format!(
                "Line {} of {name} was not reached in time; {line} lines were passed. {}take the part with a command.",
                offset + 1,
                if is_kept { "The same call again goes on from there, or " } else { "The file is changing: " },
            ),
        ),
    })?;
    // A hash of one content beside the lines of another would let that other be overwritten.
    if file.metadata().map(|found| FileKey::of(&found)).map_err(failed)? == key {
        page.seen = looked.hash.map(|hash| SeenFile { path: existing.path, hash });
    }
    Ok(page)
}

/// What a look into a file gives before its lines are read.
struct Looked {
    /// Of a file that is small enough to be edited.
    hash: Option<String>,
    content: Content,
    head: Vec<u8>,
}

/// All of a file that may be edited, so that its encoding is what an edit will find; else its first part.
fn look_into(file: &File, existing: &Existing) -> std::io::Result<Looked> {
    let is_whole = existing.size() <= limits::EDIT_MAX_BYTES;
    let most = if is_whole { limits::EDIT_MAX_BYTES } else { limits::DETECT_HEAD_BYTES };
    let (mut hash, mut detector, mut head) = (Sha256::new(), Detector::default(), Vec::new());
    let (mut chunk, mut at) = (vec![0_u8; limits::READ_CHUNK_BYTES], 0_u64);
    loop {
        let read = match file.read_at(&mut chunk, at) {
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        at += u64::try_from(read).unwrap_or(0);
        let is_over = at > limits::EDIT_MAX_BYTES;
        if read == 0 || (is_whole && is_over) || (!is_whole && at > most) {
            let hash = (is_whole && read == 0).then(|| text::hash_text(hash.finalize()));
            return Ok(Looked { hash, content: detector.finish(read == 0), head });
        }
        let piece = &chunk[..read];
        if head.is_empty() {
            head = piece[..read.min(64 * 1024)].to_vec();
        }
        if is_whole {
            hash.update(piece);
        }
        detector.push(piece);
    }
}
