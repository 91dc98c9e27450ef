//! Content on its way into the store: a private file that lives for one call.

use super::{Tools, text};
use crate::ports::{BlobSource, BlobStored, CallContext, StoreError};
use crate::redact::Redactor;
use agentd_core::event::ArtifactStored;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

/// A file that goes when it is dropped.
pub(super) struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Scratch {
    /// Makes one, readable by this user only.
    pub(super) fn create(tools: &Tools) -> std::io::Result<(Self, File)> {
        let name = text::hex(&tools.entropy.draw()).replace(' ', "");
        let scratch = Self(tools.scratch.join(format!("scratch-{name}")));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&scratch.0)?;
        Ok((scratch, file))
    }

    /// Stores its content.
    pub(super) async fn store(self, tools: &Tools) -> Result<BlobStored, StoreError> {
        tools.store.put_blob(BlobSource::File(self.0.clone())).await
    }
}

impl Tools {
    /// Stores what a reader gives, without its secrets, as an artifact of a call: the whole output of a command.
    /// `source` is `tool_output` or `file`. Takes constant memory, whatever the size.
    pub async fn store_redacted(
        &self,
        ctx: &CallContext,
        source: &str,
        from: impl Read + Send + 'static,
        redactor: &Arc<Redactor>,
    ) -> Result<ArtifactStored, StoreError> {
        let (tools, redactor) = (self.clone(), redactor.clone());
        let copy = move || -> std::io::Result<(Scratch, u32)> {
            let (scratch, mut to) = Scratch::create(&tools)?;
            let count = redactor.copy(from, &mut to)?;
            Ok((scratch, count))
        };
        let copied =
            tokio::task::spawn_blocking(copy).await.map_err(|error| StoreError::Failed(error.to_string()))?;
        let (scratch, count) =
            copied.map_err(|error| StoreError::Failed(format!("the content cannot be copied: {error}")))?;
        let blob = scratch.store(self).await?;
        Ok(self.artifact_of(ctx, source, &blob, count))
    }
}
