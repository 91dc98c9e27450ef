//! How servers of the Chat Completions dialect differ, as data by host.
//!
//! State of the table: 2026-11-30. The dialect has one name and many speakers: a field that one of them needs is
//! refused by another. What is in no row is what most of them take. A host counts before the name that a person
//! gave the provider, because the name says only what was meant; on this machine and its own network the name never
//! counts, because behind it may be anything.
//!
//! Deliberately absent: what is learned from a refusal while a session runs (the call itself is mended then), and
//! how answers differ, which the decoder reads by what is there.

use agentd_core::event::{CallIdForm, ChatForm, MaxTokensField, ReasoningReplay};
use reqwest::Url;
use std::net::IpAddr;

/// One kind of server.
struct Server {
    /// What its hosts end with; a whole label or more.
    hosts: &'static [&'static str],
    /// Names of providers that mean it where the host is not known.
    names: &'static [&'static str],
    /// How it differs.
    form: ChatForm,
    /// It takes `max_completion_tokens` for reasoning models, whatever it takes for the others.
    reasoning_models: bool,
    /// Its list of models says more than their names.
    describes: bool,
}

/// What most servers take.
const COMMON: ChatForm = ChatForm {
    max_tokens_field: MaxTokensField::MaxTokens,
    stream_options: true,
    reasoning: ReasoningReplay::SameField,
    call_ids: CallIdForm::Any,
    empty_content: false,
    stand_in_signature: false,
    reasoning_with_calls: false,
};

/// Their thinking models refuse a call that comes back without its `reasoning_content`.
const WANTS_REASONING: ChatForm = ChatForm { reasoning_with_calls: true, ..COMMON };

const PLAIN: Server =
    Server { hosts: &[], names: &[], form: COMMON, reasoning_models: false, describes: true };

const SERVERS: &[Server] = &[
    Server {
        hosts: &["api.openai.com"],
        names: &["openai"],
        form: ChatForm { max_tokens_field: MaxTokensField::MaxCompletionTokens, ..COMMON },
        describes: false,
        ..PLAIN
    },
    // Behind a deployment's name may be any model; older ones know the older field only.
    Server {
        hosts: &["openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com"],
        names: &["azure"],
        reasoning_models: true,
        describes: false,
        ..PLAIN
    },
    // It refuses fields it does not know, and says usage without being asked.
    Server {
        hosts: &["api.mistral.ai"],
        names: &["mistral"],
        form: ChatForm {
            call_ids: CallIdForm::NineAlphanumeric,
            empty_content: true,
            stream_options: false,
            ..COMMON
        },
        ..PLAIN
    },
    Server {
        hosts: &["generativelanguage.googleapis.com", "aiplatform.googleapis.com", "googleapis.com"],
        names: &["gemini", "google", "vertex"],
        form: ChatForm { stand_in_signature: true, ..COMMON },
        ..PLAIN
    },
    // It sends `reasoning` and refuses it in a request.
    Server {
        hosts: &["api.groq.com"],
        names: &["groq"],
        form: ChatForm { reasoning: ReasoningReplay::Never, ..COMMON },
        ..PLAIN
    },
    Server {
        hosts: &["api.deepseek.com"],
        names: &["deepseek"],
        form: WANTS_REASONING,
        describes: false,
        ..PLAIN
    },
    Server {
        hosts: &["api.moonshot.ai", "api.moonshot.cn"],
        names: &["moonshot", "kimi"],
        form: WANTS_REASONING,
        ..PLAIN
    },
    Server { hosts: &["openrouter.ai"], names: &["openrouter"], ..PLAIN },
    Server { hosts: &["api.x.ai"], names: &["xai", "grok"], ..PLAIN },
    Server { hosts: &["api.together.xyz", "api.together.ai"], names: &["together"], ..PLAIN },
];

/// What reasoning models of OpenAI are called.
const REASONING: &[&str] = &["o1", "o3", "o4", "gpt-5", "gpt-6"];

fn server(base_url: &str, provider: &str) -> &'static Server {
    let host = Url::parse(base_url).ok().and_then(|url| url.host_str().map(str::to_ascii_lowercase));
    let host = host.unwrap_or_default();
    let of_host = SERVERS.iter().find(|server| server.hosts.iter().any(|end| ends_with(&host, end)));
    if let Some(found) = of_host {
        return found;
    }
    if is_local(&host) {
        return &PLAIN;
    }
    let name = provider.to_ascii_lowercase();
    SERVERS.iter().find(|server| server.names.contains(&name.as_str())).unwrap_or(&PLAIN)
}

fn ends_with(host: &str, end: &str) -> bool {
    host.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with(['.', '-']))
}

fn is_local(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let near = |address| match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local(),
    };
    host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(near)
}

/// How the server at this address wants `model` to be asked.
pub(super) fn form_of(base_url: &str, provider: &str, model: &str) -> ChatForm {
    let server = server(base_url, provider);
    let mut form = server.form;
    if server.reasoning_models && REASONING.iter().any(|beginning| model.starts_with(beginning)) {
        form.max_tokens_field = MaxTokensField::MaxCompletionTokens;
    }
    form
}

/// Whether it is worth asking the server at this address what its models are like.
pub(super) fn describes(base_url: &str, provider: &str) -> bool {
    server(base_url, provider).describes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_counts_before_a_name_and_a_name_never_on_this_machine() {
        let form = |url, name, model| form_of(url, name, model);
        let openai = form("https://api.openai.com/v1", "mine", "gpt-4o");
        assert_eq!(openai.max_tokens_field, MaxTokensField::MaxCompletionTokens);
        assert_eq!(form("https://gateway.example/v1", "openai", "gpt-4o"), openai);
        assert_eq!(form("http://127.0.0.1:8080/v1", "openai", "gpt-5"), ChatForm::default());
        assert_eq!(form("http://[::1]:8080/v1", "mistral", "x"), ChatForm::default());
        assert_eq!(form("https://api.x.ai/v1", "openai", "grok-4"), ChatForm::default());
        assert_eq!(form("https://evil-openrouter.ai.example", "x", "y"), ChatForm::default());
        assert_eq!(form("https://notapi.openai.com", "x", "y"), ChatForm::default());
    }

    #[test]
    fn each_server_gets_what_it_takes() {
        let mistral = form_of("https://api.mistral.ai/v1", "m", "mistral-large-latest");
        assert_eq!((mistral.call_ids, mistral.empty_content), (CallIdForm::NineAlphanumeric, true));
        for host in ["generativelanguage.googleapis.com", "us-central1-aiplatform.googleapis.com"] {
            assert!(form_of(&format!("https://{host}/v1"), "g", "gemini-3-pro").stand_in_signature, "{host}");
        }
        let groq = form_of("https://api.groq.com/openai/v1", "g", "qwen3");
        assert_eq!(groq.reasoning, ReasoningReplay::Never);
        for host in ["api.deepseek.com", "api.moonshot.cn"] {
            assert!(form_of(&format!("https://{host}/v1"), "d", "k").reasoning_with_calls, "{host}");
        }
        let azure = |model| form_of("https://my.openai.azure.com/openai/v1", "a", model).max_tokens_field;
        assert_eq!(azure("o3-mini"), MaxTokensField::MaxCompletionTokens);
        assert_eq!(azure("my-deployment"), MaxTokensField::MaxTokens);
        assert!(
            !describes("https://api.openai.com/v1", "openai") && describes("http://localhost:1", "openai")
        );
    }
}
