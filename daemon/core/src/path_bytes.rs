//! Paths as data: the bytes a Unix path really is.
//!
//! Invariant: bytes are kept as they are; nothing is normalised, trimmed or replaced. In JSON a path that
//! is valid UTF-8 is a string, any other an array of bytes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A Unix path by its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PathBytes(Vec<u8>);

impl PathBytes {
    /// Takes bytes as they are.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
    /// For people: invalid UTF-8 shown as replacement marks.
    pub fn display(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl From<&str> for PathBytes {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl fmt::Debug for PathBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.display())
    }
}

impl Serialize for PathBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PathBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = PathBytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path: a string, or an array of bytes")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PathBytes, E> {
                Ok(PathBytes::from(text))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<PathBytes, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = seq.next_element()? {
                    bytes.push(byte);
                }
                Ok(PathBytes(bytes))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
