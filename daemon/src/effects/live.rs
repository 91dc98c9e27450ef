//! The output of a running command as those see it who watch.
//!
//! Invariants: redacted like the result; whole characters; a flood neither holds a thread nor fills a queue.

use crate::ports::{CallContext, Delta, DeltaSource, EffectMessage};
use crate::process::Follow;
use crate::redact::{Redactor, Stream};
use agentd_core::limits;
use futures_util::FutureExt as _;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Live output for whoever watches, redacted. Lossy: the call's result holds what is to be kept. Never decides anything.
pub(super) struct Live<'a> {
    call: &'a CallContext,
    messages: &'a mpsc::Sender<EffectMessage>,
    stream: Option<Stream<'a>>,
    /// The start of a character whose end has not come.
    begun: Vec<u8>,
    offset: u64,
}

impl<'a> Live<'a> {
    pub(super) fn new(
        call: &'a CallContext,
        redactor: &'a Redactor,
        messages: &'a mpsc::Sender<EffectMessage>,
    ) -> Self {
        Self { call, messages, stream: Some(redactor.stream()), begun: Vec::new(), offset: 0 }
    }

    /// Follows the output until the job ends. A flood is shown in samples, so that it neither holds a thread nor fills
    /// queues.
    pub(super) async fn follow(&mut self, follow: &mut Option<Follow>) {
        let Some(follow) = follow else { return };
        while let Ok(Some(chunk)) = follow.next().await {
            let is_full = chunk.bytes.len() >= limits::OUTPUT_CHUNK_BYTES;
            self.take(&chunk.bytes);
            if is_full {
                sleep(Duration::from_millis(limits::OUTPUT_REST_MS)).await;
                let skipped = follow.skip_behind(limits::OUTPUT_BEHIND_BYTES);
                if skipped > 0 {
                    self.take(format!("\n... [{skipped} bytes are not shown live] ...\n").as_bytes());
                }
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// The last piece, and what was held back.
    pub(super) async fn finish(mut self, follow: Option<Follow>) {
        if let Some(mut follow) = follow
            && follow.skip_behind(limits::OUTPUT_CHUNK_BYTES as u64) == 0
            && let Some(Ok(Some(chunk))) = follow.next().now_or_never()
        {
            self.take(&chunk.bytes);
        }
        let rest = self.stream.take().map(|stream| stream.finish().content).unwrap_or_default();
        self.send(&rest, true);
    }

    fn take(&mut self, bytes: &[u8]) {
        if let Some(clean) = self.stream.as_mut().map(|stream| stream.push(bytes)) {
            self.send(&clean, false);
        }
    }

    fn send(&mut self, bytes: &[u8], is_end: bool) {
        self.begun.extend_from_slice(bytes);
        let whole = if is_end { self.begun.len() } else { whole_characters(&self.begun) };
        if whole == 0 {
            return;
        }
        let text = String::from_utf8_lossy(&self.begun[..whole]).into_owned();
        self.begun.drain(..whole);
        let (source, offset) = (DeltaSource::Output(self.call.call_id.clone()), self.offset);
        self.offset += text.len() as u64;
        let _ = self.messages.try_send(EffectMessage::Delta(Delta { source, block: 0, offset, text }));
    }
}

/// How many of the bytes make whole characters; a character that only begins waits for its end.
fn whole_characters(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    (from..bytes.len())
        .find(|at| {
            let rest = std::str::from_utf8(&bytes[*at..]);
            bytes[*at] >= 0xc0
                && rest.is_err_and(|error| error.error_len().is_none() && error.valid_up_to() == 0)
        })
        .unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::whole_characters;

    #[test]
    fn a_character_that_only_begins_waits_for_its_end() {
        let text = "a\u{e9}\u{20ac}\u{1f600}".as_bytes();
        for cut in 0..=text.len() {
            let whole = whole_characters(&text[..cut]);
            assert!(std::str::from_utf8(&text[..whole]).is_ok() && cut - whole < 4, "{cut}: {whole}");
        }
        assert_eq!(whole_characters(b"ok\xff\xfe"), 4);
        assert_eq!(whole_characters(b"\x80\x80\x80\x80"), 4);
        assert_eq!(whole_characters(b""), 0);
    }
}
