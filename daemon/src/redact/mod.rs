//! Removes known secrets from text before it becomes an event, a log line or an artifact.
//!
//! A secret is searched for as it is, and in base64 (each of its three alignments, both alphabets), URL and hex
//! forms. It is replaced by `[REDACTED:NAME]`.
//!
//! Invariants: what is found does not depend on how a stream was cut into chunks; text without secrets comes out
//! byte for byte; the longest form wins where several begin at one place. Values shorter than
//! [`limits::SECRET_MIN_BYTES`] are not searched for: they are found everywhere.
//!
//! Deliberately absent: guessing secrets by their look. And never to be applied to what will be written back: a
//! mark in a file destroys the secret it stands for.

use agentd_core::limits;
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// Searches for a fixed set of secrets. Cheap when there are none.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Forms by their first byte, the longest first.
    forms: BTreeMap<u8, Vec<Form>>,
    /// Which first bytes there are.
    starts: Vec<bool>,
    longest: usize,
}

#[derive(Clone)]
struct Form {
    bytes: Vec<u8>,
    mark: String,
}

/// A text after redaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted<T> {
    /// What is left.
    pub content: T,
    /// How many secrets were replaced.
    pub count: u32,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("forms", &self.forms.values().map(Vec::len).sum::<usize>()).finish()
    }
}

impl Redactor {
    /// A redactor for these secrets, each with the name that its mark shows.
    pub fn new<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut all: BTreeMap<Vec<u8>, String> = BTreeMap::new();
        for (name, value) in secrets {
            let value = value.trim_ascii();
            if value.len() < limits::SECRET_MIN_BYTES {
                continue;
            }
            let mark = format!("[REDACTED:{name}]");
            for form in forms_of(value) {
                if form.len() >= limits::SECRET_MIN_BYTES {
                    all.entry(form).or_insert_with(|| mark.clone());
                }
            }
        }
        let mut redactor = Self { starts: vec![false; 256], ..Self::default() };
        for (bytes, mark) in all {
            let Some(first) = bytes.first().copied() else { continue };
            redactor.longest = redactor.longest.max(bytes.len());
            redactor.starts[usize::from(first)] = true;
            redactor.forms.entry(first).or_default().push(Form { bytes, mark });
        }
        for forms in redactor.forms.values_mut() {
            forms.sort_by_key(|form| std::cmp::Reverse(form.bytes.len()));
        }
        redactor
    }

    /// Whether there is nothing to search for.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Bytes that a stream has to hold back: a secret may have begun in them.
    pub const fn overlap_bytes(&self) -> usize {
        self.longest.saturating_sub(1)
    }

    /// The text without secrets.
    pub fn redact(&self, text: &str) -> Redacted<String> {
        let found = self.redact_bytes(text.as_bytes());
        // Forms are cut at ASCII or whole secrets; a secret that is not UTF-8 cannot stand in text.
        let content = String::from_utf8(found.content)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Redacted { content, count: found.count }
    }

    /// The bytes without secrets.
    pub fn redact_bytes(&self, bytes: &[u8]) -> Redacted<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len());
        let (_, count) = self.scan(bytes, bytes.len(), &mut out);
        Redacted { content: out, count }
    }

    /// Copies a stream without its secrets, in constant memory. Returns how many were replaced.
    pub fn copy(&self, mut from: impl Read, mut to: impl Write) -> std::io::Result<u32> {
        let mut stream = self.stream();
        let mut chunk = vec![0_u8; 64 * 1024];
        loop {
            let read = match from.read(&mut chunk) {
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if read == 0 {
                break;
            }
            to.write_all(&stream.push(&chunk[..read]))?;
        }
        let rest = stream.finish();
        to.write_all(&rest.content)?;
        Ok(rest.count)
    }

    /// How many of the last bytes may be the start of a secret.
    fn begun(&self, bytes: &[u8]) -> usize {
        let most = self.overlap_bytes().min(bytes.len());
        let may_begin = |count: &usize| {
            let end = &bytes[bytes.len() - count..];
            let forms = end.first().and_then(|first| self.forms.get(first));
            forms
                .is_some_and(|forms| forms.iter().any(|f| f.bytes.len() > *count && f.bytes.starts_with(end)))
        };
        (1..=most).rev().find(may_begin).unwrap_or(0)
    }

    /// Begins a stream.
    pub const fn stream(&self) -> Stream<'_> {
        Stream { redactor: self, held: Vec::new(), count: 0 }
    }

    /// Appends `bytes[..limit]` without secrets to `out`; a secret may reach beyond the limit. Returns how many
    /// bytes were consumed and how many secrets were replaced.
    fn scan(&self, bytes: &[u8], limit: usize, out: &mut Vec<u8>) -> (usize, u32) {
        if self.is_empty() {
            out.extend_from_slice(&bytes[..limit]);
            return (limit, 0);
        }
        let (mut at, mut copied, mut count) = (0, 0, 0);
        while at < limit {
            let first = bytes[at];
            if !self.starts[usize::from(first)] {
                at += 1;
                continue;
            }
            let hit = self
                .forms
                .get(&first)
                .and_then(|forms| forms.iter().find(|f| bytes[at..].starts_with(&f.bytes)));
            match hit {
                Some(form) => {
                    out.extend_from_slice(&bytes[copied..at]);
                    out.extend_from_slice(form.mark.as_bytes());
                    at += form.bytes.len();
                    copied = at;
                    count += 1;
                }
                None => at += 1,
            }
        }
        if copied < at {
            out.extend_from_slice(&bytes[copied..at]);
        }
        (at, count)
    }
}

/// A stream under redaction.
#[derive(Debug)]
pub struct Stream<'a> {
    redactor: &'a Redactor,
    held: Vec<u8>,
    count: u32,
}

impl Stream<'_> {
    /// Takes a chunk and gives what is certain by now.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(chunk);
        let limit = self.held.len() - self.redactor.begun(&self.held);
        let mut out = Vec::with_capacity(limit);
        let (consumed, count) = self.redactor.scan(&self.held, limit, &mut out);
        self.held.drain(..consumed);
        self.count += count;
        out
    }

    /// Gives the rest and the count of the whole stream.
    pub fn finish(self) -> Redacted<Vec<u8>> {
        let rest = self.redactor.redact_bytes(&self.held);
        Redacted { content: rest.content, count: self.count + rest.count }
    }
}

/// A secret as it may be written.
fn forms_of(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![value.to_vec()];
    let hex = |digits: &[u8; 16]| -> Vec<u8> {
        value
            .iter()
            .flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]])
            .collect()
    };
    forms.push(hex(b"0123456789abcdef"));
    forms.push(hex(b"0123456789ABCDEF"));
    forms.push(url_form(value, b"0123456789ABCDEF"));
    forms.push(url_form(value, b"0123456789abcdef"));
    for skip in 0..3 {
        let standard = base64_inner(value, skip);
        let url: Vec<u8> = standard
            .iter()
            .map(|byte| match byte {
                b'+' => b'-',
                b'/' => b'_',
                byte => *byte,
            })
            .collect();
        forms.extend([standard, url]);
    }
    if let Some(escaped) = json_form(value) {
        forms.push(escaped);
    }
    forms
}

/// Percent-encoded, all but unreserved characters.
fn url_form(value: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for byte in value {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(*byte);
        } else {
            out.extend([b'%', digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]);
        }
    }
    out
}

/// As a JSON string writes it, without the quotes.
fn json_form(value: &[u8]) -> Option<Vec<u8>> {
    let quoted = serde_json::to_string(std::str::from_utf8(value).ok()?).ok()?;
    Some(quoted.trim_start_matches('"').strip_suffix('"')?.as_bytes().to_vec())
}

/// The characters of base64 that depend on the secret alone when it begins `skip` bytes after a multiple of three.
fn base64_inner(value: &[u8], skip: usize) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let first_bit = skip * 8;
    let last_bit = first_bit + value.len() * 8;
    // Only whole groups of six bits inside the secret are certain.
    let (from, to) = (first_bit.div_ceil(6), last_bit / 6);
    (from..to)
        .map(|index| {
            let mut group = 0_u8;
            for bit in index * 6..index * 6 + 6 {
                let inside = bit - first_bit;
                let byte = value.get(inside / 8).copied().unwrap_or(0);
                group = (group << 1) | ((byte >> (7 - inside % 8)) & 1);
            }
            ALPHABET[usize::from(group)]
        })
        .collect()
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
