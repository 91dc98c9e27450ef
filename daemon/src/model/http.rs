//! One attempt at a model call over HTTP.
//!
//! Invariants: one client per way of securing the connection, so connections are used again; an `http://`
//! address never loads root certificates; redirects are not followed, because the key would go along; the two
//! deadlines (first byte, silence) are the only ones, so a long answer is never cut for being long.

use super::demo;
use super::outcome::{Answer, CallFailure};
use super::provider::{Provider, is_secret_name};
use super::record::Recorder;
use super::refusal;
use crate::config::is_credential_header;
use agentd_core::event::{Dialect, FailureClass};
use agentd_core::limits::{
    MODEL_CONNECT_TIMEOUT_S, MODEL_POOL_IDLE_S, RESPONSE_STREAM_MAX_BYTES, STREAM_TAIL_MS,
};
use agentd_core::model::ids::{IdRule, ids_in};
use agentd_core::model::live::{DecodeFailure, Decoded, LiveDelta, Progress};
use agentd_core::model::reader::AnswerReader;
use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Response, Url};
use std::collections::BTreeMap;
use std::error::Error as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};

/// How a connection is made; each way has one client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// `http://` on this machine: no proxy, whatever the environment says.
    Local,
    /// `http://` elsewhere.
    Plain,
    /// `https://`, with the certificates of this file beside the system's.
    Tls(Option<PathBuf>),
}

impl Way {
    pub(super) fn of(url: &Url, provider: &Provider) -> Self {
        let host = url.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
        let local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        match url.scheme() {
            "https" => Self::Tls(provider.ca_file.clone()),
            _ if local => Self::Local,
            _ => Self::Plain,
        }
    }
}

/// The models that can be reached. Cheap to make: clients are built when first needed. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Models {
    clients: Arc<Mutex<BTreeMap<Way, Arc<OnceCell<Client>>>>>,
}

impl Models {
    /// No client yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends `body` and decodes the answer: one attempt. Pieces go to `on_delta` as they come. Dropping the
    /// future closes the connection, which is how providers learn of it. `seed` is the model call's id; ids of
    /// tool uses that cannot be kept are made from it.
    pub async fn call(
        &self,
        provider: &Provider,
        seed: &str,
        body: Bytes,
        recorder: Recorder,
        mut on_delta: impl FnMut(LiveDelta) + Send,
    ) -> Result<Answer, CallFailure> {
        let called = if provider.is_demo() {
            demo::call(seed, &body, &recorder, &mut on_delta).await
        } else {
            self.call_over_http(provider, seed, body, &recorder, &mut on_delta).await
        };
        recorder.end(called.as_ref().err().map_or("complete", |failure| &failure.message));
        called
    }

    async fn call_over_http(
        &self,
        provider: &Provider,
        seed: &str,
        body: Bytes,
        recorder: &Recorder,
        on_delta: &mut (dyn FnMut(LiveDelta) + Send),
    ) -> Result<Answer, CallFailure> {
        let url = provider.endpoint().map_err(|why| {
            let message = format!("providers.{}.base_url cannot be used: {why}", provider.name);
            CallFailure::new(FailureClass::BadRequest, provider.without_key(&message))
        })?;
        let headers = headers(provider, &url)?;
        let way = Way::of(&url, provider);
        let client = self.client(way.clone(), provider).await?;
        recorder.request(&url, &headers, &body);
        let first_byte_by = Instant::now() + provider.first_byte_timeout;
        let request = client.post(url).headers(headers).body(body.clone());
        let response = match timeout_at(first_byte_by, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                // It may have waited in the pool and been dead, and so may others: the next attempt uses none of them.
                if is_broken_off(&error) {
                    self.forget(&way);
                }
                return Err(unreachable_provider(&error, provider));
            }
            Err(_) => return Err(no_first_byte(provider)),
        };
        recorder.status(response.status().as_u16(), response.headers());
        if !response.status().is_success() {
            return Err(refusal::read(response, provider, recorder).await);
        }
        let mut reading = Reading {
            provider,
            recorder,
            first_byte_by,
            on_delta: &mut *on_delta,
            reader: AnswerReader::new(provider.dialect),
            heard: false,
            tail_by: None,
        };
        let request_id = refusal::request_id(response.headers());
        let read = reading.read(response).await;
        let reader = reading.reader;
        let mut failure = match read {
            Ok(()) => match finish(reader, seed, &body, on_delta) {
                Ok(decoded) => return Ok(Answer { decoded, provider_request_id: request_id }),
                Err(failure) => CallFailure::decoding(failure, &provider.place()),
            },
            Err(failure) => failure,
        };
        failure.message = provider.without_key(&failure.message);
        failure.provider_request_id = request_id.map(Into::into);
        Err(failure)
    }

    /// Gives up all connections of this way that wait to be used again.
    fn forget(&self, way: &Way) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).remove(way);
    }

    pub(super) async fn client(&self, way: Way, provider: &Provider) -> Result<Client, CallFailure> {
        let cell = {
            let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(clients.entry(way.clone()).or_default())
        };
        let build = || async move {
            // Root certificates are files that are read and parsed: not on a thread that others wait for.
            match tokio::task::spawn_blocking(move || build_client(&way)).await {
                Ok(built) => built,
                Err(error) => Err(error.to_string()),
            }
        };
        cell.get_or_try_init(build).await.cloned().map_err(|why| {
            let message = format!(
                "cannot set up the connection to {}: {why}; providers.{}.ca_file names certificates to trust",
                provider.place(),
                provider.name
            );
            CallFailure::new(FailureClass::BadRequest, message)
        })
    }
}

/// Turns what was read into an answer. Ids that the conversation has already are looked for in the request.
pub(super) fn finish(
    reader: AnswerReader,
    seed: &str,
    body: &[u8],
    on_delta: &mut dyn FnMut(LiveDelta),
) -> Result<Decoded, DecodeFailure> {
    let sent = std::str::from_utf8(body).unwrap_or_default();
    let ids = std::cell::OnceCell::new();
    let used = |id: &str| ids.get_or_init(|| ids_in(sent)).contains(id);
    reader.finish(&IdRule { seed, used: &used }, on_delta)
}

fn build_client(way: &Way) -> Result<Client, String> {
    let builder = Client::builder()
        .user_agent(concat!("agentd/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(MODEL_CONNECT_TIMEOUT_S))
        .pool_idle_timeout(Duration::from_secs(MODEL_POOL_IDLE_S));
    let builder = match way {
        Way::Local => without_roots(builder)?.no_proxy(),
        Way::Plain => without_roots(builder)?,
        Way::Tls(ca_file) => with_roots(builder, ca_file.as_ref())?,
    };
    builder.build().map_err(|error| chain(&error))
}

/// A client for plain connections. reqwest would load the system's certificates just to be ready: 3 ms for 144
/// of them, where this takes 0.02 ms.
fn without_roots(builder: ClientBuilder) -> Result<ClientBuilder, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Ok(builder.tls_backend_preconfigured(config))
}

fn with_roots(builder: ClientBuilder, ca_file: Option<&PathBuf>) -> Result<ClientBuilder, String> {
    // The first to install it wins, and everybody installs the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Some(path) = ca_file else { return Ok(builder) };
    let pem = std::fs::read(path).map_err(|error| format!("ca_file {}: {error}", path.display()))?;
    let certificates = reqwest::Certificate::from_pem_bundle(&pem)
        .map_err(|error| format!("ca_file {}: {}", path.display(), chain(&error)))?;
    if certificates.is_empty() {
        return Err(format!("ca_file {} holds no certificate", path.display()));
    }
    Ok(builder.tls_certs_merge(certificates))
}

pub(super) fn headers(provider: &Provider, url: &Url) -> Result<HeaderMap, CallFailure> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let bad = |what: String, class| {
        CallFailure::new(
            class,
            format!("{what} of provider {} holds characters that cannot be sent", provider.name),
        )
    };
    if provider.dialect == Dialect::Anthropic {
        let version = HeaderValue::from_str(provider.version_for(url))
            .map_err(|_| bad("the version".to_owned(), FailureClass::BadRequest))?;
        headers.insert("anthropic-version", version);
    }
    for (name, value) in &provider.headers {
        let broken = || bad(format!("header {name:?}"), FailureClass::BadRequest);
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| broken())?;
        let mut text = HeaderValue::from_str(value).map_err(|_| broken())?;
        text.set_sensitive(is_secret_name(name));
        headers.insert(header, text);
    }
    if provider.headers.keys().any(|name| is_credential_header(name)) {
        return Ok(headers);
    }
    match &provider.key {
        Some(key) if !key.expose().is_empty() => {
            let (name, value) = match provider.dialect {
                Dialect::Anthropic => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
                Dialect::OpenAiChat | Dialect::OpenAiResponses => {
                    (AUTHORIZATION, format!("Bearer {}", key.expose()))
                }
            };
            let mut text = HeaderValue::from_str(&value)
                .map_err(|_| bad("the key".to_owned(), FailureClass::Credentials))?;
            text.set_sensitive(true);
            headers.insert(name, text);
        }
        _ if provider.needs_key(url) => {
            let message = format!(
                "there is no key for {}; set its environment variable in the terminal, then resume from there",
                provider.place()
            );
            return Err(CallFailure::new(FailureClass::Credentials, message));
        }
        _ => {}
    }
    Ok(headers)
}

/// The reading of one good response.
struct Reading<'a> {
    provider: &'a Provider,
    recorder: &'a Recorder,
    first_byte_by: Instant,
    on_delta: &'a mut (dyn FnMut(LiveDelta) + Send),
    reader: AnswerReader,
    heard: bool,
    tail_by: Option<Instant>,
}

impl Reading<'_> {
    async fn read(&mut self, mut response: Response) -> Result<(), CallFailure> {
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.to_ascii_lowercase();
        if kind.starts_with("text/html") {
            let name = &self.provider.name;
            return Err(CallFailure {
                http_status: Some(response.status().as_u16()),
                ..self.failure(
                    FailureClass::BadRequest,
                    format!("answered with a web page instead of a stream; check providers.{name}.base_url"),
                )
            });
        }
        let mut whole = kind.starts_with("application/json").then(Vec::new);
        let mut begun = false;
        while let Some(chunk) = self.next_chunk(&mut response).await? {
            // A server that does not stream although it was asked to, and says so nowhere but in its first byte.
            if !begun && let Some(first) = first_byte(&chunk) {
                begun = true;
                if first == b'{' && whole.is_none() {
                    whole = Some(Vec::new());
                }
            }
            match &mut whole {
                Some(all) if all.len() + chunk.len() > RESPONSE_STREAM_MAX_BYTES => {
                    let what = format!("sent more than {RESPONSE_STREAM_MAX_BYTES} bytes");
                    return Err(self.failure(FailureClass::Malformed, what));
                }
                Some(all) => all.extend_from_slice(&chunk),
                None => {
                    let progress =
                        self.reader.push(&chunk, &mut *self.on_delta).map_err(|f| self.decoding(f))?;
                    if progress == Progress::Complete {
                        drain(response);
                        return Ok(());
                    }
                }
            }
        }
        if let Some(all) = whole {
            let all = all.strip_prefix(BOM).unwrap_or(&all);
            self.reader.whole(all, &mut *self.on_delta).map_err(|failure| self.decoding(failure))?;
        }
        Ok(())
    }

    async fn next_chunk(&mut self, response: &mut Response) -> Result<Option<Bytes>, CallFailure> {
        let by = if self.reader.has_stop() {
            // Counted from the stop: signs of life do not hold up an answer that has ended.
            *self.tail_by.get_or_insert_with(|| Instant::now() + Duration::from_millis(STREAM_TAIL_MS))
        } else if self.heard {
            Instant::now() + self.provider.idle_timeout
        } else {
            self.first_byte_by
        };
        match timeout_at(by, response.chunk()).await {
            // The answer has said how it stopped: what else was to come is welcome, not needed.
            Ok(Err(_)) | Err(_) if self.reader.has_stop() => Ok(None),
            Ok(Ok(chunk)) => {
                if let Some(chunk) = &chunk {
                    self.recorder.chunk(chunk);
                }
                self.heard |= chunk.as_ref().is_some_and(|chunk| !chunk.is_empty());
                Ok(chunk)
            }
            Ok(Err(error)) => {
                let what = format!(
                    "the connection broke in the middle of the answer: {}",
                    chain(&error.without_url())
                );
                Err(self.failure(FailureClass::Connection, what))
            }
            Err(_) if !self.heard => Err(no_first_byte(self.provider)),
            Err(_) => {
                let seconds = self.provider.idle_timeout.as_secs_f64();
                let name = &self.provider.name;
                let what = format!(
                    "was silent for {seconds} s in the middle of the answer; providers.{name}.idle_timeout_s sets how long \
                     that may last"
                );
                Err(self.failure(FailureClass::IdleTimeout, what))
            }
        }
    }

    fn failure(&self, class: FailureClass, what: impl std::fmt::Display) -> CallFailure {
        let failure = CallFailure::new(class, format!("{}: {what}", self.provider.place()));
        CallFailure {
            partial_text: self.reader.partial_text(),
            usage: self.reader.used().map(Box::new),
            ..failure
        }
    }

    fn decoding(&self, failure: DecodeFailure) -> CallFailure {
        CallFailure::decoding(failure, &self.provider.place())
    }
}

/// What some servers begin their texts with.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The first byte that says something.
fn first_byte(chunk: &[u8]) -> Option<u8> {
    let chunk = chunk.strip_prefix(BOM).unwrap_or(chunk);
    chunk.iter().copied().find(|byte| !byte.is_ascii_whitespace())
}

/// Reads what may follow the last event, so that the connection can be used again. Nobody waits for it.
fn drain(mut response: Response) {
    tokio::spawn(async move {
        let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
        let _ = tokio::time::timeout(Duration::from_millis(STREAM_TAIL_MS), rest).await;
    });
}

fn no_first_byte(provider: &Provider) -> CallFailure {
    let seconds = provider.first_byte_timeout.as_secs_f64();
    let message = format!(
        "{} sent nothing for {seconds} s; providers.{}.first_byte_timeout_s sets how long that may last",
        provider.place(),
        provider.name
    );
    CallFailure::new(FailureClass::FirstByteTimeout, message)
}

/// Whether a connection that had been made ended before a byte of the answer.
fn is_broken_off(error: &reqwest::Error) -> bool {
    error.is_request() && !error.is_connect() && !error.is_timeout() && !is_certificate(error)
}

fn unreachable_provider(error: &reqwest::Error, provider: &Provider) -> CallFailure {
    let why = provider.without_key(&chain_without_url(error));
    let place = provider.place();
    if is_certificate(error) {
        let message = format!(
            "{place} has a certificate that is not trusted: {why}. If it is yours, name its authority in providers.{}.ca_file",
            provider.name
        );
        // The same certificate will be there the next time.
        return CallFailure::new(FailureClass::BadRequest, message);
    }
    if error.is_builder() {
        return CallFailure::new(
            FailureClass::BadRequest,
            format!("the request to {place} cannot be built: {why}"),
        );
    }
    let what =
        if error.is_connect() { "cannot be reached" } else { "broke the connection off before it answered" };
    CallFailure::new(FailureClass::Connection, format!("{place} {what}: {why}"))
}

fn is_certificate(error: &reqwest::Error) -> bool {
    let mut next = error.source();
    while let Some(cause) = next {
        if matches!(cause.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))) {
            return true;
        }
        // The source of an I/O error is that of what it wraps, and not what it wraps.
        next = match cause.downcast_ref::<std::io::Error>() {
            Some(wrapped) => wrapped.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static)),
            None => cause.source(),
        };
    }
    false
}

/// An error and its causes in one line. The causes say what happened; the URL may hold a password.
fn chain_without_url(error: &reqwest::Error) -> String {
    error.source().map_or_else(|| "no cause was given".to_owned(), chain)
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let text = cause.to_string();
        if !words.iter().any(|word| word.contains(&text)) {
            words.push(text);
        }
        next = cause.source();
    }
    words.join(": ")
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "chat_tests.rs"]
mod chat_tests;

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tls_tests;
