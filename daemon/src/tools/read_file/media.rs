//! Files that are no text: described, and images and documents kept as artifacts of their type.
//!
//! Such content is kept byte for byte, because a mark in it would break it. Where a known secret stands in it, it is
//! described and not kept.

use super::super::walk::amount;
use super::page::{PageError, Request};
use super::{Page, Scratch, text};
use agentd_core::limits;
use agentd_core::text::Media;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

/// A content on its way to an artifact.
pub(super) struct Copied {
    pub(super) scratch: Scratch,
    pub(super) mime: &'static str,
}

/// A file that is not text, in words.
pub(super) fn describe(name: &str, size: u64, head: &[u8], kind: Option<&Media>) -> String {
    let kind = kind.map_or(String::new(), |kind| format!(", {}", kind.name));
    format!(
        "{name} is a binary file{kind}: {}, beginning with {}",
        amount(size, "byte"),
        text::hex(&head[..head.len().min(16)])
    )
}

/// The page of an image or a document.
pub(super) fn page(request: &Request<'_>, file: &File, size: u64, kind: &Media) -> Result<Page, PageError> {
    let pixels = kind.pixels.map_or(String::new(), |(width, height)| format!(", {width} x {height} pixels"));
    let mut page =
        Page { text: format!("{} is {}: {size} bytes{pixels}", request.name, kind.name), ..Page::default() };
    let Some(mime) = kind.mime else { return Ok(page) };
    if size > limits::MEDIA_MAX_BYTES {
        page.text.push_str(&format!("; more than the {} that are kept", limits::MEDIA_MAX_BYTES));
        return Ok(page);
    }
    let (scratch, mut copy) = Scratch::create(request.tools)?;
    let mut from: &File = file;
    from.seek(SeekFrom::Start(0))?;
    std::io::copy(&mut from.take(limits::MEDIA_MAX_BYTES), &mut copy)?;
    copy.flush()?;
    copy.seek(SeekFrom::Start(0))?;
    if request.redactor.copy(&mut copy, std::io::sink())? > 0 {
        page.text.push_str("; a known secret stands in it, so it is not kept as an artifact");
        return Ok(page);
    }
    page.media = Some(Copied { scratch, mime });
    Ok(page)
}
