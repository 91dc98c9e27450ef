//! What a content is in, from its bytes alone.
//!
//! A mark decides; then bytes that are UTF-8 throughout are UTF-8. UTF-16 without a mark is taken only where half of
//! the bytes are the zeros of ASCII. What is left is told apart by what its letters look like (the detector of
//! Firefox), on a bounded sample; whether that was enough to go by is part of the answer.
//!
//! Invariant: the answer depends on the bytes, never on how they were cut into pieces.

use super::{Charset, Encoding, media};
use crate::limits;
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};

/// ASCII kept in the sample around other bytes: letters are told by their neighbours.
const CONTEXT_BYTES: usize = 16;

/// What a content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No bytes.
    Empty,
    /// Text.
    Text(Detected),
    /// Not text, or text in no encoding that is read here.
    Binary,
}

/// What a text is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected {
    /// The encoding.
    pub encoding: Encoding,
    /// By what it is known.
    pub ground: Ground,
}

/// By what an encoding is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// All bytes that were looked at are UTF-8.
    Valid,
    /// A byte order mark.
    Mark,
    /// UTF-16 without a mark, plain by its zeros.
    Zeros,
    /// UTF-8 for the most part, with bytes that are not.
    Mostly,
    /// By its letters.
    Letters {
        /// There were enough of them, and they do not contradict each other.
        is_sure: bool,
    },
}

/// Looks at a content piece by piece.
pub struct Detector {
    head: Vec<u8>,
    /// What may be the start of a character.
    begun: Vec<u8>,
    is_valid: bool,
    sample: Vec<u8>,
    /// ASCII since the last other byte.
    run: usize,
    /// The last ASCII that is not in the sample.
    before: Vec<u8>,
    others: usize,
}

impl Default for Detector {
    fn default() -> Self {
        Self {
            head: Vec::new(),
            begun: Vec::new(),
            is_valid: true,
            sample: Vec::new(),
            run: CONTEXT_BYTES,
            before: Vec::new(),
            others: 0,
        }
    }
}

/// What a whole content is.
pub fn detect(content: &[u8]) -> Content {
    let mut detector = Detector::default();
    detector.push(content);
    detector.finish(true)
}

impl Detector {
    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        let room = limits::SNIFF_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(&piece[..piece.len().min(room)]);
        if self.is_valid {
            self.validate(piece);
        }
        self.collect(piece);
    }

    fn validate(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while !self.begun.is_empty() {
            let Some((byte, others)) = rest.split_first() else { return };
            self.begun.push(*byte);
            rest = others;
            match std::str::from_utf8(&self.begun) {
                Ok(_) => self.begun.clear(),
                Err(error) if error.error_len().is_none() => {}
                Err(_) => {
                    self.is_valid = false;
                    return;
                }
            }
        }
        match std::str::from_utf8(rest) {
            Ok(_) => {}
            Err(error) if error.error_len().is_none() => {
                self.begun.extend_from_slice(&rest[error.valid_up_to()..]);
            }
            Err(_) => self.is_valid = false,
        }
    }

    /// Keeps the bytes that are not ASCII, with what stands around them.
    fn collect(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while self.sample.len() < limits::DETECT_SAMPLE_BYTES && !rest.is_empty() {
            if self.run >= CONTEXT_BYTES {
                let next = next_other(rest);
                let skipped = &rest[..next.unwrap_or(rest.len())];
                self.before.extend_from_slice(&skipped[skipped.len().saturating_sub(CONTEXT_BYTES)..]);
                let spare = self.before.len().saturating_sub(CONTEXT_BYTES);
                self.before.drain(..spare);
                let Some(next) = next else { return };
                self.sample.push(b'\n');
                self.sample.append(&mut self.before);
                rest = &rest[next..];
                self.run = 0;
            }
            let Some((byte, others)) = rest.split_first() else { return };
            self.sample.push(*byte);
            if byte.is_ascii() {
                self.run += 1;
            } else {
                self.run = 0;
                self.others += 1;
            }
            rest = others;
        }
    }

    /// The answer. `is_all` says that the content ended with the last piece.
    pub fn finish(self, is_all: bool) -> Content {
        let text = |charset, has_mark, ground| {
            Content::Text(Detected { encoding: Encoding { charset, has_mark }, ground })
        };
        let is_valid = self.is_valid && (!is_all || self.begun.is_empty());
        match self.head.as_slice() {
            [] => return Content::Empty,
            [0xef, 0xbb, 0xbf, ..] if is_valid => return text(Charset::Utf8, true, Ground::Mark),
            [0xef, 0xbb, 0xbf, ..] => return text(Charset::Utf8, true, Ground::Mostly),
            [0xff, 0xfe, 0, 0, ..] => return Content::Binary,
            [0xff, 0xfe, ..] => return text(Charset::Utf16Le, true, Ground::Mark),
            [0xfe, 0xff, ..] => return text(Charset::Utf16Be, true, Ground::Mark),
            _ => {}
        }
        if let Some(charset) = plain_utf16(&self.head) {
            return text(charset, false, Ground::Zeros);
        }
        if self.head.contains(&0) || media::kind_of(&self.head).is_some_and(|kind| kind.is_never_text) {
            return Content::Binary;
        }
        if is_valid {
            return text(Charset::Utf8, false, Ground::Valid);
        }
        if has_many_controls(&self.head) {
            return Content::Binary;
        }
        if is_mostly_utf8(&self.sample) {
            return text(Charset::Utf8, false, Ground::Mostly);
        }
        let (encoding, is_sure) = self.by_letters();
        text(Charset::Legacy(encoding), false, Ground::Letters { is_sure })
    }

    fn by_letters(&self) -> (&'static encoding_rs::Encoding, bool) {
        let guess = |sample: &[u8]| {
            let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
            detector.feed(sample, false);
            detector.guess(None, Utf8Detection::Deny)
        };
        let found = guess(&self.sample);
        let is_cut = self.sample.len() >= limits::DETECT_SAMPLE_BYTES;
        let is_clean = is_cut || !found.decode_without_bom_handling(&self.sample).1;
        let side_by_side =
            self.sample.windows(2).filter(|pair| !pair[0].is_ascii() && !pair[1].is_ascii()).count();
        let wanted = if side_by_side * 3 > self.others {
            limits::DETECT_SURE_DENSE_BYTES
        } else {
            limits::DETECT_SURE_BYTES
        };
        let has_enough = self.others >= wanted;
        let is_sure = has_enough && is_clean && guess(&self.sample[..self.sample.len() / 2]) == found;
        (found, is_sure)
    }
}

fn next_other(bytes: &[u8]) -> Option<usize> {
    // Blocks first: the check of a block is many times as fast as a search.
    const BLOCK: usize = 4 * 1024;
    let mut at = 0;
    for block in bytes.chunks(BLOCK) {
        if !block.is_ascii() {
            return block.iter().position(|byte| !byte.is_ascii()).map(|inside| at + inside);
        }
        at += block.len();
    }
    None
}

/// UTF-16 of mostly ASCII: every second byte is zero, and the others are ordinary text.
fn plain_utf16(head: &[u8]) -> Option<Charset> {
    let pairs = head.len() / 2;
    if pairs < 2 {
        return None;
    }
    let (mut little, mut big) = (0, 0);
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    for pair in head.chunks_exact(2) {
        match *pair {
            [0, 0] => return None,
            [low, 0] if is_plain(low) => little += 1,
            [0, low] if is_plain(low) => big += 1,
            _ => {}
        }
    }
    let (charset, count) = if little > big { (Charset::Utf16Le, little) } else { (Charset::Utf16Be, big) };
    let encoding = Encoding { charset, has_mark: false };
    // The last character of the head may be cut.
    let whole = &head[..pairs * 2 - if head.len() >= limits::SNIFF_BYTES { 2 } else { 0 }];
    (count * 10 >= pairs * 7 && encoding.decode(whole).is_exact).then_some(charset)
}

/// More control characters than any text has.
fn has_many_controls(head: &[u8]) -> bool {
    let is_control = |byte: &&u8| matches!(**byte, 0..=0x07 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    head.iter().filter(is_control).count() * 20 > head.len()
}

/// Whether more of the bytes that are not ASCII make UTF-8 characters than do not. In the old encodings that happens
/// by chance, and seldom.
fn is_mostly_utf8(sample: &[u8]) -> bool {
    let (mut inside, mut outside) = (0, 0);
    for chunk in sample.utf8_chunks() {
        inside += chunk.valid().bytes().filter(|byte| !byte.is_ascii()).count();
        outside += chunk.invalid().len();
    }
    inside > outside
}
