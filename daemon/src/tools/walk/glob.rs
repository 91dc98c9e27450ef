//! Which paths a model asked for: one glob with the rules of a line of `.gitignore`.

use super::super::answer;
use agentd_core::command::CallFault;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A glob.
pub(in crate::tools) struct Glob {
    matcher: Gitignore,
    is_negated: bool,
    /// The components without wildcards that it begins with, if it is bound to a place.
    literal: Vec<Vec<u8>>,
    /// The last component has no wildcards.
    ends_literal: bool,
}

impl Glob {
    /// Reads one.
    pub(in crate::tools) fn new(text: &str) -> Result<Self, CallFault> {
        let bad = |why: String| answer::invalid("glob", format!("Invalid glob {text}: {why}."));
        let (is_negated, body) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let body = body.strip_prefix("./").unwrap_or(body);
        if body.is_empty() || body == "/" {
            return Err(bad("it names nothing".to_owned()));
        }
        let line = if body.starts_with('#') || body.starts_with('!') {
            format!("\\{body}")
        } else {
            body.to_owned()
        };
        let mut builder = GitignoreBuilder::new("");
        builder.allow_unclosed_class(false);
        builder.add_line(None, &line).map_err(|error| bad(error.to_string()))?;
        let matcher = builder.build().map_err(|error| bad(error.to_string()))?;
        if matcher.is_empty() {
            return Err(bad("it names nothing".to_owned()));
        }
        let is_literal = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
        let trimmed = body.trim_matches('/');
        let is_bound = body.trim_end_matches('/').contains('/');
        let literal = if is_bound && !is_negated {
            trimmed.split('/').take_while(is_literal).map(|part| part.as_bytes().to_vec()).collect()
        } else {
            Vec::new()
        };
        let ends_literal = !is_negated && trimmed.rsplit('/').next().as_ref().is_some_and(is_literal);
        Ok(Self { matcher, is_negated, literal, ends_literal })
    }

    /// Whether it says what not to take.
    pub(in crate::tools) const fn is_negated(&self) -> bool {
        self.is_negated
    }

    /// Whether the entry itself matches.
    pub(in crate::tools) fn matches(&self, path: &[u8], is_folder: bool) -> bool {
        self.hits(path, is_folder) != self.is_negated
    }

    /// Whether a file matches, or a folder it lies in.
    pub(in crate::tools) fn covers(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        let hit = path
            .ancestors()
            .enumerate()
            .any(|(up, path)| !path.as_os_str().is_empty() && self.hits(path.as_os_str().as_bytes(), up > 0));
        hit != self.is_negated
    }

    /// Whether a folder and all below it is excluded.
    pub(in crate::tools) fn excludes(&self, path: &[u8]) -> bool {
        self.is_negated && self.hits(path, true)
    }

    /// Whether it names this very entry, or a folder on the way, without wildcards.
    pub(in crate::tools) fn names(&self, path: &[u8], is_folder: bool) -> bool {
        if self.is_negated {
            return false;
        }
        if self.ends_literal && self.hits(path, is_folder) {
            return true;
        }
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        is_folder
            && parts.len() <= self.literal.len()
            && parts.iter().zip(&self.literal).all(|(part, literal)| part == literal)
    }

    fn hits(&self, path: &[u8], is_folder: bool) -> bool {
        self.matcher.matched(Path::new(OsStr::from_bytes(path)), is_folder).is_ignore()
    }
}
