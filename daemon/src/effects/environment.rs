//! The environment of a session: what its client brought, in memory only.
//!
//! Keys stay here and go to providers; commands get an allow list without them. After a restart of the daemon the
//! environment is what the daemon itself was started with, until a client brings a new one.

use crate::redact::Redactor;
use agentd_core::ids::SessionId;
use agentd_core::limits;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A client's environment.
pub type Environment = BTreeMap<String, String>;

/// Names that a command gets from its session's client.
const PASSED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "VIRTUAL_ENV",
    "NVM_DIR",
    "PNPM_HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];
/// Beginnings of names that a command gets.
const PASSED_BEGINNINGS: &[&str] = &["LC_"];
/// What every command gets, whatever the client has: nothing pages, prompts or draws.
const FIXED: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("SUDO_ASKPASS", "/bin/false"),
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("AGENTD", "1"),
];
/// Where programs are found if nobody says.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

#[derive(Default)]
struct Kept {
    environment: Arc<Environment>,
    redactor: Option<Arc<Redactor>>,
}

/// The environments of all sessions of this run.
pub struct SessionEnvironments {
    own: Arc<Environment>,
    sessions: Mutex<HashMap<SessionId, Kept>>,
}

impl Default for SessionEnvironments {
    fn default() -> Self {
        let own = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { own: Arc::new(own), sessions: Mutex::default() }
    }
}

impl SessionEnvironments {
    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Kept>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a client brought. An empty environment changes nothing.
    pub(super) fn keep(&self, session: &SessionId, environment: Environment) {
        if environment.is_empty() {
            return;
        }
        let kept = Kept { environment: Arc::new(environment), redactor: None };
        self.sessions().insert(session.clone(), kept);
    }

    /// The environment of a session.
    pub(super) fn of(&self, session: &SessionId) -> Arc<Environment> {
        self.sessions().get(session).map_or_else(|| self.own.clone(), |kept| kept.environment.clone())
    }

    /// The redactor of a session, made when it is first needed.
    pub(super) fn redactor(
        &self,
        session: &SessionId,
        secrets: impl Fn(&Environment) -> Vec<(String, String)>,
    ) -> Arc<Redactor> {
        let mut sessions = self.sessions();
        let own = self.own.clone();
        let kept =
            sessions.entry(session.clone()).or_insert_with(|| Kept { environment: own, redactor: None });
        let environment = kept.environment.clone();
        let make = || {
            let secrets = secrets(&environment);
            Arc::new(Redactor::new(secrets.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))))
        };
        kept.redactor.get_or_insert_with(make).clone()
    }
}

/// The whole environment of a command. A value that holds one of the `secrets` does not pass, whatever its name is.
pub(super) fn of_command(client: &Environment, secrets: &[(String, String)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let passed = |name: &str| {
        PASSED.contains(&name) || PASSED_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
    };
    let is_secret = |value: &str| {
        secrets
            .iter()
            .any(|(_, secret)| secret.len() >= limits::SECRET_MIN_BYTES && value.contains(secret.as_str()))
    };
    let mut environment: BTreeMap<&str, String> =
        FIXED.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    environment.insert("PATH", DEFAULT_PATH.to_owned());
    for (name, value) in client.iter().filter(|(name, value)| passed(name) && !is_secret(value)) {
        let value = if name == "PATH" { absolute_folders(value) } else { value.clone() };
        environment.insert(name, value);
    }
    environment.into_iter().map(|(name, value)| (name.as_bytes().to_vec(), value.into_bytes())).collect()
}

/// A search path without what depends on the folder a program runs in: a workspace must not name its own `git`.
fn absolute_folders(path: &str) -> String {
    let folders: Vec<&str> = path.split(':').filter(|folder| folder.starts_with('/')).collect();
    if folders.is_empty() { DEFAULT_PATH.to_owned() } else { folders.join(":") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_not_reach_commands() {
        let client: Environment =
            [("ANTHROPIC_API_KEY", "k"), ("PATH", "/p"), ("LC_ALL", "C"), ("LD_PRELOAD", "/e.so")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        let names: Vec<String> =
            of_command(&client, &[]).into_iter().map(|(name, _)| String::from_utf8(name).unwrap()).collect();
        assert!(names.contains(&"PATH".to_owned()) && names.contains(&"LC_ALL".to_owned()));
        assert!(
            !names.contains(&"ANTHROPIC_API_KEY".to_owned()) && !names.contains(&"LD_PRELOAD".to_owned())
        );
    }

    #[test]
    fn a_search_path_is_absolute_and_a_secret_passes_under_no_name() {
        let client: Environment = [
            ("PATH", ".:/usr/bin::bin:/bin"),
            ("LC_ALL", "C"),
            ("TZ", "sk-very-secret"),
            ("HTTP_PROXY", "http://u:sk-very-secret@h"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let secrets = [("KEY".to_owned(), "sk-very-secret".to_owned())];
        let found: BTreeMap<String, String> = of_command(&client, &secrets)
            .into_iter()
            .map(|(name, value)| (String::from_utf8(name).unwrap(), String::from_utf8(value).unwrap()))
            .collect();
        assert_eq!(found["PATH"], "/usr/bin:/bin");
        assert_eq!(found["LC_ALL"], "C");
        assert!(!found.contains_key("TZ") && !found.contains_key("HTTP_PROXY"));
        assert_eq!(absolute_folders("."), DEFAULT_PATH);
    }
}
