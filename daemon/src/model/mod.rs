//! Speaking to model providers.
//!
//! Purpose: carry a body that core built to a provider and its bytes back through core's decoder, with
//! deadlines, and sort whatever goes wrong into a class that core can decide on.
//!
//! Invariants: a call is one attempt, and is cancelled by dropping its future; keys appear in no error, log or
//! `Debug`; every failure names the provider, the host, the status and what to do.
//!
//! Deliberately absent: when to try again and how often (core decides), where keys come from (the caller), and
//! what a request says (`agentd_core::model`).

mod demo;
mod http;
mod listing;
mod outcome;
mod provider;
mod record;
mod refusal;

pub use demo::{TOUR_PROMPT, tour_workspace};
pub use http::Models;
pub use listing::Listings;
pub use outcome::{Answer, CallFailure};
pub use provider::{Provider, is_secret_name};
pub use record::{Recorder, Records};
