//! The command line: one file per command, each with its arguments and its `run`.
//!
//! To add a command: a file, a variant in [`Command`], and an arm in [`run()`].

pub mod answer;
pub mod artifacts;
pub mod attach;
pub mod audit;
pub mod context;
pub mod daemon;
pub mod demo;
pub mod diff;
pub mod events;
pub mod ls;
pub mod models;
pub mod new;
mod output;
pub mod policy;
pub mod run;
pub mod send;
pub mod set;
pub mod show;
pub mod steer;
pub mod values;
pub mod wait;

pub(crate) use output::{note, while_read};
pub use output::{print_json, print_line};

use crate::error::ClientError;
use agentd_proto::place::DaemonStart;
use clap::Parser;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run AI agents in a background daemon that keeps what happened.
#[derive(Debug, Parser)]
#[command(name = "agentctl", version, disable_help_subcommand = true)]
pub struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What holds for every command.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct GlobalArgs {
    /// Keep everything (config, data, run) under DIR
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Print one JSON document (NDJSON for streams)
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Run one turn, headless and unattended
    Run(run::RunArgs),
    /// See the main job happen, without key and network
    Demo(demo::DemoArgs),
    /// Begin a session
    New(new::NewArgs),
    /// Say something to a session
    Send(send::SendArgs),
    /// Open a session in this terminal
    Attach(attach::AttachArgs),
    /// List the sessions
    Ls(ls::LsArgs),
    /// Show one session in detail
    Show(show::ShowArgs),
    /// Show what a session changed in files
    Diff(diff::DiffArgs),
    /// Print the log of a session as NDJSON
    Events(events::EventsArgs),
    /// List what waits for an answer
    Approvals(answer::ApprovalsArgs),
    /// Approve what waits for an answer
    Approve(answer::ApproveArgs),
    /// Deny what waits for an answer
    Deny(answer::DenyArgs),
    /// Stop the turn of a session
    Interrupt(steer::InterruptArgs),
    /// Let a waiting turn go on
    Resume(steer::ResumeArgs),
    /// Change a session while it lives
    Set(set::SetArgs),
    /// Show what fills a session's context
    Context(context::ContextArgs),
    /// Read and check the audit trail
    Audit(audit::AuditArgs),
    /// Read what was too large for the conversation
    Artifacts(artifacts::ArtifactsArgs),
    /// Say what would be decided, without running anything
    Policy(policy::PolicyArgs),
    /// List the models and what is known of each
    Models(models::ModelsArgs),
    /// Start, stop and look at the daemon
    Daemon(daemon::DaemonArgs),
}

impl Cli {
    /// How to start the daemon, when this process is to be it.
    pub fn daemon_role(&self) -> Option<DaemonStart> {
        match &self.command {
            Command::Daemon(args) => args.role(&self.global),
            _ => None,
        }
    }
}

/// Reads the command line. Help and version are said on stdout with code 0, mistakes on stderr with code 2.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, ExitCode> {
    Cli::try_parse_from(args).map_err(|error| {
        let code = if error.use_stderr() { 2 } else { 0 };
        match error.print().and_then(|()| std::io::stdout().flush()) {
            Err(source) if code == 0 => ClientError::from(source).report(),
            // A mistake stays one when nobody can be told.
            _ => ExitCode::from(code),
        }
    })
}

/// Runs the command.
pub async fn run(cli: Cli, tour: demo::Tour) -> Result<ExitCode, ClientError> {
    let global = &cli.global;
    match cli.command {
        Command::Run(args) => run::run(args, global).await,
        Command::Demo(args) => demo::run(args, global, tour).await,
        Command::New(args) => new::run(args, global).await,
        Command::Send(args) => send::run(args, global).await,
        Command::Attach(args) => attach::run(args, global).await,
        Command::Ls(args) => ls::run(args, global).await,
        Command::Show(args) => show::run(args, global).await,
        Command::Diff(args) => diff::run(args, global).await,
        Command::Events(args) => events::run(args, global).await,
        Command::Approvals(args) => answer::list(args, global).await,
        Command::Approve(args) => answer::approve(args, global).await,
        Command::Deny(args) => answer::deny(args, global).await,
        Command::Interrupt(args) => steer::interrupt(args, global).await,
        Command::Resume(args) => steer::resume(args, global).await,
        Command::Set(args) => set::run(args, global).await,
        Command::Context(args) => context::run(args, global).await,
        Command::Audit(args) => audit::run(args, global).await,
        Command::Artifacts(args) => artifacts::run(args, global).await,
        Command::Policy(args) => policy::run(args, global).await,
        Command::Models(args) => models::run(args, global).await,
        Command::Daemon(args) => daemon::run(args, global).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_flags_stand_anywhere() {
        let cli =
            parse(["agentctl", "daemon", "status", "--json", "--home", "/h"].map(OsString::from)).unwrap();
        assert!(cli.global.json);
        assert_eq!(cli.global.home.as_deref(), Some(std::path::Path::new("/h")));
        assert!(parse(["agentctl", "nonsense"].map(OsString::from)).is_err());
    }
}
