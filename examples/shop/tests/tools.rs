//! The shop's tools, over MCP.

use std::collections::BTreeSet;

use execbox::Schema;
use execbox_mcp::rmcp::ServiceExt as _;
use execbox_mcp::rmcp::model::{CallToolRequestParams, CallToolResult};
use execbox_mcp::rmcp::service::{RoleClient, RunningService};
use serde_json::{Value as Json, json};
use shop::Shop;

/// A client of a new shop.
async fn client() -> RunningService<RoleClient, ()> {
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move { Shop::open().unwrap().serve(far).await.unwrap().waiting().await });
    ().serve(near).await.unwrap()
}

async fn call(client: &RunningService<RoleClient, ()>, name: &str, arguments: Json) -> CallToolResult {
    let arguments = arguments.as_object().unwrap().clone();
    client.call_tool(CallToolRequestParams::new(name.to_owned()).with_arguments(arguments)).await.unwrap()
}

/// The data of a call that succeeds.
async fn data(client: &RunningService<RoleClient, ()>, name: &str, arguments: Json) -> Json {
    let result = call(client, name, arguments).await;
    assert_eq!(result.is_error, Some(false), "{name}: {:?}", result.content);
    result.structured_content.unwrap()
}

fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

/// One call of each tool, and more calls of tools with several kinds of results.
fn calls() -> Vec<(&'static str, Json)> {
    vec![
        ("shop_info", json!({})),
        ("search_products", json!({ "query": "RAIN", "max_price_cents": 20_000 })),
        ("search_products", json!({ "category": "tents", "limit": 3 })),
        ("search_products", json!({ "query": "nothing of the kind" })),
        ("get_product", json!({ "product_id": "P17" })),
        ("list_reviews", json!({ "product_id": "P01" })),
        ("list_reviews", json!({ "max_rating": 1, "limit": 50 })),
        ("stock_levels", json!({ "max_available": 0, "warehouse": "north" })),
        ("list_orders", json!({ "status": "shipped", "placed_from": "2026-02-01", "promised_before": "2026-03-16" })),
        ("list_orders", json!({ "customer_id": "C042" })),
        ("get_order", json!({ "order_id": 1001 })),
        ("get_order", json!({ "order_id": 1640 })),
        ("list_returns", json!({ "status": "refunded" })),
        ("list_customers", json!({ "query": "keller", "country": "de", "tier": "standard" })),
        ("get_customer", json!({ "customer_id": "C042" })),
        ("sales_report", json!({ "from": "2025-12-01", "until": "2026-02-28", "group_by": "month" })),
        ("sales_report", json!({ "from": "2025-12-01", "until": "2026-02-28", "group_by": "category" })),
        ("sales_report", json!({ "from": "2026-01-01", "until": "2026-01-31", "group_by": "country" })),
        ("sales_report", json!({ "from": "2026-01-01", "until": "2026-01-07", "group_by": "product" })),
        ("create_order", json!({ "customer_id": "C001", "lines": [{ "product_id": "P22", "quantity": 2 }] })),
        ("refund_order", json!({ "order_id": 1001, "amount_cents": 490, "reason": "It came late" })),
        ("restock", json!({ "product_id": "P17", "warehouse": "south", "quantity": 12 })),
    ]
}

#[tokio::test]
async fn results_are_what_the_schemas_promise() {
    let client = client().await;
    let tools = client.list_all_tools().await.unwrap();
    let mut called = BTreeSet::new();
    for (name, arguments) in calls() {
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        let compile = |schema: &serde_json::Map<_, _>| Schema::compile(&Json::Object(schema.clone())).unwrap();
        compile(&tool.input_schema).check(&arguments, "input").unwrap();
        let result = call(&client, name, arguments).await;
        let data = result.structured_content.as_ref().unwrap();
        compile(tool.output_schema.as_ref().unwrap()).check(data, name).unwrap();
        assert_eq!(serde_json::from_str::<Json>(text(&result)).unwrap(), *data, "the text is the same");
        called.insert(name);
    }
    assert_eq!(called, tools.iter().map(|tool| &*tool.name).collect(), "all of them");
}

#[tokio::test]
async fn tools_say_what_they_do_and_whether_they_write() {
    let tools = client().await.list_all_tools().await.unwrap();
    for tool in &tools {
        assert!(tool.description.as_ref().is_some_and(|text| text.len() > 40), "{}", tool.name);
    }
    let writes = |tool: &&execbox_mcp::rmcp::model::Tool| {
        tool.annotations.as_ref().and_then(|hints| hints.read_only_hint) == Some(false)
    };
    let writing: Vec<&str> = tools.iter().filter(writes).map(|tool| &*tool.name).collect();
    assert_eq!(writing, ["create_order", "refund_order", "restock"]);
}

#[tokio::test]
async fn every_shop_has_the_same_data() {
    let (one, other) = (client().await, client().await);
    for (name, arguments) in calls() {
        assert_eq!(data(&one, name, arguments.clone()).await, data(&other, name, arguments).await, "{name}");
    }
    let months = json!({ "from": "2025-10-01", "until": "2026-03-16", "group_by": "month" });
    let order = data(&one, "get_order", json!({ "order_id": 1601 })).await;
    let shown = format!("{:#}\n{order:#}", data(&client().await, "sales_report", months).await);
    insta::assert_snapshot!(shown);
}

#[tokio::test]
async fn pages_contain_every_item_once() {
    let client = client().await;
    let (mut ids, mut cursor, mut total) = (BTreeSet::new(), json!(null), 0);
    loop {
        let page = data(&client, "list_orders", json!({ "limit": 50, "cursor": cursor })).await;
        total = page["total"].as_u64().unwrap().max(total);
        ids.extend(page["items"].as_array().unwrap().iter().map(|order| order["id"].as_u64().unwrap()));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((ids.len(), total), (640, 640));
}

#[tokio::test]
async fn the_readme_states_the_size_of_the_shop() {
    let client = client().await;
    let total = async |tool| data(&client, tool, json!({})).await["total"].clone();
    let tools = client.list_all_tools().await.unwrap().len();
    let (products, customers) = (total("search_products").await, total("list_customers").await);
    let orders = total("list_orders").await;
    let sentence = format!("{tools} tools, {products} products, {customers} customers, {orders} orders");
    let page = include_str!("../README.md").replace('\n', " ");
    assert!(page.contains(&sentence), "{sentence}");
}

#[tokio::test]
async fn invalid_input_is_an_error_with_a_remedy() {
    let client = client().await;
    let mut errors = String::new();
    for (name, arguments) in [
        ("get_order", json!({ "order_id": 7 })),
        ("get_order", json!({ "order_id": "1042" })),
        ("get_order", json!({})),
        ("get_product", json!({ "product_id": "P99" })),
        ("get_customer", json!({ "customer_id": "Anna" })),
        ("list_orders", json!({ "status": "late" })),
        ("list_orders", json!({ "customer": "C042" })),
        ("list_orders", json!({ "customer_id": "C999" })),
        ("list_orders", json!({ "promised_before": "yesterday" })),
        ("list_orders", json!({ "placed_from": "2026-02-30" })),
        ("list_orders", json!({ "limit": 500 })),
        ("list_orders", json!({ "cursor": "second page" })),
        ("stock_levels", json!({ "warehouse": "east" })),
        ("stock_levels", json!({ "product_id": "P99" })),
        ("sales_report", json!({ "from": "2026-01-01", "until": "2026-01", "group_by": "month" })),
        ("restock", json!({ "product_id": "P17", "warehouse": "south", "quantity": 0 })),
        ("refund_order", json!({ "order_id": 1001, "amount_cents": 10_000_000, "reason": "a slip" })),
        ("create_order", json!({ "customer_id": "C001", "lines": [] })),
        ("create_order", json!({ "customer_id": "C001", "lines": [{ "product_id": "P22", "quantity": 100 }] })),
        ("create_order", json!({ "customer_id": "C001", "lines": [{ "product_id": "P22", "quantity": 0 }] })),
    ] {
        let result = call(&client, name, arguments.clone()).await;
        assert_eq!(result.is_error, Some(true), "{name} {arguments}");
        errors += &format!("{name} {arguments}\n    {}\n", text(&result));
    }
    insta::assert_snapshot!(errors);
}

#[tokio::test]
async fn orders_reserve_goods_and_failed_orders_change_nothing() {
    let client = client().await;
    let reserved = async |product: &str| {
        let levels = data(&client, "stock_levels", json!({ "product_id": product })).await;
        let levels = levels["items"].as_array().unwrap().clone();
        levels.iter().map(|level| level["reserved"].as_u64().unwrap()).sum::<u64>()
    };
    let before = (reserved("P22").await, reserved("P07").await);
    let line = |product: &str, quantity: u32| json!({ "product_id": product, "quantity": quantity });
    let order = |lines: Json| json!({ "customer_id": "C001", "lines": lines });
    let placed = data(&client, "create_order", order(json!([line("P22", 2), line("P07", 1), line("P22", 1)]))).await;
    assert_eq!((&placed["id"], &placed["status"]), (&json!(1641), &json!("pending")));
    assert_eq!((&placed["promised_by"], &placed["total_cents"]), (&json!("2026-03-21"), &json!(1900 + 3 * 900 + 490)));
    assert_eq!((reserved("P22").await, reserved("P07").await), (before.0 + 3, before.1 + 1));

    let failed = call(&client, "create_order", order(json!([line("P22", 1), line("P07", 100)]))).await;
    assert_eq!(failed.is_error, Some(true));
    assert_eq!((reserved("P22").await, reserved("P07").await), (before.0 + 3, before.1 + 1));
    let next = call(&client, "get_order", json!({ "order_id": 1642 })).await;
    assert_eq!(next.is_error, Some(true));
}

#[tokio::test]
async fn refunds_are_limited_to_the_total() {
    let client = client().await;
    let total = data(&client, "get_order", json!({ "order_id": 1601 })).await["total_cents"].as_u64().unwrap();
    let refund = |cents: u64| json!({ "order_id": 1601, "amount_cents": cents, "reason": "It came late" });
    let order = data(&client, "refund_order", refund(100)).await;
    assert_eq!(order["refunds"][0]["amount_cents"], 100);
    assert_eq!(call(&client, "refund_order", refund(total - 99)).await.is_error, Some(true));
    data(&client, "refund_order", refund(total - 100)).await;
    assert_eq!(call(&client, "refund_order", refund(1)).await.is_error, Some(true));
}

#[tokio::test]
async fn restocked_goods_are_available() {
    let client = client().await;
    let at = json!({ "product_id": "P17", "warehouse": "south" });
    let before = data(&client, "stock_levels", at).await["items"][0]["available"].as_u64().unwrap();
    let arrived = json!({ "product_id": "P17", "warehouse": "south", "quantity": 12 });
    let level = data(&client, "restock", arrived).await;
    assert_eq!((&level["available"], &level["next_delivery_on"]), (&json!(before + 12), &json!(null)));
}
