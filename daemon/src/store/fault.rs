//! What an error of SQLite means for the caller and for the writer.
//!
//! Invariant: only an error after which nobody can say what reached the disk stops a writer. A full disk, a
//! quota and a file size limit are answered with [`StoreError::Full`] and end by themselves.

use crate::ports::StoreError;
use rusqlite::{ErrorCode, ffi};
use std::path::Path;

/// The error for the caller.
pub(super) fn store_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.display();
    let Some(failure) = error.sqlite_error() else {
        return StoreError::Failed(format!("{path}: {error}"));
    };
    match failure.code {
        ErrorCode::DiskFull => StoreError::Full { path: path.to_string() },
        // SQLite says "full" only for ENOSPC; a quota (EDQUOT), a file size limit (EFBIG) and a full shared
        // memory file come as these. Nothing was synced yet, so rolling back undoes all of it.
        ErrorCode::SystemIoFailure
            if matches!(
                failure.extended_code,
                ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_TRUNCATE | ffi::SQLITE_IOERR_SHMSIZE
            ) =>
        {
            StoreError::Full { path: path.to_string() }
        }
        ErrorCode::SystemIoFailure => StoreError::Stopped(format!("{path}: {error}")),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            StoreError::Corrupt(format!("{path}: {error}"))
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Failed(format!(
            "{path}: another process holds the database ({error}); close it and try again"
        )),
        _ => StoreError::Failed(format!("{path}: {error}")),
    }
}

/// Whether a writer must not go on after this error.
pub(super) fn stops_writer(error: &StoreError) -> bool {
    matches!(error, StoreError::Stopped(_) | StoreError::Corrupt(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32) -> StoreError {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        store_error(Path::new("/data/agentd.db"), &error)
    }

    #[test]
    fn no_space_is_told_apart_from_a_broken_disk() {
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_SHMSIZE] {
            assert!(matches!(failure(code), StoreError::Full { .. }), "{code}");
            assert!(!stops_writer(&failure(code)));
        }
        for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC, ffi::SQLITE_IOERR_READ] {
            assert!(matches!(failure(code), StoreError::Stopped(_)), "{code}");
            assert!(stops_writer(&failure(code)));
        }
        assert!(stops_writer(&failure(ffi::SQLITE_CORRUPT)));
        assert!(!stops_writer(&failure(ffi::SQLITE_BUSY)));
    }
}
