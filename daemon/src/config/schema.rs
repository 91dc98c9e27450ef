//! The shape of `config.toml`. Names are the outside names; a default is one of `agentd_core::limits` where
//! there is one.

use agentd_core::event::{
    CallIdForm, Dialect, MaxTokensField, OnRestart, ReasoningReplay, ResultLimits, SandboxMode, ThinkingForm,
    TurnLimits, Verdict,
};
use agentd_core::limits;
use serde::Deserialize;
use std::collections::BTreeMap;
use tracing::level_filters::LevelFilter;

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `provider/model` for sessions that name none.
    pub model: Option<String>,
    /// Providers beside the built-in ones, or changes of these.
    pub providers: BTreeMap<String, ProviderSection>,
    /// What is known of models, by `provider/model`.
    pub models: BTreeMap<String, ModelSection>,
    /// The context budget.
    pub context: ContextSection,
    /// What bounds a turn.
    pub limits: LimitsSection,
    /// New attempts at a model call.
    pub retry: RetrySection,
    /// New sessions.
    pub session: SessionSection,
    /// What commands may touch.
    pub sandbox: SandboxSection,
    /// The daemon itself.
    pub daemon: DaemonSection,
    /// How long things are kept.
    pub retention: RetentionSection,
    /// Which tools there are.
    pub tools: ToolsSection,
    /// Permission rules, in order.
    pub rules: Vec<RuleSection>,
    /// MCP.
    pub mcp: McpSection,
}

impl Config {
    /// What bounds a turn of a new session.
    pub fn turn_limits(&self) -> TurnLimits {
        TurnLimits {
            max_steps: self.limits.max_steps,
            max_calls_per_message: self.limits.max_calls_per_message,
            max_cost_micro_usd: micro(self.limits.max_cost_usd),
            max_minutes: self.limits.max_minutes,
            parallel_read_only: self.limits.parallel_read_only,
            command_timeout_s: self.limits.command_timeout_s,
            retry_max_attempts: self.retry.max_attempts,
            retry_base_ms: self.retry.base_ms,
            retry_max_ms: self.retry.max_ms,
        }
    }

    /// How much of a tool result a new session with this model shows. The check has read the model's own section.
    pub fn result_limits(&self, model: &str) -> ResultLimits {
        let context = super::check::context_of(self, model).unwrap_or_else(|_| self.context.clone());
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the check has bounded it: 0 to 1"
        )]
        let share_milli = (context.tool_results * 1_000.0).round() as u32;
        ResultLimits {
            head_lines: context.result_head_lines,
            tail_lines: context.result_tail_lines,
            max_bytes: context.result_max_bytes,
            share_milli,
        }
    }
}

/// Dollars as millionths. The check has bounded them.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn micro(usd: f64) -> i64 {
    (usd * 1_000_000.0).round() as i64
}

/// How a provider is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Protocol {
    /// Anthropic Messages.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// OpenAI Chat Completions and compatible servers.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
}

impl Protocol {
    /// The dialect of core.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Anthropic => Dialect::Anthropic,
            Self::OpenAiChat => Dialect::OpenAiChat,
            Self::OpenAiResponses => Dialect::OpenAiResponses,
        }
    }
}

/// `[providers.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderSection {
    /// How it is spoken to; needed unless the name is a built-in one.
    pub protocol: Option<Protocol>,
    /// Where it is; needed unless the name is a built-in one.
    pub base_url: Option<String>,
    /// The variable that holds its key.
    pub api_key_env: Option<String>,
    /// A command that prints its key.
    pub api_key_command: Option<Vec<String>>,
    /// The `anthropic-version` to ask for.
    pub version: Option<String>,
    /// More headers.
    pub headers: BTreeMap<String, String>,
    /// Certificates to trust beside the system's; empty for none.
    pub ca_file: String,
    /// Wait for the first byte of an answer.
    pub first_byte_timeout_s: Option<u32>,
    /// Silence within an answer.
    pub idle_timeout_s: Option<u32>,
}

/// `[models."provider/model"]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSection {
    /// Tokens of prompt and answer together.
    pub context_window: Option<u64>,
    /// Tokens of one answer.
    pub max_output_tokens: Option<u32>,
    /// Whether several calls in one message are wanted.
    pub parallel_tool_calls: Option<bool>,
    /// What it costs.
    pub price: Option<PriceSection>,
    /// How thinking is asked for; `anthropic` only.
    pub thinking: Option<ThinkingForm>,
    /// The name of the output bound; `openai-chat` only, as the next two.
    pub max_tokens_field: Option<MaxTokensField>,
    /// Whether reasoning goes back with the answer it came with.
    pub reasoning: Option<ReasoningReplay>,
    /// Whether usage is asked for.
    pub stream_options: Option<bool>,
    /// What ids of calls the server takes: `any` or `nine_alphanumeric` (Mistral), also behind a gateway.
    pub call_ids: Option<CallIdForm>,
    /// Whether a message with calls and no text says `""` instead of `null`.
    pub empty_content: Option<bool>,
    /// Whether calls of other models get a stand-in for the thought signature (Gemini).
    pub stand_in_signature: Option<bool>,
    /// Whether a message with calls needs reasoning beside them (DeepSeek, Moonshot).
    pub reasoning_with_calls: Option<bool>,
    /// Keys of `[context]` that differ for this model.
    pub context: Option<toml::Table>,
}

/// Dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PriceSection {
    /// Prompt tokens.
    pub input: f64,
    /// Answer tokens.
    pub output: f64,
    /// Tokens read from the cache.
    pub cache_read: f64,
    /// Tokens written to it.
    pub cache_write: f64,
}

/// `[context]`: fractions are of the usable window.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContextSection {
    /// Soft cap of the system region.
    pub system: f64,
    /// Soft cap of the task region.
    pub task: f64,
    /// Soft cap of history.
    pub history: f64,
    /// Soft cap of tool results.
    pub tool_results: f64,
    /// Where a compaction is prepared.
    pub prepare_at: f64,
    /// Where it is done.
    pub compact_at: f64,
    /// Where it is done even within a turn.
    pub force_at: f64,
    /// Whether it is done without being asked for.
    pub auto_compact: bool,
    /// Lines kept of the start of a result.
    pub result_head_lines: usize,
    /// Lines kept of its end.
    pub result_tail_lines: usize,
    /// Bytes of one result.
    pub result_max_bytes: usize,
}

impl Default for ContextSection {
    fn default() -> Self {
        Self {
            system: 0.20,
            task: 0.30,
            history: 0.50,
            tool_results: 0.40,
            prepare_at: 0.70,
            compact_at: 0.75,
            force_at: 0.80,
            auto_compact: true,
            result_head_lines: limits::RESULT_HEAD_LINES,
            result_tail_lines: limits::RESULT_TAIL_LINES,
            result_max_bytes: limits::RESULT_MAX_BYTES,
        }
    }
}

/// `[limits]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsSection {
    /// Model steps in one turn.
    pub max_steps: u32,
    /// Calls taken from one message.
    pub max_calls_per_message: u32,
    /// Money for one turn.
    pub max_cost_usd: f64,
    /// Wall time of one turn.
    pub max_minutes: u32,
    /// Read-only calls side by side.
    pub parallel_read_only: u32,
    /// Deadline of a command that names none.
    pub command_timeout_s: u32,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            max_steps: limits::MAX_STEPS,
            max_calls_per_message: limits::MAX_CALLS_PER_MESSAGE,
            max_cost_usd: 10.0,
            max_minutes: limits::MAX_TURN_MINUTES,
            parallel_read_only: limits::PARALLEL_READ_ONLY,
            command_timeout_s: limits::COMMAND_TIMEOUT_S,
        }
    }
}

/// `[retry]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySection {
    /// Attempts at one model call.
    pub max_attempts: u32,
    /// First wait.
    pub base_ms: u64,
    /// Longest wait.
    pub max_ms: u64,
}

impl Default for RetrySection {
    fn default() -> Self {
        Self {
            max_attempts: limits::RETRY_MAX_ATTEMPTS,
            base_ms: limits::RETRY_BASE_MS,
            max_ms: limits::RETRY_MAX_MS,
        }
    }
}

/// `[session]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionSection {
    /// What happens to open work after a restart of the daemon.
    pub on_restart: OnRestart,
    /// Life of an open approval.
    pub approvals_expire_h: u32,
}

impl Default for SessionSection {
    fn default() -> Self {
        Self { on_restart: OnRestart::Wait, approvals_expire_h: limits::APPROVALS_EXPIRE_H }
    }
}

/// `[sandbox]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxSection {
    /// What commands may touch.
    pub mode: SandboxMode,
    /// Whether they reach the network.
    pub network: bool,
    /// Refuse to run commands where the sandbox cannot hold.
    pub required: bool,
    /// More writable paths.
    pub writable: Vec<String>,
    /// More readable paths.
    pub readable: Vec<String>,
    /// Hidden paths.
    pub hidden: Vec<String>,
    /// Hosts that may be reached.
    pub hosts: Vec<String>,
}

impl Default for SandboxSection {
    fn default() -> Self {
        Self {
            mode: SandboxMode::WorkspaceWrite,
            network: false,
            required: true,
            writable: Vec::new(),
            readable: Vec::new(),
            hidden: Vec::new(),
            hosts: Vec::new(),
        }
    }
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// What is odd.
    Warn,
    /// What happens.
    Info,
    /// What was decided on the way.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// As the log takes it.
    pub const fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

/// `[daemon]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DaemonSection {
    /// End after so long without clients and work; 0 for never.
    pub idle_exit_s: u64,
    /// How much is logged.
    pub log_level: LogLevel,
}

impl Default for DaemonSection {
    fn default() -> Self {
        Self { idle_exit_s: 0, log_level: LogLevel::Info }
    }
}

/// `[retention]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionSection {
    /// Idle sessions.
    pub sessions_days: u32,
    /// Artifacts.
    pub artifacts_days: u32,
}

impl Default for RetentionSection {
    fn default() -> Self {
        Self {
            sessions_days: limits::RETENTION_SESSIONS_DAYS,
            artifacts_days: limits::RETENTION_ARTIFACTS_DAYS,
        }
    }
}

/// `[tools]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsSection {
    /// Tools that are not offered.
    pub disable: Vec<String>,
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It may run.
    Allow,
    /// A person must say.
    Ask,
    /// It must not run.
    Deny,
}

impl Decision {
    /// The word of core.
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::Allow => Verdict::Allow,
            Self::Ask => Verdict::Ask,
            Self::Deny => Verdict::Deny,
        }
    }
}

/// `[[rules]]`, as written; policy reads the matcher.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSection {
    /// The tool.
    pub tool: String,
    /// What it matches.
    #[serde(rename = "match")]
    pub matcher: String,
    /// What it says.
    pub decision: Decision,
    /// What it must match.
    #[serde(default)]
    pub examples: Vec<String>,
    /// What it must not match.
    #[serde(default)]
    pub counterexamples: Vec<String>,
}

/// `[mcp]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpSection {
    /// The servers.
    pub servers: BTreeMap<String, McpServer>,
}

/// `[mcp.servers.NAME]`: a command, or a URL.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpServer {
    /// The program.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Or where it listens.
    pub url: Option<String>,
    /// More headers.
    pub headers: BTreeMap<String, String>,
}
