//! The rooms and the edges between them: who may name whom.

/// The rooms of the daemon and the rooms that each may name. Two wings meet only in `ports`: the session wing
/// (`api` over `session`) and the effects wing (`effects` over `tools`, `model` and `mcp`, those over `inspect`,
/// `process` and `redact`). `store` stands below the session wing and is reached through its port.
pub(crate) const DAEMON: &[(&str, &[&str])] = &[
    // The seam. It names nothing: a port speaks core types.
    ("ports", &[]),
    // Ground: rooms that name no other room, or only ground.
    ("paths", &[]),
    ("redact", &[]),
    ("process", &[]),
    ("config", &["paths"]),
    ("telemetry", &["paths", "config"]),
    ("store", &["ports"]),
    // Used by both wings: the same search of stored content for the tool and for clients.
    ("artifact_search", &["ports"]),
    // Effects wing. Never `session`, `store` or `api`.
    ("inspect", &["ports", "redact"]),
    ("model", &["ports", "redact", "config"]),
    ("mcp", &["ports", "redact", "process", "config"]),
    ("tools", &["ports", "artifact_search", "inspect", "process", "redact"]),
    ("effects", &["ports", "tools", "model", "mcp", "inspect", "process", "redact", "config"]),
    // Session wing. Never `tools`, `model`, `process` or `effects`.
    ("session", &["ports"]),
    ("api", &["ports", "artifact_search", "session", "config", "paths"]),
    // The only room that knows both wings: it wires them.
    (
        "lifecycle",
        &[
            "ports",
            "paths",
            "redact",
            "process",
            "telemetry",
            "config",
            "store",
            "inspect",
            "model",
            "mcp",
            "tools",
            "effects",
            "session",
            "api",
        ],
    ),
];

/// The rooms of the client and the rooms that each may name.
pub(crate) const CLIENT: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("render", &["error"]),
    ("connect", &["error"]),
    ("api", &["connect", "error"]),
    ("attach", &["api", "connect", "render", "error"]),
    ("rpc", &["api", "connect", "error"]),
    ("acp", &["api", "attach", "connect", "render", "error"]),
    ("cli", &["acp", "api", "attach", "connect", "error", "render", "rpc"]),
];

/// Edges that are not in the tables, each with its reason. Shorten this list, never lengthen it lightly.
pub(crate) const EXCEPTIONS: &[(&str, &str)] = &[
    // The global flags are parsed by clap in `cli` and say where to connect.
    ("client/src/connect", "cli"),
];

/// What of the wire contract a daemon room may name: `api` translates it; the others share only the places on
/// disk and the readiness report with the client.
pub(crate) const PROTO_EVERYTHING: &[&str] = &["api"];
/// Rooms that may name [`PROTO_PARTS`].
pub(crate) const PROTO_SOME: &[&str] = &["lifecycle", "paths", "config", "lib"];
/// Files that may name one part more: how a daemon is to stop is said in the frozen words of `Stop`.
pub(crate) const PROTO_EXCEPTIONS: &[(&str, &str)] = &[("daemon/src/lifecycle/run.rs", "v1")];
/// The parts that are no messages.
pub(crate) const PROTO_PARTS: &[&str] = &["place", "ready"];

/// What core must not name: it decides, and everything it knows was given to it.
pub(crate) const NOT_IN_CORE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::os",
    "std::io::stdin",
    "Instant",
    "SystemTime",
    "tokio",
    "rand",
    "getrandom",
    "prost",
    "tonic",
    "rusqlite",
    "reqwest",
    "jsonschema",
    "agentd_proto",
    "print!",
    "println!",
];
