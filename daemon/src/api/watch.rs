//! The list of sessions, and its changes.

use super::{Api, from_proto, status, to_proto};
use crate::ports::SummaryFilter;
use agentd_core::path_bytes::PathBytes;
use agentd_proto::v1;
use agentd_proto::v1::watch_sessions_response::Frame;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// The frames of a watch.
pub(super) type Stream = ReceiverStream<Result<v1::WatchSessionsResponse, Status>>;
type Frames = mpsc::Sender<Result<v1::WatchSessionsResponse, Status>>;

/// Frames that wait for a slow reader.
const FRAMES_AHEAD: usize = 64;
/// Sessions in one list; the newest changes come first.
const LIST_MAX: usize = 10_000;

/// Begins a watch.
pub(super) fn start(api: Arc<Api>, given: v1::WatchSessionsRequest) -> Result<Stream, Status> {
    let filter = SummaryFilter {
        cwd: given.cwd.map(PathBytes::new),
        state: from_proto::state(given.state, "state")?,
        after_revision: None,
        limit: LIST_MAX,
    };
    let (frames, stream) = mpsc::channel(FRAMES_AHEAD);
    tokio::spawn(async move {
        if let Err(status) = run(&api, filter, given.follow, &frames).await {
            let _ = frames.send(Err(status)).await;
        }
    });
    Ok(ReceiverStream::new(stream))
}

async fn run(api: &Api, mut filter: SummaryFilter, follow: bool, frames: &Frames) -> Result<(), Status> {
    let mut changes = api.registry.changes();
    let mut draining = api.registry.draining();
    let mut revision = page(api, &filter, frames, 0).await?;
    send(frames, Frame::CaughtUp(v1::WatchCaughtUp { revision })).await;
    if !follow {
        return Ok(());
    }
    loop {
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { break },
            () = super::attach::stopping(&mut draining) => {
                let reason = "the daemon is stopping".to_owned();
                send(frames, Frame::GoingAway(v1::GoingAway { reason })).await;
                break;
            }
            () = frames.closed() => break,
        }
        // A session that leaves the state is told of too: its watcher must learn that.
        filter.state = None;
        filter.after_revision = Some(revision);
        revision = page(api, &filter, frames, revision).await?;
    }
    Ok(())
}

/// Sends one page and gives the newest revision.
async fn page(api: &Api, filter: &SummaryFilter, frames: &Frames, known: u64) -> Result<u64, Status> {
    let listed = api.store.list(filter.clone()).await.map_err(|error| status::store(&error))?;
    let newest = listed.iter().map(|listed| listed.revision).max().unwrap_or(0).max(known);
    for session in &listed {
        let mut row = to_proto::listed(session);
        let spent = session.summary.usage.prompt_tokens() > 0;
        row.cost_unknown = spent && row.cost_micro_usd == 0 && !api.is_priced(&row.model);
        send(frames, Frame::Session(row)).await;
    }
    Ok(newest)
}

async fn send(frames: &Frames, frame: Frame) {
    let _ = frames.send(Ok(v1::WatchSessionsResponse { frame: Some(frame) })).await;
}
