//! HTTP/1.1 as far as a model server needs it, by hand: the point is that each byte of an answer is ours.

use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// Bytes of one header line at most; a client that sends more is broken.
const LINE_MAX_BYTES: u64 = 64 * 1024;
/// Bytes of a body that are read before the request is given up; above the API's own 32 MiB, so that the
/// refusal can be the API's.
const BODY_MAX_BYTES: usize = 48 * 1024 * 1024;

/// A request as it came in.
#[derive(Clone, Debug, Default)]
pub(super) struct RawRequest {
    pub(super) method: String,
    pub(super) target: String,
    /// Names in lower case, in order of arrival.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl RawRequest {
    /// Its method and target, as `POST /v1/messages`.
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    /// Its target without the query.
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Reads one request; `None` when the client closed the connection instead.
pub(super) async fn read_request<R: AsyncRead + Unpin>(
    reader: &mut BufReader<R>,
) -> io::Result<Option<RawRequest>> {
    let Some(first) = read_line(reader).await? else { return Ok(None) };
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1")) = (words.next(), words.next(), words.next()) else {
        return Err(bad(format!("not an HTTP/1.1 request line: {first:?}")));
    };
    let mut request =
        RawRequest { method: method.to_owned(), target: target.to_owned(), ..RawRequest::default() };
    loop {
        let line = read_line(reader).await?.ok_or_else(|| bad("the head ends in the middle".into()))?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad(format!("not a header: {line:?}")))?;
        request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    request.body = read_body(reader, &request).await?;
    Ok(Some(request))
}

async fn read_body<R: AsyncRead + Unpin>(
    reader: &mut BufReader<R>,
    request: &RawRequest,
) -> io::Result<Vec<u8>> {
    if request.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        return read_chunks(reader).await;
    }
    let length =
        request.header("content-length").map_or(Ok(0), str::parse).map_err(|_| bad("bad length".into()))?;
    if length > BODY_MAX_BYTES {
        return Err(bad(format!("a body of {length} bytes")));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await?;
    Ok(body)
}

async fn read_chunks<R: AsyncRead + Unpin>(reader: &mut BufReader<R>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader).await?.ok_or_else(|| bad("the body ends in the middle".into()))?;
        let size = line.split(';').next().unwrap_or_default();
        let size =
            usize::from_str_radix(size.trim(), 16).map_err(|_| bad(format!("bad chunk size {line:?}")))?;
        if body.len() + size > BODY_MAX_BYTES {
            return Err(bad("a chunked body without end".into()));
        }
        let start = body.len();
        body.resize(start + size, 0);
        reader.read_exact(&mut body[start..]).await?;
        read_line(reader).await?;
        if size == 0 {
            return Ok(body);
        }
    }
}

async fn read_line<R: AsyncRead + Unpin>(reader: &mut BufReader<R>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = reader.take(LINE_MAX_BYTES).read_until(b'\n', &mut line).await?;
    if read == 0 {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(bad("a line without end".into()));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map(Some).map_err(|_| bad("a head that is not UTF-8".into()))
}

fn bad(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// The head of an answer. The reason phrase is fixed: nobody may depend on it.
pub(super) fn head(status: u16, headers: &[(String, String)], framing: &str) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(framing);
    head.push_str("\r\n\r\n");
    head.into_bytes()
}
