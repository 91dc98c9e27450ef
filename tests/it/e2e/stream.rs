//! The bytes of a stream arrive as they were sent, and half of something is never taken for the whole.

use super::{of_kind, world};
use agent_tests::scripted::Answer;
use serde_json::json;
use std::path::Path;

const TEXT: &str = "日本語と é と 😀、終わり";

/// B1: characters cut at any byte are whole again everywhere.
#[test]
fn characters_survive_any_chunking() {
    let answers = [
        Answer::new()
            .text(TEXT)
            .tool_use("toolu_w", "write_file", json!({"path": "out.txt", "content": "é北😀\n"}))
            .crlf()
            .one_byte_per_write(),
        Answer::saying(TEXT).one_byte_per_write(),
        Answer::saying(TEXT).crlf().split_at(&[3, 9, 10, 11, 200, 201, 202, 203]).until_close(),
    ];
    let (model, home) = world(answers);
    let session = home.new_session(["--permission-mode", "workspace"]);
    for prompt in ["write 北", "again"] {
        let said = home.send_and_wait(&session, prompt).ok();
        assert_eq!(said.stdout.trim_end(), TEXT);
    }
    assert_eq!(home.read("out.txt").as_deref(), Some("é北😀\n"));
    assert!(model.last_request().user_texts().contains(&"write 北".to_owned()));
    let sent_back = String::from_utf8(model.last_request().body().to_vec()).unwrap();
    assert!(sent_back.contains(TEXT) && !sent_back.contains('\u{fffd}'));
    home.cli(["daemon", "stop"]).run().ok();
    let (mut files, mut with_text) = (0, 0);
    visit(&home.agentd().join("data"), &mut |bytes| {
        files += 1;
        with_text += usize::from(contains(bytes, TEXT.as_bytes()));
        assert!(!contains(bytes, "\u{fffd}".as_bytes()), "a replacement character was stored");
    });
    assert!(files > 0 && with_text > 0, "the text is in none of {files} files, so the search proves nothing");
}

fn visit(folder: &Path, look: &mut impl FnMut(&[u8])) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            visit(&entry.path(), look);
        } else if let Ok(bytes) = std::fs::read(entry.path()) {
            look(&bytes);
        }
    }
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

/// B3: arguments that are cut off are an error for the model, never an argument.
#[test]
fn cut_off_arguments_never_run() {
    let cut = "{\"path\":\"a.txt\",\"content\":\"hel";
    let answers = [Answer::new().tool_use_text("toolu_cut", "write_file", cut), Answer::saying("I see")];
    let (model, home) = world(answers);
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "write").ok();

    assert_eq!(home.read("a.txt"), None);
    let result = model.last_request().result_of("toolu_cut");
    assert!(result.is_error && result.text.contains("not valid JSON"), "{result:?}");
    let last = model.last_request();
    let assistant = &last.messages()[1]["content"];
    let sent_back = assistant.as_array().unwrap().iter().find(|block| block["type"] == "tool_use").unwrap();
    assert!(sent_back["input"].is_object(), "{sent_back}");
    let events = home.events(&session);
    assert!(of_kind(&events, "call_started").is_empty());
    assert_eq!(of_kind(&events, "call_finished")[0].text("outcome"), "invalid");
}
