//! Messages in short form: a type and the fields that differ from the defaults, which are listed in `conformance/README.md`.

use serde_json::{Map, Value as Json, json};

/// The types of messages from a host.
pub(crate) const FROM_HOST: [&str; 3] = ["execute", "tool_result", "cancel"];

/// The types of messages from a runner.
pub(crate) const FROM_RUNNER: [&str; 4] = ["started", "tool_call", "log", "done"];

/// A message of a host; `None` for an unknown type.
pub(crate) fn from_host(kind: &str, fields: Map<String, Json>) -> Option<Map<String, Json>> {
    Some(match kind {
        "execute" => {
            let mut defaults = default_execute();
            for (name, value) in fields {
                match (defaults.get_mut(&name), value) {
                    (Some(Json::Object(options)), Json::Object(given)) => options.extend(given),
                    (_, value) => _ = defaults.insert(name, value),
                }
            }
            defaults
        }
        "tool_result" => {
            let ok = !fields.contains_key("error");
            with(json!({ "type": kind, "callId": "call-1", "ok": ok }), fields)
        }
        "cancel" => with(json!({ "type": kind, "id": "exec-1" }), fields),
        _ => return None,
    })
}

/// An expected message of a runner; `None` for an unknown type.
pub(crate) fn from_runner(kind: &str, mut fields: Map<String, Json>) -> Option<Map<String, Json>> {
    Some(match kind {
        "started" => with(json!({ "type": kind, "id": "exec-1" }), fields),
        "tool_call" => {
            let defaults = json!({ "type": kind, "callId": "call-1", "providerName": "tools", "safeToolName": "echo" });
            with(defaults, fields)
        }
        "log" => with(json!({ "type": kind, "id": "exec-1", "level": "log" }), fields),
        "done" => {
            let ok = !fields.contains_key("error");
            if let Some(Json::Object(error)) = fields.get_mut("error") {
                error.entry("message").or_insert("$string".into());
            }
            with(json!({ "type": kind, "id": "exec-1", "ok": ok, "durationMs": 0, "logs": [] }), fields)
        }
        _ => return None,
    })
}

fn default_execute() -> Map<String, Json> {
    let tool = |name| json!({ "safeName": name, "originalName": name });
    let tools = json!({ "echo": tool("echo"), "fail": tool("fail"), "hang": tool("hang") });
    let options =
        json!({ "timeoutMs": 10_000, "memoryLimitBytes": 67_108_864, "maxLogLines": 100, "maxLogChars": 64_000 });
    let providers = json!([{ "name": "tools", "tools": tools, "types": "declare namespace tools { ... }" }]);
    let defaults = json!({ "type": "execute", "id": "exec-1", "code": "", "options": options, "providers": providers });
    with(defaults, Map::new())
}

fn with(defaults: Json, fields: Map<String, Json>) -> Map<String, Json> {
    let Json::Object(mut message) = defaults else { return fields };
    message.extend(fields);
    message
}
