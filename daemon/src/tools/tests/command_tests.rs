use super::command::*;
use super::*;
use agentd_core::context::ResultBounds;
use agentd_core::event::CallOutcome;

fn output(ending: CommandEnding, bytes: &[u8]) -> CommandOutput<'_> {
    let newlines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    let open = u64::from(bytes.last().is_some_and(|byte| *byte != b'\n'));
    CommandOutput {
        ending,
        head: bytes,
        tail: b"",
        is_whole: true,
        total_bytes: bytes.len() as u64,
        total_lines: newlines + open,
        killed_children: 0,
        artifact: None,
        stderr_end: "",
        ends_in_stderr: false,
    }
}

fn text(ending: CommandEnding, bytes: &[u8]) -> String {
    command_result(&output(ending, bytes), ResultBounds::default()).text
}

#[test]
fn results_have_the_forms_of_the_contract() {
    assert_eq!(text(CommandEnding::Exited(0), b"hi\n"), "hi");
    assert_eq!(text(CommandEnding::Exited(0), b""), "(no output)");
    assert_eq!(text(CommandEnding::Exited(3), b"ok\xff\xfe\n"), "Exit code 3\nok\u{fffd}\u{fffd}");
    assert_eq!(text(CommandEnding::Exited(1), b""), "Exit code 1\n(no output)");
    assert_eq!(text(CommandEnding::Signalled(11), b"x"), "Killed by signal 11 (SIGSEGV)\nx");
    assert_eq!(
        text(CommandEnding::TimedOut { after_s: 2 }, b"x\n"),
        "Timed out after 2 s, killed; output so far:\nx"
    );
    assert_eq!(text(CommandEnding::Interrupted, b""), "Interrupted; output so far:\n(no output)");
    let left = CommandOutput { killed_children: 2, ..output(CommandEnding::Exited(0), b"done\n") };
    let found = command_result(&left, ResultBounds::default());
    assert_eq!(found.text, "done\n[2 processes it left running were killed]");
    assert_eq!((found.outcome, found.exit_code, found.error_class), (CallOutcome::Ok, Some(0), None));
    let died = command_result(&output(CommandEnding::Signalled(9), b""), ResultBounds::default());
    assert_eq!((died.outcome, died.exit_code, died.signal), (CallOutcome::Error, None, Some(9)));
}

#[test]
fn what_a_terminal_would_obey_is_data() {
    assert_eq!(
        text(CommandEnding::Exited(0), b"\x1b[31mred\x1b[0m\x07\0\n"),
        "\u{241b}[31mred\u{241b}[0m\u{2407}\u{2400}"
    );
    assert_eq!(text(CommandEnding::Exited(0), b"a\r\nb\r\n"), "a\nb");
    assert_eq!(text(CommandEnding::Exited(0), b"10%\r50%\r100%\ndone\n"), "100%\ndone");
}

#[test]
fn long_output_keeps_both_ends_and_says_what_is_missing() {
    let id = ArtifactId::new("a_1");
    let lines: String = (1..=1_000).map(|n| format!("line {n}\n")).collect();
    let whole = CommandOutput { artifact: Some(&id), ..output(CommandEnding::Exited(2), lines.as_bytes()) };
    let found = command_result(&whole, ResultBounds::default());
    let shown: Vec<&str> = found.text.lines().collect();
    assert_eq!(shown.len(), 1 + 100 + 1 + 50);
    assert_eq!((shown[0], shown[1], shown[100]), ("Exit code 2", "line 1", "line 100"));
    let mark =
        format!("... [truncated 850 lines] ... the whole output ({} bytes) is artifact a_1", lines.len());
    assert_eq!((shown[101], shown[102], shown[151]), (mark.as_str(), "line 951", "line 1000"));
    let truncation = found.truncation.unwrap();
    assert_eq!((truncation.head_lines, truncation.tail_lines, truncation.omitted_lines), (100, 50, 850));

    // The same from the two ends that a spool keeps.
    let (head, tail) = (&lines.as_bytes()[..2_000], &lines.as_bytes()[lines.len() - 2_000..]);
    let ends =
        command_result(&CommandOutput { head, tail, is_whole: false, ..whole }, ResultBounds::default());
    assert_eq!(ends.text, found.text);
}

#[test]
fn one_endless_line_is_cut_by_bytes_between_characters() {
    let long = "é".repeat(100_000);
    let found = command_result(&output(CommandEnding::Exited(0), long.as_bytes()), ResultBounds::default());
    assert!(found.text.len() <= ResultBounds::default().max_bytes + 200, "{}", found.text.len());
    assert!(!found.text.contains('\u{fffd}'));
    let split = format!("{}é\n", "a".repeat(8_191));
    assert_eq!(text(CommandEnding::Exited(0), split.as_bytes()), split.trim_end());
    let (head, tail) = split.as_bytes().split_at(8_192);
    let joined = CommandOutput { head, tail, ..output(CommandEnding::Exited(0), split.as_bytes()) };
    assert_eq!(command_result(&joined, ResultBounds::default()).text, split.trim_end());
}

#[tokio::test]
async fn a_command_is_bound_to_its_bytes_folder_and_sandbox() {
    let bench = Bench::new();
    let ctx = bench.call("run_command", &json!({ "command": "make test", "timeout_s": 7 }));
    let found = bench.tools.inspect(&ctx, &bench.redactor).await.unwrap();
    assert_eq!(found.binding, Some(command_binding("make test", &bench.cwd, NO_SANDBOX)));
    assert_eq!(found.preview.unwrap(), format!("in {}:\nmake test", bench.cwd.display()));
    assert_ne!(command_binding("a", &bench.cwd, "x"), command_binding("a", &bench.cwd, "y"));
    assert_ne!(
        command_binding("ab", &PathBytes::from("c"), ""),
        command_binding("a", &PathBytes::from("bc"), "")
    );
    assert_eq!(command_args(&ctx).unwrap(), CommandArgs { command: "make test".to_owned(), timeout_s: 7 });
    let ctx = bench.call("run_command", &json!({ "command": "a\0b" }));
    assert_eq!(bench.tools.inspect(&ctx, &bench.redactor).await.unwrap_err().class, "arguments");
}

#[tokio::test]
async fn a_whole_output_is_stored_without_its_secrets() {
    let mut bench = Bench::new();
    let spool = bench.put("spool", format!("{}secret-value-1\nend\n", "x".repeat(100_000)));
    bench.redactor = Arc::new(Redactor::new([("key", b"secret-value-1".as_slice())]));
    let ctx = bench.call("run_command", &json!({ "command": "x" }));
    let stored = bench
        .tools
        .store_redacted(&ctx, "tool_output", std::fs::File::open(spool).unwrap(), &bench.redactor)
        .await
        .unwrap();
    assert_eq!((stored.redactions, stored.line_count), (1, 2));
    let result = command_result(&output(CommandEnding::Exited(4), b"x"), ResultBounds::default());
    let end = result.into_end(&ctx, 12, vec![stored]);
    assert_eq!(
        (end.exit_code, end.duration_ms, end.error_class.as_deref()),
        (Some(4), 12, Some("exit_code"))
    );
    bench.remember(&end);
    let args = json!({ "id": end.artifacts[0].artifact_id.as_str(), "offset": 99_990 });
    assert_eq!(bench.run("read_artifact", args).await.text, "xxxxxxxxxx[REDACTED:key]\nend\n");
    assert_eq!(
        bench.run("read_artifact", json!({ "id": "a_other" })).await.error_class.as_deref(),
        Some("not_found")
    );
    assert_eq!(std::fs::read_dir(&bench.tools.scratch).unwrap().count(), 0);
}

#[test]
fn a_secret_that_was_removed_does_not_count_as_missing_output() {
    // The redacted head is shorter than the output was.
    let whole = CommandOutput { total_bytes: 500, ..output(CommandEnding::Exited(0), b"[REDACTED:k]\n") };
    let found = command_result(&whole, ResultBounds::default());
    assert_eq!((found.text.as_str(), found.truncation), ("[REDACTED:k]", None));
}
