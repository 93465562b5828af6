//! An MCP server that runs code against the tools of an application, and a client that sends it a program.

use std::error::Error;
use std::sync::Arc;

use execbox::{InlineExecutor, Provider, Tool};
use execbox_mcp::rmcp::ServiceExt as _;
use execbox_mcp::rmcp::model::CallToolRequestParams;
use execbox_mcp::server::{CodeServer, ServerOptions};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}

pub(crate) async fn run() -> Result<Vec<String>, Box<dyn Error>> {
    let price = Tool::new("price", async |input: Value, _| Ok(json!(if input["item"] == "pen" { 2 } else { 5 })))
        .input_schema(json!({ "type": "object", "properties": { "item": { "type": "string" } } }));
    let shop = Provider::builder("shop").tool(price).build()?;
    let executor = Arc::new(InlineExecutor::new()?);
    let server = CodeServer::new(executor, move || vec![shop.clone()], ServerOptions::default());

    // Over standard streams, the transport is `rmcp::transport::stdio()`.
    let (here, there) = tokio::io::duplex(1 << 16);
    tokio::spawn(
        async move { server.serve(there).await?.waiting().await.map_err(Box::<dyn Error + Send + Sync>::from) },
    );

    let client = ().serve(here).await?;
    let tools = client.list_all_tools().await?;
    let mut lines: Vec<String> = tools.iter().map(|tool| tool.name.to_string()).collect();
    let code = "const items = ['pen', 'cup']; await Promise.all(items.map((item) => shop.price({ item })))";
    let arguments = json!({ "code": code }).as_object().cloned().unwrap_or_default();
    let call = CallToolRequestParams::new("mcp_execute_code").with_arguments(arguments);
    let result = client.call_tool(call).await?;
    lines.extend(result.structured_content.map(|content| content["result"].to_string()));
    client.cancel().await?;
    Ok(lines)
}
