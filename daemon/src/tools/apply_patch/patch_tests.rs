use super::super::tests::Bench;
use super::*;
use crate::ports::Evidence;
use agentd_core::event::CallOutcome;
use agentd_core::ids::CallId;
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;

fn wrap(body: &str) -> serde_json::Value {
    json!({ "patch": format!("*** Begin Patch\n{body}*** End Patch\n") })
}

fn chmod(path: &std::path::Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

const FOUR: &str = "*** Update File: a\n@@\n-a\n+A\n*** Add File: d/e/n\n+new\n*** Delete File: x\n\
                    *** Update File: m\n*** Move to: d/m2\n@@\n-m\n+M\n";

async fn bench() -> Bench {
    let mut bench = Bench::new();
    for name in ["a", "x", "m"] {
        bench.put(name, format!("{name}\r\nend"));
    }
    chmod(&bench.at("a"), 0o600);
    chmod(&bench.at("m"), 0o755);
    bench.read("x").await;
    bench
}

fn is_old(bench: &Bench) {
    assert_eq!(bench.names(), ["a", "m", "x"]);
    assert_eq!((bench.get("a"), bench.get("m")), (b"a\r\nend".to_vec(), b"m\r\nend".to_vec()));
    assert_eq!((bench.mode_of("a"), bench.mode_of("m")), (0o600, 0o755));
}

fn is_new(bench: &Bench) {
    assert_eq!(bench.names(), ["a", "d"]);
    assert_eq!((bench.get("a"), bench.get("d/m2")), (b"A\r\nend".to_vec(), b"M\r\nend".to_vec()));
    assert_eq!(
        (bench.get("d/e/n"), bench.mode_of("a"), bench.mode_of("d/m2")),
        (b"new\n".to_vec(), 0o600, 0o755)
    );
}

#[tokio::test]
async fn all_files_change_and_all_are_told() {
    let mut bench = bench().await;
    let end = bench.run("apply_patch", wrap(FOUR)).await;
    assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
    is_new(&bench);
    assert_eq!((end.files.len(), end.seen.len()), (5, 3), "{}", end.text);
}

#[tokio::test]
async fn one_fault_and_nothing_is_changed() {
    for (body, class) in [
        ("*** Update File: m\n@@\n-zz\n+y\n", "patch_mismatch"),
        ("*** Add File: m\n+y\n", "exists"),
        ("*** Delete File: m\n", "not_read"),
        ("*** Update File: none\n@@\n-zz\n+y\n", "not_found"),
        ("*** Update File: m\n*** Move to: x\n", "exists"),
        ("*** Update File: m\n@@\n-m\n+[REDACTED:key]\n", "redaction_mark"),
        ("*** Update File: ./a\n@@\n-end\n+END\n", "patch"),
        ("*** Delete File: .\n", "file_type"),
    ] {
        let mut bench = bench().await;
        let end = bench.run("apply_patch", wrap(&format!("*** Update File: a\n@@\n-a\n+A\n{body}"))).await;
        assert_eq!(end.error_class.as_deref(), Some(class), "{body}: {}", end.text);
        is_old(&bench);
    }
}

#[tokio::test]
async fn a_failure_at_a_late_file_puts_all_back() {
    let mut bench = bench().await;
    let long = "n".repeat(300);
    let end = bench.run("apply_patch", wrap(&format!("{FOUR}*** Add File: d/{long}\n+x\n"))).await;
    assert_eq!(end.outcome, CallOutcome::Error);
    is_old(&bench);
}

/// The plan of a call that has been inspected, and the call.
async fn ready(bench: &Bench) -> (Vec<Step>, CallContext) {
    let mut ctx = bench.call("apply_patch", &wrap(FOUR));
    ctx.binding = bench.tools.inspect(&ctx, &bench.redactor).await.unwrap().binding;
    let steps = plan(&bench.tools, &ctx, &bench.redactor).unwrap().steps.unwrap();
    for content in steps.iter().flat_map(|step| [step.before(), step.after()]).flatten() {
        change::store(&bench.tools, content.to_vec()).await.unwrap();
    }
    (steps, ctx)
}

#[tokio::test]
async fn somebody_faster_stops_it_and_keeps_their_change() {
    let bench = bench().await;
    let (steps, ctx) = ready(&bench).await;
    let failure = place::place_all(&steps, &ctx.call_id, &mut |at| {
        if at == 3 {
            bench.put("m", "theirs");
        }
    });
    let failure = failure.err().unwrap();
    assert!(failure.not_restored.is_empty() && failure.at == 3);
    assert_eq!(
        (bench.get("m"), bench.names()),
        (b"theirs".to_vec(), ["a", "m", "x"].map(String::from).to_vec())
    );
    assert_eq!(bench.get("a"), b"a\r\nend");
}

/// Stops for ever at each step in a process of its own, which is then killed with SIGKILL; what it left is judged and
/// run again here.
#[tokio::test]
async fn a_kill_between_files_never_leaves_half() {
    use std::io::{BufRead as _, BufReader};
    const PLACE: &str = "AGENTD_TEST_PATCH_KILL";
    if let Some(place) = std::env::var_os(PLACE) {
        let place = place.to_string_lossy().into_owned();
        let mut parts = place.splitn(3, ':');
        let (stop, call_id, root) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let mut bench = Bench::new();
        bench.root = agentd_core::path_bytes::PathBytes::from(root);
        bench.cwd = bench.root.clone();
        let seen = agentd_core::path_bytes::PathBytes::from(format!("{root}/x").as_str());
        bench.seen.insert(seen, super::super::text::hash(b"x\r\nend"));
        let (steps, _) = ready(&bench).await;
        let _ = place::place_all(&steps, &CallId::new(call_id), &mut |at| {
            if at.to_string() == stop {
                println!("\nstopped");
                loop {
                    std::thread::park();
                }
            }
        });
        panic!("it did not stop");
    }
    for stop in 0..=5 {
        let bench = bench().await;
        let (_, ctx) = ready(&bench).await;
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "tools::apply_patch::tests::a_kill_between_files_never_leaves_half",
                "--nocapture",
            ])
            .env(PLACE, format!("{stop}:{}:{}", ctx.call_id.as_str(), bench.root.display()))
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let has_stopped = lines.any(|line| line == "stopped");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_stopped);
        let evidence = bench.tools.evidence(&ctx).await;
        match (&evidence, stop) {
            (Evidence::Finished { .. }, 5) => {
                assert_eq!(bench.tools.finished(&ctx).await.files.len(), 5);
            }
            (Evidence::NotStarted { .. }, 0..=4) => {
                assert_eq!((bench.get("a"), bench.mode_of("m")), (b"a\r\nend".to_vec(), 0o755));
                // The folders it made are empty and stay; they are no content.
                let end = bench.tools.run(&ctx, &bench.redactor).await;
                assert_eq!(end.outcome, CallOutcome::Ok, "{stop}: {}", end.text);
            }
            _ => panic!("{stop}: {evidence:?}"),
        }
        is_new(&bench);
        assert_eq!(std::fs::read_dir(bench.at("d")).unwrap().count(), 2);
        assert_eq!(std::fs::read_dir(bench.at("d/e")).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn links_stay_and_their_targets_change_and_are_never_removed() {
    let mut bench = bench().await;
    std::os::unix::fs::symlink("a", bench.at("l")).unwrap();
    std::fs::hard_link(bench.at("x"), bench.at("hard")).unwrap();
    let end = bench
        .run("apply_patch", wrap("*** Update File: l\n@@\n-a\n+A\n*** Update File: hard\n@@\n-x\n+X\n"))
        .await;
    assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
    assert!(std::fs::symlink_metadata(bench.at("l")).unwrap().is_symlink());
    assert_eq!((bench.get("a"), bench.get("x")), (b"A\r\nend".to_vec(), b"x\r\nend".to_vec()));
    bench.read("a").await;
    let end = bench.run("apply_patch", wrap("*** Delete File: l\n")).await;
    assert_eq!(end.error_class.as_deref(), Some("file_type"), "{}", end.text);
    assert_eq!(bench.names(), ["a", "hard", "l", "m", "x"]);
}

#[tokio::test]
async fn a_path_outside_closes_the_whole_patch() {
    let mut bench = bench().await;
    let body = "*** Update File: a\n@@\n-a\n+A\n*** Add File: ../out/n\n+x\n";
    let ctx = bench.call("apply_patch", &wrap(body));
    let found = bench.tools.inspect(&ctx, &bench.redactor).await.unwrap();
    assert_eq!(found.paths.iter().map(|facts| facts.inside).collect::<Vec<_>>(), [true, false]);
    assert!(found.binding.is_none() && found.preview.is_none());
    let end = bench.run("apply_patch", wrap(body)).await;
    assert_eq!(end.error_class.as_deref(), Some("outside"), "{}", end.text);
    is_old(&bench);
}

#[tokio::test]
async fn two_hundred_files_change_together() {
    let mut bench = Bench::new();
    let mut body = String::new();
    for number in 0..200 {
        bench.put(&format!("f{number}"), format!("old {number}\n"));
        body.push_str(&format!("*** Update File: f{number}\n@@\n-old {number}\n+new {number}\n"));
    }
    let end = bench.run("apply_patch", wrap(&body)).await;
    assert_eq!((end.outcome, end.files.len()), (CallOutcome::Ok, 200), "{}", end.text);
    assert!((0..200).all(|number| bench.get(&format!("f{number}")) == format!("new {number}\n").as_bytes()));
    assert_eq!(bench.names().len(), 200);
}

#[tokio::test]
async fn a_file_that_is_neither_old_nor_new_is_left_alone() {
    let bench = bench().await;
    let (_, ctx) = ready(&bench).await;
    bench.put("a", "A\r\nend");
    bench.put("m", "theirs");
    let Evidence::Unknown { why, .. } = bench.tools.evidence(&ctx).await else { panic!("it was judged") };
    assert!(why.contains("/m: neither"), "{why}");
    assert_eq!((bench.get("a"), bench.get("m")), (b"A\r\nend".to_vec(), b"theirs".to_vec()));
}
