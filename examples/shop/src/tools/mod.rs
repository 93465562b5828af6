//! The tools of the shop.

mod customers;
mod orders;
mod products;
mod sales;
mod stock;

use std::sync::Arc;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::{ServerHandler, tool_handler};

use crate::database::{Database, ShopError};

/// The shop as an MCP server. Clones share its database.
#[derive(Clone)]
pub struct Shop {
    database: Arc<Database>,
}

impl Shop {
    /// Opens a new shop with the initial data.
    pub fn open() -> Result<Self, ShopError> {
        Ok(Self { database: Arc::new(Database::open()?) })
    }

    fn tools() -> ToolRouter<Self> {
        Self::product_tools() + Self::stock_tools() + Self::order_tools() + Self::customer_tools() + Self::sales_tools()
    }
}

#[tool_handler(router = Self::tools(), name = "shop")]
impl ServerHandler for Shop {}
