//! The cost of MCP on both sides: a thousand tools of a server in this process, searched and called through a server in
//! this process, beside the project's goals.
//!
//! `cargo bench --bench mcp` prints a table; `-- --json` one JSON object per line; `-- WORD…` only the rows whose name
//! contains a word. Machines are shared and noisy: compare runs that were made together. The rows of HTTP open 2 000 files:
//! `ulimit -n 8192` allows that.

#[allow(dead_code)] // each benchmark uses its part
mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use execbox::{
    CancellationToken, Executor, InlineExecutor, PoolOptions, ProcessExecutor, RunnerCommand, WorkerExecutor,
};
use execbox_mcp::rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use execbox_mcp::rmcp::service::{RequestContext, RoleClient, RoleServer, RunningService};
use execbox_mcp::rmcp::{ServerHandler, ServiceExt as _};
use execbox_mcp::server::{CodeServer, HttpOptions, HttpServer, ServerOptions};
use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use execbox_measure::allocator;
use execbox_measure::samples::Samples;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use support::{Report, samples};

fn main() {
    allocator::return_memory_soon();
    let report = Report::from_arguments();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let bench = Bench { runtime: runtime.expect("a runtime") };
    report.head();
    let _runtime = bench.runtime.enter();
    bench.start(&report);
    bench.search(&report);
    bench.calls(&report);
    bench.crowds(&report);
}

/// A client of a server.
type Client = RunningService<RoleClient, ()>;

struct Bench {
    runtime: Runtime,
}

impl Bench {
    /// Measures the start, until the first answer that a client waits for.
    fn start(&self, report: &Report) {
        let server = ThousandTools::new();
        report.row("1 000 tools: listed by a bare client", f64::NAN, || {
            self.times(20, async || {
                let client = client(server.serve_one()).await;
                assert_eq!(client.list_all_tools().await.expect("a list").len(), TOOLS);
            })
        });
        let executor = inline();
        report.row("1 000 tools: from nothing to the first list", 200.0, || {
            self.times(20, async || {
                let client = wrapped(&server, &executor).await;
                assert_eq!(client.list_all_tools().await.expect("a list").len(), 3);
            })
        });
        report.row("1 000 tools: from nothing to the first result", f64::NAN, || {
            self.times(20, async || {
                let client = wrapped(&server, &inline()).await;
                execute(&client, "1").await;
            })
        });
    }

    /// Measures the requests of a client before code is written: the list and the search.
    fn search(&self, report: &Report) {
        let client = self.runtime.block_on(wrapped(&ThousandTools::new(), &inline()));
        report.row_of("1 000 tools: all three descriptions", "characters", 6_000.0, || {
            let tools = self.runtime.block_on(client.list_all_tools()).expect("a list");
            let characters = |tool: &Tool| tool.description.as_ref().map_or(0, |text| text.chars().count());
            #[allow(clippy::cast_precision_loss)] // far below 2^52
            samples(vec![tools.iter().map(characters).sum::<usize>() as f64])
        });
        for (what, arguments) in [
            ("a search of one word", json!({ "query": "webhook" })),
            ("a search of a sentence", json!({ "query": "create an issue in a repository of the team" })),
            ("a page of 50", json!({ "limit": 50, "offset": 900 })),
            ("one tool described", json!({ "describe": ["api.delete_webhook_7"] })),
            ("50 tools described", json!({ "describe": vec!["api.delete_webhook_7"; 50] })),
        ] {
            report.row(&format!("1 000 tools: {what}"), 5.0, || {
                self.times(200, async || {
                    let found = call(&client, "mcp_search_tools", arguments.clone()).await;
                    assert_ne!(found.structured_content.expect("a page")["tools"], json!([]), "{arguments}");
                })
            });
        }
    }

    /// Measures code that calls tools: guest → execbox → server upstream, and back.
    fn calls(&self, report: &Report) {
        let server = ThousandTools::new();
        let bare = self.runtime.block_on(client(server.serve_one()));
        let call_bare = || self.times(2_000, async || _ = call(&bare, "create_issue_0", arguments()).await);
        report.row("a bare call of a tool", f64::NAN, call_bare);
        for (name, executor) in subjects() {
            report.row(&format!("{name}: the first code after a start"), f64::NAN, || {
                self.samples(10, async || {
                    let executor = subjects().into_iter().find(|subject| subject.0 == name).expect("a subject").1;
                    let client = wrapped(&server, &executor).await;
                    let started = Instant::now();
                    execute(&client, &calling(1)).await;
                    milliseconds(started)
                })
            });
            let client = self.runtime.block_on(wrapped(&server, &executor));
            report.row(&format!("{name}: code without calls"), f64::NAN, || {
                self.times(1_000, async || execute(&client, "1").await)
            });
            report.row(&format!("{name}: each call, over a bare one"), 0.1, || {
                let bare = call_bare().median();
                let one = self.times(100, async || execute(&client, &calling(1)).await).median();
                let many = self.times(20, async || execute(&client, &calling(501)).await);
                many.map(|total| (total - one) / 500.0 - bare)
            });
        }
    }

    /// Measures a program of one client over HTTP, beside others.
    fn crowds(&self, report: &Report) {
        let name = |beside: &str| format!("HTTP, process: 1+1 {beside}");
        let names = [
            name("of the only client"),
            name("beside 1 000 idle clients"),
            name("beside them and 200 waiting programs of one client"),
            name("beside them and one client that runs 200 times 1+1 at once"),
        ];
        if !names.iter().any(|name| report.includes(name)) {
            return;
        }
        let command = RunnerCommand::new(env!("CARGO_BIN_EXE_execbox")).arg("runner");
        // As many as programs run at once.
        let pool = PoolOptions::default().max_size(ServerOptions::default().max_programs + 1);
        let process = ProcessExecutor::builder(command).pool(pool).build();
        let client = self.runtime.block_on(HttpClient::serve(Arc::new(process)));
        let measure = |name: &str, count| {
            report.row(name, 50.0, || self.times(count, async || assert_eq!(client.run("1+1").await, 200)));
        };
        measure(&names[0], 500);
        let idle = self.runtime.block_on(async {
            let mut idle = Vec::new();
            for _ in 0..1_000 {
                idle.push(client.another().await.stream().await);
            }
            idle
        });
        measure(&names[1], 500);
        for (name, code) in [(&names[2], "await new Promise((end) => setTimeout(end, 5000))"), (&names[3], "1+1")] {
            let mut busy = JoinSet::new();
            self.runtime.block_on(async {
                let another = client.another().await;
                for _ in 0..200 {
                    let client = another.clone();
                    busy.spawn(async move { while client.run(code).await == 200 {} });
                }
                tokio::time::sleep(Duration::from_secs(3)).await; // All processes have started.
            });
            measure(name, 200);
            assert_eq!(busy.len(), 200, "no request is refused");
            self.runtime.block_on(busy.shutdown());
        }
        drop(idle);
    }

    /// Measures a function repeatedly; the first measurements are dropped.
    fn times(&self, count: usize, once: impl AsyncFn()) -> Samples {
        self.samples(count, async || {
            let started = Instant::now();
            once().await;
            milliseconds(started)
        })
    }

    fn samples(&self, count: usize, once: impl AsyncFn() -> f64) -> Samples {
        self.runtime.block_on(async {
            for _ in 0..=count / 10 {
                once().await;
            }
            let mut measured = Vec::with_capacity(count);
            for _ in 0..count {
                measured.push(once().await);
            }
            samples(measured)
        })
    }
}

fn milliseconds(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}

fn inline() -> Arc<dyn Executor> {
    Arc::new(InlineExecutor::new().expect("an engine"))
}

fn subjects() -> [(&'static str, Arc<dyn Executor>); 3] {
    let command = RunnerCommand::new(env!("CARGO_BIN_EXE_execbox")).arg("runner");
    [
        ("inline", inline()),
        ("worker", Arc::new(WorkerExecutor::new().expect("an engine"))),
        ("process", Arc::new(ProcessExecutor::builder(command).build())),
    ]
}

/// A client with a session over HTTP. Each request has a connection of its own.
#[derive(Clone)]
struct HttpClient {
    address: SocketAddr,
    session: String,
}

impl HttpClient {
    /// A client of a new server.
    async fn serve(executor: Arc<dyn Executor>) -> Self {
        let options = ServerOptions::default().timers(true);
        let server = HttpServer::bind("127.0.0.1:0", HttpOptions::default()).await.expect("an address");
        let address = server.address();
        tokio::spawn(server.serve(CodeServer::new(executor, Vec::new, options), CancellationToken::new()));
        Self { address, session: String::new() }.another().await
    }

    /// Another client of the server.
    async fn another(&self) -> Self {
        let new = Self { address: self.address, session: String::new() };
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } });
        let answer = new.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })).await;
        let lower = answer.to_lowercase();
        let session =
            lower.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session").to_owned();
        let new = Self { session: format!("Mcp-Session-Id: {session}\r\n"), ..new };
        new.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        new
    }

    /// Sends a request whose body has this length, and returns the connection.
    async fn begin(&self, method: &str, body: &str) -> TcpStream {
        let (address, session, length) = (self.address, &self.session, body.len());
        let head = format!(
            "{method} /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{session}Content-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut stream = TcpStream::connect(address).await.expect("a connection; `ulimit -n 8192` allows more");
        stream.write_all(head.as_bytes()).await.expect("a request");
        stream
    }

    async fn post(&self, message: &Value) -> String {
        let mut answer = String::new();
        let mut stream = self.begin("POST", &message.to_string()).await;
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    /// Opens the stream of messages of the server.
    async fn stream(&self) -> TcpStream {
        let mut stream = self.begin("GET", "").await;
        stream.read_exact(&mut [0; 12]).await.expect("a status");
        stream
    }

    /// Runs a program. Returns the HTTP status.
    async fn run(&self, code: &str) -> u16 {
        static ID: AtomicU64 = AtomicU64::new(2);
        let id = ID.fetch_add(1, Ordering::Relaxed);
        let params = json!({ "name": "mcp_execute_code", "arguments": { "code": code } });
        let answer = self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })).await;
        assert!(!answer.contains(r#""isError":true"#), "{answer}");
        answer[9..12].parse().expect("a status")
    }
}

async fn client(stream: DuplexStream) -> Client {
    ().serve(stream).await.expect("a connection")
}

/// Connects a client to a code server over this server.
async fn wrapped(server: &ThousandTools, executor: &Arc<dyn Executor>) -> Client {
    let connect = server.clone();
    let upstream = Upstream::open_stream("api", move || connect.serve_one(), UpstreamOptions::default()).await;
    let upstream = upstream.expect("a connection");
    assert_eq!(upstream.rejected(), []);
    let providers = move || vec![upstream.provider()];
    client(served(CodeServer::new(Arc::clone(executor), providers, ServerOptions::default()))).await
}

async fn call(client: &Client, name: &'static str, arguments: Value) -> CallToolResult {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let request = CallToolRequestParams::new(name).with_arguments(arguments);
    let result = client.call_tool(request).await.expect("an answer");
    assert_ne!(result.is_error, Some(true), "{result:?}");
    result
}

async fn execute(client: &Client, code: &str) {
    call(client, "mcp_execute_code", json!({ "code": code })).await;
}

/// Code that makes `count` sequential calls of a tool.
fn calling(count: usize) -> String {
    format!("for (let i = 0; i < {count}; i++) await api.create_issue_0({})", arguments())
}

fn arguments() -> Value {
    json!({ "owner": "somebody", "repository": "something", "title": "A title", "labels": ["bug"], "limit": 10 })
}

/// A stream to a server in this process.
fn served(server: impl ServerHandler) -> DuplexStream {
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move { server.serve(far).await.expect("a connection").waiting().await });
    near
}

/// A server of tools with schemas like those of published servers. Every call returns its arguments.
#[derive(Clone)]
struct ThousandTools(Arc<Vec<Tool>>);

const TOOLS: usize = 1_000;

const VERBS: [&str; 5] = ["create", "list", "update", "delete", "search"];

const NOUNS: [&str; 10] = [
    "issue",
    "webhook",
    "pull_request",
    "branch",
    "release",
    "calendar_event",
    "invoice",
    "customer",
    "message",
    "file",
];

impl ThousandTools {
    fn new() -> Self {
        Self(Arc::new((0..TOOLS).map(tool).collect()))
    }

    fn serve_one(&self) -> DuplexStream {
        served(self.clone())
    }
}

impl ServerHandler for ThousandTools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.0.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::structured(Value::Object(request.arguments.unwrap_or_default())).into())
    }
}

/// Every combination of a verb and a noun, numbered; every second tool has an output schema.
fn tool(number: usize) -> Tool {
    let (verb, noun) = (VERBS[number % VERBS.len()], NOUNS[number / VERBS.len() % NOUNS.len()]);
    let name = format!("{verb}_{noun}_{}", number / (VERBS.len() * NOUNS.len()));
    let description = format!(
        "{verb} {noun}s of a repository that the caller may see. Use this when the number of the {noun} is known, and \
         search first when it is not. The answer has the {noun} as it is afterwards. Fails when the repository is archived."
    );
    let Value::Object(input) = input(noun) else { unreachable!("it is written as an object") };
    let tool = Tool::new_with_raw(name, Some(description.into()), input);
    match output() {
        Value::Object(output) if number % 2 == 1 => tool.with_raw_output_schema(Arc::new(output)),
        _ => tool,
    }
}

fn input(noun: &str) -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "owner": { "type": "string", "description": "The account that owns the repository. Not case sensitive." },
            "repository": { "type": "string", "description": "The name of the repository without its extension." },
            "title": { "type": "string", "minLength": 1, "description": format!("The title of the {noun}") },
            "body": { "type": "string", "description": "Its contents, in Markdown" },
            "state": { "type": "string", "enum": ["open", "closed", "all"], "default": "open" },
            "labels": { "type": "array", "items": { "type": "string" }, "description": "Labels to set" },
            "limit": { "type": "integer", "minimum": 1, "maximum": 100, "description": "ResultFormat per page" },
            "since": { "type": "string", "format": "date-time", "description": "Only what changed since then" },
            "filter": {
                "type": "object",
                "properties": {
                    "author": { "type": "string" },
                    "milestone": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
                    "sort": { "type": "string", "enum": ["created", "updated", "comments"] }
                },
                "additionalProperties": false
            }
        },
        "required": ["owner", "repository"],
        "additionalProperties": false
    })
}

fn output() -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "number": { "type": "integer", "description": "The number" },
            "url": { "type": "string", "format": "uri" },
            "author": {
                "type": "object",
                "properties": { "login": { "type": "string" }, "id": { "type": "integer" } },
                "required": ["login"]
            },
            "labels": { "type": "array", "items": { "type": "string" } }
        }
    })
}
