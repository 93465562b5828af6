//! Runs the examples and checks their results.

#![allow(dead_code)] // their `main` functions

#[path = "../examples/gateway.rs"]
mod gateway;

#[tokio::test]
async fn example_gateway_runs_a_program_of_its_client() {
    assert_eq!(gateway::run().await.unwrap(), ["mcp_search_tools", "mcp_execute_code", "mcp_code", "[2,5]"]);
}
