//! Where things are, with an environment of our own.

use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};

fn in_env(home: Option<&str>, vars: &[(&str, &str)]) -> Result<Place, PlaceError> {
    let env = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
    locate(home.map(Path::new), &env, || {
        Some(UserFolders {
            config: "/u/.config/agentd".into(),
            data: "/u/.local/share/agentd".into(),
            runtime: Some("/run/user/7".into()),
        })
    })
}

#[test]
fn a_home_holds_everything() {
    let place = in_env(None, &[("AGENTD_HOME", "/h")]).unwrap();
    assert_eq!(place.config_dir, Path::new("/h/config"));
    assert_eq!(place.data_dir, Path::new("/h/data"));
    assert_eq!(place.socket, Path::new("/h/run/agentd.sock"));
    assert_eq!(in_env(Some("/flag"), &[("AGENTD_HOME", "/h")]).unwrap().home.unwrap(), Path::new("/flag"));
}

#[test]
fn without_one_the_folders_of_the_user_do() {
    let place = in_env(None, &[("HOME", "/u")]).unwrap();
    assert_eq!(place.config_file(), Path::new("/u/.config/agentd/config.toml"));
    assert_eq!(place.socket, Path::new("/run/user/7/agentd/agentd.sock"));
    let bare = locate(None, &|_| None, || {
        Some(UserFolders { config: "/c".into(), data: "/d".into(), runtime: None })
    });
    assert_eq!(bare.unwrap().socket, Path::new("/d/run/agentd.sock"));
}

#[test]
fn relative_and_missing_homes_are_refused_with_what_to_do() {
    for (vars, word) in [
        (&[("AGENTD_HOME", "rel")][..], "AGENTD_HOME"),
        (&[("AGENTD_HOME", "")][..], "empty"),
        (&[("HOME", "relative")][..], "HOME is"),
    ] {
        let error = in_env(None, vars).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    assert!(matches!(locate(None, &|_| None, || None), Err(PlaceError::NoHome)));
    assert!(in_env(None, &[("AGENTD_HOME", "/h")]).unwrap().with_socket("rel".into()).is_err());
}

#[test]
fn a_home_that_is_not_there_is_not_made() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str, data: &str| {
        let (home, data) = (temp.path().join(name), temp.path().join(data));
        let env = |name: &str| (name == "HOME").then(|| home.clone().into_os_string());
        let folders = UserFolders { config: data.join("c"), data: data.join("d"), runtime: None };
        locate(None, &env, || Some(folders)).unwrap().prepare()
    };
    assert!(matches!(at("gone", "gone"), Err(PlaceError::HomeMissing { .. })));
    assert!(!temp.path().join("gone").exists());
    at("gone", "elsewhere").unwrap();
    std::fs::create_dir(temp.path().join("there")).unwrap();
    at("there", "there").unwrap();
}

#[test]
fn a_long_path_has_a_short_private_socket() {
    let long = format!("/h/{}", "x".repeat(120));
    let place = in_env(Some(&long), &[]).unwrap();
    let other = in_env(Some(&format!("{long}y")), &[]).unwrap();
    assert!(place.socket.as_os_str().len() <= SOCKET_PATH_MAX_BYTES);
    assert!(place.socket.starts_with(format!("/tmp/agentd-{}", our_uid())));
    assert_ne!(place.socket, other.socket);
    assert_eq!(place.socket_folders().len(), 2);
    // Exactly at the limit nothing changes.
    let fill = SOCKET_PATH_MAX_BYTES - "/run/agentd.sock".len() - 1;
    let exact = in_env(Some(&format!("/{}", "x".repeat(fill))), &[]).unwrap();
    assert_eq!(exact.socket.as_os_str().len(), SOCKET_PATH_MAX_BYTES);
    assert!(exact.socket.starts_with(&exact.run_dir));
}

#[test]
fn a_folder_that_others_reach_is_refused_and_left_as_it_is() {
    let temp = tempfile::tempdir().unwrap();
    let fresh = temp.path().join("a/b");
    private_folder(&fresh).unwrap();
    assert_eq!(std::fs::metadata(&fresh).unwrap().mode() & 0o7777, 0o700);
    private_folder(&fresh).unwrap();

    let open = temp.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o750)).unwrap();
    assert!(matches!(private_folder(&open), Err(PlaceError::TooOpen { mode: 0o750, .. })));
    assert_eq!(std::fs::metadata(&open).unwrap().mode() & 0o777, 0o750);

    let link = temp.path().join("link");
    symlink(&fresh, &link).unwrap();
    assert!(matches!(private_folder(&link), Err(PlaceError::NotAFolder { .. })));

    let file = temp.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(private_folder(&file), Err(PlaceError::NotAFolder { .. })));
}
