//! What was too large for the conversation.

use super::{Api, peer, sessions, status, to_proto};
use crate::artifact_search::{Pattern, Search, SearchError, Wanted};
use crate::ports::ArtifactRow;
use agentd_core::ids::ArtifactId;
use agentd_core::limits;
use agentd_proto::reason::Reason;
use agentd_proto::v1;
use agentd_proto::v1::read_artifact_response::Frame;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

pub(super) struct Service(pub(super) Arc<Api>);

type Frames = mpsc::Sender<Result<v1::ReadArtifactResponse, Status>>;

/// Chunks that wait for a slow reader.
const CHUNKS_AHEAD: usize = 4;

impl Service {
    fn search(
        &self,
        row: ArtifactRow,
        given: &v1::ArtifactPattern,
    ) -> Result<ReceiverStream<Result<v1::ReadArtifactResponse, Status>>, Status> {
        let pattern = Pattern::new(&given.regex).map_err(|error| {
            let refusal =
                status::refuse(Reason::PatternInvalid, format!("not a regular expression: {error}"));
            match error.at {
                Some(at) => refusal.with("position", at).status(),
                None => refusal.status(),
            }
        })?;
        let count = |given: u32| usize::try_from(given).unwrap_or(usize::MAX);
        let wanted = Wanted {
            before: count(given.before).min(limits::ARTIFACT_SEARCH_CONTEXT_MAX),
            after: count(given.after).min(limits::ARTIFACT_SEARCH_CONTEXT_MAX),
            max: if given.max == 0 { limits::ARTIFACT_SEARCH_MATCHES_DEFAULT } else { count(given.max) },
        };
        let size = row.stored.size_bytes;
        let search = Search::new(self.0.store.clone(), row.stored.hash.clone(), size, pattern, wanted);
        let (frames, stream) = mpsc::channel(CHUNKS_AHEAD);
        tokio::spawn(async move {
            if let Err(status) = send_found(&row, search, &frames).await {
                let _ = frames.send(Err(status)).await;
            }
        });
        Ok(ReceiverStream::new(stream))
    }

    async fn find(&self, id: &str) -> Result<ArtifactRow, Status> {
        let row = self.0.store.artifact(&ArtifactId::new(id)).await.map_err(|error| status::store(&error))?;
        row.ok_or_else(|| {
            let text = format!(
                "there is no artifact {id}: it has expired or never was; see: agentctl artifacts ls ID"
            );
            status::refuse(Reason::ArtifactExpired, text).status()
        })
    }
}

#[tonic::async_trait]
impl agentd_proto::server::artifacts_server::Artifacts for Service {
    async fn list_artifacts(
        &self,
        request: Request<v1::ListArtifactsRequest>,
    ) -> Result<Response<v1::ListArtifactsResponse>, Status> {
        peer::reader(&request)?;
        let session_id = sessions::resolve(&self.0, &request.get_ref().session_id).await?;
        let rows = self.0.store.artifacts(&session_id).await.map_err(|error| status::store(&error))?;
        let artifacts = rows.iter().map(to_proto::artifact).collect();
        Ok(Response::new(v1::ListArtifactsResponse { artifacts, next_page_token: String::new() }))
    }

    type ReadArtifactStream = ReceiverStream<Result<v1::ReadArtifactResponse, Status>>;

    async fn read_artifact(
        &self,
        request: Request<v1::ReadArtifactRequest>,
    ) -> Result<Response<Self::ReadArtifactStream>, Status> {
        peer::reader(&request)?;
        let given = request.into_inner();
        let row = self.find(&given.artifact_id).await?;
        let (from, to) = match given.part {
            Some(v1::read_artifact_request::Part::Bytes(range)) => {
                (range.from_bytes, range.to_bytes.unwrap_or(row.stored.size_bytes).min(row.stored.size_bytes))
            }
            Some(v1::read_artifact_request::Part::Pattern(pattern)) => {
                return self.search(row, &pattern).map(Response::new);
            }
            None => (0, row.stored.size_bytes),
        };
        if from > row.stored.size_bytes {
            let text = format!("byte {from} is beyond the artifact, which has {}", row.stored.size_bytes);
            return Err(status::refuse(Reason::SeqOutOfRange, text).status());
        }
        let (frames, stream) = mpsc::channel(CHUNKS_AHEAD);
        let api = self.0.clone();
        tokio::spawn(async move {
            if let Err(status) = send(&api, &row, from, to, &frames).await {
                let _ = frames.send(Err(status)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn put_artifact(
        &self,
        _: Request<Streaming<v1::PutArtifactRequest>>,
    ) -> Result<Response<v1::PutArtifactResponse>, Status> {
        Err(status::not_built("Artifacts.PutArtifact"))
    }
}

async fn send_found(row: &ArtifactRow, mut search: Search, frames: &Frames) -> Result<(), Status> {
    let frame = |frame| Ok(v1::ReadArtifactResponse { frame: Some(frame) });
    let first = frame(Frame::Artifact(to_proto::artifact(row)));
    if frames.send(first).await.is_err() {
        return Ok(());
    }
    loop {
        let next = search.next().await.map_err(|error| match error {
            SearchError::Store(error) => status::store(&error),
            SearchError::Gone => gone(row),
            SearchError::Broken(_) => status::internal("a search", &error),
        })?;
        let Some(lines) = next else { break };
        // Nobody may be left to read what would be found.
        if frames.is_closed() {
            return Ok(());
        }
        for line in lines {
            let found = v1::ArtifactMatch {
                line: line.number,
                text: line.text,
                context: !line.is_match,
                offset_bytes: line.at_bytes,
            };
            if frames.send(frame(Frame::Match(found))).await.is_err() {
                return Ok(());
            }
        }
    }
    let searched = search.searched();
    let last = v1::ArtifactSearched {
        matches: searched.matches,
        searched_bytes: searched.bytes,
        stopped: searched.stopped,
        long_lines: searched.long_lines,
    };
    let _ = frames.send(frame(Frame::Searched(last))).await;
    Ok(())
}

fn gone(row: &ArtifactRow) -> Status {
    let text = format!("the content of artifact {} is gone", row.stored.artifact_id);
    status::refuse(Reason::ArtifactExpired, text).status()
}

async fn send(api: &Api, row: &ArtifactRow, from: u64, to: u64, frames: &Frames) -> Result<(), Status> {
    let frame = |frame| Ok(v1::ReadArtifactResponse { frame: Some(frame) });
    let first = frame(Frame::Artifact(to_proto::artifact(row)));
    if frames.send(first).await.is_err() {
        return Ok(());
    }
    let mut at = from;
    while at < to {
        let len = usize::try_from(to - at).unwrap_or(usize::MAX).min(limits::FRAME_TARGET_BYTES);
        let chunk =
            api.store.read_blob(&row.stored.hash, at, len).await.map_err(|error| status::store(&error))?;
        let Some(chunk) = chunk.filter(|chunk| !chunk.is_empty()) else {
            return Err(gone(row));
        };
        at += chunk.len() as u64;
        if frames.send(frame(Frame::Chunk(chunk))).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
