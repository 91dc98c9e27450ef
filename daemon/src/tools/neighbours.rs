//! What to say of a path that leads nowhere: the nearest folder and the entries most like what was meant.

use super::answer;
use crate::inspect::{Missing, read_folder};
use agentd_core::command::CallFault;
use agentd_core::edit::likeness;
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::{shown, shown_bytes};
use rustix::fs::FileType;

/// `File not found: PATH. Nearest folder: DIR. Entries: [closest 20], N more`
pub(super) fn not_found(requested: &PathBytes, missing: &Missing) -> CallFault {
    let wanted = missing.names.first().map(Vec::as_slice).unwrap_or_default();
    let entries = match read_folder(&missing.folder) {
        Ok(dir) => closest(dir, wanted),
        Err(errno) => format!("cannot be read ({errno})"),
    };
    let text = format!(
        "File not found: {}. Nearest folder: {}. Entries: {entries}",
        shown(requested),
        shown(&missing.folder_path)
    );
    answer::fault("not_found", text)
}

fn closest(dir: rustix::fs::Dir, wanted: &[u8]) -> String {
    let mut entries: Vec<(usize, Vec<u8>, bool)> = dir
        .take(limits::FOLDER_READ_MAX)
        .filter_map(Result::ok)
        .map(|entry| (entry.file_name().to_bytes().to_vec(), entry.file_type() == FileType::Directory))
        .filter(|(name, _)| name != b"." && name != b"..")
        .map(|(name, is_folder)| (likeness(wanted, &name), name, is_folder))
        .collect();
    entries.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let more = entries.len().saturating_sub(limits::NEIGHBOURS_MAX);
    let names: Vec<String> = entries
        .iter()
        .take(limits::NEIGHBOURS_MAX)
        .map(|(_, name, is_folder)| format!("{}{}", shown_bytes(name), if *is_folder { "/" } else { "" }))
        .collect();
    let list = format!("[{}]", names.join(", "));
    if more > 0 { format!("{list}, {more} more") } else { list }
}
