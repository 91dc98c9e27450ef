//! The ledger of a context as a table that fits any width. Pure.

use super::safe;
use super::style::{Ink, Style};
use super::words;
use agentd_proto::v1;

/// Cells of a region's bar.
const BAR_CELLS: u64 = 20;
/// Below so many columns there is no bar.
const BAR_COLUMNS: u16 = 60;

/// The regions with their use, one line each, and what comes next.
pub(crate) fn regions(style: Style, ledger: &v1::GetContextResponse) -> Vec<String> {
    let mut lines = vec![format!(
        "context: {} of {} usable tokens (window {})",
        words::grouped(ledger.used_tokens),
        words::grouped(ledger.usable_tokens),
        words::grouped(ledger.window_tokens)
    )];
    let name_chars = ledger.regions.iter().map(|region| region.name.chars().count()).max().unwrap_or(0);
    for region in &ledger.regions {
        let name = safe::inline(&region.name).replace('_', " ");
        let over = region.used_tokens > region.cap_tokens && region.cap_tokens > 0;
        let used = words::grouped(region.used_tokens);
        let cap = words::grouped(region.cap_tokens);
        let bar = if style.columns.is_some_and(|columns| columns < BAR_COLUMNS) {
            String::new()
        } else {
            format!("{} ", bar(region.used_tokens, region.cap_tokens))
        };
        let line = format!("  {name:<name_chars$}  {bar}{used} of {cap}");
        lines.push(if over { style.paint(Ink::Yellow, &line) } else { line });
    }
    if !ledger.forecast.is_empty() {
        lines.push(format!("  {}", safe::inline(&ledger.forecast)));
    }
    lines
}

/// The items, one line each: tokens, where from, and why in or out.
pub(crate) fn items(style: Style, ledger: &v1::GetContextResponse) -> Vec<String> {
    ledger
        .items
        .iter()
        .map(|item| {
            let about = if item.measured { " " } else { "~" };
            let mut line = format!(
                "  {:>9} {:<12} {}",
                format!("{about}{}", words::grouped(item.tokens)),
                safe::inline_cut(&item.region.replace('_', " "), 12),
                safe::inline_cut(&item.source, style.room(24).max(20))
            );
            if item.state != "in" {
                line.push_str(&format!("  [{}: {}]", safe::inline(&item.state), safe::inline(&item.reason)));
            }
            line
        })
        .collect()
}

/// The epochs, one line each.
pub(crate) fn epochs(ledger: &v1::GetContextResponse) -> Vec<String> {
    ledger
        .epochs
        .iter()
        .map(|epoch| {
            format!(
                "  epoch {} from event {}: {} ({} to {} tokens)",
                epoch.epoch,
                epoch.start_seq,
                safe::inline(&epoch.reason),
                words::grouped(epoch.tokens_before),
                words::grouped(epoch.tokens_after)
            )
        })
        .collect()
}

fn bar(used: u64, cap: u64) -> String {
    let filled = if cap == 0 { 0 } else { used.saturating_mul(BAR_CELLS).div_ceil(cap).min(BAR_CELLS) };
    let cell = |index: u64| if index < filled { '#' } else { '.' };
    (0..BAR_CELLS).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> v1::GetContextResponse {
        let region = |name: &str, cap_tokens, used_tokens| v1::ContextRegion {
            name: name.into(),
            cap_tokens,
            used_tokens,
        };
        v1::GetContextResponse {
            window_tokens: 200_000,
            usable_tokens: 180_000,
            used_tokens: 5_500,
            regions: vec![region("system", 36_000, 500), region("tool_results", 100, 5_000)],
            items: vec![v1::ContextItem {
                region: "history".into(),
                source: "input \x1b[2J".into(),
                tokens: 12,
                state: "masked".into(),
                reason: "superseded".into(),
                ..Default::default()
            }],
            forecast: "nothing to do".into(),
            ..Default::default()
        }
    }

    #[test]
    fn regions_have_bars_where_there_is_room() {
        let lines = regions(Style::PLAIN, &sample());
        assert_eq!(lines[0], "context: 5,500 of 180,000 usable tokens (window 200,000)");
        assert_eq!(lines[1], "  system        #................... 500 of 36,000");
        assert_eq!(lines[2], "  tool results  #################### 5,000 of 100");
        let narrow = regions(Style { colour: false, columns: Some(20) }, &sample());
        assert_eq!(narrow[1], "  system        500 of 36,000");
    }

    #[test]
    fn items_say_why_they_are_out_and_hide_nothing() {
        assert_eq!(
            items(Style::PLAIN, &sample()),
            ["        ~12 history      input \\x1b[2J  [masked: superseded]"]
        );
    }
}
