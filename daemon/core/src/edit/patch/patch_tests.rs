use super::*;
use proptest::prelude::*;

fn changed(content: &[u8], patch: &str) -> Result<Vec<u8>, String> {
    let files = parse(patch).map_err(|error| error.to_string())?;
    let Action::Update { hunks, .. } = &files[0].action else { panic!("{files:?}") };
    match apply(content, hunks, &<[u8]>::to_vec) {
        Ok(applied) => Ok(applied.bytes),
        Err(faults) => Err(faults.iter().map(|fault| format!("{fault}\n")).collect()),
    }
}

#[track_caller]
fn becomes(content: &[u8], body: &str, wanted: &[u8]) {
    let patch = format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch\n");
    assert_eq!(
        changed(content, &patch).map(|b| String::from_utf8_lossy(&b).into_owned()).as_deref(),
        Ok(&*String::from_utf8_lossy(wanted))
    );
}

#[test]
fn hunks_change_lines_and_nothing_else() {
    becomes(b"a\nb\nc\n", "@@\n a\n-b\n+B\n c\n", b"a\nB\nc\n");
    becomes(b"a\r\nb\r\nc\r\n", "@@\n-b\n+B\n+D\n", b"a\r\nB\r\nD\r\nc\r\n");
    becomes(b"\xef\xbb\xbfa\nb", "@@\n-a\n+A\n", b"\xef\xbb\xbfA\nb");
    becomes(b"a\nb", "@@\n-b\n+B\n", b"a\nB");
    becomes(b"a\nb", "@@\n b\n+c\n", b"a\nb\nc");
    becomes(b"a\nb", "@@\n+c\n*** End of File\n", b"a\nb\nc");
    becomes(b"", "@@\n+c\n", b"c\n");
    becomes(b"f {\n x\n}\ng {\n x\n}\n", "@@ g {\n- x\n+ y\n", b"f {\n x\n}\ng {\n y\n}\n");
    becomes(b"a\n\nb\n", "-a\n\n+c\n b\n", b"\nc\nb\n");
    assert_eq!(changed(b"\xe9\nb\n", "*** Update File: f\n@@\n-b\n+B\n"), Ok(b"\xe9\nB\n".to_vec()));
}

#[test]
fn unified_diffs_are_read_with_their_numbers_as_hints() {
    let patch = "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -3 +3 @@ x\n-a\n+b\n";
    assert_eq!(changed(b"a\nx\na\n", patch), Ok(b"a\nx\nb\n".to_vec()));
    let open = "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n";
    assert_eq!(changed(b"a\nb", open), Ok(b"a\nb\n".to_vec()));
    let close = "--- f\n+++ f\n@@ -1,2 +1,1 @@\n-a\n+a\n\\ No newline at end of file\n-b\n";
    assert_eq!(changed(b"a\nb\n", close), Ok(b"a".to_vec()));
    let dashes = "--- f\n+++ f\n@@ -1,2 +1,2 @@\n--- x\n+++ y\n a\n";
    assert_eq!(changed(b"-- x\na\n", dashes), Ok(b"++ y\na\n".to_vec()));
}

#[test]
fn headers_name_what_becomes_of_files() {
    let patch = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n\
                 diff --git a/new b/new\nnew file mode 100755\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+hi\n\
                 diff --git \"a/\\303\\251\" \"b/\\303\\251\"\ndeleted file mode 100644\n--- \"a/\\303\\251\"\n+++ /dev/null\n@@ -1 +0,0 @@\n-o\n";
    let files = parse(patch).unwrap();
    let paths: Vec<_> = files.iter().map(|file| file.path.display()).collect();
    assert_eq!(paths, ["x", "new", "é"]);
    assert_eq!(files[0].action, Action::Update { move_to: Some("y".into()), hunks: vec![] });
    assert_eq!(files[1].action, Action::Add { content: "hi\n".to_owned(), is_executable: true });
    assert!(matches!(&files[2].action, Action::Delete { hunks } if hunks.len() == 1));
}

#[test]
fn faults_name_the_line_and_what_is_near() {
    let fault =
        |content: &[u8], body: &str| changed(content, &format!("*** Update File: f\n{body}")).unwrap_err();
    assert!(fault(b"a\na\n", "@@\n-a\n").contains("2 times, at lines 1, 2"));
    let missing = fault(b"one\ntwo \nthree\n", "@@\n one\n-two\n+2\n");
    assert!(
        missing.starts_with("line 2 of the patch: its old lines were not found") && missing.contains("two"),
        "{missing}"
    );
    assert!(fault(b"a\nb\n", "@@\n-b\n@@\n-a\n").contains("order"));
    assert!(fault(b"a\n", "@@ zz\n-a\n").contains("not found after"));
    assert!(fault(b"a\n", "@@\n+b\n").contains("context"));
    for (patch, line) in [
        ("", "line 1"),
        ("hello", "line 1"),
        ("*** Begin Patch\n*** Update File: f\n@@\n-a", "line 5"),
        ("*** Begin Patch\n*** Add File: f\nx\n*** End Patch", "line 3"),
        ("--- a/f\n+++ b/f\n@@ -1,2 @@\n a", "line 3"),
        ("*** Update File: f\n@@\n a\n", "line 2"),
    ] {
        let error = parse(patch).unwrap_err().to_string();
        assert!(error.starts_with(line) && error.contains("expected"), "{patch:?}: {error}");
    }
}

proptest! {
    #[test]
    fn whole_replacements_give_the_new_lines_and_back(
        old in prop::collection::vec("[ab ]{0,3}", 1..12), new in prop::collection::vec("[ab +*@-]{0,3}", 1..12),
    ) {
        let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let marked = |mark: char, lines: &[String]| lines.iter().map(|line| format!("{mark}{line}\n")).collect::<String>();
        for (from, to) in [(&old, &new), (&new, &old)] {
            let body = format!("{}{}", marked('-', from), marked('+', to));
            let envelope = format!("*** Begin Patch\n*** Update File: f\n@@\n{body}*** End Patch\n");
            let unified = format!("--- a/f\n+++ b/f\n@@ -1,{} +1,{} @@\n{body}", from.len(), to.len());
            for patch in [envelope, unified] {
                prop_assert_eq!(changed(text(from).as_bytes(), &patch), Ok(text(to).into_bytes()), "{}", patch);
            }
        }
    }

    #[test]
    fn garbage_never_panics(
        parts in prop::collection::vec(prop::sample::select(vec!["*** Begin Patch", "*** Update File: f", "*** Add File: g",
            "*** End Patch", "*** End of File", "@@", "@@ x", "@@ -1,2 +1 @@", "--- a/f", "+++ b/f", "diff --git a/f b/f",
            "rename from f", "rename to \"g", "-a", "+é", " b", "", "\\ No newline", "x", "--- \"a/\\9"]), 0..14),
        content in prop::collection::vec(prop::sample::select(&b"ab\r\n\xe9 x"[..]), 0..20), noise in ".{0,40}",
    ) {
        let text = format!("{}{noise}", parts.join("\n"));
        for file in parse(&text).into_iter().flatten() {
            if let Action::Update { hunks, .. } | Action::Delete { hunks } = file.action {
                let _ = apply(&content, &hunks, &<[u8]>::to_vec);
            }
        }
    }
}
