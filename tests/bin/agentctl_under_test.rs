//! The same binary as `agentctl`, built with the tests so that they always run what was just built.
fn main() -> std::process::ExitCode {
    let tour = agentctl::cli::demo::Tour {
        prompt: agentd::model::TOUR_PROMPT,
        files: agentd::model::tour_workspace,
    };
    agentctl::main(agentctl::Roles { daemon: agentd::run_daemon, exec: agentd::run_exec, tour })
}
