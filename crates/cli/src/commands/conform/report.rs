//! Output: the list of cases, and the report. Control characters of the runner are escaped first.

use std::fmt::Write as _;
use std::io;

use serde_json::{Value as Json, json};

use super::case::Case;
use super::play::Failure;
use super::verdict::{Played, Verdict};
use crate::exit::Exit;
use crate::output::report::{print, print_lines};
use crate::output::style::{self, Colors};
use crate::output::terminal::{safe, safe_line};

/// The maximum number of lines of a stderr tail that are printed.
const STDERR_LINES: usize = 8;

/// Prints the name, level and title of each case.
pub(crate) fn print_list(cases: &[Case], json: bool) -> io::Result<()> {
    if json {
        return print(&Json::Array(cases.iter().map(case_json).collect()).to_string());
    }
    let width = cases.iter().map(|case| case.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for case in cases {
        let _ = writeln!(text, "{:width$}  {:9}  {}", safe_line(&case.name), case.level.word(), safe_line(&case.title));
    }
    print(text.trim_end())
}

/// The verdicts of a runner.
pub(crate) struct Report {
    runner: String,
    played: Vec<Played>,
}

impl Report {
    pub(crate) fn new(runner: String, played: Vec<Played>) -> Self {
        Self { runner, played }
    }

    pub(crate) fn exit(&self) -> Exit {
        let fails = self.played.iter().any(|played| played.verdict.fails());
        if fails { Exit::ProgramFailed } else { Exit::Success }
    }

    pub(crate) fn print(&self, json: bool) -> io::Result<()> {
        if json { print(&self.json().to_string()) } else { print_lines(&[self.text().trim_end().to_owned()]) }
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.played.iter().filter(|played| played.verdict == verdict).count()
    }

    fn json(&self) -> Json {
        let cases: Vec<_> = self.played.iter().map(played_json).collect();
        json!({
            "runner": self.runner,
            "conforms": self.exit() == Exit::Success,
            "passed": self.count(Verdict::Passed),
            "failed": self.count(Verdict::Failed),
            "fellShort": self.count(Verdict::FellShort),
            "knownFailures": self.count(Verdict::KnownFailure),
            "unexpectedPasses": self.count(Verdict::UnexpectedPass),
            "cases": cases,
        })
    }

    /// The report as text: each section with the cases that did not pass, and the summary.
    fn text(&self) -> String {
        let colors = Colors::of_stdout();
        let mut text = String::new();
        for section in self.played.chunk_by(|a, b| a.case.section() == b.case.section()) {
            let passed = section.iter().filter(|played| played.verdict == Verdict::Passed).count();
            let (mark, name) = (mark(section, colors), section[0].case.section());
            let _ = writeln!(text, "{mark} {} {passed}/{}", safe_line(name), section.len());
            let blocks: Vec<_> = section.iter().filter_map(|played| played_text(played, colors)).collect();
            for block in &blocks {
                text += &format!("\n{block}");
            }
            if !blocks.is_empty() {
                text.push('\n');
            }
        }
        format!("{}\n\n{}", text.trim_end(), self.summary(colors))
    }

    fn summary(&self, colors: Colors) -> String {
        let mut parts = vec![format!("{} of {} cases passed", self.count(Verdict::Passed), self.played.len())];
        for (verdict, words) in [
            (Verdict::Failed, "failed"),
            (Verdict::FellShort, "failed (should)"),
            (Verdict::KnownFailure, "known to fail"),
            (Verdict::UnexpectedPass, "passed unexpectedly"),
        ] {
            let count = self.count(verdict);
            if count > 0 {
                parts.push(format!("{count} {words}"));
            }
        }
        let sum = parts.join(", ");
        if self.exit() == Exit::Success { colors.paint(style::SUCCESS, &sum) } else { colors.paint(style::ERROR, &sum) }
    }
}

/// The text about a case; `None` if it passed as expected.
fn played_text(played: &Played, colors: Colors) -> Option<String> {
    let Played { case, verdict, failure, reason } = played;
    let (name, title) = (safe_line(&case.name), safe_line(&case.title));
    let reason = safe_line(reason.as_deref().unwrap_or_default());
    let word = match verdict {
        Verdict::Passed => return None,
        Verdict::KnownFailure => return Some(format!("  known failure: {name}: {reason}\n")),
        Verdict::UnexpectedPass => {
            let word = colors.paint(style::ERROR, "unexpected pass");
            return Some(format!("  {word}: {name}\n    remove it from the list of known failures: {reason}\n"));
        }
        Verdict::Failed => colors.paint(style::ERROR, "failed"),
        Verdict::FellShort => colors.paint(style::WARNING, "failed"),
    };
    let level = case.level.word();
    let failure = failure.as_ref().map(|failure| failure_text(&case.file, failure)).unwrap_or_default();
    Some(format!("  {word} ({level}) {name}\n    {title}\n{failure}"))
}

fn failure_text(file: &str, failure: &Failure) -> String {
    let mut text = format!("    {}:{}\n", safe_line(file), failure.line);
    let _ = writeln!(text, "      expected  {}", safe_line(&failure.expected));
    let _ = writeln!(text, "      got       {}", safe_line(&failure.came));
    if let Some(because) = &failure.because {
        let _ = writeln!(text, "      reason    {}", safe_line(because));
    }
    for (at, line) in failure.exchange.iter().enumerate() {
        let label = if at == 0 { "exchange" } else { "" };
        let _ = writeln!(text, "      {label:8}  {}", safe_line(line));
    }
    let stderr: Vec<_> = failure.stderr.lines().collect();
    for (at, line) in stderr[stderr.len().saturating_sub(STDERR_LINES)..].iter().enumerate() {
        let label = if at == 0 { "stderr" } else { "" };
        let _ = writeln!(text, "      {label:8}  {}", safe(line));
    }
    text
}

fn case_json(case: &Case) -> Json {
    json!({ "name": case.name, "level": case.level, "title": case.title, "file": case.file })
}

fn played_json(played: &Played) -> Json {
    let mut json = case_json(&played.case);
    json["verdict"] = json!(played.verdict);
    if let Some(failure) = &played.failure {
        json["failure"] = json!(failure);
    }
    if let Some(reason) = &played.reason {
        json["knownBecause"] = json!(reason);
    }
    json
}

/// The mark of a section.
fn mark(section: &[Played], colors: Colors) -> String {
    if section.iter().any(|played| played.verdict.fails()) {
        colors.paint(style::ERROR, "✗")
    } else if section.iter().all(|played| played.verdict == Verdict::Passed) {
        colors.paint(style::SUCCESS, "✓")
    } else {
        colors.paint(style::WARNING, "~")
    }
}
