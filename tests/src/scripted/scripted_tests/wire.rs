//! A client by hand: one request, one answer, nothing hidden.

use crate::scripted::{API_KEY, Dialect, ScriptedModel};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

pub(super) const HEADERS: &[(&str, &str)] =
    &[("x-api-key", API_KEY), ("anthropic-version", "2026-10-21"), ("content-type", "application/json")];

pub(super) const BEARER: &[(&str, &str)] =
    &[("authorization", "Bearer sk-ant-scripted-0000"), ("content-type", "application/json")];

/// Sends one request with this line.
pub(super) fn send(server: &ScriptedModel, line: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let mut head = format!("{line} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    stream
}

pub(super) fn post(server: &ScriptedModel, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
    send(server, "POST /v1/messages", headers, body)
}

/// Reads one answer. Chunks are joined; a body without an end is what came of it.
pub(super) fn read(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 4096];
    while !bytes.ends_with(b"\r\n0\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(read @ 1..) => bytes.extend_from_slice(&buffer[..read]),
            _ => break,
        }
    }
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut rest = &bytes[end..];
    let mut body = Vec::new();
    if !head.contains("chunked") {
        body.extend_from_slice(rest);
        return Reply { status, head, body };
    }
    while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        rest = &rest[line + 2..];
        body.extend_from_slice(&rest[..size.min(rest.len())]);
        rest = &rest[(size + 2).min(rest.len())..];
    }
    Reply { status, head, body }
}

/// Asks in Anthropic's dialect.
pub(super) fn ask(server: &ScriptedModel, body: &Value) -> Reply {
    ask_in(server, Dialect::Anthropic, body)
}

pub(super) fn ask_in(server: &ScriptedModel, dialect: Dialect, body: &Value) -> Reply {
    let (line, headers) = match dialect {
        Dialect::Anthropic => ("POST /v1/messages", HEADERS),
        Dialect::OpenAi => ("POST /v1/chat/completions", BEARER),
    };
    read(&mut send(server, line, headers, body.to_string().as_bytes()))
}

pub(super) fn get(server: &ScriptedModel, target: &str, headers: &[(&str, &str)]) -> Reply {
    read(&mut send(server, &format!("GET {target}"), headers, b""))
}
