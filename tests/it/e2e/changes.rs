//! `diff`: the session's work in files, from the contents that were kept.

use super::{command, world};
use agent_tests::scripted::Answer;
use serde_json::{Value, json};

#[test]
fn a_diff_goes_from_before_the_first_change_to_after_the_last() {
    let call = |id: &str, tool: &str, args: Value| Answer::calling(id, tool, args);
    let answers = [
        call("toolu_1", "read_file", json!({ "path": "old.txt" })),
        call("toolu_2", "edit_file", json!({ "path": "old.txt", "old": "two", "new": "2" })),
        call("toolu_3", "write_file", json!({ "path": "new/a.txt", "content": "a\u{1b}[2J\nb\n" })),
        Answer::saying("first"),
        call("toolu_4", "edit_file", json!({ "path": "old.txt", "old": "2", "new": "zwei" })),
        command("toolu_5", "echo more >> old.txt"),
        Answer::saying("second"),
    ];
    let (_model, home) = world(answers);
    home.write("old.txt", "one\ntwo\nthree\n");
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();
    home.send_and_wait(&session, "go on").ok();

    let whole = home.cli(["diff", &session]).run().ok();
    assert_eq!(
        whole.stdout,
        "diff --git a/new/a.txt b/new/a.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new/a.txt\n@@ -0,0 +1,2 @@\n\
         +a\\x1b[2J\n+b\ndiff --git a/old.txt b/old.txt (changed since)\n--- a/old.txt\n+++ b/old.txt\n\
         @@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"
    );
    assert!(whole.stderr.contains("a command ran too; what it changed is not listed"), "{whole}");

    let first = home.cli(["diff", &session, "--turn", "1", "--json"]).run().ok().json();
    assert_eq!(first["commands"], 0);
    let files = first["files"].as_array().unwrap();
    assert_eq!(files.len(), 2);
    assert!(files[1]["diff"].as_str().unwrap().contains("-two\n+2\n"), "{first}");
    let second = home.cli(["diff", &session, "--turn", "2"]).run().ok();
    assert!(second.stdout.contains("-2\n+zwei\n") && !second.stdout.contains("new/a.txt"), "{second}");
    for more in [&["--json"][..], &[]] {
        let third = home.cli([&["diff", &session, "--turn", "3"], more].concat()).run();
        assert_eq!((third.code, third.stdout.as_str()), (Some(2), ""), "{third}");
        assert!(third.stderr.contains("there is no turn 3: the session has 2 turns"), "{third}");
    }

    let stat = home.cli(["diff", &session, "--stat"]).run().ok();
    assert_eq!(
        stat.stdout,
        " new/a.txt |   2 ++\n old.txt   |   2 +- (changed since)\n 2 files changed, 3 insertions(+), 1 deletion(-)\n"
    );
}

#[test]
fn large_changes_come_in_pages_and_binary_ones_are_named() {
    let mut answers: Vec<Answer> = (0..6)
        .map(|n| {
            let content: String = (0..9_000).map(|line| format!("line {line} of {n}\n")).collect();
            let args = json!({ "path": format!("f{n}.txt"), "content": content });
            Answer::calling(&format!("toolu_{n}"), "write_file", args)
        })
        .collect();
    answers.push(Answer::calling("toolu_b", "write_file", json!({ "path": "z.bin", "content": "a\u{0}b" })));
    answers.push(Answer::saying("done"));
    let (_model, home) = world(answers);
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();
    let said = home.cli(["diff", &session, "--json"]).run().ok().json();
    let files = said["files"].as_array().unwrap();
    assert_eq!(files.len(), 7, "{:?}", files.iter().map(|file| &file["path"]).collect::<Vec<_>>());
    for file in &files[..6] {
        assert_eq!((&file["added"], &file["changed_since"]), (&json!(9_000), &json!(false)));
        assert!(file["diff"].as_str().unwrap().contains("... [diff cut: "));
    }
    assert_eq!(files[6]["binary"], true);
    let text = home.cli(["diff", &session]).run().ok().stdout;
    assert!(text.ends_with("Binary file: 0 -> 3 bytes\n"), "{}", &text[text.len() - 200..]);
}
