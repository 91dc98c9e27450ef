//! The tree as the rules read it.

use std::path::{Path, PathBuf};

/// A text file of the repository.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its path from the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", ".git", "node_modules"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Every file whose content is text.
pub(crate) fn files() -> Vec<Source> {
    let (root, mut found) = (root(), Vec::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() && !SKIPPED.contains(&entry.file_name().to_str().unwrap()) {
                folders.push(path);
            } else if kind.is_file()
                // In a linked work tree this is a file that names a place.
                && entry.file_name() != ".git"
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                found.push(Source {
                    path: path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned(),
                    text,
                });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 30, "the tree was not found at {}", root.display());
    found
}

/// Every Rust file that a person wrote.
pub(crate) fn rust() -> Vec<Source> {
    files()
        .into_iter()
        .filter(|file| file.path.ends_with(".rs") && !file.path.contains("/src/gen/"))
        .collect()
}

impl Source {
    /// The file's name without its ending.
    pub(crate) fn stem(&self) -> &str {
        Path::new(&self.path).file_stem().unwrap().to_str().unwrap()
    }

    /// Whether the whole file is test code.
    pub(crate) fn is_test(&self) -> bool {
        let stem = self.stem();
        stem.ends_with("_tests")
            || stem == "tests"
            || stem.starts_with("test_")
            || self.path.split('/').any(|part| part == "tests")
    }

    /// The code without comments, and without the test module at its end. Strings stay.
    pub(crate) fn code(&self) -> String {
        let own = self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        without_comments(own)
    }

    /// All code without comments, tests too.
    pub(crate) fn all_code(&self) -> String {
        without_comments(&self.text)
    }
}

fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for line in text.lines() {
        // A `//` after a colon is an address in a string.
        let end = line.match_indices("//").map(|(at, _)| at).find(|at| !line[..*at].ends_with(':'));
        code.push_str(&line[..end.unwrap_or(line.len())]);
        code.push('\n');
    }
    code
}

/// Fails with all that was found, or passes.
#[track_caller]
pub(crate) fn none_of(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}
