//! Reading patches.

use super::{Action, FilePatch, Hunk, Mark, PatchError};
use crate::limits;
use crate::path_bytes::PathBytes;

type Read<T> = Result<T, PatchError>;

/// Reads a patch of either form.
pub fn parse(text: &str) -> Read<Vec<FilePatch>> {
    let mut lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let first = lines.iter().position(|line| !line.trim().is_empty()).unwrap_or(0);
    let mut reader = Reader { lines, at: first };
    let files = match reader.peek() {
        None => return reader.expected("a patch, which is empty"),
        Some(line) if line.starts_with("*** ") && !line.starts_with("*** /") => reader.envelope()?,
        Some(_) => reader.unified()?,
    };
    if files.is_empty() {
        reader.at = first;
        return reader.expected("`*** Begin Patch`, or `--- a/FILE` and `+++ b/FILE`");
    }
    if files.len() > limits::PATCH_FILES_MAX {
        return reader.expected(&format!("at most {} files", limits::PATCH_FILES_MAX));
    }
    Ok(files)
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

/// The headers of git before the hunks of a file.
#[derive(Default)]
struct Headers {
    names: Option<PathBytes>,
    is_new: bool,
    is_deleted: bool,
    is_executable: bool,
    from: Option<PathBytes>,
    to: Option<PathBytes>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn ahead(&self, steps: usize) -> &'a str {
        self.lines.get(self.at + steps).copied().unwrap_or_default()
    }

    fn expected<T>(&self, what: &str) -> Read<T> {
        let found = match self.peek() {
            Some(line) => format!(", not {:?}", line.chars().take(60).collect::<String>()),
            None => String::new(),
        };
        Err(PatchError { line: self.at + 1, why: format!("expected {what}{found}") })
    }

    fn envelope(&mut self) -> Read<Vec<FilePatch>> {
        let has_begin = self.peek().is_some_and(|line| line.trim_end() == "*** Begin Patch");
        self.at += usize::from(has_begin);
        let mut files = Vec::new();
        loop {
            let line = self.at + 1;
            let Some(text) = self.peek() else {
                if has_begin {
                    return self.expected("`*** End Patch` (the patch may have been cut off)");
                }
                return Ok(files);
            };
            let named = |head: &str| text.strip_prefix(head).map(str::trim);
            let (path, action) = if text.trim_end() == "*** End Patch" {
                self.at += 1;
                if self.peek().is_some() {
                    return self.expected("nothing after `*** End Patch`");
                }
                return Ok(files);
            } else if text.trim().is_empty() {
                self.at += 1;
                continue;
            } else if let Some(path) = named("*** Add File:") {
                (path, self.added()?)
            } else if let Some(path) = named("*** Delete File:") {
                self.at += 1;
                (path, Action::Delete { hunks: Vec::new() })
            } else if let Some(path) = named("*** Update File:") {
                (path, self.updated()?)
            } else {
                return self.expected(
                    "`*** Update File: `, `*** Add File: `, `*** Delete File: ` or `*** End Patch`",
                );
            };
            if path.is_empty() {
                return Err(PatchError { line, why: "expected the name of a file".to_owned() });
            }
            files.push(FilePatch { path: PathBytes::from(path), line, action });
        }
    }

    fn added(&mut self) -> Read<Action> {
        self.at += 1;
        let mut content = String::new();
        while let Some(line) = self.peek().filter(|line| !line.starts_with("*** ")) {
            match line.strip_prefix('+') {
                Some(text) => content.extend([text, "\n"]),
                None if line.is_empty() && self.blank_to_section() => {}
                None => return self.expected("`+` before each line of a new file"),
            }
            self.at += 1;
        }
        Ok(Action::Add { content, is_executable: false })
    }

    /// Only empty lines until the next section.
    fn blank_to_section(&self) -> bool {
        let rest = self.lines.iter().skip(self.at);
        rest.copied().find(|line| !line.is_empty()).is_none_or(|line| line.starts_with("*** "))
    }

    fn updated(&mut self) -> Read<Action> {
        self.at += 1;
        let mut move_to = None;
        if let Some(path) = self.peek().and_then(|line| line.strip_prefix("*** Move to:")) {
            if path.trim().is_empty() {
                return self.expected("the new name of the file");
            }
            move_to = Some(PathBytes::from(path.trim()));
            self.at += 1;
        }
        let mut hunks = Vec::new();
        while let Some(line) = self.peek() {
            let is_end = line == "*** End of File";
            if line.starts_with("*** ") && !is_end || line.is_empty() && self.blank_to_section() {
                break;
            }
            hunks.push(self.envelope_hunk()?);
        }
        if hunks.is_empty() && move_to.is_none() {
            return self.expected("`@@` and lines that begin with ` `, `-` or `+`");
        }
        Ok(Action::Update { move_to, hunks })
    }

    fn envelope_hunk(&mut self) -> Read<Hunk> {
        let mut hunk = Hunk { line: self.at + 1, ..Hunk::default() };
        while let Some(anchor) = self.peek().and_then(|line| line.strip_prefix("@@")) {
            if let Some((start, ..)) = ranges(anchor) {
                hunk.hint = Some(start);
            } else if !anchor.trim().is_empty() {
                // The blanks before it may be its indent or a matter of style; it is compared without them.
                hunk.anchors.push(anchor.trim().to_owned());
            }
            self.at += 1;
        }
        while let Some(line) = self.peek() {
            if line == "*** End of File" {
                hunk.is_at_end = true;
                self.at += 1;
                break;
            }
            let is_over = line.starts_with("*** ") || line.starts_with("@@");
            if is_over || line.is_empty() && self.blank_to_section() {
                break;
            }
            self.hunk_line(&mut hunk, line)?;
        }
        self.check_hunk(hunk)
    }

    fn hunk_line(&mut self, hunk: &mut Hunk, line: &str) -> Read<()> {
        let (mark, text) = match line.split_at_checked(1) {
            Some((" ", text)) => (Mark::Context, text),
            Some(("-", text)) => (Mark::Removed, text),
            Some(("+", text)) => (Mark::Added, text),
            Some(("\\", _)) => {
                let last = hunk.lines.last().map(|line| line.0);
                hunk.old_is_open |= matches!(last, Some(Mark::Context | Mark::Removed));
                hunk.new_is_open |= matches!(last, Some(Mark::Context | Mark::Added));
                self.at += 1;
                return Ok(());
            }
            None if line.is_empty() => (Mark::Context, ""),
            _ => return self.expected("a line that begins with ` `, `-` or `+`, or the next `@@`"),
        };
        hunk.lines.push((mark, text.to_owned()));
        self.at += 1;
        Ok(())
    }

    fn check_hunk(&self, hunk: Hunk) -> Read<Hunk> {
        if hunk.lines.iter().all(|line| line.0 == Mark::Context) && hunk.old_is_open == hunk.new_is_open {
            let why = "expected a line with `-` or `+` in this hunk".to_owned();
            return Err(PatchError { line: hunk.line, why });
        }
        Ok(hunk)
    }

    fn is_file_header(&self) -> bool {
        self.ahead(0).starts_with("--- ") && self.ahead(1).starts_with("+++ ")
    }

    fn unified(&mut self) -> Read<Vec<FilePatch>> {
        let mut files = Vec::new();
        while let Some(line) = self.peek() {
            let number = self.at + 1;
            let headers =
                if line.starts_with("diff --git ") { self.git_headers()? } else { Headers::default() };
            if self.is_file_header() {
                files.push(self.unified_file(number, headers)?);
            } else if line.starts_with("diff --git ") {
                files.push(self.bare_file(number, headers)?);
            } else if line.starts_with("@@ -") {
                return self.expected("`--- a/FILE` and `+++ b/FILE` before a hunk");
            } else {
                // What stands before the first file or between files: a message, `Index:`.
                self.at += 1;
            }
        }
        Ok(files)
    }

    fn git_headers(&mut self) -> Read<Headers> {
        let names = self.ahead(0).strip_prefix("diff --git ").unwrap_or_default();
        let mut headers = Headers { names: same_name(names), ..Headers::default() };
        self.at += 1;
        let mut old_mode = None;
        while let Some(line) = self.peek() {
            if line.starts_with("diff --git ") || self.is_file_header() || line.starts_with("@@ -") {
                break;
            }
            if let Some(mode) = line.strip_prefix("new file mode ") {
                (headers.is_new, headers.is_executable) = (true, mode.trim() == "100755");
                if mode.trim() == "120000" {
                    return self.expected("a regular file: links are made by commands");
                }
            } else if line.starts_with("deleted file mode ") {
                headers.is_deleted = true;
            } else if let Some(mode) = line.strip_prefix("old mode ") {
                old_mode = Some(mode);
            } else if let Some(mode) = line.strip_prefix("new mode ") {
                if old_mode != Some(mode) {
                    return self.expected("no change of permission bits, which is made by a command (chmod)");
                }
            } else if let Some(path) = line.strip_prefix("rename from ") {
                headers.from = Some(self.name(path)?);
            } else if let Some(path) = line.strip_prefix("rename to ") {
                headers.to = Some(self.name(path)?);
            } else if line.starts_with("copy from ") {
                return self.expected("a new file with all of its lines instead of a copy");
            } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
                return self.expected("text: binary patches are not applied");
            }
            self.at += 1;
        }
        Ok(headers)
    }

    /// A file of git without hunks: renamed, or empty.
    fn bare_file(&self, line: usize, headers: Headers) -> Read<FilePatch> {
        let bare = |path, action| Ok(FilePatch { path, line, action });
        match headers {
            Headers { from: Some(path), to: Some(to), .. } => {
                bare(path, Action::Update { move_to: Some(to), hunks: Vec::new() })
            }
            Headers { is_new: true, names: Some(path), is_executable, .. } => {
                bare(path, Action::Add { content: String::new(), is_executable })
            }
            Headers { is_deleted: true, names: Some(path), .. } => {
                bare(path, Action::Delete { hunks: Vec::new() })
            }
            _ => Err(PatchError { line, why: "expected `--- a/FILE` and `+++ b/FILE` after it".to_owned() }),
        }
    }

    fn unified_file(&mut self, line: usize, headers: Headers) -> Read<FilePatch> {
        let old = self.name(self.ahead(0).strip_prefix("--- ").unwrap_or_default())?;
        self.at += 1;
        let new = self.name(self.ahead(0).strip_prefix("+++ ").unwrap_or_default())?;
        let is_none = |path: &PathBytes| path.as_bytes() == b"/dev/null";
        let (old, new) = match (is_none(&old), is_none(&new)) {
            (true, true) => return self.expected("the name of a file"),
            (true, false) => (None, Some(without(&new, b"b/"))),
            (false, true) => (Some(without(&old, b"a/")), None),
            (false, false) => {
                let (bare_old, bare_new) = (without(&old, b"a/"), without(&new, b"b/"));
                let both = bare_old != old && bare_new != new;
                if both { (Some(bare_old), Some(bare_new)) } else { (Some(old), Some(new)) }
            }
        };
        self.at += 1;
        let mut hunks = Vec::new();
        while self.peek().is_some_and(|line| line.starts_with("@@")) {
            hunks.push(self.unified_hunk()?);
        }
        let moved = headers.from.is_some() && headers.to.is_some();
        if hunks.is_empty() && !moved && old.is_some() && new.is_some() {
            return self.expected("a hunk: `@@ -LINE,COUNT +LINE,COUNT @@`");
        }
        let (path, action) = match (old, new) {
            (Some(_), Some(_)) if moved => {
                (headers.from.unwrap_or_default(), Action::Update { move_to: headers.to, hunks })
            }
            (Some(old), Some(new)) if old == new => (old, Action::Update { move_to: None, hunks }),
            (None, Some(new)) => {
                let content = content_of(&hunks)?;
                (new, Action::Add { content, is_executable: headers.is_executable })
            }
            (Some(old), _)
                if headers.is_deleted || hunks.iter().all(|hunk| hunk.added().next().is_none()) =>
            {
                (old, Action::Delete { hunks })
            }
            _ => {
                let why = "expected the same name after `---` and `+++`, or `rename from` and `rename to`";
                return Err(PatchError { line, why: why.to_owned() });
            }
        };
        Ok(FilePatch { path, line, action })
    }

    fn unified_hunk(&mut self) -> Read<Hunk> {
        let Some((start, mut old, mut new)) = self.peek().and_then(|line| ranges(line.strip_prefix("@@")?))
        else {
            return self.expected("`@@ -LINE,COUNT +LINE,COUNT @@`");
        };
        let mut hunk = Hunk { line: self.at + 1, hint: Some(start), ..Hunk::default() };
        self.at += 1;
        while let Some(line) = self.peek() {
            // The counts tell lines from what looks like the next header; else they are hints like the numbers.
            let is_counted = old > 0 || new > 0;
            let is_line = line.starts_with([' ', '+', '-']);
            let is_header = self.is_file_header() || line.starts_with("-- ") || line == "--";
            if line.starts_with('\\') || is_counted && (is_line || line.is_empty()) || is_line && !is_header {
                old = old.saturating_sub(usize::from(!line.starts_with(['+', '\\'])));
                new = new.saturating_sub(usize::from(!line.starts_with(['-', '\\'])));
                self.hunk_line(&mut hunk, line)?;
            } else if is_counted && !line.starts_with("@@") && !line.starts_with("diff ") {
                return self.expected(&format!("{old} more old and {new} more new lines of this hunk"));
            } else {
                break;
            }
        }
        self.check_hunk(hunk)
    }

    /// A file name: quoted as git quotes, or up to a tab.
    fn name(&self, text: &str) -> Read<PathBytes> {
        let path = match text.strip_prefix('"') {
            Some(quoted) => match unquoted(quoted) {
                Some(path) => path,
                None => return self.expected("a name that ends in a quote"),
            },
            None => text.split('\t').next().unwrap_or_default().trim_end().as_bytes().to_vec(),
        };
        if path.is_empty() { self.expected("the name of a file") } else { Ok(PathBytes::new(path)) }
    }
}

fn without(path: &PathBytes, prefix: &[u8]) -> PathBytes {
    path.as_bytes().strip_prefix(prefix).map_or_else(|| path.clone(), PathBytes::new)
}

fn content_of(hunks: &[Hunk]) -> Read<String> {
    let mut content = String::new();
    for hunk in hunks {
        if hunk.old().next().is_some() {
            let why = "expected only lines with `+` for a new file".to_owned();
            return Err(PatchError { line: hunk.line, why });
        }
        for line in hunk.added() {
            content.extend([line, "\n"]);
        }
        if hunk.new_is_open {
            content.pop();
        }
    }
    Ok(content)
}

/// The name in `a/NAME b/NAME`, which says the same twice.
fn same_name(names: &str) -> Option<PathBytes> {
    if let Some(quoted) = names.strip_prefix('"') {
        let path = unquoted(quoted)?;
        return path.strip_prefix(b"a/").map(PathBytes::new);
    }
    let half = names.len().checked_sub(1)? / 2;
    let (old, new) = (names.get(..half)?, names.get(half + 1..)?);
    let (old, new) = (old.strip_prefix("a/")?, new.strip_prefix("b/")?);
    (old == new).then(|| PathBytes::from(old))
}

/// `-3,4 +5,6 @@ …` as the old line, and both counts.
fn ranges(text: &str) -> Option<(usize, usize, usize)> {
    let text = text.strip_prefix(" -")?;
    let (old, rest) = text.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let pair = |text: &str| {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
    };
    let ((start, old), (_, new)) = (pair(old)?, pair(new)?);
    Some((start, old, new))
}

/// What stands before the closing quote of a name, its escapes read.
fn unquoted(text: &str) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    let mut bytes = text.bytes().peekable();
    loop {
        match bytes.next()? {
            b'"' => return Some(path),
            b'\\' => match bytes.next()? {
                digit @ b'0'..=b'3' => {
                    let mut value = digit - b'0';
                    for _ in 0..2 {
                        let next = bytes.next().filter(|byte| (b'0'..=b'7').contains(byte))?;
                        value = value * 8 + (next - b'0');
                    }
                    path.push(value);
                }
                b'n' => path.push(b'\n'),
                b't' => path.push(b'\t'),
                b'r' => path.push(b'\r'),
                b'a' => path.push(7),
                b'b' => path.push(8),
                b'v' => path.push(11),
                b'f' => path.push(12),
                other @ (b'"' | b'\\') => path.push(other),
                _ => return None,
            },
            byte => path.push(byte),
        }
    }
}
