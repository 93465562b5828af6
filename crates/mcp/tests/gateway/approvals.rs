//! Calls that need approval: by elicitation, by another approver, and without any approver.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::policy::{Approval, Approver, Decision, Policy, ProposedCall};
use execbox::{Effect, InlineExecutor, Limits, Provider, Tool, TypeScript};
use execbox_mcp::server::{AlwaysAllow, CodeServer, HttpOptions, HttpServer, Proposal, ServerOptions, StateOptions};
use futures_util::future::BoxFuture;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ErrorData, Implementation,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, RequestContext, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ServiceExt as _};
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;

use crate::fakes::{begin, call, text};
use crate::http::both_generations;

/// A client whose user gives these answers, one after another, and then none. Records the questions.
#[derive(Clone, Default)]
struct User {
    answers: Arc<Mutex<Vec<Json>>>,
    questions: Arc<Mutex<Vec<String>>>,
    /// The decisions that each question offers.
    offered: Arc<Mutex<Vec<Vec<String>>>>,
    /// The titles of all decisions, on lines of their own.
    titles: Arc<Mutex<String>>,
    /// Whether the client can ask its user at all.
    can_ask: bool,
    delay: Duration,
}

impl User {
    fn new(answers: impl IntoIterator<Item = &'static str>) -> Self {
        let answers = answers.into_iter().map(|decision| json!({ "decision": decision })).collect();
        Self { answers: Arc::new(Mutex::new(answers)), can_ask: true, ..Self::default() }
    }
}

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = self.can_ask.then(ElicitationCapability::default);
        ClientConfig::new(capabilities, Implementation::new("user", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            panic!("a form")
        };
        self.questions.lock().unwrap().push(message);
        let form = serde_json::to_value(requested_schema).unwrap();
        let decisions = form["properties"]["decision"]["oneOf"].as_array().unwrap();
        for decision in decisions {
            *self.titles.lock().unwrap() += &format!("{}\n", decision["title"].as_str().unwrap());
        }
        let decisions = decisions.iter().map(|decision| decision["const"].as_str().unwrap().to_owned());
        self.offered.lock().unwrap().push(decisions.collect());
        tokio::time::sleep(self.delay).await;
        let answer = {
            let mut answers = self.answers.lock().unwrap();
            if answers.is_empty() { None } else { Some(answers.remove(0)) }
        };
        Ok(match answer {
            Some(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
            None => ElicitResult::new(ElicitationAction::Decline),
        })
    }
}

/// A shop that asks before `delete_order`, and records what is deleted.
fn server(policy: Policy, limits: Limits, approval_timeout: Duration) -> (CodeServer, Arc<Mutex<Vec<Json>>>) {
    server_with(ServerOptions::default().policy(policy).limits(limits).approval_timeout(approval_timeout))
}

fn server_with(options: ServerOptions) -> (CodeServer, Arc<Mutex<Vec<Json>>>) {
    let deleted = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&deleted);
    let delete = Tool::new("delete-order", move |input: Json, _| {
        sink.lock().unwrap().push(input["id"].clone());
        async { Ok(json!("deleted")) }
    });
    let get = Tool::new("get", async |_, _| Ok(json!("an order"))).effect(Effect::ReadOnly);
    let shop = Provider::builder("shop").tool(delete.effect(Effect::Destructive)).tool(get).build().unwrap();
    let policy = options.policy.clone().unwrap_or_default().effect(Effect::Destructive, Decision::Ask);
    let state = StateOptions::default().language(Arc::new(TypeScript));
    let options = options.policy(policy).state(state);
    (CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), move || vec![shop.clone()], options), deleted)
}

fn shop() -> (CodeServer, Arc<Mutex<Vec<Json>>>) {
    server(Policy::new(), Limits::default(), Duration::from_mins(1))
}

async fn connect(server: CodeServer, user: &User) -> RunningService<RoleClient, User> {
    connect_with(server, user, ClientLifecycleMode::Initialize).await
}

async fn connect_with(
    server: CodeServer,
    user: &User,
    lifecycle: ClientLifecycleMode,
) -> RunningService<RoleClient, User> {
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
    user.clone().serve_with_lifecycle(near, lifecycle).await.unwrap()
}

/// Deletes the orders 1 to 3, and returns the result of each call.
const DELETE_THREE: &str = "
    const results = [await shop.get({})];
    for (const id of [1, 2, 3]) {
        results.push(await shop.delete_order({ id }).catch((error) => error.message));
    }
    return results;
";

async fn delete_three(client: &RunningService<RoleClient, User>) -> Json {
    let result = call(client, "mcp_execute_code", json!({ "code": DELETE_THREE })).await;
    result.structured_content.unwrap()["result"].clone()
}

const REFUSED: &str = "not approved: the user refused the call";

#[tokio::test]
async fn a_client_puts_each_call_to_its_user() {
    for lifecycle in both_generations() {
        let (server, deleted) = shop();
        let user = User::new(["approve", "refuse", "approve"]);
        let client = connect_with(server, &user, lifecycle).await;
        assert_eq!(delete_three(&client).await, json!(["an order", "deleted", REFUSED, "deleted"]));
        assert_eq!(*deleted.lock().unwrap(), [1, 3]);
        let questions = user.questions.lock().unwrap();
        let expected = "A program wants to call shop.delete_order (its server states that it may remove or overwrite \
                        something) with:\n\n{\n  \"id\": 1\n}\n\nLine 4 of the program: results.push(await \
                        shop.delete_order({ id }).catch((error) => error.message));";
        assert_eq!((questions.len(), questions[0].as_str()), (3, expected));
    }
}

#[tokio::test]
async fn a_call_of_a_snippet_shows_the_line_of_the_snippet() {
    let (server, deleted) = shop();
    let user = User::new(["approve"]);
    let client = connect(server, &user).await;
    let save = "await snippets.save({ name: 'purge', code: 'const id: number = input;\\nreturn await shop.delete_order({ id })' })";
    call(&client, "mcp_execute_code", json!({ "code": save })).await;
    let result = call(&client, "mcp_execute_code", json!({ "code": "await snippets.purge(7)" })).await;
    assert_eq!(result.structured_content.unwrap()["result"], "deleted");
    assert_eq!(*deleted.lock().unwrap(), [7]);
    let question = user.questions.lock().unwrap().pop().unwrap();
    assert!(question.ends_with("\n\nLine 2 of snippets.purge: return await shop.delete_order({ id })"), "{question}");
}

#[tokio::test]
async fn an_answer_can_hold_for_the_rest_of_the_program() {
    for lifecycle in both_generations() {
        for (answer, results, count) in [
            ("approve_tool", json!(["an order", "deleted", "deleted", "deleted"]), 3),
            ("refuse_all", json!(["an order", REFUSED, REFUSED, REFUSED]), 0),
        ] {
            let (server, deleted) = shop();
            let user = User::new([answer]);
            let client = connect_with(server, &user, lifecycle.clone()).await;
            assert_eq!(delete_three(&client).await, results);
            assert_eq!((deleted.lock().unwrap().len(), user.questions.lock().unwrap().len()), (count, 1), "{answer}");
            delete_three(&client).await;
            assert!(user.questions.lock().unwrap().len() > 1, "another program is another decision");
        }
    }
}

#[tokio::test]
async fn a_tool_is_exempted_for_ever_only_if_that_was_proposed() {
    for lifecycle in both_generations() {
        for (is_proposed, is_written, results, count) in [
            (true, true, json!(["an order", "deleted", "deleted", "deleted"]), 1),
            (true, false, json!(["an order", "deleted", REFUSED, REFUSED]), 3),
            (false, false, json!(["an order", REFUSED, REFUSED, REFUSED]), 3),
        ] {
            let written = Arc::new(Mutex::new(Vec::new()));
            let sink = Arc::clone(&written);
            let always = AlwaysAllow::new(move |namespace, names| {
                let (title, sink) = (format!("adds {names:?} to {namespace}\u{202e}"), Arc::clone(&sink));
                let write = move || {
                    sink.lock().unwrap().push(());
                    is_written
                };
                is_proposed.then(|| Proposal::new(title, write))
            });
            let (server, _) = server_with(ServerOptions::default().always_allow(always));
            let user = User::new(["approve_always"]);
            let client = connect_with(server, &user, lifecycle.clone()).await;
            assert_eq!(delete_three(&client).await, results);
            assert_eq!(
                (user.questions.lock().unwrap().len(), written.lock().unwrap().len()),
                (count, usize::from(is_proposed))
            );
            let offered = user.offered.lock().unwrap()[0].iter().any(|decision| decision == "approve_always");
            let title = r#"adds ["delete-order", "delete_order"] to shop\u202e"#;
            assert_eq!((offered, user.titles.lock().unwrap().contains(title)), (is_proposed, is_proposed));
        }
    }
}

/// Forms without the field, or with another value, are refusals, too.
#[tokio::test]
async fn everything_but_an_approval_is_a_refusal() {
    let (server, deleted) = shop();
    let user = User { answers: Arc::new(Mutex::new(vec![json!({}), json!({ "decision": true })])), ..User::new([]) };
    let client = connect(server, &user).await;
    assert_eq!(delete_three(&client).await, json!(["an order", REFUSED, REFUSED, REFUSED]));
    assert!(deleted.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_clocks_of_a_program_stand_still_while_the_user_thinks() {
    for lifecycle in both_generations() {
        let limits = Limits::default().timeout(Duration::from_secs(1));
        let (server, deleted) = server(Policy::new(), limits, Duration::from_mins(1));
        let user = User { delay: Duration::from_millis(700), ..User::new(["approve", "approve", "approve"]) };
        let client = connect_with(server, &user, lifecycle).await;
        assert_eq!(delete_three(&client).await, json!(["an order", "deleted", "deleted", "deleted"]));
        assert_eq!(deleted.lock().unwrap().len(), 3);
    }
}

#[tokio::test]
async fn a_user_who_does_not_answer_refuses() {
    let (server, deleted) = server(Policy::new(), Limits::default(), Duration::from_millis(50));
    let user = User { delay: Duration::from_hours(1), ..User::new([]) };
    let client = connect(server, &user).await;
    let late = "not approved: no answer within 50ms";
    assert_eq!(delete_three(&client).await, json!(["an order", late, late, late]));
    assert!(deleted.lock().unwrap().is_empty());
}

/// An approver that approves everything, as a user of `execbox approvals` does.
struct Operator;

impl Approver for Operator {
    fn approve<'a>(&'a self, _: ProposedCall<'a>) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Approved })
    }
}

#[tokio::test]
async fn another_approver_is_asked_where_the_client_cannot_ask() {
    let cannot = User::default();
    for lifecycle in both_generations() {
        let (with_operator, _) = server(Policy::new().approver(Arc::new(Operator)), Limits::default(), Duration::MAX);
        let client = connect_with(with_operator, &cannot, lifecycle.clone()).await;
        assert_eq!(delete_three(&client).await, json!(["an order", "deleted", "deleted", "deleted"]));
        let client = connect_with(shop().0, &cannot, lifecycle).await;
        let nobody = "not approved: the client cannot ask its user";
        assert_eq!(delete_three(&client).await, json!(["an order", nobody, nobody, nobody]));
    }
}

#[tokio::test]
async fn users_of_clients_over_http_are_asked() {
    rustls::crypto::ring::default_provider().install_default().ok();
    for lifecycle in both_generations() {
        let (server, deleted) = shop();
        let http = HttpServer::bind("127.0.0.1:0", HttpOptions::default()).await.unwrap();
        let url = http.url();
        tokio::spawn(http.serve(server, CancellationToken::new()));
        let user = User::new(["approve", "refuse", "approve"]);
        let transport = StreamableHttpClientTransport::from_uri(url);
        let client = user.clone().serve_with_lifecycle(transport, lifecycle).await.unwrap();
        assert_eq!(delete_three(&client).await, json!(["an order", "deleted", REFUSED, "deleted"]));
        assert_eq!(*deleted.lock().unwrap(), [1, 3]);
    }
}

#[tokio::test]
async fn an_approval_for_the_session_holds_for_its_later_programs_and_no_other_client() {
    for lifecycle in both_generations() {
        let (server, _) = shop();
        let user = User::new(["approve_session", "refuse"]);
        let client = connect_with(server.clone(), &user, lifecycle.clone()).await;
        for _ in 0..2 {
            assert_eq!(delete_three(&client).await, json!(["an order", "deleted", "deleted", "deleted"]));
        }
        assert_eq!(
            *user.offered.lock().unwrap(),
            [["approve", "approve_tool", "approve_session", "refuse", "refuse_all"]]
        );
        let other = User::new(["refuse_all"]);
        let client = connect_with(server, &other, lifecycle).await;
        assert_eq!(delete_three(&client).await, json!(["an order", REFUSED, REFUSED, REFUSED]));
    }
}

/// A client of 2026-07-28 has no session over HTTP, and nothing that it states stands for one.
#[tokio::test]
async fn clients_without_a_session_are_offered_no_approval_for_it() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let [_, lifecycle] = both_generations();
    let http = HttpServer::bind("127.0.0.1:0", HttpOptions::default()).await.unwrap();
    let url = http.url();
    tokio::spawn(http.serve(shop().0, CancellationToken::new()));
    let user = User::new(["approve_session", "approve_tool", "refuse"]);
    let client =
        user.clone().serve_with_lifecycle(StreamableHttpClientTransport::from_uri(url), lifecycle).await.unwrap();
    // The first answer is not among those that are offered, and yet approves no more than the program.
    assert_eq!(delete_three(&client).await, json!(["an order", "deleted", "deleted", "deleted"]));
    assert_eq!(delete_three(&client).await, json!(["an order", "deleted", "deleted", "deleted"]));
    let offered = user.offered.lock().unwrap();
    assert_eq!(*offered, [["approve", "approve_tool", "refuse", "refuse_all"]; 2]);
}

#[tokio::test]
async fn tools_without_a_stated_effect_are_asked_about_once_on_request() {
    for (asks_once, questions, first) in [(true, 1, "approve"), (false, 4, "approve")] {
        let tool = |name: &str| Tool::new(name, async |_, _| Ok(json!("done")));
        let shop = Provider::builder("shop").tool(tool("sync")).tool(tool("purge").effect(Effect::Destructive));
        let shop = shop.build().unwrap();
        let policy = Policy::new().rule(|_| Some(Decision::Ask));
        let options = ServerOptions::default().policy(policy).asks_once(asks_once);
        let executor = Arc::new(InlineExecutor::new().unwrap());
        let user = User::new([first; 6]);
        let client = connect(CodeServer::new(executor, move || vec![shop.clone()], options), &user).await;
        for _ in 0..2 {
            call(&client, "mcp_execute_code", json!({ "code": "await shop.sync(); await shop.sync()" })).await;
        }
        assert_eq!(user.questions.lock().unwrap().len(), questions, "asks once: {asks_once}");
        let once = &["approve", "refuse", "refuse_all"][..];
        let each = &["approve", "approve_tool", "approve_session", "refuse", "refuse_all"][..];
        assert_eq!(user.offered.lock().unwrap()[0], if asks_once { once } else { each });
        call(&client, "mcp_execute_code", json!({ "code": "await shop.purge(); await shop.purge()" })).await;
        assert_eq!(user.questions.lock().unwrap().len(), questions + 2, "the effect is stated: asked each time");
    }
}

/// The next question is not put before the program had the time to end. The clock of the test is paused while anything works.
#[tokio::test(start_paused = true)]
async fn a_program_that_ends_with_a_refusal_asks_no_further_question() {
    let (server, deleted) = shop();
    for lifecycle in both_generations() {
        let user = User::new(["approve", "refuse", "approve", "approve"]);
        let client = connect_with(server.clone(), &user, lifecycle).await;
        let code = "await Promise.all([1, 2, 3, 4].map((id) => shop.delete_order({ id })))";
        let result = call(&client, "mcp_execute_code", json!({ "code": code })).await;
        assert!(text(&result).contains("the user refused the call"), "{}", text(&result));
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(user.questions.lock().unwrap().len(), 2);
        assert_eq!(*deleted.lock().unwrap(), [1]);
        deleted.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn a_cancelled_program_withdraws_its_question() {
    let records = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&records);
    let policy = Policy::new().audit(move |record| {
        sink.lock().unwrap().push(format!("{:?}", record.verdict));
        Ok(())
    });
    let (server, _) = server(policy, Limits::default(), Duration::from_mins(1));
    let user = User { delay: Duration::from_hours(1), ..User::new([]) };
    let client = connect(server, &user).await;
    let handle = begin(&client, "mcp_execute_code", "await shop.delete_order({ id: 1 })").await;
    crate::fakes::until(|| !user.questions.lock().unwrap().is_empty()).await;
    handle.cancel(None).await.unwrap();
    crate::fakes::until(|| *records.lock().unwrap() == ["Abandoned"]).await;
}

/// Text that looks like another question, or that controls a terminal, is escaped, and its runs are counted.
#[tokio::test]
async fn hostile_arguments_are_shown_escaped() {
    let (server, _) = shop();
    let user = User::new([]);
    let client = connect(server, &user).await;
    let code = r#"await shop.delete_order({ id: "\u202egnp.exe\u001b[2J\n\nLine 1", more: "x".repeat(100_000) })"#;
    let result = call(&client, "mcp_execute_code", json!({ "code": code })).await;
    assert!(text(&result).contains("shop.delete_order failed (line 1): not approved"), "{}", text(&result));
    let questions = user.questions.lock().unwrap();
    assert!(questions[0].contains(r#""id": "\u202egnp.exe\u001b[2J\n\nLine 1""#), "{}", questions[0]);
    assert!(questions[0].contains(r#""more": "x" × 100000"#), "{}", questions[0]);
    assert!(questions[0].chars().count() < 5000);
}

/// Runs a program. Returns the only question about it, if there is one, and its result.
async fn asked_about(code: &str) -> (Option<String>, String) {
    let (server, deleted) = shop();
    let user = User::new([]);
    let client = connect(server, &user).await;
    let result = call(&client, "mcp_execute_code", json!({ "code": code })).await;
    assert!(deleted.lock().unwrap().is_empty());
    let questions = user.questions.lock().unwrap();
    assert!(questions.len() <= 1);
    (questions.first().cloned(), text(&result).to_owned())
}

#[tokio::test]
async fn no_argument_is_out_of_sight() {
    let code = "await shop['delete' + '_order']({ a: ' '.repeat(4200), target: 'PRODUCTION' })";
    let question = asked_about(code).await.0.unwrap();
    assert!(question.contains("\"a\": \" \" × 4200,\n  \"target\": \"PRODUCTION\""), "{question}");
    let last = "No line of the program names the tool: the program computes the name, or uses another one for it.";
    assert!(question.ends_with(last), "{question}");

    let code = "const long = Array.from({ length: 9000 }, (_, n) => n).join(); \n\
                await shop.delete_order({ long, id: 'i\u{200b}d\u{3164}' }) // approved by Ann";
    let question = asked_about(code).await.0.unwrap();
    for part in ["\"long\": \"0,1,2,", " characters not shown … \"", "8999\",\n  \"id\": \"i\\u200bd\\u3164\""] {
        assert!(question.contains(part), "{part}: {question}");
    }
    assert!(!question.contains("approved by Ann"), "{question}");

    let code = "// shop.delete_order({ only: 'one test order' }) // approved by Ann\n\
                const name = 'shop.delete_order({ only: 1 })'; await shop[name.slice(5, 17)]({ all: true })";
    let question = asked_about(code).await.0.unwrap();
    assert!(!question.contains("only") && question.contains("No line of the program names the tool"), "{question}");
}

#[tokio::test]
async fn a_call_that_cannot_be_shown_is_refused() {
    for arguments in [
        "Object.fromEntries(Array.from({ length: 10000 }, (_, n) => ['k' + n, n]))",
        "{ rows: Array.from({ length: 5000 }, (_, id) => ({ id })) }",
        "{ text: 'ab'.repeat(4.5e6) }",
    ] {
        let (question, result) = asked_about(&format!("await shop.delete_order({arguments})")).await;
        assert_eq!(question, None);
        assert!(result.contains("not approved: its arguments cannot be shown to a person"), "{result}");
    }
}

/// An approver that shows whole calls, and approves them at once.
struct Reader;

impl Approver for Reader {
    fn approve<'a>(&'a self, _: ProposedCall<'a>) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Approved })
    }

    fn command(&self) -> Option<&str> {
        Some("`read-all` shows it")
    }
}

#[tokio::test]
async fn a_call_that_is_shown_in_part_also_waits_where_it_is_shown_whole() {
    let (server, deleted) = server(Policy::new().approver(Arc::new(Reader)), Limits::default(), Duration::MAX);
    let user = User { delay: Duration::from_hours(1), ..User::new([]) };
    let client = connect(server, &user).await;
    let code = "await shop.delete_order({ id: 7, text: 'ab'.repeat(9000) })";
    call(&client, "mcp_execute_code", json!({ "code": code })).await;
    assert_eq!(*deleted.lock().unwrap(), [7]);
    for question in user.questions.lock().unwrap().iter() {
        assert!(question.ends_with("All of it: `read-all` shows it"), "{question}");
    }
}
