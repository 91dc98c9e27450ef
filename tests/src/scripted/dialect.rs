//! The two dialects that the server speaks, and which of them a request is in.

use std::fmt;

/// How clients and model servers speak with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions, as OpenAI and most compatible servers speak it.
    OpenAi,
}

impl Dialect {
    /// All of them: `for dialect in Dialect::ALL`.
    pub const ALL: [Self; 2] = [Self::Anthropic, Self::OpenAi];

    /// The dialect of a path that answers are asked on. Servers are given with or without `/v1` in their base.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        match path {
            "/v1/messages" => Some(Self::Anthropic),
            "/v1/chat/completions" | "/chat/completions" => Some(Self::OpenAi),
            _ => None,
        }
    }

    /// What clients of this dialect expect at the end of a base URL.
    pub(super) fn base_path(self) -> &'static str {
        match self {
            Self::Anthropic => "",
            Self::OpenAi => "/v1",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        })
    }
}
