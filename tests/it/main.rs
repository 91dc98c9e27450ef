//! End-to-end tests: the real binary, a scripted model, real processes and files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test reports by failing, and figures are printed"
)]

mod conversations;
mod e2e;
mod independent;
