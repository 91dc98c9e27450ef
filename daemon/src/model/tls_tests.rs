//! The secured way, against a server with a certificate of an authority made for these tests. The key in
//! `tls_test/server.pem` protects nothing.

use super::*;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

const SERVER: &[u8] = include_bytes!("tls_test/server.pem");
const AUTHORITY: &[u8] = include_bytes!("tls_test/authority.pem");
const ANSWER: &str = "{\"type\":\"message\",\"id\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"stop_reason\":\"end_turn\"}";

/// Answers every connection once, on a thread of its own.
fn serve() -> SocketAddr {
    let certificate = CertificateDer::from_pem_slice(SERVER).unwrap();
    let key = PrivateKeyDer::from_pem_slice(SERVER).unwrap();
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(connection) = rustls::ServerConnection::new(Arc::clone(&config)) else { return };
            let mut stream = rustls::StreamOwned::new(connection, stream);
            let mut request = Vec::new();
            let mut buffer = [0_u8; 1_024];
            // The body is `{}`: the request ends with it.
            while !request.ends_with(b"\r\n\r\n{}") {
                match stream.read(&mut buffer) {
                    Ok(count) if count > 0 => request.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                ANSWER.len()
            );
            let _ = stream.write_all(format!("{head}{ANSWER}").as_bytes());
            let _ = stream.flush();
        }
    });
    address
}

async fn call(base: &str, ca_file: Option<PathBuf>) -> Result<Answer, CallFailure> {
    let provider = Provider { ca_file, ..Provider::anthropic("local", base, None) };
    Models::new().call(&provider, "m_1", Bytes::from_static(b"{}"), Recorder::off(), |_| {}).await
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_when_named() {
    let address = serve();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("authority.pem");
    std::fs::write(&path, AUTHORITY).unwrap();
    let answer = call(&format!("https://{address}"), Some(path)).await.unwrap();
    assert_eq!(answer.decoded.blocks[0].text.as_deref(), Some("hi"));
}

#[tokio::test]
async fn a_strange_certificate_is_refused_and_not_tried_again() {
    let address = serve();
    let failure = call(&format!("https://{address}"), None).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::BadRequest, "{}", failure.message);
    assert!(failure.message.contains("ca_file"), "{}", failure.message);
}

#[tokio::test]
async fn a_server_without_tls_is_a_connection_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("authority.pem");
    std::fs::write(&path, AUTHORITY).unwrap();
    let failure = call(&format!("https://{address}"), Some(path)).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Connection, "{}", failure.message);
}
