//! The report as text.

use std::fmt::Write as _;

use execbox_measure::unit::Unit;

use super::compare::Comparison;
use super::report::{Measured, Report};
use super::rows::ROWS;
use super::subject;

/// A table with a line for each row and executor, compared with `earlier` if it is given.
pub(super) fn text(report: &Report, earlier: Option<&Report>) -> String {
    let mut text = format!("{}\n\n", report.head);
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

/// The rows with their titles, in the order of their first occurrence in the report.
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
    let value = |value: Option<f64>| value.map(|value| row.unit.text(value)).unwrap_or_default();
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
    format!("{:>12}{ratio:>8}  {}", unit.text(compared.before), compared.verdict.word(unit))
}

fn percent(share: f64) -> String {
    if share > 1.0 { "> 100 %".to_owned() } else { format!("{:.0} %", share * 100.0) }
}
