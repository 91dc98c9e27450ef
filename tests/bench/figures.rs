//! Medians, percentiles, and how they are printed.

/// The value below which `percent` of the values lie.
pub(crate) fn percentile(values: &[f64], percent: usize) -> f64 {
    assert!(!values.is_empty(), "a percentile of nothing");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 50)
}

/// One line about many runs: the median and the extremes of the runs' values.
pub(crate) fn spread(values: &[f64]) -> String {
    let (low, high) = (percentile(values, 0), percentile(values, 100));
    format!("{:.2} ({low:.2}-{high:.2})", median(values))
}

/// The head of a table.
pub(crate) fn head(columns: &[&str]) {
    println!("| {} |", columns.join(" | "));
    println!("|{}", " --- |".repeat(columns.len()));
}

/// A row of a table.
pub(crate) fn row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

/// The load averages.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_ascii_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// What the figures were taken on.
pub(crate) fn machine() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{cores} cores, Linux {}, load before: {}", kernel.trim(), load())
}
