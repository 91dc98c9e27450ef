//! `run_command`: a job of the process room, from its start or its adoption to the model's words about it.
//!
//! Waiting is on the supervisor's word or exit. Dropping the effect leaves the job running: that is what a restart of the
//! daemon does to it, too.

use super::Inner;
use super::environment;
use super::lease::Lease;
use super::live::Live;
use crate::ports::{CallContext, EffectMessage};
use crate::process::{JobEnd, JobOutcome, JobResult, JobSpec, Jobs, ProcessError, SandboxSpec, Spool};
use crate::redact::Redactor;
use crate::tools::command::{
    CommandArgs, CommandEnding, CommandOutput, command_args, command_binding, command_result, printed_so_far,
};
use crate::tools::working_folder::{bound_folder, make_stand_in, notice, stand_in, working_folder};
use agentd_core::command::{CallEnd, CallFault, Report};
use agentd_core::event::{ArtifactStored, CallOutcome};
use agentd_core::limits;
use agentd_core::policy::command::is_all_shell;
use agentd_core::policy::names::shown;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// How a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// The command is started.
    Start,
    /// A former run of the daemon started it.
    Adopt,
}

/// Runs or adopts a command and reports its end.
pub(super) async fn run(
    wing: &Arc<Inner>,
    call: &CallContext,
    begin: Begin,
    messages: &mpsc::Sender<EffectMessage>,
) {
    let (end, lease) = run_to_end(wing, call, begin, messages).await;
    let _ = messages.send(EffectMessage::Report(Report::CallEnded(Box::new(end)))).await;
    if let Some(lease) = lease {
        lease.until_recorded().await;
    }
}

async fn run_to_end(
    wing: &Arc<Inner>,
    call: &CallContext,
    begin: Begin,
    messages: &mpsc::Sender<EffectMessage>,
) -> (CallEnd, Option<Lease>) {
    let args = match command_args(call) {
        Ok(args) => args,
        Err(fault) => return (refused(call, fault), None),
    };
    let Some(job) = call.job.clone() else {
        return (failed(call, "the call has no job folder"), None);
    };
    let wish = wing.stops.of(&call.call_id);
    let lease = tokio::select! {
        lease = wing.lease(call, messages) => lease,
        () = wish.asked(), if begin == Begin::Start => return (not_begun(call), None),
    };
    if begin == Begin::Start {
        if wish.is_asked() {
            return (not_begun(call), None);
        }
        if let Err(end) = start(wing, call, &args, &job).await {
            return (*end, None);
        }
    }
    let redactor = wing.redactor(&call.session.session_id);
    let jobs = &wing.parts.jobs;
    let outcome = {
        let mut follow = jobs.follow(&job, 0).ok();
        let mut live = Live::new(call, &redactor, messages);
        let wait = wait_out(jobs, &job, Patience::with(&args), wish.asked());
        tokio::pin!(wait);
        let ended = tokio::select! {
            biased;
            outcome = &mut wait => Some(outcome),
            () = live.follow(&mut follow) => None,
        };
        let outcome = match ended {
            Some(outcome) => outcome,
            None => wait.await,
        };
        live.finish(follow).await;
        outcome
    };
    (ended(wing, call, &args, &job, outcome, &redactor).await, Some(lease))
}

async fn start(wing: &Inner, call: &CallContext, args: &CommandArgs, job: &str) -> Result<(), Box<CallEnd>> {
    let (sandbox, scratch) = (wing.parts.tools.command_sandbox.as_str(), wing.parts.tools.scratch.as_path());
    let folder = working_folder(call, scratch);
    let now = command_binding(&args.command, &folder, sandbox);
    if call.binding.as_ref() != Some(&now) {
        let why = format!(
            "Not executed: the command, its folder or its sandbox is not what was checked (it would run in {} now)",
            shown(&folder)
        );
        return Err(Box::new(failed(call, &why)));
    }
    if let Err(error) = make_stand_in(call, &folder, scratch) {
        return Err(Box::new(failed(call, &format!("The command could not be started: {error}"))));
    }
    let env = wing.environments.of(&call.session.session_id);
    let secrets = wing.parts.providers.secrets(&env);
    let spec = JobSpec {
        command: args.command.clone().into_bytes(),
        cwd: folder,
        env: environment::of_command(&env, &secrets),
        timeout_ms: args.timeout_s.saturating_mul(1_000),
        grace_ms: limits::COMMAND_GRACE_MS,
        spool_max_bytes: limits::SPOOL_MAX_BYTES,
        umask: None,
        all_shell: is_all_shell(&args.command),
        sandbox: SandboxSpec::None,
    };
    match wing.parts.jobs.spawn(job, &spec) {
        Ok(()) => Ok(()),
        Err(error) => Err(Box::new(failed(call, &format!("The command could not be started: {error}")))),
    }
}

/// How long a supervisor is trusted to do its work. It keeps the deadline; this is for one that cannot.
#[derive(Clone, Copy)]
struct Patience {
    /// Until it is told to stop although nobody asked for that.
    whole: Duration,
    /// From that to its death.
    late: Duration,
    /// From an asked stop to its death.
    asked: Duration,
}

impl Patience {
    /// Counted from now, also for an adopted command, whose beginning was earlier.
    fn with(args: &CommandArgs) -> Self {
        let own = limits::COMMAND_GRACE_MS + limits::SUPERVISOR_SLACK_MS;
        Self {
            whole: Duration::from_secs(args.timeout_s).saturating_add(Duration::from_millis(own)),
            late: Duration::from_millis(limits::SUPERVISOR_KILL_AFTER_MS),
            asked: Duration::from_millis(own),
        }
    }
}

/// Waits for the outcome. A supervisor that neither ends in time nor after a stop (its command holds it stopped)
/// is killed; then the evidence tells.
async fn wait_out(
    jobs: &Jobs,
    job: &str,
    patience: Patience,
    asked: impl Future<Output = ()>,
) -> Result<JobOutcome, ProcessError> {
    let outcome = jobs.outcome(job);
    tokio::pin!(outcome);
    let left = tokio::select! {
        outcome = &mut outcome => return outcome,
        () = asked => patience.asked,
        () = sleep(patience.whole) => {
            tracing::warn!(job, "a supervisor did not keep its deadline");
            patience.late
        }
    };
    press(jobs, job, Jobs::stop).await;
    if let Ok(outcome) = timeout(left, &mut outcome).await {
        return outcome;
    }
    tracing::warn!(job, "a supervisor did not stop and is killed");
    press(jobs, job, Jobs::kill).await;
    outcome.await
}

async fn press(jobs: &Jobs, job: &str, how: fn(&Jobs, &str) -> Result<bool, ProcessError>) {
    let (jobs, job) = (jobs.clone(), job.to_owned());
    let pressed = tokio::task::spawn_blocking(move || how(&jobs, &job)).await;
    if let Ok(Err(error)) = pressed {
        tracing::warn!(%error, "a command could not be made to end");
    }
}

async fn ended(
    wing: &Inner,
    call: &CallContext,
    args: &CommandArgs,
    job: &str,
    outcome: Result<JobOutcome, ProcessError>,
    redactor: &Arc<Redactor>,
) -> CallEnd {
    let mut end = match outcome {
        Ok(JobOutcome::Finished(result)) => finished(wing, call, args, job, &result, redactor).await,
        Ok(JobOutcome::NotStarted { why }) => {
            let mut end = failed(call, &format!("The command was not started: {why}"));
            end.evidence = Some(why);
            end
        }
        Ok(JobOutcome::Unknown { why, output }) => {
            let (head, tail) = (redactor.redact_bytes(&output.head), redactor.redact_bytes(&output.tail));
            let found = CommandOutput {
                ending: CommandEnding::Interrupted,
                head: &head.content,
                tail: &tail.content,
                is_whole: output.omitted_bytes == 0,
                total_bytes: output.total_bytes,
                total_lines: output.total_lines,
                killed_children: 0,
                artifact: None,
                stderr_end: "",
                ends_in_stderr: false,
            };
            let (printed, truncation) = printed_so_far(&found, call.bounds);
            let mut end = failed(
                call,
                &format!(
                    "Outcome unknown: {why}. The command may or may not have done its work; it was not run again. \
                     Output so far:\n{printed}"
                ),
            );
            end.truncation = truncation;
            end.outcome = CallOutcome::Unknown;
            end.error_class = Some("unknown".to_owned());
            end.evidence = Some(why);
            end
        }
        Err(error) => failed(call, &format!("The command's end could not be read: {error}")),
    };
    end.spent_evidence = true;
    end
}

async fn finished(
    wing: &Inner,
    call: &CallContext,
    args: &CommandArgs,
    job: &str,
    result: &JobResult,
    redactor: &Arc<Redactor>,
) -> CallEnd {
    if let JobEnd::Refused { why } = &result.end {
        return failed(call, &format!("The command could not be started: {why}"));
    }
    let bounds = call.bounds;
    let spool = wing.parts.jobs.spool(job);
    let view = {
        let spool = spool.as_ref().ok().cloned();
        let read = move || spool?.read_head_tail(bounds.head_lines, bounds.tail_lines, bounds.max_bytes).ok();
        tokio::task::spawn_blocking(read).await.ok().flatten().unwrap_or_default()
    };
    let head = redactor.redact_bytes(&view.head);
    let tail = redactor.redact_bytes(&view.tail);
    let artifact = match spool {
        Ok(spool) if bounds.exceeded_by(result.total_bytes, result.total_lines) => {
            store_output(wing, call, spool, redactor).await
        }
        _ => None,
    };
    let output = CommandOutput {
        ending: ending(result, args),
        head: &head.content,
        tail: &tail.content,
        // Not by lengths: redaction changes them.
        is_whole: view.omitted_bytes == 0 && view.total_bytes == result.total_bytes,
        total_bytes: result.total_bytes,
        total_lines: result.total_lines,
        killed_children: result.leftover_killed,
        artifact: artifact.as_ref().map(|stored| &stored.artifact_id),
        stderr_end: &redactor.redact(&result.stderr_end).content,
        ends_in_stderr: result.ends_in_stderr,
    };
    let formed = command_result(&output, bounds);
    let mut text = formed.text;
    let (sandbox, scratch) = (wing.parts.tools.command_sandbox.as_str(), wing.parts.tools.scratch.as_path());
    let ran_in = bound_folder(call, &args.command, sandbox, scratch);
    if let Some(notice) = ran_in.and_then(|folder| notice(&call.session, &folder, scratch)) {
        text = format!("{notice}\n{text}");
        // Only its own private folder, where it had one; nothing of it is followed.
        let private = stand_in(call, scratch);
        let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(private)).await;
    }
    if result.left_alive > 0 {
        text.push_str(&format!("\n[{} processes it left running could not be ended]", result.left_alive));
    }
    if let Some(why) = &result.spool_error {
        text.push_str(&format!("\n[output is incomplete: {why}]"));
    }
    CallEnd {
        call_id: call.call_id.clone(),
        attempt: call.attempt,
        outcome: formed.outcome,
        text,
        exit_code: formed.exit_code,
        signal: formed.signal,
        duration_ms: result.duration_ms,
        truncation: formed.truncation,
        error_class: formed.error_class,
        artifacts: artifact.into_iter().collect(),
        files: Vec::new(),
        seen: Vec::new(),
        spent_evidence: true,
        evidence: None,
        transient: None,
    }
}

fn ending(result: &JobResult, args: &CommandArgs) -> CommandEnding {
    if result.timed_out {
        return CommandEnding::TimedOut { after_s: args.timeout_s };
    }
    if result.stopped {
        return CommandEnding::Interrupted;
    }
    match result.end {
        JobEnd::Exited { code } => CommandEnding::Exited(code),
        JobEnd::Signaled { signal } => CommandEnding::Signalled(signal),
        JobEnd::Refused { .. } => CommandEnding::Exited(126),
    }
}

/// Keeps the whole output as an artifact. Without it the result still says head and tail.
async fn store_output(
    wing: &Inner,
    call: &CallContext,
    spool: Spool,
    redactor: &Arc<Redactor>,
) -> Option<ArtifactStored> {
    let reader = match spool.open_reader() {
        Ok(reader) => reader,
        Err(error) => {
            tracing::warn!(%error, "the whole output of a command could not be read");
            return None;
        }
    };
    match wing.parts.tools.store_redacted(call, "tool_output", reader, redactor).await {
        Ok(stored) => Some(stored),
        Err(error) => {
            tracing::warn!(%error, "the whole output of a command could not be stored");
            None
        }
    }
}

pub(super) fn not_begun(call: &CallContext) -> CallEnd {
    let mut end = failed(call, "Interrupted: not executed");
    end.outcome = CallOutcome::Cancelled;
    end.error_class = None;
    end
}

fn refused(call: &CallContext, fault: CallFault) -> CallEnd {
    let mut end = failed(call, &fault.text);
    end.outcome = fault.outcome;
    end.error_class = Some(fault.class);
    end
}

fn failed(call: &CallContext, text: &str) -> CallEnd {
    CallEnd {
        call_id: call.call_id.clone(),
        attempt: call.attempt,
        outcome: CallOutcome::Error,
        text: text.to_owned(),
        exit_code: None,
        signal: None,
        duration_ms: 0,
        truncation: None,
        error_class: Some("not_started".to_owned()),
        artifacts: Vec::new(),
        files: Vec::new(),
        seen: Vec::new(),
        spent_evidence: false,
        evidence: None,
        transient: None,
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
