//! The built-in tools: what a model may ask for, the facts about a call, and its run.
//!
//! A call passes [`Registry::check`] (schema), [`Tools::inspect`] (facts, preview, binding), the decision of core,
//! and [`Tools::run`]. Commands are run by `effects` on the process room; this room gives their schema, facts,
//! arguments and the form of their result ([`command`]).
//!
//! Invariants:
//! * arguments are taken as they are or refused, never coerced;
//! * `run` acts only on what `inspect` bound: if content or place changed, the call ends as an error and nothing
//!   is touched;
//! * an existing file is only overwritten over a content that the model knows, compared by content, not by time;
//! * what was there before a change is in the blob store before anything is written;
//! * a failed change leaves the old bytes and says so;
//! * what a model reads is redacted here, before it is cut; what is written back never is.
//!
//! Deliberately absent: sessions (this room sees a [`CallContext`]), the decision, waiting for people.

pub mod command;

mod answer;
mod apply_patch;
mod args;
mod artifact;
mod change;
mod commit;
mod evidence;
mod find_files;
mod judged;
mod list_dir;
mod neighbours;
mod read_file;
mod registry;
mod scratch;
mod search;
mod text;
mod walk;
pub(crate) mod working_folder;

pub use answer::BUSY;
pub use read_file::LinePlaces;
pub use registry::{Registry, RegistryError, ToolSpec, built_in_tools, specs_json};

use crate::inspect::{self, OwnFolders};
use crate::ports::{CallContext, Clock, Entropy, Evidence, Store};
use crate::redact::Redactor;
use agentd_core::command::{CallEnd, CallFault, Inspection};
use agentd_core::event::{ArtifactStored, Binding, PathOp};
use agentd_core::ids::{ArtifactId, RunId, Stamp};
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::NO_SANDBOX;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// What the tools act with.
#[derive(Clone)]
pub struct Tools {
    /// Where contents go.
    pub store: Arc<dyn Store>,
    /// For ids of artifacts.
    pub clock: Arc<dyn Clock>,
    /// For ids of artifacts.
    pub entropy: Arc<dyn Entropy>,
    /// The run of this daemon.
    pub run_id: RunId,
    /// The daemon's own folders, which no tool touches.
    pub own: Arc<OwnFolders>,
    /// A private folder (0700) for contents on their way to the store; files in it live for one call.
    pub scratch: PathBuf,
    /// The sandbox that commands would run in, in words; [`NO_SANDBOX`] when there is none.
    pub command_sandbox: String,
    /// Where lines begin in the files that were read last.
    pub places: Arc<LinePlaces>,
}

impl Tools {
    /// Gathers the facts about a call: where its path leads, what is there, what would change. The preview and the
    /// words of a fault quote files, so they are redacted like any result.
    pub async fn inspect(&self, ctx: &CallContext, redactor: &Redactor) -> Result<Inspection, CallFault> {
        let redacted = |text: String| redactor.redact(&text).content;
        match self.facts(ctx, redactor).await {
            Ok(found) => Ok(Inspection { preview: found.preview.map(redacted), ..found }),
            Err(fault) => Err(CallFault { text: redacted(fault.text), ..fault }),
        }
    }

    async fn facts(&self, ctx: &CallContext, redactor: &Redactor) -> Result<Inspection, CallFault> {
        match ctx.tool.as_str() {
            "read_file" | "list_dir" | "find_files" | "search" | "write_file" | "edit_file"
            | "apply_patch" => {
                let (tools, ctx, redactor) = (self.clone(), ctx.clone(), redactor.clone());
                blocking(move || tools.inspect_path(&ctx, &redactor)).await?
            }
            "run_command" => {
                let (tools, ctx) = (self.clone(), ctx.clone());
                blocking(move || command::inspect(&ctx, &tools.command_sandbox, &tools.scratch)).await?
            }
            _ => Ok(Inspection { sandbox: NO_SANDBOX.to_owned(), ..Inspection::default() }),
        }
    }

    /// Runs a call of a tool of this room. Not for commands, which need the process room.
    pub async fn run(&self, ctx: &CallContext, redactor: &Arc<Redactor>) -> CallEnd {
        let began = Instant::now();
        let mut end = match ctx.tool.as_str() {
            "read_file" => read_file::run(self, ctx, redactor).await,
            "list_dir" => list_dir::run(self, ctx).await,
            "find_files" => find_files::run(self, ctx, redactor).await,
            "search" => search::run(self, ctx, redactor).await,
            "write_file" | "edit_file" => change::run(self, ctx, redactor).await,
            "apply_patch" => apply_patch::run(self, ctx, redactor).await,
            "read_artifact" => artifact::run(self, ctx).await,
            "search_artifact" => artifact::run_search(self, ctx).await,
            other => answer::failed(ctx, "unknown_tool", format!("{other} cannot be run here")),
        };
        // Content was redacted before it was cut; this is for the words around it.
        end.text = redactor.redact(&end.text).content;
        if end.error_class.as_deref() == Some(answer::BUSY) {
            end.transient = Some(end.text.clone());
        }
        end.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        end
    }

    /// What there is to say about a call of this room that a former run of the daemon started. Removes what such a
    /// call may have left half-made; a call of several files that is half done is undone.
    pub async fn evidence(&self, ctx: &CallContext) -> Evidence {
        if let Some(Binding::Files(files)) = &ctx.binding {
            return apply_patch::evidence(self, ctx, files).await;
        }
        let ctx = ctx.clone();
        let found = blocking(move || evidence::of_call(&ctx)).await;
        found.unwrap_or_else(|fault| Evidence::Unknown { why: fault.text, output: None })
    }

    /// The result of a call that was found finished by [`Self::evidence`].
    pub async fn finished(&self, ctx: &CallContext) -> CallEnd {
        let owned = ctx.clone();
        match blocking(move || evidence::finished(&owned)).await {
            Ok(end) => end,
            Err(fault) => answer::from_fault(ctx, fault),
        }
    }

    fn inspect_path(&self, ctx: &CallContext, redactor: &Redactor) -> Result<Inspection, CallFault> {
        match ctx.tool.as_str() {
            "write_file" | "edit_file" => change::inspect(self, ctx, redactor),
            "apply_patch" => apply_patch::inspect(self, ctx, redactor),
            "list_dir" => {
                let args: args::ListDir = args::parse(ctx)?;
                self.inspect_read(ctx, &PathBytes::from(args.path.as_deref().unwrap_or(".")), PathOp::List)
            }
            "find_files" => {
                let args: args::FindFiles = args::parse(ctx)?;
                self.inspect_read(ctx, &PathBytes::from(args.path.as_deref().unwrap_or(".")), PathOp::List)
            }
            "search" => {
                let args: args::Search = args::parse(ctx)?;
                search::inspect(self, ctx, &PathBytes::from(args.path.as_deref().unwrap_or(".")))
            }
            _ => {
                let args: args::ReadFile = args::parse(ctx)?;
                self.inspect_read(ctx, &PathBytes::from(args.path.as_str()), PathOp::Read)
            }
        }
    }

    /// What a path of a reading call leads to, with the workspace it was found in; a fault where it must not be touched
    /// or is not there.
    fn existing(
        &self,
        ctx: &CallContext,
        path: &PathBytes,
        op: PathOp,
    ) -> Result<(inspect::Existing, inspect::Workspace), CallFault> {
        let looked =
            inspect::look(&self.own, &ctx.session, path, op).map_err(|error| answer::lookup_fault(&error))?;
        match looked.found {
            _ if looked.facts.protected.is_some() => Err(answer::out_of_reach(&looked.facts)),
            Some(inspect::Found::Existing(existing)) => Ok((existing, looked.workspace)),
            Some(inspect::Found::Missing(missing)) => Err(neighbours::not_found(path, &missing)),
            None => Err(answer::out_of_reach(&looked.facts)),
        }
    }

    fn inspect_read(&self, ctx: &CallContext, path: &PathBytes, op: PathOp) -> Result<Inspection, CallFault> {
        let looked =
            inspect::look(&self.own, &ctx.session, path, op).map_err(|error| answer::lookup_fault(&error))?;
        match &looked.found {
            // Of what is denied anyway nothing more is told.
            _ if looked.facts.protected.is_some() => {}
            Some(inspect::Found::Missing(missing)) => return Err(neighbours::not_found(path, missing)),
            Some(inspect::Found::Existing(existing)) if op == PathOp::List => answer::only_folder(existing)?,
            Some(inspect::Found::Existing(existing)) => answer::only_regular(existing)?,
            None => {}
        }
        Ok(Inspection { paths: vec![looked.facts], sandbox: NO_SANDBOX.to_owned(), ..Inspection::default() })
    }

    /// A new artifact of a call with this text. The event is the caller's.
    pub fn artifact_of(
        &self,
        ctx: &CallContext,
        source: &str,
        blob: &crate::ports::BlobStored,
        redactions: u32,
    ) -> ArtifactStored {
        self.artifact_of_type(ctx, source, "text/plain", blob, redactions)
    }

    /// The same for content of another media type.
    pub fn artifact_of_type(
        &self,
        ctx: &CallContext,
        source: &str,
        mime: &str,
        blob: &crate::ports::BlobStored,
        redactions: u32,
    ) -> ArtifactStored {
        let mut stamp = Stamp::new(self.clock.now_ms(), self.run_id.clone(), self.entropy.draw());
        ArtifactStored {
            artifact_id: ArtifactId::fresh(&mut stamp),
            call_id: Some(ctx.call_id.clone()),
            source: source.to_owned(),
            hash: blob.hash.clone(),
            size_bytes: blob.size_bytes,
            line_count: blob.line_count,
            mime: mime.to_owned(),
            redactions,
        }
    }
}

/// What recovery may conclude about a file call from the contents alone: `now` is the hash of the file as it is,
/// none when there is no file.
pub fn file_evidence(binding: &Binding, now: Option<&str>) -> Evidence {
    evidence::of_contents(binding, now)
}

/// Runs blocking work where it may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, CallFault> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        answer::fault("internal", format!("the tool broke off ({error}); nothing more is known"))
    })
}

#[cfg(test)]
mod tests;
