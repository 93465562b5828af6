//! Reading a file of cases. `conformance/README.md` describes the notation.
//!
//! Loops are unrolled, so that a case is a plain list of steps. Every error names its line.

use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::case::{Action, Case, Level, Piece, Receive, Step};
use super::message;
use super::pattern::{Expected, PatternError};
use crate::options::units::{Time, UnitError};

/// The maximum number of steps of a case with its loops unrolled.
const MAX_STEPS: usize = 20_000;

/// The maximum number of bytes that one step sends.
const MAX_BYTES: usize = 256 << 20;

/// The indentation of code relative to its `> execute`.
const CODE_INDENT: usize = 4;

#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {fault}")]
pub(crate) struct CaseError {
    file: String,
    line: usize,
    fault: Fault,
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("invalid first line of a case {0:?}: expected `===` and one word, such as `=== a-late-answer`")]
    Name(String),
    #[error("duplicate case {0}")]
    SameName(String),
    #[error("missing `---` between the fields and the steps")]
    NoSeparator,
    #[error("missing title: expected `title: TEXT` below the name")]
    NoTitle,
    #[error(
        "unknown or repeated field {0:?}: expected `title: TEXT`, `level: LEVEL`, `started: required` or `note: TEXT`"
    )]
    Field(String),
    #[error("the case has no steps")]
    NoSteps,
    #[error("unknown level {0:?}: expected `must`, `should` or `extension`")]
    Level(String),
    #[error(
        "unknown step {0:?}: expected `>`, `<`, `#`, `wait`, `stop reading`, `go on reading`, `for`, `in any order` or `end`; \
         code is indented by {CODE_INDENT} spaces more than its `> execute`"
    )]
    Step(String),
    #[error("unknown message {0:?}: expected {1}")]
    Message(String, String),
    #[error("invalid JSON: {0}{1}")]
    Json(serde_json::Error, &'static str),
    #[error("invalid fields: expected a JSON object, `{{…}}`")]
    NoObject,
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error("invalid duration {0:?}: {1}")]
    Time(String, UnitError),
    #[error("invalid count {0:?}: expected a whole number")]
    Count(String),
    #[error("invalid `within`: expected a time and a message, such as `< within 2s done {{…}}`")]
    Within,
    #[error("duplicate code: both as `code` and in the lines below")]
    CodeTwice,
    #[error("invalid loop: expected `for %i from 1 to 10`")]
    For,
    #[error("missing `end` of the block")]
    NoEnd,
    #[error("`end` without a block")]
    NoBlock,
    #[error("invalid step in `in any order`: expected messages, such as `< tool_call {{…}}`")]
    NotInAnyOrder,
    #[error("the case has more than {MAX_STEPS} steps")]
    TooManySteps,
    #[error(
        "invalid bytes {0:?}: expected strings, counts and hexadecimal pairs, such as `> bytes \"[\" * 1000 ff 0a callId:call-1`"
    )]
    Bytes(String),
    #[error("the step sends more than {MAX_BYTES} bytes")]
    TooManyBytes,
}

/// Reads the selected cases of a section. `file` is its path for errors and reports.
pub(crate) fn parse(
    section: &str,
    file: &str,
    text: &str,
    is_selected: impl Fn(&str) -> bool,
) -> Result<Vec<Case>, CaseError> {
    let lines: Vec<Line> = text.lines().enumerate().map(|(at, text)| Line::new(at + 1, text)).collect();
    let at = |(line, fault)| CaseError { file: file.to_owned(), line, fault };
    parse_cases(section, file, &lines, is_selected).map_err(at)
}

/// A fault and its line.
type Result<T, E = (usize, Fault)> = std::result::Result<T, E>;

/// One line of a file.
#[derive(Debug, Clone)]
struct Line {
    number: usize,
    indent: usize,
    /// The text of the line, trimmed.
    text: String,
}

impl Line {
    fn new(number: usize, text: &str) -> Self {
        let indent = text.len() - text.trim_start_matches(' ').len();
        Self { number, indent, text: text.trim().to_owned() }
    }

    fn fault<T>(&self, fault: impl Into<Fault>) -> Result<T> {
        Err((self.number, fault.into()))
    }

    fn is_blank_or_comment(&self) -> bool {
        self.text.is_empty() || self.text.starts_with('#')
    }

    fn begins_case(&self) -> bool {
        self.indent == 0 && self.text.starts_with("===")
    }

    /// The name of the case that begins with this line.
    fn case_name(&self) -> Result<&str> {
        match self.text.split_whitespace().collect::<Vec<_>>()[..] {
            ["===", name] if self.begins_case() => Ok(name),
            _ => self.fault(Fault::Name(self.text.clone())),
        }
    }
}

fn parse_cases(section: &str, file: &str, lines: &[Line], is_selected: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    // Comments may come before the first case.
    let first = lines.iter().position(|line| !line.is_blank_or_comment()).unwrap_or(lines.len());
    let mut cases: Vec<Case> = Vec::new();
    for lines in lines[first..].chunk_by(|_, next| !next.begins_case()) {
        let name = format!("{section}/{}", lines[0].case_name()?);
        if cases.iter().any(|case| case.name == name) {
            return lines[0].fault(Fault::SameName(name));
        }
        if is_selected(&name) {
            cases.push(parse_case(name, file, lines)?);
        }
    }
    Ok(cases)
}

/// Reads a case: a line with its name, its fields, `---` and its steps.
fn parse_case(name: String, file: &str, lines: &[Line]) -> Result<Case> {
    let (title, file) = (String::new(), file.to_owned());
    let mut case = Case { name, file, title, level: Level::Must, needs_started: false, steps: Vec::new() };
    let Some(end) = lines.iter().position(|line| line.indent == 0 && line.text == "---") else {
        return lines[0].fault(Fault::NoSeparator);
    };
    // An indented line continues the field above it.
    for field in lines[1..end].chunk_by(|_, next| next.indent > 0) {
        parse_field(field, &mut case)?;
    }
    parse_steps(&lines[end + 1..], &mut case.steps)?;
    if case.title.is_empty() {
        return lines[0].fault(Fault::NoTitle);
    }
    if case.steps.is_empty() {
        return lines[0].fault(Fault::NoSteps);
    }
    Ok(case)
}

fn parse_field(lines: &[Line], case: &mut Case) -> Result<()> {
    let text = lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join(" ");
    match text.split_once(": ") {
        Some(("title", title)) if case.title.is_empty() => title.clone_into(&mut case.title),
        Some(("level", word)) => {
            let found = Level::ALL.into_iter().find(|level| level.word() == word);
            case.level = found.map_or_else(|| lines[0].fault(Fault::Level(word.to_owned())), Ok)?;
        }
        Some(("started", "required")) => case.needs_started = true,
        Some(("note", _)) => {}
        _ => return lines[0].fault(Fault::Field(text)),
    }
    Ok(())
}

fn parse_steps(mut lines: &[Line], steps: &mut Vec<Step>) -> Result<()> {
    while let Some((line, mut after)) = lines.split_first() {
        if line.text.starts_with("for ") {
            let block;
            (block, after) = split_block(line, after)?;
            let (variable, values) = parse_for(line)?;
            for value in values {
                parse_steps(&with_value(block, variable, value), steps)?;
            }
        } else if let Some(rest) = line.text.strip_prefix("in any order") {
            let block;
            (block, after) = split_block(line, after)?;
            let (within, rest) = parse_within(line, rest.trim())?;
            if !rest.is_empty() {
                return line.fault(Fault::Step(line.text.clone()));
            }
            let group = parse_group(block)?;
            steps.push(Step { line: line.number, action: Action::ReceiveAll { group, within } });
        } else if !line.is_blank_or_comment() {
            let action;
            (action, after) = parse_action(line, after)?;
            steps.push(Step { line: line.number, action });
        }
        if steps.len() > MAX_STEPS {
            return line.fault(Fault::TooManySteps);
        }
        lines = after;
    }
    Ok(())
}

/// The lines of a block and those after its `end`.
fn split_block<'a>(first: &Line, lines: &'a [Line]) -> Result<(&'a [Line], &'a [Line])> {
    let mut depth = 1;
    for (at, line) in lines.iter().enumerate() {
        if line.text == "end" {
            depth -= 1;
        } else if line.text.starts_with("for ") || line.text.starts_with("in any order") {
            depth += 1;
        }
        if depth == 0 {
            return Ok((&lines[..at], &lines[at + 1..]));
        }
    }
    first.fault(Fault::NoEnd)
}

/// `for %i from 1 to 10`, ascending or descending: the variable and its values.
fn parse_for(line: &Line) -> Result<(&str, Vec<i64>)> {
    let words: Vec<_> = line.text.split_whitespace().collect();
    let ["for", variable, "from", first, "to", last] = words[..] else { return line.fault(Fault::For) };
    let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else { return line.fault(Fault::For) };
    if !variable.starts_with('%') || first.abs_diff(last) as usize > MAX_STEPS {
        return line.fault(Fault::For);
    }
    let (first, last) = (i64::from(first), i64::from(last));
    let values = if first <= last { (first..=last).collect() } else { (last..=first).rev().collect() };
    Ok((variable, values))
}

fn with_value(block: &[Line], variable: &str, value: i64) -> Vec<Line> {
    let replaced = |line: &Line| Line { text: line.text.replace(variable, &value.to_string()), ..line.clone() };
    block.iter().map(replaced).collect()
}

fn parse_group(block: &[Line]) -> Result<Vec<(usize, Expected)>> {
    let mut steps = Vec::new();
    parse_steps(block, &mut steps)?;
    let received = steps.into_iter().map(|Step { line, action }| match action {
        Action::Receive(Receive { expected, within: None, eventually: false }) => Ok((line, expected)),
        _ => Err((line, Fault::NotInAnyOrder)),
    });
    received.collect()
}

/// A step: one line, and the lines of its code.
fn parse_action<'a>(line: &Line, after: &'a [Line]) -> Result<(Action, &'a [Line])> {
    if let Some(sent) = line.text.strip_prefix('>') {
        return parse_sent(line, sent.trim(), after);
    }
    let action = if let Some(received) = line.text.strip_prefix('<') {
        parse_received(line, received.trim())?
    } else if let Some(time) = line.text.strip_prefix("wait ") {
        Action::Wait(parse_time(line, time)?)
    } else {
        match line.text.as_str() {
            "stop reading" => Action::Read(false),
            "go on reading" => Action::Read(true),
            "end" => return line.fault(Fault::NoBlock),
            text => return line.fault(Fault::Step(text.to_owned())),
        }
    };
    Ok((action, after))
}

// ---- Sent messages --------------------------------------------------------------------------------

fn parse_sent<'a>(line: &Line, text: &str, after: &'a [Line]) -> Result<(Action, &'a [Line])> {
    let (word, rest) = split_word(text);
    let pieces = match word {
        "close" if rest.is_empty() => return Ok((Action::Close, after)),
        "bytes" => parse_bytes(line, rest)?,
        "text" => vec![Piece::Bytes(format!("{rest}\n").into_bytes())],
        "execute" => {
            let (code, after) = split_code(line, after);
            let mut fields = parse_fields(line, rest)?;
            if !code.is_empty() && fields.insert("code".to_owned(), code.into()).is_some() {
                return line.fault(Fault::CodeTwice);
            }
            return Ok((Action::Send(short_message(line, word, fields)?), after));
        }
        _ if text.starts_with('{') => {
            const HINT: &str = " (use `> text` for a line that is not JSON)";
            let _: Map<String, Json> = parse_json(line, text, HINT)?;
            with_call_id(&format!("{text}\n"))
        }
        _ => short_message(line, word, parse_fields(line, rest)?)?,
    };
    Ok((Action::Send(pieces), after))
}

/// The code below a `> execute`: the lines that are indented more.
fn split_code<'a>(line: &Line, after: &'a [Line]) -> (String, &'a [Line]) {
    let margin = line.indent + CODE_INDENT;
    let is_code = |line: &&Line| line.indent >= margin && !line.text.is_empty();
    let count = after.iter().take_while(is_code).count();
    let code: Vec<_> = after[..count].iter().map(|line| " ".repeat(line.indent - margin) + &line.text).collect();
    (code.join("\n"), &after[count..])
}

fn short_message(line: &Line, kind: &str, fields: Map<String, Json>) -> Result<Vec<Piece>> {
    let Some(message) = message::from_host(kind, fields) else {
        let expected = format!("`{}`, `text`, `bytes` or `close`", message::FROM_HOST.join("`, `"));
        return line.fault(Fault::Message(kind.to_owned(), expected));
    };
    Ok(with_call_id(&format!("{}\n", Json::Object(message))))
}

/// A message to send. The first `callId` in the text is the name of a call, in place of the id that the runner gave to it.
fn with_call_id(text: &str) -> Vec<Piece> {
    let bytes = |text: &str| Piece::Bytes(text.as_bytes().to_vec());
    match find_call_id(text) {
        Some((before, name, after)) => vec![bytes(before), Piece::CallId(name), bytes(after)],
        None => vec![bytes(text)],
    }
}

fn find_call_id(text: &str) -> Option<(&str, String, &str)> {
    const KEY: &str = "\"callId\"";
    let key = text.find(KEY)? + KEY.len();
    let value = text[key..].trim_start().strip_prefix(':')?.trim_start();
    let (name, after) = split_json_text(value)?;
    Some((&text[..text.len() - value.len()], name, after))
}

/// The JSON string at the start of a text, and the rest.
fn split_json_text(text: &str) -> Option<(String, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let value = values.next()?.ok()?;
    Some((value, &text[values.byte_offset()..]))
}

/// `"text" * 1000 ff 0a callId:call-1`.
fn parse_bytes(line: &Line, mut text: &str) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut sum = 0;
    while !text.is_empty() {
        let bytes = if text.starts_with('"') {
            let Some((unit, after)) = split_json_text(text) else { return line.fault(Fault::Bytes(text.to_owned())) };
            let (times, after) = parse_times(line, after.trim_start())?;
            text = after;
            sum += unit.len().saturating_mul(times);
            if sum > MAX_BYTES {
                return line.fault(Fault::TooManyBytes);
            }
            unit.repeat(times).into_bytes()
        } else {
            let word;
            (word, text) = split_word(text);
            if let Some(name) = word.strip_prefix("callId:") {
                pieces.push(Piece::CallId(name.to_owned()));
                continue;
            }
            match u8::from_str_radix(word, 16) {
                Ok(byte) if word.len() == 2 => vec![byte],
                _ => return line.fault(Fault::Bytes(word.to_owned())),
            }
        };
        text = text.trim_start();
        match pieces.last_mut() {
            Some(Piece::Bytes(last)) => last.extend(bytes),
            _ => pieces.push(Piece::Bytes(bytes)),
        }
    }
    Ok(pieces)
}

/// An optional `* 1000`.
fn parse_times<'a>(line: &Line, text: &'a str) -> Result<(usize, &'a str)> {
    let Some(rest) = text.strip_prefix('*') else { return Ok((1, text)) };
    let (word, after) = split_word(rest.trim_start());
    Ok((word.parse().or_else(|_| line.fault(Fault::Count(word.to_owned())))?, after))
}

// ---- Received messages ----------------------------------------------------------------------------

fn parse_received(line: &Line, text: &str) -> Result<Action> {
    let (within, text) = parse_within(line, text)?;
    let (word, rest) = split_word(text);
    Ok(match word {
        "closed" if rest.is_empty() => Action::ReceiveEnd { within },
        "nothing" => match rest.strip_prefix("for ") {
            Some(time) if within.is_none() => Action::ReceiveNothing(parse_time(line, time)?),
            _ => return line.fault(Fault::Step(line.text.clone())),
        },
        "maybe" if within.is_none() => Action::Allow(parse_expected(line, rest)?),
        "eventually" => Action::Receive(Receive { expected: parse_expected(line, rest)?, within, eventually: true }),
        _ => Action::Receive(Receive { expected: parse_expected(line, text)?, within, eventually: false }),
    })
}

/// An optional `within 2s`.
fn parse_within<'a>(line: &Line, text: &'a str) -> Result<(Option<Duration>, &'a str)> {
    let (word, rest) = split_word(text);
    if word != "within" {
        return Ok((None, text));
    }
    let (time, rest) = split_word(rest);
    if time.is_empty() {
        return line.fault(Fault::Within);
    }
    Ok((Some(parse_time(line, time)?), rest))
}

fn parse_expected(line: &Line, text: &str) -> Result<Expected> {
    let message = if text.starts_with('{') {
        parse_json(line, text, "")?
    } else {
        let (kind, rest) = split_word(text);
        let Some(message) = message::from_runner(kind, parse_fields(line, rest)?) else {
            let kinds = message::FROM_RUNNER.join("`, `");
            let expected = format!("`{kinds}`, `nothing for 200ms` or `closed`");
            return line.fault(Fault::Message(kind.to_owned(), expected));
        };
        message
    };
    Expected::new(&message).or_else(|error| line.fault(error))
}

// ---- Words, times, JSON ---------------------------------------------------------------------------

fn split_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

fn parse_time(line: &Line, text: &str) -> Result<Duration> {
    text.parse().map(|Time(time)| time).or_else(|error| line.fault(Fault::Time(text.to_owned(), error)))
}

/// The optional fields after the type of a message.
fn parse_fields(line: &Line, text: &str) -> Result<Map<String, Json>> {
    match text.chars().next() {
        None => Ok(Map::new()),
        Some('{') => parse_json(line, text, ""),
        Some(_) => line.fault(Fault::NoObject),
    }
}

fn parse_json(line: &Line, text: &str, hint: &'static str) -> Result<Map<String, Json>> {
    serde_json::from_str(text).or_else(|error| line.fault(Fault::Json(error, hint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<Step> {
        let text = format!("=== name\ntitle: title\n---\n{text}");
        parse("section", "file", &text, |_| true).unwrap_or_else(|error| panic!("{error}")).remove(0).steps
    }

    /// The bytes that a case sends, as text; `<…>` stands for the id of a call.
    fn sent(text: &str) -> String {
        let mut sent = String::new();
        for step in steps(text) {
            let Action::Send(pieces) = step.action else { continue };
            for piece in pieces {
                match piece {
                    Piece::Bytes(bytes) => sent += &String::from_utf8_lossy(&bytes),
                    Piece::CallId(name) => sent += &format!("<{name}>"),
                }
            }
        }
        sent
    }

    fn error(text: &str) -> String {
        parse("section", "file", text, |_| true).unwrap_err().to_string()
    }

    /// The error of a case with these steps, the first of which is in line 4.
    fn error_of_steps(text: &str) -> String {
        error(&format!("=== a\ntitle: b\n---\n{text}"))
    }

    #[test]
    fn cases_have_a_name_fields_and_steps() {
        let text = "# About the section\n\n=== one\ntitle: What it shows: this\nlevel: should\nstarted: required\n\
                    note: a quotation\n  on two lines\n---\n> execute\n    === 1\n    ---\n\n# more\n< started\n\n\
                    === two\ntitle: A title\n  of two lines\n---\n< done\n";
        let cases = parse("logs", "file", text, |_| true).unwrap();
        let [one, two] = &cases[..] else { panic!("{cases:?}") };
        assert_eq!((one.name.as_str(), one.section(), one.file.as_str()), ("logs/one", "logs", "file"));
        assert_eq!((one.title.as_str(), one.level, one.needs_started), ("What it shows: this", Level::Should, true));
        assert_eq!(one.steps.iter().map(|step| step.line).collect::<Vec<_>>(), [10, 15]);
        assert_eq!((two.name.as_str(), two.title.as_str()), ("logs/two", "A title of two lines"));
        assert_eq!((two.level, two.needs_started, two.steps[0].line), (Level::Must, false, 21));
        let cases = parse("logs", "file", text, |name| name == "logs/two").unwrap();
        assert_eq!(cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), ["logs/two"]);
    }

    #[test]
    fn messages_in_full_are_sent_unchanged() {
        assert_eq!(sent(r#"> { "type":"cancel",  "id":"\u0061" }"#), "{ \"type\":\"cancel\",  \"id\":\"\\u0061\" }\n");
        let result = r#"> {"type":"tool_result", "callId" : "a\n", "ok":true}"#;
        assert_eq!(sent(result), "{\"type\":\"tool_result\", \"callId\" : <a\n>, \"ok\":true}\n");
        assert_eq!(sent(r#"> {"callId":5}"#), "{\"callId\":5}\n");
    }

    #[test]
    fn messages_in_short_form_have_defaults() {
        assert_eq!(sent("> cancel"), "{\"type\":\"cancel\",\"id\":\"exec-1\"}\n");
        assert_eq!(
            sent("> tool_result {\"result\": 1}"),
            "{\"type\":\"tool_result\",\"callId\":<call-1>,\"ok\":true,\"result\":1}\n"
        );
        let execute = sent("> execute {\"options\": {\"timeoutMs\": 5}}\n    if (a) {\n      b;\n    }\n< started");
        assert!(
            execute.contains(r#""code":"if (a) {\n  b;\n}","options":{"timeoutMs":5,"memoryLimitBytes":67108864"#),
            "{execute}"
        );
    }

    #[test]
    fn bytes_and_text() {
        assert_eq!(sent(r#"> bytes "[" * 3 0a "a\n" callId:x"#), "[[[\na\n<x>");
        assert_eq!(sent("> text  {\"not\": json"), "{\"not\": json\n");
        assert_eq!(sent("> text"), "\n");
    }

    #[test]
    fn loops_are_unrolled() {
        assert_eq!(sent("for %i from 1 to 2\n  for %j from 3 to 2\n    > text %i%j\n  end\nend"), "13\n12\n23\n22\n");
        let steps = steps("in any order within 2s\n  for %i from 1 to 5\n    < tool_call {\"input\": %i}\n  end\nend");
        let Action::ReceiveAll { group, within } = &steps[0].action else { panic!("{steps:?}") };
        assert_eq!((group.len(), group[4].0, *within), (5, 6, Some(Duration::from_secs(2))));
    }

    #[test]
    fn received_messages() {
        let steps = steps("< within 2s eventually done\n< nothing for 200ms\n< closed\n< maybe started");
        let Action::Receive(Receive { within, eventually, expected }) = &steps[0].action else { panic!("{steps:?}") };
        assert_eq!((*within, *eventually), (Some(Duration::from_secs(2)), true));
        assert_eq!(expected.text, r#"{"type":"done","id":"exec-1","ok":true,"durationMs":0,"logs":[]}"#);
        assert!(matches!(steps[1].action, Action::ReceiveNothing(time) if time == Duration::from_millis(200)));
        assert!(matches!(steps[2].action, Action::ReceiveEnd { within: None }));
        assert!(matches!(&steps[3].action, Action::Allow(expected) if expected.is_started()));
    }

    #[test]
    fn errors_of_the_notation_name_their_line() {
        for (text, line) in [("#\n> close\n", "> close"), ("\n===", "==="), ("#\n=== The title", "=== The title")] {
            let expected = "expected `===` and one word, such as `=== a-late-answer`";
            assert_eq!(error(text), format!("file:2: invalid first line of a case {line:?}: {expected}"));
        }
        assert_eq!(error("\n=== a\ntitle: b\n> close"), "file:2: missing `---` between the fields and the steps");
        assert_eq!(error("=== a\n---\n> close"), "file:1: missing title: expected `title: TEXT` below the name");
        for field in ["title: c", "titel: c", "level:", "started: yes", "", "# comment", "--- NAME"] {
            let expected = "expected `title: TEXT`, `level: LEVEL`, `started: required` or `note: TEXT`";
            assert_eq!(
                error(&format!("=== a\ntitle: b\n{field}\n---\n> close")),
                format!("file:3: unknown or repeated field {field:?}: {expected}")
            );
        }
        assert_eq!(
            error("=== a\nlevel: may\n---"),
            "file:2: unknown level \"may\": expected `must`, `should` or `extension`"
        );
        assert_eq!(error_of_steps("\n# comment\n"), "file:1: the case has no steps");
        let case = "=== a\ntitle: b\n---\n> close\n";
        assert_eq!(error(&format!("{case}\n{case}")), "file:6: duplicate case section/a");
    }

    #[test]
    fn errors_of_steps_name_their_line() {
        assert!(error_of_steps("execute").starts_with("file:4: unknown step \"execute\": expected `>`, `<`"));
        assert_eq!(
            error_of_steps("> done"),
            "file:4: unknown message \"done\": expected `execute`, `tool_result`, `cancel`, `text`, `bytes` or `close`"
        );
        assert_eq!(
            error_of_steps("< cancel"),
            "file:4: unknown message \"cancel\": expected `started`, `tool_call`, `log`, `done`, `nothing for 200ms` or `closed`"
        );
        assert_eq!(
            error_of_steps("> {\"type\": cancel}"),
            "file:4: invalid JSON: expected value at line 1 column 10 (use `> text` for a line that is not JSON)"
        );
        assert_eq!(error_of_steps("< done []"), "file:4: invalid fields: expected a JSON object, `{…}`");
        assert!(error_of_steps("< done {\"result\": \"$strin\"}").starts_with("file:4: unknown matcher \"$strin\""));
        assert_eq!(
            error_of_steps("< within"),
            "file:4: invalid `within`: expected a time and a message, such as `< within 2s done {…}`"
        );
        assert!(error_of_steps("< within soon done").starts_with("file:4: invalid duration \"soon\": expected"));
        assert_eq!(error_of_steps("for %i in 1..2\nend"), "file:4: invalid loop: expected `for %i from 1 to 10`");
        assert_eq!(error_of_steps("for %i from 1 to 2\n> close"), "file:4: missing `end` of the block");
        assert_eq!(error_of_steps("end"), "file:4: `end` without a block");
        assert_eq!(
            error_of_steps("in any order\n  < started\n  > close\nend"),
            "file:6: invalid step in `in any order`: expected messages, such as `< tool_call {…}`"
        );
        assert_eq!(
            error_of_steps("> execute {\"code\": \"1\"}\n    2"),
            "file:4: duplicate code: both as `code` and in the lines below"
        );
        assert!(
            error_of_steps("> bytes \"a\" 0x")
                .starts_with("file:4: invalid bytes \"0x\": expected strings, counts and hexadecimal pairs")
        );
        assert_eq!(error_of_steps("> bytes \"a\" * 1000000000"), "file:4: the step sends more than 268435456 bytes");
        let loops = "for %i from 1 to 300\nfor %j from 1 to 300\n> close\nend\nend";
        assert_eq!(error_of_steps(loops), "file:6: the case has more than 20000 steps");
    }
}
