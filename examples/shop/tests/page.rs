//! The page `README.md`, and the programs beside it.

#[path = "../examples/compare/figures.rs"]
mod figures;
#[path = "../examples/compare/play.rs"]
mod play;

use std::time::Duration;

use execbox::{ExecuteRequest, Executor as _, InlineExecutor, Limits};
use execbox_mcp::upstream::{ChildCommand, Upstream, UpstreamOptions};
use serde_json::Value as Json;

#[tokio::test]
async fn both_ways_come_to_the_same_answer_and_the_page_shows_what_they_take() {
    let played = figures::play().await;
    for figures::Played { question, by_calls, by_code } in &played {
        assert_eq!(by_calls.0, by_code.0, "{question}");
    }
    let page = include_str!("../README.md");
    let renewed = "write it anew: cargo run --release --package shop --example compare -- --write";
    assert_eq!(page, figures::set(page, &played), "{renewed}");
}

#[test]
fn the_page_shows_the_program_and_its_answer_as_they_are() {
    let page = include_str!("../README.md");
    assert!(
        page.contains(&format!("```ts file:late-orders.ts\n{}```\n", include_str!("../late-orders.ts"))),
        "late-orders.ts"
    );
    let answer: Json = serde_json::from_str(include_str!("../late-orders.json")).unwrap();
    let (customers, cents) =
        (answer["customers"].as_array().unwrap().len(), answer["shipping_cents"].as_u64().unwrap());
    let sentence = format!("{customers} customers, who paid {}.{:02} euros", cents / 100, cents % 100);
    assert!(page.replace('\n', " ").contains(&sentence), "{sentence}");
}

/// The program prints this answer with `execbox run --config examples/shop/mcp.json examples/shop/late-orders.ts`.
#[tokio::test]
async fn late_orders_come_out_of_the_server_as_a_program() {
    let command = ChildCommand::new(env!("CARGO_BIN_EXE_shop"));
    let upstream = Upstream::open_child("shop", command, UpstreamOptions::default()).await.unwrap();
    // The timeout is long: a busy machine must not change the result.
    let limits = Limits::default().timeout(Duration::from_mins(2));
    let execution = ExecuteRequest::new(include_str!("../late-orders.ts")).provider(upstream.provider()).limits(limits);
    let result = InlineExecutor::new().unwrap().execute(execution).await;
    upstream.close().await;
    let answer = serde_json::to_string_pretty(&result.outcome.unwrap()).unwrap();
    assert_eq!(format!("{answer}\n"), include_str!("../late-orders.json"));
}
