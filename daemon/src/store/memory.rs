//! The store without files and threads, for simulation: the same contract on the caller's own thread.
//!
//! Invariants: what [`SqliteStore`](super::SqliteStore) refuses is refused here in the same words. Events are kept
//! as values; that a body survives its encoding is a matter of the real store's tests.

use super::audit::AuditHead;
use super::blob_rows::Digest;
use super::queue::lock;
use super::row::check_numbers;
use crate::ports::{
    Append, ArtifactRow, AuditRow, AuditVerdict, BlobSource, BlobStored, BoxFuture, FirstAnswer,
    ListedSession, RequestClaim, Store, StoreError, SummaryFilter,
};
use agentd_core::event::{Event, EventBody};
use agentd_core::ids::{ArtifactId, RequestId, Seq, SessionId};
use agentd_core::limits;
use agentd_core::projection::{OpenKind, OpenWork, Summary};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Everything in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<SessionId, Session>,
    event_count: u64,
    requests: BTreeMap<String, (RequestClaim, i64)>,
    request_sessions: BTreeMap<String, SessionId>,
    artifacts: Vec<ArtifactRow>,
    audit: Vec<AuditRow>,
    audit_head: AuditHead,
    blobs: BTreeMap<String, (BlobStored, Bytes)>,
}

#[derive(Debug)]
struct Session {
    events: Vec<Event>,
    summary: Summary,
    revision: u64,
    open_work: Vec<OpenWork>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn read<'a, T: Send + 'a>(&self, read: impl FnOnce(&State) -> T) -> BoxFuture<'a, Result<T, StoreError>> {
        let value = read(&lock(&self.state));
        Box::pin(std::future::ready(Ok(value)))
    }
}

impl State {
    fn append(&mut self, append: Append) -> Result<(), StoreError> {
        check_numbers(&append)?;
        if let Some(claim) = &append.claim {
            self.refuse_repetition(claim)?;
        }
        let current = self.last_seq(&append.session_id).unwrap_or(0);
        if current != append.expected_seq {
            return Err(StoreError::SeqConflict {
                session_id: append.session_id,
                expected: append.expected_seq,
                current,
            });
        }
        for event in &append.events {
            self.note(&append.session_id, event);
        }
        for entry in append.audit {
            self.audit_head = self.audit_head.next(&entry);
            self.audit.push(AuditRow {
                audit_no: self.audit_head.audit_no,
                entry,
                hash: super::hex(&self.audit_head.hash),
            });
        }
        if let Some(claim) = append.claim {
            let at_ms = append.summary.updated_at_ms;
            self.requests.retain(|_, (_, then)| *then >= at_ms - limits::REQUEST_ID_KEEP_MS);
            self.requests.insert(claim.request_id.clone(), (claim, at_ms));
        }
        self.put(append.session_id, append.events, append.summary, append.open_work);
        Ok(())
    }

    fn put(&mut self, id: SessionId, events: Vec<Event>, summary: Summary, open_work: Option<Vec<OpenWork>>) {
        if events.is_empty() && !self.sessions.contains_key(&id) {
            return;
        }
        self.event_count += events.len() as u64;
        let revision = self.event_count;
        let session = self.sessions.entry(id).or_insert_with(|| Session {
            events: Vec::new(),
            summary: summary.clone(),
            revision,
            open_work: Vec::new(),
        });
        if !events.is_empty() {
            session.summary = summary;
            session.revision = revision;
        }
        session.events.extend(events);
        if let Some(mut work) = open_work {
            work.sort();
            session.open_work = work;
        }
    }

    fn note(&mut self, id: &SessionId, event: &Event) {
        match &event.body {
            EventBody::ArtifactStored(stored) if self.artifact(&stored.artifact_id).is_none() => {
                let (stored, session_id) = (stored.clone(), id.clone());
                self.artifacts.push(ArtifactRow { session_id, stored, created_at_ms: event.at_ms });
            }
            EventBody::RequestOpened(opened) => {
                self.request_sessions.entry(opened.request_id.to_string()).or_insert_with(|| id.clone());
            }
            _ => {}
        }
    }

    fn refuse_repetition(&self, claim: &RequestClaim) -> Result<(), StoreError> {
        match self.requests.get(&claim.request_id) {
            None => Ok(()),
            Some((first, _)) if first.content_hash == claim.content_hash => {
                Err(StoreError::RequestRepeated(claim.request_id.clone()))
            }
            Some(_) => Err(StoreError::RequestIdReused(claim.request_id.clone())),
        }
    }

    fn last_seq(&self, id: &SessionId) -> Option<Seq> {
        self.sessions.get(id).map(|session| session.events.len() as u64)
    }

    fn events(&self, id: &SessionId) -> &[Event] {
        self.sessions.get(id).map_or(&[], |session| &session.events)
    }

    fn artifact(&self, id: &ArtifactId) -> Option<&ArtifactRow> {
        self.artifacts.iter().find(|row| row.stored.artifact_id == *id)
    }

    fn find_sessions(&self, text: &str) -> Vec<Summary> {
        if text.is_empty() {
            return Vec::new();
        }
        let all = || self.sessions.values().map(|session| &session.summary);
        let tests: [&dyn Fn(&Summary) -> bool; 3] = [
            &|summary| summary.session_id.as_str() == text,
            &|summary| summary.name.as_deref() == Some(text),
            &|summary| begins_so(summary.session_id.as_str(), SessionId::PREFIX, text),
        ];
        tests
            .iter()
            .map(|test| {
                all().filter(|summary| test(summary)).take(limits::FIND_SESSIONS_MAX).cloned().collect()
            })
            .find(|found: &Vec<Summary>| !found.is_empty())
            .unwrap_or_default()
    }

    fn list(&self, filter: &SummaryFilter) -> Vec<ListedSession> {
        let mut rows: Vec<ListedSession> = self
            .sessions
            .values()
            .filter(|session| {
                filter.cwd.as_ref().is_none_or(|cwd| *cwd == session.summary.cwd)
                    && filter.state.is_none_or(|state| state == session.summary.state)
                    && filter.after_revision.is_none_or(|revision| session.revision > revision)
            })
            .map(|session| ListedSession {
                summary: session.summary.clone(),
                revision: session.revision,
                requests: requests_of(session).cloned().collect(),
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.revision));
        if filter.limit > 0 {
            rows.truncate(filter.limit);
        }
        rows
    }

    fn session_of_request(&self, text: &str) -> Option<SessionId> {
        if text.is_empty() {
            return None;
        }
        let open: Vec<(&str, &SessionId)> = self
            .sessions
            .iter()
            .flat_map(|(id, session)| requests_of(session).map(move |work| (work.id.as_str(), id)))
            .collect();
        let ever: Vec<(&str, &SessionId)> =
            self.request_sessions.iter().map(|(request, id)| (request.as_str(), id)).collect();
        for known in [open, ever] {
            let found: Vec<_> = known
                .into_iter()
                .filter(|(request, _)| begins_so(request, RequestId::PREFIX, text))
                .collect();
            match found.as_slice() {
                [] => {}
                [(_, session)] => return Some((*session).clone()),
                several => {
                    let exact = several.iter().find(|(request, _)| *request == text);
                    return exact.map(|(_, session)| (*session).clone());
                }
            }
        }
        None
    }

    fn put_blob(&mut self, source: BlobSource) -> Result<BlobStored, StoreError> {
        let bytes = match source {
            BlobSource::Bytes(bytes) => bytes,
            BlobSource::File(path) => std::fs::read(&path).map(Bytes::from).map_err(|error| {
                StoreError::Failed(format!("{} cannot be read to be stored: {error}", path.display()))
            })?,
        };
        let stored = Digest::of(&bytes).stored();
        self.blobs.entry(stored.hash.clone()).or_insert_with(|| (stored.clone(), bytes));
        Ok(stored)
    }

    fn read_blob(&self, hash: &str, offset: u64, len: usize) -> Option<Bytes> {
        let (_, bytes) = self.blobs.get(hash)?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        Some(bytes.slice(from..from.saturating_add(len).min(bytes.len())))
    }

    fn verify_audit(&self) -> AuditVerdict {
        let mut head = AuditHead::default();
        let mut first_bad = None;
        for row in &self.audit {
            head = head.next(&row.entry);
            if first_bad.is_none() && super::hex(&head.hash) != row.hash {
                first_bad = Some(row.audit_no);
            }
        }
        AuditVerdict { rows: self.audit.len() as u64, first_bad }
    }
}

fn requests_of(session: &Session) -> impl Iterator<Item = &OpenWork> {
    session.open_work.iter().filter(|work| work.kind == OpenKind::Request)
}

fn begins_so(id: &str, prefix: &str, text: &str) -> bool {
    id.starts_with(text) || id.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(text))
}

impl Store for MemoryStore {
    fn append(&self, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { lock(&self.state).append(append) })
    }

    fn first_answer(&self, request_id: &str) -> BoxFuture<'_, Result<Option<FirstAnswer>, StoreError>> {
        self.read(|state| {
            state.requests.get(request_id).map(|(claim, _)| FirstAnswer {
                method: claim.method.clone(),
                content_hash: claim.content_hash,
                answer: claim.answer.clone(),
            })
        })
    }

    fn events_after(
        &self,
        id: &SessionId,
        after_seq: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        self.read(|state| {
            state.events(id).iter().filter(|event| event.seq > after_seq).take(limit).cloned().collect()
        })
    }

    fn events_before(
        &self,
        id: &SessionId,
        before_seq: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        self.read(|state| {
            let events = state.events(id);
            let end = events.partition_point(|event| event.seq < before_seq);
            events[end.saturating_sub(limit)..end].to_vec()
        })
    }

    fn last_seq(&self, id: &SessionId) -> BoxFuture<'_, Result<Option<Seq>, StoreError>> {
        self.read(|state| state.last_seq(id))
    }

    fn find_sessions(&self, text: &str) -> BoxFuture<'_, Result<Vec<Summary>, StoreError>> {
        self.read(|state| state.find_sessions(text))
    }

    fn list(&self, filter: SummaryFilter) -> BoxFuture<'_, Result<Vec<ListedSession>, StoreError>> {
        self.read(|state| state.list(&filter))
    }

    fn sessions_with_open_work(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>> {
        self.read(|state| {
            let open = state.sessions.iter().filter(|(_, session)| !session.open_work.is_empty());
            open.map(|(id, _)| id.clone()).collect()
        })
    }

    fn session_of_request(&self, request_id: &str) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>> {
        self.read(|state| state.session_of_request(request_id))
    }

    fn put_blob(&self, source: BlobSource) -> BoxFuture<'_, Result<BlobStored, StoreError>> {
        Box::pin(async move { lock(&self.state).put_blob(source) })
    }

    fn read_blob(
        &self,
        hash: &str,
        offset: u64,
        len: usize,
    ) -> BoxFuture<'_, Result<Option<Bytes>, StoreError>> {
        self.read(|state| state.read_blob(hash, offset, len))
    }

    fn artifact(&self, id: &ArtifactId) -> BoxFuture<'_, Result<Option<ArtifactRow>, StoreError>> {
        self.read(|state| state.artifact(id).cloned())
    }

    fn artifacts(&self, id: &SessionId) -> BoxFuture<'_, Result<Vec<ArtifactRow>, StoreError>> {
        self.read(|state| state.artifacts.iter().filter(|row| row.session_id == *id).cloned().collect())
    }

    fn audit_after(
        &self,
        id: Option<&SessionId>,
        after_no: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<AuditRow>, StoreError>> {
        self.read(|state| {
            let rows = state.audit.iter().filter(|row| row.audit_no > after_no);
            rows.filter(|row| id.is_none_or(|id| row.entry.session_id == *id)).take(limit).cloned().collect()
        })
    }

    fn verify_audit(&self) -> BoxFuture<'_, Result<AuditVerdict, StoreError>> {
        self.read(State::verify_audit)
    }
}
