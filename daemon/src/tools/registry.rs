//! The list of tools, their schemas, and the check of a call against them.
//!
//! Invariants: schemas are the very bytes below, so that what a model is sent never changes by the way; tools are
//! in the order of their names; schemas are compiled once.

use super::answer;
use agentd_core::command::{CallFault, CheckedCall};
use agentd_core::event::{BlockCall, EffectClass};
use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;

/// A tool as a model is told of it.
#[derive(Clone, Copy, Debug)]
pub struct ToolSpec {
    /// Its name.
    pub name: &'static str,
    /// What it does and how it is used.
    pub description: &'static str,
    /// Its arguments, as a JSON Schema.
    pub input_schema: &'static str,
    /// What its calls may do to the world.
    pub effect: EffectClass,
}

/// Why the registry could not be built; a fault of this build.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Not JSON.
    #[error("the schema of tool {0} is not JSON: {1}")]
    NotJson(&'static str, serde_json::Error),
    /// Not a schema.
    #[error("the schema of tool {0} cannot be compiled: {1}")]
    NotASchema(&'static str, String),
}

const TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: "apply_patch",
        description: "Change several files at once: all of them, or none when anything does not fit. Form:\n\
*** Begin Patch\n*** Update File: src/a.py\n@@ def greet():\n     name = ask()\n-    print(name)\n+    print(name.title())\n\
*** Add File: src/b.py\n+import a\n*** Delete File: old.py\n*** End Patch\n\
Lines begin with a space (stays), - (goes) or + (comes) and must be exactly those of the file, with enough around a change \
to be found once; `@@ LINE` names a line above it. `*** Move to: PATH` after Update File renames. Unified diffs (git) are \
taken too. A file to be deleted must have been read.",
        input_schema: r#"{"type":"object","properties":{"patch":{"type":"string","minLength":1,"description":"The whole patch."}},"required":["patch"],"additionalProperties":false}"#,
        effect: EffectClass::Idempotent,
    },
    ToolSpec {
        name: "edit_file",
        description: "Replace text in a file. `old` must be copied exactly from the file, without line numbers, and must \
occur once; with all=true every occurrence is replaced. Line ends, encoding and everything else stay as they are. When \
`old` is not found or not unique, nothing is changed and the nearest lines are named.",
        input_schema: r#"{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":4096,"description":"Absolute, or relative to the working folder."},"old":{"type":"string","minLength":1,"description":"The text to replace."},"new":{"type":"string","description":"The text to put there; empty to delete."},"all":{"type":"boolean","description":"Replace every occurrence. Default false."}},"required":["path","old","new"],"additionalProperties":false}"#,
        effect: EffectClass::Idempotent,
    },
    ToolSpec {
        name: "find_files",
        description: "Find files and folders by name, below a folder, sorted by path. `pattern` is a glob: without a slash it \
matches names at any depth (`*.rs`, `Cargo.toml`), with one it matches paths from `path` or the working folder on \
(`src/**/*.ts`); `{a,b}` and `[a-z]` work, a leading ! means all others, a trailing / only folders. Case counts. Hidden files \
are found; .git, and what .gitignore, .ignore or .git/info/exclude ignore, is not, unless `path` or `pattern` names it without \
wildcards. Links are listed (name@) and not followed.",
        input_schema: r#"{"type":"object","properties":{"pattern":{"type":"string","minLength":1,"maxLength":1024,"description":"The glob."},"path":{"type":"string","minLength":1,"maxLength":4096,"description":"The folder to look in, absolute or relative to the working folder. Default: the working folder."}},"required":["pattern"],"additionalProperties":false}"#,
        effect: EffectClass::ReadOnly,
    },
    ToolSpec {
        name: "list_dir",
        description: "List the entries of a folder in the order of their names: folders end in /, links show their \
target, files their size in bytes.",
        input_schema: r#"{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":4096,"description":"Absolute, or relative to the working folder. Default: the working folder."}},"required":[],"additionalProperties":false}"#,
        effect: EffectClass::ReadOnly,
    },
    ToolSpec {
        name: "read_artifact",
        description: "Read a part of an artifact: output or content that was too large for a result. Counts bytes.",
        input_schema: r#"{"type":"object","properties":{"id":{"type":"string","minLength":3,"maxLength":64,"description":"The artifact's id, as a result named it (a_...)."},"offset":{"type":"integer","minimum":0,"maximum":1099511627776,"description":"Bytes to skip. Default 0."},"limit":{"type":"integer","minimum":1,"maximum":32768,"description":"Bytes to read. Default 16384."}},"required":["id"],"additionalProperties":false}"#,
        effect: EffectClass::ReadOnly,
    },
    ToolSpec {
        name: "read_file",
        description: "Read a text file as numbered lines, whatever its encoding; images and PDFs become artifacts. A page that does not reach the end says how many lines follow \
and the offset of the next page. A line that is too long for a page is cut, and the whole line is an artifact.",
        input_schema: r#"{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":4096,"description":"Absolute, or relative to the working folder."},"offset":{"type":"integer","minimum":0,"maximum":1099511627776,"description":"Lines to skip. Default 0."},"limit":{"type":"integer","minimum":1,"maximum":2000,"description":"Lines to read. Default 200."}},"required":["path"],"additionalProperties":false}"#,
        effect: EffectClass::ReadOnly,
    },
    ToolSpec {
        name: "run_command",
        description: "Run a command line with the shell (bash where there is one) in the working folder. Standard input is empty and there \
is no terminal. The result is the exit code if it is not 0, then what it printed as it came: a line [stderr] stands before what \
came from standard error, [stdout] where standard output goes on (of what comes at once, each stream together; 2>&1 keeps \
the exact order); long output is cut in the middle and kept whole as an artifact. What the command leaves running is killed when it ends.",
        input_schema: r#"{"type":"object","properties":{"command":{"type":"string","minLength":1,"maxLength":131072,"description":"The command line."},"timeout_s":{"type":"integer","minimum":1,"maximum":3600,"description":"Seconds until it is killed. Default 120."}},"required":["command"],"additionalProperties":false}"#,
        effect: EffectClass::Unsafe,
    },
    ToolSpec {
        name: "search",
        description: "Search the contents of files for a regular expression (Rust syntax), line by line. The result has each \
file's path on a line of its own, then `LINE: text` for each line that matches, sorted by path. Case counts; (?i) at the start \
ignores it. A literal ( [ { . * + ? | ^ $ or \\ is escaped with \\. \
Text is read as UTF-8, or UTF-16 with a byte order mark; of other encodings only ASCII is found. Hidden files are searched; .git, binary files, and what \
.gitignore, .ignore or .git/info/exclude ignore, are not, unless `path` or `glob` names it without wildcards. Links are not \
followed. Long lines are cut around the match; a long result is cut in the middle and kept whole as an artifact.",
        input_schema: r#"{"type":"object","properties":{"pattern":{"type":"string","minLength":1,"maxLength":4096,"description":"The regular expression."},"path":{"type":"string","minLength":1,"maxLength":4096,"description":"A folder or one file, absolute or relative to the working folder. Default: the working folder."},"glob":{"type":"string","minLength":1,"maxLength":1024,"description":"Only files that match, as in find_files: *.rs, src/**/*.{ts,tsx}, !*.min.js for all others."}},"required":["pattern"],"additionalProperties":false}"#,
        effect: EffectClass::ReadOnly,
    },
    ToolSpec {
        name: "search_artifact",
        description: "Find the lines of an artifact that match a regular expression, as `LINE (byte OFFSET): text`. \
OFFSET is where the text shown begins: read_artifact reads from there with it as its `offset`. Long lines are cut around the match.",
        input_schema: r#"{"type":"object","properties":{"id":{"type":"string","minLength":3,"maxLength":64,"description":"The artifact's id, as a result named it (a_...)."},"pattern":{"type":"string","minLength":1,"maxLength":4096,"description":"A regular expression in Rust's syntax, matched line by line. (?i) at the start ignores case."}},"required":["id","pattern"],"additionalProperties":false}"#,
        effect: EffectClass::ReadOnly,
    },
    ToolSpec {
        name: "write_file",
        description: "Write a whole file: a new one, with its folders, or over one that was read in this session. Over \
an existing file its encoding, byte order mark and CRLF line ends are kept; otherwise the content is written as given, in \
UTF-8. Use edit_file to change a part.",
        input_schema: r#"{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":4096,"description":"Absolute, or relative to the working folder."},"content":{"type":"string","description":"The whole content."}},"required":["path","content"],"additionalProperties":false}"#,
        effect: EffectClass::Idempotent,
    },
];

/// Every built-in tool, by name.
pub const fn built_in_tools() -> &'static [ToolSpec] {
    TOOLS
}

/// The tools but the `disabled` ones as an array of `name`, `description` and `input_schema`: the same bytes in every
/// call.
pub fn specs_json(disabled: &[String]) -> Result<Arc<RawValue>, serde_json::Error> {
    let mut tools = Vec::with_capacity(TOOLS.len());
    for tool in TOOLS.iter().filter(|tool| !disabled.iter().any(|name| name == tool.name)) {
        let (name, description) =
            (serde_json::to_string(tool.name)?, serde_json::to_string(tool.description)?);
        tools.push(format!(
            r#"{{"name":{name},"description":{description},"input_schema":{}}}"#,
            tool.input_schema
        ));
    }
    RawValue::from_string(format!("[{}]", tools.join(","))).map(Arc::from)
}

struct Entry {
    spec: &'static ToolSpec,
    validator: Validator,
    properties: Vec<String>,
}

/// The tools with their schemas compiled.
pub struct Registry {
    entries: Vec<Entry>,
}

impl Registry {
    /// The built-in tools.
    pub fn built_in() -> Result<Self, RegistryError> {
        let mut entries = Vec::with_capacity(TOOLS.len());
        for spec in TOOLS {
            let schema: Value = serde_json::from_str(spec.input_schema)
                .map_err(|error| RegistryError::NotJson(spec.name, error))?;
            let validator = jsonschema::validator_for(&schema)
                .map_err(|error| RegistryError::NotASchema(spec.name, error.to_string()))?;
            let properties = schema["properties"].as_object().map(|map| map.keys().cloned().collect());
            entries.push(Entry { spec, validator, properties: properties.unwrap_or_default() });
        }
        Ok(Self { entries })
    }

    /// The names, in order.
    pub fn names(&self) -> Vec<&'static str> {
        self.entries.iter().map(|entry| entry.spec.name).collect()
    }

    /// One tool.
    pub fn find(&self, name: &str) -> Option<&'static ToolSpec> {
        self.entries.iter().find(|entry| entry.spec.name == name).map(|entry| entry.spec)
    }

    /// Checks a call as the model wrote it.
    pub fn check(&self, call: &BlockCall) -> CheckedCall {
        match self.fault_of(call) {
            Ok(effect) => CheckedCall::Valid(effect),
            Err(fault) => CheckedCall::Invalid(fault),
        }
    }

    fn fault_of(&self, call: &BlockCall) -> Result<EffectClass, CallFault> {
        let Some(entry) = self.entries.iter().find(|entry| entry.spec.name == call.name) else {
            let name: String = call.name.chars().take(64).flat_map(char::escape_debug).collect();
            let text = format!("Unknown tool {name}. Tools: [{}]", self.names().join(", "));
            return Err(answer::invalid("unknown_tool", text));
        };
        let name = entry.spec.name;
        if !call.complete {
            let why = call.fault.as_deref().unwrap_or("the answer was cut off inside its arguments");
            return Err(answer::invalid("incomplete", format!("Not executed: {name} was not whole: {why}")));
        }
        let value: Value = serde_json::from_str(call.args.get()).map_err(|error| {
            answer::invalid("arguments", format!("Invalid arguments for {name}: at / expected JSON: {error}"))
        })?;
        let mut faults: Vec<String> =
            entry.validator.iter_errors(&value).map(|error| describe(&error, entry)).collect();
        if faults.is_empty() {
            return Ok(entry.spec.effect);
        }
        faults.sort();
        faults.dedup();
        faults.truncate(FAULTS_NAMED);
        Err(answer::invalid("arguments", format!("Invalid arguments for {name}: {}", faults.join("; "))))
    }
}

/// Faults of one call that are named.
const FAULTS_NAMED: usize = 4;

/// `at POINTER expected …`
fn describe(error: &jsonschema::ValidationError<'_>, entry: &Entry) -> String {
    let pointer = error.instance_path().to_string();
    let at = if pointer.is_empty() { "/".to_owned() } else { pointer };
    let expected = match error.kind() {
        // Any other number would have done.
        ValidationErrorKind::Type { kind: TypeKind::Single(kind) }
            if error.instance().is_number() && kind.to_string() == "integer" =>
        {
            format!("{kind}, not {}", error.instance())
        }
        ValidationErrorKind::Type { kind: TypeKind::Single(kind) } => {
            format!("{kind}, not {}", kind_of(error.instance()))
        }
        ValidationErrorKind::Required { property } => format!("the argument {property}, which is missing"),
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            format!("only {}, not {}", quoted(&entry.properties), quoted(unexpected))
        }
        ValidationErrorKind::Minimum { limit } => format!("at least {limit}, not {}", error.instance()),
        ValidationErrorKind::Maximum { limit } => format!("at most {limit}, not {}", error.instance()),
        ValidationErrorKind::MinLength { limit } => format!("at least {limit} characters"),
        ValidationErrorKind::MaxLength { limit } => format!("at most {limit} characters"),
        _ => format!("something else: {}", error.masked()),
    };
    format!("at {at} expected {expected}")
}

/// `"path", "limit"`; names that a model made up may have anything in them.
fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
