use super::workspace::strip_folder;
use super::*;
use proptest::prelude::*;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

fn bytes(path: &Path) -> PathBytes {
    PathBytes::new(path.as_os_str().as_bytes())
}

/// A workspace beside a folder that is outside, with files, folders and links of every kind.
fn tree() -> (tempfile::TempDir, Workspace) {
    let dir = tempfile::tempdir().unwrap();
    let ws = dir.path().join("ws");
    std::fs::create_dir_all(ws.join("a/b")).unwrap();
    std::fs::create_dir_all(dir.path().join("out")).unwrap();
    for file in ["ws/f", "ws/a/f", "ws/a/b/f", "out/f"] {
        std::fs::write(dir.path().join(file), file).unwrap();
    }
    for (target, link) in [
        ("a/b", "l"),
        ("../a", "a/up"),
        ("../../out", "a/out"),
        ("f", "a/b/lf"),
        ("nosuch", "dangling"),
        ("../out/new", "dangling_out"),
        ("loop", "loop"),
        ("/", "root"),
        ("/proc/self/root", "magic"),
        ("..", "above"),
    ] {
        symlink(target, ws.join(link)).unwrap();
    }
    symlink(std::fs::canonicalize(&ws).unwrap().join("a"), ws.join("abs")).unwrap();
    let workspace = Workspace::open(&bytes(&ws), &bytes(&ws)).unwrap();
    (dir, workspace)
}

/// What a lookup came to, without descriptors.
fn seen(found: Result<Found, LookupError>) -> String {
    match found {
        Ok(Found::Existing(existing)) => format!("there {} {}", existing.path.display(), existing.inode()),
        Ok(Found::Missing(missing)) => {
            format!("missing {:?} in {}", missing.names, missing.folder_path.display())
        }
        Err(LookupError::Outside { .. }) => "outside".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_lookup_never_leaves_the_workspace() {
    let (dir, workspace) = tree();
    let base = std::fs::canonicalize(dir.path()).unwrap().display().to_string();
    let rows = [
        ("a/out/f", "outside"),
        ("a/up/out", "outside"),
        ("dangling_out", "outside"),
        ("root/etc/passwd", "outside"),
        ("magic/etc/passwd", "outside"),
        ("above", "outside"),
        ("above/ws/f", "outside"),
        ("..", "outside"),
        ("nosuch/../../out/f", "outside"),
        ("loop", "the path goes round in a loop of links"),
        ("", "the path is empty; give a path relative to the session's folder, or an absolute one"),
        ("f\0", "the path has a NUL byte, which no path can have"),
    ];
    for (path, expected) in rows {
        assert_eq!(seen(workspace.lookup(path.as_bytes())), expected, "{path}");
    }
    for (path, real) in
        [("l/f", "a/b/f"), ("a/up/b/lf", "a/b/f"), ("abs/f", "a/f"), ("a/b/../../f", "f"), (".", "")]
    {
        let expected = format!("there {base}/ws/{real}");
        let expected = expected.trim_end_matches('/');
        assert!(seen(workspace.lookup(path.as_bytes())).starts_with(expected), "{path}");
    }
    assert_eq!(seen(workspace.lookup(b"f/x")), format!("{base}/ws/f is not a folder"));
    assert_eq!(seen(workspace.lookup(b"f/")), format!("{base}/ws/f is not a folder"));
    let Ok(Found::Missing(missing)) = workspace.lookup(b"dangling") else { panic!() };
    assert_eq!(missing.names, [b"nosuch".to_vec()]);
    let Ok(Found::Missing(missing)) = workspace.lookup(b"a/x/./y/") else { panic!() };
    assert_eq!((missing.names.len(), missing.folder_meant), (2, true));
}

#[test]
fn prefixes_are_compared_by_components() {
    assert_eq!(strip_folder(b"/w/a", b"/w"), Some(&b"a"[..]));
    assert_eq!(strip_folder(b"/w", b"/w"), Some(&b""[..]));
    assert_eq!(strip_folder(b"/work", b"/w"), None);
    assert_eq!(strip_folder(b"/a", b"/"), Some(&b"a"[..]));
    let (dir, workspace) = tree();
    std::fs::create_dir(dir.path().join("ws2")).unwrap();
    std::fs::write(dir.path().join("ws2/f"), "").unwrap();
    assert_eq!(seen(workspace.lookup(dir.path().join("ws2/f").as_os_str().as_bytes())), "outside");
}

#[test]
fn what_goes_above_is_named_by_where_it_leads() {
    let (dir, workspace) = tree();
    let base = std::fs::canonicalize(dir.path()).unwrap();
    for (path, leads) in
        [("../out/f", "out/f"), ("a/../../out/./f", "out/f"), ("above/out/../x", "x"), ("..", "")]
    {
        let Err(LookupError::Outside { resolved, .. }) = workspace.lookup(path.as_bytes()) else {
            panic!("{path}")
        };
        assert_eq!(resolved, bytes(&base.join(leads).components().collect::<std::path::PathBuf>()), "{path}");
    }
}

#[test]
fn a_link_at_the_end_is_itself_the_entry() {
    let (_dir, workspace) = tree();
    let root = workspace.path().display();
    for (path, entry) in
        [("a/out", "a/out"), ("loop", "loop"), ("dangling_out", "dangling_out"), ("l/lf", "a/b/lf")]
    {
        let Found::Existing(found) = workspace.lookup_entry(path.as_bytes()).unwrap() else {
            panic!("{path}")
        };
        assert_eq!(found.path.display(), format!("{root}/{entry}"));
        assert_eq!(found.kind(), FileType::Symlink, "{path}");
    }
    for path in ["a/out/", "a/out/.", "a/out/f", "above", "..", "above/ws"] {
        let found = workspace.lookup_entry(path.as_bytes());
        match path {
            "above" => assert!(found.is_ok(), "the link itself is inside"),
            _ => assert_eq!(seen(found), "outside", "{path}"),
        }
    }
    assert!(
        matches!(workspace.lookup_entry(b"nosuch/x"), Ok(Found::Missing(missing)) if missing.names.len() == 2)
    );
    assert!(matches!(workspace.lookup_entry(b"f/x"), Err(LookupError::NotFolder { .. })));
}

#[test]
fn a_descriptor_in_proc_is_no_name_of_the_workspace() {
    use std::os::fd::AsRawFd as _;
    let (_dir, workspace) = tree();
    for process in ["self".to_owned(), std::process::id().to_string()] {
        let path = format!("/proc/{process}/fd/{}/f", workspace.root().as_raw_fd());
        assert_eq!(std::fs::read(&path).unwrap(), b"ws/f", "the control");
        assert_eq!(seen(workspace.lookup(path.as_bytes())), "outside");
    }
}

#[test]
fn a_parent_is_opened_without_following_links() {
    let (_dir, workspace) = tree();
    let (_, name) = workspace.parent_of(&workspace::join(workspace.path().as_bytes(), b"a/b/f")).unwrap();
    assert_eq!(name, b"f");
    assert!(workspace.parent_of(&workspace::join(workspace.path().as_bytes(), b"l/f")).is_err());
    assert!(workspace.parent_of(workspace.path()).is_err());
    assert!(workspace.parent_of(&PathBytes::from("/etc/passwd")).is_err());
}

proptest! {
    /// The walk is the whole lookup where the kernel has none, so it must find what the kernel finds.
    #[test]
    fn the_walk_finds_what_the_kernel_finds(
        parts in prop::collection::vec(
            prop::sample::select(&["a", "b", "f", "l", "lf", "up", "..", ".", "out", "abs", "dangling", "nosuch", "ws", "above"][..]),
            1..7,
        ),
        slash in any::<bool>(),
    ) {
        thread_local! {
            static TREE: (tempfile::TempDir, Workspace) = tree();
        }
        TREE.with(|(_, workspace)| {
            let path = parts.join("/") + if slash { "/" } else { "" };
            let by_walk = seen(walk::walk(workspace, path.as_bytes()));
            match workspace.by_kernel(path.as_bytes()) {
                Some(existing) => prop_assert_eq!(by_walk, seen(Ok(Found::Existing(existing)))),
                // What only the walk finds are absolute links that stay inside.
                None => prop_assert!(!by_walk.starts_with("there") || parts.contains(&"abs"), "{path}: {by_walk}"),
            }
            Ok(())
        })?;
    }
}
