//! F: what `policy check-path` says of paths of every kind, each on real files of its own.

use super::{binary, world};
use agent_tests::home::TestHome;
use agent_tests::scripted::Answer;
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// What is done with it, the path, what `sh` makes before, and what is said in mode `workspace`.
type Row = (&'static str, &'static str, &'static str, &'static str);

const INSIDE: &[Row] = &[
    ("read", "a.txt", "echo x > a.txt", "allow"),
    ("write", "a.txt", "echo x > a.txt", "allow"),
    ("write", "new/deep/a.txt", "", "allow"),
    ("read", "in/link.txt", "mkdir in; echo x > a.txt; ln -s ../a.txt in/link.txt", "allow"),
    ("read", "$WS/a.txt", "echo x > a.txt", "allow"),
    ("read", "abs", "echo x > a.txt; ln -s $WS/a.txt abs", "allow"),
    ("write", "-n", "", "allow"),
    ("write", "--", "", "allow"),
    ("read", "my dir/été 文.txt", "mkdir 'my dir'; echo x > 'my dir/été 文.txt'", "allow"),
    ("list", ".", "", "allow"),
    ("list", "sub/..", "mkdir sub", "allow"),
    ("create", "a.txt", "", "allow"),
    ("delete", "a.txt", "echo x > a.txt", "allow"),
    ("delete", "sub", "mkdir -p sub/deep; echo x > sub/deep/f", "allow"),
    ("delete", "fifo", "mkfifo fifo", "allow"),
    ("read", ".git/config", "git init -q .", "allow"),
    ("write", ".gitignore", "", "allow"),
    ("write", ".github/workflows/ci.yml", "", "allow"),
];

const OUTSIDE: &[Row] = &[
    ("read", "../out/secret.txt", "echo s > $OUT/secret.txt", "deny"),
    ("write", "sub/../../out/x", "mkdir sub", "deny"),
    ("write", "nosuch/../../out/x", "", "deny"),
    ("write", "file/../../out/x", "echo x > file", "deny"),
    ("list", "..", "", "deny"),
    ("create", "../out/x", "", "deny"),
    ("delete", "../out/x", "echo x > $OUT/x", "deny"),
    ("read", "/etc/shadow", "", "deny"),
    ("write", "$OUT/x", "", "deny"),
    ("read", "$WS-beside/x", "mkdir $WS-beside; echo x > $WS-beside/x", "deny"),
    ("read", "%2e%2e/out/secret.txt", "echo s > $OUT/secret.txt", "error"),
    ("read", "file:///etc/shadow", "", "error"),
    ("read", "~/.ssh/id_ed25519", "", "deny"),
    ("read", "~root/.bashrc", "", "deny"),
    ("write", "$HOME/.bashrc", "", "deny"),
    ("write", "${HOME}/.bashrc", "", "deny"),
    ("read", "./~/x", "mkdir '~'; echo x > '~/x'", "allow"),
    ("write", "$HOME_DIR/.config/systemd/user/x.service", "", "deny"),
    ("read", "/proc/self/environ", "", "deny"),
    ("read", "/proc/$DPID/environ", "", "deny"),
    ("read", "/dev/stdin", "", "deny"),
    ("read", "/dev/zero", "", "deny"),
];

const LINKS: &[Row] = &[
    ("read", "l.txt", "echo s > $OUT/s; ln -s $OUT/s l.txt", "deny"),
    ("write", "l.txt", "ln -s $OUT/new l.txt", "deny"),
    ("create", "l.txt", "ln -s $OUT/new l.txt", "deny"),
    ("read", "d/s", "echo s > $OUT/s; ln -s $OUT d", "deny"),
    ("write", "d/x", "ln -s $OUT d", "deny"),
    ("list", "d", "ln -s $OUT d", "deny"),
    ("read", "c1", "echo s > $OUT/s; ln -s $OUT/s c3; ln -s c3 c2; ln -s c2 c1", "deny"),
    ("delete", "l.txt", "echo s > $OUT/s; ln -s $OUT/s l.txt", "allow"),
    ("delete", "d", "ln -s $OUT d", "allow"),
    ("delete", "d/", "mkdir $OUT/k; ln -s $OUT/k d", "deny"),
    ("delete", "d/.", "mkdir $OUT/k; ln -s $OUT/k d", "deny"),
    ("delete", "d/s", "echo s > $OUT/s; ln -s $OUT d", "deny"),
    ("delete", "loop", "ln -s loop loop", "allow"),
    ("read", "loop", "ln -s loop loop", "error"),
    ("read", "m/etc/shadow", "ln -s /proc/self/root m", "deny"),
    ("read", "zero", "ln -s /dev/zero zero", "deny"),
    ("read", "h.txt", "echo s > $OUT/s; ln $OUT/s h.txt", "ask"),
    ("read", "b", "echo s > a; ln a b", "allow"),
];

const SPECIAL: &[Row] = &[
    ("read", "", "", "error"),
    ("write", ".", "", "error"),
    ("delete", ".", "", "deny"),
    ("read", "nosuch", "", "error"),
    ("list", "nosuch", "", "error"),
    ("delete", "nosuch", "", "error"),
    ("list", "f", "echo x > f", "error"),
    ("read", "d", "mkdir d", "error"),
    ("write", "d", "mkdir d", "error"),
    ("write", "new/", "", "error"),
    ("create", "f", "echo x > f", "error"),
    ("read", "f/x", "echo x > f", "error"),
    ("read", "fifo", "mkfifo fifo", "error"),
    ("write", "fifo", "mkfifo fifo", "error"),
    ("write", "a\nb.txt", "", "ask"),
    ("write", "\u{202e}txt.exe", "", "ask"),
    ("read", "f\u{ff}o", "touch \"$(printf 'f\\377o')\"", "allow"),
    ("write", "f\u{ff}o", "", "ask"),
];

const NAMES: &[Row] = &[
    ("write", ".git/hooks/pre-commit", "git init -q .", "deny"),
    ("delete", ".git/HEAD", "git init -q .", "deny"),
    ("delete", ".git", "git init -q .", "deny"),
    ("delete", "sub", "git init -q sub", "deny"),
    ("write", ".GIT/config", "", "deny"),
    ("write", ".git\u{200c}/config", "", "deny"),
    ("write", ".git./config", "", "deny"),
    ("write", ".git /config", "", "deny"),
    ("write", "git~1/config", "", "deny"),
    ("write", ".git::$INDEX_ALLOCATION/config", "", "deny"),
    ("write", "g/hooks/x", "git init -q .; ln -s .git g", "deny"),
    ("create", "bare/HEAD", "mkdir -p bare/objects bare/refs", "ask"),
    ("write", "bare.git/hooks/post-receive", "git init -q --bare bare.git", "ask"),
    ("write", ".git", "mkdir real; echo 'gitdir: real' > .git", "deny"),
    ("write", "real/hooks/x", "mkdir -p real/hooks; echo 'gitdir: real' > .git", "deny"),
    ("write", "w/../m/config", "mkdir -p w m/worktrees/w; echo 'gitdir: ../m/worktrees/w' > w/.git", "allow"),
    (
        "write",
        "m/config",
        "mkdir -p m/worktrees/w; echo ../.. > m/worktrees/w/commondir; echo 'gitdir: m/worktrees/w' > .git",
        "deny",
    ),
    ("write", ".gitmodules", "", "ask"),
    ("write", ".gitattributes", "", "ask"),
    ("write", ".envrc", "", "ask"),
    ("write", ".VSCode/Settings.JSON", "", "ask"),
    ("write", ".idea/workspace.xml", "", "ask"),
    ("write", ".cargo/config.toml", "", "ask"),
    ("write", ".npmrc", "", "ask"),
    ("write", "sub/.bashrc", "", "ask"),
    ("write", ".agentd/config.toml", "", "ask"),
    ("delete", ".envrc", "touch .envrc", "ask"),
];

const OURS: &[Row] = &[
    ("write", "$CONF/config.toml", "", "deny"),
    ("read", "$STATE/agentd.db", "", "deny"),
    ("write", "$STATE/agentd.db-wal", "", "deny"),
    ("write", "$RUN/agentd.sock", "", "deny"),
    ("delete", "$RUN/agentd.sock", "", "deny"),
    ("write", "c/config.toml", "ln -s $CONF c", "deny"),
    ("read", "h", "ln $STATE/agentd.db h", "deny"),
    ("write", "h", "ln $STATE/agentd.db h", "deny"),
];

/// A workspace and a folder outside of it, fresh for each row.
struct Place {
    workspace: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl Place {
    fn new(home: &TestHome, number: usize) -> Self {
        let base = home.root().join("rows").join(number.to_string());
        let (workspace, out) = (base.join("ws"), base.join("out"));
        for folder in [&workspace, &out] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let text = |path: &Path| path.display().to_string();
        let variables = vec![
            ("$WS", text(&workspace)),
            ("$OUT", text(&out)),
            ("$HOME_DIR", text(&home.root().join("user"))),
            ("$CONF", text(&home.agentd().join("config"))),
            ("$STATE", text(&home.agentd().join("data"))),
            ("$RUN", text(&home.agentd().join("run"))),
            ("$DPID", home.daemon_pid().to_string()),
        ];
        Self { workspace, variables }
    }

    /// `$HOME` is no variable here: the tools must not expand it.
    fn fill(&self, text: &str) -> String {
        self.variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}

/// The path of a row; `\u{ff}` stands for the byte, which is no text.
fn os(path: &str) -> OsString {
    OsString::from_vec(
        path.replace('\u{ff}', "\0")
            .into_bytes()
            .into_iter()
            .map(|b| if b == 0 { 0xff } else { b })
            .collect(),
    )
}

fn judged(home: &TestHome, op: &str, folder: &Path, mode: &str, path: &OsStr) -> Value {
    let flags = ["policy", "check-path", "--json", "--op", op, "--mode", mode, "--cwd"];
    let mut args: Vec<&OsStr> = flags.iter().map(OsStr::new).collect();
    args.extend([folder.as_os_str(), OsStr::new("--"), path]);
    let said = home.cli(args).run();
    assert_eq!(said.code, Some(0), "{said}");
    said.json()
}

fn snapshot(folder: &Path) -> String {
    let found = std::process::Command::new("find").arg(folder).args(["-printf", "%p %m %s %n\n"]).output();
    String::from_utf8_lossy(&found.unwrap().stdout).into_owned()
}

#[test]
fn paths_of_every_kind_are_judged_as_they_must_be() {
    let home = TestHome::new(binary());
    home.start_daemon();
    let mut wrong = Vec::new();
    let rows = [INSIDE, OUTSIDE, LINKS, SPECIAL, NAMES, OURS].concat();
    for (number, (op, path, setup, expected)) in rows.iter().enumerate() {
        let place = Place::new(&home, number);
        let made = std::process::Command::new("sh")
            .args(["-ec", &place.fill(setup)])
            .current_dir(&place.workspace)
            .status()
            .unwrap();
        assert!(made.success(), "{setup}");
        let before = snapshot(place.workspace.parent().unwrap());
        let said = judged(&home, op, &place.workspace, "workspace", &os(&place.fill(path)));
        if said["decision"] != *expected {
            wrong.push(format!("{op} {path:?} ({setup}): {expected}, but {said}"));
        }
        assert_eq!(said["parts"], json!([]));
        assert!(said["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{said}");
        assert_eq!(snapshot(place.workspace.parent().unwrap()), before, "{op} {path:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_modes_judge_by_their_table() {
    let home = TestHome::new(binary());
    home.start_daemon();
    let place = Place::new(&home, 0);
    std::fs::write(place.workspace.join("a"), "x").unwrap();
    let outside = place.fill("$OUT/new");
    let rows = [
        ("read", "a", ["allow", "allow", "allow", "allow"]),
        ("write", "a", ["deny", "ask", "allow", "allow"]),
        ("create", "new", ["deny", "ask", "allow", "allow"]),
        ("delete", "a", ["deny", "ask", "allow", "allow"]),
        ("write", outside.as_str(), ["deny", "deny", "deny", "allow"]),
        ("write", ".git/config", ["deny", "deny", "deny", "deny"]),
        ("write", ".npmrc", ["deny", "ask", "ask", "ask"]),
    ];
    for (op, path, expected) in rows {
        for (mode, expected) in ["read-only", "ask", "workspace", "full"].iter().zip(expected) {
            let said = judged(&home, op, &place.workspace, mode, OsStr::new(path));
            assert_eq!(said["decision"], expected, "{op} {path} in {mode}: {said}");
        }
    }
    // Through a link the workspace is the same.
    let link = place.workspace.with_file_name("link");
    std::os::unix::fs::symlink(&place.workspace, &link).unwrap();
    let whole = link.join("a");
    for path in [OsStr::new("a"), whole.as_os_str()] {
        assert_eq!(judged(&home, "write", &link, "workspace", path)["decision"], "allow");
    }
    let said = home.cli(["policy", "check-path", "--op", "write", ".git/config"]).run().ok();
    assert!(said.stdout.starts_with("deny  write .git/config\n  .git/config is protected"), "{said}");
}

#[test]
fn our_own_folders_are_denied_inside_a_workspace_too() {
    let home = TestHome::new(binary());
    home.start_daemon();
    for (op, path) in [
        ("write", "agentd/config/config.toml"),
        ("read", "agentd/data/agentd.db"),
        ("delete", "agentd/run"),
        ("delete", "agentd"),
    ] {
        let said = judged(&home, op, home.root(), "full", OsStr::new(path));
        assert_eq!(said["decision"], "deny", "{op} {path}: {said}");
    }
}

#[test]
fn commands_are_judged_one_by_one_and_in_batches() {
    let home = TestHome::new(binary());
    let one = |more: &[&str]| {
        let args = [&["policy", "check", "--json", "--command", "touch x"], more].concat();
        home.cli(args).run().ok().json()
    };
    let said = one(&[]);
    assert_eq!((&said["decision"], &said["effect"]), (&json!("ask"), &json!("unsafe")), "{said}");
    assert_eq!(one(&["--mode", "read-only"])["decision"], "deny");
    assert_eq!(one(&["--mode", "workspace"])["decision"], "ask");
    assert_eq!(one(&["--mode", "workspace", "--assume-sandbox"])["decision"], "allow");
    assert_eq!(one(&["--mode", "full"])["decision"], "allow");

    let lines: String =
        (0..450).map(|n| format!("{{\"id\":\"n{n}\",\"command\":\"touch {n}\"}}\n\n")).collect();
    let said = home.cli(["policy", "check", "--batch", "-", "--mode", "full"]).stdin(lines).run().ok();
    let rows: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 450);
    for (n, row) in rows.iter().enumerate() {
        assert_eq!((&row["id"], &row["decision"]), (&json!(format!("n{n}")), &json!("allow")));
    }
    let rules = "{\"command\":\"ls\",\"rules\":[]}\n";
    let said = home.cli(["policy", "check", "--batch", "-"]).stdin(rules).run();
    assert!(said.code != Some(0) && said.stderr.contains("by other rules"), "{said}");
}

/// What was asked of the command is what the tools do.
#[test]
fn the_tools_do_as_was_judged() {
    let call = |id: &str, tool: &str, args: Value| Answer::calling(id, tool, args);
    let answers = [
        call("toolu_1", "read_file", json!({ "path": "l.txt" })),
        call("toolu_2", "write_file", json!({ "path": ".git/hooks/pre-commit", "content": "x" })),
        call("toolu_3", "write_file", json!({ "path": "~/x", "content": "x" })),
        call("toolu_4", "write_file", json!({ "path": "sub/x", "content": "x" })),
        Answer::saying("done"),
    ];
    let (model, home) = world(answers);
    std::fs::write(home.root().join("secret"), "s").unwrap();
    std::os::unix::fs::symlink("../secret", home.workspace().join("l.txt")).unwrap();
    let session = home.new_session(["--permission-mode", "workspace"]);
    home.send_and_wait(&session, "go");
    let request = model.last_request();
    let paths = [("read", "l.txt"), ("write", ".git/hooks/pre-commit"), ("write", "~/x"), ("write", "sub/x")];
    for (n, (op, path)) in paths.iter().enumerate() {
        let said = judged(&home, op, &home.workspace(), "workspace", OsStr::new(path));
        let result = request.result_of(&format!("toolu_{}", n + 1));
        assert_eq!(result.is_error, said["decision"] != "allow", "{path}: {said} but {}", result.text);
        if result.is_error {
            assert!(result.text.contains(said["reason"].as_str().unwrap()), "{said} but {}", result.text);
        }
    }
}
