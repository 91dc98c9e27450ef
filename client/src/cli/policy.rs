//! `agentctl policy`: what would be decided, without running anything.

use super::{GlobalArgs, print_json, print_line, values};
use crate::api;
use crate::connect::connect;
use crate::connect::link::Link;
use crate::error::ClientError;
use crate::render::safe;
use crate::render::style::{Ink, Style};
use agentd_proto::v1;
use agentd_proto::v1::policy_subject::Subject;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::BufRead;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Lines of a batch that are judged together.
const BATCH_LINES: usize = 200;
/// Bytes of one line of a batch; a command has at most 128 KiB.
const BATCH_LINE_MAX_BYTES: u64 = 1 << 20;

/// What `policy` is told.
#[derive(Debug, clap::Args)]
pub struct PolicyArgs {
    /// What to do
    #[command(subcommand)]
    pub what: PolicyCommand,
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum PolicyCommand {
    /// Say whether a command would run, be asked for, or be denied
    Check(CheckArgs),
    /// Say whether a file tool may use a path: allow, ask, deny, or error
    CheckPath(CheckPathArgs),
}

/// Where it is judged.
#[derive(Debug, clap::Args)]
pub struct WhereArgs {
    /// The folder that is the workspace [default: the current one]
    #[arg(long, value_name = "D")]
    pub cwd: Option<PathBuf>,
    /// What may be done without asking
    #[arg(long, value_name = "M", value_enum, default_value = "ask")]
    pub mode: values::Mode,
}

/// What `policy check` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agentctl policy check --command 'cargo test -p core'
  agentctl policy check --command 'git status' --mode read-only --json | jq -r .decision
  agentctl policy check --batch commands.ndjson     # lines like {\"id\":\"1\",\"command\":\"ls\"}; - is stdin

The decision is printed; the exit code is 0 whatever it is.")]
pub struct CheckArgs {
    /// Where it is judged
    #[command(flatten)]
    pub at: WhereArgs,
    /// The command line
    #[arg(long, value_name = "STRING", required_unless_present = "batch", conflicts_with = "batch")]
    pub command: Option<String>,
    /// Judge by this configuration instead of the one in use
    #[arg(long, value_name = "F")]
    pub config: Option<PathBuf>,
    /// Judge as if the sandbox held on this machine
    #[arg(long)]
    pub assume_sandbox: bool,
    /// Judge each line of a file: NDJSON objects with `command`, answered in order as NDJSON
    #[arg(long, value_name = "FILE")]
    pub batch: Option<PathBuf>,
}

/// What a path would be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Op {
    /// Its content is read
    Read,
    /// It is made or replaced
    Write,
    /// Its entries are listed
    List,
    /// It is made; it must not be there yet
    Create,
    /// It is removed; a link itself, not what it leads to
    Delete,
}

impl Op {
    const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::List => "list",
            Self::Create => "create",
            Self::Delete => "delete",
        }
    }
}

/// What `policy check-path` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agentctl policy check-path --op write src/main.rs
  agentctl policy check-path --op write .git/hooks/pre-commit --mode workspace    # deny, in every mode
  agentctl policy check-path --op read --cwd ~/project ../other/notes.md --json | jq -r .decision

The path is taken as it is: nothing in it is expanded or cleaned. The decision is allow, ask, deny, or error (no such
thing, not a regular file, a loop of links); the exit code is 0 whatever it is.")]
pub struct CheckPathArgs {
    /// What it would be used for
    #[arg(long, value_enum, value_name = "OP")]
    pub op: Op,
    /// Where it is judged
    #[command(flatten)]
    pub at: WhereArgs,
    /// The path, absolute or relative to the folder
    #[arg(value_name = "PATH", allow_hyphen_values = true)]
    pub path: OsString,
}

/// Runs the command.
pub async fn run(args: PolicyArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    match args.what {
        PolicyCommand::Check(args) => check(args, global).await?,
        PolicyCommand::CheckPath(args) => check_path(args, global).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn request(at: &WhereArgs, subjects: Vec<v1::PolicySubject>) -> Result<v1::CheckPolicyRequest, ClientError> {
    Ok(v1::CheckPolicyRequest {
        subjects,
        cwd: values::path_bytes(&values::folder(at.cwd.as_deref())?),
        mode: v1::PermissionMode::from(at.mode).into(),
        assume_sandbox: false,
        config_toml: None,
    })
}

async fn check_path(args: CheckPathArgs, global: &GlobalArgs) -> Result<(), ClientError> {
    let path = v1::PathSubject { path: args.path.into_vec(), op: args.op.word().to_owned() };
    let shown = format!("{} {}", args.op.word(), String::from_utf8_lossy(&path.path));
    let subject = v1::PolicySubject { subject: Some(Subject::Path(path)), ..Default::default() };
    let asked = request(&args.at, vec![subject])?;
    let link = Link::from(connect(global).await?);
    let verdict = only(api::check_policy(&link, asked).await?)?;
    print_verdict(&verdict, &shown, global)
}

async fn check(args: CheckArgs, global: &GlobalArgs) -> Result<(), ClientError> {
    let mut asked = request(&args.at, Vec::new())?;
    asked.assume_sandbox = args.assume_sandbox;
    if let Some(file) = &args.config {
        let text = std::fs::read_to_string(file).map_err(|source| {
            ClientError::config(format!("cannot read {}", file.display())).because(source)
        })?;
        asked.config_toml = Some(text);
    }
    if let Some(file) = &args.batch {
        return batch(&asked, file, global).await;
    }
    let command = args.command.unwrap_or_default();
    let subject =
        v1::PolicySubject { subject: Some(Subject::Command(command.clone())), ..Default::default() };
    asked.subjects.push(subject);
    let link = Link::from(connect(global).await?);
    let verdict = only(api::check_policy(&link, asked).await?)?;
    print_verdict(&verdict, &command, global)
}

async fn batch(
    asked: &v1::CheckPolicyRequest,
    file: &std::path::Path,
    global: &GlobalArgs,
) -> Result<(), ClientError> {
    let mut reader: Box<dyn BufRead> = if file.as_os_str() == "-" {
        Box::new(std::io::BufReader::new(std::io::stdin()))
    } else {
        let open = std::fs::File::open(file).map_err(|source| {
            ClientError::config(format!("cannot read {}", file.display())).because(source)
        })?;
        Box::new(std::io::BufReader::new(open))
    };
    let link = Link::from(connect(global).await?);
    let (mut line_no, mut at_end) = (0_u64, false);
    while !at_end {
        let mut subjects = Vec::new();
        while subjects.len() < BATCH_LINES {
            let mut line = Vec::new();
            let mut limited = std::io::Read::take(&mut reader, BATCH_LINE_MAX_BYTES);
            if limited.read_until(b'\n', &mut line)? == 0 {
                at_end = true;
                break;
            }
            line_no += 1;
            if !line.trim_ascii().is_empty() {
                subjects.push(subject_of_line(&line, line_no)?);
            }
        }
        if subjects.is_empty() {
            continue;
        }
        let ids: Vec<Option<String>> =
            subjects.iter().map(|subject| (!subject.id.is_empty()).then(|| subject.id.clone())).collect();
        let answer = api::check_policy(&link, v1::CheckPolicyRequest { subjects, ..asked.clone() }).await?;
        for (verdict, id) in answer.verdicts.iter().zip(ids) {
            let mut value = as_json(verdict);
            if let Some(id) = id {
                value["id"] = id.into();
            }
            print_json(&value)?;
        }
    }
    Ok(())
}

fn subject_of_line(line: &[u8], line_no: u64) -> Result<v1::PolicySubject, ClientError> {
    let wrong = |why: &str| ClientError::usage(format!("line {line_no} of the batch {why}"));
    let value: Value =
        serde_json::from_slice(line).map_err(|error| wrong(&format!("is not JSON: {error}")))?;
    let command = value["command"].as_str().ok_or_else(|| wrong("has no `command`"))?;
    let id = match &value["id"] {
        Value::Null => String::new(),
        Value::String(id) => id.clone(),
        other => other.to_string(),
    };
    let rules = value.get("rules").filter(|rules| !rules.is_null());
    Ok(v1::PolicySubject {
        id,
        subject: Some(Subject::Command(command.to_owned())),
        rules_json: rules.map(Value::to_string),
    })
}

fn only(answer: v1::CheckPolicyResponse) -> Result<v1::PolicyVerdict, ClientError> {
    answer
        .verdicts
        .into_iter()
        .next()
        .ok_or_else(|| ClientError::failed("the daemon answered without a verdict"))
}

fn print_verdict(verdict: &v1::PolicyVerdict, subject: &str, global: &GlobalArgs) -> Result<(), ClientError> {
    if global.json {
        return print_json(&as_json(verdict));
    }
    let style = Style::of(std::io::stdout());
    let ink = match verdict.decision.as_str() {
        "allow" => Ink::Green,
        "ask" => Ink::Yellow,
        _ => Ink::Red,
    };
    let decision = style.paint(ink, &safe::inline(&verdict.decision));
    print_line(&format!("{decision}  {}", safe::inline(subject)))?;
    print_line(&format!("  {}", safe::inline(&verdict.reason)))?;
    let rule = if verdict.rule.is_empty() { "-" } else { verdict.rule.as_str() };
    print_line(&format!("  rule {}, effect {}", safe::inline(rule), safe::inline(&verdict.effect)))
}

fn as_json(verdict: &v1::PolicyVerdict) -> Value {
    let word = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    let part = |part: &v1::PolicyPart| {
        let mut value = json!({ "words": part.words, "effect": part.effect });
        for (key, text) in [("decision", &part.decision), ("reason", &part.reason)] {
            if !text.is_empty() {
                value[key] = text.as_str().into();
            }
        }
        value
    };
    json!({
        "decision": verdict.decision,
        "effect": verdict.effect,
        "rule": word(&verdict.rule),
        "reason": verdict.reason,
        "parts": verdict.parts.iter().map(part).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_batch_has_a_command() {
        let subject = subject_of_line(br#"{"id":7,"command":"ls","rules":[]}"#, 1).unwrap();
        assert_eq!((subject.id.as_str(), subject.rules_json.as_deref()), ("7", Some("[]")));
        assert_eq!(subject.subject, Some(Subject::Command("ls".to_owned())));
        for wrong in [&b"ls"[..], br#"{"id":"1"}"#, br#"{"command":3}"#] {
            assert_eq!(subject_of_line(wrong, 2).unwrap_err().kind.exit_code(), 2);
        }
    }
}
