//! What the shape alone does not say, and where in the text a key stands.

use super::catalog::{BUILT_IN, provider as provider_of, split_name};
use super::schema::{Config, ContextSection, McpServer, ModelSection, ProviderSection};
use agentd_core::event::Dialect;
use agentd_core::limits;
use agentd_core::policy::BUILT_IN_TOOLS;
use serde::Deserialize;

/// What is wrong, and at which key.
pub(super) struct Fault {
    pub(super) path: Vec<String>,
    pub(super) message: String,
}

fn fault(path: &[&str], message: impl Into<String>) -> Fault {
    Fault { path: path.iter().map(|part| (*part).to_owned()).collect(), message: message.into() }
}

/// The first thing that is wrong.
pub(super) fn check(config: &Config) -> Result<(), Fault> {
    if let Some(model) = &config.model
        && split_name(model).is_none()
    {
        return Err(fault(&["model"], format!("{model:?} is not of the form provider/model")));
    }
    for (name, provider) in &config.providers {
        check_provider(name, provider)?;
    }
    for (name, model) in &config.models {
        if split_name(name).is_none() {
            return Err(fault(&["models", name], "the name is not of the form provider/model"));
        }
        if model.context_window.is_some_and(|window| window < limits::CONTEXT_WINDOW_MIN) {
            let message = format!("at least {} tokens are needed to work", limits::CONTEXT_WINDOW_MIN);
            return Err(fault(&["models", name, "context_window"], message));
        }
        if model.max_output_tokens == Some(0) {
            return Err(fault(&["models", name, "max_output_tokens"], "at least 1"));
        }
        if let Some(price) = model.price {
            for value in [price.input, price.output, price.cache_read, price.cache_write] {
                if !(0.0..=100_000.0).contains(&value) {
                    return Err(fault(&["models", name, "price"], "prices are between 0 and 100000 USD"));
                }
            }
        }
        if let (Some(window), Some(output)) = (model.context_window, model.max_output_tokens)
            && u64::from(output) >= window
        {
            let message = format!("an answer of {output} tokens leaves no room in a window of {window}");
            return Err(fault(&["models", name, "max_output_tokens"], message));
        }
        check_dialect(config, name, model)?;
        let merged =
            context_of(config, name).map_err(|message| fault(&["models", name, "context"], message))?;
        check_context(&merged, &["models", name, "context"])?;
    }
    check_context(&config.context, &["context"])?;
    check_numbers(config)?;
    // A wrong name would leave on what a person means to turn off.
    if let Some(name) = config.tools.disable.iter().find(|name| !BUILT_IN_TOOLS.contains(&name.as_str())) {
        let message = format!("there is no tool {name:?}; the tools are {}", BUILT_IN_TOOLS.join(", "));
        return Err(fault(&["tools", "disable"], message));
    }
    for (name, server) in &config.mcp.servers {
        check_server(name, server)?;
    }
    for rule in &config.rules {
        if rule.tool.is_empty() || rule.matcher.is_empty() {
            return Err(fault(&["rules"], "a rule needs a tool and a match"));
        }
    }
    Ok(())
}

/// Keys that only one protocol has say nothing to another; a person who sets one means something else.
fn check_dialect(config: &Config, name: &str, model: &ModelSection) -> Result<(), Fault> {
    let Some(provider) = split_name(name).and_then(|(provider, _)| provider_of(config, provider)) else {
        return Ok(());
    };
    for (key, is_set, dialect, protocol) in [
        ("thinking", model.thinking.is_some(), Dialect::Anthropic, "anthropic"),
        ("max_tokens_field", model.max_tokens_field.is_some(), Dialect::OpenAiChat, "openai-chat"),
        ("reasoning", model.reasoning.is_some(), Dialect::OpenAiChat, "openai-chat"),
        ("stream_options", model.stream_options.is_some(), Dialect::OpenAiChat, "openai-chat"),
        ("call_ids", model.call_ids.is_some(), Dialect::OpenAiChat, "openai-chat"),
        ("empty_content", model.empty_content.is_some(), Dialect::OpenAiChat, "openai-chat"),
        ("stand_in_signature", model.stand_in_signature.is_some(), Dialect::OpenAiChat, "openai-chat"),
        ("reasoning_with_calls", model.reasoning_with_calls.is_some(), Dialect::OpenAiChat, "openai-chat"),
    ] {
        if is_set && provider.dialect != dialect {
            let message = format!("only a model of a provider with protocol = {protocol:?} has it");
            return Err(fault(&["models", name, key], message));
        }
    }
    Ok(())
}

/// `[context]` with what `[models."NAME".context]` changes of it.
pub(super) fn context_of(config: &Config, model: &str) -> Result<ContextSection, String> {
    let Some(own) = config.models.get(model).and_then(|model| model.context.as_ref()) else {
        return Ok(config.context.clone());
    };
    // What is not named keeps the value of [context]; the shape of the section refuses unknown keys.
    let shared = &config.context;
    let mut table = toml::Table::new();
    for (key, value) in [
        ("system", shared.system),
        ("task", shared.task),
        ("history", shared.history),
        ("tool_results", shared.tool_results),
        ("prepare_at", shared.prepare_at),
        ("compact_at", shared.compact_at),
        ("force_at", shared.force_at),
    ] {
        table.insert(key.to_owned(), toml::Value::Float(value));
    }
    table.insert("auto_compact".to_owned(), toml::Value::Boolean(shared.auto_compact));
    for (key, value) in [
        ("result_head_lines", shared.result_head_lines),
        ("result_tail_lines", shared.result_tail_lines),
        ("result_max_bytes", shared.result_max_bytes),
    ] {
        table.insert(key.to_owned(), toml::Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)));
    }
    table.extend(own.clone());
    ContextSection::deserialize(table).map_err(|error| error.message().trim().to_owned())
}

fn check_provider(name: &str, provider: &ProviderSection) -> Result<(), Fault> {
    if name.is_empty() || name.contains('/') {
        return Err(fault(&["providers", name], "a provider's name is not empty and has no slash"));
    }
    let built_in = BUILT_IN.contains(&name);
    if !built_in && provider.protocol.is_none() {
        let message = "protocol is missing: anthropic, openai-chat or openai-responses";
        return Err(fault(&["providers", name], message));
    }
    match &provider.base_url {
        None if !built_in => return Err(fault(&["providers", name], "base_url is missing")),
        Some(url) if !(url.starts_with("http://") || url.starts_with("https://")) => {
            let message = format!("{url:?} does not begin with http:// or https://");
            return Err(fault(&["providers", name, "base_url"], message));
        }
        _ => {}
    }
    if provider.api_key_command.as_ref().is_some_and(|command| command.first().is_none_or(String::is_empty)) {
        return Err(fault(&["providers", name, "api_key_command"], "a program and its arguments are needed"));
    }
    // A key that was put here by mistake must not be repeated.
    let is_name = |text: &String| {
        !text.is_empty()
            && !text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if provider.api_key_env.as_ref().is_some_and(|name| !is_name(name)) {
        let message = "the name of a variable is needed (letters, digits and _), not the key itself";
        return Err(fault(&["providers", name, "api_key_env"], message));
    }
    for (key, value) in
        [("first_byte_timeout_s", provider.first_byte_timeout_s), ("idle_timeout_s", provider.idle_timeout_s)]
    {
        if value == Some(0) {
            return Err(fault(&["providers", name, key], "at least 1 second"));
        }
    }
    Ok(())
}

fn check_context(context: &ContextSection, path: &[&str]) -> Result<(), Fault> {
    let at = |key: &str, message: &str| {
        let mut fault = fault(path, message);
        fault.path.push(key.to_owned());
        fault
    };
    for (key, value) in [
        ("system", context.system),
        ("task", context.task),
        ("history", context.history),
        ("tool_results", context.tool_results),
        ("prepare_at", context.prepare_at),
        ("compact_at", context.compact_at),
        ("force_at", context.force_at),
    ] {
        if !(value > 0.0 && value <= 1.0) {
            return Err(at(key, "a fraction above 0 and up to 1 is needed"));
        }
    }
    if context.prepare_at > context.compact_at {
        return Err(at("prepare_at", "it must not be above compact_at"));
    }
    if context.compact_at > context.force_at {
        return Err(at("compact_at", "it must not be above force_at"));
    }
    if context.result_max_bytes == 0 || context.result_max_bytes > limits::RESULT_MAX_BYTES {
        return Err(at("result_max_bytes", &format!("between 1 and {} bytes", limits::RESULT_MAX_BYTES)));
    }
    Ok(())
}

fn check_numbers(config: &Config) -> Result<(), Fault> {
    let of_limits = &config.limits;
    if !(of_limits.max_cost_usd > 0.0 && of_limits.max_cost_usd <= 1_000_000.0) {
        return Err(fault(&["limits", "max_cost_usd"], "above 0 and up to 1000000"));
    }
    let max = limits::COMMAND_TIMEOUT_S_MAX;
    if of_limits.command_timeout_s == 0 || of_limits.command_timeout_s > max {
        return Err(fault(&["limits", "command_timeout_s"], format!("between 1 and {max} seconds")));
    }
    for (section, key, value) in [
        ("limits", "max_steps", of_limits.max_steps),
        ("limits", "max_calls_per_message", of_limits.max_calls_per_message),
        ("limits", "max_minutes", of_limits.max_minutes),
        ("limits", "parallel_read_only", of_limits.parallel_read_only),
        ("retry", "max_attempts", config.retry.max_attempts),
        ("session", "approvals_expire_h", config.session.approvals_expire_h),
        ("retention", "sessions_days", config.retention.sessions_days),
        ("retention", "artifacts_days", config.retention.artifacts_days),
    ] {
        if value == 0 {
            return Err(fault(&[section, key], "at least 1"));
        }
    }
    if config.retry.base_ms == 0 || config.retry.base_ms > config.retry.max_ms {
        return Err(fault(&["retry", "base_ms"], "above 0 and not above max_ms"));
    }
    Ok(())
}

fn check_server(name: &str, server: &McpServer) -> Result<(), Fault> {
    match (&server.command, &server.url) {
        (Some(_), None) => Ok(()),
        (None, Some(url)) if url.starts_with("http://") || url.starts_with("https://") => Ok(()),
        (None, Some(_)) => {
            Err(fault(&["mcp", "servers", name, "url"], "it must begin with http:// or https://"))
        }
        _ => Err(fault(&["mcp", "servers", name], "either command or url is needed")),
    }
}

/// The line of a byte, from 1.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

/// The dotted key of a line: the table it stands in and what is left of its `=`.
pub(super) fn key_at(text: &str, line: usize) -> String {
    let mut table = String::new();
    for (at, row) in text.lines().enumerate() {
        let row = row.trim();
        if row.starts_with('[') && at < line {
            table = header(row);
        }
        if at + 1 == line {
            let own = match row.split_once('=') {
                Some((key, _)) if !row.starts_with(['[', '#']) => key.trim(),
                _ => "",
            };
            return match (table.is_empty(), own.is_empty()) {
                (true, _) => own.to_owned(),
                (_, true) => table,
                _ => format!("{table}.{own}"),
            };
        }
    }
    table
}

/// The line of a key, or of the nearest table around it; 1 when it is not written out at all.
pub(super) fn line_of(text: &str, path: &[String]) -> usize {
    let wanted: Vec<String> = (1..=path.len()).rev().map(|len| plain(&path[..len].join("."))).collect();
    wanted
        .iter()
        .find_map(|wanted| (1..=text.lines().count()).find(|line| plain(&key_at(text, *line)) == *wanted))
        .unwrap_or(1)
}

fn header(row: &str) -> String {
    let end = row.rfind(']').unwrap_or(row.len());
    row[..end].trim_matches(['[', ']']).trim().to_owned()
}

/// A key without its quotes and spaces, to compare by.
fn plain(key: &str) -> String {
    key.chars().filter(|c| !matches!(c, '"' | '\'' | ' ')).collect()
}
