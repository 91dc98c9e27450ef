//! Identifiers and the source they come from.
//!
//! An id is a prefix that names its kind and 26 characters of Crockford base32 over a UUIDv7, so ids sort
//! by the time they were made. Ids are strings everywhere outside this module.
//!
//! Invariant: core never invents randomness. [`Stamp`] carries the time and the entropy of one decision;
//! the ids made from it are a pure function of both.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// Position of an event in the log of its session. The first event has 1; 0 means "before everything".
pub type Seq = u64;
/// Number of a turn in its session, from 1.
pub type TurnNo = u32;
/// Number of a context epoch in its session, from 1.
pub type EpochNo = u32;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// What every id of this kind begins with.
            pub const PREFIX: &'static str = $prefix;

            /// Takes a string from outside as an id. It is not checked to exist.
            pub fn new(text: impl Into<String>) -> Self { Self(text.into()) }
            /// A fresh id of this kind.
            pub fn fresh(stamp: &mut Stamp) -> Self { Self(stamp.next_id(Self::PREFIX)) }
            /// The id as text.
            pub fn as_str(&self) -> &str { &self.0 }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }
        impl AsRef<str> for $name { fn as_ref(&self) -> &str { &self.0 } }
    )*};
}

ids! {
    /// A session.
    SessionId = "s_";
    /// A tool call, ours; the provider's own id is kept beside it.
    CallId = "c_";
    /// A request to a person: an approval, a question, an elicitation.
    RequestId = "r_";
    /// A stored artifact.
    ArtifactId = "a_";
    /// One accepted input.
    InputId = "i_";
    /// One attempt at a model call.
    ModelCallId = "m_";
    /// One life of a daemon process.
    RunId = "d_";
    /// A connected client, as Hello named it.
    ClientId = "k_";
    /// A permission rule added by a person.
    GrantId = "g_";
    /// A turn; see [`TurnId::of`].
    TurnId = "t_";
}

impl TurnId {
    /// The outside name of a turn: unique among all sessions and computed, so nothing has to be looked up.
    pub fn of(session: &SessionId, turn: TurnNo) -> Self {
        let body = session.as_str().strip_prefix(SessionId::PREFIX).unwrap_or(session.as_str());
        Self(format!("{}{body}_{turn}", Self::PREFIX))
    }

    /// The number in the name, if this is a turn of `session`.
    pub fn number_in(&self, session: &SessionId) -> Option<TurnNo> {
        let (head, number) = self.0.rsplit_once('_')?;
        let turn = number.parse().ok()?;
        (Self::of(session, turn) == *self && !head.is_empty()).then_some(turn)
    }
}

/// The time and the entropy of one decision, and nothing else from outside.
#[derive(Clone, Debug)]
pub struct Stamp {
    /// Wall time of the decision, in Unix milliseconds.
    pub now_ms: i64,
    /// The run of the daemon that decides.
    pub run_id: RunId,
    entropy: [u8; 16],
    drawn: u32,
}

impl Stamp {
    /// A stamp for one decision. `entropy` must be fresh for each: ids are derived from it.
    pub fn new(now_ms: i64, run_id: RunId, entropy: [u8; 16]) -> Self {
        Self { now_ms, run_id, entropy, drawn: 0 }
    }

    fn next_id(&mut self, prefix: &str) -> String {
        self.drawn += 1;
        let mut hash = Sha256::new();
        hash.update(self.entropy);
        hash.update(self.drawn.to_be_bytes());
        let digest = hash.finalize();
        let mut random = [0_u8; 10];
        random.copy_from_slice(&digest[..10]);
        format!("{prefix}{}", uuid_v7_base32(self.now_ms, random))
    }
}

/// The 26 characters after the prefix: a UUIDv7 of `now_ms` and 80 random bits, in Crockford base32.
pub fn uuid_v7_base32(now_ms: i64, random: [u8; 10]) -> String {
    let time = u128::from(u64::try_from(now_ms).unwrap_or(0) & 0xffff_ffff_ffff);
    let mut low = [0_u8; 16];
    low[6..].copy_from_slice(&random);
    let mut value = (time << 80) | (u128::from_be_bytes(low) & ((1 << 80) - 1));
    value = (value & !(0xf << 76)) | (0x7 << 76);
    value = (value & !(0x3 << 62)) | (0x2 << 62);
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut text = [0_u8; 26];
    for slot in text.iter_mut().rev() {
        *slot = ALPHABET[(value & 31) as usize];
        value >>= 5;
    }
    text.iter().map(|byte| char::from(*byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_by_time_and_unlike_each_other() {
        let run = RunId::new("d_test");
        let mut early = Stamp::new(1_000, run.clone(), [1; 16]);
        let mut late = Stamp::new(2_000, run, [0; 16]);
        let (a, b, c) = (CallId::fresh(&mut early), CallId::fresh(&mut early), CallId::fresh(&mut late));
        assert_ne!(a, b);
        assert!(a < c && b < c);
        assert_eq!(a.as_str().len(), 28);
    }

    #[test]
    fn turn_ids_name_their_session() {
        let session = SessionId::new("s_01abc");
        let turn = TurnId::of(&session, 12);
        assert_eq!(turn.as_str(), "t_01abc_12");
        assert_eq!(turn.number_in(&session), Some(12));
        assert_eq!(turn.number_in(&SessionId::new("s_other")), None);
    }
}
