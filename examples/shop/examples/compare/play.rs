//! The tasks of the page, done in both ways: by tool calls, as a careful model would do them, and by code.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use execbox::{InlineExecutor, Limits, TypeScript};
use execbox_mcp::rmcp::model::CallToolRequestParams;
use execbox_mcp::rmcp::service::{RoleClient, RunningService};
use execbox_mcp::rmcp::{ServerHandler, ServiceExt as _};
use execbox_mcp::server::{CodeServer, Layout, ServerOptions, StateOptions};
use execbox_mcp::upstream::{Upstream, UpstreamOptions};
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value as Json, json};
use shop::Shop;

/// A task, and both ways to do it.
pub(crate) struct Task {
    pub(crate) question: &'static str,
    /// The calls that a model makes, and its conclusion, which a function computes here.
    by_calls: fn(&mut Model) -> BoxFuture<'_, Json>,
    /// The query of the model's search, and the code that it writes afterwards.
    by_code: (&'static str, &'static str),
}

pub(crate) const TASKS: [Task; 4] = [
    Task {
        question: "Which customers have a late order with a product that is out of stock, and what did they pay \
            for shipping?",
        by_calls: |model| Box::pin(late_orders(model)),
        by_code: ("late orders and their lines, stock levels, customers, today", include_str!("../../late-orders.ts")),
    },
    Task {
        question: "How many parcels has each carrier delivered, and how many of them late?",
        by_calls: |model| Box::pin(carriers(model)),
        by_code: ("orders with shipments and carrier", include_str!("../../carriers.ts")),
    },
    Task {
        question: "What do customers say about the Ridge 2 tent?",
        by_calls: |model| Box::pin(reviews(model)),
        by_code: (
            "find product, its reviews",
            "const { items } = await shop.search_products({ query: \"Ridge 2 tent\" });\n\
             return await shop.list_reviews({ product_id: items[0].id })",
        ),
    },
    Task {
        question: "Where is order 1620?",
        by_calls: |model| Box::pin(one_order(model)),
        by_code: ("get order", "return await shop.get_order({ order_id: 1620 })"),
    },
];

/// Does a task by tool calls. Returns the conclusion of the model, and its costs.
pub(crate) async fn by_calls(task: &Task) -> (Json, Tally) {
    let mut model = Model::with(Shop::open().expect("a shop")).await;
    let answer = (task.by_calls)(&mut model).await;
    (answer, model.tally)
}

/// Does a task by code: a search, requests for what the search cuts short or misses, and a program. Returns the result and the
/// costs.
pub(crate) async fn by_code(task: &Task) -> (Json, Tally) {
    let mut model = Model::with(code_server().await).await;
    let (query, code) = task.by_code;
    let found = model.turn(vec![("mcp_search_tools", json!({ "query": query }))]).await.remove(0);
    let unclear: Vec<&str> = tools_of(code).into_iter().filter(|tool| !is_whole(&found, tool)).collect();
    if !unclear.is_empty() {
        model.turn(vec![("mcp_search_tools", json!({ "describe": unclear }))]).await;
    }
    model.tally.search = std::mem::take(&mut model.tally.results);
    let answer = model.ask(vec![("mcp_execute_code", json!({ "code": code }))]).await.remove(0);
    (answer, model.tally)
}

/// The names of the tools that code calls.
fn tools_of(code: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    code.split(|c| !is_name(c)).filter(|word| word.starts_with("shop.")).collect()
}

/// Whether the answer to a search has the whole entry of a tool.
fn is_whole(found: &str, tool: &str) -> bool {
    let hit = found.split("\n## ").find(|hit| hit.split_whitespace().next() == Some(tool));
    hit.is_some_and(|hit| !hit.contains('…'))
}

/// The server of `execbox mcp` over the shop.
async fn code_server() -> CodeServer {
    let connect = || {
        let (near, far) = tokio::io::duplex(1 << 16);
        let shop = Shop::open().expect("a shop");
        tokio::spawn(async move { shop.serve(far).await.expect("a handshake").waiting().await });
        near
    };
    let upstream = Upstream::open_stream("shop", connect, UpstreamOptions::default()).await.expect("a catalog");
    let executor = Arc::new(InlineExecutor::new().expect("an engine"));
    // The timeout is long: a busy machine must not change the result.
    let limits = Limits::default().timeout(Duration::from_mins(2));
    let state = StateOptions::default().language(Arc::new(TypeScript));
    let options = ServerOptions::default().limits(limits).layout(Layout::Split).state(state);
    CodeServer::new(executor, move || vec![upstream.provider()], options)
}

async fn late_orders(model: &mut Model) -> Json {
    let today = model.ask(vec![("shop_info", json!({}))]).await[0]["today"].clone();
    let late = |status| ("list_orders", json!({ "status": status, "promised_before": today, "limit": 50 }));
    let empty = ("stock_levels", json!({ "max_available": 0, "limit": 50 }));
    let lists = model.lists(vec![late("pending"), late("packed"), late("shipped"), empty]).await;
    let [pending, packed, shipped, empty] = &lists[..] else { unreachable!("four lists") };

    let mut warehouses: HashMap<&str, usize> = HashMap::new();
    for level in empty {
        *warehouses.entry(text(&level["product_id"])).or_default() += 1;
    }
    let out_of_stock = |line: &&Json| warehouses.get(text(&line["product_id"])) == Some(&2);

    let ids = [pending, packed, shipped].into_iter().flatten().map(|order| &order["id"]);
    let orders = model.ask(ids.map(|id| ("get_order", json!({ "order_id": id }))).collect()).await;
    let orders: BTreeMap<u64, Json> = orders.into_iter().map(|order| (number(&order["id"]), order)).collect();
    let mut waiting: Vec<(&str, Vec<u64>, Vec<&Json>, u64)> = Vec::new();
    for (&id, order) in &orders {
        let lines = order["lines"].as_array().expect("lines");
        let missing: Vec<_> = lines.iter().filter(out_of_stock).map(|line| &line["product_name"]).collect();
        if missing.is_empty() {
            continue;
        }
        let (customer, fee) = (text(&order["customer_id"]), number(&order["shipping_fee_cents"]));
        match waiting.iter_mut().find(|row| row.0 == customer) {
            Some((_, orders, names, fees)) => {
                orders.push(id);
                names.extend(missing);
                *fees += fee;
            }
            None => waiting.push((customer, vec![id], missing, fee)),
        }
    }

    let customers = waiting.iter().map(|row| ("get_customer", json!({ "customer_id": row.0 }))).collect();
    let customers = model.ask(customers).await;
    let total: u64 = waiting.iter().map(|row| row.3).sum();
    let rows = waiting.iter().zip(&customers).map(|((_, orders, names, fees), customer)| {
        let (name, email) = (&customer["name"], &customer["email"]);
        json!({ "name": name, "email": email, "orders": orders, "out_of_stock": names, "shipping_cents": fees })
    });
    json!({ "customers": rows.collect::<Vec<_>>(), "shipping_cents": total })
}

async fn carriers(model: &mut Model) -> Json {
    let list = json!({ "status": "delivered", "limit": 50 });
    let list = model.lists(vec![("list_orders", list)]).await.remove(0);
    let orders = list.iter().map(|order| ("get_order", json!({ "order_id": order["id"] })));
    let orders = model.ask(orders.collect()).await;
    let mut carriers: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for order in &orders {
        for shipment in order["shipments"].as_array().expect("shipments") {
            let (parcels, late) = carriers.entry(text(&shipment["carrier"])).or_default();
            *parcels += 1;
            *late += u32::from(text(&shipment["delivered_on"]) > text(&order["promised_by"]));
        }
    }
    json!(
        carriers
            .iter()
            .map(|(carrier, (parcels, late))| (carrier, json!({ "parcels": parcels, "late": late })))
            .collect::<BTreeMap<_, _>>()
    )
}

async fn one_order(model: &mut Model) -> Json {
    model.ask(vec![("get_order", json!({ "order_id": 1620 }))]).await.remove(0)
}

async fn reviews(model: &mut Model) -> Json {
    let products = model.ask(vec![("search_products", json!({ "query": "Ridge 2 tent" }))]).await;
    let id = &products[0]["items"][0]["id"];
    model.ask(vec![("list_reviews", json!({ "product_id": id }))]).await.remove(0)
}

fn text(value: &Json) -> &str {
    value.as_str().expect("text")
}

fn number(value: &Json) -> u64 {
    value.as_u64().expect("a whole number")
}

/// The texts that a model reads and writes for a task, in bytes, and the numbers of its calls and turns.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Names, descriptions and input schemas of the tools.
    pub(crate) tools: usize,
    /// The answers to searches.
    pub(crate) search: usize,
    /// The other answers of tools.
    pub(crate) results: usize,
    pub(crate) written: usize,
    pub(crate) calls: usize,
    pub(crate) turns: usize,
}

impl Tally {
    pub(crate) fn read(&self) -> usize {
        self.tools + self.search + self.results
    }
}

/// A model with an MCP server.
pub(crate) struct Model {
    client: RunningService<RoleClient, ()>,
    tally: Tally,
}

impl Model {
    /// Connects the model, which reads the name, description and input schema of each tool.
    async fn with(server: impl ServerHandler) -> Self {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move { server.serve(far).await.expect("a handshake").waiting().await });
        let client = ().serve(near).await.expect("a handshake");
        let tools = client.list_all_tools().await.expect("a list of tools");
        let shown = tools.iter().map(|tool| {
            let tool = json!({ "name": tool.name, "description": tool.description, "input_schema": tool.input_schema });
            tool.to_string().len()
        });
        let tally = Tally { tools: shown.sum(), ..Tally::default() };
        Self { client, tally }
    }

    /// Makes one turn: calls that do not depend on each other. The model writes names and arguments, and reads texts.
    async fn turn(&mut self, calls: Vec<(&'static str, Json)>) -> Vec<String> {
        self.tally.turns += 1;
        self.tally.calls += calls.len();
        self.tally.written += calls.iter().map(|(name, input)| name.len() + input.to_string().len()).sum::<usize>();
        let client = &self.client;
        let answers = calls.into_iter().map(async |(name, input)| {
            let request =
                CallToolRequestParams::new(name).with_arguments(input.as_object().cloned().unwrap_or_default());
            let result = client.call_tool(request).await.expect("an answer");
            let text = result.content.iter().filter_map(|block| block.as_text()).map(|block| block.text.as_str());
            assert_ne!(result.is_error, Some(true), "{name}: {:?}", result.content);
            text.collect::<String>()
        });
        let texts = join_all(answers).await;
        self.tally.results += texts.iter().map(String::len).sum::<usize>();
        texts
    }

    /// Makes a turn with tools that answer in JSON.
    async fn ask(&mut self, calls: Vec<(&'static str, Json)>) -> Vec<Json> {
        let texts = self.turn(calls).await;
        texts.iter().map(|text| serde_json::from_str(text).expect("JSON")).collect()
    }

    /// Reads lists with all their pages, in turns that read one page of each.
    async fn lists(&mut self, mut calls: Vec<(&'static str, Json)>) -> Vec<Vec<Json>> {
        let mut lists = vec![Vec::new(); calls.len()];
        let mut open: Vec<usize> = (0..calls.len()).collect();
        while !open.is_empty() {
            let pages = self.ask(open.iter().map(|&at| calls[at].clone()).collect()).await;
            let pages: Vec<(usize, Json)> = open.drain(..).zip(pages).collect();
            for (at, page) in pages {
                lists[at].extend_from_slice(page["items"].as_array().expect("items"));
                if page["next_cursor"].is_string() {
                    calls[at].1["cursor"] = page["next_cursor"].clone();
                    open.push(at);
                }
            }
        }
        lists
    }
}
