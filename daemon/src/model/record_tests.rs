//! What a record holds, and what it must never hold.

use super::*;
use crate::config::Secret;
use reqwest::header::HeaderValue;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const KEY: &str = "sk-ant-very-secret-key";

struct Place {
    _temp: tempfile::TempDir,
    records: Records,
    session: SessionId,
}

fn place() -> Place {
    let temp = tempfile::tempdir().unwrap();
    let records = Records::new(temp.path().join("records"));
    Place { _temp: temp, records, session: SessionId::new("s_1") }
}

impl Place {
    fn begin(&self, call: &str) -> Recorder {
        let provider = Provider::anthropic("anthropic", "https://h.example", Some(Secret::new(KEY)));
        let redactor = Arc::new(Redactor::new([("OTHER_TOKEN", b"other-secret-value".as_slice())]));
        self.records.begin(&self.session, &ModelCallId::new(call), &provider, redactor)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.records.of_session(&self.session).join(name)
    }

    /// The file once it is there.
    fn read(&self, name: &str) -> String {
        let until = Instant::now() + Duration::from_secs(20);
        while !self.path(name).exists() && Instant::now() < until {
            std::thread::yield_now();
        }
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", HeaderValue::from_static(KEY));
    headers.insert("set-cookie", HeaderValue::from_static("id=7"));
    headers.insert("x-note", HeaderValue::from_static("has other-secret-value"));
    headers.insert("content-type", HeaderValue::from_static("text/event-stream"));
    headers
}

#[test]
fn a_call_leaves_its_request_its_answer_and_how_it_ended() {
    let place = place();
    let recorder = place.begin("m_1");
    let url = Url::parse("https://user:pw@h.example/v1/messages?api-version=2&key=abc").unwrap();
    recorder.request(&url, &headers(), &Bytes::from_static(b"{\"b\":1, \"a\":2}"));
    recorder.status(200, &headers());
    for piece in ["event: a\n", "data: {}\n\n"] {
        recorder.chunk(&Bytes::from_static(piece.as_bytes()));
    }
    recorder.end("complete");
    let ended: serde_json::Value = serde_json::from_str(&place.read("m_1.response.json")).unwrap();
    assert_eq!(place.read("m_1.response"), "event: a\ndata: {}\n\n");
    assert_eq!(
        (&ended["status"], &ended["end"], &ended["bytes"]),
        (&200.into(), &"complete".into(), &19.into())
    );
    assert_eq!(ended["headers"]["content-type"], "text/event-stream");
    let request = place.read("m_1.request.json");
    assert!(request.contains("{\"b\":1, \"a\":2}"), "as it was sent: {request}");
    assert!(request.contains("https://h.example/v1/messages?api-version=2&key="), "{request}");
    for left_out in [KEY, "user:pw", "abc", "id=7", "other-secret-value"] {
        assert!(!request.contains(left_out), "{left_out} in {request}");
    }
    for (path, mode) in [("", 0o700), ("m_1.response", 0o600), ("m_1.request.json", 0o600)] {
        assert_eq!(std::fs::metadata(place.path(path)).unwrap().permissions().mode() & 0o777, mode, "{path}");
    }
    place.records.remove(&place.session).unwrap();
    place.records.remove(&place.session).unwrap();
    assert!(!place.path("").exists());
}

#[test]
fn secrets_are_found_across_chunks_and_in_bodies() {
    let place = place();
    let recorder = place.begin("m_2");
    let body = format!("{{\"text\":\"my key is {KEY}\"}}");
    let url = Url::parse("https://h.example/v1/messages").unwrap();
    recorder.request(&url, &HeaderMap::new(), &Bytes::from(body));
    recorder.status(200, &HeaderMap::new());
    for byte in format!("a {KEY} b other-secret-value c").into_bytes() {
        recorder.chunk(&Bytes::from(vec![byte]));
    }
    recorder.end("complete");
    let ended: serde_json::Value = serde_json::from_str(&place.read("m_2.response.json")).unwrap();
    assert_eq!(ended["redacted"], 2);
    assert_eq!(place.read("m_2.response"), "a [REDACTED:anthropic] b [REDACTED:OTHER_TOKEN] c");
    let request = place.read("m_2.request.json");
    assert!(request.contains("my key is [REDACTED:anthropic]") && !request.contains(KEY), "{request}");
}

#[test]
fn a_dropped_call_is_recorded_as_far_as_it_came_and_a_second_one_stands_beside_it() {
    let place = place();
    for text in ["one", "two"] {
        let recorder = place.begin("m_3");
        recorder.chunk(&Bytes::from_static(text.as_bytes()));
        drop(recorder);
        let name = if text == "one" { "m_3" } else { "m_3-2" };
        assert!(place.read(&format!("{name}.response.json")).contains("dropped"));
        assert_eq!(place.read(&format!("{name}.response")), text);
    }
}

#[test]
fn a_session_has_only_so_much_room_and_says_when_it_is_full() {
    let place = place();
    let folder = place.path("");
    std::fs::create_dir_all(&folder).unwrap();
    // Sparse: it only has to look large.
    std::fs::File::create(folder.join("m_0.response")).unwrap().set_len(RECORD_MAX_BYTES - 10).unwrap();
    let recorder = place.begin("m_4");
    recorder.chunk(&Bytes::from_static(b"12345678"));
    recorder.chunk(&Bytes::from_static(b"more than there is room for"));
    recorder.chunk(&Bytes::from_static(b"9"));
    recorder.end("complete");
    assert!(place.read("m_4.response.json").contains("\"cut\":true"));
    // The redactor holds bytes back, so that nothing or the first piece has been written by then.
    assert!("12345678".starts_with(&place.read("m_4.response")));
    assert!(place.read(STOPPED).contains("Recording stopped"));
}

#[test]
fn nothing_is_written_when_it_is_off() {
    let recorder = Recorder::off();
    recorder.chunk(&Bytes::from_static(b"x"));
    recorder.end("complete");
}

#[test]
fn names_of_files_come_from_ids_and_never_leave_the_folder() {
    assert_eq!(file_name("m_01hx"), "m_01hx");
    assert_eq!(file_name("../../etc/x"), "------etc-x");
}
