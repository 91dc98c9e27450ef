//! The real clock and the real randomness. Simulations bring their own.

use crate::ports::{Clock, Entropy};
use agentd_core::ids::uuid_v7_base32;
use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

/// The randomness of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn draw(&self) -> [u8; 16] {
        let mut bytes = [0_u8; 16];
        if let Err(error) = getrandom::fill(&mut bytes) {
            // Linux has no way to come here once it has booted. Ids must still differ from each other.
            tracing::error!(%error, "the system has no randomness");
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            bytes = (now.as_nanos() ^ (u128::from(std::process::id()) << 96)).to_le_bytes();
        }
        bytes
    }
}

/// The 26 characters of a fresh id.
pub(super) fn fresh_id(clock: &dyn Clock, entropy: &dyn Entropy) -> String {
    let mut random = [0_u8; 10];
    random.copy_from_slice(&entropy.draw()[..10]);
    uuid_v7_base32(clock.now_ms(), random)
}
