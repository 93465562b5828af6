//! The shop on standard input and output.

use rmcp::ServiceExt as _;
use rmcp::transport::stdio;
use shop::Shop;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Shop::open()?.serve(stdio()).await?.waiting().await?;
    Ok(())
}
