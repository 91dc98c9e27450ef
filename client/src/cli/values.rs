//! Values of options that several commands share, read strictly.

use crate::error::ClientError;
use agentd_proto::v1;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a prompt. The daemon has the same bound and the last word; here it is said before anything is begun.
const PROMPT_MAX_BYTES: usize = 1024 * 1024;

/// Permission modes, by the words of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Ask before every change
    Ask,
    /// Change nothing
    ReadOnly,
    /// Change files in the workspace; commands ask until there is a sandbox
    Workspace,
    /// Everything that no rule denies
    Full,
}

impl From<Mode> for v1::PermissionMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Ask => Self::Ask,
            Mode::ReadOnly => Self::ReadOnly,
            Mode::Workspace => Self::Workspace,
            Mode::Full => Self::Full,
        }
    }
}

/// Reads `90`, `90s`, `30m`, `2h`, `1d`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write 90s, 30m, 2h or 1d");
    let (number, unit_s) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3_600),
        Some((at, 'd')) => (&text[..at], 86_400),
        Some((_, last)) if last.is_ascii_digit() => (text, 1),
        _ => return Err(wrong()),
    };
    let count: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = count.checked_mul(unit_s).filter(|seconds| *seconds > 0).ok_or_else(wrong)?;
    // Far more than a century helps nobody and would overflow milliseconds on the wire.
    if seconds > 100 * 366 * 86_400 { Err(wrong()) } else { Ok(Duration::from_secs(seconds)) }
}

/// Milliseconds as the wire has them.
pub fn wire_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Reads an amount of US dollars as millionths.
pub fn micro_usd(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is not an amount of dollars; write 0.50 or 3");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 6 || (whole.is_empty() && fraction.is_empty())
    {
        return Err(wrong());
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
    let fraction: i64 = format!("{fraction:0<6}").parse().map_err(|_| wrong())?;
    whole.checked_mul(1_000_000).and_then(|micro| micro.checked_add(fraction)).ok_or_else(wrong)
}

/// The folder of a session: the given one, or where we are; absolute and there.
pub fn folder(given: Option<&Path>) -> Result<PathBuf, ClientError> {
    let path = given.unwrap_or(Path::new("."));
    let whole = path.canonicalize().map_err(|source| {
        ClientError::config(format!("cannot use the folder {}", path.display())).because(source)
    })?;
    if !whole.is_dir() {
        return Err(ClientError::config(format!("{} is not a folder", path.display())));
    }
    Ok(whole)
}

/// The bytes of a path.
pub fn path_bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

/// A prompt: the given text, or with `-` all of stdin.
pub fn prompt(given: &str) -> Result<String, ClientError> {
    let text = if given == "-" {
        let mut bytes = Vec::new();
        let some = std::io::Read::take(std::io::stdin().lock(), PROMPT_MAX_BYTES as u64 + 1);
        std::io::Read::read_to_end(&mut { some }, &mut bytes)?;
        if bytes.len() > PROMPT_MAX_BYTES {
            // Perhaps in the middle of a character: what it says does not matter.
            return Err(too_large());
        }
        String::from_utf8(bytes).map_err(|_| ClientError::usage("the prompt on stdin is not UTF-8 text"))?
    } else {
        given.to_owned()
    };
    if text.trim().is_empty() {
        return Err(ClientError::usage("the prompt is empty").hint("agentctl run \"say hello\""));
    }
    if text.len() > PROMPT_MAX_BYTES {
        return Err(too_large());
    }
    Ok(text)
}

fn too_large() -> ClientError {
    ClientError::usage(format!("the prompt is larger than {PROMPT_MAX_BYTES} bytes"))
        .hint("write it to a file in the workspace and name the file in the prompt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_text_and_not_too_large() {
        assert_eq!(prompt(&"x".repeat(PROMPT_MAX_BYTES)).unwrap().len(), PROMPT_MAX_BYTES);
        for wrong in [" ".to_owned(), "x".repeat(PROMPT_MAX_BYTES + 1)] {
            assert_eq!(prompt(&wrong).unwrap_err().kind.exit_code(), 2);
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("30m"), Ok(Duration::from_secs(1_800)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7_200)));
        for wrong in ["", "m", "0", "-1s", "1.5h", "5é", "99999999999999999999s", "9999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dollars_are_read_exactly() {
        assert_eq!(micro_usd("0.1"), Ok(100_000));
        assert_eq!(micro_usd("3"), Ok(3_000_000));
        assert_eq!(micro_usd(".000001"), Ok(1));
        for wrong in ["", ".", "-1", "1e3", "0.0000001", "$3", "99999999999999999999"] {
            assert!(micro_usd(wrong).is_err(), "{wrong}");
        }
    }
}
