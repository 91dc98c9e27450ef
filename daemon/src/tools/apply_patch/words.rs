//! What is shown of a patch before it runs, and said afterwards.

use super::plan::{Kind, Step};
use crate::redact::Redactor;
use crate::tools::change;
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown;

/// The diffs of all files, one after the other.
pub(super) fn preview(root: &PathBytes, steps: &[Step], redactor: &Redactor) -> String {
    let root = format!("{}/", shown(root));
    let mut out = String::new();
    for (index, step) in steps.iter().enumerate() {
        if out.len() > limits::DIFF_MAX_BYTES {
            let names: Vec<&str> = steps.iter().skip(index).map(|step| step.name.as_str()).collect();
            let shown: String = names.join(", ").chars().take(limits::DIFF_LINE_MAX_BYTES).collect();
            out.push_str(&format!("... [diff cut: {} more: {shown}] ...\n", names.len()));
            break;
        }
        let path = shown(&step.binding.path);
        let label = path.strip_prefix(&root).unwrap_or(&path);
        let after = step.after.as_deref().unwrap_or_default();
        match &step.kind {
            Kind::Update { .. } => {
                let diff = change::diff_as_read(label, step.before.as_deref(), after, redactor);
                out.push_str(&if diff.is_empty() { format!("{label}: no change\n") } else { diff });
            }
            Kind::Add { executable } => {
                if *executable {
                    out.push_str(&format!("{label}: may be run\n"));
                }
                let diff = change::diff_as_read(label, None, after, redactor);
                out.push_str(&if diff.is_empty() { format!("{label}: new and empty\n") } else { diff });
            }
            Kind::Delete => {
                let diff = change::diff_as_read(label, step.before.as_deref(), b"", redactor);
                let diff = diff.replacen(&format!("+++ b/{label}\n"), "+++ /dev/null\n", 1);
                out.push_str(&if diff.is_empty() {
                    format!("{label}: deleted, it was empty\n")
                } else {
                    diff
                });
            }
            Kind::MovedHere { from, content, .. } => {
                out.push_str(&format!("rename from {from}\nrename to {label}\n"));
                out.push_str(&change::diff_as_read(label, Some(content), after, redactor));
            }
            Kind::MovedAway => {}
        }
    }
    out
}

/// One line for each file.
pub(super) fn summary(steps: &[Step], max_bytes: usize) -> String {
    let lines: Vec<String> = steps.iter().filter_map(told).collect();
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        if out.len() + line.len() > max_bytes && index > 0 {
            out.push_str(&format!("… and {} more files\n", lines.len() - index));
            break;
        }
        out.push_str(line);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

fn told(step: &Step) -> Option<String> {
    let name = &step.name;
    Some(match &step.kind {
        Kind::Update { .. } if !step.changes() => format!("{name} stays as it is"),
        Kind::Update { lines } => format!("Updated {name}: {}", places(lines)),
        Kind::Add { .. } => format!("Added {name}"),
        Kind::Delete => format!("Deleted {name}"),
        Kind::MovedHere { from, lines, .. } if lines.is_empty() => format!("Moved {from} to {name}"),
        Kind::MovedHere { from, lines, .. } => format!("Moved {from} to {name}: {}", places(lines)),
        Kind::MovedAway => return None,
    })
}

fn places(lines: &[usize]) -> String {
    let named: Vec<String> = lines.iter().take(limits::EDIT_PLACES_MAX).map(ToString::to_string).collect();
    let more = if lines.len() > named.len() { ", …" } else { "" };
    match lines.len() {
        1 => format!("1 place, line {}", named.join(", ")),
        count => format!("{count} places, lines {}{more}", named.join(", ")),
    }
}
