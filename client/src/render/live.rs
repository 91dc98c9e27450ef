//! Live text without holes and without repeats.
//!
//! Deltas are lossy: pieces may be missing, and a draft (the block from its beginning) or the final event may
//! come instead. This keeps, for each block, what was already given out, and answers with what is new.
//!
//! Invariants: no text is given out twice; a hole is never papered over (nothing more of a block is given out
//! until a draft or the end repairs it); a final text that differs from what was shown is given out whole,
//! as a correction.

use agentd_proto::v1;
use std::collections::BTreeMap;

/// Bytes kept per block to compare with; beyond it only offsets are compared.
const KEPT_BLOCK_MAX_BYTES: usize = 4 << 20;
/// Open blocks kept at most; the oldest source goes first.
const OPEN_BLOCKS_MAX: usize = 256;

/// What is new about a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing.
    None,
    /// This text follows what was given out.
    More(String),
    /// What was given out is not how it is: this is the whole.
    Instead(String),
}

#[derive(Debug, Default)]
struct Shown {
    text: String,
}

/// What was given out of each open block.
#[derive(Debug, Default)]
pub(crate) struct LiveText {
    blocks: BTreeMap<(String, String, u32), Shown>,
}

impl LiveText {
    /// A piece, or a draft: both say where their bytes begin.
    pub(crate) fn piece(&mut self, delta: &v1::Delta) -> News {
        let offset = usize::try_from(delta.offset_bytes).unwrap_or(usize::MAX);
        let key = (delta.source_id.clone(), delta.kind.clone(), delta.block);
        if !self.blocks.contains_key(&key) && self.blocks.len() >= OPEN_BLOCKS_MAX {
            self.blocks.pop_first();
        }
        let shown = self.blocks.entry(key).or_default();
        shown.extend(offset, &delta.text)
    }

    /// The final text of a block. It is forgotten afterwards.
    pub(crate) fn finish(&mut self, source_id: &str, kind: &str, block: u32, whole: &str) -> News {
        let key = (source_id.to_owned(), kind.to_owned(), block);
        let Some(shown) = self.blocks.remove(&key) else { return more(whole) };
        match whole.strip_prefix(shown.text.as_str()) {
            Some(rest) => more(rest),
            None => News::Instead(whole.to_owned()),
        }
    }

    /// Everything of this source is over; answers whether anything of it had been given out.
    pub(crate) fn drop_source(&mut self, source_id: &str) -> bool {
        let before = self.blocks.values().filter(|shown| !shown.text.is_empty()).count();
        self.blocks.retain(|(source, _, _), _| source != source_id);
        self.blocks.values().filter(|shown| !shown.text.is_empty()).count() != before
    }

    /// Which live block a final one was. Live blocks count from when they began, final ones from where they ended up
    /// (empty ones are gone, calls have moved), so what was shown decides where the numbers do not fit.
    pub(crate) fn place_of(&self, source_id: &str, kind: &str, block: u32, whole: &str) -> Option<u32> {
        let begins = |shown: &Shown| !shown.text.is_empty() && whole.starts_with(shown.text.as_str());
        let of_it =
            |((source, what, _), _): &(&(String, String, u32), &Shown)| source == source_id && what == kind;
        let same = self.blocks.get(&(source_id.to_owned(), kind.to_owned(), block));
        if same.is_some_and(begins) {
            return Some(block);
        }
        let moved = self.blocks.iter().filter(of_it).find(|(_, shown)| begins(shown));
        moved.map(|((_, _, place), _)| *place).or(same.map(|_| block))
    }

    /// Everything given out of a kind that is still open, in order.
    pub(crate) fn open_text(&self, kind: &str) -> String {
        self.blocks.iter().filter(|((_, k, _), _)| k == kind).map(|(_, shown)| shown.text.as_str()).collect()
    }
}

impl Shown {
    fn extend(&mut self, offset: usize, text: &str) -> News {
        let have = self.text.len();
        if offset > have {
            // A hole: a draft or the final event will bring the whole.
            return News::None;
        }
        if offset == 0 && have > 0 && !text.is_empty() && !agrees(&self.text, text) {
            self.text = text.to_owned();
            return News::Instead(text.to_owned());
        }
        // What overlaps is already out. An overlap that is not on a character border is not ours to cut.
        let Some(fresh) = text.get(have - offset..) else { return News::None };
        if fresh.is_empty() {
            return News::None;
        }
        if have + fresh.len() <= KEPT_BLOCK_MAX_BYTES {
            self.text.push_str(fresh);
            return News::More(fresh.to_owned());
        }
        // Too long to be shown live any further; the final event has it.
        News::None
    }
}

/// One is the beginning of the other.
fn agrees(a: &str, b: &str) -> bool {
    let common = a.len().min(b.len());
    a.as_bytes()[..common] == b.as_bytes()[..common]
}

fn more(text: &str) -> News {
    if text.is_empty() { News::None } else { News::More(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(offset: u64, text: &str) -> v1::Delta {
        v1::Delta {
            source_id: "m_1".to_owned(),
            kind: "text".to_owned(),
            block: 0,
            offset_bytes: offset,
            text: text.to_owned(),
        }
    }

    #[test]
    fn pieces_follow_each_other_and_the_end_adds_the_rest() {
        let mut live = LiveText::default();
        assert_eq!(live.piece(&delta(0, "Hel")), News::More("Hel".into()));
        assert_eq!(live.piece(&delta(3, "lo ")), News::More("lo ".into()));
        assert_eq!(live.finish("m_1", "text", 0, "Hello you"), News::More("you".into()));
        assert_eq!(live.finish("m_1", "text", 0, "x"), News::More("x".into()), "it was forgotten");
    }

    #[test]
    fn a_repeated_draft_adds_nothing() {
        let mut live = LiveText::default();
        live.piece(&delta(0, "Hello"));
        assert_eq!(live.piece(&delta(0, "Hello")), News::None);
        assert_eq!(live.piece(&delta(0, "Hel")), News::None);
        assert_eq!(live.piece(&delta(0, "Hello you")), News::More(" you".into()));
        assert_eq!(live.finish("m_1", "text", 0, "Hello you"), News::None);
    }

    #[test]
    fn a_hole_waits_for_the_draft() {
        let mut live = LiveText::default();
        live.piece(&delta(0, "He"));
        assert_eq!(live.piece(&delta(6, "you")), News::None);
        assert_eq!(live.piece(&delta(9, "!")), News::None);
        assert_eq!(live.piece(&delta(0, "Hello you!")), News::More("llo you!".into()));
    }

    #[test]
    fn a_final_text_that_differs_replaces() {
        let mut live = LiveText::default();
        live.piece(&delta(0, "the key is abc"));
        assert_eq!(
            live.finish("m_1", "text", 0, "the key is [redacted]"),
            News::Instead("the key is [redacted]".into())
        );
        live.piece(&delta(0, "one"));
        assert_eq!(live.piece(&delta(0, "two")), News::Instead("two".into()));
    }

    #[test]
    fn sources_and_blocks_are_separate() {
        let mut live = LiveText::default();
        live.piece(&delta(0, "a"));
        live.piece(&v1::Delta { block: 1, ..delta(0, "b") });
        live.piece(&v1::Delta { source_id: "c_1".into(), kind: "output".into(), ..delta(0, "out") });
        assert_eq!(live.open_text("text"), "ab");
        assert!(live.drop_source("m_1"));
        assert!(!live.drop_source("m_1"));
        assert_eq!(live.open_text("output"), "out");
    }

    #[test]
    fn an_overlap_inside_a_character_is_left_to_the_draft() {
        let mut live = LiveText::default();
        live.piece(&delta(0, "é"));
        assert_eq!(live.piece(&delta(1, "é")), News::None);
        assert_eq!(live.piece(&delta(0, "éa")), News::More("a".into()));
    }
}
