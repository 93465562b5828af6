//! The report as text.

use std::fmt::Write as _;

use execbox::core::text::bytes_text;

use super::compare::{Comparison, machine_text};
use super::report::{Head, Measured, Report};
use super::rows::{ROWS, Unit};
use super::subject;

/// A table with a line for each row and executor. `earlier`: the report to compare with.
pub(super) fn text(report: &Report, earlier: Option<&Report>) -> String {
    let mut text = head_text(&report.head) + "\n\n";
    let columns = ["p50", "p95", "p99", "samples", "noise"].map(|name| format!("{name:>10}")).concat();
    let compared = if earlier.is_some() { format!("{:>12}{:>8}", "before", "ratio") } else { String::new() };
    let _ = writeln!(text, "{:<44}{:<14}{columns}{compared}", "row", "executor");
    for (title, rows) in by_row(report) {
        for (at, row) in rows.into_iter().enumerate() {
            let title = if at == 0 { title.as_str() } else { "" };
            let _ = writeln!(text, "{}", line(title, row, earlier).trim_end());
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// The version, the engines and the machine, in a line.
pub(super) fn head_text(head: &Head) -> String {
    let build = &head.execbox;
    let engines: Vec<String> = build.engines.iter().map(|(name, version)| format!("{name} {version}")).collect();
    format!("execbox {} ({}), {}; {}", build.version, build.profile, engines.join(", "), machine_text(head))
}

/// The rows with their titles, in the order in which the report has each first.
fn by_row(report: &Report) -> Vec<(String, Vec<&Measured>)> {
    let mut rows: Vec<(String, Vec<&Measured>)> = Vec::new();
    for row in &report.rows {
        let known = ROWS.iter().find(|known| known.id == row.row);
        let title = known.map_or_else(|| row.row.clone(), |known| known.title.to_owned());
        match rows.iter_mut().find(|(other, _)| *other == title) {
            Some((_, same)) => same.push(row),
            None => rows.push((title, vec![row])),
        }
    }
    rows
}

fn line(title: &str, row: &Measured, earlier: Option<&Report>) -> String {
    let value = |value: Option<f64>| value.map(|value| quantity(value, row.unit)).unwrap_or_default();
    let quantiles = [Some(row.p50), row.p95, row.p99].map(|quantile| format!("{:>10}", value(quantile))).concat();
    let mut line = format!(
        "{title:<44}{:<14}{quantiles}{:>10}{:>10}",
        subject::text(&row.executor, &row.engine),
        row.samples,
        percent(row.noise)
    );
    if let Some(earlier) = earlier {
        line += &match Comparison::find(row, earlier) {
            Some(compared) => compared_text(&compared, row.unit),
            None => format!("{:>12}", "–"),
        };
    }
    line
}

fn compared_text(compared: &Comparison, unit: Unit) -> String {
    let ratio = compared.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
    format!("{:>12}{ratio:>8}  {}", quantity(compared.before, unit), compared.verdict.word(unit))
}

fn percent(share: f64) -> String {
    if share > 1.0 { "> 100 %".to_owned() } else { format!("{:.0} %", share * 100.0) }
}

/// With three digits and a unit.
pub(super) fn quantity(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Milliseconds if value >= 1000.0 => format!("{} s", digits(value / 1000.0)),
        Unit::Milliseconds if value < 1.0 => format!("{} µs", digits(value * 1000.0)),
        Unit::Milliseconds => format!("{} ms", digits(value)),
        Unit::ProgramsPerSecond => format!("{value:.0}/s"),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a number of bytes
        Unit::Bytes => bytes_text(value as u64),
    }
}

fn digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits() {
        let milliseconds =
            [0.016_23, 0.5, 3.214, 31.26, 650.4, 1234.0].map(|value| quantity(value, Unit::Milliseconds));
        assert_eq!(milliseconds, ["16.2 µs", "500 µs", "3.21 ms", "31.3 ms", "650 ms", "1.23 s"]);
        assert_eq!(quantity(61_834.4, Unit::ProgramsPerSecond), "61834/s");
        assert_eq!(quantity(26_214_400.0, Unit::Bytes), "25 MiB");
    }
}
