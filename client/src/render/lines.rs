//! Events as short lines for people. Pure: an event in, lines out.
//!
//! Invariant: whatever came from a model, tool, file or other client goes through [`super::safe`] here.

use super::safe;
use super::style::{Ink, Style};
use super::words;
use agentd_proto::v1;
use serde_json::Value;

/// Lines of a result that are shown when its output was not seen live.
const RESULT_TAIL_LINES: usize = 12;
/// Lines of an error that are shown.
const ERROR_HEAD_LINES: usize = 8;

/// What a call is about, in one line: its command, its path, or its arguments.
pub(crate) fn call_subject(args_json: &str, room: usize) -> String {
    let Ok(Value::Object(args)) = serde_json::from_str::<Value>(args_json) else {
        return safe::inline_cut(args_json, room);
    };
    for key in ["command", "path", "pattern", "url", "question", "task", "id", "name"] {
        if let Some(text) = args.get(key).and_then(Value::as_str) {
            return safe::inline_cut(text, room);
        }
    }
    if args.is_empty() { String::new() } else { safe::inline_cut(args_json, room) }
}

/// The line of a requested call.
pub(crate) fn call_requested(style: Style, call: &v1::CallInfo) -> String {
    let tool = safe::inline_cut(&call.tool, 64);
    let subject = call_subject(&call.args_json, style.room(tool.chars().count() + 4));
    format!("{} {} {subject}", style.paint(Ink::Dim, "*"), style.paint(Ink::Bold, &tool))
        .trim_end()
        .to_owned()
}

/// The lines of a call's result. `streamed`: its output was shown live.
pub(crate) fn call_result(style: Style, tool: &str, result: &v1::CallResult, streamed: bool) -> Vec<String> {
    let outcome = words::call_outcome(result.outcome);
    let good = result.outcome == v1::CallOutcome::Ok as i32;
    let mut facts = vec![style.paint(if good { Ink::Green } else { Ink::Red }, &outcome)];
    if let Some(code) = result.exit_code {
        facts.push(format!("exit {code}"));
    }
    if let Some(signal) = result.signal {
        facts.push(format!("signal {signal}"));
    }
    if result.duration_ms > 0 {
        facts.push(words::span(result.duration_ms));
    }
    if result.omitted_lines > 0 {
        facts.push(format!("{} lines left out", words::grouped(result.omitted_lines)));
    }
    let has_output = result.exit_code.is_some() || result.signal.is_some() || !good;
    if !has_output {
        let lines = result.text.lines().count();
        facts.push(format!("{lines} {}", if lines == 1 { "line" } else { "lines" }));
    }
    let mut lines = vec![format!("  {}: {}", safe::inline_cut(tool, 64), facts.join(", "))];
    if has_output && !streamed {
        lines.extend(result_text(style, &result.text, good || result.exit_code.is_some()));
    }
    for id in &result.artifact_ids {
        lines.push(format!("  the whole: agentctl artifacts get {}", safe::inline(id)));
    }
    lines
}

/// The end of an output, or the beginning of an error.
fn result_text(style: Style, text: &str, tail: bool) -> Vec<String> {
    let shown = safe::text(text);
    let all: Vec<&str> = shown.lines().collect();
    let keep = if tail { RESULT_TAIL_LINES } else { ERROR_HEAD_LINES };
    let left_out = all.len().saturating_sub(keep);
    let kept = if tail { &all[left_out..] } else { &all[..all.len() - left_out] };
    let mut lines: Vec<String> = kept.iter().map(|line| output_line(style, line)).collect();
    if left_out > 0 {
        let note = format!("  | ... {left_out} more lines ...");
        let at = if tail { 0 } else { lines.len() };
        lines.insert(at, style.paint(Ink::Dim, &note));
    }
    lines
}

/// One line of output of a tool; `line` is safe already.
pub(crate) fn output_line(style: Style, line: &str) -> String {
    format!("  {} {line}", style.paint(Ink::Dim, "|")).trim_end().to_owned()
}

/// What a person is asked, whole.
pub(crate) struct Question<'a> {
    /// Its id.
    pub(crate) id: &'a str,
    /// `approval`, `question`, `elicitation`.
    pub(crate) kind: &'a str,
    /// The tool it is about.
    pub(crate) tool: &'a str,
    /// The whole of what is decided on.
    pub(crate) shown: &'a str,
    /// Why it asks.
    pub(crate) reason: &'a str,
}

impl<'a> From<&'a v1::RequestInfo> for Question<'a> {
    fn from(info: &'a v1::RequestInfo) -> Self {
        Self {
            id: &info.request_id,
            kind: &info.kind,
            tool: &info.tool,
            shown: &info.shown,
            reason: &info.reason,
        }
    }
}

impl<'a> From<&'a v1::OpenRequest> for Question<'a> {
    fn from(info: &'a v1::OpenRequest) -> Self {
        Self {
            id: &info.request_id,
            kind: &info.kind,
            tool: &info.tool,
            shown: &info.shown,
            reason: &info.reason,
        }
    }
}

/// The lines of a request: nothing of what is decided on is left out or hidden.
pub(crate) fn question(style: Style, asked: &Question<'_>) -> Vec<String> {
    let head = format!(
        "? {} {}: {}",
        safe::inline(if asked.kind.is_empty() { "request" } else { asked.kind }),
        safe::inline(asked.id),
        safe::inline(asked.tool)
    );
    let mut lines = vec![style.paint(Ink::Yellow, &head)];
    if !asked.reason.is_empty() {
        lines.push(format!("  {}", safe::inline(asked.reason)));
    }
    lines.extend(decided_on(style, asked.shown));
    lines
}

/// A diff or a command, exact, with the colours of a diff where there are colours.
pub(crate) fn decided_on(style: Style, shown: &str) -> Vec<String> {
    let shown = safe::exact(shown);
    // `lines` would swallow a last empty line; what is decided on is shown as it is.
    let body = shown.strip_suffix('\n').unwrap_or(&shown);
    body.split('\n')
        .map(|line| {
            let inked = match line.as_bytes().first() {
                Some(b'+') => style.paint(Ink::Green, line),
                Some(b'-') => style.paint(Ink::Red, line),
                Some(b'@') => style.paint(Ink::Cyan, line),
                _ => line.to_owned(),
            };
            format!("  {} {inked}", style.paint(Ink::Yellow, "|"))
        })
        .collect()
}

/// How a request closed, and by whom. `by_me`: this very client did it.
pub(crate) fn request_closed(style: Style, end: &v1::RequestEnd, origin: &str, by_me: bool) -> String {
    let who = if by_me { "you" } else { origin };
    let reason =
        if end.reason.is_empty() { String::new() } else { format!(": {}", safe::inline(&end.reason)) };
    match (end.close.as_str(), v1::Verdict::try_from(end.decision)) {
        ("answered", Ok(v1::Verdict::Allow)) => {
            style.paint(Ink::Green, &format!("  approved by {who}{reason}"))
        }
        ("answered", Ok(v1::Verdict::Deny)) => style.paint(Ink::Red, &format!("  denied by {who}{reason}")),
        ("answered", _) => format!("  answered by {who}{reason}"),
        ("expired", _) => style.paint(Ink::Red, "  nobody answered in time: denied"),
        ("withdrawn", _) => format!("  the request was withdrawn{reason}"),
        (other, _) => format!("  the request closed ({}){reason}", safe::inline(other)),
    }
}

/// What the next request is mended by, in words for people. A word of a newer daemon is shown as it is.
fn mended(word: &str) -> String {
    match word {
        "strip_thinking" => "without the thinking of earlier answers".to_owned(),
        "omit_thinking_form" => "without asking for thinking".to_owned(),
        "omit_stream_options" => "without stream_options".to_owned(),
        "rename_max_tokens" => "with the other name of max_tokens".to_owned(),
        other => format!("mended ({})", safe::inline(other)),
    }
}

/// The line of a failed model call: what happens next comes first, then why.
pub(crate) fn model_failure(style: Style, at_ms: i64, failure: &v1::ModelFailure) -> (String, Ink) {
    let why = format!(
        "({}): {}",
        safe::inline(&failure.class),
        safe::inline_cut(&failure.message, style.room(28).max(200))
    );
    if !failure.mend.is_empty() {
        return (format!("! refused, asking again {} {why}", mended(&failure.mend)), Ink::Yellow);
    }
    let Some(retry_at_ms) = failure.retry_at_ms else {
        return (format!("! the model call failed {why}"), Ink::Red);
    };
    let when = match u64::try_from(retry_at_ms.saturating_sub(at_ms)) {
        Ok(wait) if wait > 0 => format!("in {}", words::span(wait)),
        _ => "now".to_owned(),
    };
    let attempt = match (failure.attempt, failure.max_attempts) {
        (0, _) => String::new(),
        (attempt, 0) => format!(", attempt {}", attempt.saturating_add(1)),
        (attempt, most) => format!(", attempt {} of {most}", attempt.saturating_add(1)),
    };
    (format!("! the model call failed, asking again {when}{attempt} {why}"), Ink::Yellow)
}

/// The line at the end of a turn.
pub(crate) fn turn_end(style: Style, end: &v1::TurnEnd) -> Vec<String> {
    let status = words::turn_status(end.status);
    let good = end.status == v1::TurnStatus::Completed as i32;
    let mut facts = vec![format!("{} {}", end.steps, if end.steps == 1 { "step" } else { "steps" })];
    if let Some(usage) = end.usage {
        facts.push(tokens(&usage));
    }
    let cost = words::cost(end.cost_micro_usd, end.cost_unknown);
    facts.push(if end.cost_unknown { format!("cost {cost}") } else { cost });
    if end.denied > 0 {
        facts.push(format!("{} denied because nobody could approve", end.denied));
    }
    let inked = style.paint(if good { Ink::Green } else { Ink::Red }, &status);
    let mut lines = vec![format!("= {inked}, {}", facts.join(", "))];
    if !end.error.is_empty() {
        lines.extend(safe::text(&end.error).lines().map(|line| format!("  {line}")));
    }
    if !good && !end.stop_raw.is_empty() {
        lines.push(format!("  the provider's word: {}", safe::inline(&end.stop_raw)));
    }
    lines
}

/// Tokens for people: `1,234 in (1,000 cached), 56 out`.
pub(crate) fn tokens(usage: &v1::Usage) -> String {
    let prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    let cached = if usage.cache_read_tokens > 0 {
        format!(" ({} cached)", words::grouped(usage.cache_read_tokens))
    } else {
        String::new()
    };
    format!("{} tokens in{cached}, {} out", words::grouped(prompt), words::grouped(usage.output_tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_named_by_what_it_is_about() {
        assert_eq!(call_subject(r#"{"command":"cargo test","timeout_s":3}"#, 40), "cargo test");
        assert_eq!(call_subject(r#"{"path":"src/\u001b[2Jx"}"#, 40), "src/\\x1b[2Jx");
        assert_eq!(call_subject("{}", 40), "");
        assert_eq!(call_subject("{broken", 40), "{broken");
    }

    #[test]
    fn the_whole_of_a_command_is_shown() {
        let asked = Question {
            id: "r_1",
            kind: "approval",
            tool: "run_command",
            shown: "rm -rf x\recho ok \u{202e}\n\n in /tmp\n",
            reason: "changes files",
        };
        let lines = question(Style::PLAIN, &asked);
        assert_eq!(
            lines,
            [
                "? approval r_1: run_command",
                "  changes files",
                "  | rm -rf x\\recho ok \\u{202e}",
                "  | ",
                "  |  in /tmp"
            ]
        );
    }

    #[test]
    fn a_long_request_is_not_cut() {
        let shown: String = (0..5_000).map(|n| format!("+line {n}\n")).collect();
        let asked = Question { id: "r", kind: "approval", tool: "t", shown: &shown, reason: "" };
        assert_eq!(question(Style::PLAIN, &asked).len(), 5_001);
    }

    #[test]
    fn results_say_how_they_ended() {
        let mut result = v1::CallResult {
            outcome: v1::CallOutcome::Error as i32,
            text: "Exit code 3\nboom\n".to_owned(),
            exit_code: Some(3),
            duration_ms: 1_250,
            ..Default::default()
        };
        assert_eq!(
            call_result(Style::PLAIN, "run_command", &result, false),
            ["  run_command: error, exit 3, 1.2 s", "  | Exit code 3", "  | boom"]
        );
        assert_eq!(call_result(Style::PLAIN, "run_command", &result, true).len(), 1);
        result = v1::CallResult { outcome: 1, text: "a\nb\n".to_owned(), ..Default::default() };
        assert_eq!(call_result(Style::PLAIN, "read_file", &result, false), ["  read_file: ok, 2 lines"]);
    }

    #[test]
    fn long_output_keeps_its_end() {
        let text: String = (0..40).map(|n| format!("{n}\n")).collect();
        let result = v1::CallResult { outcome: 1, text, exit_code: Some(0), ..Default::default() };
        let lines = call_result(Style::PLAIN, "run_command", &result, false);
        assert_eq!(lines[1], "  | ... 28 more lines ...");
        assert_eq!(lines.last().unwrap(), "  | 39");
    }

    #[test]
    fn who_answered_is_said() {
        let mut end = v1::RequestEnd {
            request_id: "r_1".into(),
            close: "answered".into(),
            decision: v1::Verdict::Allow as i32,
            reason: String::new(),
        };
        let by = "agentctl attach (pid 7)";
        assert_eq!(request_closed(Style::PLAIN, &end, by, false), "  approved by agentctl attach (pid 7)");
        assert_eq!(request_closed(Style::PLAIN, &end, by, true), "  approved by you");
        end.decision = v1::Verdict::Deny as i32;
        end.reason = "no\x1b".into();
        assert_eq!(request_closed(Style::PLAIN, &end, by, true), "  denied by you: no\\x1b");
        end.close = "expired".into();
        assert!(request_closed(Style::PLAIN, &end, by, false).contains("in time"));
    }

    #[test]
    fn the_end_of_a_turn_is_one_line_and_its_error() {
        let end = v1::TurnEnd {
            status: v1::TurnStatus::Limit as i32,
            steps: 1,
            usage: Some(v1::Usage { input_tokens: 200, cache_read_tokens: 1_000, ..Default::default() }),
            denied: 2,
            error: "limit max_steps".into(),
            ..Default::default()
        };
        assert_eq!(
            turn_end(Style::PLAIN, &end),
            [
                "= limit, 1 step, 1,200 tokens in (1,000 cached), 0 out, $0, 2 denied because nobody could approve",
                "  limit max_steps"
            ]
        );
    }
}
