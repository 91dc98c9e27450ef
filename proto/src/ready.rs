//! What a daemon that was started by a client says on the channel that was bound before the spawn.
//!
//! The channel is the write end of a pipe, given as stdout and stderr. One line begins with [`MARK`]; every
//! other line is a message for people (a loader error, a panic) and becomes part of the reason shown.

/// What the line begins with.
pub const MARK: &str = "agentd-start ";

/// How a start ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It answers on its socket.
    Ready {
        /// Its process id.
        pid: u32,
        /// The id of this run.
        run_id: String,
    },
    /// Another daemon of this home answers.
    LostRace,
    /// It cannot run.
    Failed {
        /// Whether the configuration or the place is to blame, not the machine.
        config: bool,
        /// Why, in one line.
        reason: String,
    },
}

impl Ready {
    /// The line, without its newline.
    pub fn to_line(&self) -> String {
        match self {
            Self::Ready { pid, run_id } => format!("{MARK}ready {pid} {run_id}"),
            Self::LostRace => format!("{MARK}lost_race"),
            Self::Failed { config, reason } => {
                let word = if *config { "config" } else { "failed" };
                format!("{MARK}{word} {}", reason.replace(['\n', '\r'], " "))
            }
        }
    }

    /// Reads a line; none when it is not one of these.
    pub fn from_line(line: &str) -> Option<Self> {
        let rest = line.trim_end().strip_prefix(MARK)?;
        let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "ready" => {
                let (pid, run_id) = rest.split_once(' ')?;
                Some(Self::Ready { pid: pid.parse().ok()?, run_id: run_id.to_owned() })
            }
            "lost_race" => Some(Self::LostRace),
            "config" => Some(Self::Failed { config: true, reason: rest.to_owned() }),
            "failed" => Some(Self::Failed { config: false, reason: rest.to_owned() }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_were_said() {
        for said in [
            Ready::Ready { pid: 7, run_id: "d_x".to_owned() },
            Ready::LostRace,
            Ready::Failed { config: true, reason: "config.toml:3: unknown key".to_owned() },
            Ready::Failed { config: false, reason: "no space".to_owned() },
        ] {
            assert_eq!(Ready::from_line(&format!("{}\n", said.to_line())), Some(said));
        }
        assert_eq!(Ready::from_line("thread 'main' panicked"), None);
        assert_eq!(Ready::from_line("agentd-start ready x y"), None);
    }
}
