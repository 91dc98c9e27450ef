//! The file as the contract writes it, and what is said of a wrong one.

use super::*;
use agentd_core::event::{Dialect, SandboxMode, TurnLimits};

const WHOLE: &str = r#"
model = "anthropic/claude-sonnet-5-5"

[providers.local]
protocol = "openai-chat"            # anthropic | openai-chat | openai-responses
base_url = "http://127.0.0.1:8080/v1"
api_key_env = "LOCAL_KEY"           # or api_key_command = ["pass", "show", "local"]; both optional
version = "2023-06-01"              # anthropic only
headers = {}
ca_file = ""
first_byte_timeout_s = 120
idle_timeout_s = 120

[models."local/small"]
context_window = 8192
max_output_tokens = 1024
parallel_tool_calls = true
price = { input = 0.0, output = 0.0, cache_read = 0.0, cache_write = 0.0 }
[models."local/small".context]
tool_results = 0.30

[context]
system = 0.20
task = 0.30
history = 0.50
tool_results = 0.40
prepare_at = 0.70
compact_at = 0.75
force_at = 0.80
auto_compact = true
result_head_lines = 100
result_tail_lines = 50
result_max_bytes = 32768

[limits]
max_steps = 200
max_calls_per_message = 32
max_cost_usd = 10.0
max_minutes = 120
parallel_read_only = 8
command_timeout_s = 120

[retry]
max_attempts = 8
base_ms = 500
max_ms = 30000

[session]
on_restart = "wait"
approvals_expire_h = 24

[sandbox]
mode = "workspace-write"
network = false
required = true
writable = []
readable = []
hidden = []
hosts = []

[daemon]
idle_exit_s = 0
log_level = "info"

[retention]
sessions_days = 30
artifacts_days = 14

[tools]
disable = []

[[rules]]
tool = "run_command"
match = "cargo test *"
decision = "allow"
examples = ["cargo test -p core"]
counterexamples = ["cargo test; rm -rf x"]

[mcp.servers.time]
command = "mcp-server-time"
args = ["--local-timezone", "UTC"]
"#;

fn read(text: &str) -> Result<Config, ConfigError> {
    parse(text, Path::new("/h/config.toml"))
}

#[test]
fn the_file_of_the_contract_is_the_defaults_and_its_own_things() {
    let config = read(WHOLE).unwrap();
    let plain = Config::default();
    assert_eq!(config.context, plain.context);
    assert_eq!(config.limits, plain.limits);
    assert_eq!(config.retry, plain.retry);
    assert_eq!(config.session, plain.session);
    assert_eq!(config.sandbox, plain.sandbox);
    assert_eq!(config.daemon, plain.daemon);
    assert_eq!(config.retention, plain.retention);
    assert_eq!(config.turn_limits(), TurnLimits::default());
    assert_eq!(config.rules[0].matcher, "cargo test *");
    assert_eq!(config.sandbox.mode, SandboxMode::WorkspaceWrite);

    let small = resolve(&config, Some("local/small")).unwrap();
    assert_eq!(small.profile.dialect, Dialect::OpenAiChat);
    assert_eq!((small.profile.context_window, small.profile.max_output_tokens), (8192, 1024));
    assert!((small.context.tool_results - 0.30).abs() < 1e-9 && (small.context.history - 0.50).abs() < 1e-9);
    assert_eq!(small.provider.api_key_env.as_deref(), Some("LOCAL_KEY"));
    assert_eq!(small.provider.ca_file, None);
    assert_eq!(resolve(&config, None).unwrap().name, "anthropic/claude-sonnet-5-5");
}

#[test]
fn what_is_wrong_is_named_by_file_line_and_key() {
    for (text, line, key, word) in [
        ("modle = \"a/b\"\n", 1, "modle", "unknown field"),
        ("\n[limits]\nmax_steps = 3\nmax_step = 4\n", 4, "limits.max_step", "unknown field"),
        ("[limits]\nmax_steps = \"many\"\n", 2, "limits.max_steps", "invalid type"),
        ("[daemon]\n\nlog_level = \"loud\"\n", 3, "daemon.log_level", "unknown variant"),
        ("model = \"nonsense\"\n", 1, "model", "provider/model"),
        ("[providers.x]\nprotocol = \"anthropic\"\n", 1, "providers.x", "base_url"),
        (
            "[providers.x]\nprotocol = \"anthropic\"\nbase_url = \"ftp://h\"\n",
            3,
            "providers.x.base_url",
            "http://",
        ),
        ("[context]\ncompact_at = 0.9\n", 2, "context.compact_at", "force_at"),
        ("[context]\nsystem = 1.5\n", 2, "context.system", "fraction"),
        ("[context]\nresult_max_bytes = 99999\n", 2, "context.result_max_bytes", "32768"),
        ("[models.\"a/b\".context]\nsysten = 0.1\n", 1, "models.a/b.context", "unknown field"),
        ("[limits]\ncommand_timeout_s = 0\n", 2, "limits.command_timeout_s", "seconds"),
        ("[mcp.servers.t]\nargs = []\n", 1, "mcp.servers.t", "command or url"),
        ("x = [1,\n", 1, "x", ""),
    ] {
        match read(text).unwrap_err() {
            ConfigError::Invalid { line: at, key: named, message, .. } => {
                assert_eq!((at, named.as_str()), (line, key), "{text:?}: {message}");
                assert!(message.contains(word), "{text:?}: {message}");
            }
            other => panic!("{other}"),
        }
    }
    let said = read("modle = 1").unwrap_err().to_string();
    assert!(said.starts_with("/h/config.toml:1: key `modle`: "), "{said}");
}

#[test]
fn models_are_known_by_their_longest_beginning_and_unknown_ones_get_safe_figures() {
    let config = Config::default();
    let opus = resolve(&config, Some("anthropic/claude-opus-5-5")).unwrap();
    assert_eq!(opus.profile.price.input, 5_000_000);
    assert_eq!(opus.profile.price.cache_read, 500_000);
    assert!(opus.known && opus.profile.cache_markers);
    let fable = resolve(&config, Some("anthropic/claude-fable-5-2")).unwrap();
    assert_eq!(fable.profile.price.output, 40_000_000);
    let odd = resolve(&config, Some("openai/gpt-9")).unwrap();
    assert!(!odd.known && odd.profile.context_window <= 128_000);
    assert!(resolve(&config, Some("demo/tour")).unwrap().provider.is_demo());
}

#[test]
fn names_that_cannot_be_resolved_say_what_to_do() {
    let config = Config::default();
    assert_eq!(resolve(&config, None), Err(CatalogError::NoModel));
    assert!(matches!(resolve(&config, Some("gpt")), Err(CatalogError::Malformed(_))));
    let error = resolve(&config, Some("nobody/x")).unwrap_err().to_string();
    assert!(error.contains("anthropic, openai, demo") && error.contains("[providers.nobody]"), "{error}");
}

#[test]
fn a_file_that_is_not_text_is_not_taken_for_a_missing_one() {
    let temp = tempfile::tempdir().unwrap();
    assert_eq!(load(&temp.path().join("none")).unwrap(), Config::default());
    let file = temp.path().join("config.toml");
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    assert!(matches!(load(&file), Err(ConfigError::Unreadable { .. })));
}
