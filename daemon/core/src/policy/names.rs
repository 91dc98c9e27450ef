//! Names that are protected wherever they appear in a path, because something outside the sandbox acts on them
//! later: git, shells, editors, package managers, agents.
//!
//! A name is compared folded: in lower case, with code points removed that some file systems ignore, without
//! trailing dots and blanks. That protects the same file on a case-insensitive disk, at the price of protecting
//! a few names that are different files here.
//!
//! Only changes are protected: reading `.git/config` is reading inside the workspace. The daemon's own files are
//! known by their place and not by name; see `daemon/src/inspect`.

use crate::event::PathOp;
use crate::path_bytes::PathBytes;

/// How a protected name is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Never, in any mode.
    Deny,
    /// Only when a person says so, in any mode.
    Ask,
}

/// Why a path is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    /// How.
    pub hold: Hold,
    /// Why, in words.
    pub why: String,
}

/// Folders (and files) below which nothing is changed without a person, and why.
const ASK_ANYWHERE: &[(&str, &str)] = &[
    (".gitmodules", "it decides what a later git submodule update fetches"),
    (".gitattributes", "it selects filter and diff programs for git"),
    (".gitconfig", "git runs programs named in it"),
    (".envrc", "direnv runs it when the folder is entered"),
    (".vscode", "the editor runs tasks named in it"),
    (".idea", "the editor runs configurations named in it"),
    (".mcp.json", "it names programs that agents start"),
    (".npmrc", "it names scripts and registries for package managers"),
    (".yarnrc", "it names scripts and registries for package managers"),
    (".yarnrc.yml", "it names scripts and registries for package managers"),
    (".pypirc", "it names registries for package managers"),
    (".bashrc", "a shell runs it when it starts"),
    (".bash_profile", "a shell runs it when it starts"),
    (".bash_login", "a shell runs it when it starts"),
    (".bash_logout", "a shell runs it when it ends"),
    (".bash_aliases", "a shell runs it when it starts"),
    (".profile", "a shell runs it when it starts"),
    (".zshrc", "a shell runs it when it starts"),
    (".zshenv", "a shell runs it when it starts"),
    (".zprofile", "a shell runs it when it starts"),
    (".zlogin", "a shell runs it when it starts"),
    (".zlogout", "a shell runs it when it ends"),
    (".inputrc", "shells read it"),
    (".exrc", "the editor runs commands named in it"),
    (".vimrc", "the editor runs commands named in it"),
    (".nvimrc", "the editor runs commands named in it"),
    (".nvim.lua", "the editor runs it"),
    (".cshrc", "a shell runs it when it starts"),
    (".tcshrc", "a shell runs it when it starts"),
    (".kshrc", "a shell runs it when it starts"),
    (".login", "a shell runs it when it starts"),
    (".logout", "a shell runs it when it ends"),
    (".xprofile", "it runs when a person logs in"),
    (".xsession", "it runs when a person logs in"),
    (".xsessionrc", "it runs when a person logs in"),
    (".xinitrc", "it runs when a person logs in"),
    (".pam_environment", "it sets the environment of a person's programs"),
    (".emacs", "the editor runs it"),
    (".emacs.d", "the editor runs what is in it"),
    (".dir-locals.el", "the editor runs forms in it"),
    (".vim", "the editor runs what is in it"),
    (".zed", "the editor runs tasks named in it"),
    (".fleet", "the editor runs configurations named in it"),
    (".devcontainer", "editors run commands named in it"),
    (".devcontainer.json", "editors run commands named in it"),
    (".gdbinit", "the debugger runs commands in it"),
    (".lldbinit", "the debugger runs commands in it"),
    (".pdbrc", "the debugger runs commands in it"),
    (".husky", "git runs hooks that are kept in it"),
    (".githooks", "git may run hooks that are kept in it"),
    (".pre-commit-config.yaml", "git hooks run programs named in it"),
    ("lefthook.yml", "git hooks run programs named in it"),
    (".mise.toml", "it sets programs and environment when the folder is entered"),
    ("mise.toml", "it sets programs and environment when the folder is entered"),
    (".pnpmfile.cjs", "the package manager runs it"),
    ("bunfig.toml", "it names scripts and registries for package managers"),
    (".netrc", "it holds passwords that programs send"),
    (".curlrc", "programs take options from it"),
    (".wgetrc", "programs take options from it"),
    (".gnupg", "it holds keys and programs that gpg runs"),
    (".aws", "it holds keys and names programs that give keys"),
    (".kube", "it holds keys and names programs that give keys"),
    (".docker", "it holds keys and names programs that give keys"),
    (".ssh", "it holds keys and programs that ssh runs"),
    (".agentd", "it configures this agent"),
    (".claude", "it configures an agent"),
    (".codex", "it configures an agent"),
    (".cursor", "it configures an agent"),
    (".gemini", "it configures an agent"),
];

/// Whether an operation on this path touches a protected name. The path may be relative or absolute; all of its
/// components count.
pub fn protection(path: &[u8], op: PathOp) -> Option<Protection> {
    if !op.changes() {
        return None;
    }
    // A backslash is a separator where the same work tree is opened by Windows.
    let parts: Vec<String> = path
        .split(|byte| matches!(byte, b'/' | b'\\'))
        .filter(|part| !part.is_empty())
        .map(|part| long_name(fold(part)))
        .collect();
    if parts.iter().any(|part| part == ".git") {
        return Some(Protection {
            hold: Hold::Deny,
            why: "git's own files run programs later (hooks, config); use git commands instead".to_owned(),
        });
    }
    for (index, part) in parts.iter().enumerate() {
        if let Some((_, why)) = ASK_ANYWHERE.iter().find(|(name, _)| name == part) {
            return Some(Protection { hold: Hold::Ask, why: (*why).to_owned() });
        }
        let next = parts.get(index + 1).map(String::as_str).unwrap_or_default();
        let why = match (part.as_str(), next) {
            (".cargo", "config" | "config.toml") => "it names programs that cargo runs",
            ("rust-toolchain" | "rust-toolchain.toml", "") => "it names the programs that cargo runs",
            (".config", "git" | "fish" | "systemd" | "autostart" | "agentd" | "environment.d" | "mise") => {
                "programs named in it run later"
            }
            (".local", "bin") | ("library", "launchagents") => "programs in it run later",
            _ => continue,
        };
        return Some(Protection { hold: Hold::Ask, why: why.to_owned() });
    }
    odd_name(path).map(|why| Protection { hold: Hold::Ask, why: why.to_owned() })
}

/// A name that people could misread.
fn odd_name(path: &[u8]) -> Option<&'static str> {
    let Ok(text) = std::str::from_utf8(path) else { return Some("its name is not text in UTF-8") };
    if text.chars().any(char::is_control) {
        return Some("its name has control characters");
    }
    text.chars().any(is_ignorable).then_some("its name has invisible or direction-changing characters")
}

/// A component as it is compared: lower case, ignorable code points removed, trailing dots and blanks dropped.
pub fn fold(component: &[u8]) -> String {
    let text = String::from_utf8_lossy(component);
    let folded: String = text.chars().filter(|c| !is_ignorable(*c)).flat_map(char::to_lowercase).collect();
    let trimmed = folded.trim_end_matches(['.', ' ']);
    // `.` and `..` are nothing but dots; they must not become the empty name.
    if trimmed.is_empty() { folded } else { trimmed.to_owned() }
}

/// The name behind a short or extended one: NTFS knows `.git` also as `git~1` and as `.git::$INDEX_ALLOCATION`.
fn long_name(folded: String) -> String {
    let name = folded.split_once(':').map_or(folded.as_str(), |(name, _)| name);
    let long = match name {
        "git~1" => ".git",
        "gitmod~1" => ".gitmodules",
        "gitatt~1" => ".gitattributes",
        name if name.starts_with(".git") => name,
        _ => return folded,
    };
    long.trim_end_matches(['.', ' ']).to_owned()
}

/// Why a path begins with something that shells expand and file tools never do, if it does. A name that really
/// begins so is meant by `./~`.
pub fn unexpanded(path: &[u8]) -> Option<&'static str> {
    let end = path.iter().position(|byte| *byte == b'/');
    let first = &path[..end.unwrap_or(path.len())];
    let is_word = |name: &[u8]| {
        !name.is_empty()
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    if first == b"~" || (end.is_some() && first.strip_prefix(b"~").is_some_and(is_word)) {
        return Some("a leading ~ is never expanded; write the whole path, or ./~ for a file of that name");
    }
    let name = first.strip_prefix(b"$")?;
    let name = name.strip_prefix(b"{").and_then(|name| name.strip_suffix(b"}")).unwrap_or(name);
    let is_variable = is_word(name) && !name.iter().any(u8::is_ascii_lowercase);
    is_variable
        .then_some("variables are never expanded; write the whole path, or ./$ for a file of that name")
}

/// Code points that some file systems ignore in names, and others that are not seen or turn the text around.
const fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}')
}

/// A path as it may be shown. What could be misread or obeyed is escaped as in JSON, so that a model can copy the
/// very name: control, invisible and direction-changing characters, blanks that are not the common one, and combining
/// marks (`e\u0301` is another name than `é`). Bytes that are not UTF-8 appear as `\xff`, which no JSON can say.
/// Then the whole stands in quotes.
pub fn shown(path: &PathBytes) -> String {
    shown_bytes(path.as_bytes())
}

/// The same for bytes.
pub fn shown_bytes(path: &[u8]) -> String {
    use std::fmt::Write as _;
    let plain =
        std::str::from_utf8(path).ok().filter(|text| !text.is_empty() && !text.chars().any(is_escaped));
    if let Some(text) = plain {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                c if is_escaped(c) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

fn is_escaped(c: char) -> bool {
    c.is_control() || is_ignorable(c) || (c.is_whitespace() && c != ' ') || matches!(c, '\u{300}'..='\u{36f}')
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
