//! Calls that a server answers with requests for input (section "Multi Round-Trip Requests" of MCP 2026-07-28).
//!
//! The requests are forwarded as those that older servers send during a call, and the call is then sent again with the answers
//! and the state that the server has sent with the requests. Neither is used for any other call. rmcp does that only where it
//! owns the call, and without the limits of its client.

#![allow(deprecated)] // Sampling and roots: servers use them.

use std::time::Duration;

use execbox::ToolError;
use rmcp::model::{ClientRequest, ErrorData, InputRequests, InputRequiredResult, InputResponses};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::lenient::excerpt;
use super::progress::Waiting;
use super::requests::{self, Asker, Forwarding, read};

/// What a server requires before it answers a call.
#[derive(Debug, PartialEq)]
pub(super) struct RequiredInput {
    /// The requests, by the keys of their answers.
    requests: Map<String, Json>,
    /// Returned to the server as it is.
    state: Option<String>,
}

impl RequiredInput {
    /// Takes the requirements out of a result; `None` if it is final. Fails if they cannot be read.
    pub(super) fn take(result: &mut Json) -> Option<Result<Self, ToolError>> {
        if result.get("resultType")?.as_str()? != "input_required" {
            return None;
        }
        let mut take = |name: &str| result.get_mut(name).map(Json::take).filter(|value| !value.is_null());
        let (requests, state) = (take("inputRequests"), take("requestState"));
        Some(match (requests, state) {
            (None, None) => Err(failed("it does not say which")),
            (None | Some(Json::Object(_)), Some(state)) if !state.is_string() => {
                Err(failed(format!("its `requestState` is no text: {}", excerpt(&state))))
            }
            (Some(requests), _) if !requests.is_object() => {
                Err(failed(format!("its `inputRequests` are no object: {}", excerpt(&requests))))
            }
            (requests, state) => {
                let requests = if let Some(Json::Object(requests)) = requests { requests } else { Map::new() };
                let state = if let Some(Json::String(state)) = state { Some(state) } else { None };
                Ok(Self { requests, state })
            }
        })
    }

    /// Whether a person or a model has to answer. Otherwise, the server wants to be asked again.
    pub(super) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// The requirements as a result for the client of the call, whose next request has the answers.
    pub(super) fn relayed(self, asker: &Asker<'_>) -> Result<InputRequiredResult, ToolError> {
        if self.requests.len() > MAX_REQUESTS {
            return Err(failed(format!("more than {MAX_REQUESTS} answers at once")));
        }
        let shown = |(key, asked)| {
            let request = requests::shown(asked, asker).map_err(|error| failed(error.message))?;
            Ok::<_, ToolError>((key, request))
        };
        let requests = self.requests.into_iter().map(shown).collect::<Result<InputRequests, _>>()?;
        Ok(InputRequiredResult::new(Some(requests), self.state))
    }

    /// Forwards the requests, one after the other, and adds the answers to the request of the call.
    pub(super) async fn supply(
        self,
        request: &mut ClientRequest,
        forwarding: Option<&Forwarding>,
        waiting: Option<&Waiting>,
    ) -> Result<(), ToolError> {
        let mut answers = InputResponses::new();
        if self.requests.len() > MAX_REQUESTS {
            return Err(failed(format!("more than {MAX_REQUESTS} answers at once")));
        }
        for (key, asked) in self.requests {
            let Some((forwarding, waiting)) = forwarding.zip(waiting) else { return Err(failed(NOBODY)) };
            let answer = forwarded(asked, forwarding, waiting).await;
            answers.insert(key, answer.map_err(|error| failed(error.message))?);
        }
        let answers = (!answers.is_empty()).then_some(answers);
        add(request, answers, self.state)
    }
}

/// What the client of a call has sent for its server. Attached to calls whose client gets the requirements of the server, and
/// answers them in its next request.
#[derive(Clone, Default)]
pub(crate) struct Relayed {
    pub(crate) answers: Option<InputResponses>,
    pub(crate) state: Option<String>,
}

/// Adds answers and a state to a request.
pub(super) fn add(
    request: &mut ClientRequest,
    answers: Option<InputResponses>,
    state: Option<String>,
) -> Result<(), ToolError> {
    match request {
        ClientRequest::CallToolRequest(call) => {
            (call.params.input_responses, call.params.request_state) = (answers, state);
        }
        ClientRequest::ReadResourceRequest(read) => {
            (read.params.input_responses, read.params.request_state) = (answers, state);
        }
        ClientRequest::GetPromptRequest(get) => {
            (get.params.input_responses, get.params.request_state) = (answers, state);
        }
        _ if answers.is_none() && state.is_none() => {}
        _ => return Err(failed("such requests have none")),
    }
    Ok(())
}

/// The answer to one request.
async fn forwarded(mut asked: Json, forwarding: &Forwarding, waiting: &Waiting) -> Result<Json, ErrorData> {
    let params = asked.get_mut("params").map(Json::take).unwrap_or_default();
    match asked.get("method").and_then(Json::as_str) {
        Some("elicitation/create") => to_json(forwarding.elicit(waiting, read(params)?).await?),
        Some("sampling/createMessage") => to_json(forwarding.sample(waiting, read(params)?).await?),
        Some("roots/list") => to_json(forwarding.roots(Some(waiting)).await?),
        _ => Err(ErrorData::invalid_params(format!("unknown request: {}", excerpt(&asked)), None)),
    }
}

fn to_json(answer: impl Serialize) -> Result<Json, ErrorData> {
    serde_json::to_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

pub(super) fn failed(why: impl AsRef<str>) -> ToolError {
    ToolError::new(format!("the MCP server requires further input: {}", why.as_ref()))
}

/// The pause before a call is sent again whose server asks for nothing: it doubles from the first to the last.
pub(super) fn pause(round: u32) -> Duration {
    (FIRST_PAUSE * 2_u32.saturating_pow(round)).min(LAST_PAUSE)
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// How often a call asks a person or a model, and how many requests it may have each time.
pub(super) const MAX_ROUNDS: u32 = 10;
const MAX_REQUESTS: usize = 8;

const NOBODY: &str = "nobody can be asked";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requirements_are_taken_out_of_results() {
        let take = |mut result: Json| RequiredInput::take(&mut result);
        let required = |requests: Json, state: Option<&str>| {
            let Json::Object(requests) = requests else { unreachable!("requests are an object") };
            Some(Ok(RequiredInput { requests, state: state.map(str::to_owned) }))
        };
        let kind = "input_required";
        assert_eq!(take(json!({ "content": [] })), None);
        assert_eq!(take(json!({ "resultType": "complete", "requestState": "s" })), None);
        assert_eq!(take(json!({ "resultType": 1, "requestState": "s" })), None);
        assert_eq!(take(json!("input_required")), None);
        assert_eq!(take(json!({ "resultType": kind, "requestState": "s" })), required(json!({}), Some("s")));
        let (a, requests) = (json!({ "method": "x" }), json!({ "a": { "method": "x" } }));
        assert_eq!(take(json!({ "resultType": kind, "inputRequests": requests })), required(json!({ "a": a }), None));
        let both = json!({ "resultType": kind, "inputRequests": requests, "requestState": "" });
        assert_eq!(take(both), required(json!({ "a": a }), Some("")));
        let failure = |result: Json| take(result).unwrap().unwrap_err().to_string();
        let prefix = "the MCP server requires further input: ";
        assert_eq!(
            failure(json!({ "resultType": kind, "requestState": null })),
            format!("{prefix}it does not say which")
        );
        let odd = failure(json!({ "resultType": kind, "inputRequests": [1] }));
        assert_eq!(odd, format!("{prefix}its `inputRequests` are no object: [1]"));
        let odd = failure(json!({ "resultType": kind, "inputRequests": {}, "requestState": { "a": 1 } }));
        assert_eq!(odd, format!("{prefix}its `requestState` is no text: {{\"a\":1}}"));
    }

    #[test]
    fn pauses_grow_to_their_maximum() {
        assert_eq!([0, 1, 5].map(pause).map(|pause| pause.as_millis()), [50, 100, 1600]);
        assert_eq!(pause(6), LAST_PAUSE);
        assert_eq!(pause(u32::MAX), LAST_PAUSE);
    }
}
