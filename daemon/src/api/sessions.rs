//! Sessions as things: made, listed, shown, changed.

use super::{Api, SessionDefaults, changes, from_proto, peer, session_name, status, to_proto, watch};
use crate::session::{Asked, Committed};
use agentd_core::command::{ChangeSession, Command, CreateSession};
use agentd_core::event::{EpochStarted, ModelProfile, Origin, PermissionMode, Settings, UnattendedApprovals};
use agentd_core::ids::{CallId, SessionId, Stamp};
use agentd_core::path_bytes::PathBytes;
use agentd_core::prompt::system;
use agentd_proto::reason::Reason;
use agentd_proto::v1;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tonic::{Request, Response, Status};

pub(super) struct Service(pub(super) Arc<Api>);

/// A mutation as its client named it.
pub(super) struct Call<'a, T> {
    /// The RPC.
    pub(super) method: &'static str,
    /// The client's id; empty for none.
    pub(super) request_id: String,
    /// What was asked, without environment.
    pub(super) content: &'a T,
}

/// Asks a session for something and gives the answer that was, or is now, kept with the request id.
pub(super) async fn ask<T, R>(
    api: &Api,
    session_id: &SessionId,
    command: Command,
    origin: Origin,
    call: &Call<'_, T>,
    write_answer: impl FnOnce(&Committed<'_>) -> R + Send + 'static,
) -> Result<R, Status>
where
    T: prost::Message,
    R: prost::Message + Default,
{
    let request = (!call.request_id.is_empty())
        .then(|| (call.request_id.clone(), call.method.to_owned(), from_proto::content_hash(call.content)));
    let asked = Asked {
        command,
        origin,
        request,
        write_answer: Box::new(move |committed| write_answer(committed).encode_to_vec()),
    };
    let answered = api.registry.ask(session_id, asked).await.map_err(|error| status::session(&error))?;
    R::decode(answered.answer.as_slice())
        .map_err(|error| status::internal("a request", &format!("a kept answer cannot be read: {error}")))
}

/// Who somebody is, in words.
pub(super) fn who(origin: &Origin) -> String {
    match origin {
        Origin::Client { label, pid, .. } => format!("{label} (pid {pid})"),
        Origin::Daemon => "agentd".to_owned(),
        Origin::Model => "the model".to_owned(),
    }
}

/// The session that is meant by an id, a unique beginning of one, or a unique name.
pub(super) async fn resolve(api: &Api, wanted: &str) -> Result<SessionId, Status> {
    if wanted.is_empty() {
        return Err(status::field("session", "must name a session; see: agentctl ls").status());
    }
    let found = api.store.find_sessions(wanted).await.map_err(|error| status::store(&error))?;
    match found.as_slice() {
        [only] => Ok(only.session_id.clone()),
        [] => {
            let text = format!("there is no session {wanted}; see: agentctl ls");
            Err(status::refuse(Reason::SessionNotFound, text).status())
        }
        several => {
            let exact = several.iter().find(|summary| summary.session_id.as_str() == wanted);
            if let Some(exact) = exact {
                return Ok(exact.session_id.clone());
            }
            let ids: Vec<String> = several.iter().map(|summary| summary.session_id.to_string()).collect();
            let text = format!("{wanted} may mean {}; give more of the id", ids.join(" or "));
            Err(status::refuse(Reason::SessionAmbiguous, text).with("candidates", ids.join(",")).status())
        }
    }
}

#[tonic::async_trait]
impl agentd_proto::server::sessions_server::Sessions for Service {
    async fn create_session(
        &self,
        request: Request<v1::CreateSessionRequest>,
    ) -> Result<Response<v1::CreateSessionResponse>, Status> {
        let origin = peer::require_actor(&request)?.labelled(&request.get_ref().client_label).origin();
        let mut given = request.into_inner();
        let env: BTreeMap<String, String> = std::mem::take(&mut given.env).into_iter().collect();
        if given.fork.is_some() {
            return Err(status::not_built("a session from another's history"));
        }
        // A repetition finds the session that the first use made.
        if let Some(first) = self.first_created(&given).await? {
            return Ok(Response::new(first));
        }
        let command = self.create_command(&given, &env).await?;
        let session_id = command.session_id.clone();
        self.0.effects.keep_env(&session_id, env);
        let call =
            Call { method: "Sessions.CreateSession", request_id: given.request_id.clone(), content: &given };
        let answer =
            ask(&self.0, &session_id, Command::Create(Box::new(command)), origin, &call, |committed| {
                v1::CreateSessionResponse { session: to_proto::session(committed.session) }
            });
        match answer.await {
            Ok(answer) => Ok(Response::new(answer)),
            // Two clients with one id at the same time: the other one was first.
            Err(refused) => match self.first_created(&given).await? {
                Some(first) => Ok(Response::new(first)),
                None => Err(refused),
            },
        }
    }

    async fn get_session(
        &self,
        request: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionResponse>, Status> {
        peer::reader(&request)?;
        let given = request.get_ref();
        let session_id = resolve(&self.0, &given.session).await?;
        let state = self.0.registry.state(&session_id).await.map_err(|error| status::session(&error))?;
        let mut session = to_proto::session(&state);
        for call in session.iter_mut().flat_map(|session| &mut session.open_calls) {
            // Not a fact of the log: it is so now, and only this run knows.
            if let Some(words) = self.0.effects.waits_for(&CallId::new(call.call_id.as_str())) {
                call.evidence = words;
            }
        }
        let mut changes = None;
        if given.views.contains(&v1::SessionView::Changes.into()) {
            let root = state.created.as_ref().map(|made| made.root.clone()).unwrap_or_default();
            changes = Some(changes::view(&self.0, &session_id, &root, given.turn, given.skip_files).await?);
        }
        Ok(Response::new(v1::GetSessionResponse { session, changes }))
    }

    type WatchSessionsStream = watch::Stream;

    async fn watch_sessions(
        &self,
        request: Request<v1::WatchSessionsRequest>,
    ) -> Result<Response<Self::WatchSessionsStream>, Status> {
        peer::reader(&request)?;
        watch::start(self.0.clone(), request.into_inner()).map(Response::new)
    }

    async fn update_session(
        &self,
        request: Request<v1::UpdateSessionRequest>,
    ) -> Result<Response<v1::UpdateSessionResponse>, Status> {
        let origin = peer::require_actor(&request)?.labelled(&request.get_ref().client_label).origin();
        let mut given = request.into_inner();
        let env: BTreeMap<String, String> = std::mem::take(&mut given.env).into_iter().collect();
        if given.agent.is_some() {
            return Err(status::not_built("changing the agent of a session"));
        }
        let session_id = resolve(&self.0, &given.session_id).await?;
        let change = self.change(&session_id, &given, &env).await?;
        self.0.effects.keep_env(&session_id, env);
        let call =
            Call { method: "Sessions.UpdateSession", request_id: given.request_id.clone(), content: &given };
        let answer = ask(&self.0, &session_id, Command::Change(change), origin, &call, |committed| {
            v1::UpdateSessionResponse { session: to_proto::session(committed.session) }
        });
        Ok(Response::new(answer.await?))
    }

    async fn delete_sessions(
        &self,
        _: Request<v1::DeleteSessionsRequest>,
    ) -> Result<Response<v1::DeleteSessionsResponse>, Status> {
        Err(status::not_built("Sessions.DeleteSessions (rm, prune)"))
    }
}

impl Service {
    async fn first_created(
        &self,
        given: &v1::CreateSessionRequest,
    ) -> Result<Option<v1::CreateSessionResponse>, Status> {
        if given.request_id.is_empty() {
            return Ok(None);
        }
        let first =
            self.0.store.first_answer(&given.request_id).await.map_err(|error| status::store(&error))?;
        let Some(first) = first else { return Ok(None) };
        if first.method != "Sessions.CreateSession" || first.content_hash != from_proto::content_hash(given) {
            let error = crate::ports::StoreError::RequestIdReused(given.request_id.clone());
            return Err(status::store(&error));
        }
        let answer = prost::Message::decode(first.answer.as_slice());
        answer
            .map(Some)
            .map_err(|error| status::internal("a request", &format!("a kept answer cannot be read: {error}")))
    }

    async fn create_command(
        &self,
        given: &v1::CreateSessionRequest,
        env: &BTreeMap<String, String>,
    ) -> Result<CreateSession, Status> {
        session_name::check(given.name.as_deref().unwrap_or_default())?;
        let root = self.workspace(given)?;
        let defaults = self.0.defaults(given.model.as_deref(), env).await?;
        can_hold_cost(given.limits.as_ref(), &defaults.model, &defaults.profile)?;
        let cwd = PathBytes::new(root.clone().into_os_string().into_vec());
        let settings = Settings {
            name: given.name.clone().filter(|name| !name.is_empty()),
            model: defaults.model.clone(),
            mode: from_proto::mode(given.mode, "mode")?.unwrap_or(PermissionMode::Ask),
            sandbox: defaults.sandbox,
            attended: given.attended,
            unattended_approvals: from_proto::unattended(given.unattended_approvals, "unattended_approvals")?
                .unwrap_or(UnattendedApprovals::Deny),
            approvals_expire_ms: expiry(given.approvals_expire_ms, defaults.approvals_expire_ms)?,
            on_restart: from_proto::on_restart(given.on_restart, "on_restart")?
                .unwrap_or(defaults.on_restart),
            limits: from_proto::limits(given.limits.as_ref(), defaults.limits.clone())?,
            record: given.record,
            results: defaults.results,
        };
        let system = given.system_text.clone().unwrap_or_else(|| system_text(&root));
        let mut stamp = self.stamp();
        Ok(CreateSession {
            session_id: SessionId::fresh(&mut stamp),
            cwd: cwd.clone(),
            root: cwd,
            settings,
            parent: None,
            epoch: self.epoch("created", &defaults, &system)?,
        })
    }

    fn stamp(&self) -> Stamp {
        self.0.registry.ports().stamp()
    }

    fn epoch(&self, reason: &str, defaults: &SessionDefaults, system: &str) -> Result<EpochStarted, Status> {
        let tools = self
            .0
            .effects
            .tools(&defaults.disabled_tools)
            .map_err(|error| status::internal("the tools cannot be described", &error))?;
        Ok(EpochStarted {
            epoch: 0,
            reason: reason.to_owned(),
            profile: defaults.profile.clone(),
            system: system.into(),
            tools,
            summary: None,
            strip_thinking: reason != "created",
            tokens_before: 0,
            tokens_after: 0,
        })
    }

    /// The canonical folder of a session, if it can be meant.
    fn workspace(&self, given: &v1::CreateSessionRequest) -> Result<PathBuf, Status> {
        let asked = Path::new(OsStr::from_bytes(&given.cwd));
        let refuse = |reason, text: String| Err(status::refuse(reason, text).status());
        if !asked.is_absolute() {
            return Err(status::field("cwd", "must be an absolute path").status());
        }
        let root = match asked.canonicalize() {
            Ok(root) if root.is_dir() => root,
            Ok(_) => {
                return refuse(Reason::WorkspaceNotFound, format!("{} is not a folder", asked.display()));
            }
            Err(error) => return refuse(Reason::WorkspaceNotFound, format!("{}: {error}", asked.display())),
        };
        let holds_us = self.0.own_folders.iter().any(|own| own.starts_with(&root));
        if (root == Path::new("/") || holds_us) && !given.broad_workspace {
            let text = format!(
                "{} as a workspace would hold the home of agentd itself; choose a project folder, or give --broad-workspace",
                root.display()
            );
            return refuse(Reason::WorkspaceTooBroad, text);
        }
        Ok(root)
    }

    async fn change(
        &self,
        session_id: &SessionId,
        given: &v1::UpdateSessionRequest,
        env: &BTreeMap<String, String>,
    ) -> Result<ChangeSession, Status> {
        let state = self.0.registry.state(session_id).await.map_err(|error| status::session(&error))?;
        let (Some(settings), Some(epoch)) = (&state.settings, &state.epoch) else {
            return Err(status::internal("a request", &"a session without settings"));
        };
        session_name::check(given.name.as_deref().unwrap_or_default())?;
        let mut change = from_proto::change(given, &settings.limits)?;
        if let Some(model) = &given.model {
            if model.trim().is_empty() {
                return Err(
                    status::field("model", "is empty; a change of model names one".to_owned()).status()
                );
            }
            let defaults = self.0.defaults(Some(model), env).await?;
            can_hold_cost(given.limits.as_ref(), &defaults.model, &defaults.profile)?;
            // A bound that somebody set for this session is not given up by changing its model.
            let own_bound = settings.limits.max_cost_micro_usd != defaults.limits.max_cost_micro_usd;
            if own_bound && given.limits.is_none() {
                let kept = v1::TurnLimits {
                    max_cost_micro_usd: Some(settings.limits.max_cost_micro_usd),
                    ..Default::default()
                };
                can_hold_cost(Some(&kept), &defaults.model, &defaults.profile)?;
            }
            let epoch = self.epoch("model_changed", &defaults, &epoch.system)?;
            change.model = Some((defaults.model, Box::new(epoch)));
        } else {
            can_hold_cost(given.limits.as_ref(), &settings.model, &epoch.profile)?;
        }
        Ok(change)
    }
}

/// Refuses a limit on money that means nothing, because nobody knows what the model costs.
fn can_hold_cost(limits: Option<&v1::TurnLimits>, model: &str, profile: &ModelProfile) -> Result<(), Status> {
    let wanted = limits.and_then(|limits| limits.max_cost_micro_usd).is_some_and(|cost| cost > 0);
    if !wanted || !profile.price_unknown {
        return Ok(());
    }
    let text = format!(
        "cannot be held: what {model} costs is not known; set price in [models.\"{model}\"] of config.toml"
    );
    Err(status::field("limits.max_cost_micro_usd", text).status())
}

fn expiry(given: Option<i64>, default: i64) -> Result<i64, Status> {
    match given {
        Some(given) if given <= 0 => Err(status::field("approvals_expire_ms", "must be positive").status()),
        Some(given) => Ok(given),
        None => Ok(default),
    }
}

fn system_text(root: &Path) -> String {
    let root = root.display().to_string();
    system::render(&system::Place { root: &root, cwd: &root, os: std::env::consts::OS })
}
