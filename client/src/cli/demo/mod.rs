//! `agentctl demo`: the guided main job on `demo/tour`, in a home of its own.
//!
//! Real tools on a real scratch workspace: an approval, a kill -9 of the daemon in the middle of a command, the
//! adoption of that command, the ledger. No key, no network.
//!
//! Invariants: it never touches another home's daemon, and the one it kills is the one it started; it ends well
//! only if everything it tells really happened.

mod stage;
mod story;

use super::{GlobalArgs, values};
use crate::api;
use crate::connect::link::Link;
use crate::connect::{connect, connect_if_running};
use crate::error::ClientError;
use crate::render::out::{Printer, To};
use crate::render::style::{Ink, Style};
use crate::render::{ledger, safe};
use agentd_proto::v1;
use stage::Stage;
use std::path::Path;
use std::process::ExitCode;
use story::Story;

/// What this client calls itself.
const LABEL: &str = "agentctl demo";
/// The scripted model inside the daemon.
const MODEL: &str = "demo/tour";

/// A file of the scratch workspace: its path, its content, its permission bits.
pub type DemoFile = (&'static str, &'static str, u32);

/// What the scripted model works on; the daemon that has the script has these too.
#[derive(Clone, Copy)]
pub struct Tour {
    /// What the model is asked.
    pub prompt: &'static str,
    /// The files of the workspace.
    pub files: fn() -> &'static [DemoFile],
}

/// What `demo` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A scripted model finds and fixes a failing test in a scratch folder, with the real daemon, tools and approvals.
While its last command runs, the demo kills its own daemon; the command goes on and is adopted.

Examples:
  agentctl demo
  agentctl demo --home ~/demo-home      keep it in a folder of your choice")]
pub struct DemoArgs {}

/// Runs the command.
pub async fn run(_args: DemoArgs, global: &GlobalArgs, tour: Tour) -> Result<ExitCode, ClientError> {
    if std::env::var_os("AGENTD_SOCKET").is_some() {
        return Err(ClientError::usage("the demo wants a daemon of its own, but AGENTD_SOCKET names one")
            .hint("env -u AGENTD_SOCKET agentctl demo"));
    }
    let stage = Stage::build(global.home.clone(), (tour.files)())?;
    let own = GlobalArgs { home: Some(stage.home.clone()), json: false };
    if let Some(found) = connect_if_running(&own).await? {
        return Err(ClientError::usage(format!(
            "a daemon (pid {}) already runs in {}; the demo kills the daemon it works with, so it wants a home of its own",
            found.hello.pid,
            stage.home.display()
        ))
        .hint("leave --home out, or name an empty folder"));
    }
    let style = Style::of(std::io::stdout());
    let mut printer = Printer::new(To::Stdout, To::Stdout);
    let say =
        |printer: &mut Printer, line: &str| printer.data(&style.paint(Ink::Bold, &format!("## {line}")));
    say(
        &mut printer,
        "agentctl demo: a failing test is found and fixed, and the daemon is killed in the middle",
    )?;
    printer.data(&format!("   home       {}", show(&stage.home)))?;
    printer.data(&format!("   workspace  {}", show(&stage.workspace)))?;

    let link = Link::from(connect(&own).await?);
    let hello = link.now().0.hello;
    printer.data(&format!("   daemon     pid {}, run {}", hello.pid, safe::inline(&hello.run_id)))?;
    let session_id = begin(&link, &stage).await?;
    printer.data(&format!("   session    {}", safe::inline(&session_id)))?;

    let mut story = Story::new(link.clone(), session_id.clone(), hello, style, printer);
    story.tell(tour.prompt).await?;
    let faults = story.faults();
    let mut printer = story.into_printer();

    say(&mut printer, "what filled the model's context")?;
    let request =
        v1::GetContextRequest { session_id: session_id.clone(), items: Some(0), ..Default::default() };
    let context = api::get_context(&link, request).await?;
    for line in ledger::regions(style, &context) {
        printer.data(&format!("   {line}"))?;
    }
    say(&mut printer, "look around (the daemon of the demo still runs)")?;
    for line in stage.commands(&session_id) {
        printer.data(&format!("   {line}"))?;
    }
    if faults.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut error = ClientError::failed("the demo did not go as told");
    for fault in faults {
        error = error.hint(fault);
    }
    Err(error)
}

async fn begin(link: &Link, stage: &Stage) -> Result<String, ClientError> {
    // Nothing of the person's environment but what commands need: the demo has no keys to see.
    let env = ["PATH", "LANG", "LC_ALL", "HOME"]
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect();
    let request = v1::CreateSessionRequest {
        request_id: api::fresh_request_id()?,
        client_label: LABEL.to_owned(),
        cwd: values::path_bytes(&stage.workspace),
        env,
        model: Some(MODEL.to_owned()),
        mode: v1::PermissionMode::Ask.into(),
        attended: true,
        on_restart: v1::OnRestart::Continue.into(),
        name: Some("demo".to_owned()),
        ..Default::default()
    };
    let answer = api::create_session(link, request).await?;
    let summary = answer.session.and_then(|session| session.summary);
    summary
        .map(|summary| summary.session_id)
        .ok_or_else(|| ClientError::failed("the daemon answered without the session"))
}

fn show(path: &Path) -> String {
    safe::inline(&path.display().to_string()).into_owned()
}
