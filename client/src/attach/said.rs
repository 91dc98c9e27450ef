//! What a typed line means. Pure.

use crate::error::ClientError;
use agentd_proto::v1;

/// A typed line, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing.
    Empty,
    /// Yes or no to the request that was shown.
    Answer {
        /// Yes.
        allow: bool,
    },
    /// Yes or no to a named request, or to the one that was shown.
    AnswerTo {
        /// Its id or a beginning of it.
        request: Option<String>,
        /// Yes.
        allow: bool,
        /// Why.
        reason: Option<String>,
    },
    /// Stop the turn.
    Interrupt,
    /// Let the waiting turn go on.
    Resume(Vec<v1::ResolvedCall>),
    /// Show the ledger.
    Context,
    /// Leave; the session goes on.
    Quit,
    /// What can be said.
    Help,
    /// An input for the model.
    Text(String),
    /// A command that is not understood.
    Wrong(String),
}

/// What can be said, for people.
pub(crate) const HELP: &[&str] = &[
    "  TEXT                  say it to the model (steers a running turn, else begins one)",
    "  y / n                 answer the request that was shown",
    "  /approve [ID]         /deny [ID] [REASON]",
    "  /interrupt            stop the turn",
    "  /resume [CALL=done|retry|failed ...]",
    "  /context              what fills the context",
    "  /send TEXT            say a text that looks like a command or an answer",
    "  /quit                 leave; the session goes on",
];

/// Understands one line.
pub(crate) fn parse(line: &str) -> Said {
    let line = line.trim_end_matches(['\n', '\r']);
    let trimmed = line.trim();
    match trimmed.to_ascii_lowercase().as_str() {
        "" => return Said::Empty,
        "y" | "yes" => return Said::Answer { allow: true },
        "n" | "no" => return Said::Answer { allow: false },
        _ => {}
    }
    let Some(command) = trimmed.strip_prefix('/') else { return Said::Text(line.to_owned()) };
    // A path at the beginning of a sentence is text.
    if command.split_whitespace().next().is_some_and(|word| word.contains('/')) {
        return Said::Text(line.to_owned());
    }
    let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let rest = rest.trim();
    match word {
        "approve" => answer_to(rest, true),
        "deny" => answer_to(rest, false),
        "interrupt" | "stop" => Said::Interrupt,
        "resume" => match rest.split_whitespace().map(resolution).collect() {
            Ok(calls) => Said::Resume(calls),
            Err(error) => Said::Wrong(error.message),
        },
        "context" => Said::Context,
        "quit" | "exit" | "detach" => Said::Quit,
        "help" | "?" => Said::Help,
        "send" if !rest.is_empty() => Said::Text(rest.to_owned()),
        "send" => Said::Wrong("/send needs a text".to_owned()),
        _ => Said::Wrong(format!("there is no command /{word}; /help lists them")),
    }
}

fn answer_to(rest: &str, allow: bool) -> Said {
    let (first, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let (request, reason) =
        if first.starts_with("r_") { (Some(first.to_owned()), after.trim()) } else { (None, rest) };
    Said::AnswerTo { request, allow, reason: (!reason.is_empty()).then(|| reason.to_owned()) }
}

/// Reads `CALL=done|retry|failed[:TEXT]`.
pub(crate) fn resolution(text: &str) -> Result<v1::ResolvedCall, ClientError> {
    let wrong = || {
        ClientError::usage(format!("cannot read the resolution {text:?}"))
            .hint("write CALL=done, CALL=retry or CALL=failed, with an optional :TEXT for the model")
    };
    let (call_id, word) = text.split_once('=').ok_or_else(wrong)?;
    let (word, note) = word.split_once(':').unwrap_or((word, ""));
    let resolution = match word {
        "done" => v1::CallResolution::Done,
        "retry" => v1::CallResolution::Retry,
        "failed" => v1::CallResolution::Failed,
        _ => return Err(wrong()),
    };
    if call_id.is_empty() {
        return Err(wrong());
    }
    Ok(v1::ResolvedCall { call_id: call_id.to_owned(), resolution: resolution.into(), text: note.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_short_words_in_any_case() {
        for (line, allow) in [("y\n", true), (" YES ", true), ("n", false), ("No\r\n", false)] {
            assert_eq!(parse(line), Said::Answer { allow }, "{line:?}");
        }
        assert_eq!(parse("yes please"), Said::Text("yes please".into()));
        assert_eq!(parse("  \n"), Said::Empty);
    }

    #[test]
    fn named_requests_and_reasons() {
        let deny = |request: Option<&str>, reason: Option<&str>| Said::AnswerTo {
            request: request.map(str::to_owned),
            allow: false,
            reason: reason.map(str::to_owned),
        };
        assert_eq!(parse("/deny r_1 not on main"), deny(Some("r_1"), Some("not on main")));
        assert_eq!(parse("/deny not on main"), deny(None, Some("not on main")));
        assert_eq!(parse("/deny"), deny(None, None));
        assert!(matches!(parse("/approve r_2"), Said::AnswerTo { allow: true, .. }));
    }

    #[test]
    fn paths_are_text_and_unknown_commands_are_not_sent() {
        assert_eq!(parse("/etc/hosts is wrong"), Said::Text("/etc/hosts is wrong".into()));
        assert!(matches!(parse("/aprove r_1"), Said::Wrong(_)));
        assert_eq!(parse("/send y"), Said::Text("y".into()));
        assert!(matches!(parse("/send"), Said::Wrong(_)));
    }

    #[test]
    fn resolutions_name_a_call_and_a_word() {
        let Said::Resume(calls) = parse("/resume c_1=done:it-ran c_2=retry") else { panic!() };
        assert_eq!(calls[0].text, "it-ran");
        assert_eq!(calls[1].resolution, v1::CallResolution::Retry as i32);
        assert_eq!(parse("/resume"), Said::Resume(Vec::new()));
        assert!(matches!(parse("/resume c_1=maybe"), Said::Wrong(_)));
        assert!(matches!(parse("/resume =done"), Said::Wrong(_)));
    }
}
