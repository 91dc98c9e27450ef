//! A session as a state machine: state is the fold of its log.
//!
//! [`decide`] turns an input into facts; [`Session::apply`] folds a fact; `advance::next_fact` says which fact
//! is due without waiting for anything. A decision is the facts of the input and then every fact that is due.
//! Because each due fact is a function of the state alone, a log that was cut anywhere goes on from there.
//!
//! Invariants: `fold(events) == the state that decided them`; facts are numbered without holes; an input that is
//! refused changes nothing.

mod advance;
mod apply;
mod calls;
mod decide;
mod effects;
mod failed;
mod judge;
mod open;
mod report;
mod state;

pub use decide::{Decision, decide};
pub use effects::pending_effects;
pub use open::{audit, open_work, summary};
pub use state::{ClosedRequest, Created, LastEnd, Learned, Session, TokenTruth, WaitingInput};

pub(crate) use advance::resumed_by_itself;
pub(crate) use decide::Draft;
pub(crate) use judge::hex;

#[cfg(test)]
mod happening_tests;
#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod machine_tests;
#[cfg(test)]
mod mend_tests;
#[cfg(test)]
mod restart_tests;
#[cfg(test)]
mod sent_tests;
#[cfg(test)]
mod stop_tests;
#[cfg(test)]
mod vocabulary_tests;
#[cfg(test)]
mod world_tests;
