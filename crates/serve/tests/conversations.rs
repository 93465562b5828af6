//! The conversations in `conformance/` and in the page for users, with a service in this process. `conformance/play` plays the same
//! with the binary. Each message is compared with the schema, too.

mod support;

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};
use support::{Application, Received};

/// A line of a conversation that is sent (`→`) or must be received (`←`).
struct Step {
    number: usize,
    is_sent: bool,
    text: String,
}

#[tokio::test]
async fn conversations_go_as_they_are_written() {
    let schemas = Schemas::new();
    let (mut count, mut failures) = (0, Vec::new());
    for (title, steps) in conversations() {
        assert!(!steps.is_empty(), "{title}");
        count += 1;
        if let Err(failure) = play(&steps, &schemas).await {
            failures.push(format!("{title}: {failure}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(count, 7);
}

/// The schema of the document is the one that the types have.
#[test]
fn the_schema_in_the_repository_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/schema.json");
    let schema = format!("{:#}\n", execbox_serve::schema());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &schema).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), schema, "UPDATE=1 writes it");
}

/// The conversations, by title.
fn conversations() -> Vec<(String, Vec<Step>)> {
    let crate_path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(crate_path.join("conformance")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "conversation")).collect();
    files.sort();
    let mut all: Vec<_> =
        files.iter().map(|file| (file.display().to_string(), steps(&fs::read_to_string(file).unwrap(), 1))).collect();
    let page = fs::read_to_string(crate_path.join("../../docs/embedding-other-languages.md")).unwrap();
    for (at, _) in page.match_indices("\n```conversation\n") {
        let from = at + "\n```conversation\n".len();
        let block = page[from..].split("\n```\n").next().unwrap();
        all.push(("the page".to_owned(), steps(block, page[..from].lines().count() + 1)));
    }
    all
}

fn steps(text: &str, first: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in (first..).zip(text.lines()) {
        let mut step = |is_sent, text: &str| steps.push(Step { number, is_sent, text: text.trim().to_owned() });
        match line.chars().next() {
            None | Some('#') => {}
            Some('→') => step(true, &line['→'.len_utf8()..]),
            Some('←') => step(false, &line['←'.len_utf8()..]),
            Some(' ') => steps.last_mut().unwrap().text += &format!(" {}", line.trim()),
            Some(_) => panic!("line {number}: {line}"),
        }
    }
    steps
}

async fn play(steps: &[Step], schemas: &Schemas) -> Result<(), String> {
    let mut application = Application::start();
    let mut sent = Sent::default();
    for Step { number, is_sent, text } in steps {
        if *is_sent {
            if let Some((length, byte)) = text.strip_prefix('*').and_then(|attachment| attachment.split_once(' ')) {
                application.attach(&vec![byte.parse().unwrap(); length.parse().unwrap()]).await;
            } else {
                sent.add(text);
                application.send_line(text).await;
            }
            continue;
        }
        match application.receive().await {
            Received::Attachment(bytes) => {
                let got = format!("*{} {}", bytes.len(), bytes[0]);
                if got != *text {
                    return Err(format!("line {number}:\n  expected {text}\n  got      {got}"));
                }
            }
            Received::Message(got) => {
                let expected: Json = serde_json::from_str(text).map_err(|error| format!("line {number}: {error}"))?;
                if !matches(&expected, &got) {
                    return Err(format!("line {number}:\n  expected {text}\n  got      {got}"));
                }
                schemas
                    .check(&got, sent.answered(&got).as_deref())
                    .map_err(|error| format!("line {number}: {error}"))?;
            }
        }
    }
    application.end().await
}

/// The methods of the requests that are not answered, by id.
#[derive(Default)]
struct Sent(HashMap<String, VecDeque<String>>);

impl Sent {
    fn add(&mut self, line: &str) {
        let Ok(message) = serde_json::from_str::<Json>(line) else { return };
        if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
            self.0.entry(id.to_string()).or_default().push_back(method.to_owned());
        }
    }

    /// The method of the request that is answered. A request whose id is in use has an error, before the one that uses it is answered.
    fn answered(&mut self, message: &Json) -> Option<String> {
        let methods = self.0.get_mut(&message.get("id")?.to_string())?;
        if message.get("error").is_some() { methods.pop_back() } else { message.get("result").and(methods.pop_front()) }
    }
}

/// Whether a message is as expected: "…" stands for any value, and a member whose name ends with `?` can be missing.
fn matches(expected: &Json, got: &Json) -> bool {
    match (expected, got) {
        (Json::String(any), _) if any == "…" => true,
        (Json::Array(expected), Json::Array(got)) => {
            expected.len() == got.len() && expected.iter().zip(got).all(|(expected, got)| matches(expected, got))
        }
        (Json::Object(expected), Json::Object(got)) => {
            let is_there = |key: &str| match key.strip_suffix('?') {
                Some(_) => true,
                None => got.contains_key(key),
            };
            let find = |key: &String| expected.get(key).or_else(|| expected.get(&format!("{key}?")));
            expected.keys().all(|key| is_there(key))
                && got.iter().all(|(key, got)| find(key).is_some_and(|expected| matches(expected, got)))
        }
        _ => expected == got,
    }
}

/// The schemas of the messages of the service.
struct Schemas {
    message: jsonschema::Validator,
    results: Map<String, Json>,
    document: Json,
}

impl Schemas {
    fn new() -> Self {
        let document = execbox_serve::schema();
        let message = jsonschema::validator_for(&document).unwrap();
        let results = document["methods"]["application"].as_object().unwrap().clone();
        Self { message, results, document }
    }

    /// Checks a message. `method` is that of the request that it answers.
    fn check(&self, message: &Json, method: Option<&str>) -> Result<(), String> {
        if !self.message.is_valid(message) {
            return Err(format!("no message of the schema: {message}"));
        }
        let (Some(method), Some(result)) = (method, message.get("result")) else { return Ok(()) };
        let mut schema = self.results[method]["result"].clone();
        schema["$defs"] = self.document["$defs"].clone();
        jsonschema::validate(&schema, result).map_err(|error| format!("the result of {method}: {error}"))
    }
}
