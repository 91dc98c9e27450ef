//! Searching artifacts.

use super::*;

impl Bench {
    async fn keep(&self, content: &[u8], session: &SessionId) -> String {
        let blob = self.store.put_blob(BlobSource::Bytes(Bytes::copy_from_slice(content))).await.unwrap();
        let ctx = self.call("read_artifact", &json!({}));
        let stored = self.tools.artifact_of(&ctx, "tool_output", &blob, 0);
        let id = stored.artifact_id.clone();
        let row = ArtifactRow { session_id: session.clone(), stored, created_at_ms: 0 };
        self.store.artifacts.lock().unwrap().insert(id.clone(), row);
        id.to_string()
    }

    async fn search(&mut self, id: &str, pattern: &str) -> String {
        self.run("search_artifact", json!({ "id": id, "pattern": pattern })).await.text
    }
}

#[tokio::test]
async fn an_artifact_is_searched_by_line() {
    let mut bench = Bench::new();
    let own = bench.call("read_artifact", &json!({})).session.session_id.clone();
    let id = bench.keep(b"alpha\nBeta 1\n\x00gamma\nbeta 2", &own).await;
    assert_eq!(bench.search(&id, "(?i)^beta").await, "2 (byte 6): Beta 1\n4 (byte 20): beta 2");
    assert_eq!(bench.search(&id, "gamma").await, "3 (byte 13): \u{2400}gamma");
    assert_eq!(bench.search(&id, "delta").await, "No line matches (3 lines, 26 bytes searched).");
    let calls = bench.keep(b"f(x)\n", &own).await;
    let hint = "No line matches (1 line, 5 bytes searched). The text as it stands is there: escape what means something \
                else in a pattern: f\\(x\\)";
    assert_eq!(bench.search(&calls, "f(x)").await, hint);
    assert_eq!(bench.search(&calls, "g(x)").await, "No line matches (1 line, 5 bytes searched).");
    let text = bench.search(&id, "be[ta").await;
    assert!(
        text.starts_with("The pattern is not a regular expression: unclosed character class (at character 3"),
        "{text}"
    );
    let other = bench.keep(b"secret", &SessionId::new("s_other")).await;
    for id in [other.as_str(), "a_none"] {
        assert_eq!(bench.search(id, "secret").await, format!("Artifact not found in this session: {id}"));
    }
}

#[tokio::test]
async fn a_search_ends_at_its_bounds_and_says_so() {
    let mut bench = Bench::new();
    let own = bench.call("read_artifact", &json!({})).session.session_id.clone();
    let lines: String = (1..=5_000).map(|n| format!("match {n}\n")).collect();
    let id = bench.keep(lines.as_bytes(), &own).await;
    let text = bench.search(&id, "match").await;
    let end =
        "\n... stopped after 200 matching lines, at line 200 of 5000; more follow: use a narrower pattern";
    assert!(text.ends_with(end), "{text}");
    let mut ctx = bench.call("search_artifact", &json!({ "id": id, "pattern": "match" }));
    ctx.bounds.max_bytes = 1_000;
    let text = bench.tools.run(&ctx, &bench.redactor).await.text;
    assert!(text.len() <= 1_000 && text.contains("... stopped after 2"), "{text}");
}

#[tokio::test]
async fn what_was_found_is_read_from_its_offset() {
    let mut bench = Bench::new();
    let own = bench.call("read_artifact", &json!({})).session.session_id.clone();
    // Lines of many bytes, ends of two bytes, and a line that is cut around its match.
    let long = "\u{e9}".repeat(2_000);
    let id = bench.keep(format!("{long}\r\nx\r\n{long}needle{long}\r\n").as_bytes(), &own).await;
    let text = bench.search(&id, "needle").await;
    let (place, shown) = text.split_once("): ").unwrap();
    let offset: u64 = place.strip_prefix("3 (byte ").unwrap().parse().unwrap();
    let read = bench.run("read_artifact", json!({ "id": id, "offset": offset, "limit": 200 })).await.text;
    let read = read.split("\n... ").next().unwrap();
    assert!(shown.trim_start_matches('\u{2026}').starts_with(read), "{text}\n{read}");
}

#[tokio::test]
async fn what_is_no_text_is_named_and_not_shown() {
    let mut bench = Bench::new();
    let own = bench.call("read_artifact", &json!({})).session.session_id.clone();
    let id = bench.keep(b"\x89PNG\r\n", &own).await;
    if let Some(row) = bench.store.artifacts.lock().unwrap().get_mut(&ArtifactId::new(id.as_str())) {
        row.stored.mime = "image/png".to_owned();
    }
    let wanted = format!("Artifact {id} is image/png (6 bytes), not text.");
    assert_eq!(bench.search(&id, "PNG").await, wanted);
    assert_eq!(bench.run("read_artifact", json!({ "id": id })).await.text, wanted);
}
