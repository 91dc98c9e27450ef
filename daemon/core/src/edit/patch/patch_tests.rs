use super::*;
use proptest::prelude::*;

fn quote(line: &[u8]) -> Vec<u8> {
    line.to_vec()
}

fn apply_to(content: &[u8], hunks: &[Hunk]) -> Result<Vec<u8>, PatchError> {
    patched(content, hunks, &quote).map(|edited| edited.bytes)
}

/// The patch of one file, applied to a content.
fn one(patch: &str, content: &[u8]) -> Result<Vec<u8>, PatchError> {
    let patch = parse(patch)?;
    assert_eq!(patch.files.len(), 1, "{patch:?}");
    match &patch.files[0].change {
        Change::Update { hunks, .. } | Change::Delete { hunks } => apply_to(content, hunks),
        Change::Add { content, .. } => Ok(content.clone().into_bytes()),
    }
}

fn update(body: &str) -> String {
    format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch\n")
}

fn diff(body: &str) -> String {
    format!("--- a/f\n+++ b/f\n{body}")
}

#[test]
fn hunks_of_both_forms_give_what_they_say() {
    let rows: Vec<(String, &[u8], &[u8])> = vec![
        (update("@@\n a\n-b\n+B\n c\n"), b"a\nb\nc\n", b"a\nB\nc\n"),
        (update("-b\n+B\n"), b"a\nb\nc\n", b"a\nB\nc\n"),
        (update("@@ def g():\n-    pass\n+    return 1\n"), b"def f():\n    pass\ndef g():\n    pass\n", b"def f():\n    pass\ndef g():\n    return 1\n"),
        (update("@@ class B\n@@ def f\n-  x\n+  y\n"), b"class A\n def f\n  x\nclass B\n def f\n  x\n", b"class A\n def f\n  x\nclass B\n def f\n  y\n"),
        (update("@@ b\n+new\n"), b"a\nb\nc\n", b"a\nb\nnew\nc\n"),
        (update("@@\n+new\n"), b"a\n", b"a\nnew\n"),
        (update("@@\n+new\n"), b"", b"new\n"),
        (update("@@\n-x\n+y\n*** End of File\n"), b"x\na\nx\n", b"x\na\ny\n"),
        // A blank line that lost its space stays a blank line.
        (update("@@\n a\n\n-b\n+B\n\n"), b"a\n\nb\n", b"a\n\nB\n"),
        (update("@@ -4,1 +4,1 @@\n-x\n+y\n"), b"x\n1\n2\nx\n", b"x\n1\n2\ny\n"),
        (update("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n"), b"x\n", b"y\n"),
        // CRLF, BOM, no newline at the end, mixed ends.
        (update("@@\n a\n-b\n+B\n+C\n"), b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nC\r\nc\r\n"),
        (update("@@\r\n a\r\n-b\r\n+B\r\n"), b"a\nb\n", b"a\nB\n"),
        (update("@@\n-a\n+A\n"), b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfA\nb\n"),
        (update("@@\n-b\n+B\n"), b"a\nb", b"a\nB"),
        (update("@@\n b\n+c\n"), b"a\nb", b"a\nb\nc"),
        (update("@@\n a\n-b\n"), b"a\nb", b"a\n"),
        (update("@@\n-a\n-b\n+a\n+c\n"), b"a\r\nb\nd\n", b"a\r\nc\nd\n"),
        (update("@@\n-b\n+B\n"), b"a\rb\rc", b"a\rB\rc"),
        // Bytes in no encoding and in old ones.
        (update("@@\n-x = 1\n+x = 2\n"), b"x = 1\n\xff\xfe\xe9\n", b"x = 2\n\xff\xfe\xe9\n"),
        (update("@@\n-caf\u{e9} cr\u{e8}me\n+th\u{e9} cr\u{e8}me\n"), b"d\xe9j\xe0 vu, \xe7a va\ncaf\xe9 cr\xe8me\n", b"d\xe9j\xe0 vu, \xe7a va\nth\xe9 cr\xe8me\n"),
        (update("@@\n-b\n+\u{e9}\n"), b"\xff\xfea\0\n\0b\0\n\0", b"\xff\xfea\0\n\0\xe9\0\n\0"),
        // Unified.
        (diff("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"), b"a\nb\nc\n", b"a\nB\nc\n"),
        (diff("@@ -1,9 +1,7 @@ fn main() {\n a\n-b\n+B\n c\n"), b"a\nb\nc\n", b"a\nB\nc\n"),
        (diff("@@ -9,1 +9,1 @@\n-x\n+y\n"), b"x\n1\n2\nx\n", b"x\n1\n2\ny\n"),
        (diff("@@ -2,0 +3,1 @@\n+new\n"), b"a\nb\nc\n", b"a\nb\nnew\nc\n"),
        (diff("@@ -0,0 +1,1 @@\n+new\n"), b"", b"new\n"),
        (diff("@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"), b"a", b"a\n"),
        (diff("@@ -1,1 +1,1 @@\n-a\n+a\n\\ No newline at end of file\n"), b"a\n", b"a"),
        (diff("@@ -1,1 +1,2 @@\n a\n+b\n\\ No newline at end of file\n"), b"a\n", b"a\nb"),
        (diff("@@ -1,2 +1,1 @@\n-a\n-b\n\\ No newline at end of file\n+a\n\\ No newline at end of file\n"), b"a\nb", b"a"),
        (diff("@@ -1,2 +1,1 @@\n a\n-b\n\\ No newline at end of file\n"), b"a\nb", b"a\n"),
        // Lines that look like headers.
        (diff("@@ -1,2 +1,2 @@\n--- old\n+++ new\n z\n"), b"-- old\nz\n", b"++ new\nz\n"),
        (diff("@@ -1,1 +1,1 @@\n--- old\n+++ new\n@@ -3,1 +3,1 @@\n-a\n+b\n"), b"-- old\nz\na\n", b"++ new\nz\nb\n"),
        // A moved file drags the hunks after it along.
        (diff("@@ -1,1 +1,1 @@\n-m\n+M\n@@ -3,1 +3,1 @@\n-x\n+y\n"), b"0\n0\n0\n0\nm\nx\nx\n0\nx\n", b"0\n0\n0\n0\nM\nx\ny\n0\nx\n"),
        ("From: me\nSubject: x\n\ndiff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n-- \n2.39.0\n".to_owned(), b"a\n", b"b\n"),
    ];
    for (patch, before, after) in rows {
        let found = one(&patch, before).unwrap_or_else(|error| panic!("{error}\n{patch}"));
        assert_eq!(found.escape_ascii().to_string(), after.escape_ascii().to_string(), "\n{patch}");
    }
}

#[test]
fn every_kind_of_change_is_read() {
    let patch = parse(
        "```\n*** Begin Patch\n*** Add File: a b.txt\n+one\n+\n+two\n*** Delete File: gone\n*** Update File: x\n*** Move to: y/z\n\
         @@\n-1\n+2\n*** Update File: p\n*** Move to: q\n*** End Patch\n```\n",
    )
    .unwrap();
    let paths: Vec<_> = patch.files.iter().map(|file| (file.line, file.path.clone())).collect();
    assert_eq!(paths, [(3, "a b.txt".into()), (7, "gone".into()), (8, "x".into()), (13, "p".into())]);
    assert_eq!(patch.files[0].change, Change::Add { content: "one\n\ntwo\n".to_owned(), executable: false });
    assert_eq!(patch.files[1].change, Change::Delete { hunks: Vec::new() });
    assert!(
        matches!(&patch.files[2].change, Change::Update { move_to: Some(to), hunks } if *to == "y/z".into() && hunks.len() == 1)
    );
    assert!(
        matches!(&patch.files[3].change, Change::Update { move_to: Some(to), hunks } if *to == "q".into() && hunks.is_empty())
    );

    let patch = parse(
        "diff --git a/run.sh b/run.sh\nnew file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/run.sh\n@@ -0,0 +1,2 @@\n+#!/bin/sh\n+ls\n\
         diff --git a/old b/old\ndeleted file mode 100644\nindex 1..0\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
         diff --git a/m n b/o p\nsimilarity index 100%\nrename from m n\nrename to o p\n\
         diff --git a/empty b/empty\nnew file mode 100644\nindex 0..e69de29\n\
         diff --git \"a/\\303\\251\" \"b/\\303\\251\"\n--- \"a/\\303\\251\"\n+++ \"b/\\303\\251\"\n@@ -1 +1 @@\n-a\n+b\n\
         --- plain\t2020-01-01\n+++ plain\t2020-01-02\n@@ -1 +1 @@\n-a\n+b\n",
    )
    .unwrap();
    let kinds: Vec<String> = patch
        .files
        .iter()
        .map(|file| {
            let path = String::from_utf8_lossy(file.path.as_bytes()).into_owned();
            match &file.change {
                Change::Add { content, executable } => format!("add {path} {content:?} {executable}"),
                Change::Delete { hunks } => format!("delete {path} {}", hunks.len()),
                Change::Update { move_to, hunks } => {
                    format!("update {path} {} {}", move_to.is_some(), hunks.len())
                }
            }
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "add run.sh \"#!/bin/sh\\nls\\n\" true",
            "delete old 1",
            "update m n true 0",
            "add empty \"\" false",
            "update \u{e9} false 1",
            "update plain false 1",
        ]
    );
}

#[test]
fn a_patch_that_cannot_be_read_names_its_line_and_what_was_expected() {
    let rows: &[(&str, &str)] = &[
        ("", "line 1 of the patch: expected \"*** Begin Patch\""),
        ("hello\n", "line 1 of the patch: expected \"*** Begin Patch\""),
        ("*** Begin Patch\n*** End Patch\n", "line 2 of the patch: expected a file before"),
        (
            "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n",
            "line 6 of the patch: expected \"*** End Patch\"",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n@@\n-a\nb\n*** End Patch",
            "line 5 of the patch: expected a line with ` `",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n*** End Patch",
            "line 3 of the patch: expected lines that change",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n@@\n a\n*** End Patch",
            "line 3 of the patch: expected lines with `-` or `+`",
        ),
        (
            "*** Begin Patch\n*** Add File: f\na\n*** End Patch",
            "line 3 of the patch: expected a line of the new file with +",
        ),
        ("*** Begin Patch\n*** Update File:\n-a\n*** End Patch", "line 2 of the patch: expected a path"),
        (
            "*** Begin Patch\n*** Rename File: f\n*** End Patch",
            "line 2 of the patch: expected \"*** Update File:\"",
        ),
        (
            "*** Begin Patch\n*** Delete File: f\n-a\n*** End Patch",
            "line 3 of the patch: expected the next file",
        ),
        (
            "*** Begin Patch\n*** Delete File: f\n*** End Patch\n*** Begin Patch\n*** Delete File: g\n*** End Patch",
            "line 4 of the patch: expected nothing after",
        ),
        ("@@ -1 +1 @@\n-a\n+b\n", "line 1 of the patch: expected `--- a/PATH`"),
        ("--- a/f\n+++ b/f\n", "line 3 of the patch: expected `@@ -LINE,COUNT"),
        (
            "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+c\nd\n",
            "line 7 of the patch: expected a line with ` `",
        ),
        ("--- a/f\n+++ b/g\n@@ -1 +1 @@\n-b\n+c\n", "line 1 of the patch: the paths after"),
        (
            "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
            "line 2 of the patch: a patch does not change permission bits",
        ),
        ("diff --git a/f b/f\nindex 1..2\nGIT binary patch\n", "line 3 of the patch: binary patches"),
        ("diff --git a/f b/f\nnew file mode 120000\n", "line 2 of the patch: only regular files"),
        (
            "--- /dev/null\n+++ b/f\n@@ -1 +1,2 @@\n x\n+c\n",
            "line 4 of the patch: expected only lines with +",
        ),
    ];
    for (patch, expected) in rows {
        let error = parse(patch).expect_err(patch).to_string();
        assert!(error.starts_with(expected), "{error}\n{patch}");
    }
}

#[test]
fn a_hunk_without_its_place_says_what_is_nearest() {
    let file = b"fn main() {\n    let a = 1;\n    call(a);\n}\n";
    let error =
        one(&update("@@\n-\tlet a = 1;\n+\tlet a = 2;\n     call(a);\n"), file).unwrap_err().to_string();
    assert!(
        error.starts_with("hunk 1 (line 3 of the patch): its lines (those with ` ` and `-`) were not found."),
        "{error}"
    );
    assert!(
        error.contains("The first difference is in line 2:\n  file:  ····let·a·=·1;\n  patch: \\tlet·a·=·1;"),
        "{error}"
    );
    assert!(!error.contains("`old`"), "{error}");
    let error = one(&update("@@\n-x\n+y\n"), b"x\n1\nx\n").unwrap_err();
    assert!(matches!(error, PatchError::Ambiguous { hunk: 1, .. }));
    assert!(error.to_string().ends_with(":\n     1\tx\n     3\tx"), "{error}");
    // As near to the line that was said.
    assert!(matches!(one(&diff("@@ -2 +2 @@\n-x\n+y\n"), b"x\n1\nx\n"), Err(PatchError::Ambiguous { .. })));
    let error = one(&update("@@\n-b\n+B\n@@\n-a\n+A\n"), b"a\nb\n").unwrap_err().to_string();
    assert!(error.starts_with("hunk 2 (line 6 of the patch): its lines stand at line 1, above"), "{error}");
    let error = one(&update("@@ def nosuch\n-a\n+A\n"), b"a\ndef such\n").unwrap_err().to_string();
    assert!(error.contains("no line is its anchor `@@ def nosuch`") && error.contains("def such"), "{error}");
    let error = one(&update("@@\n-a\n+A\n*** End of File\n"), b"a\nb\n").unwrap_err().to_string();
    assert!(error.contains("not at the end of the file"), "{error}");
    let error = one(&diff("@@ -9,0 +10,1 @@\n+A\n"), b"a\nb\n").unwrap_err().to_string();
    assert!(error.contains("adds lines at line 10, but the file has 2 lines"), "{error}");
    let error = one(&update("@@\n-a\n+\u{fffd}\n"), b"a\n").unwrap_err();
    assert!(matches!(error, PatchError::Encoding(_)));
    let error = one(&update("@@\n-a\n+\u{6708}\n"), b"a\n\xff\xfe\xe9\x81\n").unwrap_err();
    assert!(matches!(error, PatchError::Encoding(_)));
}

#[test]
fn a_part_of_a_line_is_not_taken_for_a_fault_of_blanks() {
    let file = "fn main() {\n    let a = 1; // first\n    call(a);\n}\n";
    let crlf = file.replace('\n', "\r\n");
    let blanks = "It would match but for blanks";
    for content in [file, crlf.as_str()] {
        let said = |body: &str| one(&update(body), content.as_bytes()).unwrap_err().to_string();
        // Cut at its end, with the right indentation and without; at its start; as the last of several.
        for (body, part) in [
            (
                "@@\n-    let a = 1;\n+x\n",
                "part of line 2 was given, and lines are matched whole; the line goes on:  // first",
            ),
            ("@@\n-let a = 1;\n+x\n", "the line goes on:  // first"),
            ("@@\n-a = 1; // first\n+x\n", "the whole line is: let a = 1; // first"),
            (
                "@@\n fn main() {\n-    let a\n+x\n",
                "part of line 2 was given, and lines are matched whole; the line goes on:  = 1; // first",
            ),
            ("@@ main()\n-nothing\n+x\n", "no line is its anchor `@@ main()`. Only a part of line 1"),
        ] {
            let error = said(body);
            assert!(error.contains(part) && !error.contains(blanks), "{body}: {error}");
        }
        // Blanks alone, in a line and between lines.
        for body in ["@@\n-  let  a = 1; // first\n+x\n", "@@\n-fn main()\n-{\n+x\n"] {
            let error = said(body);
            assert!(error.contains(blanks), "{body}: {error}");
        }
        // The same in a line that is only begun.
        let error = said("@@\n-let  a = 1;\n+x\n");
        assert!(!error.contains(blanks), "{error}");
    }
}

/// Old and new lines as hunks with context.
#[derive(Debug)]
struct Drawn {
    old: Vec<String>,
    new: Vec<String>,
    /// For each old line: stays; else goes. And what comes before it.
    keeps: Vec<bool>,
    adds: Vec<Vec<String>>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let line = prop_oneof![3 => "[ab]{0,2}", 2 => "[-+ @\\\\*]{1,3}[a-c]{0,3}", 1 => "(--- x|\\+\\+\\+ y|@@ -1 \\+1 @@|\\*\\*\\* End Patch|\u{e9}t\u{e9})"];
    proptest::collection::vec(
        (
            line.clone(),
            prop_oneof![4 => Just(true), 1 => Just(false)],
            prop_oneof![5 => Just(Vec::new()).boxed(), 1 => proptest::collection::vec(line, 1..3).boxed()],
        ),
        1..24,
    )
    .prop_map(|rows| {
        let mut drawn = Drawn { old: Vec::new(), new: Vec::new(), keeps: Vec::new(), adds: Vec::new() };
        for (line, keeps, adds) in rows {
            drawn.new.extend(adds.iter().cloned());
            drawn.adds.push(adds);
            if keeps {
                drawn.new.push(line.clone());
            }
            drawn.old.push(line);
            drawn.keeps.push(keeps);
        }
        drawn
    })
}

impl Drawn {
    /// Whether anything changes around this line, as far as `context` reaches.
    fn is_near(&self, at: usize, context: usize) -> bool {
        let from = at.saturating_sub(context);
        (from..=(at + context).min(self.old.len() - 1))
            .any(|near| !self.keeps[near] || (!self.adds[near].is_empty() && near <= at + context))
    }

    fn hunks(&self, context: usize) -> Vec<(usize, usize, Vec<String>)> {
        let mut hunks: Vec<(usize, usize, Vec<String>)> = Vec::new();
        let (mut is_open, mut new_line) = (false, 1);
        for at in 0..self.old.len() {
            if self.is_near(at, context) {
                if !is_open {
                    hunks.push((at + 1, new_line, Vec::new()));
                    is_open = true;
                }
                let body = &mut hunks.last_mut().unwrap().2;
                body.extend(self.adds[at].iter().map(|line| format!("+{line}")));
                body.push(format!("{}{}", if self.keeps[at] { ' ' } else { '-' }, self.old[at]));
            } else {
                is_open = false;
            }
            new_line += self.adds[at].len() + usize::from(self.keeps[at]);
        }
        hunks
    }

    fn unified(&self) -> String {
        let mut out = String::from("--- a/f\n+++ b/f\n");
        for (old, new, body) in self.hunks(3) {
            let count = |mark: char| body.iter().filter(|line| !line.starts_with(mark)).count();
            out.push_str(&format!("@@ -{old},{} +{new},{} @@\n", count('+'), count('-')));
            body.iter().for_each(|line| out.push_str(&format!("{line}\n")));
        }
        out
    }

    /// One hunk of the whole file, so that it has one place.
    fn envelope(&self) -> String {
        let mut out = String::from("*** Begin Patch\n*** Update File: f\n@@\n");
        for (.., body) in self.hunks(self.old.len()) {
            body.iter().for_each(|line| out.push_str(&format!("{line}\n")));
        }
        out + "*** End Patch\n"
    }
}

proptest! {
    #[test]
    fn a_drawn_change_gives_its_new_content(drawn in drawn(), end in prop_oneof![Just("\n"), Just("\r\n")], is_open: bool, has_mark: bool) {
        let content = |lines: &[String]| {
            let mark = if has_mark { "\u{feff}" } else { "" };
            let mut text = format!("{mark}{}", lines.iter().map(|line| format!("{line}{end}")).collect::<String>());
            if is_open && text.len() > mark.len() {
                text.truncate(text.len() - end.len());
            }
            text.into_bytes()
        };
        prop_assume!(drawn.keeps.iter().any(|keeps| !keeps) || drawn.adds.iter().any(|adds| !adds.is_empty()));
        // A last line that goes leaves the end of the one before it; one that is empty is none without its end.
        prop_assume!(!is_open || (drawn.keeps.last() == Some(&true) && !drawn.old.last().unwrap().is_empty()));
        let (old, new) = (content(&drawn.old), content(&drawn.new));
        // A single line without an end does not say how the file ends its lines.
        prop_assume!(drawn.old.len() > 1);
        let found = one(&drawn.envelope(), &old);
        prop_assert_eq!(found.as_deref(), Ok(new.as_slice()), "{}", drawn.envelope());
        let found = one(&drawn.unified(), &old);
        prop_assert_eq!(found.as_deref(), Ok(new.as_slice()), "{}", drawn.unified());
    }

    #[test]
    fn garbage_is_refused_and_never_panics(lines in proptest::collection::vec(prop_oneof![
        "\\PC{0,12}", Just("*** Begin Patch".to_owned()), Just("*** End Patch".to_owned()),
        Just("*** Update File: f".to_owned()), Just("*** Add File: g".to_owned()), Just("*** Move to: h".to_owned()),
        Just("*** End of File".to_owned()), Just("@@".to_owned()), Just("@@ a".to_owned()), Just(" a".to_owned()),
        Just("-a".to_owned()), Just("+b".to_owned()), Just("--- a/f".to_owned()), Just("+++ b/f".to_owned()),
        Just("@@ -1,2 +1,2 @@".to_owned()), Just("@@ -99999999999999999999 +1 @@".to_owned()),
        Just("@@ -18446744073709551615,0 +1 @@".to_owned()), Just("\\ No newline at end of file".to_owned()),
        Just("diff --git a/f b/f".to_owned()), Just("diff --git \"a/\\".to_owned()), Just("rename from \"\\9".to_owned()), Just(String::new()),
    ], 0..16), content in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'\n'), Just(b'\r'), any::<u8>()], 0..24)) {
        if let Ok(patch) = parse(&lines.join("\n")) {
            for file in &patch.files {
                if let Change::Update { hunks, .. } | Change::Delete { hunks } = &file.change {
                    let _ = apply_to(&content, hunks);
                }
            }
        }
    }
}
