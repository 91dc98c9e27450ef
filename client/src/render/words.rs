//! The outside words of the wire's enums, both ways. An unknown number is shown, never hidden.

use agentd_proto::v1;
use agentd_proto::v1::origin::Kind;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident($enum:ident) { $($variant:ident = $text:literal,)* })*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(number: i32) -> String {
            match v1::$enum::try_from(number) {
                $(Ok(v1::$enum::$variant) => $text.to_owned(),)*
                Ok(v1::$enum::Unspecified) => String::new(),
                Err(_) => format!("unknown-{number}"),
            }
        }
    )*};
}

words! {
    /// What a session may do without asking.
    permission_mode(PermissionMode) {
        ReadOnly = "read-only", Ask = "ask", Workspace = "workspace", Full = "full",
    }
    /// What happens after a restart.
    on_restart(OnRestart) { Wait = "wait", Continue = "continue", }
    /// How far an answer reaches.
    grant_scope(GrantScope) { Once = "once", Session = "session", Project = "project", User = "user", }
    /// How a turn ended.
    turn_status(TurnStatus) {
        Completed = "completed", Empty = "empty", Truncated = "truncated", Refused = "refused",
        Limit = "limit", Loop = "loop", Interrupted = "interrupted",
        ProviderFailed = "provider_failed", Failed = "failed",
    }
    /// How a call ended.
    call_outcome(CallOutcome) {
        Ok = "ok", Error = "error", Denied = "denied", Invalid = "invalid", TimedOut = "timed_out",
        Cancelled = "cancelled", Unknown = "unknown",
    }
    /// What a session is doing.
    session_state(SessionState) {
        Idle = "idle", Running = "running", Waiting = "waiting", Paused = "paused",
        Interrupted = "interrupted", Failed = "failed", Closed = "closed",
    }
}

/// Who caused something, for people: `agentctl attach (pid 12)`, `the daemon`, `the model`.
pub(crate) fn origin(origin: Option<&v1::Origin>) -> String {
    match origin.and_then(|origin| origin.kind.as_ref()) {
        Some(Kind::Client(client)) => {
            let label = if client.label.is_empty() { "a client" } else { client.label.as_str() };
            format!("{} (pid {})", super::safe::inline_cut(label, 60), client.pid)
        }
        Some(Kind::Daemon(_)) => "the daemon".to_owned(),
        Some(Kind::Model(_)) => "the model".to_owned(),
        None => "somebody".to_owned(),
    }
}

/// Money for people: `$0.0123`, and `$0` for nothing.
pub(crate) fn dollars(micro_usd: i64) -> String {
    if micro_usd == 0 {
        return "$0".to_owned();
    }
    let digits = if micro_usd.abs() >= 1_000_000 { 2 } else { 4 };
    format!("${:.digits$}", usd(micro_usd))
}

/// Money for people, where it may be that nobody knows all of it: `unknown`, or `at least $0.0123`.
pub(crate) fn cost(micro_usd: i64, unknown: bool) -> String {
    match (micro_usd, unknown) {
        (_, false) => dollars(micro_usd),
        (0, true) => "unknown".to_owned(),
        (_, true) => format!("at least {}", dollars(micro_usd)),
    }
}

/// Money as a number of dollars; none where nobody knows all of it.
pub(crate) fn known_usd(micro_usd: i64, unknown: bool) -> Option<f64> {
    (!unknown).then(|| usd(micro_usd))
}

/// A count of tokens in a list: `8192`, `200k`.
pub(crate) fn thousands(count: u64) -> String {
    if count < 10_000 { count.to_string() } else { format!("{}k", (count + 500) / 1_000) }
}

/// Money as a number of dollars.
pub(crate) fn usd(micro_usd: i64) -> f64 {
    // Exact far beyond any bill: an f64 holds 2^53 millionths.
    #[allow(clippy::cast_precision_loss)]
    let value = micro_usd as f64;
    value / 1_000_000.0
}

/// A span for people: `80 ms`, `1.4 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, (ms % 1_000) / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, (ms % 60_000) / 1_000),
        _ => format!("{} h {} min", ms / 3_600_000, (ms % 3_600_000) / 60_000),
    }
}

/// A whole number with thin groups: `12,345`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_words_are_the_contracts_and_unknown_numbers_show() {
        assert_eq!(turn_status(v1::TurnStatus::ProviderFailed.into()), "provider_failed");
        assert_eq!(permission_mode(v1::PermissionMode::ReadOnly.into()), "read-only");
        assert_eq!(call_outcome(0), "");
        assert_eq!(session_state(99), "unknown-99");
    }

    #[test]
    fn amounts_read_well() {
        assert_eq!(dollars(12_345), "$0.0123");
        assert_eq!(dollars(2_500_000), "$2.50");
        assert_eq!(span(80), "80 ms");
        assert_eq!(span(61_500), "1 min 1 s");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(123), "123");
    }
}
