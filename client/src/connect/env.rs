//! What of the client's environment a session may have.

use std::collections::BTreeMap;

/// Variables every session gets: what commands need to behave as they do in the person's terminal.
const NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "EDITOR",
    "VIRTUAL_ENV",
    "GOPATH",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// The variables to send with a new session. Keys and addresses of model providers are among them (the daemon
/// keeps them in memory and drops those of providers it does not know); nothing else that could be a secret is.
pub fn session_env() -> BTreeMap<String, String> {
    allowed(
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
    )
}

fn allowed(vars: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    vars.filter(|(name, _)| {
        NAMES.contains(&name.as_str())
            || name.starts_with("LC_")
            || name.ends_with("_API_KEY")
            || name.ends_with("_BASE_URL")
            || (name.ends_with("_KEY")
                && !name.contains("SECRET")
                && !name.contains("ACCESS")
                && !name.contains("PRIVATE"))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_providers_go_and_other_secrets_stay() {
        let vars = [
            "PATH",
            "ANTHROPIC_API_KEY",
            "LOCAL_KEY",
            "OPENAI_BASE_URL",
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "LD_PRELOAD",
        ];
        let sent = allowed(vars.iter().map(|name| ((*name).to_owned(), "v".to_owned())));
        let names: Vec<_> = sent.keys().map(String::as_str).collect();
        assert_eq!(names, ["ANTHROPIC_API_KEY", "LOCAL_KEY", "OPENAI_BASE_URL", "PATH"]);
    }
}
