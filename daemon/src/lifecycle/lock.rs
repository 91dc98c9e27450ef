//! The lock of a home: who holds it is the daemon.
//!
//! It is a lock of the system on an open file, so it ends with the process that holds it, however that ends. What
//! is written in the file is for messages only and never believed.

use super::LifecycleError;
use crate::paths::Place;
use agentd_core::limits::{LOCK_RETRY_MS, LOCK_WAIT_MS};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The held lock.
#[derive(Debug)]
pub(super) struct HomeLock {
    file: File,
    path: PathBuf,
}

/// What came of claiming it.
#[derive(Debug)]
pub(super) enum Claim {
    /// We are the daemon.
    Ours(HomeLock),
    /// Another daemon holds it and takes connections.
    AnotherAnswers {
        /// Who, for messages.
        owner: String,
    },
}

impl HomeLock {
    /// Claims the home. While another process holds the lock this waits, when `patient`, until that one takes
    /// connections or is gone: it may be starting or ending, and either is over soon.
    pub(super) fn claim(place: &Place, patient: bool) -> Result<Claim, LifecycleError> {
        let path = place.lock_file();
        let deadline = Instant::now() + Duration::from_millis(LOCK_WAIT_MS);
        loop {
            if let Some(lock) = Self::try_lock(&path)? {
                return Ok(Claim::Ours(lock));
            }
            if UnixStream::connect(&place.socket).is_ok() {
                return Ok(Claim::AnotherAnswers { owner: owner(&path) });
            }
            if !patient || Instant::now() >= deadline {
                return Err(LifecycleError::LockHeld { owner: owner(&path), path });
            }
            std::thread::sleep(Duration::from_millis(LOCK_RETRY_MS));
        }
    }

    fn try_lock(path: &Path) -> Result<Option<Self>, LifecycleError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(LifecycleError::file("open the lock", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(LifecycleError::file("lock", path)(error)),
        }
        let lock = Self { file, path: path.to_path_buf() };
        // The home may have been deleted between the opening and the lock; then this lock guards nothing.
        Ok(lock.is_still_there().then_some(lock))
    }

    /// Whether the lock we hold is the one that a newcomer would find.
    pub(super) fn is_still_there(&self) -> bool {
        match (self.file.metadata(), std::fs::symlink_metadata(&self.path)) {
            (Ok(held), Ok(found)) => held.ino() == found.ino() && held.dev() == found.dev(),
            _ => false,
        }
    }

    /// Writes who holds it, for messages.
    pub(super) fn sign(&mut self, run_id: &str) -> Result<(), LifecycleError> {
        let text = format!("{} {run_id}\n", std::process::id());
        let mut write = || {
            self.file.seek(SeekFrom::Start(0))?;
            self.file.set_len(0)?;
            self.file.write_all(text.as_bytes())
        };
        write().map_err(LifecycleError::file("write the lock", &self.path))
    }
}

/// ` (pid N)`, if the file says so.
fn owner(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_string(&mut text));
    match read.ok().and_then(|_| text.split_whitespace().next()?.parse::<u32>().ok()) {
        Some(pid) => format!(" (pid {pid})"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn home() -> (tempfile::TempDir, Place) {
        let temp = tempfile::tempdir().unwrap();
        let place = Place::of_daemon(Some(temp.path())).unwrap();
        place.prepare().unwrap();
        (temp, place)
    }

    #[test]
    fn what_is_written_in_the_file_is_never_believed() {
        let (_temp, place) = home();
        std::fs::write(place.lock_file(), "1 d_old\n").unwrap();
        let Claim::Ours(mut lock) = HomeLock::claim(&place, false).unwrap() else { panic!("not ours") };
        lock.sign("d_new").unwrap();
        assert_eq!(
            std::fs::read_to_string(place.lock_file()).unwrap(),
            format!("{} d_new\n", std::process::id())
        );
    }

    #[test]
    fn a_held_lock_is_a_lost_race_only_when_its_holder_answers() {
        let (_temp, place) = home();
        let Claim::Ours(mut lock) = HomeLock::claim(&place, false).unwrap() else { panic!("not ours") };
        lock.sign("d_1").unwrap();
        let error = HomeLock::claim(&place, false).unwrap_err().to_string();
        assert!(error.contains(&format!("(pid {})", std::process::id())), "{error}");
        let _listener = UnixListener::bind(&place.socket).unwrap();
        assert!(matches!(HomeLock::claim(&place, true).unwrap(), Claim::AnotherAnswers { .. }));
        drop(lock);
        assert!(matches!(HomeLock::claim(&place, false).unwrap(), Claim::Ours(_)));
    }

    #[test]
    fn a_lock_whose_file_is_gone_or_replaced_guards_nothing() {
        let (_temp, place) = home();
        let Claim::Ours(lock) = HomeLock::claim(&place, false).unwrap() else { panic!("not ours") };
        assert!(lock.is_still_there());
        std::fs::remove_file(place.lock_file()).unwrap();
        assert!(!lock.is_still_there());
        std::fs::write(place.lock_file(), "").unwrap();
        assert!(!lock.is_still_there());
    }
}
