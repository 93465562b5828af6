//! Cases from files.
//!
//! The format of a case:
//!
//! ```text
//! === the title
//! options: {"execute": {"fn": "scan"}}     options as data (§3), if any; values in tagged JSON
//! limits: {"maxCalls": 2}                  limits that differ from the default, if any
//! host: fs, terminate                      functions and values of `host.rs`, if any
//! result: tagged JSON | undefined          the value of the selected export …
//! status: link_error                       … or another status (default with `error:`: `error`)
//! error: NAME, part of the message         its name and a part of its message
//! at: FILENAME:LINE:COLUMN                 its place, if it matters; `nowhere`
//! specifier: ./a.js                        its specifier, if it matters
//! reports: [tagged JSON, …]                what was reported, if it matters
//! logs: [["LEVEL", [argument, …]], …]      what the console captured, if it matters
//! dropped: 3                               how many console calls were dropped, if it matters
//! calls: [["FUNCTION", [argument, …]], …]  what reached the host, if it matters
//! unawaited: text | none                   the sentence about the calls that were not awaited, if it matters
//! usage: {"calls": 2}                      a part of the usage, if it matters
//! ---
//! the entry's source
//! --- ./lib/math.js
//! a further module's source (§3.3)
//! --- then
//! the entry of a further run with the same options; the expectations apply to the last run
//! ```
//!
//! A line that begins with two spaces continues the one above it. A field `KEY on ENGINE` replaces `KEY` on that engine, and
//! `error on …` replaces `result`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use execbox::Executor;
use execbox::code::{CodeExecutionOptions, CodeExecutionResult, Status};
use execbox_testkit::cases::{self, CaseFile};
use serde_json::{Value as Json, json};

use crate::executors::RUNTIME;
use crate::host::Host;

/// The safety cap of a run that sets none.
const CAP: Duration = Duration::from_mins(1);

/// A case in the format of this [module](self).
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// `FILE: TITLE`.
    pub(crate) name: String,
    pub(crate) file: String,
    options: Json,
    limits: Json,
    grants: Vec<String>,
    expected: Expected,
    /// The entry of each run. The runs follow one another.
    pub(crate) runs: Vec<String>,
    modules: Vec<(String, String)>,
}

/// The expectations of a case for its last run. Fields that are `None` are not checked.
#[derive(Debug, Clone, Default)]
struct Expected {
    /// Tagged JSON as text, or `undefined`.
    result: Option<String>,
    status: Option<Status>,
    error: Option<(String, String)>,
    at: Option<String>,
    specifier: Option<String>,
    reports: Option<Json>,
    logs: Option<Json>,
    dropped: Option<Json>,
    calls: Option<Json>,
    unawaited: Option<String>,
    usage: Option<Json>,
}

/// All cases of a folder, on an engine.
pub(crate) fn cases(folder: &str, engine: &str) -> Vec<Arc<Case>> {
    let files = CaseFile::read_all(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    files
        .iter()
        .flat_map(|file| file.cases.iter().map(|case| Arc::new(Case::parse(file.name(), case, engine))))
        .collect()
}

impl Case {
    fn parse(file: &str, text: &cases::Case, engine: &str) -> Self {
        let name = format!("{file}: {}", text.title);
        let (mut options, mut limits, mut grants) = (json!({}), json!({}), Vec::new());
        let mut expected = Expected::default();
        for (key, value) in text.fields_on(engine) {
            let json =
                || serde_json::from_str::<Json>(&value).unwrap_or_else(|error| panic!("{name}: {value}: {error}"));
            match key.as_str() {
                "options" => options = json(),
                "limits" => limits = json(),
                "host" => grants = value.split(", ").map(str::to_owned).collect(),
                "result" => {
                    expected.result = Some(if value == "undefined" { value } else { json().to_string() });
                }
                "status" => expected.status = Some(Status::from_name(&value).expect("a status")),
                "error" => {
                    let (error, message) = value.split_once(", ").unwrap_or((&value, ""));
                    expected.error = Some((error.to_owned(), message.to_owned()));
                }
                "at" => expected.at = Some(value),
                "specifier" => expected.specifier = Some(value),
                "reports" => expected.reports = Some(json()),
                "logs" => expected.logs = Some(json()),
                "dropped" => expected.dropped = Some(json()),
                "calls" => expected.calls = Some(json()),
                "unawaited" => expected.unawaited = Some(value),
                "usage" => expected.usage = Some(json()),
                _ => panic!("{name}: no such key: {key}"),
            }
        }
        let (runs, modules): (Vec<_>, Vec<_>) =
            text.sections.iter().cloned().partition(|(name, _)| name.is_empty() || name == "then");
        let runs = runs.into_iter().map(|(_, source)| source).collect();
        Self { name, file: file.to_owned(), options, limits, grants, expected, runs, modules }
    }

    /// Returns the result of the last run and the calls that reached the host.
    pub(crate) fn run(&self, executor: &Arc<dyn Executor>) -> (CodeExecutionResult, Json) {
        let mut last = None;
        for entry in &self.runs {
            let host = Host::default();
            let run = {
                let _runtime = RUNTIME.enter();
                executor.run_code(entry, self.options(&host))
            };
            host.set_control(run.control());
            last = Some((RUNTIME.block_on(run), host.calls()));
        }
        last.expect("a case has a run")
    }

    fn options(&self, host: &Host) -> CodeExecutionOptions {
        let mut options = self.options.clone();
        let capped = options.as_object_mut().and_then(|options| options.remove("safetyCapMs"));
        let cap = capped.map_or(CAP, |capped| Duration::from_millis(capped.as_u64().unwrap()));
        let options =
            CodeExecutionOptions::from_json(&options).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let base = CodeExecutionOptions::default_limits().timeout(cap);
        let has_limits = self.limits.as_object().is_some_and(|limits| !limits.is_empty());
        let options = if has_limits { options.limits(cases::limits(&self.limits, base)) } else { options.timeout(cap) };
        let options = self.grants.iter().fold(options, |options, name| host.grant(name, options));
        self.modules.iter().fold(options, |options, (specifier, source)| options.module(specifier, source))
    }

    /// Panics if the last run differs from the expectations.
    pub(crate) fn check(&self, executor: &Arc<dyn Executor>) {
        let (result, calls) = self.run(executor);
        let differences = self.expected.differences(&result, &calls);
        assert!(differences.is_empty(), "{}{differences}\nof {result:#?}", self.name);
    }
}

impl Expected {
    /// Describes each difference on a line.
    fn differences(&self, result: &CodeExecutionResult, calls: &Json) -> String {
        let json = result.to_json().unwrap();
        let mut differences = String::new();
        let status = match (&self.result, &self.error) {
            (Some(_), None) => Status::Success,
            (None, Some(_)) => self.status.unwrap_or(Status::Error),
            _ => panic!("a case has a result, or an error"),
        };
        if result.status != status {
            let _ = write!(differences, "\n  ended as {}", json["status"]);
        }
        // §4: a result if and only if it succeeded, an error if and only if it did not.
        let succeeded = result.status == Status::Success;
        if result.result.is_some() != succeeded || result.error.is_some() == succeeded {
            differences += "\n  result and error do not match the status";
        }
        let value = json.get("result").map_or_else(|| "undefined".to_owned(), Json::to_string);
        if self.result.as_ref().is_some_and(|expected| *expected != value) {
            let _ = write!(differences, "\n  returned {value}");
        }
        if let Some((name, part)) = &self.error {
            let same =
                result.error.as_ref().is_some_and(|error| error.name == *name && error.message.contains(part.as_str()));
            if !same {
                let _ = write!(differences, "\n  failed with {}", json["error"]);
            }
        }
        let error = result.error.clone().unwrap_or_default();
        let at = match (&error.filename, error.line, error.column) {
            (Some(filename), Some(line), Some(column)) => format!("{filename}:{line}:{column}"),
            (Some(filename), None, None) => filename.clone(),
            (None, None, None) => "nowhere".to_owned(),
            half => format!("{half:?}"),
        };
        let logs: Json =
            json["logs"].as_array().unwrap().iter().map(|log| json!([log["level"], log["args"]])).collect();
        for (what, expected, actual) in [
            ("is at", self.at.as_ref().map(|at| json!(at)), json!(at)),
            ("has the specifier", self.specifier.as_ref().map(|specifier| json!(specifier)), json!(error.specifier)),
            ("reported", self.reports.clone(), json["reports"].clone()),
            ("logged", self.logs.clone(), logs),
            ("dropped console calls:", self.dropped.clone(), json!(result.dropped_logs)),
            ("called", self.calls.clone(), calls.clone()),
        ] {
            if expected.is_some_and(|expected| expected != actual) {
                let _ = write!(differences, "\n  {what} {actual}");
            }
        }
        let unawaited = result.unawaited_text().unwrap_or_else(|| "none".to_owned());
        if self.unawaited.as_ref().is_some_and(|expected| *expected != unawaited) {
            let _ = write!(differences, "\n  unawaited {unawaited}");
        }
        let usage = &json["usage"];
        let is_part = |expected: &Json| expected.as_object().unwrap().iter().all(|(key, value)| usage[key] == *value);
        if !self.usage.as_ref().is_none_or(is_part) {
            let _ = write!(differences, "\n  used {usage}");
        }
        differences
    }
}
