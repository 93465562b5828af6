//! What clients of MCP 2026-07-28 are asked, request by request: each result that asks has a state, which finds the program again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::policy::{Decision, Policy};
use execbox::{Effect, InlineExecutor, Limits, Provider, Tool};
use execbox_mcp::server::{CodeServer, HttpOptions, HttpServer, ServerOptions};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    ClientRequest, ElicitationCapability, ErrorData, Implementation, InputRequiredResult, InputResponses,
    ProgressNotificationParam,
};
use rmcp::service::{
    ClientServiceExt as _, NotificationContext, PeerRequestOptions, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ServiceExt as _};
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;

use crate::fakes::{text, until};
use crate::http::both_generations;

/// A client that can ask its user, and leaves it to the test. Records the tokens and messages of progress.
#[derive(Clone, Default)]
struct Caller {
    name: &'static str,
    progress: Arc<Mutex<Vec<(String, String)>>>,
}

impl ClientHandler for Caller {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new(self.name, "1"))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let line = (json!(params.progress_token).to_string(), params.message.unwrap_or_default());
        self.progress.lock().unwrap().push(line);
    }
}

type Connected = RunningService<RoleClient, Caller>;

/// A shop that asks before `remove`, and records what is deleted.
struct Shop {
    server: CodeServer,
    deleted: Arc<Mutex<Vec<Json>>>,
}

impl Shop {
    fn new() -> Self {
        Self::with(ServerOptions::default())
    }

    fn with(options: ServerOptions) -> Self {
        let deleted = Arc::<Mutex<Vec<Json>>>::default();
        let sink = Arc::clone(&deleted);
        let delete = Tool::new("remove", move |input: Json, _| {
            sink.lock().unwrap().push(input["id"].clone());
            async { Ok(json!("deleted")) }
        });
        let shop = Provider::builder("shop").tool(delete.effect(Effect::Destructive)).build().unwrap();
        let policy = Some(options.policy.clone().unwrap_or_default().effect(Effect::Destructive, Decision::Ask));
        let limits = Limits::default().timeout(Duration::from_hours(1));
        let executor = Arc::new(InlineExecutor::new().unwrap());
        let options = options.policy(policy).limits(limits);
        Self { server: CodeServer::new(executor, move || vec![shop.clone()], options), deleted }
    }

    async fn connect(&self) -> Connected {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = self.server.clone();
        tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
        let [_, newest] = both_generations();
        Caller::default().serve_with_lifecycle(near, newest).await.unwrap()
    }

    async fn serve(&self) -> String {
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = HttpServer::bind("127.0.0.1:0", HttpOptions::default()).await.unwrap();
        let url = http.url();
        tokio::spawn(http.serve(self.server.clone(), CancellationToken::new()));
        url
    }

    fn deleted(&self) -> usize {
        self.deleted.lock().unwrap().len()
    }
}

async fn connect_over_http(url: &str, name: &'static str) -> Connected {
    let [_, newest] = both_generations();
    let transport = StreamableHttpClientTransport::from_uri(url.to_owned());
    Caller { name, ..Caller::default() }.serve_with_lifecycle(transport, newest).await.unwrap()
}

/// The call of a tool that runs code.
#[derive(Clone)]
struct Call {
    tool: &'static str,
    arguments: Json,
}

fn code(code: &str) -> Call {
    Call { tool: "mcp_execute_code", arguments: json!({ "code": code }) }
}

/// Deletes an order, which needs approval.
const DELETE: &str = "return await shop.remove({ id: 1 }).catch((error) => error.message)";

impl Call {
    fn params(&self, state: Option<&str>, answers: Option<InputResponses>) -> CallToolRequestParams {
        let Json::Object(arguments) = self.arguments.clone() else { unreachable!("arguments are an object") };
        let mut params = CallToolRequestParams::new(self.tool).with_arguments(arguments);
        (params.request_state, params.input_responses) = (state.map(str::to_owned), answers);
        params
    }

    async fn send(
        &self,
        client: &Connected,
        state: Option<&str>,
        answers: Option<InputResponses>,
    ) -> Result<CallToolResponse, ErrorData> {
        match client.peer().call_tool_once(self.params(state, answers)).await {
            Ok(response) => Ok(response),
            Err(ServiceError::McpError(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends the first request, which is answered with a question.
    async fn begin(&self, client: &Connected) -> InputRequiredResult {
        asked(self.send(client, None, None).await)
    }

    /// Approves what was asked.
    async fn approve(&self, client: &Connected, asked: &InputRequiredResult) -> Result<CallToolResponse, ErrorData> {
        self.send(client, asked.request_state.as_deref(), Some(answers(asked, &approval()))).await
    }
}

fn approval() -> Json {
    json!({ "action": "accept", "content": { "decision": "approve" } })
}

/// The same answer to everything that was asked.
fn answers(asked: &InputRequiredResult, answer: &Json) -> InputResponses {
    keys(asked).into_iter().map(|key| (key, answer.clone())).collect()
}

fn keys(asked: &InputRequiredResult) -> Vec<String> {
    asked.input_requests.iter().flatten().map(|(key, _)| key.clone()).collect()
}

fn asked(response: Result<CallToolResponse, ErrorData>) -> InputRequiredResult {
    match response {
        Ok(CallToolResponse::InputRequired(asked)) => asked,
        response => panic!("no question: {response:?}"),
    }
}

fn complete(response: Result<CallToolResponse, ErrorData>) -> CallToolResult {
    match response {
        Ok(CallToolResponse::Complete(result)) => result,
        response => panic!("no result: {response:?}"),
    }
}

fn refused(response: Result<CallToolResponse, ErrorData>) -> String {
    let error = response.expect_err("an error");
    assert_eq!(error.code.0, -32602, "{error:?}");
    error.message.into_owned()
}

const ENDED: &str = "the program waits no longer: it was answered before, or has ended. To run it again, call the tool \
                     without `requestState`";
const FOREIGN: &str = "`requestState` does not belong to this call: repeat the call as it was. To run another program, \
                       call the tool without `requestState`";

#[tokio::test]
async fn a_state_is_valid_once() {
    let shop = Shop::new();
    let (client, call) = (shop.connect().await, code(DELETE));
    let question = call.begin(&client).await;
    let text_of = json!(question.input_requests)["request1"].clone();
    assert_eq!(
        (text_of["method"].as_str(), text_of["params"]["mode"].as_str()),
        (Some("elicitation/create"), Some("form"))
    );
    assert_eq!(shop.deleted(), 0, "nothing happens before the answer");
    assert_eq!(text(&complete(call.approve(&client, &question).await)), "deleted");
    assert_eq!(refused(call.approve(&client, &question).await), ENDED);
    assert_eq!(shop.deleted(), 1);

    // Of several requests with one state, one is answered.
    let question = call.begin(&client).await;
    let all = futures_util::future::join_all((0..5).map(|_| call.approve(&client, &question))).await;
    assert_eq!((all.iter().filter(|response| response.is_ok()).count(), shop.deleted()), (1, 2));
}

#[tokio::test]
async fn a_state_belongs_to_its_client_and_its_call() {
    let shop = Shop::new();
    let (client, other, call) = (shop.connect().await, shop.connect().await, code(DELETE));
    let question = call.begin(&client).await;
    let state = question.request_state.clone().unwrap();
    let with = |state: String| InputRequiredResult::new(question.input_requests.clone(), Some(state));
    assert_eq!(refused(call.approve(&other, &question).await), FOREIGN, "another client");
    for another in [
        code("return await shop.remove({ id: 2 })"),
        Call { tool: "mcp_code", ..call.clone() },
        Call { arguments: json!({ "code": DELETE, "timeoutMs": 1000 }), ..call.clone() },
    ] {
        assert_eq!(refused(another.approve(&client, &question).await), FOREIGN, "{:?}", another.arguments);
    }
    let flipped = |at: usize| {
        let mut bytes = state.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).unwrap()
    };
    let mut invalid = vec![String::new(), "\u{1f600}".to_owned(), "x".repeat(100_000), format!("{state}A")];
    invalid.extend((0..state.len()).map(flipped));
    for state in invalid {
        assert_eq!(refused(call.approve(&client, &with(state.clone())).await), FOREIGN, "{state}");
    }
    let restarted = Shop::new();
    assert_eq!(refused(call.approve(&restarted.connect().await, &question).await), FOREIGN, "another gateway");
    assert_eq!(text(&complete(call.approve(&client, &question).await)), "deleted");
    assert_eq!(shop.deleted(), 1);
}

#[tokio::test]
async fn over_http_a_state_belongs_to_a_client_without_a_session() {
    let shop = Shop::new();
    let (url, call) = (shop.serve().await, code(DELETE));
    let (client, other) = (connect_over_http(&url, "one").await, connect_over_http(&url, "other").await);
    let question = call.begin(&client).await;
    assert_eq!(refused(call.approve(&other, &question).await), FOREIGN);
    // Each of its requests can come over another connection.
    let again = connect_over_http(&url, "one").await;
    assert_eq!(text(&complete(call.approve(&again, &question).await)), "deleted");
    assert_eq!(shop.deleted(), 1);
}

#[tokio::test]
async fn what_was_not_answered_is_asked_again() {
    let shop = Shop::new();
    let (client, call) = (shop.connect().await, code(DELETE));
    let first = call.begin(&client).await;
    let unknown = InputResponses::from([("other".to_owned(), json!(1))]);
    let second = asked(call.send(&client, first.request_state.as_deref(), Some(unknown)).await);
    assert_eq!((keys(&second), json!(second.input_requests)), (keys(&first), json!(first.input_requests)));
    assert_eq!(refused(call.approve(&client, &first).await), ENDED, "the first state was used");
    let third = asked(call.send(&client, second.request_state.as_deref(), None).await);
    assert_eq!(text(&complete(call.approve(&client, &third).await)), "deleted");
}

#[tokio::test]
async fn an_answer_of_the_wrong_form_can_be_corrected() {
    let shop = Shop::new();
    let (client, call) = (shop.connect().await, code(DELETE));
    let question = call.begin(&client).await;
    for (answer, reason) in [
        (json!(true), "invalid `inputResponses`: request1: invalid type: boolean `true`"),
        (json!({}), "invalid `inputResponses`: request1: missing field `action`"),
        (json!({ "action": "agree" }), "invalid `inputResponses`: request1: unknown variant `agree`"),
    ] {
        let state = question.request_state.as_deref();
        let error = refused(call.send(&client, state, Some(answers(&question, &answer))).await);
        assert!(error.starts_with(reason), "{error}");
    }
    let declined = answers(&question, &json!({ "action": "decline" }));
    let result = complete(call.send(&client, question.request_state.as_deref(), Some(declined)).await);
    assert_eq!((text(&result), shop.deleted()), ("not approved: the user refused the call", 0));
}

/// Clients send a request at most ten times.
#[tokio::test]
async fn a_client_is_asked_nine_times_during_one_program() {
    let shop = Shop::new();
    let deletes = "const all = []; for (let id = 0; id < 12; id++) all.push(await shop.remove({ id }).catch((e) => e.message)); \
                   return all.slice(8)";
    let (client, call) = (shop.connect().await, code(deletes));
    let mut response = call.send(&client, None, None).await;
    for _ in 0..9 {
        response = call.approve(&client, &asked(response)).await;
    }
    let result = complete(response).structured_content.unwrap();
    let late = "not approved: the client can be asked only 9 times during one program";
    assert_eq!((&result["result"], shop.deleted()), (&json!(["deleted", late, late, late]), 9));
}

#[tokio::test]
async fn a_late_answer_shows_what_has_become_of_the_program() {
    let timeout = Duration::from_millis(50);
    let records = Arc::<Mutex<Vec<String>>>::default();
    let sink = Arc::clone(&records);
    let policy = Policy::new().audit(move |record| {
        sink.lock().unwrap().push(format!("{:?}", record.verdict));
        Ok(())
    });
    let options = ServerOptions::default().approval_timeout(timeout).policy(policy);
    let shop = Shop::with(options);
    let (client, call) = (shop.connect().await, code(DELETE));
    let question = call.begin(&client).await;
    until(|| !records.lock().unwrap().is_empty()).await;
    let result = complete(call.approve(&client, &question).await);
    assert_eq!((text(&result), shop.deleted()), ("not approved: no answer within 50ms", 0));
}

#[tokio::test]
async fn progress_is_sent_for_the_newest_request() {
    let shop = Shop::new();
    let (client, call) =
        (shop.connect().await, code("console.log('before'); await shop.remove({ id: 1 }); console.log('after')"));
    let question = call.begin(&client).await;
    complete(call.approve(&client, &question).await);
    let token_of = |line: &str| {
        let progress = client.service().progress.lock().unwrap();
        progress.iter().find(|(_, message)| message == line).map(|(token, _)| token.clone())
    };
    until(|| token_of("before").is_some() && token_of("after").is_some()).await;
    assert_ne!(token_of("before"), token_of("after"));
}

/// Only one program can run: a further one shows that the first has ended.
#[tokio::test]
async fn programs_end_with_their_clients() {
    let shop = Shop::with(ServerOptions::default().max_programs(1));
    let other = shop.connect().await;
    let runs = async || assert_eq!(text(&complete(code("return 1").send(&other, None, None).await)), "1");

    let (client, call) = (shop.connect().await, code(DELETE));
    call.begin(&client).await;
    client.cancel().await.unwrap();
    runs().await;

    let (client, call) = (shop.connect().await, code("await shop.remove({ id: 1 }); for (;;) {}"));
    let question = call.begin(&client).await;
    let params = call.params(question.request_state.as_deref(), Some(answers(&question, &approval())));
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let sent = client.send_request_with_option(request, PeerRequestOptions::no_options()).await.unwrap();
    until(|| shop.deleted() == 1).await;
    sent.cancel(None).await.unwrap();
    runs().await;
}

/// Otherwise, a client could fill the memory with programs that it does not ask for again.
#[tokio::test]
async fn a_client_has_a_limited_number_of_suspended_programs() {
    let shop = Shop::new();
    let (client, call) = (shop.connect().await, code(DELETE));
    let mut questions = Vec::new();
    for _ in 0..33 {
        questions.push(call.begin(&client).await);
    }
    assert_eq!(refused(call.approve(&client, &questions[0]).await), ENDED);
    for question in &questions[1..] {
        complete(call.approve(&client, question).await);
    }
    assert_eq!(shop.deleted(), 32);
}
