//! The name of a home's daemon, kept over restarts.

use super::LifecycleError;
use crate::paths::Place;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

/// What it begins with.
const PREFIX: &str = "h_";
/// Its length: the prefix and an id as everywhere.
const LEN: usize = 28;

/// Reads it, or keeps `fresh` when there is none. Called with the lock held.
pub(super) fn daemon_id(place: &Place, fresh: &str) -> Result<String, LifecycleError> {
    let path = place.data_dir.join("daemon_id");
    match std::fs::read_to_string(&path) {
        Ok(text) if is_id(text.trim()) => return Ok(text.trim().to_owned()),
        // Cut off by a loss of power, or damaged: nothing hangs on the old one.
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(LifecycleError::file("read", &path)(error)),
    }
    let new = path.with_extension("new");
    let id = format!("{PREFIX}{fresh}");
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        writeln!(file, "{id}")?;
        file.sync_all()?;
        std::fs::rename(&new, &path)
    };
    write().map_err(LifecycleError::file("write", &path))?;
    Ok(id)
}

fn is_id(text: &str) -> bool {
    text.len() == LEN
        && text.starts_with(PREFIX)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_the_same_and_damage_is_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let place = Place::of_daemon(Some(temp.path())).unwrap();
        place.prepare().unwrap();
        let (one, two) = ("a".repeat(26), "b".repeat(26));
        let first = daemon_id(&place, &one).unwrap();
        assert_eq!(daemon_id(&place, &two).unwrap(), first);
        std::fs::write(place.data_dir.join("daemon_id"), "h_x").unwrap();
        assert_eq!(daemon_id(&place, &two).unwrap(), format!("h_{two}"));
    }
}
