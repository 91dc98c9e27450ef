//! The transport against a server that is controlled byte by byte.

use super::*;
use crate::config::Secret;
use agentd_core::event::StopClass;
use std::future::Future;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

pub(super) const KEY: &str = "sk-ant-secret-key";
pub(super) const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_7\r\nretry-after: 31\r\n";
const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{\"input_tokens\":3}}}\n\n";
const HALF: &str = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"é北😀\"}}\n\n";
const REST: &str = "data: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\ndata: {\"type\":\"message_stop\"}\n\n";

/// One request as the server saw it: which connection it came on, its head in lower case, its body.
pub(super) struct Seen {
    pub(super) connection: usize,
    pub(super) head: String,
    pub(super) body: String,
}

/// Reads one request; none when the client hung up.
async fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0_u8; 4_096];
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_owned();
        let length = head
            .to_ascii_lowercase()
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some((head, body.to_owned()));
        }
    }
}

/// A server that answers every request by `answer`, and tells what it saw.
pub(super) async fn serve<F>(
    answer: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> (SocketAddr, mpsc::UnboundedReceiver<Seen>)
where
    F: Future<Output = Option<TcpStream>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (saw, seen) = mpsc::unbounded_channel();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        let mut connection = 0;
        while let Ok((mut stream, _)) = listener.accept().await {
            connection += 1;
            let (saw, answer) = (saw.clone(), Arc::clone(&answer));
            tokio::spawn(async move {
                while let Some((head, body)) = request(&mut stream).await {
                    let _ = saw.send(Seen { connection, head, body });
                    match answer(stream).await {
                        Some(open) => stream = open,
                        None => return,
                    }
                }
            });
        }
    });
    (address, seen)
}

pub(super) fn chunked(text: &str) -> String {
    format!("{HEAD}transfer-encoding: chunked\r\n\r\n{:x}\r\n{text}\r\n0\r\n\r\n", text.len())
}

pub(super) fn plain(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// A server with one fixed answer, after which the connection stays open.
pub(super) async fn fixed(text: String) -> (SocketAddr, mpsc::UnboundedReceiver<Seen>) {
    serve(move |mut stream| {
        let text = text.clone();
        async move {
            stream.write_all(text.as_bytes()).await.ok()?;
            Some(stream)
        }
    })
    .await
}

pub(super) fn provider(address: SocketAddr) -> Provider {
    let mut provider = Provider::anthropic("local", &format!("http://{address}"), Some(Secret::new(KEY)));
    provider.first_byte_timeout = Duration::from_secs(20);
    provider.idle_timeout = Duration::from_secs(20);
    provider
}

pub(super) async fn call(provider: &Provider) -> Result<Answer, CallFailure> {
    Models::new()
        .call(provider, "m_1", Bytes::from_static(b"{\"model\":\"x\"}"), Recorder::off(), |_| {})
        .await
}

pub(super) async fn failure(answer: String) -> CallFailure {
    let (address, _seen) = fixed(answer).await;
    let failure = call(&provider(address)).await.unwrap_err();
    assert!(failure.message.contains("local (127.0.0.1:"), "{}", failure.message);
    assert!(!format!("{failure:?}").contains(KEY));
    failure
}

#[tokio::test]
async fn a_stream_in_single_bytes_is_an_answer() {
    let (address, mut seen) = serve(|mut stream| async move {
        let text = chunked("");
        let head = text.split_once("\r\n\r\n")?.0;
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await.ok()?;
        for byte in format!(": hello\n\n{START}{HALF}{REST}").replace('\n', "\r\n").bytes() {
            stream.write_all(&[b'1', b'\r', b'\n', byte, b'\r', b'\n']).await.ok()?;
            stream.flush().await.ok()?;
        }
        stream.write_all(b"0\r\n\r\n").await.ok()?;
        Some(stream)
    })
    .await;
    let mut shown = String::new();
    let answer = Models::new()
        .call(&provider(address), "m_1", Bytes::from_static(b"{\"model\":\"x\"}"), Recorder::off(), |delta| {
            shown.push_str(&delta.text);
        })
        .await
        .unwrap();
    assert_eq!(answer.decoded.blocks[0].text.as_deref(), Some("é北😀"));
    assert_eq!(shown, "é北😀");
    assert_eq!(answer.decoded.stop.class, StopClass::EndTurn);
    assert_eq!(answer.provider_request_id.as_deref(), Some("req_7"));
    let seen = seen.recv().await.unwrap();
    assert!(seen.head.starts_with("POST /v1/messages HTTP/1.1"), "{}", seen.head);
    for line in
        ["x-api-key: sk-ant-secret-key", "anthropic-version: 2023-06-01", "content-type: application/json"]
    {
        assert!(seen.head.contains(line), "{line} in {}", seen.head);
    }
    assert_eq!(seen.body, "{\"model\":\"x\"}");
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let (address, mut seen) = fixed(chunked(&format!("{START}{HALF}{REST}"))).await;
    let (models, provider) = (Models::new(), provider(address));
    for _ in 0..3 {
        models.call(&provider, "m_1", Bytes::from_static(b"{}"), Recorder::off(), |_| {}).await.unwrap();
        // The rest of the stream is read beside us; the connection is free once that is done.
        tokio::task::yield_now().await;
    }
    let connections = [seen.recv().await.unwrap(), seen.recv().await.unwrap(), seen.recv().await.unwrap()];
    assert!(connections.iter().filter(|seen| seen.connection == 1).count() >= 2);
}

#[tokio::test]
async fn configured_headers_stand_for_the_key() {
    let (address, mut seen) = fixed(chunked(&format!("{START}{HALF}{REST}"))).await;
    let mut provider = provider(address);
    provider.headers.insert("Authorization".into(), "Bearer other-token".into());
    provider.version = Some("2026-10-21".into());
    call(&provider).await.unwrap();
    let head = seen.recv().await.unwrap().head;
    assert!(head.contains("authorization: Bearer other-token") && !head.contains("x-api-key"), "{head}");
    assert!(head.contains("anthropic-version: 2026-10-21"), "{head}");
    provider.headers.insert("x-broken".into(), "a\nb".into());
    assert_eq!(call(&provider).await.unwrap_err().class, FailureClass::BadRequest);
}

#[tokio::test]
async fn silence_ends_the_attempt() {
    for (said, class, text) in [
        (String::new(), FailureClass::FirstByteTimeout, None),
        (format!("{HEAD}transfer-encoding: chunked\r\n\r\n"), FailureClass::FirstByteTimeout, None),
        (
            chunked(&format!("{START}{HALF}")).replace("0\r\n\r\n", ""),
            FailureClass::IdleTimeout,
            Some("é北😀"),
        ),
    ] {
        let (address, _seen) = fixed(said).await;
        let mut provider = provider(address);
        provider.first_byte_timeout = Duration::from_millis(300);
        provider.idle_timeout = Duration::from_millis(300);
        let failure = call(&provider).await.unwrap_err();
        assert_eq!(failure.class, class, "{}", failure.message);
        assert!(failure.class.is_retryable() && failure.message.contains("timeout_s"), "{}", failure.message);
        assert_eq!(failure.partial_text.as_deref(), text);
    }
}

#[tokio::test]
async fn pings_and_comments_are_life() {
    let (address, _seen) = serve(|mut stream| async move {
        stream.write_all(format!("{HEAD}\r\n{START}").as_bytes()).await.ok()?;
        let mut beat = tokio::time::interval(Duration::from_millis(60));
        for at in 0..20 {
            beat.tick().await;
            let sign =
                if at % 2 == 0 { "event: ping\ndata: {\"type\": \"ping\"}\n\n" } else { ": keepalive\n\n" };
            stream.write_all(sign.as_bytes()).await.ok()?;
        }
        stream.write_all(format!("{HALF}{REST}").as_bytes()).await.ok()?;
        None
    })
    .await;
    let mut provider = provider(address);
    provider.idle_timeout = Duration::from_millis(400);
    let answer = call(&provider).await.unwrap();
    assert_eq!(answer.decoded.blocks.len(), 1);
}

#[tokio::test]
async fn a_stream_that_ends_early_is_no_answer() {
    let (address, _seen) = serve(|mut stream| async move {
        stream.write_all(format!("{HEAD}\r\n{START}{HALF}").as_bytes()).await.ok()?;
        None
    })
    .await;
    let failure = call(&provider(address)).await.unwrap_err();
    assert_eq!((failure.class, failure.partial_text.as_deref()), (FailureClass::Cut, Some("é北😀")));
    assert_eq!(failure.retry_after_ms, None, "a good answer's retry-after is no request to wait");
    let (address, _seen) = serve(|mut stream| async move {
        let text = chunked(&format!("{START}{HALF}"));
        stream.write_all(text.trim_end_matches("0\r\n\r\n").as_bytes()).await.ok()?;
        None
    })
    .await;
    let failure = call(&provider(address)).await.unwrap_err();
    assert_eq!((failure.class, failure.partial_text.as_deref()), (FailureClass::Connection, Some("é北😀")));
}

#[tokio::test]
async fn dropping_the_call_closes_the_connection() {
    let (gone, mut is_gone) = mpsc::unbounded_channel();
    let (address, mut seen) = serve(move |mut stream| {
        let gone = gone.clone();
        async move {
            stream.write_all(format!("{HEAD}\r\n{START}{HALF}").as_bytes()).await.ok()?;
            let _ = stream.read(&mut [0_u8; 1]).await;
            let _ = gone.send(());
            None
        }
    })
    .await;
    let provider = provider(address);
    let call = tokio::spawn(async move { call(&provider).await.map(|_| ()) });
    seen.recv().await.unwrap();
    call.abort();
    tokio::time::timeout(Duration::from_secs(10), is_gone.recv()).await.unwrap().unwrap();
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let json = "content-type: application/json\r\n";
    let error = |kind: &str, message: &str| {
        format!("{{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"{message}\"}}}}")
    };
    let overloaded = failure(plain("529 x", json, &error("overloaded_error", "Overloaded"))).await;
    assert_eq!((overloaded.class, overloaded.http_status), (FailureClass::Overloaded, Some(529)));
    let limited = failure(plain(
        "429 x",
        "retry-after: 2\r\nrequest-id: req_9\r\n",
        &error("rate_limit_error", "slow"),
    ))
    .await;
    assert_eq!((limited.class, limited.retry_after_ms), (FailureClass::RateLimited, Some(2_000)));
    assert!(limited.message.contains("req_9") && limited.provider_request_id.as_deref() == Some("req_9"));
    let refused =
        failure(plain("401 x", json, &error("authentication_error", "invalid key sk-ant-secret-key"))).await;
    assert_eq!(refused.class, FailureClass::Credentials);
    assert!(
        refused.message.contains("Check the key of local") && refused.message.contains("[key]"),
        "{}",
        refused.message
    );
    let long = failure(plain(
        "400 x",
        json,
        &error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
    ))
    .await;
    assert_eq!((long.class, long.learned_window), (FailureClass::ContextExceeded, Some(8)));
    let away = failure(plain("302 x", "location: https://elsewhere.example/v1\r\n", "")).await;
    assert_eq!(away.class, FailureClass::BadRequest);
    assert!(away.message.contains("elsewhere.example"), "{}", away.message);
    let page =
        failure(plain("502 x", "content-type: text/html\r\n", "<html><title>502 Bad Gateway</title>")).await;
    assert_eq!(page.class, FailureClass::Server);
    assert!(page.message.contains("502 Bad Gateway"), "{}", page.message);
    let login = failure(plain("200 OK", "content-type: text/html\r\n", "<html>log in</html>")).await;
    assert_eq!(login.class, FailureClass::BadRequest);
    assert!(login.message.contains("base_url"), "{}", login.message);
}

#[tokio::test]
async fn errors_after_a_good_status_have_their_class() {
    let event = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let failure = failure(chunked(&format!("{START}{HALF}{event}"))).await;
    assert_eq!((failure.class, failure.partial_text.as_deref()), (FailureClass::Overloaded, Some("é北😀")));
    assert_eq!(failure.provider_request_id.as_deref(), Some("req_7"));
}

#[tokio::test]
async fn an_answer_in_one_piece_is_an_answer() {
    let body = "{\"type\":\"message\",\n \"id\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"stop_reason\":\"end_turn\"}";
    let (address, _seen) = fixed(plain("200 OK", "content-type: application/json\r\n", body)).await;
    let answer = call(&provider(address)).await.unwrap();
    assert_eq!(answer.decoded.blocks[0].text.as_deref(), Some("hi"));
}

#[tokio::test]
async fn an_id_that_the_conversation_has_is_replaced() {
    let call = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"call_0\",\"name\":\"n\",\"input\":{}}}\n\n";
    let (address, _seen) = fixed(chunked(&format!("{START}{call}{REST}"))).await;
    let id = |body: &'static str| {
        let provider = provider(address);
        async move {
            let answer = Models::new()
                .call(&provider, "m_1", Bytes::from_static(body.as_bytes()), Recorder::off(), |_| {})
                .await
                .unwrap();
            answer.decoded.blocks[0].call.as_ref().unwrap().provider_call_id.clone()
        }
    };
    assert_eq!(id("{}").await, "call_0");
    assert_eq!(id("{\"messages\":[{\"id\":\"call_0\"}]}").await, "toolu_m_1_0");
}

#[tokio::test]
async fn nobody_there_is_a_connection_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let failure = call(&provider(address)).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Connection);
    assert!(failure.message.contains("cannot be reached") && failure.message.contains(&address.to_string()));
}

#[tokio::test]
async fn what_cannot_work_is_not_sent() {
    let no_key = Provider::anthropic("anthropic", "https://api.anthropic.com", None);
    let failure = call(&no_key).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Credentials);
    assert!(failure.message.contains("environment variable"), "{}", failure.message);
    let no_url = Provider::anthropic("local", "localhost:8080", None);
    let failure = call(&no_url).await.unwrap_err();
    assert!(
        failure.class == FailureClass::BadRequest && failure.message.contains("providers.local.base_url")
    );
    let no_key = Provider::new("openai", Dialect::OpenAiChat, "https://api.openai.com/v1", None);
    assert_eq!(call(&no_key).await.unwrap_err().class, FailureClass::Credentials);
    let bad_key = Provider::anthropic("local", "http://127.0.0.1:1", Some(Secret::new("a\nb")));
    let failure = call(&bad_key).await.unwrap_err();
    assert!(failure.class == FailureClass::Credentials && !failure.message.contains("a\nb"));
}

#[test]
fn each_way_has_its_client() {
    let way = |base: &str| {
        let provider = Provider::anthropic("p", base, None);
        Way::of(&provider.endpoint().unwrap(), &provider)
    };
    assert_eq!(way("http://localhost:1"), Way::Local);
    assert_eq!(way("http://127.9.9.9"), Way::Local);
    assert_eq!(way("http://[::1]:8080"), Way::Local);
    assert_eq!(way("http://model.lan"), Way::Plain);
    assert_eq!(way("https://localhost"), Way::Tls(None));
}

#[test]
fn a_bad_ca_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    let error = |path: &PathBuf| build_client(&Way::Tls(Some(path.clone()))).unwrap_err();
    assert!(error(&path).contains("ca.pem"));
    std::fs::write(&path, "no certificate").unwrap();
    assert!(error(&path).contains("ca.pem"));
}
