//! Stub tools: tools with fixed answers, for trying programs and prompts without the real tools.
//!
//! Loading a file checks its shape, the schemas, and every fixed result against the output schema of its tool. The library
//! checks inputs at each call, as for any tool.

mod file;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use execbox::{Provider, ProviderError, Schema, SchemaError, Tool, ToolError, ValidationError};
use execbox_core::text::cut;
use serde_json::Value as Json;

use self::file::{AnswerEntry, FormatError, ProviderEntry, ToolEntry};
use crate::error::CliError;
use crate::files::source::{self, TextError};
use crate::options::units::{Time, UnitError};

/// The maximum number of characters of a value in an error message.
const MAX_CHARS: usize = 200;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StubError {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error("{file}:{error}")]
    Format { file: String, error: FormatError },
    #[error("{file}: {fault}")]
    File { file: String, fault: Box<Fault> },
    #[error("{file}: duplicate provider {name:?}: already defined in {earlier}; rename one of them")]
    Duplicate { file: String, earlier: String, name: String },
}

impl CliError for StubError {}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("providers.{provider}: {error}")]
    Provider { provider: String, error: Box<ProviderError> },
    #[error("providers.{provider}.tools.{tool}.{fault}")]
    Tool { provider: String, tool: String, fault: ToolFault },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolFault {
    #[error("delay: invalid duration {text:?}: {error}")]
    Delay { text: String, error: UnitError },
    #[error("output: invalid JSON Schema: {0}")]
    OutputSchema(SchemaError),
    #[error("answers[{0}]: expected either `returns` or `fails`")]
    Answer(usize),
    #[error("{0} (by the output schema of the tool)")]
    Returns(ValidationError),
}

/// Loads the providers of several files.
pub(crate) fn load(paths: &[PathBuf]) -> Result<Vec<Provider>, StubError> {
    let mut providers = Vec::new();
    let mut files: HashMap<String, String> = HashMap::new();
    for path in paths {
        let file = path.display().to_string();
        for provider in load_file(path)? {
            if let Some(earlier) = files.insert(provider.name().to_owned(), file.clone()) {
                return Err(StubError::Duplicate { file, earlier, name: provider.name().to_owned() });
            }
            providers.push(provider);
        }
    }
    Ok(providers)
}

fn load_file(path: &Path) -> Result<Vec<Provider>, StubError> {
    let text = source::read_file(path)?;
    let in_file = |fault| StubError::File { file: path.display().to_string(), fault: Box::new(fault) };
    let providers =
        file::parse(&text).map_err(|error| StubError::Format { file: path.display().to_string(), error })?;
    providers.into_iter().map(|(name, entry)| provider(name, entry)).collect::<Result<_, _>>().map_err(in_file)
}

fn provider(name: String, entry: ProviderEntry) -> Result<Provider, Fault> {
    let mut builder = Provider::builder(&name);
    if let Some(description) = entry.description {
        builder = builder.description(description);
    }
    for (tool_name, entry) in entry.tools.0 {
        let in_tool = |fault| Fault::Tool { provider: name.clone(), tool: tool_name.clone(), fault };
        builder = builder.tool(tool(&tool_name, entry).map_err(in_tool)?);
    }
    builder.build().map_err(|error| Fault::Provider { provider: name, error: error.into() })
}

fn tool(name: &str, entry: ToolEntry) -> Result<Tool, ToolFault> {
    let delay = entry.delay.map(|text| match text.parse::<Time>() {
        Ok(time) => Ok(time.0),
        Err(error) => Err(ToolFault::Delay { text, error }),
    });
    let delay = delay.transpose()?;
    let answers = fixed_answers(entry.answers)?;
    if let Some(schema) = &entry.output {
        check_answers(&answers, schema)?;
    }
    let mut tool = stub(name, answers.into(), delay);
    if let Some(description) = entry.description {
        tool = tool.description(description);
    }
    if let Some(schema) = entry.input {
        tool = tool.input_schema(schema);
    }
    if let Some(schema) = entry.output {
        tool = tool.output_schema(schema);
    }
    Ok(tool)
}

/// A tool that returns the first matching answer after the delay.
fn stub(name: &str, answers: Arc<[Answer]>, delay: Option<Duration>) -> Tool {
    Tool::new(name, move |input: Json, context| {
        let answers = Arc::clone(&answers);
        async move {
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            match answers.iter().find(|answer| answer.matches(&input)) {
                Some(Answer { outcome, .. }) => outcome.clone().map_err(ToolError::new),
                None => Err(ToolError::new(format!(
                    "{}.{} has no fixed answer for the input {}",
                    context.provider,
                    context.safe_name,
                    cut(&input.to_string(), MAX_CHARS)
                ))),
            }
        }
    })
}

/// A fixed answer.
#[derive(Debug)]
struct Answer {
    /// The part that the input must contain; `None` matches every input.
    when: Option<Json>,
    /// The result, or the message of the failure.
    outcome: Result<Json, String>,
}

impl Answer {
    fn matches(&self, input: &Json) -> bool {
        self.when.as_ref().is_none_or(|when| contains(input, when))
    }
}

fn fixed_answers(entries: Vec<AnswerEntry>) -> Result<Vec<Answer>, ToolFault> {
    let answers = entries.into_iter().enumerate().map(|(number, entry)| {
        let outcome = match (entry.returns, entry.fails) {
            (Some(value), None) => Ok(value),
            (None, Some(message)) => Err(message),
            (Some(_), Some(_)) | (None, None) => return Err(ToolFault::Answer(number)),
        };
        Ok(Answer { when: entry.when, outcome })
    });
    answers.collect()
}

fn check_answers(answers: &[Answer], schema: &Json) -> Result<(), ToolFault> {
    let schema = Schema::compile(schema).map_err(ToolFault::OutputSchema)?;
    for (number, answer) in answers.iter().enumerate() {
        if let Ok(value) = &answer.outcome {
            schema.check(value, &format!("answers[{number}].returns")).map_err(ToolFault::Returns)?;
        }
    }
    Ok(())
}

/// Whether `value` contains `part`: every key of an object, at any depth. Arrays match item by item and have equal lengths; numbers
/// match by value, so `1.0` is `1`.
fn contains(value: &Json, part: &Json) -> bool {
    match (value, part) {
        (Json::Object(value), Json::Object(part)) => {
            part.iter().all(|(key, part)| value.get(key).is_some_and(|value| contains(value, part)))
        }
        (Json::Array(value), Json::Array(part)) => {
            value.len() == part.len() && value.iter().zip(part).all(|(value, part)| contains(value, part))
        }
        (Json::Number(value), Json::Number(part)) => value == part || value.as_f64() == part.as_f64(),
        (value, part) => value == part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn inputs_contain_their_parts_at_any_depth() {
        let input = json!({"status": "open", "page": {"size": 10, "at": 1}, "tags": ["a", {"b": 1, "c": 2}]});
        for part in [
            json!({}),
            json!({"status": "open"}),
            json!({"page": {"at": 1.0}}),
            json!({"tags": ["a", {"c": 2}]}),
            input.clone(),
        ] {
            assert!(contains(&input, &part), "{part}");
        }
        for part in [
            json!({"status": "closed"}),
            json!({"missing": null}),
            json!({"page": {"at": "1"}}),
            json!({"tags": ["a"]}),
            json!(["open"]),
            json!(null),
        ] {
            assert!(!contains(&input, &part), "{part}");
        }
    }

    #[test]
    fn inputs_that_are_not_objects_are_compared_whole() {
        assert!(contains(&json!("x"), &json!("x")));
        assert!(!contains(&json!("x"), &json!({})));
        assert!(contains(&json!(9_007_199_254_740_993_u64), &json!(9_007_199_254_740_993_u64)));
    }

    #[test]
    fn an_answer_without_when_matches_every_input() {
        let answer = Answer { when: None, outcome: Ok(json!(1)) };
        assert!(answer.matches(&json!(null)) && answer.matches(&json!({"a": 1})));
    }
}
