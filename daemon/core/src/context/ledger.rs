//! The published ledger: every item, its tokens, its source, and why it is in.

use super::{Calibration, estimate_prompt, item_bytes};
use crate::event::NoticeKind;
use crate::ids::{EpochNo, Seq};
use crate::session::Session;
use crate::transcript::{Content, Item};

/// A region of the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// Instructions and tools.
    System,
    /// What the session is about: pinned files, plan, constraints.
    Task,
    /// The dialogue.
    History,
    /// What tools returned.
    ToolResults,
}

impl Region {
    /// Every region, in order.
    pub const ALL: [Self; 4] = [Self::System, Self::Task, Self::History, Self::ToolResults];
    /// The outside word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Task => "task",
            Self::History => "history",
            Self::ToolResults => "tool_results",
        }
    }
    /// Its soft cap in hundredths of the usable window (`[context]` of the configuration, by default).
    const fn cap_percent(self) -> u64 {
        match self {
            Self::System => 20,
            Self::Task => 30,
            Self::History => 50,
            Self::ToolResults => 40,
        }
    }
}

/// One region's use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRegion {
    /// Which.
    pub region: Region,
    /// Its soft cap in tokens.
    pub cap_tokens: u64,
    /// What is in it.
    pub used_tokens: u64,
}

/// One item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerItem {
    /// Its region.
    pub region: Region,
    /// Where it comes from.
    pub source: String,
    /// Its tokens.
    pub tokens: u64,
    /// Its event; 0 for the fixed part.
    pub seq: Seq,
    /// Why it is in.
    pub reason: String,
}

/// One epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEpoch {
    /// Its number.
    pub epoch: EpochNo,
    /// Its first event.
    pub start_seq: Seq,
}

/// The whole ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// The model's window.
    pub window_tokens: u64,
    /// The window less the reserved answer.
    pub usable_tokens: u64,
    /// What the next request would hold.
    pub used_tokens: u64,
    /// The size was counted by the provider, up to the last answer.
    pub measured: bool,
    /// By region.
    pub regions: Vec<LedgerRegion>,
    /// Item by item, in order.
    pub items: Vec<LedgerItem>,
    /// The epochs so far.
    pub epochs: Vec<LedgerEpoch>,
    /// What happens next, in words.
    pub forecast: String,
}

/// The ledger of a session's next request; none before its first epoch.
pub fn ledger(session: &Session) -> Option<Ledger> {
    let epoch = session.epoch.as_deref()?;
    let calibration = Calibration::of(session);
    let mut items = vec![
        fixed("instructions", calibration.tokens(0, epoch.system.len())),
        fixed("tools", calibration.tokens(0, epoch.tools.get().len())),
    ];
    let of_item = |item: &Item| calibration.tokens(item.seq, item_bytes(item));
    items.extend(session.transcript.iter().map(|item| entry(item, of_item(item))));
    let window_tokens = session.context_window();
    let reserved = u64::from(session.output_tokens(0));
    let usable_tokens = window_tokens.saturating_sub(reserved);
    let regions = Region::ALL
        .into_iter()
        .map(|region| LedgerRegion {
            region,
            cap_tokens: usable_tokens * region.cap_percent() / 100,
            used_tokens: items.iter().filter(|item| item.region == region).map(|item| item.tokens).sum(),
        })
        .collect();
    let used_tokens = estimate_prompt(session, session.last_seq);
    Some(Ledger {
        window_tokens,
        usable_tokens,
        used_tokens,
        measured: session.token_truth.measured > 0,
        regions,
        items,
        epochs: session
            .epochs
            .iter()
            .map(|(epoch, start_seq)| LedgerEpoch { epoch: *epoch, start_seq: *start_seq })
            .collect(),
        forecast: forecast(used_tokens, usable_tokens),
    })
}

fn fixed(source: &str, tokens: u64) -> LedgerItem {
    LedgerItem {
        region: Region::System,
        source: source.to_owned(),
        tokens,
        seq: 0,
        reason: "part of the prefix of every request".to_owned(),
    }
}

fn entry(item: &Item, tokens: u64) -> LedgerItem {
    let (region, source) = match &item.content {
        Content::Input { .. } => (Region::History, "the user".to_owned()),
        Content::Assistant { .. } => (Region::History, "the model".to_owned()),
        Content::Result { tool, call_id, .. } => (Region::ToolResults, format!("{tool} ({call_id})")),
        Content::Notice { kind, .. } => (Region::History, format!("notice: {}", NoticeKind::as_str(*kind))),
    };
    LedgerItem { region, source, tokens, seq: item.seq, reason: format!("turn {}", item.turn) }
}

fn forecast(used: u64, usable: u64) -> String {
    let percent = used.saturating_mul(100).checked_div(usable).unwrap_or(100);
    if percent >= 100 {
        format!("{percent} % of the usable window: the next request will be refused as too long")
    } else {
        format!("{percent} % of the usable window is used")
    }
}
