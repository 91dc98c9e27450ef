//! JSON as text: objects that keep the order of their keys, and strings that arrive in pieces.
//!
//! Purpose: `serde_json` sorts the keys of its maps, but what a provider wrote must go back as it came. So a
//! block is held as pairs of key and raw value.
//!
//! Invariants: rendering what was parsed gives the same keys, values and order. A [`Growing`] text is always
//! valid UTF-8; surrogate halves that a provider put into two pieces are joined, single ones are replaced.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// An object as pairs, in order. A key that comes twice keeps its place and takes the later value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Object {
    entries: Vec<(String, Box<str>)>,
}

impl Object {
    /// Reads an object; none for anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let pairs: Pairs<'_> = serde_json::from_str(text).ok()?;
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let mut entries: Vec<(String, Box<str>)> = Vec::with_capacity(pairs.0.len());
        for (key, value) in pairs.0 {
            match places.get(&key) {
                Some(&place) => entries[place].1 = value.get().into(),
                None => {
                    places.insert(key.clone(), entries.len());
                    entries.push((key, value.get().into()));
                }
            }
        }
        Some(Self { entries })
    }

    /// The raw text of a value; `null` counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.entries
            .iter()
            .find(|entry| entry.0 == key)
            .map(|entry| &*entry.1)
            .filter(|value| *value != "null")
    }

    /// A value that is a string.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?).ok()
    }

    /// A value that is a count.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        serde_json::from_str(self.get(key)?).ok()
    }

    /// Puts raw JSON under a key: in its place, or at the end when it is new.
    pub(crate) fn set(&mut self, key: &str, raw: &str) {
        match self.entries.iter_mut().find(|entry| entry.0 == key) {
            Some(entry) => entry.1 = raw.into(),
            None => self.entries.push((key.to_owned(), raw.into())),
        }
    }

    /// Takes over every value of `newer` that is not null.
    pub(crate) fn overwrite_with(&mut self, newer: &Self) {
        for (key, value) in newer.entries.iter().filter(|entry| &*entry.1 != "null") {
            self.set(key, value);
        }
    }

    /// Whether the key is there, be its value `null`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.0 == key)
    }

    /// How many keys it has.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Every key and value, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| (entry.0.as_str(), &*entry.1))
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The object as JSON.
    pub(crate) fn render(&self) -> String {
        let size: usize = self.entries.iter().map(|(key, value)| key.len() + value.len() + 4).sum();
        let mut out = String::with_capacity(size + 2);
        out.push('{');
        for (at, (key, value)) in self.entries.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            out.push_str(&quoted(key));
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        out
    }
}

/// An object that is only looked into: it borrows its values. Of a key that comes twice the later value counts.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a> {
    pairs: Vec<(String, &'a RawValue)>,
}

impl<'a> Fields<'a> {
    /// Reads an object; none for anything else.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let pairs: Pairs<'a> = serde_json::from_str(text).ok()?;
        Some(Self { pairs: pairs.0 })
    }

    /// The raw text of a value; `null` counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        let found = self.pairs.iter().rev().find(|pair| pair.0 == key);
        found.map(|pair| pair.1.get()).filter(|value| *value != "null")
    }

    /// A value that is a string with something in it.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let text: String = serde_json::from_str(self.get(key)?).ok()?;
        (!text.is_empty()).then_some(text)
    }

    /// A value that is an object.
    pub(crate) fn object(&self, key: &str) -> Option<Fields<'a>> {
        Fields::parse(self.get(key)?)
    }

    /// Every key and value, in order, `null` too.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.pairs.iter().map(|pair| (pair.0.as_str(), pair.1.get()))
    }
}

/// Whether every later reader can read a value: one that goes deeper than they do, or holds half a character or a
/// number beyond all range, passes as raw text and fails there.
pub(crate) fn is_readable(raw: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(raw).is_ok()
}

/// The entries of a list; none for anything else.
pub(crate) fn list(text: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(text).ok()
}

struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}

/// The first key that an object names twice at its top. Two readers of such an object may disagree.
pub(crate) fn repeated_key(text: &str) -> Option<String> {
    let pairs: Pairs<'_> = serde_json::from_str(text).ok()?;
    let mut seen = BTreeSet::new();
    pairs.0.into_iter().map(|pair| pair.0).find(|key| !seen.insert(key.clone()))
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    quote_into(text, |bytes| out.extend_from_slice(bytes));
    String::from_utf8(out).unwrap_or_default()
}

/// Writes a text as a JSON string, piece by piece.
pub(crate) fn quote_into(text: &str, mut put: impl FnMut(&[u8])) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    put(b"\"");
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0c => b"\\f",
            0..=0x1f => {
                put(&bytes[from..at]);
                put(&[b'\\', b'u', b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
                from = at + 1;
                continue;
            }
            _ => continue,
        };
        put(&bytes[from..at]);
        put(escape);
        from = at + 1;
    }
    put(&bytes[from..]);
    put(b"\"");
}

/// A JSON string as the bytes it stands for; a surrogate half appears in its three-byte form.
pub(crate) fn string_bytes(raw: &str) -> Option<Vec<u8>> {
    struct Bytes(Vec<u8>);
    impl<'de> Deserialize<'de> for Bytes {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct BytesVisitor;
            impl Visitor<'_> for BytesVisitor {
                type Value = Bytes;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a string")
                }
                fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                    Ok(Bytes(bytes.to_vec()))
                }
                fn visit_str<E>(self, text: &str) -> Result<Bytes, E> {
                    Ok(Bytes(text.as_bytes().to_vec()))
                }
            }
            deserializer.deserialize_bytes(BytesVisitor)
        }
    }
    // `deserialize_bytes` would take an array of numbers as well.
    raw.starts_with('"').then(|| serde_json::from_str::<Bytes>(raw).ok()).flatten().map(|bytes| bytes.0)
}

/// A text that arrives in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Growing {
    text: String,
    high: Option<u32>,
    is_json: bool,
}

impl Growing {
    /// What came so far.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Takes the next piece, as [`string_bytes`] gives it; answers where in the text it begins.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        let from = self.text.len();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (good, bad) = match std::str::from_utf8(rest) {
                Ok(text) => (text, &[][..]),
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    (std::str::from_utf8(good).unwrap_or_default(), bad)
                }
            };
            if !good.is_empty() {
                self.close();
                self.text.push_str(good);
            }
            rest = match bad {
                [0xed, middle @ 0xa0..=0xbf, last @ 0x80..=0xbf, tail @ ..] => {
                    self.surrogate(0xd000 | (u32::from(middle & 0x3f) << 6) | u32::from(last & 0x3f));
                    tail
                }
                [_, tail @ ..] => {
                    self.close();
                    self.text.push(char::REPLACEMENT_CHARACTER);
                    tail
                }
                [] => &[],
            };
        }
        from
    }

    /// The same for a text that is JSON itself: half of a character stays the escape that it was, so that whoever
    /// reads the JSON refuses it. What is to be written to a file must not be changed on the way.
    pub(crate) fn push_json(&mut self, bytes: &[u8]) -> usize {
        self.is_json = true;
        self.push(bytes)
    }

    /// Replaces a half that stayed alone.
    pub(crate) fn close(&mut self) {
        if let Some(high) = self.high.take() {
            self.half(high);
        }
    }

    fn half(&mut self, code: u32) {
        if self.is_json {
            self.text.push_str(&format!("\\u{code:04x}"));
        } else {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
    }

    fn surrogate(&mut self, code: u32) {
        if code < 0xdc00 {
            self.close();
            self.high = Some(code);
        } else if let Some(high) = self.high.take() {
            let joined = 0x1_0000 + ((high - 0xd800) << 10) + (code - 0xdc00);
            self.text.push(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
        } else {
            self.half(code);
        }
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
