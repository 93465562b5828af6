//! The MCP server that the official conformance suite requires of implementations of servers: its tools, prompts and resources.
//!
//! The names, texts and questions are those of the scenarios of the suite. The suite tests this server directly, over streamable
//! HTTP, and behind a gateway, which starts this server over standard streams: see `interop/README.md`.
//!
//! ```sh
//! fixtures --http 127.0.0.1:0    # streamable HTTP; port 0 chooses a free port
//! fixtures                       # standard streams
//! ```
//!
//! Both eras of MCP are served. Where they differ:
//!
//! | | until 2025-11-25 | 2026-07-28 |
//! |---|---|---|
//! | a connection | begins with `initialize`, has a session | has no state; `server/discover` |
//! | questions to the client | requests of the server | results that require input; the client repeats its request |
//! | log messages | from the level of `logging/setLevel` | from the level in `_meta` of the request, without it none |
//! | changes of lists | notifications | notifications of `subscriptions/listen` |
//!
//! All fixtures work in both eras, so that a gateway may connect clients of one era with this server in the other.

#![allow(deprecated)] // Sampling, roots, logging and `resources/subscribe`: the suite tests them.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox_mcp::rmcp;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, CompleteRequestParams, CompleteResult,
    CompletionInfo, ContentBlock, CreateMessageResult, ElicitResult, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, InputRequest, InputRequests, InputRequiredResult,
    InputResponses, JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListRootsResult,
    ListToolsResult, LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams, ProgressNotificationParam,
    Prompt, PromptArgument, PromptMessage, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, RequestStateCodec, Resource, ResourceContents, ResourceTemplate, Role, SealOptions,
    ServerCapabilities, ServerConfig, SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer, ServiceError, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, ServiceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve_streams().await?,
        ["--http", address] => serve_http(address).await?,
        _ => {
            eprintln!("usage: fixtures [--http ADDRESS]");
            return Ok(ExitCode::from(2));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves the client at standard input and output, until it closes them.
async fn serve_streams() -> Result<(), Box<dyn Error>> {
    Fixtures::new()?.serve(rmcp::transport::stdio()).await?.waiting().await?;
    Ok(())
}

/// Serves clients at `address`, without an end. Only local programs and pages are accepted, which prevents DNS rebinding.
async fn serve_http(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    let config = StreamableHttpServerConfig::default().with_allowed_origins(LOCAL_ORIGINS);
    let fixtures = Fixtures::new()?;
    let new_session = move || Ok(fixtures.new_session());
    let mcp = StreamableHttpService::new(new_session, Arc::new(LocalSessionManager::default()), config);
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(mcp.clone());
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

const LOCAL_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// The server: one for each session, or for each request without a session.
#[derive(Clone)]
struct Fixtures {
    /// Seals the state of requests that require input.
    codec: Arc<RequestStateCodec>,
    /// The changes of lists, for the listeners of all clients.
    changes: broadcast::Sender<Change>,
    /// The least severe level of the log messages of a session. `logging/setLevel` changes the default, `info`.
    level: Arc<Mutex<LoggingLevel>>,
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Tools,
    Prompts,
}

impl Fixtures {
    fn new() -> Result<Self, io::Error> {
        let mut key = [0; RequestStateCodec::MIN_KEY_LENGTH];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        let level = Arc::new(Mutex::new(LoggingLevel::Info));
        Ok(Self { codec: Arc::new(RequestStateCodec::new(key)), changes: broadcast::Sender::new(16), level })
    }

    /// A server with a log level of its own.
    fn new_session(&self) -> Self {
        Self { level: Arc::new(Mutex::new(LoggingLevel::Info)), ..self.clone() }
    }

    fn call(
        &self,
        name: &str,
        arguments: Option<JsonObject>,
        answers: Option<InputResponses>,
        state: Option<String>,
        context: Context,
    ) -> Call {
        Call {
            name: name.to_owned(),
            arguments: arguments.unwrap_or_default(),
            answers: answers.unwrap_or_default(),
            state,
            is_sealed: false,
            fixtures: self.clone(),
            context,
        }
    }
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("fixtures", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: Context) -> Result<ListToolsResult, ErrorData> {
        let tools =
            TOOLS.iter().map(|(name, description, arguments)| Tool::new(*name, *description, schema(arguments)));
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(&self, params: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        let (answers, state) = (params.input_responses, params.request_state);
        let call = self.call(&params.name, params.arguments, answers, state, context);
        call_tool(call).await.map(CallToolResponse::from).or_else(Unfinished::into_response)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = PROMPTS.iter().map(|(name, description, arguments)| {
            let required = |name: &&str| PromptArgument::new(*name).with_required(true);
            Prompt::new(*name, Some(*description), Some(arguments.iter().map(required).collect()))
        });
        Ok(ListPromptsResult::with_all_items(prompts.collect()))
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let (answers, state) = (params.input_responses, params.request_state);
        let call = self.call(&params.name, params.arguments, answers, state, context);
        get_prompt(call).await.map(GetPromptResponse::from).or_else(Unfinished::into_response)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = RESOURCES.iter().map(|(uri, mime_type, description)| {
            let name = uri.trim_start_matches("test://");
            Resource::new(*uri, name).with_description(*description).with_mime_type(*mime_type)
        });
        Ok(ListResourcesResult::with_all_items(resources.collect()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new("test://template/{id}/data", "template")
            .with_description("The data of an identifier")
            .with_mime_type("application/json");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = read_resource(&params.uri)?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    /// The resources never change: nothing is kept of a subscription, in either era.
    async fn subscribe(&self, params: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        read_resource(&params.uri).map(drop)
    }

    async fn unsubscribe(&self, params: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        read_resource(&params.uri).map(drop)
    }

    async fn complete(&self, params: CompleteRequestParams, _: Context) -> Result<CompleteResult, ErrorData> {
        let matching = COMPLETIONS.iter().filter(|value| value.starts_with(&params.argument.value));
        let values = matching.map(|value| (*value).to_owned()).collect();
        CompletionInfo::with_all_values(values).map(CompleteResult::new).map_err(|error| internal(&error))
    }

    async fn set_level(&self, params: SetLevelRequestParams, context: Context) -> Result<(), ErrorData> {
        if is_modern(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.level.lock().expect("no holder panics") = params.level;
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    /// Sends the changes that the client has asked for; the others are errors of the sink.
    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let _not_accepted = match change {
                Ok(Change::Tools) => subscription.sink().notify_tool_list_changed().await,
                Ok(Change::Prompts) => subscription.sink().notify_prompt_list_changed().await,
                Err(_) => continue, // Too many at once: the lists are the same in any case.
            };
        }
    }
}

type Context = RequestContext<RoleServer>;

/// The tools, each with the strings that it requires.
const TOOLS: &[(&str, &str, &[&str])] = &[
    ("test_simple_text", "Returns a text", &[]),
    ("test_image_content", "Returns an image", &[]),
    ("test_audio_content", "Returns audio", &[]),
    ("test_embedded_resource", "Returns a resource", &[]),
    ("test_multiple_content_types", "Returns a text, an image and a resource", &[]),
    ("test_error_handling", "Returns an error", &[]),
    ("test_tool_with_progress", "Reports progress in three steps", &[]),
    ("test_tool_with_logging", "Sends three log messages", &[]),
    ("test_logging_tool", "Sends three log messages", &[]),
    ("test_sampling", "Asks the model of the client", &["prompt"]),
    ("test_elicitation", "Asks the user for a name and an address", &["message"]),
    ("test_elicitation_sep1034_defaults", "Asks the user, with a default for each type", &[]),
    ("test_elicitation_sep1330_enums", "Asks the user to choose, with each form of an enumeration", &[]),
    ("test_input_required_result_elicitation", "Asks the user for a name", &[]),
    ("test_input_required_result_sampling", "Asks the model for a capital", &[]),
    ("test_input_required_result_list_roots", "Asks for the roots of the client", &[]),
    ("test_input_required_result_request_state", "Asks the user to confirm, with a sealed state", &[]),
    ("test_input_required_result_tampered_state", "Asks the user to confirm, and rejects other states", &[]),
    ("test_input_required_result_multiple_inputs", "Asks the user, the model and for roots at once", &[]),
    ("test_input_required_result_multi_round", "Asks the user twice; the second state has the first answer", &[]),
    ("test_input_required_result_capabilities", "Asks the user or the model, as the client offers", &[]),
    ("test_missing_capability", "Asks the model, which the client may not have", &[]),
    ("test_streaming_elicitation", "Asks the user to confirm", &[]),
    ("test_trigger_tool_change", "Announces a change of the list of tools", &[]),
    ("test_trigger_prompt_change", "Announces a change of the list of prompts", &[]),
];

async fn call_tool(call: Call) -> Outcome<CallToolResult> {
    match call.name.as_str() {
        "test_simple_text" => Ok(text("This is a simple text response for testing.")),
        "test_image_content" => Ok(content([ContentBlock::image(RED_PIXEL, "image/png")])),
        "test_audio_content" => Ok(content([ContentBlock::audio(SILENCE, "audio/wav")])),
        "test_embedded_resource" => Ok(embedded_resource()),
        "test_multiple_content_types" => Ok(multiple_content_types()),
        "test_error_handling" => Ok(error("This tool intentionally returns an error for testing")),
        "test_tool_with_progress" => progress(&call).await,
        "test_tool_with_logging" | "test_logging_tool" => logging(&call).await,
        "test_sampling" => sampling(&call).await,
        "test_elicitation" => elicitation(&call).await,
        "test_elicitation_sep1034_defaults" => defaults(&call).await,
        "test_elicitation_sep1330_enums" => enumerations(&call).await,
        "test_input_required_result_elicitation" => input_elicitation(&call).await,
        "test_input_required_result_sampling" => input_sampling(&call).await,
        "test_input_required_result_list_roots" => input_roots(&call).await,
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            request_state(&call.sealed()?).await
        }
        "test_input_required_result_multiple_inputs" => multiple_inputs(&call.sealed()?).await,
        "test_input_required_result_multi_round" => multi_round(&call.sealed()?).await,
        "test_input_required_result_capabilities" => capabilities(&call).await,
        "test_missing_capability" => missing_capability(&call).await,
        "test_streaming_elicitation" => streaming_elicitation(&call).await,
        "test_trigger_tool_change" => trigger(&call, Change::Tools).await,
        "test_trigger_prompt_change" => trigger(&call, Change::Prompts).await,
        unknown => Err(ErrorData::invalid_params(format!("unknown tool {unknown:?}"), None).into()),
    }
}

fn embedded_resource() -> CallToolResult {
    let resource = ResourceContents::text("This is an embedded resource content.", "test://embedded-resource");
    content([ContentBlock::resource(resource.with_mime_type("text/plain"))])
}

fn multiple_content_types() -> CallToolResult {
    let data = json!({ "test": "data", "value": 123 }).to_string();
    let resource = ResourceContents::text(data, "test://mixed-content-resource").with_mime_type("application/json");
    content([
        ContentBlock::text("Multiple content types test:"),
        ContentBlock::image(RED_PIXEL, "image/png"),
        ContentBlock::resource(resource),
    ])
}

async fn progress(call: &Call) -> Outcome<CallToolResult> {
    call.report(0.0).await?;
    tokio::time::sleep(STEP).await;
    call.report(50.0).await?;
    tokio::time::sleep(STEP).await;
    call.report(100.0).await?;
    Ok(text("Progress reported"))
}

async fn logging(call: &Call) -> Outcome<CallToolResult> {
    call.log("Tool execution started").await?;
    tokio::time::sleep(STEP).await;
    call.log("Tool processing data").await?;
    tokio::time::sleep(STEP).await;
    call.log("Tool execution completed").await?;
    Ok(text("Messages logged"))
}

/// The time between two notifications: the client receives the first before the tool ends.
const STEP: Duration = Duration::from_millis(50);

async fn sampling(call: &Call) -> Outcome<CallToolResult> {
    let answers = call.ask([("response", model(call.argument("prompt")?, 100))]).await?;
    Ok(text(format!("LLM response: {}", sampled(&answers["response"]))))
}

async fn elicitation(call: &Call) -> Outcome<CallToolResult> {
    let schema = json!({
        "type": "object",
        "properties": {
            "username": { "type": "string", "description": "User's response" },
            "email": { "type": "string", "description": "User's email address" },
        },
        "required": ["username", "email"],
    });
    let answers = call.ask([("user", user(call.argument("message")?, &schema))]).await?;
    Ok(text(format!("User response: {}", elicited(&answers["user"]))))
}

async fn defaults(call: &Call) -> Outcome<CallToolResult> {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
            "verified": { "type": "boolean", "default": true },
        },
    });
    let answers = call.ask([("user", user("Please review the defaults", &schema))]).await?;
    Ok(text(format!("Elicitation completed: {}", elicited(&answers["user"]))))
}

async fn enumerations(call: &Call) -> Outcome<CallToolResult> {
    let options = json!(["option1", "option2", "option3"]);
    let titled = |kind: &str| {
        let titles = [("value1", "First"), ("value2", "Second"), ("value3", "Third")];
        titles.map(|(value, title)| json!({ "const": value, "title": format!("{title} {kind}") }))
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": options },
            "titledSingle": { "type": "string", "oneOf": titled("Option") },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
        },
    });
    let answers = call.ask([("user", user("Please choose", &schema))]).await?;
    Ok(text(format!("Elicitation completed: {}", elicited(&answers["user"]))))
}

async fn input_elicitation(call: &Call) -> Outcome<CallToolResult> {
    let answers = call.ask([("user_name", user_field("What is your name?", "name", "string"))]).await?;
    Ok(text(format!("Hello, {}!", field(&answers["user_name"], "name"))))
}

async fn input_sampling(call: &Call) -> Outcome<CallToolResult> {
    let answers = call.ask([("capital_question", model("What is the capital of France?", 100))]).await?;
    Ok(text(sampled(&answers["capital_question"])))
}

async fn input_roots(call: &Call) -> Outcome<CallToolResult> {
    let answers = call.ask([("client_roots", roots())]).await?;
    Ok(text(format!("Roots: {}", answers["client_roots"]["roots"])))
}

async fn request_state(call: &Call) -> Outcome<CallToolResult> {
    let answers = call.ask([("confirm", user_field("Please confirm", "ok", "boolean"))]).await?;
    Ok(text(format!("state-ok: {}", elicited(&answers["confirm"]))))
}

async fn multiple_inputs(call: &Call) -> Outcome<CallToolResult> {
    let questions = [
        ("user_name", user_field("What is your name?", "name", "string")),
        ("greeting", model("Generate a greeting", 50)),
        ("client_roots", roots()),
    ];
    let answers = call.ask(questions).await?;
    let (greeting, name) = (sampled(&answers["greeting"]), field(&answers["user_name"], "name"));
    Ok(text(format!("{greeting} {name}: {}", answers["client_roots"]["roots"])))
}

async fn multi_round(call: &Call) -> Outcome<CallToolResult> {
    let first = call.ask([("step1", user_field("Step 1: What is your name?", "name", "string"))]).await?;
    let second = call.ask([("step2", user_field("Step 2: What is your favorite color?", "color", "string"))]).await?;
    Ok(text(format!("{} likes {}", field(&first["step1"], "name"), field(&second["step2"], "color"))))
}

async fn capabilities(call: &Call) -> Outcome<CallToolResult> {
    let declared = call.context.client_capabilities().unwrap_or_default();
    let mut questions = vec![
        ("user_name", user_field("What is your name?", "name", "string")),
        ("greeting", model("Generate a greeting", 50)),
        ("client_roots", roots()),
    ];
    questions.retain(|(_, question)| required_capability(question, &declared).is_none());
    let answers = call.ask(questions).await?;
    Ok(text(format!("Answers: {}", answers.keys().cloned().collect::<Vec<_>>().join(", "))))
}

async fn missing_capability(call: &Call) -> Outcome<CallToolResult> {
    let answers = call.ask([("response", model("Generate a greeting", 50))]).await?;
    Ok(text(sampled(&answers["response"])))
}

async fn streaming_elicitation(call: &Call) -> Outcome<CallToolResult> {
    call.report(50.0).await?;
    let answers = call.ask([("confirm", user_field("Please confirm", "ok", "boolean"))]).await?;
    Ok(text(elicited(&answers["confirm"])))
}

/// Announces a change of a list. The list stays the same, for the sake of scenarios that run at the same time.
async fn trigger(call: &Call, change: Change) -> Outcome<CallToolResult> {
    tokio::time::sleep(STEP).await; // A subscription is acknowledged just before its listener begins.
    let _no_listener = call.fixtures.changes.send(change);
    if !is_modern(&call.context) {
        let peer = &call.context.peer;
        match change {
            Change::Tools => peer.notify_tool_list_changed().await.map_err(service)?,
            Change::Prompts => peer.notify_prompt_list_changed().await.map_err(service)?,
        }
    }
    Ok(text("Change announced"))
}

/// The prompts, each with its arguments, which are required.
const PROMPTS: &[(&str, &str, &[&str])] = &[
    ("test_simple_prompt", "A text", &[]),
    ("test_prompt_with_arguments", "A text with both arguments", &["arg1", "arg2"]),
    ("test_prompt_with_embedded_resource", "A resource and a text", &["resourceUri"]),
    ("test_prompt_with_image", "An image and a text", &[]),
    ("test_input_required_result_prompt", "A text with the answer of the user", &[]),
];

async fn get_prompt(call: Call) -> Outcome<GetPromptResult> {
    match call.name.as_str() {
        "test_simple_prompt" => Ok(messages([ContentBlock::text("This is a simple prompt for testing.")])),
        "test_prompt_with_arguments" => prompt_with_arguments(&call),
        "test_prompt_with_embedded_resource" => prompt_with_embedded_resource(&call),
        "test_prompt_with_image" => Ok(messages([
            ContentBlock::image(RED_PIXEL, "image/png"),
            ContentBlock::text("Please analyze the image above."),
        ])),
        "test_input_required_result_prompt" => input_prompt(&call).await,
        unknown => Err(ErrorData::invalid_params(format!("unknown prompt {unknown:?}"), None).into()),
    }
}

fn prompt_with_arguments(call: &Call) -> Outcome<GetPromptResult> {
    let (first, second) = (call.argument("arg1")?, call.argument("arg2")?);
    Ok(messages([ContentBlock::text(format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]))
}

fn prompt_with_embedded_resource(call: &Call) -> Outcome<GetPromptResult> {
    let uri = call.argument("resourceUri")?;
    let resource = ResourceContents::text("Embedded resource content for testing.", uri).with_mime_type("text/plain");
    Ok(messages([ContentBlock::resource(resource), ContentBlock::text("Please process the embedded resource above.")]))
}

async fn input_prompt(call: &Call) -> Outcome<GetPromptResult> {
    let question = user_field("What context should the prompt use?", "context", "string");
    let answers = call.ask([("user_context", question)]).await?;
    Ok(messages([ContentBlock::text(format!("Context: {}", field(&answers["user_context"], "context")))]))
}

/// The resources, each with its media type.
const RESOURCES: &[(&str, &str, &str)] = &[
    ("test://static-text", "text/plain", "A text"),
    ("test://static-binary", "image/png", "An image"),
    ("test://watched-resource", "text/plain", "A text that clients subscribe to"),
];

/// The contents of a resource of the list or of the template.
fn read_resource(uri: &str) -> Result<ResourceContents, ErrorData> {
    let (contents, mime_type) = match uri {
        "test://static-text" => {
            (ResourceContents::text("This is the content of the static text resource.", uri), "text/plain")
        }
        "test://static-binary" => (ResourceContents::blob(RED_PIXEL, uri), "image/png"),
        "test://watched-resource" => (ResourceContents::text("This is the watched resource.", uri), "text/plain"),
        _ => (ResourceContents::text(template_data(uri)?, uri), "application/json"),
    };
    Ok(contents.with_mime_type(mime_type))
}

fn template_data(uri: &str) -> Result<String, ErrorData> {
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    let id = id.ok_or_else(|| ErrorData::resource_not_found("Resource not found", Some(json!({ "uri": uri }))))?;
    Ok(json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }).to_string())
}

/// The values of all arguments of prompts and templates.
const COMPLETIONS: &[&str] = &["paris", "park", "party", "test"];

/// An image of one red pixel, in base64.
const RED_PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";

/// Four samples of silence, in base64.
const SILENCE: &str = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA";

/// A call of a tool or a prompt.
struct Call {
    name: String,
    arguments: JsonObject,
    /// The answers to questions, as the client sent them with the call; once the call is sealed, also those of earlier rounds.
    answers: InputResponses,
    /// The state of the call, as the client sent it.
    state: Option<String>,
    /// Whether questions have a state.
    is_sealed: bool,
    fixtures: Fixtures,
    context: Context,
}

impl Call {
    /// Makes answers part of a state that the client cannot change. Fails if the state of this call is not one of its tool;
    /// without a state, its answers are ignored.
    fn sealed(mut self) -> Outcome<Self> {
        self.is_sealed = true;
        let Some(state) = &self.state else {
            self.answers.clear();
            return Ok(self);
        };
        let mut answers: InputResponses =
            self.fixtures.codec.open_json_with(state, self.name.as_bytes()).map_err(|error| invalid(&error))?;
        answers.append(&mut self.answers);
        Ok(Self { answers, ..self })
    }

    /// The answers of the client to these questions. Fails if the client has not declared that it answers questions of their
    /// kinds and, in the newer era, as long as the call does not come with the answers.
    async fn ask(&self, questions: impl IntoIterator<Item = (&str, InputRequest)>) -> Outcome<InputResponses> {
        let questions: InputRequests =
            questions.into_iter().map(|(key, question)| (key.to_owned(), question)).collect();
        let declared = self.context.client_capabilities().unwrap_or_default();
        if let Some(required) = questions.values().find_map(|question| required_capability(question, &declared)) {
            return Err(ErrorData::missing_required_client_capability(required).into());
        }
        if is_modern(&self.context) { self.answers_to(questions) } else { self.send(questions).await }
    }

    fn answers_to(&self, questions: InputRequests) -> Outcome<InputResponses> {
        if questions.keys().any(|key| !self.answers.contains_key(key)) {
            let state = if self.is_sealed { Some(self.seal()?) } else { None };
            return Err(InputRequiredResult::new(Some(questions), state).into());
        }
        let mut answers = BTreeMap::new();
        for (key, question) in questions {
            let answer = &self.answers[&key];
            check(&question, answer).map_err(|error| invalid(&error))?;
            answers.insert(key, answer.clone());
        }
        Ok(answers)
    }

    /// The answers so far, as a state for calls of this tool.
    fn seal(&self) -> Outcome<String> {
        let options = SealOptions::new().associated_data(self.name.as_bytes());
        Ok(self.fixtures.codec.seal_json_with(&self.answers, &options).map_err(|error| internal(&error))?)
    }

    /// Sends the questions as requests, one after the other.
    async fn send(&self, questions: InputRequests) -> Outcome<InputResponses> {
        let mut answers = BTreeMap::new();
        for (key, question) in questions {
            let answer = self.send_one(question).await.map_err(service)?;
            answers.insert(key, answer);
        }
        Ok(answers)
    }

    async fn send_one(&self, question: InputRequest) -> Result<Json, ServiceError> {
        let peer = &self.context.peer;
        Ok(match question {
            InputRequest::CreateMessage(request) => to_json(peer.create_message(request.params).await?),
            InputRequest::Elicitation(request) => to_json(peer.create_elicitation(request.params).await?),
            InputRequest::ListRoots(_) => to_json(peer.list_roots().await?),
            _ => unreachable!("there are questions of three kinds"),
        })
    }

    /// Reports progress in percent, if the client has asked for reports.
    async fn report(&self, progress: f64) -> Outcome<()> {
        let Some(token) = self.context.meta.get_progress_token() else { return Ok(()) };
        let progress = ProgressNotificationParam::new(token, progress).with_total(100.0);
        Ok(self.context.peer.notify_progress(progress).await.map_err(service)?)
    }

    /// Sends a log message of the level `info`, if the client wants messages of that level.
    async fn log(&self, message: &str) -> Outcome<()> {
        let level = match is_modern(&self.context) {
            true => self.context.meta.log_level(),
            false => Some(*self.fixtures.level.lock().expect("no holder panics")),
        };
        if level.is_none_or(|level| level as u8 > LoggingLevel::Info as u8) {
            return Ok(());
        }
        let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(message)).with_logger("fixtures");
        Ok(self.context.peer.notify_logging_message(message).await.map_err(service)?)
    }

    /// The value of an argument, which is a string.
    fn argument(&self, name: &str) -> Result<&str, ErrorData> {
        let value = self.arguments.get(name).and_then(Json::as_str);
        value.ok_or_else(|| invalid(&format!("invalid argument {name:?}: expected a string")))
    }
}

/// The result of a call, or why there is none.
type Outcome<T> = Result<T, Unfinished>;

enum Unfinished {
    InputRequired(Box<InputRequiredResult>),
    Failed(ErrorData),
}

impl Unfinished {
    fn into_response<R: From<InputRequiredResult>>(self) -> Result<R, ErrorData> {
        match self {
            Self::InputRequired(result) => Ok((*result).into()),
            Self::Failed(error) => Err(error),
        }
    }
}

impl From<InputRequiredResult> for Unfinished {
    fn from(result: InputRequiredResult) -> Self {
        Self::InputRequired(Box::new(result))
    }
}

impl From<ErrorData> for Unfinished {
    fn from(error: ErrorData) -> Self {
        Self::Failed(error)
    }
}

/// Whether the request is of MCP 2026-07-28 or later. Versions compare as dates.
fn is_modern(context: &Context) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// The capability that the client needs for the question, unless it is declared.
fn required_capability(question: &InputRequest, declared: &ClientCapabilities) -> Option<ClientCapabilities> {
    let (is_declared, required) = match question {
        InputRequest::CreateMessage(_) => (declared.sampling.is_some(), json!({ "sampling": {} })),
        InputRequest::Elicitation(_) => (declared.elicitation.is_some(), json!({ "elicitation": {} })),
        InputRequest::ListRoots(_) => (declared.roots.is_some(), json!({ "roots": {} })),
        _ => unreachable!("there are questions of three kinds"),
    };
    (!is_declared).then(|| typed(required))
}

/// Fails if the value is no answer to the question.
fn check(question: &InputRequest, answer: &Json) -> Result<(), serde_json::Error> {
    let answer = answer.clone();
    match question {
        InputRequest::CreateMessage(_) => serde_json::from_value::<CreateMessageResult>(answer).map(drop),
        InputRequest::Elicitation(_) => serde_json::from_value::<ElicitResult>(answer).map(drop),
        InputRequest::ListRoots(_) => serde_json::from_value::<ListRootsResult>(answer).map(drop),
        _ => unreachable!("there are questions of three kinds"),
    }
}

/// A question to the user, who fills in a form.
fn user(message: &str, schema: &Json) -> InputRequest {
    let params = json!({ "message": message, "requestedSchema": schema });
    typed(json!({ "method": "elicitation/create", "params": params }))
}

/// A question to the user, with one field.
fn user_field(message: &str, name: &str, kind: &str) -> InputRequest {
    user(message, &json!({ "type": "object", "properties": { name: { "type": kind } }, "required": [name] }))
}

/// A question to the model of the client.
fn model(prompt: &str, max_tokens: u32) -> InputRequest {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    let params = json!({ "messages": [message], "maxTokens": max_tokens });
    typed(json!({ "method": "sampling/createMessage", "params": params }))
}

/// A question for the roots of the client.
fn roots() -> InputRequest {
    typed(json!({ "method": "roots/list", "params": {} }))
}

/// The answer of a user, as text.
fn elicited(answer: &Json) -> String {
    let action = answer["action"].as_str().unwrap_or_default();
    format!("action={action}, content={}", answer["content"])
}

/// The value of a field in the answer of a user; empty if the user declined.
fn field<'a>(answer: &'a Json, name: &str) -> &'a str {
    answer["content"][name].as_str().unwrap_or_default()
}

/// The text in the answer of a model.
fn sampled(answer: &Json) -> &str {
    answer["content"]["text"].as_str().unwrap_or_default()
}

/// The schema of an object with these strings, which are required.
fn schema(arguments: &[&str]) -> JsonObject {
    let properties: JsonObject =
        arguments.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
    typed(json!({ "type": "object", "properties": properties, "required": arguments }))
}

fn text(text: impl Into<String>) -> CallToolResult {
    content([ContentBlock::text(text)])
}

fn content(blocks: impl Into<Vec<ContentBlock>>) -> CallToolResult {
    CallToolResult::success(blocks.into())
}

fn error(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message)])
}

/// Messages of the user.
fn messages(blocks: impl IntoIterator<Item = ContentBlock>) -> GetPromptResult {
    GetPromptResult::new(blocks.into_iter().map(|block| PromptMessage::new(Role::User, block)).collect())
}

fn typed<T: DeserializeOwned>(value: Json) -> T {
    serde_json::from_value(value).expect("the fixtures are valid")
}

fn to_json(value: impl Serialize) -> Json {
    serde_json::to_value(value).expect("answers are JSON")
}

fn invalid(error: &impl ToString) -> ErrorData {
    ErrorData::invalid_params(error.to_string(), None)
}

fn internal(error: &impl ToString) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// The error of a client that could not be asked or notified.
fn service(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        other => internal(&other),
    }
}
