//! `run_command` as far as it is not a process: facts, arguments, and the form of its result.
//!
//! The forms are those of the contract. What a terminal would obey is data here: escape sequences stay, but the
//! escape character itself becomes its picture (␛), and NUL too; `\r\n` becomes `\n`, and of a line that was
//! overwritten by carriage returns (a progress bar) the last state is kept.

use super::{answer, args, text, working_folder};
use crate::inspect;
use crate::ports::CallContext;
use agentd_core::command::{CallEnd, CallFault, Inspection};
use agentd_core::context::ResultBounds;
use agentd_core::event::{ArtifactStored, Binding, CallOutcome, Truncation};
use agentd_core::ids::ArtifactId;
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown;
use sha2::{Digest as _, Sha256};
use std::path::Path;

/// A command as it is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandArgs {
    /// The exact bytes for the shell.
    pub command: String,
    /// Seconds until it is killed.
    pub timeout_s: u64,
}

/// The arguments of a `run_command` call.
pub fn command_args(ctx: &CallContext) -> Result<CommandArgs, CallFault> {
    let args: args::RunCommand = args::parse(ctx)?;
    if args.command.contains('\0') {
        return Err(answer::invalid(
            "arguments",
            "Invalid arguments for run_command: at /command expected no NUL character",
        ));
    }
    if args.command.trim().is_empty() {
        return Err(answer::invalid(
            "arguments",
            "Invalid arguments for run_command: at /command expected a command",
        ));
    }
    let default = u64::from(ctx.session.settings.limits.command_timeout_s);
    let timeout_s = args.timeout_s.unwrap_or(default).clamp(1, u64::from(limits::COMMAND_TIMEOUT_S_MAX));
    Ok(CommandArgs { command: args.command, timeout_s })
}

/// What a command holds on to: its exact bytes, its folder and its sandbox.
pub fn command_binding(command: &str, cwd: &PathBytes, sandbox: &str) -> Binding {
    let mut hash = Sha256::new();
    for part in [command.as_bytes(), cwd.as_bytes(), sandbox.as_bytes()] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    Binding::Command { hash: text::hash_text(hash.finalize()) }
}

pub(super) fn inspect(ctx: &CallContext, sandbox: &str, scratch: &Path) -> Result<Inspection, CallFault> {
    let args = command_args(ctx)?;
    let folder = working_folder::working_folder(ctx, scratch);
    let gone = if folder == ctx.session.cwd {
        String::new()
    } else {
        format!(" (the session's folder {} is gone)", shown(&ctx.session.cwd))
    };
    Ok(Inspection {
        paths: Vec::new(),
        preview: Some(format!("in {}{gone}:\n{}", shown(&folder), args.command)),
        binding: Some(command_binding(&args.command, &folder, sandbox)),
        command: Some(inspect::command_facts(&args.command, &folder)),
        sandbox: sandbox.to_owned(),
    })
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnding {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal, which was not ours.
    Signalled(i32),
    /// At its deadline.
    TimedOut {
        /// After so many seconds.
        after_s: u64,
    },
    /// A person or client stopped it.
    Interrupted,
}

/// What a command came to.
#[derive(Clone, Copy, Debug)]
pub struct CommandOutput<'a> {
    /// How it ended.
    pub ending: CommandEnding,
    /// The first bytes of its output, redacted; more than is shown, so that no secret is cut in two.
    pub head: &'a [u8],
    /// The last bytes of it, redacted, not overlapping `head`.
    pub tail: &'a [u8],
    /// Nothing lies between `head` and `tail`.
    pub is_whole: bool,
    /// Bytes of the whole output, as it was.
    pub total_bytes: u64,
    /// Lines of the whole output.
    pub total_lines: u64,
    /// Processes it left running, which were killed.
    pub killed_children: u32,
    /// Where the whole output is, if it was stored.
    pub artifact: Option<&'a ArtifactId>,
    /// The last lines of its standard error, redacted.
    pub stderr_end: &'a str,
    /// Its output ends in a stretch of standard error.
    pub ends_in_stderr: bool,
}

/// The result of a command, for the model and for the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandResult {
    /// What the model reads.
    pub text: String,
    /// How the call ended.
    pub outcome: CallOutcome,
    /// The exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What kind of failure, for the breaker.
    pub error_class: Option<String>,
    /// What was left out.
    pub truncation: Option<Truncation>,
}

impl CommandResult {
    /// The end of the call, with what was stored of its output.
    pub fn into_end(self, ctx: &CallContext, duration_ms: u64, artifacts: Vec<ArtifactStored>) -> CallEnd {
        CallEnd {
            exit_code: self.exit_code,
            signal: self.signal,
            duration_ms,
            truncation: self.truncation,
            error_class: self.error_class,
            artifacts,
            ..answer::end(ctx, self.outcome, self.text)
        }
    }
}

/// Forms the result of a command.
pub fn command_result(output: &CommandOutput<'_>, bounds: ResultBounds) -> CommandResult {
    let (body, truncation) = body(output, bounds);
    let (first, outcome, class) = match output.ending {
        CommandEnding::Exited(0) => (None, CallOutcome::Ok, None),
        CommandEnding::Exited(code) => {
            (Some(format!("Exit code {code}")), CallOutcome::Error, Some("exit_code"))
        }
        CommandEnding::Signalled(signal) => (
            Some(format!("Killed by signal {signal}{}", signal_name(signal))),
            CallOutcome::Error,
            Some("signal"),
        ),
        CommandEnding::TimedOut { after_s } => (
            Some(format!("Timed out after {after_s} s, killed; output so far:")),
            CallOutcome::TimedOut,
            Some("timed_out"),
        ),
        CommandEnding::Interrupted => {
            (Some("Interrupted; output so far:".to_owned()), CallOutcome::Cancelled, Some("interrupted"))
        }
    };
    let mut parts: Vec<String> = first.into_iter().collect();
    parts.push(if body.is_empty() { "(no output)".to_owned() } else { body });
    match output.killed_children {
        0 => {}
        1 => parts.push("[1 process it left running was killed]".to_owned()),
        count => parts.push(format!("[{count} processes it left running were killed]")),
    }
    parts.extend(terminal_hint(output).map(str::to_owned));
    let (exit_code, signal) = match output.ending {
        CommandEnding::Exited(code) => (Some(code), None),
        CommandEnding::Signalled(signal) => (None, Some(signal)),
        CommandEnding::TimedOut { .. } | CommandEnding::Interrupted => (None, None),
    };
    CommandResult {
        text: parts.join("\n"),
        outcome,
        exit_code,
        signal,
        error_class: class.map(str::to_owned),
        truncation,
    }
}

/// What a command printed of which nothing else is known, as a result shows it.
pub fn printed_so_far(output: &CommandOutput<'_>, bounds: ResultBounds) -> (String, Option<Truncation>) {
    let (text, truncation) = body(output, bounds);
    (if text.is_empty() { "(no output)".to_owned() } else { text }, truncation)
}

/// The output, whole or by its two ends.
fn body(output: &CommandOutput<'_>, bounds: ResultBounds) -> (String, Option<Truncation>) {
    if output.is_whole && !bounds.exceeded_by(output.total_bytes, output.total_lines) {
        let text = clean(&[output.head, output.tail].concat()).trim_end_matches('\n').to_owned();
        if text.len() <= bounds.max_bytes {
            return (text, None);
        }
    }
    // Pictures of control characters take three bytes for one, so what fits as bytes may not fit as text.
    let mut room = bounds.max_bytes.saturating_sub(MARK_BYTES).max(bounds.max_bytes / 2);
    loop {
        let (text, truncation) = both_ends(output, bounds, room);
        if text.len() <= bounds.max_bytes || room < MARK_BYTES {
            return (text, Some(truncation));
        }
        room = room * 3 / 4;
    }
}

/// Room for the words between the two ends.
const MARK_BYTES: usize = 160;

fn both_ends(output: &CommandOutput<'_>, bounds: ResultBounds, room: usize) -> (String, Truncation) {
    let joined;
    let (first, last): (&[u8], &[u8]) = if output.is_whole {
        joined = [output.head, output.tail].concat();
        (&joined, &joined)
    } else {
        (output.head, output.tail)
    };
    let tail_shown = |last: &[u8]| clean(last_lines(last, bounds.tail_lines, room / 2));
    let stderr = lost_stderr(output, &tail_shown(last), room / 8);
    let room = room - stderr.as_ref().map_or(0, String::len);
    let head = first_lines(first, bounds.head_lines, room / 2);
    // The two ends of a whole must not overlap.
    let last = if output.is_whole { &last[head.len()..] } else { last };
    let tail = last_lines(last, bounds.tail_lines, room / 2);
    let (head_lines, tail_lines) = (count_lines(head), count_lines(tail));
    let omitted_lines = output.total_lines.saturating_sub(head_lines + tail_lines);
    let shown_bytes = u64::try_from(head.len() + tail.len()).unwrap_or(u64::MAX);
    let mut mark = match omitted_lines {
        0 => {
            format!("... [truncated {} bytes of a line] ...", output.total_bytes.saturating_sub(shown_bytes))
        }
        _ => format!("... [truncated {omitted_lines} lines] ..."),
    };
    if let Some(artifact) = output.artifact {
        let kept = if output.total_bytes > limits::SPOOL_MAX_BYTES { "two ends of the" } else { "whole" };
        mark.push_str(&format!(" the {kept} output ({} bytes) is artifact {artifact}", output.total_bytes));
    }
    let stream = stream_of_tail(head, tail, output.ends_in_stderr);
    let (head, tail) = (clean(head), clean(tail));
    let mut parts = vec![head.trim_end_matches('\n'), &mark];
    parts.extend(stream);
    parts.push(tail.trim_end_matches('\n'));
    if let Some(stderr) = &stderr {
        parts.extend(["[end of stderr]", stderr.trim_end_matches('\n')]);
    }
    let truncation = Truncation { head_lines, tail_lines, omitted_lines, total_bytes: output.total_bytes };
    (parts.join("\n"), truncation)
}

const OUT_MARK: &[u8] = b"[stdout]";
const ERR_MARK: &[u8] = b"[stderr]";

/// The mark that a tail needs before it, where the line that would say its stream was left out.
fn stream_of_tail(head: &[u8], tail: &[u8], ends_in_stderr: bool) -> Option<&'static str> {
    let is_mark = |line: &&[u8]| *line == OUT_MARK || *line == ERR_MARK;
    let lines = |bytes| <[u8]>::split(bytes, |byte| *byte == b'\n');
    // Marks alternate: the first one in the tail says what was before it.
    let begins_in_stderr = match lines(tail).find(is_mark) {
        Some(mark) => mark == OUT_MARK,
        None => ends_in_stderr,
    };
    let head_ends_in_stderr = lines(head).rfind(is_mark).is_some_and(|mark| mark == ERR_MARK);
    match (begins_in_stderr, head_ends_in_stderr) {
        _ if lines(tail).next().is_some_and(|line| is_mark(&line)) => None,
        (true, _) => Some("[stderr]"),
        (false, true) => Some("[stdout]"),
        (false, false) => None,
    }
}

/// The end of standard error, where a command failed and what is shown does not have it.
fn lost_stderr(output: &CommandOutput<'_>, tail: &str, room: usize) -> Option<String> {
    if output.ending == CommandEnding::Exited(0) {
        return None;
    }
    let end = last_lines(output.stderr_end.as_bytes(), usize::MAX, room);
    let text = clean(end);
    let last = text.lines().next_back().filter(|line| !line.trim().is_empty())?;
    (!tail.lines().any(|line| line == last)).then_some(text)
}

/// What commands say that wanted a person at a terminal.
const WANTED_TERMINAL: &[&str] = &[
    "a terminal is required",
    "Inappropriate ioctl for device",
    "/dev/tty",
    "not a tty",
    "not a terminal",
    "EOF when reading a line",
    "EOFError",
    "Host key verification failed",
    "could not read Username",
    "could not read Password",
    "terminal prompts disabled",
    "problem with the editor",
    "no askpass program",
    "Aborting commit due to empty commit message",
    "must be run from a terminal",
];

/// Advice for a command that failed because nobody could answer it.
fn terminal_hint(output: &CommandOutput<'_>) -> Option<&'static str> {
    if !matches!(output.ending, CommandEnding::Exited(code) if code != 0) {
        return None;
    }
    let said = [output.head, output.tail, output.stderr_end.as_bytes()];
    let wanted = said.iter().any(|part| {
        let text = String::from_utf8_lossy(part);
        WANTED_TERMINAL.iter().any(|words| text.contains(words))
    });
    wanted.then_some(
        "[it seems to have wanted a terminal or an answer: there is no terminal and standard input is empty. Give what it asks \
         for as arguments, options or files (git commit -m, ssh -o BatchMode=yes, --yes)]",
    )
}

/// Newlines, and one more if the end is not one.
fn count_lines(bytes: &[u8]) -> u64 {
    let newlines = bytes.iter().filter(|byte| **byte == b'\n').count();
    let unended = usize::from(bytes.last().is_some_and(|byte| *byte != b'\n'));
    u64::try_from(newlines + unended).unwrap_or(u64::MAX)
}

/// The first whole lines that fit; of a line longer than all the room, its start.
fn first_lines(bytes: &[u8], lines: usize, max_bytes: usize) -> &[u8] {
    let room = &bytes[..bytes.len().min(max_bytes)];
    let ends = room.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    match ends.take(lines).last() {
        Some(end) => &room[..end],
        None => &bytes[..text::whole_characters(bytes, max_bytes)],
    }
}

/// The last whole lines that fit; of a line longer than all the room, its end.
fn last_lines(bytes: &[u8], lines: usize, max_bytes: usize) -> &[u8] {
    let from = bytes.len().saturating_sub(max_bytes);
    let body_end = bytes.len() - usize::from(bytes.last() == Some(&b'\n'));
    // A line begins at the very start, or after a newline.
    let starts = (from..body_end).rev().filter(|at| *at == 0 || bytes[*at - 1] == b'\n');
    match starts.take(lines).last() {
        Some(start) => &bytes[start..],
        None => {
            let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
            let start = (from..bytes.len()).take(4).find(|at| !is_inside(*at)).unwrap_or(from);
            &bytes[start..]
        }
    }
}

/// Output as text that does nothing.
fn clean(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.split_inclusive(|byte| *byte == b'\n') {
        let (line, end) = match chunk.strip_suffix(b"\n") {
            Some(line) => (line.strip_suffix(b"\r").unwrap_or(line), "\n"),
            None => (chunk, ""),
        };
        let shown = line.split(|byte| *byte == b'\r').rfind(|part| !part.is_empty()).unwrap_or_default();
        for c in String::from_utf8_lossy(shown).chars() {
            match c {
                '\t' => out.push('\t'),
                '\u{7f}' => out.push('\u{2421}'),
                c if u32::from(c) < 0x20 => out.extend(char::from_u32(0x2400 + u32::from(c))),
                c => out.push(c),
            }
        }
        out.push_str(end);
    }
    out
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => " (SIGHUP)",
        libc::SIGINT => " (SIGINT)",
        libc::SIGQUIT => " (SIGQUIT)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGTRAP => " (SIGTRAP)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGPIPE => " (SIGPIPE)",
        libc::SIGTERM => " (SIGTERM)",
        libc::SIGXCPU => " (SIGXCPU)",
        libc::SIGXFSZ => " (SIGXFSZ)",
        libc::SIGSYS => " (SIGSYS)",
        _ => "",
    }
}
