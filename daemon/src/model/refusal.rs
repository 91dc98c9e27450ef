//! An answer of a provider that is an error.

use super::outcome::CallFailure;
use super::provider::Provider;
use super::record::Recorder;
use agentd_core::event::FailureClass;
use agentd_core::limits::{ERROR_BODY_MAX_BYTES, ERROR_BODY_TIMEOUT_MS};
use agentd_core::model::failure::ProviderError;
use agentd_core::model::retry_after::{http_date_s, reset_wait_ms, wait_ms};
use bytes::Bytes;
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Response, Url};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An id is for a support form, not a document.
const REQUEST_ID_MAX_CHARS: usize = 128;

/// The provider's id of a request.
pub(super) fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = text(headers, "request-id").or_else(|| text(headers, "x-request-id"))?;
    Some(id.chars().take(REQUEST_ID_MAX_CHARS).collect())
}

fn headers_as_text(headers: &HeaderMap) -> Vec<(&str, &str)> {
    headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect()
}

fn yes_or_no(word: &str) -> Option<bool> {
    match word.trim() {
        word if word.eq_ignore_ascii_case("true") => Some(true),
        word if word.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().filter(|value| !value.is_empty())
}

/// Reads a refusal, within bounds of size and time, and says what it means.
pub(super) async fn read(response: Response, provider: &Provider, recorder: &Recorder) -> CallFailure {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = bounded_body(response).await;
    recorder.chunk(&Bytes::copy_from_slice(&body));
    judge(status, &headers, &body, provider)
}

async fn bounded_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = ERROR_BODY_MAX_BYTES.saturating_sub(body.len());
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == ERROR_BODY_MAX_BYTES {
                break;
            }
        }
    };
    // What came in time is enough: the status alone decides most.
    let _ = tokio::time::timeout(Duration::from_millis(ERROR_BODY_TIMEOUT_MS), read).await;
    body
}

fn judge(status: u16, headers: &HeaderMap, body: &[u8], provider: &Provider) -> CallFailure {
    // Before anything is cut: half a key is still half a key.
    let body = provider.without_key(&String::from_utf8_lossy(body));
    let error = ProviderError::read(body.as_bytes());
    let now_ms = now_ms(headers);
    let asked_ms = wait_ms(text(headers, "retry-after-ms"), text(headers, "retry-after"), now_ms)
        .or(error.retry_delay_ms);
    // That a rate is used up says nothing about a budget, so the class is decided without it.
    let class = error.class(Some(status), asked_ms.is_some());
    let retry_after_ms = asked_ms
        .or_else(|| (status == 429).then(|| reset_wait_ms(&headers_as_text(headers), now_ms)).flatten());
    let request_id = request_id(headers);
    let mut message = format!("{} answered {status}", provider.place());
    if let Some(kind) = error.code.as_deref().or(error.kind.as_deref()) {
        message.push_str(&format!(" {kind}"));
    }
    if !error.message.is_empty() {
        message.push_str(&format!(": {}", error.message.trim_end_matches('.')));
    }
    if let Some(id) = &request_id {
        message.push_str(&format!(" (request {id})"));
    }
    if let Some(advice) = advice(class, status, headers, provider) {
        message.push_str(&format!(". {advice}"));
    }
    CallFailure {
        http_status: Some(status),
        retry_after_ms,
        learned_window: error.window.filter(|_| class == FailureClass::ContextExceeded),
        learned_output: error.output_max.filter(|_| class == FailureClass::BadRequest),
        mend: error.mend(Some(status)),
        should_retry: text(headers, "x-should-retry").and_then(yes_or_no),
        provider_request_id: request_id.map(Into::into),
        ..CallFailure::new(class, provider.without_key(&message))
    }
}

/// The time that a date in `retry-after` is compared with: the server's own, so that clocks may differ.
fn now_ms(headers: &HeaderMap) -> i64 {
    let theirs = text(headers, "date").and_then(http_date_s).map(|seconds| seconds * 1_000);
    theirs.unwrap_or_else(|| {
        let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(ours.as_millis()).unwrap_or(i64::MAX)
    })
}

fn advice(class: FailureClass, status: u16, headers: &HeaderMap, provider: &Provider) -> Option<String> {
    let name = &provider.name;
    Some(match (class, status) {
        (_, 300..=399) => {
            let host = text(headers, LOCATION.as_str()).and_then(|to| Url::parse(to).ok());
            let host = host.and_then(|url| url.host_str().map(str::to_owned));
            let to = host.map_or_else(String::new, |host| format!(" to {host}"));
            format!(
                "Redirects{to} are not followed, because the key would go along; set providers.{name}.base_url"
            )
        }
        (_, 407) => "The proxy wants credentials; put them into HTTPS_PROXY or HTTP_PROXY".to_owned(),
        (FailureClass::Credentials, _) if provider.has_credentials() => {
            format!("Check the key of {name} in its environment variable, then resume from there")
        }
        (FailureClass::Credentials, _) => {
            format!(
                "No key was sent; set providers.{name}.api_key_env and that variable, then resume from there"
            )
        }
        (FailureClass::Quota, _) => {
            "Raise the limit there or choose another model; it is not tried again".to_owned()
        }
        (FailureClass::BadRequest, 404) => {
            format!("Check the model's name and providers.{name}.base_url")
        }
        _ => return None,
    })
}

#[cfg(test)]
#[path = "refusal_tests.rs"]
mod tests;
