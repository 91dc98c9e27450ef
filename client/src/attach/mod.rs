//! Following sessions, and answering in them, from a terminal or without one.
//!
//! A lost daemon is found again (and started when none answers) by [`link`]; [`follow`] goes on after the last
//! event it gave out; [`said`] reads what a person typed; [`interactive`] joins them.

pub(crate) mod follow;
pub(crate) mod interactive;
pub(crate) mod known;
pub(crate) mod outcome;
pub(crate) mod said;
pub(crate) mod typed;

#[cfg(test)]
mod fake_daemon;
#[cfg(test)]
mod follow_tests;
#[cfg(test)]
mod interactive_tests;
