//! The labelled path cases, judged as `policy check-path` would in mode `workspace`, and what they leave behind.

use super::*;
use agentd_core::command::Inspection;
use agentd_core::event::{EffectClass, Verdict};
use agentd_core::policy::{Question, decide};

/// Rows that cannot be judged here, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("path-037", "a race: a_race_with_a_link_touches_nothing_outside"),
    ("path-039", "planted names: planted_temp_names_are_never_followed"),
    ("path-049", "needs a mount namespace: a_bind_mount_is_outside"),
];

#[derive(Debug, PartialEq)]
enum Judged {
    Verdict(Verdict),
    Error(String),
}

impl Bench {
    fn judge(&self, op: &str, path: &PathBytes) -> Judged {
        let (tool, effect, op) = match op {
            "read" => ("read_file", EffectClass::ReadOnly, PathOp::Read),
            "list" => ("list_dir", EffectClass::ReadOnly, PathOp::List),
            "delete" => ("apply_patch", EffectClass::Idempotent, PathOp::Delete),
            _ => ("write_file", EffectClass::Idempotent, PathOp::Write),
        };
        let found: Result<Inspection, CallFault> = if op == PathOp::Write {
            let Ok(text) = std::str::from_utf8(path.as_bytes()) else {
                panic!("a write row that is not UTF-8")
            };
            self.tools
                .inspect_path(&self.call(tool, &json!({ "path": text, "content": "x" })), &self.redactor)
        } else if op == PathOp::Delete {
            let from = crate::inspect::From { root: &self.root, cwd: &self.cwd, mode: self.mode };
            self.tools.path_facts(&from, path, op)
        } else {
            self.tools.inspect_read(&self.call(tool, &json!({})), path, op)
        };
        match found {
            Ok(facts) => {
                Judged::Verdict(decide(&Question { mode: self.mode, tool, effect, facts: &facts }).verdict)
            }
            // Whether the model has read the file is not a question of the path.
            Err(fault) if fault.class == "not_read" => Judged::Verdict(Verdict::Allow),
            Err(fault) => Judged::Error(fault.text),
        }
    }
}

impl Bench {
    async fn asked(&self, op: &str, path: &PathBytes) -> Judged {
        let op = match op {
            "read" => PathOp::Read,
            "list" => PathOp::List,
            "write" => PathOp::Write,
            "create" => PathOp::Create,
            _ => PathOp::Delete,
        };
        let what = crate::ports::Hypothetical {
            subject: crate::ports::Subject::Path { path: path.clone(), op },
            folder: self.cwd.clone(),
            mode: self.mode,
            assume_sandbox: false,
        };
        match self.tools.judge(&Registry::built_in().unwrap(), what).await.decision {
            Ok(decision) => Judged::Verdict(decision.verdict),
            Err(text) => Judged::Error(text),
        }
    }
}

fn snapshot(folder: &Path) -> Vec<String> {
    let out = std::process::Command::new("find")
        .arg(folder)
        .args(["-printf", "%p %m %s %T@ %n\n"])
        .output()
        .unwrap();
    let mut lines: Vec<String> = String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn the_labelled_paths_are_judged_as_labelled() {
    let mut wrong = Vec::new();
    let mut judged = 0;
    for line in include_str!("paths.jsonl").lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let id = row["id"].as_str().unwrap();
        if ELSEWHERE.iter().any(|(name, _)| *name == id) {
            continue;
        }
        let mut bench = Bench::new();
        let base = std::fs::canonicalize(bench.dir.path()).unwrap();
        let at = |name: &str| base.join(name).display().to_string();
        let variables = [
            ("$WSLINK", at("wslink")),
            ("$WS", at("ws")),
            ("$OUT", at("out")),
            ("$HOME_DIR", at("home")),
            ("$STATE", at("state")),
            ("$CONF", at("conf")),
            ("$RUN", at("run")),
            ("$SECRET", at("out/canary")),
            ("$DPID", std::process::id().to_string()),
        ];
        let fill = |text: &str| {
            // A literal $HOME stays: tools must not expand it.
            variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
        };
        let setup = std::process::Command::new("sh")
            .args(["-ec", &fill(row["setup"].as_str().unwrap())])
            .status()
            .unwrap();
        assert!(setup.success(), "{id}: setup");
        if id == "path-008" {
            bench.root = path_bytes(&base.join("wslink"));
            bench.cwd = bench.root.clone();
        }
        let path = match id {
            "path-053" => PathBytes::new(*b"f\xffo"),
            _ => PathBytes::from(fill(row["path"].as_str().unwrap()).as_str()),
        };
        let before = snapshot(&base.join("out"));
        let found = bench.judge(row["op"].as_str().unwrap(), &path);
        // And the same by what `policy check-path` asks.
        let asked = bench.asked(row["op"].as_str().unwrap(), &path).await;
        let is_same = match (&asked, &found) {
            (Judged::Verdict(asked), Judged::Verdict(found)) => asked == found,
            (Judged::Error(_), Judged::Error(_)) => true,
            _ => false,
        };
        if !is_same {
            wrong.push(format!("{id}: {found:?}, but asked by itself {asked:?}"));
        }
        let is_right = match (row["expected"].as_str().unwrap(), &found) {
            ("allow", Judged::Verdict(Verdict::Allow))
            | ("ask", Judged::Verdict(Verdict::Ask))
            | ("error", Judged::Error(_)) => true,
            // "not allowed without a person"; a literal name that does not exist is as good.
            ("deny", Judged::Verdict(Verdict::Deny | Verdict::Ask)) => true,
            ("deny", Judged::Error(_)) => row["kind"] == "home",
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{id} {} {path:?}: {} but {found:?}", row["op"], row["expected"]));
        }
        assert_eq!(snapshot(&base.join("out")), before, "{id}");
        judged += 1;
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(judged + ELSEWHERE.len(), 54);
}

#[tokio::test]
async fn absolute_links_and_paths_that_stay_inside_are_inside() {
    let mut bench = Bench::new();
    bench.put("sub/a.txt", "x");
    std::os::unix::fs::symlink(bench.at("sub"), bench.at("abs")).unwrap();
    std::os::unix::fs::symlink("loop", bench.at("loop")).unwrap();
    let absolute = bench.at("sub/../sub/a.txt").display().to_string();
    for path in ["abs/a.txt", "sub/../sub/./a.txt", "./sub//a.txt", absolute.as_str()] {
        assert!(bench.read(path).await.text.starts_with("     1\tx"), "{path}");
    }
    bench.cwd = path_bytes(&bench.at("sub"));
    assert!(bench.read("../sub/a.txt").await.text.starts_with("     1\tx"));
    assert!(bench.read("../loop").await.text.contains("loop of links"));
    assert!(bench.read("../../out").await.text.contains("outside the workspace"));
}

#[tokio::test]
async fn a_full_session_reaches_outside_but_not_our_own_files() {
    let mut bench = Bench::new();
    let out = std::fs::canonicalize(bench.dir.path()).unwrap().join("out/x.txt");
    bench.mode = PermissionMode::Full;
    let end = bench.write(&out.display().to_string(), "hello\n").await;
    assert_eq!(end.files.len(), 1, "{}", end.text);
    assert_eq!(std::fs::read(&out).unwrap(), b"hello\n");
    assert!(bench.edit("../out/x.txt", "hello", "bye").await.text.starts_with("Edited"));
    assert!(bench.read("../out/x.txt").await.text.starts_with("     1\tbye"));
    std::fs::write(out.with_file_name("../conf/config.toml"), "x").unwrap();
    std::os::unix::fs::symlink("../conf", bench.at("c")).unwrap();
    for op in ["read", "write"] {
        for path in ["../conf/config.toml", "c/config.toml"] {
            assert_eq!(
                bench.judge(op, &PathBytes::from(path)),
                Judged::Verdict(Verdict::Deny),
                "{op} {path}"
            );
        }
    }
    // And should a decision ever let one through, the tools do not.
    assert!(bench.read("c/config.toml").await.text.contains("one of agentd's own files"));
    let text = bench.write("c/new", "x").await.text;
    assert!(text.contains("one of agentd's own files"), "{text}");
    assert!(
        bench.run("list_dir", json!({ "path": "../conf" })).await.text.contains("one of agentd's own files")
    );
}

#[tokio::test]
async fn hard_links_are_asked_for_only_when_their_other_names_are_elsewhere() {
    let bench = Bench::new();
    std::fs::hard_link(bench.put("a", "x"), bench.at("b")).unwrap();
    assert_eq!(bench.judge("read", &PathBytes::from("a")), Judged::Verdict(Verdict::Allow));
    std::fs::hard_link(bench.at("a"), bench.dir.path().join("out/c")).unwrap();
    assert_eq!(bench.judge("read", &PathBytes::from("a")), Judged::Verdict(Verdict::Ask));
    std::fs::create_dir_all(bench.at("node_modules/m")).unwrap();
    std::fs::hard_link(bench.at("a"), bench.at("node_modules/m/a")).unwrap();
    assert_eq!(bench.judge("read", &PathBytes::from("node_modules/m/a")), Judged::Verdict(Verdict::Allow));
}

/// Runs itself again inside a mount namespace. Where none can be made there is nothing to hold.
#[test]
fn a_bind_mount_is_outside() {
    const INSIDE: &str = "AGENTD_TEST_IN_MOUNT_NAMESPACE";
    let name = "tools::tests::path_tests::a_bind_mount_is_outside";
    if std::env::var_os(INSIDE).is_none() {
        let can = std::process::Command::new("unshare").args(["-rm", "true"]).status();
        if !can.is_ok_and(|status| status.success()) {
            return;
        }
        let me = std::env::current_exe().unwrap();
        let run = std::process::Command::new("unshare")
            .arg("-rm")
            .arg(me)
            .args(["--exact", name, "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        return;
    }
    let bench = Bench::new();
    std::fs::create_dir(bench.at("bm")).unwrap();
    let mounted = std::process::Command::new("mount")
        .arg("--bind")
        .args([bench.dir.path().join("out"), bench.at("bm")])
        .status()
        .unwrap();
    assert!(mounted.success());
    assert_eq!(bench.judge("write", &PathBytes::from("bm/x")), Judged::Verdict(Verdict::Deny));
    assert_eq!(bench.judge("list", &PathBytes::from("bm")), Judged::Verdict(Verdict::Deny));
    assert!(!bench.dir.path().join("out/x").exists());
    assert!(std::process::Command::new("umount").arg(bench.at("bm")).status().unwrap().success());
}

#[tokio::test]
async fn a_call_is_judged_by_its_arguments() {
    let bench = Bench::new();
    bench.put("a", "x");
    let registry = Registry::built_in().unwrap();
    let rows = [
        ("read_file", json!({ "path": "a" }), Ok(Verdict::Allow)),
        ("read_file", json!({ "path": "../out/x" }), Ok(Verdict::Deny)),
        ("list_dir", json!({}), Ok(Verdict::Allow)),
        ("write_file", json!({ "path": ".npmrc", "content": "" }), Ok(Verdict::Ask)),
        ("edit_file", json!({ "path": "a", "old": "x", "new": "y" }), Ok(Verdict::Allow)),
        ("run_command", json!({ "command": "touch x" }), Ok(Verdict::Ask)),
        ("search_artifact", json!({ "id": "a_1", "pattern": "x" }), Ok(Verdict::Allow)),
        ("read_file", json!({ "path": "nosuch" }), Err("File not found: nosuch")),
        ("read_file", json!({ "path": 7 }), Err("Invalid arguments for read_file")),
        ("nosuch", json!({}), Err("Unknown tool nosuch")),
    ];
    for (tool, args, expected) in rows {
        let args = serde_json::value::RawValue::from_string(args.to_string()).unwrap();
        let what = crate::ports::Hypothetical {
            subject: crate::ports::Subject::Call { tool: tool.to_owned(), args: Arc::from(args) },
            folder: bench.root.clone(),
            mode: PermissionMode::Workspace,
            assume_sandbox: false,
        };
        match (bench.tools.judge(&registry, what).await.decision, expected) {
            (Ok(decision), Ok(verdict)) => assert_eq!(decision.verdict, verdict, "{tool}: {decision:?}"),
            (Err(text), Err(begin)) => assert!(text.starts_with(begin), "{tool}: {text}"),
            (found, expected) => panic!("{tool}: {expected:?}, but {found:?}"),
        }
    }
    assert_eq!(std::fs::read(bench.at("a")).unwrap(), b"x", "nothing was done");
}

#[tokio::test]
async fn our_files_under_other_names_are_ours() {
    let bench = Bench::new();
    let base = std::fs::canonicalize(bench.dir.path()).unwrap();
    std::fs::create_dir(base.join("state/jobs")).unwrap();
    std::fs::write(base.join("state/jobs/x"), "ours").unwrap();
    std::fs::hard_link(base.join("state/jobs/x"), bench.at("h")).unwrap();
    for op in ["read", "write"] {
        assert_eq!(bench.judge(op, &PathBytes::from("h")), Judged::Verdict(Verdict::Deny), "{op}");
    }
    assert_eq!(bench.judge("delete", &PathBytes::from("h")), Judged::Verdict(Verdict::Allow));
}
