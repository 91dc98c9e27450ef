//! The system text: one reviewed file, rendered once and frozen into the session.
//!
//! Deliberately absent: descriptions of tools (they are offered only in the `tools` field), dates, listings
//! and counters (they would change the prefix).

/// The reviewed text with its places.
const TEXT: &str = include_str!("system.md");

/// What the text says about its session.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The root of the workspace.
    pub root: &'a str,
    /// The folder relative paths start from.
    pub cwd: &'a str,
    /// The operating system, in words.
    pub os: &'a str,
}

/// The system text of a session.
pub fn render(place: &Place<'_>) -> String {
    // A name with braces must not be taken for a place, so the text is filled in one pass.
    let mut text = String::with_capacity(TEXT.len() + place.root.len() + place.cwd.len());
    let mut rest = TEXT.trim_end();
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let (name, tail) = after.split_once('}').unwrap_or((after, ""));
        match name {
            "root" => text.push_str(place.root),
            "cwd" => text.push_str(place.cwd),
            "os" => text.push_str(place.os),
            other => {
                text.push('{');
                text.push_str(other);
                text.push('}');
            }
        }
        rest = tail;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_filled_once() {
        let text = render(&Place { root: "/w/{cwd}", cwd: "/w/{cwd}/in", os: "linux" });
        assert!(text.contains("Workspace: /w/{cwd}\n"));
        assert!(text.contains("Relative paths start at: /w/{cwd}/in\n"));
        assert!(text.contains("System: linux\n"));
    }
}
