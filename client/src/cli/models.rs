//! `agentctl models`: which models there are, and what is known of each.

use super::{GlobalArgs, print_json, print_line};
use crate::api;
use crate::connect::link::Link;
use crate::connect::{connect, session_env};
use crate::error::ClientError;
use crate::render::style::{Ink, Style};
use crate::render::{json, safe, words};
use agentd_proto::v1;
use std::process::ExitCode;

/// What `models` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Columns: the model (* is used where none is named), whether its key is in this terminal's environment,
window and longest answer in tokens, US dollars for a million tokens of prompt and answer, and who says so:
config, built-in, assumed (of the models next to it), listed (its server), guess.

Examples:
  agentctl models
  agentctl models --probe local                   what the server itself offers, asked now
  agentctl models --json | jq -r '.[] | select(.state == \"ready\") | .name'")]
pub struct ModelsArgs {
    /// Ask the server of this provider for its models
    #[arg(long, value_name = "PROVIDER")]
    pub probe: Option<String>,
}

/// Runs the command.
pub async fn run(args: ModelsArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let link = Link::from(connect(global).await?);
    let probing = args.probe.is_some();
    let request = v1::GetCatalogRequest {
        kinds: vec![v1::CatalogKind::Models.into()],
        cwd: Vec::new(),
        probe: args.probe,
        env: session_env().into_iter().collect(),
    };
    let entries = api::get_catalog(&link, request).await?.entries;
    if let Some(failed) = entries.iter().find(|entry| probing && entry.model.is_none()) {
        return Err(ClientError::config(safe::text(&failed.detail)));
    }
    if global.json {
        print_json(&entries.iter().map(json::model).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if entries.is_empty() {
        super::note("the server names no models");
    }
    let style = Style::of(std::io::stdout());
    let width = entries.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0).min(NAME_MAX_CHARS);
    for entry in &entries {
        print_line(&row(style, width, entry))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Columns for a model's name at most.
const NAME_MAX_CHARS: usize = 48;

fn row(style: Style, width: usize, entry: &v1::CatalogEntry) -> String {
    let name = safe::inline_cut(&entry.name, NAME_MAX_CHARS);
    let name = format!("{name:<width$}");
    let state = format!("{:<8}", safe::inline(&entry.state.replace('_', " ")));
    let state = match entry.state.as_str() {
        "ready" => style.paint(Ink::Green, &state),
        _ => style.paint(Ink::Yellow, &state),
    };
    let Some(facts) = &entry.model else {
        return format!("  {name}  {state}  {}", safe::inline(&entry.detail));
    };
    let mark = if facts.is_default { '*' } else { ' ' };
    let tokens = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), words::thousands);
    let line = format!(
        "{mark} {name}  {state}  {:>6} {:>6}  {:<15}  {}",
        tokens(facts.context_window),
        tokens(facts.max_output_tokens.map(u64::from)),
        price(facts.price.as_ref()),
        safe::inline(&entry.origin),
    );
    line.trim_end().to_owned()
}

/// `$5/$25`, `free`, or that nobody says.
fn price(price: Option<&v1::ModelPrice>) -> String {
    match price {
        None => "price unknown".to_owned(),
        Some(price) if price.input_micro_usd == 0 && price.output_micro_usd == 0 => "free".to_owned(),
        Some(price) => {
            format!("{}/{}", short(price.input_micro_usd), short(price.output_micro_usd))
        }
    }
}

/// Dollars as a price list writes them: `$5`, `$0.25`, `$0.075`.
fn short(micro_usd: i64) -> String {
    let text = format!("{:.4}", words::usd(micro_usd));
    format!("${}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(facts: v1::ModelFacts) -> v1::CatalogEntry {
        v1::CatalogEntry {
            name: "a/m\x1b".into(),
            state: "no_key".into(),
            origin: "built-in".into(),
            model: Some(facts),
            ..Default::default()
        }
    }

    #[test]
    fn a_row_says_what_is_known_and_what_is_not() {
        let facts = v1::ModelFacts {
            is_default: true,
            context_window: Some(1_047_576),
            max_output_tokens: Some(8_192),
            price: Some(v1::ModelPrice {
                input_micro_usd: 250_000,
                output_micro_usd: 25_000_000,
                ..Default::default()
            }),
            ..Default::default()
        };
        assert_eq!(
            row(Style::PLAIN, 7, &entry(facts)),
            "* a/m\\x1b  no key     1048k   8192  $0.25/$25        built-in"
        );
        assert_eq!(
            row(Style::PLAIN, 7, &entry(v1::ModelFacts::default())),
            "  a/m\\x1b  no key         ?      ?  price unknown    built-in"
        );
    }

    #[test]
    fn what_costs_nothing_is_free_and_small_prices_are_whole() {
        assert_eq!(price(Some(&v1::ModelPrice::default())), "free");
        assert_eq!(
            (short(75_000), short(5_000_000), short(5_000)),
            ("$0.075".into(), "$5".into(), "$0.005".into())
        );
    }
}
