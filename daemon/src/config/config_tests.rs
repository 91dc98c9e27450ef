//! The file as the contract writes it, and what is said of a wrong one.

use super::*;
use agentd_core::event::{
    CallIdForm, Dialect, MaxTokensField, Price, ReasoningReplay, SandboxMode, ThinkingForm, TurnLimits,
};
use agentd_core::model::listing::Described;
use std::collections::BTreeMap;

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

    let small = resolve(&config, Some("local/small"), &BTreeMap::new()).unwrap();
    assert_eq!(small.profile.dialect, Dialect::OpenAiChat);
    assert_eq!((small.profile.context_window, small.profile.max_output_tokens), (8192, 1024));
    assert!((small.context.tool_results - 0.30).abs() < 1e-9 && (small.context.history - 0.50).abs() < 1e-9);
    assert_eq!(small.provider.api_key_env.as_deref(), Some("LOCAL_KEY"));
    assert_eq!(small.provider.ca_file, None);
    assert_eq!(resolve(&config, None, &BTreeMap::new()).unwrap().name, "anthropic/claude-sonnet-5-5");
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
        (
            "[tools]\n\ndisable = [\"search\", \"run_comand\"]\n",
            3,
            "tools.disable",
            "\"run_comand\"; the tools are apply_patch, ",
        ),
        ("[tools]\ndisable = [\"\"]\n", 2, "tools.disable", "run_command"),
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
fn models_are_known_by_their_id_and_unknown_ones_get_safe_figures() {
    let config = Config::default();
    let opus = resolve(&config, Some("anthropic/claude-opus-5-5"), &BTreeMap::new()).unwrap();
    assert_eq!(opus.profile.price.input, 5_000_000);
    assert_eq!(opus.profile.price.cache_read, 500_000);
    assert!(opus.origin == Origin::BuiltIn && opus.profile.cache_markers && !opus.worth_asking);
    let fable = resolve(&config, Some("anthropic/claude-fable-5-2"), &BTreeMap::new()).unwrap();
    assert_eq!(fable.profile.price.output, 40_000_000);
    let odd = resolve(&config, Some("openai/gpt-9"), &BTreeMap::new()).unwrap();
    assert!(odd.origin == Origin::Guess && odd.profile.context_window <= 128_000);
    assert!(odd.profile.window_is_guess && odd.profile.price_unknown && !odd.worth_asking);
    assert!(resolve(&config, Some("demo/tour"), &BTreeMap::new()).unwrap().provider.is_demo());
}

#[test]
fn names_that_cannot_be_resolved_say_what_to_do() {
    let config = Config::default();
    assert_eq!(resolve(&config, None, &BTreeMap::new()), Err(CatalogError::NoModel));
    assert!(matches!(resolve(&config, Some("gpt"), &BTreeMap::new()), Err(CatalogError::Malformed(_))));
    let error = resolve(&config, Some("nobody/x"), &BTreeMap::new()).unwrap_err().to_string();
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

#[test]
fn a_price_that_nobody_published_is_unknown_and_not_zero() {
    let config = read("[models.\"local/free\"]\nprice = { input = 0.0 }\n[providers.local]\nprotocol = \"openai-chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n").unwrap();
    for (name, unknown) in [
        ("anthropic/claude-sonnet-5-5", true),
        ("anthropic/claude-opus-5", false),
        ("openai/gpt-5.9", true),
        ("demo/tour", false),
        ("local/free", false),
        ("local/other", true),
    ] {
        let profile = resolve(&config, Some(name), &BTreeMap::new()).unwrap().profile;
        assert_eq!(profile.price_unknown, unknown, "{name}");
        assert!(!unknown || profile.price == Price::default(), "{name}");
    }
}

#[test]
fn the_person_is_believed_before_the_table_and_the_table_before_the_server() {
    let text = "[providers.far]\nprotocol = \"anthropic\"\nbase_url = \"https://far.example\"\n\
                [models.\"far/set\"]\ncontext_window = 50000\n";
    let config = read(text).unwrap();
    let price = Price { input: 1, output: 2, cache_read: 3, cache_write: 4 };
    let said = Described {
        context_window: Some(100_000),
        max_output_tokens: Some(9_000),
        adaptive_thinking: Some(true),
        price: Some(price),
    };
    let with = |name: &str, heard: Heard| {
        let resolved = resolve_heard(&config, Some(name), &BTreeMap::new(), &heard).unwrap();
        (
            resolved.profile.context_window,
            resolved.profile.max_output_tokens,
            resolved.origin,
            resolved.profile,
        )
    };
    let heard = Heard { described: Some(said), ..Heard::default() };
    let (window, output, origin, profile) = with("far/new", heard);
    assert_eq!((window, output, origin), (100_000, 9_000, Origin::Listed));
    assert_eq!(
        (profile.thinking, profile.price, profile.price_unknown),
        (ThinkingForm::Adaptive, price, false)
    );
    assert!(!profile.window_is_guess);
    assert_eq!(with("far/set", heard).0, 50_000);
    assert_eq!(with("anthropic/claude-opus-5", heard).0, 200_000);
    // A later model of a known family has its server's figures, and the family's only without them.
    let (window, _, origin, _) = with("openai/gpt-5.9", heard);
    assert_eq!((window, origin), (100_000, Origin::Listed));
    let (window, _, origin, profile) = with("openai/gpt-5.9", Heard::default());
    assert_eq!((window, origin, profile.window_is_guess), (400_000, Origin::Family, true));

    // What a refusal taught bounds what others say, and is better than a guess in both directions.
    let learned = |window| Heard { learned_window: Some(window), ..Heard::default() };
    assert_eq!(with("far/new", learned(131_072)).0, 131_072);
    assert!(!with("far/new", learned(131_072)).3.window_is_guess);
    assert_eq!(with("far/new", Heard { learned_window: Some(8_192), ..heard }).0, 8_192);
    assert_eq!(with("anthropic/claude-opus-5", learned(100_000)).0, 100_000);
    assert_eq!(with("anthropic/claude-opus-5", learned(900_000)).0, 200_000);
    assert_eq!(with("far/set", learned(8_192)).0, 50_000, "the person knows better");
    let short = Heard { learned_output: Some(2_000), ..heard };
    assert_eq!((with("far/new", short).1, with("anthropic/claude-opus-5", short).1), (2_000, 2_000));
}

#[test]
fn servers_are_asked_only_for_what_nobody_said() {
    let text = "[providers.near]\nprotocol = \"openai-chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
                [models.\"near/set\"]\ncontext_window = 50000\n";
    let config = read(text).unwrap();
    let asked = |name| resolve(&config, Some(name), &BTreeMap::new()).unwrap().worth_asking;
    assert!(asked("near/x") && asked("anthropic/claude-opus-9"));
    for settled in ["near/set", "anthropic/claude-sonnet-5-5", "openai/gpt-5.9", "demo/tour", "demo/x"] {
        assert!(!asked(settled), "{settled}");
    }
}

#[test]
fn a_server_of_the_chat_dialect_is_asked_as_it_wants_and_a_person_may_say_otherwise() {
    let text = "[providers.m]\nprotocol = \"openai-chat\"\nbase_url = \"https://api.mistral.ai/v1\"\n\
                [models.\"m/own\"]\nmax_tokens_field = \"max_completion_tokens\"\nreasoning = \"never\"\nstream_options = true\n\
                [models.\"anthropic/claude-opus-5\"]\nthinking = \"omit\"\n";
    let config = read(text).unwrap();
    let env = |vars: &[(&str, &str)]| -> BTreeMap<String, String> {
        vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let chat = |name, vars: &[(&str, &str)]| resolve(&config, Some(name), &env(vars)).unwrap().profile.chat;
    let plain = chat("m/x", &[]);
    assert_eq!((plain.call_ids, plain.stream_options), (CallIdForm::NineAlphanumeric, false));
    let own = chat("m/own", &[]);
    assert_eq!(own.max_tokens_field, MaxTokensField::MaxCompletionTokens);
    assert_eq!((own.reasoning, own.stream_options), (ReasoningReplay::Never, true));
    assert_eq!(own.call_ids, CallIdForm::NineAlphanumeric, "what nobody changed stays");
    assert_eq!(chat("openai/gpt-5", &[]).max_tokens_field, MaxTokensField::MaxCompletionTokens);
    let local = [("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")];
    assert_eq!(chat("openai/gpt-5", &local).max_tokens_field, MaxTokensField::MaxTokens);
    let opus = resolve(&config, Some("anthropic/claude-opus-5"), &env(&[])).unwrap();
    assert_eq!(opus.profile.thinking, ThinkingForm::Omit);
}

#[test]
fn keys_of_another_protocol_are_refused() {
    for (text, line, key, word) in [
        (
            "[models.\"anthropic/x\"]\nstream_options = true\n",
            2,
            "models.anthropic/x.stream_options",
            "openai-chat",
        ),
        ("[models.\"openai/x\"]\n\nthinking = \"omit\"\n", 3, "models.openai/x.thinking", "anthropic"),
        (
            "[models.\"openai/x\"]\nreasoning = \"maybe\"\n",
            2,
            "models.\"openai/x\".reasoning",
            "unknown variant",
        ),
        ("[models.\"openai/x\"]\nmax_tokens_field = 3\n", 2, "models.\"openai/x\".max_tokens_field", ""),
    ] {
        match read(text).unwrap_err() {
            ConfigError::Invalid { line: at, key: named, message, .. } => {
                assert_eq!((at, named.as_str()), (line, key), "{text:?}: {message}");
                assert!(message.contains(word), "{text:?}: {message}");
            }
            other => panic!("{other}"),
        }
    }
}
