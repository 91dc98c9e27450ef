//! The audit trail: rows, and the verification of their chain.

use super::{Api, peer, sessions, status, to_proto};
use agentd_core::ids::SessionId;
use agentd_core::limits;
use agentd_proto::v1;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

pub(super) struct Service(pub(super) Arc<Api>);

type Frames = mpsc::Sender<Result<v1::ReadAuditResponse, Status>>;

/// Frames that wait for a slow reader.
const FRAMES_AHEAD: usize = 64;

#[tonic::async_trait]
impl agentd_proto::server::audit_server::Audit for Service {
    type ReadAuditStream = ReceiverStream<Result<v1::ReadAuditResponse, Status>>;

    async fn read_audit(
        &self,
        request: Request<v1::ReadAuditRequest>,
    ) -> Result<Response<Self::ReadAuditStream>, Status> {
        peer::reader(&request)?;
        let given = request.into_inner();
        let session_id = match given.session_id.as_deref() {
            Some(wanted) => Some(sessions::resolve(&self.0, wanted).await?),
            None => None,
        };
        let (frames, stream) = mpsc::channel(FRAMES_AHEAD);
        let api = self.0.clone();
        tokio::spawn(async move {
            let sent = if given.verify {
                verify(&api, &frames).await
            } else {
                rows(&api, session_id.as_ref(), &given, &frames).await
            };
            if let Err(status) = sent {
                let _ = frames.send(Err(status)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

async fn verify(api: &Api, frames: &Frames) -> Result<(), Status> {
    let verdict = api.store.verify_audit().await.map_err(|error| status::store(&error))?;
    let verification = v1::AuditVerification {
        ok: verdict.first_bad.is_none(),
        rows: verdict.rows,
        first_bad: verdict.first_bad,
    };
    send(frames, v1::read_audit_response::Frame::Verification(verification)).await;
    Ok(())
}

async fn rows(
    api: &Api,
    session_id: Option<&SessionId>,
    given: &v1::ReadAuditRequest,
    frames: &Frames,
) -> Result<(), Status> {
    let mut after = given.after_no;
    loop {
        let page = api.store.audit_after(session_id, after, limits::EVENTS_PAGE_MAX).await;
        let page = page.map_err(|error| status::store(&error))?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.audit_no;
        for row in &page {
            let wanted =
                given.call_id.as_ref().is_none_or(|call_id| row.entry.call_id.as_ref() == Some(call_id));
            if wanted && !send(frames, v1::read_audit_response::Frame::Row(to_proto::audit_row(row))).await {
                return Ok(());
            }
        }
    }
}

/// False when the reader is gone.
async fn send(frames: &Frames, frame: v1::read_audit_response::Frame) -> bool {
    frames.send(Ok(v1::ReadAuditResponse { frame: Some(frame) })).await.is_ok()
}
