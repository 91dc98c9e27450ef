//! The transport against a server of the Chat Completions dialect.

use super::tests::{HEAD, KEY, call, chunked, failure, fixed, plain, provider, serve};
use super::*;
use crate::model::record::Recorder;
use agentd_core::event::StopClass;
use std::net::SocketAddr;
use tokio::io::AsyncWriteExt;

const TEXT: &str = "data: {\"id\":\"c_1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"é北😀\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,\"total_tokens\":11,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn chat(address: SocketAddr) -> Provider {
    Provider { dialect: Dialect::OpenAiChat, ..provider(address) }
}

async fn answer(stream: &str) -> Result<Answer, CallFailure> {
    let (address, _seen) = fixed(chunked(stream)).await;
    call(&chat(address)).await
}

#[tokio::test]
async fn a_stream_is_an_answer_and_the_key_a_bearer() {
    let (address, mut seen) = fixed(chunked(&[TEXT, STOP, USAGE, DONE].concat())).await;
    let answer = call(&chat(address)).await.unwrap().decoded;
    assert_eq!(answer.blocks[0].text.as_deref(), Some("é北😀"));
    assert_eq!(answer.stop.class, StopClass::EndTurn);
    assert_eq!((answer.usage.input_tokens, answer.usage.cache_read_tokens), (5, 4));
    let seen = seen.recv().await.unwrap();
    let head = seen.head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/chat/completions "), "{head}");
    assert!(head.contains(&format!("authorization: bearer {KEY}")));
    assert!(!head.contains("anthropic-version") && !head.contains("x-api-key"), "{head}");
}

#[tokio::test]
async fn a_break_after_the_stop_is_an_end_and_one_before_is_not() {
    for (stream, whole) in [(format!("{TEXT}{STOP}"), true), (TEXT.to_owned(), false)] {
        let (address, _seen) = serve(move |mut socket| {
            let begun = format!("{HEAD}transfer-encoding: chunked\r\n\r\n{:x}\r\n{stream}\r\n", stream.len());
            async move {
                socket.write_all(begun.as_bytes()).await.ok()?;
                None
            }
        })
        .await;
        let came = call(&chat(address)).await;
        assert_eq!(came.is_ok(), whole, "{came:?}");
    }
}

#[tokio::test]
async fn silence_after_the_stop_is_an_end() {
    let (address, _seen) = serve(|mut socket| async move {
        let stream = format!("{TEXT}{STOP}");
        let begun = format!("{HEAD}transfer-encoding: chunked\r\n\r\n{:x}\r\n{stream}\r\n", stream.len());
        socket.write_all(begun.as_bytes()).await.ok()?;
        Some(socket)
    })
    .await;
    let begun = Instant::now();
    let answer = call(&chat(address)).await.unwrap();
    assert_eq!(answer.decoded.stop.raw.as_deref(), Some("stop"));
    assert!(begun.elapsed() < Duration::from_secs(15), "it waited as long as for a silent answer");
}

#[tokio::test]
async fn a_stream_without_a_stop_counts_only_with_its_end_mark() {
    let answered = answer(&[TEXT, DONE].concat()).await.unwrap().decoded;
    assert!(answered.stop.raw.is_none() && !answered.warnings.is_empty(), "{:?}", answered.warnings);
    let cut = answer(TEXT).await.unwrap_err();
    assert_eq!((cut.class, cut.partial_text.as_deref()), (FailureClass::Cut, Some("é北😀")));
}

#[tokio::test]
async fn an_error_inside_a_good_answer_has_its_class() {
    let error = "data: {\"error\":{\"message\":\"Overloaded\",\"code\":529}}\n\n";
    let failed = answer(&[TEXT, error].concat()).await.unwrap_err();
    assert_eq!(failed.class, FailureClass::Overloaded, "{failed}");
    let refused = plain(
        "429 Too Many Requests",
        "content-type: application/json\r\nretry-after: 2\r\n",
        "{\"error\":{\"message\":\"slow down\",\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}}",
    );
    let failed = failure(refused).await;
    assert_eq!((failed.class, failed.retry_after_ms), (FailureClass::RateLimited, Some(2_000)));
}

/// Servers that do not stream although they were asked to, whatever they call what they send.
#[tokio::test]
async fn an_answer_in_one_piece_is_known_by_its_first_byte() {
    let whole = "{\"id\":\"c\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}";
    for (kind, body) in [
        ("text/plain", whole.to_owned()),
        ("text/event-stream", format!("\r\n{whole}")),
        ("application/json", format!("\u{feff}{whole}")),
    ] {
        let (address, _seen) = fixed(plain("200 OK", &format!("content-type: {kind}\r\n"), &body)).await;
        let answer = call(&chat(address)).await.unwrap_or_else(|failure| panic!("{kind}: {failure}"));
        assert_eq!(answer.decoded.blocks[0].text.as_deref(), Some("hi"), "{kind}");
    }
}

/// Connections that died in the pool cost one attempt, however many they are: the next one is made anew.
#[tokio::test]
async fn stale_connections_are_given_up_together() {
    let (address, mut seen) = serve(|mut socket| async move {
        let text = chunked(&[TEXT, STOP, DONE].concat());
        socket.write_all(text.as_bytes()).await.ok()?;
        // Reads the next request of the connection and breaks it off.
        let mut first = [0_u8; 1];
        let _ = tokio::io::AsyncReadExt::read(&mut socket, &mut first).await;
        None
    })
    .await;
    let (models, provider) = (Models::new(), chat(address));
    let ask = || models.call(&provider, "m_1", Bytes::from_static(b"{}"), Recorder::off(), |_| {});
    let (one, two, three) = tokio::join!(ask(), ask(), ask());
    assert!([one, two, three].iter().all(Result::is_ok));
    assert_eq!(ask().await.unwrap_err().class, FailureClass::Connection);
    assert!(ask().await.is_ok(), "on a connection of its own");
    let mut connections = Vec::new();
    while let Ok(request) = seen.try_recv() {
        connections.push(request.connection);
    }
    connections.sort_unstable();
    assert_eq!(connections, [1, 2, 3, 4]);
}
