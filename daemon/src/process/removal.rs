//! Deleting a folder that a command could write to.

use std::io;
use std::path::Path;

/// Deletes a folder however deep a command nested it, without recursion and without long paths: what lies two
/// levels down is moved up before its parent goes.
pub(super) fn remove_folder(folder: &Path) -> io::Result<()> {
    let mut moved = 0_u64;
    loop {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut folders = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                std::fs::remove_file(entry.path())?;
            }
        }
        if folders.is_empty() {
            return std::fs::remove_dir(folder);
        }
        for inner in folders {
            for entry in std::fs::read_dir(&inner)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    moved += 1;
                    std::fs::rename(entry.path(), folder.join(format!(".moved-{moved}")))?;
                } else {
                    std::fs::remove_file(entry.path())?;
                }
            }
            std::fs::remove_dir(inner)?;
        }
    }
}
