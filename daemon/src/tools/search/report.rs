//! A long list as a result: a first line that says what there is, then the lines, both ends of them if there are too
//! many, and the whole as an artifact.

use super::super::walk::amount;
use super::super::{Tools, answer};
use crate::inspect;
use crate::ports::{BlobSource, CallContext};
use agentd_core::command::{CallEnd, CallFault};
use agentd_core::context::ResultBounds;
use agentd_core::event::Truncation;
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown;
use std::sync::Arc;

/// A line, and the file that it belongs to.
pub(in crate::tools) struct Line {
    /// Said again where the result begins anew with this line.
    pub(in crate::tools) file: Option<Arc<str>>,
    pub(in crate::tools) text: String,
}

/// A result before it is cut. There are no secrets in it.
pub(in crate::tools) struct Whole {
    pub(in crate::tools) first: String,
    pub(in crate::tools) lines: Vec<Line>,
    pub(in crate::tools) redactions: u32,
}

impl Whole {
    /// Nothing but one line.
    pub(in crate::tools) const fn only(first: String) -> Self {
        Self { first, lines: Vec::new(), redactions: 0 }
    }

    fn text(&self) -> String {
        let mut text = self.first.clone();
        for line in &self.lines {
            text.push('\n');
            text.push_str(&line.text);
        }
        text
    }
}

/// How paths of a result are said.
pub(in crate::tools) struct Shown(Vec<u8>);

impl Shown {
    /// Paths below `place`: relative to the session's folder if that is above it, else absolute.
    pub(in crate::tools) fn new(ctx: &CallContext, place: &PathBytes) -> Self {
        let below = inspect::strip_folder(place.as_bytes(), ctx.session.cwd.as_bytes());
        Self(below.unwrap_or(place.as_bytes()).to_vec())
    }

    /// A path below the place; empty for the place itself.
    pub(in crate::tools) fn bytes(&self, path: &[u8]) -> Vec<u8> {
        match (self.0.is_empty(), path.is_empty()) {
            (true, _) => path.to_vec(),
            (_, true) => self.0.clone(),
            (false, false) => inspect::join(&self.0, path).as_bytes().to_vec(),
        }
    }
}

/// A glob that begins with the session's folder, without it.
pub(in crate::tools) fn without_place<'a>(ctx: &CallContext, glob: &'a str) -> &'a str {
    std::str::from_utf8(ctx.session.cwd.as_bytes())
        .ok()
        .filter(|cwd| cwd.len() > 1)
        .and_then(|cwd| glob.strip_prefix(cwd))
        .filter(|rest| rest.starts_with('/') && rest.len() > 1)
        .unwrap_or(glob)
}

/// What is said of a walk that ended early.
pub(in crate::tools) fn early() -> String {
    format!(
        "; stopped after {} s, so this is only a part: use a narrower path or glob",
        limits::WALK_TIME_MAX_MS / 1_000
    )
}

/// A pattern as it is said again: a long one by its beginning.
pub(in crate::tools) fn said(pattern: &str) -> String {
    let mut letters = pattern.chars();
    let mut text: String = letters.by_ref().take(PATTERN_SHOWN_CHARS).collect();
    if letters.next().is_some() {
        text.push_str("...");
    }
    text
}

/// Enough to know a pattern again.
const PATTERN_SHOWN_CHARS: usize = 120;

/// A folder or file that cannot be opened.
pub(in crate::tools) fn refused(path: &PathBytes, errno: rustix::io::Errno) -> CallFault {
    answer::fault(answer::io_class(&errno.into()), format!("{} cannot be read: {errno}", shown(path)))
}

/// The end of a call with this result.
pub(in crate::tools) async fn end(tools: &Tools, ctx: &CallContext, whole: Whole) -> CallEnd {
    let bytes = whole.first.len() + whole.lines.iter().map(|line| line.text.len() + 1).sum::<usize>();
    let bounds = ctx.bounds;
    let most_lines = bounds.head_lines.saturating_add(bounds.tail_lines);
    if bytes <= bounds.max_bytes && whole.lines.len() <= most_lines {
        return answer::done(ctx, whole.text());
    }
    let text = whole.text();
    let blob = match tools.store.put_blob(BlobSource::Bytes(text.into_bytes().into())).await {
        Ok(blob) => blob,
        Err(error) => {
            let text = format!("The whole result cannot be kept as an artifact: {error}");
            return answer::failed(ctx, "storage", text);
        }
    };
    let artifact = tools.artifact_of(ctx, "tool_output", &blob, whole.redactions);
    let (text, mut truncation) = cut(&whole, bounds, artifact.artifact_id.as_ref(), blob.size_bytes);
    truncation.total_bytes = blob.size_bytes;
    let mut end = answer::done(ctx, text);
    end.truncation = Some(truncation);
    end.artifacts.push(artifact);
    end
}

/// Both ends of the lines, with a mark between them.
fn cut(whole: &Whole, bounds: ResultBounds, artifact: &str, bytes: u64) -> (String, Truncation) {
    let lines = &whole.lines;
    // The mark and a path said again have to fit as well.
    let room = bounds.max_bytes.saturating_sub(whole.first.len() + 200);
    let fits = |lines: &mut dyn Iterator<Item = &Line>, count: usize, room: usize| {
        let mut used = 0;
        lines
            .take(count)
            .take_while(|line| {
                used += line.text.len() + 1;
                used <= room
            })
            .count()
    };
    let head = fits(&mut lines.iter(), bounds.head_lines, room - room / 3);
    let again = |line: &Line| line.file.as_ref().map_or(0, |name| name.len() + 20);
    let mut tail = fits(&mut lines[head..].iter().rev(), bounds.tail_lines, room / 3);
    // Its first line may need the path of its file, which takes room too.
    while tail > 0 {
        let from = lines.len() - tail;
        let used: usize = lines[from..].iter().map(|line| line.text.len() + 1).sum();
        if used + again(&lines[from]) <= room / 3 {
            break;
        }
        tail -= 1;
    }
    let from = lines.len() - tail;
    let omitted = from - head;
    let mut out = vec![whole.first.clone()];
    out.extend(lines[..head].iter().map(|line| line.text.clone()));
    out.push(format!(
        "... [truncated {}] ... the whole result ({bytes} bytes) is artifact {artifact}",
        amount(u64::try_from(omitted).unwrap_or(u64::MAX), "line")
    ));
    if let Some(name) = lines.get(from).and_then(|line| line.file.as_ref()) {
        out.push(format!("{name} (continued)"));
    }
    out.extend(lines[from..].iter().map(|line| line.text.clone()));
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let truncation = Truncation {
        head_lines: count(head + 1),
        tail_lines: count(tail),
        omitted_lines: count(omitted),
        total_bytes: bytes,
    };
    (out.join("\n"), truncation)
}
