//! Faults of runners that change values or single messages, each a function of JSON.

#![expect(clippy::cast_possible_truncation, reason = "the faults are about numbers")]

use serde_json::{Value as Json, json};

/// A fault that changes messages of one type.
#[derive(Clone, Copy)]
pub(super) struct Spoiled {
    /// The type of the messages.
    pub(super) kind: &'static str,
    change: Change,
}

#[derive(Clone, Copy)]
enum Change {
    Message(fn(&mut Json)),
    /// Changes the value in a field.
    Value {
        field: &'static str,
        depth: Depth,
        change: fn(Json) -> Json,
    },
}

impl Spoiled {
    pub(super) fn apply(self, message: &mut Json) {
        match self.change {
            Change::Message(change) => change(message),
            Change::Value { field, depth, change } => set(message, &format!("/{field}"), |value| match depth {
                Depth::Alone => change(value.clone()),
                Depth::Inside => map(value.clone(), |part| deep(part, change)),
                Depth::All => deep(value.clone(), change),
            }),
        }
    }
}

/// Every fault of this module: its name, the change, and the cases that are played.
pub(super) fn faults() -> Vec<(String, Spoiled, &'static [&'static str])> {
    let mut faults = Vec::new();
    for (place, kind, field, depth, cases) in PLACES {
        for (name, change) in VALUES {
            let change = Change::Value { field, depth: *depth, change: *change };
            faults.push((format!("{place}: {name}"), Spoiled { kind, change }, *cases));
        }
    }
    for (kind, cases, changes) in MESSAGES {
        for (name, change) in *changes {
            faults.push((format!("{kind}: {name}"), Spoiled { kind, change: Change::Message(*change) }, *cases));
        }
    }
    faults
}

/// Which values a fault changes.
#[derive(Clone, Copy)]
enum Depth {
    Alone,
    Inside,
    All,
}

/// A field with values: what they are, the type of the message, the field, the depth, and the cases about them.
type Place = (&'static str, &'static str, &'static str, Depth, &'static [&'static str]);

const PLACES: &[Place] = &[
    ("inputs", "tool_call", "input", Depth::All, &["serialization-contract/inputs"]),
    ("tool results", "tool_result", "result", Depth::All, &["serialization-contract/tool-results"]),
    ("results", "done", "result", Depth::Alone, RESULTS_ALONE),
    ("results, inside", "done", "result", Depth::Inside, &["contract/results-inside", "contract/results-keys"]),
];

/// The cases about results that are in no other value.
const RESULTS_ALONE: &[&str] = &[
    "contract/results-a",
    "contract/results-false",
    "contract/results-keys",
    "contract/results-null",
    "contract/results-zero",
];

/// A change of values, and its name.
type ValueChange = (&'static str, fn(Json) -> Json);

const VALUES: &[ValueChange] = &[
    ("numbers as 32-bit integers", |v| {
        number(v, |n| json!(if n.fract() == 0.0 { f64::from(n as i64 as i32) } else { n }))
    }),
    ("numbers as 64-bit integers", |v| number(v, |n| if n.fract() == 0.0 { json!(n as i64) } else { json!(n) })),
    ("numbers as 32-bit floats", |v| {
        number(v, |n| if (n as f32).is_finite() { json!(f64::from(n as f32)) } else { json!(n) })
    }),
    ("numbers with 3 decimals", |v| number(v, |n| json!((n * 1000.0).round() / 1000.0))),
    ("numbers with 15 digits", |v| number(v, |n| format!("{n:.14e}").parse::<f64>().map_or(json!(n), |n| json!(n)))),
    ("numbers as strings", |v| number(v, |n| json!(n.to_string()))),
    ("large numbers as strings", |v| number(v, |n| if n.abs() > 4e9 { json!(n.to_string()) } else { json!(n) })),
    ("huge numbers as null", |v| number(v, |n| if n.abs() >= 1e21 { Json::Null } else { json!(n) })),
    ("tiny numbers as zero", |v| number(v, |n| if n.abs() < 1e-300 { json!(0) } else { json!(n) })),
    ("negative numbers as zero", |v| number(v, |n| json!(n.max(0.0)))),
    ("zero as null", |v| number(v, |n| if n == 0.0 { Json::Null } else { json!(n) })),
    ("booleans as strings", |v| v.as_bool().map_or(v, |b| json!(b.to_string()))),
    ("booleans as numbers", |v| v.as_bool().map_or(v, |b| json!(u8::from(b)))),
    ("false as null", |v| if v == false { Json::Null } else { v }),
    ("null as an empty string", |v| if v.is_null() { json!("") } else { v }),
    ("null members omitted", |v| members(v, |_, value| !value.is_null())),
    ("null elements omitted", |v| elements(v, |list| list.retain(|item| !item.is_null()))),
    ("strings trimmed", |v| string(v, |s| json!(s.trim()))),
    ("strings in lower case", |v| string(v, |s| json!(s.to_lowercase()))),
    ("strings cut at NUL", |v| string(v, |s| json!(s.split('\0').next()))),
    ("strings without control characters", |v| string(v, |s| json!(s.replace(char::is_control, "")))),
    ("strings without byte order marks", |v| string(v, |s| json!(s.replace('\u{feff}', "")))),
    ("strings with LF for CR LF", |v| string(v, |s| json!(s.replace("\r\n", "\n")))),
    ("strings in the basic plane", |v| string(v, |s| json!(s.replace(|c| c > '\u{ffff}', "\u{fffd}")))),
    ("strings in ASCII", |v| string(v, |s| json!(s.replace(|c: char| !c.is_ascii(), "?")))),
    ("strings normalized", |v| string(v, |s| json!(s.replace("e\u{301}", "é")))),
    ("strings escaped for HTML", |v| string(v, |s| json!(s.replace('&', "&amp;").replace('<', "&lt;")))),
    ("strings clipped", |v| string(v, |s| json!(s.chars().take(5000).collect::<String>()))),
    ("strings with escapes read", |v| string(v, |s| json!(s.replace("\\n", "\n")))),
    ("digits as numbers", |v| string(v, |s| s.parse::<f64>().map_or(json!(s), |n| json!(n)))),
    ("the word true as a boolean", |v| string(v, |s| if s == "true" { json!(true) } else { json!(s) })),
    ("empty strings as null", |v| string(v, |s| if s.is_empty() { Json::Null } else { json!(s) })),
    ("arrays sorted", |v| elements(v, |list| list.sort_by_key(Json::to_string))),
    ("arrays reversed", |v| elements(v, |list| list.reverse())),
    ("arrays without repetitions", |v| elements(v, Vec::dedup)),
    ("arrays flattened", |v| elements(v, |list| *list = flattened(list))),
    ("arrays cut at 1000 elements", |v| elements(v, |list| list.truncate(1000))),
    ("arrays as objects", |v| match v {
        Json::Array(list) => list.into_iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        v => v,
    }),
    ("empty arrays as null", |v| if v == json!([]) { Json::Null } else { v }),
    ("empty arrays as objects", |v| if v == json!([]) { json!({}) } else { v }),
    (
        "single elements without their array",
        |v| if v.as_array().is_some_and(|l| l.len() == 1) { v[0].clone() } else { v },
    ),
    ("empty objects as arrays", |v| if v == json!({}) { json!([]) } else { v }),
    ("empty objects as null", |v| if v == json!({}) { Json::Null } else { v }),
    ("objects with digits as keys as arrays", |v| match v {
        Json::Object(object) if object.keys().eq(["0", "1"]) => object.into_iter().map(|(_, value)| value).collect(),
        v => v,
    }),
    ("empty keys omitted", |v| members(v, |key, _| !key.is_empty())),
    ("keys of prototypes omitted", |v| members(v, |key, _| key != "__proto__" && key != "constructor")),
    ("keys with dollars omitted", |v| members(v, |key, _| !key.starts_with('$'))),
    ("toJSON omitted", |v| members(v, |key, _| key != "toJSON")),
    ("keys in lower case", |v| keys(v, str::to_lowercase)),
    ("keys trimmed", |v| keys(v, |key| key.trim().to_owned())),
    ("keys with dots split", |v| keys(v, |key| key.split('.').next().unwrap().to_owned())),
];

fn map(value: Json, change: impl Fn(Json) -> Json) -> Json {
    match value {
        Json::Array(items) => items.into_iter().map(change).collect(),
        Json::Object(members) => members.into_iter().map(|(key, value)| (key, change(value))).collect(),
        value => value,
    }
}

fn deep(value: Json, change: fn(Json) -> Json) -> Json {
    change(map(value, |part| deep(part, change)))
}

fn number(value: Json, change: fn(f64) -> Json) -> Json {
    value.as_f64().map_or(value, change)
}

fn string(value: Json, change: fn(&str) -> Json) -> Json {
    value.as_str().map(change).unwrap_or(value)
}

fn elements(mut value: Json, change: fn(&mut Vec<Json>)) -> Json {
    value.as_array_mut().map(change);
    value
}

fn members(mut value: Json, is_kept: fn(&str, &Json) -> bool) -> Json {
    if let Some(object) = value.as_object_mut() {
        object.retain(|key, value| is_kept(key, value));
    }
    value
}

fn keys(value: Json, change: fn(&str) -> String) -> Json {
    match value {
        Json::Object(object) => object.into_iter().map(|(key, value)| (change(&key), value)).collect(),
        value => value,
    }
}

fn flattened(list: &[Json]) -> Vec<Json> {
    list.iter().flat_map(|item| item.as_array().cloned().unwrap_or_else(|| vec![item.clone()])).collect()
}

/// A change of messages, and its name.
type MessageChange = (&'static str, fn(&mut Json));

/// Changes of messages: the type of the messages, the cases about them, and the changes.
const MESSAGES: &[(&str, &[&str], &[MessageChange])] = &[
    ("execute", &["guest-namespace-contract/", "inputs-to-the-runner/", "stable-error-codes/"], EXECUTE),
    ("tool_result", &["serialization-contract/tool-results"], TOOL_VALUES),
    ("tool_result", &["tool-call-contract/", "json-transport-note/"], TOOL_RESULT),
    ("started", &["state-machine/"], STARTED),
    ("tool_call", &["guest-namespace-contract/", "json-transport-note/", "tool-call-contract/the-same"], TOOL_CALL),
    ("done", &["final-result-contract/", "json-transport-note/", "stable-error-codes/"], DONE),
    ("done", &["logs/", "truncation/"], LOGS),
    ("done", &["error-mapping-rules/", "serialization-contract/no-", "minimal-transcripts/"], CODES),
];

const EXECUTE: &[MessageChange] = &[
    ("without all providers but the first", |m| m["providers"].as_array_mut().unwrap().truncate(1)),
    ("with keys as names", |m| name_tools(m, |key, _| key.to_owned())),
    ("with original names as names", |m| name_tools(m, |_, tool| text(&tool["originalName"]).to_owned())),
    ("with names in lower case", |m| name_tools(m, |_, tool| text(&tool["safeName"]).to_lowercase())),
    ("with providers in lower case", |m| {
        for provider in m["providers"].as_array_mut().unwrap() {
            provider["name"] = json!(text(&provider["name"]).to_lowercase());
        }
    }),
    ("with the timeout in seconds", |m| {
        m["options"]["timeoutMs"] = json!(m["options"]["timeoutMs"].as_f64().unwrap() * 1e3);
    }),
    ("with code in ASCII", |m| m["code"] = json!(text(&m["code"]).replace(|c: char| !c.is_ascii(), "?"))),
    ("with code in the basic plane", |m| m["code"] = json!(text(&m["code"]).replace(|c| c > '\u{ffff}', "?"))),
    ("with code on one line", |m| m["code"] = json!(text(&m["code"]).replace('\n', " "))),
    ("with the first 100000 characters of code", |m| {
        m["code"] = json!(text(&m["code"]).chars().take(100_000).collect::<String>());
    }),
];

const TOOL_VALUES: &[MessageChange] = &[
    ("with members sorted", |m| {
        set(m, "/result", |result| {
            deep(result.clone(), |mut value| {
                value.sort_all_objects();
                value
            })
        });
    }),
    ("with zero for negative zero", |m| {
        set(m, "/result", |result| deep(result.clone(), |value| number(value, |n| json!(n + 0.0))));
    }),
];

const TOOL_RESULT: &[MessageChange] = &[
    ("with the code tool_error", |m| set(m, "/error/code", |_| json!("tool_error"))),
    ("with codes in capitals", |m| set(m, "/error/code", |t| json!(text(t).to_uppercase()))),
    ("with messages in lower case", |m| set(m, "/error/message", |t| json!(text(t).to_lowercase()))),
    ("with messages on one line", |m| set(m, "/error/message", |t| json!(text(t).replace('\n', " ")))),
    ("with messages clipped", |m| set(m, "/error/message", |t| json!(prefix(text(t), 200)))),
    ("with messages trimmed", |m| set(m, "/error/message", |t| json!(text(t).trim()))),
    ("with messages that name the code", |m| {
        let code = m["error"]["code"].clone();
        set(m, "/error/message", |t| json!(format!("{}: {}", text(&code), text(t))));
    }),
    ("without empty messages", |m| set(m, "/error/message", |t| if t == "" { json!("failed") } else { t.clone() })),
    ("with failures as results", |m| {
        if m["ok"] == false {
            m["ok"] = json!(true);
            m["result"] = m["error"].take();
        }
    }),
    ("with undefined as null", |m| {
        if m["ok"] == true && m.get("result").is_none() {
            m["result"] = Json::Null;
        }
    }),
    ("with null as undefined", |m| {
        if m["result"].is_null() {
            m.as_object_mut().unwrap().remove("result");
        }
    }),
    ("with results in an object", |m| set(m, "/result", |result| json!({ "result": result }))),
    ("with results as text", |m| set(m, "/result", |result| json!(result.to_string()))),
];

const STARTED: &[MessageChange] = &[
    ("with another id", |m| m["id"] = json!("another")),
    ("without an id", |m| remove(m, "id")),
    ("with the type start", |m| m["type"] = json!("start")),
];

const TOOL_CALL: &[MessageChange] = &[
    ("with the tool in lower case", |m| set(m, "/safeToolName", |t| json!(text(t).to_lowercase()))),
    ("with the tool as in the source", |m| set(m, "/safeToolName", |t| json!(text(t).replace('_', "-")))),
    ("with the provider in lower case", |m| set(m, "/providerName", |t| json!(text(t).to_lowercase()))),
    ("with the first provider", |m| {
        set(m, "/providerName", |name| if name == "two" { json!("one") } else { name.clone() });
    }),
    ("with both names in one", |m| {
        let name = format!("{}.{}", text(&m["providerName"]), text(&m["safeToolName"]));
        m["safeToolName"] = json!(name);
    }),
    ("without a provider", |m| remove(m, "providerName")),
    ("with callIds that are numbers", |m| m["callId"] = json!(1)),
    ("with callIds by tool", |m| m["callId"] = m["safeToolName"].clone()),
    ("without callIds", |m| remove(m, "callId")),
    ("with inputs in an array", |m| m["input"] = json!([m["input"]])),
    ("with inputs as text", |m| m["input"] = json!(m["input"].to_string())),
    ("with an empty object for an omitted input", |m| {
        m.as_object_mut().unwrap().entry("input").or_insert(json!({}));
    }),
    ("without inputs of null", |m| {
        if m["input"].is_null() {
            remove(m, "input");
        }
    }),
];

const DONE: &[MessageChange] = &[
    ("without an id", |m| remove(m, "id")),
    ("with ok as a string", |m| m["ok"] = json!(m["ok"].to_string())),
    ("without ok", |m| remove(m, "ok")),
    ("with ok in failures", |m| m["ok"] = json!(true)),
    ("without a duration", |m| remove(m, "durationMs")),
    ("with durations in seconds", |m| m["durationMs"] = json!(m["durationMs"].as_f64().unwrap() / 1000.0)),
    ("with durations as strings", |m| m["durationMs"] = json!(m["durationMs"].to_string())),
    ("with negative durations", |m| m["durationMs"] = json!(-1.0 - m["durationMs"].as_f64().unwrap())),
    ("with durations of null", |m| m["durationMs"] = Json::Null),
    ("without empty logs", |m| {
        if m["logs"] == json!([]) {
            remove(m, "logs");
        }
    }),
    ("with null for empty logs", |m| {
        set(m, "/logs", |logs| if *logs == json!([]) { Json::Null } else { logs.clone() });
    }),
    ("with results as text", |m| set(m, "/result", |result| json!(result.to_string()))),
    ("with results in an object", |m| set(m, "/result", |result| json!({ "value": result }))),
    ("with null for the result of a failure", |m| {
        if m["ok"] == false {
            m["result"] = Json::Null;
        }
    }),
    ("with errors as strings", |m| set(m, "/error", |error| error["message"].clone())),
    ("with errors in arrays", |m| set(m, "/error", |error| json!([error]))),
    ("without messages of errors", |m| remove(&mut m["error"], "message")),
    ("with null for messages of errors", |m| set(m, "/error/message", |_| Json::Null)),
    ("with messages of errors in lower case", |m| {
        set(m, "/error/message", |t| json!(text(t).to_lowercase()));
    }),
    ("with clipped messages of errors", |m| set(m, "/error/message", |t| json!(prefix(text(t), 200)))),
    ("with messages of errors in ASCII", |m| {
        set(m, "/error/message", |t| json!(text(t).replace(|c: char| !c.is_ascii(), "?")));
    }),
    ("with the first line of messages of errors", |m| {
        set(m, "/error/message", |t| json!(text(t).lines().next()));
    }),
    ("with names for messages of errors", |m| {
        let name = m["error"]["name"].clone();
        set(m, "/error/message", |t| if name.is_string() { name.clone() } else { t.clone() });
    }),
    ("without codes of errors", |m| remove(&mut m["error"], "code")),
    ("with codes in capitals", |m| set(m, "/error/code", |t| json!(text(t).to_uppercase()))),
    ("with codes that are numbers", |m| set(m, "/error/code", |_| json!(1))),
    ("with codes in camel case", |m| set(m, "/error/code", |t| json!(text(t).replace("_e", "E")))),
];

const CODES: &[MessageChange] = &[
    ("with timeout as runtime_error", |m| rename(m, "timeout", "runtime_error")),
    ("with timeout as cancelled", |m| rename(m, "timeout", "cancelled")),
    ("with runtime_error as timeout", |m| rename(m, "runtime_error", "timeout")),
    ("with runtime_error as serialization_error", |m| rename(m, "runtime_error", "serialization_error")),
    ("with serialization_error as runtime_error", |m| rename(m, "serialization_error", "runtime_error")),
    ("with memory_limit as runtime_error", |m| rename(m, "memory_limit", "runtime_error")),
    ("with memory_limit as timeout", |m| rename(m, "memory_limit", "timeout")),
    ("with tool_error as runtime_error", |m| rename(m, "tool_error", "runtime_error")),
    ("with validation_error as tool_error", |m| rename(m, "validation_error", "tool_error")),
];

const LOGS: &[MessageChange] = &[
    ("with logs reversed", |m| lines(m, |lines| lines.into_iter().rev().collect())),
    ("with logs sorted", |m| {
        lines(m, |mut lines| {
            lines.sort();
            lines
        });
    }),
    ("without repeated lines", |m| {
        lines(m, |mut lines| {
            lines.dedup();
            lines
        });
    }),
    ("without empty lines", |m| lines(m, |lines| lines.into_iter().filter(|line| !line.is_empty()).collect())),
    ("with lines trimmed", |m| each_line(m, |line| line.trim().to_owned())),
    ("with lines of one line", |m| {
        lines(m, |lines| lines.iter().flat_map(|line| line.split('\n')).map(str::to_owned).collect());
    }),
    ("with lines joined", |m| lines(m, |lines| if lines.is_empty() { lines } else { vec![lines.join("\n")] })),
    ("with levels before lines", |m| each_line(m, |line| format!("[log] {line}"))),
    ("with lines that end", |m| each_line(m, |line| line + "\n")),
    ("with lines as JSON", |m| each_line(m, |line| json!(line).to_string())),
    ("with lines in ASCII", |m| each_line(m, |line| line.replace(|c: char| !c.is_ascii(), "?"))),
    ("with lines without escapes", |m| each_line(m, |line| line.replace('\u{1b}', ""))),
    ("with lines clipped", |m| each_line(m, |line| line.chars().take(1000).collect())),
    ("with a hundred lines", |m| lines(m, |lines| lines.into_iter().take(100).collect())),
    ("with logs as text", |m| {
        let logs: Vec<_> = m["logs"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        m["logs"] = json!(logs.join("\n"));
    }),
    ("with logs as objects", |m| {
        let logs = m["logs"].as_array().unwrap().iter().map(|line| json!({ "level": "log", "text": line }));
        m["logs"] = logs.collect();
    }),
    ("with lines as arrays", |m| {
        m["logs"] = m["logs"].as_array().unwrap().iter().map(|line| json!([line])).collect();
    }),
];

/// Applies limits to lines that is no fault.
const READ_RIGHT: &str = "none: other limits of logs";

/// Returns the lines for these limits of lines and characters.
pub(super) type Limit = fn(&[String], usize, usize) -> Vec<String>;

/// The limits of logs, misread, and read right.
pub(super) const LIMITS: &[(&str, Limit)] = &[
    (READ_RIGHT, |lines, most, chars| clip(first(lines, most), chars, prefix)),
    ("limits of logs: the latest lines", |lines, most, chars| {
        clip(&lines[lines.len().saturating_sub(most)..], chars, prefix)
    }),
    ("limits of logs: a line more", |lines, most, chars| clip(first(lines, most + 1), chars, prefix)),
    ("limits of logs: a character less", |lines, most, chars| {
        clip(first(lines, most), chars.saturating_sub(1), prefix)
    }),
    ("limits of logs: at most 1000 lines", |lines, most, chars| clip(first(lines, most.min(1000)), chars, prefix)),
    ("limits of logs: at most 100000 characters", |lines, most, chars| {
        clip(first(lines, most), chars.min(100_000), prefix)
    }),
    ("limits of logs: zero is no limit", |lines, most, chars| {
        let [most, chars] = [most, chars].map(|limit| if limit == 0 { usize::MAX } else { limit });
        clip(first(lines, most), chars, prefix)
    }),
    ("limits of logs: characters of each line", |lines, most, chars| {
        first(lines, most).iter().map(|line| prefix(line, chars).to_owned()).collect()
    }),
    ("limits of logs: bytes for characters", |lines, most, bytes| {
        clip(first(lines, most), bytes, |line, left| &line[..line.floor_char_boundary(left)])
    }),
    ("limits of logs: line breaks are characters", |lines, most, chars| {
        let ended: Vec<_> = first(lines, most).iter().map(|line| format!("{line}\n")).collect();
        clip(&ended, chars, prefix).iter().map(|line| line.trim_end_matches('\n').to_owned()).collect()
    }),
    ("limits of logs: no clipped line", |lines, most, chars| {
        let kept = clip(first(lines, most), chars, prefix);
        kept.iter().zip(lines).filter(|(kept, line)| kept == line).map(|(kept, _)| kept.clone()).collect()
    }),
    ("limits of logs: the line is whole", |lines, most, chars| {
        lines[..clip(first(lines, most), chars, prefix).len()].to_vec()
    }),
    ("limits of logs: a mark in the clipped line", |lines, most, chars| {
        let kept = clip(first(lines, most), chars, prefix);
        kept.into_iter().zip(lines).map(|(kept, line)| if kept == *line { kept } else { kept + "…" }).collect()
    }),
    ("limits of logs: a line about dropped lines", |lines, most, chars| {
        let mut kept = clip(first(lines, most), chars, prefix);
        if kept.len() < lines.len() {
            kept.push("…".to_owned());
        }
        kept
    }),
];

fn first(lines: &[String], most: usize) -> &[String] {
    &lines[..lines.len().min(most)]
}

/// The lines up to this length in all. `prefix` cuts a line to at most a length.
fn clip(lines: &[String], limit: usize, prefix: fn(&str, usize) -> &str) -> Vec<String> {
    let all = lines.concat();
    let mut left = prefix(&all, limit).len();
    let mut kept = Vec::new();
    for line in lines {
        let part = &line[..line.len().min(left)];
        if part.is_empty() && !line.is_empty() {
            break;
        }
        left -= part.len();
        kept.push(part.to_owned());
    }
    kept
}

/// The text up to this many characters.
fn prefix(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// Changes a field that the message has.
fn set(message: &mut Json, pointer: &str, change: impl Fn(&Json) -> Json) {
    if let Some(value) = message.pointer_mut(pointer) {
        *value = change(value);
    }
}

fn remove(message: &mut Json, field: &str) {
    if let Some(message) = message.as_object_mut() {
        message.remove(field);
    }
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap()
}

fn rename(message: &mut Json, from: &str, to: &str) {
    set(message, "/error/code", |code| json!(if code == from { to } else { text(code) }));
}

/// Names each tool of an `execute` by its key and itself.
fn name_tools(message: &mut Json, name: fn(&str, &Json) -> String) {
    for provider in message["providers"].as_array_mut().unwrap() {
        for (key, tool) in provider["tools"].as_object_mut().unwrap() {
            tool["safeName"] = json!(name(key, tool));
        }
    }
}

fn lines(message: &mut Json, change: impl Fn(Vec<String>) -> Vec<String>) {
    set(message, "/logs", |logs| {
        json!(change(logs.as_array().unwrap().iter().map(|line| text(line).to_owned()).collect()))
    });
}

fn each_line(message: &mut Json, change: fn(String) -> String) {
    lines(message, |lines| lines.into_iter().map(change).collect());
}
