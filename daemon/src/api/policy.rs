//! What may be done: judgements of commands, paths and calls, without running anything.
//!
//! Invariant: judged by the code that judges calls (`ports::Judge`), in a folder that is the workspace. Nothing is
//! changed, so a tool may ask.
//!
//! Deliberately absent: rules and configurations that replace the ones in use, and grants.

use super::{Api, from_proto, peer, status};
use crate::ports::{Hypothetical, Judged, Subject};
use agentd_core::event::{PathOp, PermissionMode};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_proto::reason::Reason;
use agentd_proto::v1;
use serde_json::value::RawValue;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::Arc;
use tonic::{Request, Response, Status};

pub(super) struct Service(pub(super) Arc<Api>);

#[tonic::async_trait]
impl agentd_proto::server::policy_server::Policy for Service {
    async fn check_policy(
        &self,
        request: Request<v1::CheckPolicyRequest>,
    ) -> Result<Response<v1::CheckPolicyResponse>, Status> {
        peer::reader(&request)?;
        let given = request.into_inner();
        if given.config_toml.is_some() {
            return Err(status::not_built("judging by another configuration"));
        }
        if given.subjects.len() > limits::CHECK_SUBJECTS_MAX {
            let text = format!("has more than {} entries; ask in parts", limits::CHECK_SUBJECTS_MAX);
            return Err(status::field("subjects", text).status());
        }
        let folder = folder(&given.cwd)?;
        let mode = from_proto::mode(given.mode, "mode")?.unwrap_or(PermissionMode::Ask);
        let mut verdicts = Vec::with_capacity(given.subjects.len());
        for subject in given.subjects {
            if subject.rules_json.is_some() {
                return Err(status::not_built("judging by other rules"));
            }
            let what = Hypothetical {
                subject: subject_of(subject.subject)?,
                folder: folder.clone(),
                mode,
                assume_sandbox: given.assume_sandbox,
            };
            verdicts.push(verdict(subject.id, self.0.judge.judge(what).await));
        }
        Ok(Response::new(v1::CheckPolicyResponse { verdicts }))
    }

    async fn edit_grants(
        &self,
        _: Request<v1::EditGrantsRequest>,
    ) -> Result<Response<v1::EditGrantsResponse>, Status> {
        Err(status::not_built("Policy.EditGrants"))
    }
}

/// The real path of the folder that is to be the workspace.
fn folder(given: &[u8]) -> Result<PathBytes, Status> {
    let asked = Path::new(OsStr::from_bytes(given));
    if !asked.is_absolute() {
        return Err(status::field("cwd", "must be an absolute path").status());
    }
    let refuse = |why: String| {
        let text = format!("{}: {why}", asked.display());
        status::refuse(Reason::WorkspaceNotFound, text).status()
    };
    let real = asked.canonicalize().map_err(|error| refuse(error.to_string()))?;
    if !real.is_dir() {
        return Err(refuse("it is not a folder".to_owned()));
    }
    Ok(PathBytes::new(real.into_os_string().into_vec()))
}

fn subject_of(given: Option<v1::policy_subject::Subject>) -> Result<Subject, Status> {
    use v1::policy_subject::Subject as Given;
    match given {
        Some(Given::Command(command)) => Ok(Subject::Command(command)),
        Some(Given::Path(path)) => {
            Ok(Subject::Path { op: op_of(&path.op)?, path: PathBytes::new(path.path) })
        }
        Some(Given::Call(call)) => {
            let args = RawValue::from_string(call.args_json)
                .map_err(|error| status::field("subjects.call.args_json", format!("is not JSON: {error}")))?;
            Ok(Subject::Call { tool: call.tool, args: Arc::from(args) })
        }
        None => Err(status::field("subjects", "one is empty or of a kind that is not known here").status()),
    }
}

fn op_of(word: &str) -> Result<PathOp, Status> {
    match word {
        "read" => Ok(PathOp::Read),
        "list" => Ok(PathOp::List),
        "write" => Ok(PathOp::Write),
        "create" => Ok(PathOp::Create),
        "delete" => Ok(PathOp::Delete),
        _ => {
            let text = format!("{word:?} must be read, write, list, create or delete");
            Err(status::field("subjects.path.op", text).status())
        }
    }
}

fn verdict(id: String, judged: Judged) -> v1::PolicyVerdict {
    let (decision, rule, reason) = match judged.decision {
        Ok(decision) => (decision.verdict.as_str().to_owned(), decision.rule, decision.reason),
        Err(why) => ("error".to_owned(), String::new(), why),
    };
    let part = |part: agentd_core::event::CommandPart| v1::PolicyPart {
        words: part.words,
        effect: part.effect.as_str().to_owned(),
        ..Default::default()
    };
    v1::PolicyVerdict {
        id,
        decision,
        effect: judged.effect.as_str().to_owned(),
        rule,
        reason,
        parts: judged.parts.into_iter().map(part).collect(),
    }
}
