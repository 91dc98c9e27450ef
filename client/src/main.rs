//! The one binary: the client, and the only file that knows the daemon.

use agentctl::Roles;
use agentctl::cli::demo::Tour;
use std::process::ExitCode;

fn main() -> ExitCode {
    agentctl::main(Roles {
        daemon: agentd::run_daemon,
        exec: agentd::run_exec,
        tour: Tour { prompt: agentd::model::TOUR_PROMPT, files: agentd::model::tour_workspace },
    })
}
