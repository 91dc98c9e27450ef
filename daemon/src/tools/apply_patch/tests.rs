mod kill_tests;

use super::*;
use crate::ports::Evidence;
use crate::tools::commit;
use crate::tools::tests::{Bench, path_bytes};
use agentd_core::event::{CallOutcome, PathOp, PermissionMode};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn envelope(body: &str) -> String {
    format!("*** Begin Patch\n{body}*** End Patch\n")
}

impl Bench {
    async fn patch(&mut self, patch: &str) -> CallEnd {
        self.run("apply_patch", json!({ "patch": patch })).await
    }

    /// An inspected call.
    async fn patch_call(&self, patch: &str) -> CallContext {
        let mut ctx = self.call("apply_patch", &json!({ "patch": patch }));
        let found = self.tools.inspect(&ctx, &self.redactor).await;
        ctx.binding = found.unwrap_or_else(|fault| panic!("{}", fault.text)).binding;
        ctx
    }

    /// Every file and folder below the workspace, with content and bits.
    fn tree(&self) -> BTreeMap<String, (u32, Option<Vec<u8>>)> {
        fn walk(root: &Path, at: &Path, out: &mut BTreeMap<String, (u32, Option<Vec<u8>>)>) {
            for entry in std::fs::read_dir(at).unwrap() {
                let path = entry.unwrap().path();
                let stat = std::fs::symlink_metadata(&path).unwrap();
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                let mode = stat.permissions().mode() & 0o7777;
                if stat.is_dir() {
                    out.insert(name, (mode, None));
                    walk(root, &path, out);
                } else if stat.is_file() {
                    out.insert(name, (mode, Some(std::fs::read(&path).unwrap())));
                } else {
                    let target = std::fs::read_link(&path).unwrap();
                    out.insert(name, (0, Some(target.to_string_lossy().into_owned().into_bytes())));
                }
            }
        }
        let mut out = BTreeMap::new();
        walk(&self.at("."), &self.at("."), &mut out);
        out
    }
}

#[tokio::test]
async fn all_kinds_of_change_happen_together() {
    let mut bench = Bench::new();
    chmod(&bench.put("run.sh", "#!/bin/sh\r\necho one\r\n"), 0o755);
    chmod(&bench.put("secret", "\u{feff}key\nvalue"), 0o600);
    bench.put("gone", "bye\n");
    bench.put("latin", b"d\xe9j\xe0 vu, \xe7a va\ncaf\xe9 cr\xe8me\n");
    bench.put("real", "a\n");
    symlink("real", bench.at("link")).unwrap();
    bench.read("gone").await;
    let patch = envelope(
        "*** Update File: run.sh\n*** Move to: bin/tool\n@@\n-echo one\n+echo two\n+echo three\n\
         *** Update File: secret\n@@\n-value\n+other\n\
         *** Delete File: gone\n\
         *** Update File: latin\n@@\n-caf\u{e9} cr\u{e8}me\n+th\u{e9} cr\u{e8}me\n\
         *** Update File: link\n@@\n-a\n+b\n\
         *** Add File: new/deep/file.txt\n+x\n",
    );
    let ctx = bench.call("apply_patch", &json!({ "patch": patch }));
    let found = bench.tools.inspect(&ctx, &bench.redactor).await.unwrap();
    let ops: Vec<PathOp> = found.paths.iter().map(|facts| facts.op).collect();
    use PathOp::{Create, Delete, Write};
    assert_eq!(ops, [Delete, Create, Write, Delete, Write, Write, Create]);
    let preview = found.preview.unwrap();
    for part in [
        "rename from run.sh\nrename to bin/tool\n",
        "-caf\u{e9} cr\u{e8}me\n+th\u{e9}",
        "--- a/gone\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-bye\n",
        "--- /dev/null\n+++ b/new/deep/file.txt\n",
    ] {
        assert!(preview.contains(part), "{part}\n{preview}");
    }
    let end = bench.patch(&patch).await;
    assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
    assert_eq!(
        end.text,
        "Moved run.sh to bin/tool: 1 place, line 2\nUpdated secret: 1 place, line 2\nDeleted gone\n\
         Updated latin: 1 place, line 2\nUpdated link: 1 place, line 1\nAdded new/deep/file.txt"
    );
    assert_eq!(bench.names(), ["bin", "latin", "link", "new", "real", "secret"]);
    assert_eq!(
        (bench.get("bin/tool"), bench.mode_of("bin/tool")),
        (b"#!/bin/sh\r\necho two\r\necho three\r\n".to_vec(), 0o755)
    );
    assert_eq!((bench.get("secret"), bench.mode_of("secret")), ("\u{feff}key\nother".into(), 0o600));
    assert_eq!(bench.get("latin"), b"d\xe9j\xe0 vu, \xe7a va\nth\xe9 cr\xe8me\n");
    assert_eq!((bench.get("real"), bench.mode_of("new/deep/file.txt")), (b"b\n".to_vec(), 0o644));
    assert!(std::fs::symlink_metadata(bench.at("link")).unwrap().is_symlink());
    let changed: Vec<_> = end
        .files
        .iter()
        .map(|file| (file.before.is_some(), file.after.is_some(), file.before_mode, file.after_mode))
        .collect();
    assert_eq!(changed.len(), 7);
    assert_eq!(changed[0], (false, true, None, Some(0o755)));
    assert_eq!(changed[1], (true, false, Some(0o755), None));
    assert_eq!(changed[2], (true, true, Some(0o600), Some(0o600)));
    assert_eq!(end.seen.len(), 5);
    // What was written is known from here on.
    let end = bench.patch(&envelope("*** Delete File: bin/tool\n*** Update File: real\n@@\n-b\n+c\n")).await;
    assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
}

#[tokio::test]
async fn git_diffs_are_taken_too() {
    let mut bench = Bench::new();
    bench.put("a", "1\n2\n3\n");
    bench.put("old", "x\ny\n");
    bench.put("m", "keep\n");
    let end = bench
        .patch(
            "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n\
             diff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n\
             diff --git a/m b/n\nsimilarity index 100%\nrename from m\nrename to n\n\
             diff --git a/run b/run\nnew file mode 100755\n--- /dev/null\n+++ b/run\n@@ -0,0 +1 @@\n+#!/bin/sh\n\
             diff --git a/empty b/empty\nnew file mode 100644\n",
        )
        .await;
    assert_eq!(end.text, "Updated a: 1 place, line 2\nDeleted old\nMoved m to n\nAdded run\nAdded empty");
    assert_eq!(bench.names(), ["a", "empty", "n", "run"]);
    assert_eq!(
        (bench.get("a"), bench.get("n"), bench.get("empty")),
        (b"1\ntwo\n3\n".to_vec(), b"keep\n".to_vec(), Vec::new())
    );
    assert_eq!(bench.mode_of("run"), 0o755);
}

#[tokio::test]
async fn sections_about_one_file_add_up_or_are_refused() {
    let mut bench = Bench::new();
    bench.put("f", "a\nb\nc\n");
    symlink("f", bench.at("l")).unwrap();
    let end = bench
        .patch(&envelope("*** Update File: f\n@@\n-c\n+C\n*** Update File: ./f\n@@\n-a\n+A\n*** Update File: l\n@@\n-b\n+B\n"))
        .await;
    assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
    assert_eq!((bench.get("f"), end.files.len()), (b"A\nB\nC\n".to_vec(), 1));
    for patch in [
        "*** Delete File: f\n*** Update File: f\n@@\n-A\n+a\n",
        "*** Update File: f\n@@\n-A\n+a\n*** Delete File: f\n",
        "*** Add File: n\n+a\n*** Add File: n\n+b\n",
        "*** Update File: f\n*** Move to: n\n*** Add File: n\n+b\n",
    ] {
        let end = bench.patch(&envelope(patch)).await;
        assert_eq!(end.error_class.as_deref(), Some("patch_twice"), "{}", end.text);
    }
    assert_eq!(bench.get("f"), b"A\nB\nC\n");
}

#[tokio::test]
async fn what_is_refused_changes_nothing_and_says_why() {
    let mut bench = Bench::new();
    bench.put("a", "one\n");
    bench.put("b", "two\n");
    bench.put("dir/x", "x\n");
    bench.put("marked", "key = abc\n");
    symlink("b", bench.at("link")).unwrap();
    let before = bench.tree();
    let first = "*** Update File: a\n@@\n-one\n+1\n";
    let rows = [
        (
            "*** Update File: nosuch\n@@\n-a\n+b\n",
            "not_found",
            "Nothing was changed: File not found: nosuch. Nearest folder:",
        ),
        (
            "*** Update File: b\n@@\n-tvo\n+2\n",
            "patch_not_found",
            "Nothing was changed: b: hunk 1 (line 7 of the patch): its lines",
        ),
        ("*** Add File: b\n+2\n", "exists", "Nothing was changed: b is there already (a file)"),
        ("*** Add File: dir\n+2\n", "exists", "Nothing was changed: dir is there already (a folder)"),
        ("*** Delete File: nosuch\n", "not_found", "Nothing was changed: File not found"),
        ("*** Delete File: b\n", "not_read", "Nothing was changed: b is to be deleted and was not read"),
        ("*** Delete File: link\n", "file_type", "Nothing was changed: link is a link to "),
        ("*** Delete File: dir\n", "file_type", ""),
        ("*** Update File: b\n*** Move to: dir/x\n", "exists", "Nothing was changed: dir/x is there already"),
        ("*** Update File: link\n*** Move to: n\n", "file_type", "Nothing was changed: link is a link to "),
        ("*** Update File: marked\n@@\n-key = abc\n+key = [REDACTED:x]\n", "redaction_mark", ""),
        ("*** Add File: n\n+\u{fffd}\n", "encoding", ""),
        ("*** Update File: b\n@@\n-two\n+two\n", "", ""),
        ("garbage\n", "patch_form", "Nothing was changed: line 6 of the patch"),
    ];
    for (section, class, text) in rows {
        let patch = envelope(&format!("{first}{section}"));
        let end = bench.patch(&patch).await;
        if class.is_empty() {
            assert_eq!(end.text, "Updated a: 1 place, line 1\nb stays as it is");
            bench.put("a", "one\n");
            bench.seen.clear();
            continue;
        }
        assert_eq!(end.error_class.as_deref(), Some(class), "{}", end.text);
        assert!(end.text.starts_with(text), "{}", end.text);
        assert_eq!(bench.tree(), before, "{section}");
    }
    let end = bench.patch(&envelope("*** Update File: b\n@@\n-two\n+two\n")).await;
    assert_eq!(end.error_class.as_deref(), Some("edit_empty"), "{}", end.text);
    bench.read("b").await;
    bench.put("b", "two\nmore\n");
    let end = bench.patch(&envelope("*** Update File: b\n@@\n-two\n+2\n")).await;
    assert_eq!(end.error_class.as_deref(), Some("changed"), "{}", end.text);
    let end = bench.patch(&envelope("*** Delete File: b\n")).await;
    assert_eq!(end.error_class.as_deref(), Some("changed"), "{}", end.text);
}

#[tokio::test]
async fn every_path_is_judged_and_none_outside_is_touched() {
    let mut bench = Bench::new();
    bench.put("a", "one\n");
    let outside = bench.at("../out/f");
    std::fs::write(&outside, "theirs\n").unwrap();
    symlink("../out", bench.at("way")).unwrap();
    for path in ["../out/f", "way/f", outside.to_str().unwrap()] {
        for section in [
            format!("*** Update File: {path}\n@@\n-theirs\n+ours\n"),
            format!("*** Delete File: {path}\n"),
            format!("*** Add File: {path}2\n+x\n"),
            format!("*** Update File: a\n*** Move to: {path}3\n"),
        ] {
            let patch = envelope(&format!("*** Add File: new\n+x\n{section}"));
            let mut ctx = bench.call("apply_patch", &json!({ "patch": patch }));
            let found = bench.tools.inspect(&ctx, &bench.redactor).await.unwrap();
            assert!(found.paths.iter().any(|facts| !facts.inside) && found.binding.is_none(), "{section}");
            assert!(found.preview.is_none());
            ctx.binding = Some(Binding::Files(Vec::new()));
            let end = bench.tools.run(&ctx, &bench.redactor).await;
            assert_eq!(end.error_class.as_deref(), Some("outside"), "{}", end.text);
        }
    }
    let ctx = bench
        .call("apply_patch", &json!({ "patch": envelope("*** Add File: .git/hooks/post-commit\n+x\n") }));
    assert!(bench.tools.inspect(&ctx, &bench.redactor).await.unwrap().paths[0].protected.is_some());
    assert_eq!(
        (bench.names(), std::fs::read(&outside).unwrap()),
        (vec!["a".into(), "way".into()], b"theirs\n".to_vec())
    );
    bench.mode = PermissionMode::Full;
    let end = bench.patch(&envelope("*** Update File: ../out/f\n@@\n-theirs\n+ours\n*** Add File: ../out/d/g\n+x\n*** Update File: a\n*** Move to: ../out/a\n")).await;
    assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
    assert_eq!(std::fs::read(&outside).unwrap(), b"ours\n");
    assert_eq!(bench.names(), ["way"]);
}

#[tokio::test]
async fn what_changed_since_the_check_is_not_patched() {
    let bench = Bench::new();
    for name in ["a", "b"] {
        bench.put(name, "one\n");
    }
    let patch =
        envelope("*** Update File: a\n@@\n-one\n+1\n*** Update File: b\n@@\n-one\n+1\n*** Add File: n\n+x\n");
    let ctx = bench.patch_call(&patch).await;
    let run = async |name: &str| {
        let end = bench.tools.run(&ctx, &bench.redactor).await;
        assert_eq!(end.error_class.as_deref(), Some("changed"));
        assert!(
            end.text.contains(name)
                && end.text.contains("has changed since this call was checked. Nothing was changed."),
            "{}",
            end.text
        );
        assert_eq!(bench.get("a"), b"one\n");
    };
    bench.put("b", "two\n");
    run("b").await;
    bench.put("b", "one\n");
    bench.put("n", "theirs\n");
    run("n").await;
    std::fs::remove_file(bench.at("n")).unwrap();
    std::fs::remove_file(bench.at("b")).unwrap();
    run("b").await;
    symlink("a", bench.at("b")).unwrap();
    run("b").await;
}

#[tokio::test]
async fn a_failure_anywhere_puts_everything_back() {
    let long = "n".repeat(300);
    let bads = [
        // The name is too long, a file is in the way of a folder, a folder is made where a file is to be.
        format!("*** Add File: sub/{long}\n+x\n"),
        "*** Add File: new/x\n+x\n*** Add File: new/x/y\n+x\n".to_owned(),
        "*** Add File: q/x/y\n+x\n*** Add File: q/x\n+x\n".to_owned(),
    ];
    for bad in bads {
        let mut bench = Bench::new();
        chmod(&bench.put("a", "one\n"), 0o755);
        chmod(&bench.put("b", "two\n"), 0o600);
        chmod(&bench.put("c", "three\n"), 0o640);
        let inode = |bench: &Bench, name: &str| {
            std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(bench.at(name)).unwrap())
        };
        let (before, inodes) = (bench.tree(), ["a", "b", "c"].map(|name| inode(&bench, name)));
        let patch = envelope(&format!(
            "*** Update File: a\n@@\n-one\n+1\n*** Update File: b\n*** Move to: d/e/b\n@@\n-two\n+2\n{bad}*** Update File: c\n@@\n-three\n+3\n"
        ));
        let end = bench.patch(&patch).await;
        assert_eq!(end.outcome, CallOutcome::Error, "{}", end.text);
        assert!(
            end.text.contains("Nothing was changed") || end.text.contains("cannot be looked at"),
            "{}",
            end.text
        );
        assert!(end.files.is_empty() && end.seen.is_empty());
        assert_eq!(bench.tree(), before, "{}", end.text);
        assert_eq!(["a", "b", "c"].map(|name| inode(&bench, name)), inodes);
    }
}

/// Puts something in the way in the very middle: the swap of the last file fails after all others are in place.
#[tokio::test]
async fn a_failure_of_the_last_exchange_puts_the_very_files_back() {
    for theirs in [false, true] {
        let bench = Bench::new();
        for (name, mode) in [("a", 0o755), ("b", 0o600), ("gone", 0o644), ("m", 0o640)] {
            chmod(&bench.put(name, format!("{name}\n")), mode);
        }
        let mut ctx = bench.patch_call("*** Update File: m\n*** Move to: k/m\n*** Update File: a\n@@\n-a\n+A\n*** Update File: b\n@@\n-b\n+B\n*** Add File: n\n+x\n*** End Patch").await;
        let before = bench.tree();
        // Of five staged and four exchanged; then the fifth is made by somebody else.
        let (at, target, other, mut asked) = (10, bench.at("n"), bench.at("a"), 0);
        let end = make(&bench.tools, &ctx, &bench.redactor, move || {
            asked += 1;
            if asked == at {
                std::fs::write(&target, "theirs\n").unwrap();
                if theirs {
                    std::fs::write(&other, "theirs too\n").unwrap();
                }
            }
            false
        })
        .await
        .unwrap();
        std::fs::remove_file(bench.at("n")).unwrap();
        if !theirs {
            assert_eq!(end.error_class.as_deref(), Some("changed"), "{}", end.text);
            assert!(end.text.starts_with("Nothing was changed. n could not be changed"), "{}", end.text);
            assert_eq!(bench.tree(), before);
            ctx = bench.patch_call(&envelope("*** Add File: n\n+x\n")).await;
            assert_eq!(bench.tools.run(&ctx, &bench.redactor).await.outcome, CallOutcome::Ok);
            continue;
        }
        assert_eq!(end.error_class.as_deref(), Some("partly"), "{}", end.text);
        assert!(end.text.contains("\na: somebody else changed it"), "{}", end.text);
        assert_eq!(end.files.len(), 1);
        assert_eq!(bench.get("a"), b"theirs too\n");
        bench.put("a", "a\n");
        assert_eq!(bench.tree(), before);
    }
}

#[tokio::test]
async fn two_hundred_files_are_one_change() {
    let mut bench = Bench::new();
    let mut patch = String::from("*** Begin Patch\n");
    for number in 0..200 {
        bench.put(&format!("d{}/f{number}", number % 7), format!("a\n{number}\nb\n"));
        patch.push_str(&format!(
            "*** Update File: d{}/f{number}\n@@\n a\n-{number}\n+new {number}\n",
            number % 7
        ));
    }
    patch.push_str("*** End Patch\n");
    let end = bench.patch(&patch).await;
    assert_eq!(
        (end.outcome, end.files.len(), end.text.lines().count()),
        (CallOutcome::Ok, 200, 200),
        "{}",
        end.text
    );
    assert!((0..200).all(|number| bench.get(&format!("d{}/f{number}", number % 7))
        == format!("a\nnew {number}\nb\n").into_bytes()));
    assert_eq!(bench.tree().len(), 207);
    let ctx = bench.patch_call(&patch.replace("\n-", "\n-new ").replace("\n+new ", "\n+")).await;
    assert!(kill_tests::killed(&bench, &ctx, 300).await);
    assert!(matches!(bench.tools.evidence(&ctx).await, Evidence::NotStarted { .. }));
    assert!((0..200).all(|number| bench.get(&format!("d{}/f{number}", number % 7))
        == format!("a\nnew {number}\nb\n").into_bytes()));
    assert_eq!(bench.tree().len(), 207);
}

#[test]
fn the_folder_of_a_session_may_be_below_its_root() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut bench = Bench::new();
    bench.put("sub/f", "a\n");
    bench.cwd = path_bytes(&bench.at("sub"));
    let end =
        runtime.block_on(bench.patch(&envelope("*** Update File: f\n@@\n-a\n+b\n*** Add File: ../g\n+x\n")));
    assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
    assert_eq!((bench.get("sub/f"), bench.get("g")), (b"b\n".to_vec(), b"x\n".to_vec()));
}

/// One by one the files of a git folder are harmless; together git would run what they name.
#[tokio::test]
async fn a_patch_that_makes_a_git_folder_asks_for_each_of_its_files() {
    let bench = Bench::new();
    bench.put("plain/refs/x", b"");
    let made = |folder: &str, names: &[&str]| {
        envelope(&names.iter().map(|name| format!("*** Add File: {folder}{name}\n+x\n")).collect::<String>())
    };
    let rows = [
        (made("b/", &["HEAD", "config", "objects/x", "refs/heads/.keep"]), 4),
        (made("", &["HEAD", "objects/x", "refs/y", "other.txt"]), 4),
        (made("plain/", &["objects/x", "HEAD"]), 2),
        (made("b/", &["HEAD", "commondir"]), 2),
        (made("b/", &["HEAD", "README"]), 0),
    ];
    for (patch, asked) in rows {
        let ctx = bench.call("apply_patch", &json!({ "patch": patch }));
        let found =
            bench.tools.inspect(&ctx, &bench.redactor).await.unwrap_or_else(|fault| panic!("{}", fault.text));
        let cautious = found.paths.iter().filter(|path| path.caution.is_some()).count();
        assert!(cautious >= asked.min(1) && (asked > 0 || cautious == 0), "{cautious} of {asked}: {patch}");
    }
}
