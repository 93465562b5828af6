//! The stock of the warehouses.

use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use rusqlite::params;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Shop;
use super::products::check_product;
use crate::database::{Page, ShopError, name, row};
use crate::terms::Warehouse;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct StockLevel {
    product_id: String,
    product_name: String,
    warehouse: Warehouse,
    on_hand: u32,
    /// Promised to orders that are not packed yet
    reserved: u32,
    /// What can be sold: `on_hand` without `reserved`
    available: u32,
    /// When the supplier brings more; null if nothing is ordered
    next_delivery_on: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StockLevels {
    /// Only this product, such as P17
    product_id: Option<String>,
    /// Only this warehouse
    warehouse: Option<Warehouse>,
    /// Only where at most so many are available; 0 finds what is out of stock at a warehouse
    max_available: Option<u32>,
    /// Items per page, 1 to 50; 20 if left out
    limit: Option<u32>,
    /// The `next_cursor` of the page before
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Restock {
    /// Such as P17
    product_id: String,
    warehouse: Warehouse,
    /// How many arrived
    #[schemars(range(min = 1, max = 10_000))]
    quantity: u32,
}

#[tool_router(router = stock_tools, vis = "pub(super)")]
impl Shop {
    /// What is in stock: one item for each product at each warehouse. A product is out of stock when nothing is
    /// available of it at any warehouse.
    #[tool(annotations(read_only_hint = true))]
    fn stock_levels(
        &self,
        Parameters(StockLevels { product_id, warehouse, max_available, limit, cursor }): Parameters<StockLevels>,
    ) -> Result<Json<Page<StockLevel>>, ShopError> {
        if let Some(id) = &product_id {
            self.database.transaction(|db| check_product(db, id))?;
        }
        let sql = format!(
            "{STOCK_LEVEL} WHERE (?1 IS NULL OR product_id = ?1) AND (?2 IS NULL OR warehouse = ?2)
             AND (?3 IS NULL OR on_hand - reserved <= ?3) ORDER BY product_id, warehouse"
        );
        self.database
            .page(&sql, params![product_id, name(warehouse), max_available], limit, cursor.as_deref())
            .map(Json)
    }

    /// Books goods that arrived at a warehouse, and gives the new level.
    #[tool(annotations(read_only_hint = false, destructive_hint = false))]
    fn restock(
        &self,
        Parameters(Restock { product_id, warehouse, quantity }): Parameters<Restock>,
    ) -> Result<Json<StockLevel>, ShopError> {
        if !(1..=10_000).contains(&quantity) {
            return Err(ShopError::Invalid(format!("invalid quantity: expected 1 to 10000, got {quantity}")));
        }
        self.database.transaction(|db| {
            check_product(db, &product_id)?;
            let warehouse = name(Some(warehouse));
            let update = "UPDATE stock SET on_hand = on_hand + ?3, next_delivery_on = NULL
                WHERE product_id = ?1 AND warehouse = ?2";
            db.execute(update, params![product_id, warehouse, quantity])?;
            let sql = format!("{STOCK_LEVEL} WHERE product_id = ?1 AND warehouse = ?2");
            row(db, &sql, params![product_id, warehouse], || "the warehouse does not stock this product".to_owned())
                .map(Json)
        })
    }
}

const STOCK_LEVEL: &str = "
    SELECT product_id, name AS product_name, warehouse, on_hand, reserved, on_hand - reserved AS available,
        next_delivery_on
    FROM stock JOIN products ON product_id = products.id";
