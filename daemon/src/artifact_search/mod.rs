//! Searching stored content line by line, as it streams out of the store.
//!
//! One search for the tool and for the services. Memory is constant: a chunk, a line up to
//! [`limits::ARTIFACT_SEARCH_LINE_MAX_BYTES`], and the lines before that may still be wanted as context.
//!
//! Invariants: matches come in order, each line once; a line longer than the bound is searched in pieces that
//! overlap by [`limits::ARTIFACT_SEARCH_OVERLAP_BYTES`], and what is told of it says so: a match longer than the overlap that
//! lies across two pieces is not found, and `^` and `$` hold at the ends of the line only.
//!
//! Deliberately absent: whose content it is, and secrets (content is redacted before it is stored).

mod lines;

pub use lines::{FoundLine, Lines};

use crate::ports::{Store, StoreError};
use agentd_core::limits;
use std::sync::Arc;

/// Why a pattern is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}{}", at.map(|at| format!(" (at character {at} of the pattern)")).unwrap_or_default())]
pub struct PatternError {
    /// What is wrong.
    pub why: String,
    /// Where, in characters from 1.
    pub at: Option<usize>,
}

/// A regular expression in Rust's syntax, for bytes.
#[derive(Clone, Debug)]
pub struct Pattern(regex::bytes::Regex);

impl Pattern {
    /// Reads a pattern.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError { why: "the pattern is empty".to_owned(), at: None });
        }
        if text.len() > limits::ARTIFACT_SEARCH_PATTERN_MAX_BYTES {
            let why =
                format!("the pattern is longer than {} bytes", limits::ARTIFACT_SEARCH_PATTERN_MAX_BYTES);
            return Err(PatternError { why, at: None });
        }
        let built = regex::bytes::RegexBuilder::new(text)
            .size_limit(limits::ARTIFACT_SEARCH_PROGRAM_MAX_BYTES)
            .build();
        built.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                PatternError { why: "the pattern is too large when it is compiled".to_owned(), at: None }
            }
            error => position(text).unwrap_or(PatternError { why: error.to_string(), at: None }),
        })
    }
}

/// What is wrong in a pattern, and where. The searcher's own parser is asked, which says more than the searcher.
fn position(text: &str) -> Option<PatternError> {
    let (why, offset) = match regex_syntax::Parser::new().parse(text).err()? {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span().start.offset),
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span().start.offset),
        other => return Some(PatternError { why: other.to_string(), at: None }),
    };
    let before = text.get(..offset).map(|before| before.chars().count());
    Some(PatternError { why, at: before.map(|count| count + 1) })
}

/// How much is wanted of what is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Lines before each match.
    pub before: usize,
    /// Lines after each match.
    pub after: usize,
    /// Matching lines, at most.
    pub max: usize,
}

/// Why a search broke off.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was removed.
    #[error("its content is gone: it was removed by retention")]
    Gone,
    /// A fault of this build.
    #[error("the search broke off: {0}")]
    Broken(String),
}

/// What a search came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// Matching lines that were told.
    pub matches: u64,
    /// Bytes that were searched.
    pub bytes: u64,
    /// It ended at the bound on matches; more may follow.
    pub stopped: bool,
    /// Lines that were searched in pieces.
    pub long_lines: u64,
}

/// One running search.
pub struct Search {
    store: Arc<dyn Store>,
    hash: String,
    size: u64,
    at: u64,
    /// None while a chunk is searched on another thread, and after that broke off.
    lines: Option<Lines>,
}

impl Search {
    /// A search of the blob `hash`, which has `size` bytes.
    pub fn new(
        store: Arc<dyn Store>,
        hash: impl Into<String>,
        size: u64,
        pattern: Pattern,
        wanted: Wanted,
    ) -> Self {
        Self { store, hash: hash.into(), size, at: 0, lines: Some(Lines::new(pattern.0, wanted)) }
    }

    /// What the next chunk has; none at the end. May be empty.
    pub async fn next(&mut self) -> Result<Option<Vec<FoundLine>>, SearchError> {
        if self.at >= self.size || self.lines.as_ref().is_none_or(Lines::is_done) {
            return Ok(None);
        }
        let chunk = self.store.read_blob(&self.hash, self.at, limits::FRAME_TARGET_BYTES).await?;
        let chunk = chunk.filter(|chunk| !chunk.is_empty()).ok_or(SearchError::Gone)?;
        self.at += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        let Some(mut lines) = self.lines.take() else { return Ok(None) };
        let is_last = self.at >= self.size;
        // A chunk is searched in one go, and some patterns are slow: not where sessions wait for their turn.
        let searched = tokio::task::spawn_blocking(move || {
            let mut found = Vec::new();
            lines.push(&chunk, &mut found);
            if is_last {
                lines.finish(&mut found);
            }
            (lines, found)
        });
        let (lines, found) = searched.await.map_err(|error| SearchError::Broken(error.to_string()))?;
        self.lines = Some(lines);
        Ok(Some(found))
    }

    /// What it came to so far.
    pub fn searched(&self) -> Searched {
        let found = self.lines.as_ref().map(Lines::searched).unwrap_or_default();
        Searched { bytes: self.at, ..found }
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
