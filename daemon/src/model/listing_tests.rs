//! Looks at a server's list, against a server that counts them.

use super::*;
use crate::config::Secret;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

type Heads = Arc<Mutex<Vec<String>>>;

/// A server that answers a path with a status and a body; none hangs until the client goes.
async fn serve(
    answer: impl Fn(&str) -> Option<(u16, String)> + Send + Sync + 'static,
) -> (SocketAddr, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Heads::default();
    let (seen, answer) = (heads.clone(), Arc::new(answer));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (seen, answer) = (seen.clone(), answer.clone());
            tokio::spawn(async move {
                let (mut head, mut byte) = (String::new(), [0_u8; 1]);
                while !head.ends_with("\r\n\r\n") && stream.read_exact(&mut byte).await.is_ok() {
                    head.push(char::from(byte[0]));
                }
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                seen.lock().unwrap().push(head);
                match answer(&path) {
                    Some((status, body)) => {
                        let length = body.len();
                        let text = format!(
                            "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                        );
                        let _ = stream.write_all(text.as_bytes()).await;
                    }
                    None => drop(stream.read_exact(&mut byte).await),
                }
            });
        }
    });
    (address, heads)
}

fn provider(address: SocketAddr, dialect: Dialect) -> Provider {
    let base = format!("http://{address}/v1");
    Provider { dialect, ..Provider::anthropic("local", &base, Some(Secret::new("sk-local-key"))) }
}

#[tokio::test]
async fn a_model_is_asked_for_once_with_the_key() {
    let body = r#"{"data":[{"id":"a/b","max_model_len":40960}]}"#;
    let (address, heads) = serve(move |path| (path == "/v1/models").then(|| (200, body.to_owned()))).await;
    let (listings, provider) = (Listings::new(Models::new()), provider(address, Dialect::OpenAiChat));
    for _ in 0..3 {
        let said = listings.described(&provider, "a/b").await.unwrap();
        assert_eq!(said.context_window, Some(40_960));
    }
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 1, "{heads:?}");
    assert!(
        heads[0].starts_with("GET /v1/models HTTP/1.1") && heads[0].contains("sk-local-key"),
        "{}",
        heads[0]
    );
}

#[tokio::test]
async fn anthropic_is_asked_for_the_model_and_others_of_its_dialect_for_the_list() {
    let (address, heads) = serve(|path| {
        Some(match path {
            "/v1/models/one%2Ftwo" => (200, r#"{"id":"one/two","max_input_tokens":300000}"#.to_owned()),
            "/v1/models?limit=1000" => (200, r#"{"data":[{"id":"three","context_length":9000}]}"#.to_owned()),
            _ => (404, "<html>".to_owned()),
        })
    })
    .await;
    let (listings, provider) = (Listings::new(Models::new()), provider(address, Dialect::Anthropic));
    let window =
        async |model| listings.described(&provider, model).await.and_then(|said| said.context_window);
    assert_eq!(window("one/two").await, Some(300_000));
    assert_eq!(heads.lock().unwrap().len(), 1);
    assert_eq!(window("three").await, Some(9_000));
    assert_eq!(window("four").await, None);
    assert_eq!(listings.listed(&provider).await.unwrap()[0].0, "three");
}

#[tokio::test]
async fn a_server_that_does_not_say_is_left_alone_for_a_while() {
    let (address, heads) = serve(|_| Some((401, "{\"error\":\"bad key sk-local-key\"}".to_owned()))).await;
    let (listings, provider) = (Listings::new(Models::new()), provider(address, Dialect::OpenAiChat));
    for _ in 0..3 {
        assert_eq!(listings.described(&provider, "x").await, None);
    }
    assert_eq!(heads.lock().unwrap().len(), 1);
    // As if that had been long ago.
    let long = Duration::from_millis(LISTING_RETRY_MS + 1);
    for heard in listings.kept().heard.values_mut() {
        heard.at = heard.at.checked_sub(long).unwrap();
    }
    assert_eq!(listings.described(&provider, "x").await, None);
    assert_eq!(heads.lock().unwrap().len(), 2);
    let said = listings.listed(&provider).await.unwrap_err();
    assert!(said.contains("answered 401") && !said.contains("sk-local-key"), "{said}");
}

#[tokio::test]
async fn a_silent_server_holds_nobody_up() {
    let (address, _heads) = serve(|_| None).await;
    let (listings, provider) = (Listings::new(Models::new()), provider(address, Dialect::OpenAiChat));
    let begun = Instant::now();
    assert_eq!(listings.described(&provider, "x").await, None);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(LISTING_TIMEOUT_MS) && took < Duration::from_secs(10), "{took:?}");
    assert_eq!(listings.described(&Provider::demo(), "tour").await, None);
}

#[test]
fn limits_that_refusals_name_are_remembered_if_they_can_be_true() {
    let listings = Listings::default();
    let at = |base: &str| Provider::anthropic("local", base, None);
    let here = at("http://127.0.0.1:1");
    listings.learned(&here, "x", 8_192);
    listings.learned(&here, "y", 3);
    listings.learned(&here, "z", u64::MAX);
    listings.learned_output(&here, "x", 4_096);
    listings.learned_output(&here, "y", 0);
    let limits = LearnedLimits { window: Some(8_192), output: Some(4_096) };
    assert_eq!(listings.learned_limits(&here, "x"), limits);
    assert_eq!(listings.learned_limits(&here, "y"), LearnedLimits::default());
    assert_eq!(listings.learned_limits(&here, "z"), LearnedLimits::default());
    // Another server under the same name.
    assert_eq!(listings.learned_limits(&at("http://127.0.0.1:2"), "x"), LearnedLimits::default());
}

#[test]
fn the_list_is_beside_the_calls() {
    let at = |dialect, base: &str| {
        let provider = Provider { dialect, ..Provider::anthropic("p", base, None) };
        models_url(&provider).map(|url| url.to_string()).map_err(|error| error.to_string())
    };
    for base in ["https://h", "https://h/v1", "https://h/v1/messages"] {
        assert_eq!(at(Dialect::Anthropic, base), Ok("https://h/v1/models?limit=1000".to_owned()));
    }
    for (base, url) in [
        ("https://h", "https://h/v1/models"),
        ("https://h/v1/", "https://h/v1/models"),
        ("https://h/openai/v1/chat/completions", "https://h/openai/v1/models"),
        ("https://h/v1beta/openai", "https://h/v1beta/openai/models"),
    ] {
        assert_eq!(at(Dialect::OpenAiChat, base).as_deref(), Ok(url));
    }
    assert!(at(Dialect::OpenAiChat, "ftp://h").unwrap_err().contains("http://"));
}
