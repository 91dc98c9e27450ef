//! What a command line is, before it is judged.
//!
//! This build reads no shell: every command is [`EffectClass::Unsafe`], so it asks wherever asking is possible.
//! The strict lexer and its flag tables belong behind [`judge`], which is all that callers know.
//!
//! Deliberately absent: a list of forbidden commands. Without reading the shell it would be a search in text,
//! which quotes evade and which hits harmless words; a wrong "forbidden" is as bad as a missed one. What holds
//! meanwhile are the mode, the person asked, and the sandbox.

use crate::event::{CommandPart, EffectClass};

/// What a command line was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandJudgement {
    /// The whole line.
    pub effect: EffectClass,
    /// Its parts, as far as they were understood; empty when nothing was.
    pub parts: Vec<CommandPart>,
    /// Why it must not run in any mode, if so.
    pub forbidden: Option<String>,
}

/// Judges the exact bytes that would be given to the shell.
pub fn judge(_command: &str) -> CommandJudgement {
    CommandJudgement { effect: EffectClass::Unsafe, parts: Vec::new(), forbidden: None }
}

/// Words of the shell itself that start nothing else.
const BUILTINS: &[&str] = &[
    ":", "[", "[[", "break", "cd", "continue", "echo", "exit", "export", "false", "let", "local", "printf",
    "pwd", "return", "set", "shift", "test", "true", "umask", "unset",
];
/// Words after which a command begins.
const KEYWORDS: &[&str] =
    &["!", "do", "elif", "else", "if", "then", "until", "while", "{", "}", "done", "fi"];

/// Whether a command line is certain to run nothing but the shell's own words. Cautious: what it does not understand is not.
/// Decides how its output is read, never whether it may run.
pub fn is_all_shell(command: &str) -> bool {
    // Substitutions, pipes, functions, comments (a quote in one hides what follows), and other ways to the streams.
    let has_more = ["`", "$(", "<(", ">(", "|", "()", "<<", "#", "/dev/", "/proc/"]
        .iter()
        .any(|mark| command.contains(mark));
    let lone_ampersand = command.replace("&&", " ").replace(">&", " ").contains('&');
    if has_more || lone_ampersand {
        return false;
    }
    let Some(words) = words_of(command) else { return false };
    let (mut begins, mut in_for) = (true, false);
    for word in &words {
        if word == ";" {
            (begins, in_for) = (true, false);
            continue;
        }
        // `for NAME do` has no list and no separator.
        if in_for && word == "do" {
            (begins, in_for) = (true, false);
            continue;
        }
        if !begins || in_for {
            continue;
        }
        match word.as_str() {
            "for" => in_for = true,
            keyword if KEYWORDS.contains(&keyword) => {}
            builtin if BUILTINS.contains(&builtin) => begins = false,
            _ => return false,
        }
    }
    true
}

/// The words of a line, quoted ones as `\0`; `;` for each end of a command. None where a quote is open or a character escaped.
fn words_of(command: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut letters) =
        (Vec::new(), String::new(), command.replace("&&", ";").into_bytes().into_iter());
    while let Some(letter) = letters.next() {
        match letter {
            // A backslash may hide where a word ends; within single quotes it is a letter.
            b'\\' => return None,
            b'"' => {
                let end = letters.find(|other| matches!(other, b'"' | b'\\'))?;
                if end == b'\\' {
                    return None;
                }
                word.push('\0');
            }
            b'\'' => {
                letters.position(|other| other == letter)?;
                word.push('\0');
            }
            b' ' | b'\t' | b'\n' | b';' | b'(' | b')' => {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                if letter != b' ' && letter != b'\t' {
                    words.push(";".to_owned());
                }
            }
            letter => word.push(char::from(letter)),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::is_all_shell;

    #[test]
    fn only_lines_of_the_shells_own_words_are_all_shell() {
        let shell = [
            "echo a; echo b >&2; echo c",
            "for i in 1 2 3; do echo out $i; echo err $i >&2; done; exit 3",
            "if [ -e x ]; then echo yes && printf '%s\\n' no >&2; else false; fi",
            "set -x\necho one\necho two >&2",
            "while true; do echo x; break; done",
            "(echo a; echo b >&2)",
            "{ echo a; echo b >&2; }",
            "echo 'node; rm -rf x' \"cat\"",
        ];
        for line in shell {
            assert!(is_all_shell(line), "{line}");
        }
        let more = [
            "ls",
            "echo a; ls; echo b",
            "echo $(ls)",
            "echo `ls`",
            "echo a | cat",
            "for i in $(seq 3); do echo $i; done",
            "X=1 node x.js",
            "$X",
            "'node' x",
            "eval node",
            "exec node",
            ". ./x",
            "source x",
            "trap node EXIT",
            "f() { node; }; f",
            "echo a & node",
            "echo a &",
            "command node",
            "if node x; then echo; fi",
            "do_it",
            "./echo",
            "echo 'open",
            "cat <<E\nE",
            "! node",
            "echo a &&node",
            "(node)",
            "{ node; }",
            "while node; do echo; done",
            "\\node",
            "time node",
            "env",
            "sleep 1",
        ];
        for line in more {
            assert!(!is_all_shell(line), "{line}");
        }
    }
}
