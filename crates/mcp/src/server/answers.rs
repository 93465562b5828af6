//! Answers about prompts, resources and completions as MCP defines them, whatever servers send: what is there reaches clients.
//!
//! | what is wrong | what clients get |
//! |---|---|
//! | one entry or one block instead of a list | a list of one |
//! | a text instead of an entry or a block | an entry or a block with this text |
//! | a list of blocks as the content of a message | a message for each |
//! | another role than `user` and `assistant` | `user` |
//! | contents without a URI | those of the URI that was read |
//! | any other entry or block | a text with its JSON |

use rmcp::model::{
    CompleteResult, CompletionInfo, GetPromptResult, MetaObject, PromptMessage, ReadResourceResult, ResourceContents,
    Role,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::direct;

/// The answer to `prompts/get`.
pub(super) fn prompt(answer: Json) -> GetPromptResult {
    let mut answer = Members::of(answer, "messages");
    let mut result = GetPromptResult::new(Vec::new());
    result.meta = answer.metadata();
    result.description = answer.read("description");
    result.messages = list(answer.main("messages")).flat_map(messages).collect();
    result
}

/// The messages of one entry.
fn messages(entry: Json) -> impl Iterator<Item = PromptMessage> {
    let (role, content) = match entry {
        Json::Object(mut message) if message.contains_key("content") => {
            let is_assistant = message.get("role").is_some_and(|role| role == "assistant");
            let role = if is_assistant { Role::Assistant } else { Role::User };
            (role, message.remove("content").unwrap_or_default())
        }
        block => (Role::User, block),
    };
    list(content).map(move |block| PromptMessage::new(role.clone(), direct::block(block)))
}

/// The answer to `resources/read` for this URI.
pub(super) fn resource(answer: Json, uri: &str) -> ReadResourceResult {
    let mut answer = Members::of(answer, "contents");
    let mut result = ReadResourceResult::new(Vec::new());
    result.meta = answer.metadata();
    result.ttl_ms = answer.read("ttlMs").map(|ttl: i64| ttl.max(0).unsigned_abs());
    result.cache_scope = answer.read("cacheScope");
    result.contents = list(answer.main("contents")).map(|entry| contents(entry, uri)).collect();
    result
}

fn contents(entry: Json, uri: &str) -> ResourceContents {
    let mut members = match entry {
        Json::Object(members) => Members(members),
        Json::String(text) => return ResourceContents::text(text, uri),
        other => return ResourceContents::text(other.to_string(), uri),
    };
    let (text, blob) = (members.read("text"), members.read("blob"));
    if text.is_none() && blob.is_none() {
        let json = Json::Object(members.0).to_string();
        return ResourceContents::text(json, uri).with_mime_type("application/json");
    }
    let uri = members.read("uri").unwrap_or_else(|| uri.to_owned());
    let (mime_type, meta) = (members.read("mimeType"), members.read("_meta"));
    match (text, blob) {
        (None, Some(blob)) => ResourceContents::BlobResourceContents { uri, mime_type, blob, meta },
        (text, _) => {
            let text = text.unwrap_or_default();
            ResourceContents::TextResourceContents { uri, mime_type, text, meta }
        }
    }
}

/// The answer to `completion/complete`.
pub(super) fn completion(answer: Json) -> CompleteResult {
    let mut answer = Members::of(answer, "completion");
    let meta = answer.metadata();
    let mut completion = Members::of(answer.main("completion"), "values");
    let mut info = CompletionInfo::default();
    info.total = completion.read("total");
    info.has_more = completion.read("hasMore");
    let text = |value| if let Json::String(text) = value { text } else { value.to_string() };
    info.values = list(completion.main("values")).map(text).collect();
    let mut result = CompleteResult::new(info);
    result.meta = meta;
    result
}

/// The members of an object, which are taken out of it.
struct Members(Map<String, Json>);

impl Members {
    /// The members of an answer. One that is no object stands for its member `main`.
    fn of(answer: Json, main: &str) -> Self {
        match answer {
            Json::Object(mut members) => {
                members.remove("resultType");
                Self(members)
            }
            other => Self(Map::from_iter([(main.to_owned(), other)])),
        }
    }

    fn metadata(&mut self) -> Option<MetaObject> {
        self.0.remove("_meta").and_then(direct::metadata)
    }

    /// A member, if it has the right type. Another one stays.
    fn read<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let value = T::deserialize(self.0.get(name)?).ok()?;
        self.0.remove(name);
        Some(value)
    }

    /// The member `name`, or else the members that are left.
    fn main(&mut self, name: &str) -> Json {
        let main = self.0.remove(name);
        let rest = std::mem::take(&mut self.0);
        main.unwrap_or(if rest.is_empty() { Json::Null } else { Json::Object(rest) })
    }
}

/// The values of a list. A single one may stand for the list.
fn list(value: Json) -> impl Iterator<Item = Json> {
    let values = if let Json::Array(values) = value { values } else { vec![value] };
    values.into_iter().filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    #[test]
    fn valid_answers_are_passed_on() {
        for contents in [
            json!({ "uri": "a://1", "text": "one", "mimeType": "text/markdown", "_meta": { "n": 1 } }),
            json!({ "uri": "a://1", "blob": "b25l" }),
        ] {
            let mut answer =
                json!({ "contents": [contents, contents], "_meta": { "a": 1 }, "ttlMs": 5, "cacheScope": "private" });
            answer["resultType"] = "complete".into();
            assert_eq!(json!(super::resource(answer.clone(), "a://2")), answer);
        }
        let messages = json!([
            { "role": "assistant", "content": { "type": "text", "text": "hi", "annotations": { "priority": 0.5 } } },
            { "role": "user", "content": { "type": "resource", "resource": { "uri": "a://1", "text": "one" } } },
        ]);
        let answer = json!({ "description": "d", "messages": messages, "_meta": { "a": 1 }, "resultType": "complete" });
        assert_eq!(json!(super::prompt(answer.clone())), answer);
        let completion = json!({ "values": ["a", "b"], "total": 9, "hasMore": true });
        let answer = json!({ "completion": completion, "resultType": "complete" });
        assert_eq!(json!(super::completion(answer.clone())), answer);
    }

    #[test]
    fn invalid_contents_are_read_as_far_as_possible() {
        let text = |text: &str| json!({ "uri": "a://asked", "text": text, "mimeType": "text/plain" });
        let other =
            |value: Json| json!({ "uri": "a://asked", "text": value.to_string(), "mimeType": "application/json" });
        for (answer, expected) in [
            (json!({ "contents": { "uri": "a://1", "text": "one" } }), json!([{ "uri": "a://1", "text": "one" }])),
            (json!({ "contents": [{ "text": "one", "mimeType": 5 }] }), json!([{ "uri": "a://asked", "text": "one" }])),
            (
                json!({ "contents": [{ "uri": null, "blob": "eA==", "text": null }] }),
                json!([{ "uri": "a://asked", "blob": "eA==" }]),
            ),
            (
                json!({ "contents": ["one", null, { "uri": "a://2", "text": "two", "_meta": [] }] }),
                json!([text("one"), { "uri": "a://2", "text": "two" }]),
            ),
            (
                json!({ "contents": [{ "uri": "a://1", "text": { "n": 1 } }, 7] }),
                json!([other(json!({ "uri": "a://1", "text": { "n": 1 } })), text("7")]),
            ),
            (json!({ "contents": "one" }), json!([text("one")])),
            (json!({ "contents": null, "ttlMs": "soon" }), json!([])),
            (json!([{ "text": "one" }]), json!([{ "uri": "a://asked", "text": "one" }])),
            (json!({ "uri": "a://1", "text": "one", "_meta": {} }), json!([{ "uri": "a://1", "text": "one" }])),
            (json!({ "rows": [1] }), json!([other(json!({ "rows": [1] }))])),
            (json!("one"), json!([text("one")])),
            (json!({}), json!([])),
        ] {
            let read = json!(super::resource(answer.clone(), "a://asked"));
            assert_eq!(read["contents"], expected, "{answer}");
        }
    }

    #[test]
    fn invalid_prompts_are_read_as_far_as_possible() {
        let said = |role: &str, text: &str| json!({ "role": role, "content": { "type": "text", "text": text } });
        let video = json!({ "type": "video", "data": "eA==" });
        for (messages, expected) in [
            (json!([{ "role": "system", "content": "be kind" }]), json!([said("user", "be kind")])),
            (
                json!([{ "role": "assistant", "content": ["a", { "type": "text", "text": "b" }] }]),
                json!([said("assistant", "a"), said("assistant", "b")]),
            ),
            (json!({ "role": 1, "content": { "type": "text", "text": "a" } }), json!([said("user", "a")])),
            (json!([{ "content": video }, { "content": null }]), json!([said("user", &video.to_string())])),
            (
                json!(["a", 5, null, { "type": "text", "text": "b" }]),
                json!([said("user", "a"), said("user", "5"), said("user", "b")]),
            ),
            (json!("a"), json!([said("user", "a")])),
        ] {
            let read = json!(super::prompt(json!({ "messages": messages, "description": 5 })));
            assert_eq!(read, json!({ "messages": expected, "resultType": "complete" }), "{messages}");
            let alone = json!(super::prompt(messages.clone()));
            assert_eq!(alone["messages"], expected, "{messages}");
        }
        assert_eq!(json!(super::prompt(json!({ "description": "d" })))["messages"], json!([]));
    }

    #[test]
    fn invalid_completions_are_read_as_far_as_possible() {
        for (answer, expected) in [
            (json!({ "completion": { "values": ["a", 5, null], "total": "many" } }), json!({ "values": ["a", "5"] })),
            (json!({ "values": ["a"], "hasMore": false }), json!({ "values": ["a"], "hasMore": false })),
            (json!({ "completion": ["a", "b"] }), json!({ "values": ["a", "b"] })),
            (json!({}), json!({ "values": [] })),
        ] {
            assert_eq!(json!(super::completion(answer.clone()))["completion"], expected, "{answer}");
        }
    }
}
