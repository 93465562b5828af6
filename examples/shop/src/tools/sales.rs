//! The terms and the sales of the shop.

use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Shop;
use crate::database::{ShopError, check_date, rows};
use crate::terms::{self, Warehouse};

#[derive(Debug, Serialize, JsonSchema)]
struct ShopInfo {
    name: &'static str,
    /// The day that it is in the shop; all dates are YYYY-MM-DD
    today: &'static str,
    currency: &'static str,
    warehouses: [Warehouse; 2],
    delivery_days: u32,
    shipping_fee_cents: u32,
    heavy_shipping_fee_cents: u32,
    free_shipping_from_cents: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SalesReport {
    from: String,
    until: String,
    rows: Vec<SalesRow>,
    total_revenue_cents: u32,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct SalesRow {
    /// The category, product id, country or month (YYYY-MM)
    group: String,
    orders: u32,
    units: u32,
    /// Of the goods, without shipping
    revenue_cents: u32,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum GroupBy {
    Category,
    Product,
    Country,
    Month,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SalesBetween {
    /// The first day, as YYYY-MM-DD
    from: String,
    /// The last day, as YYYY-MM-DD
    until: String,
    group_by: GroupBy,
}

#[allow(clippy::unused_self)] // A tool is a method, also one that needs no database.
#[tool_router(router = sales_tools, vis = "pub(super)")]
impl Shop {
    /// The shop's terms: today's date, currency, warehouses, delivery time and shipping fees.
    #[tool(annotations(read_only_hint = true))]
    fn shop_info(&self) -> Json<ShopInfo> {
        Json(ShopInfo {
            name: "Fell & Fern Outdoor",
            today: terms::TODAY,
            currency: "EUR",
            warehouses: [Warehouse::North, Warehouse::South],
            delivery_days: terms::DELIVERY_DAYS,
            shipping_fee_cents: terms::SHIPPING_FEE,
            heavy_shipping_fee_cents: terms::HEAVY_SHIPPING_FEE,
            free_shipping_from_cents: terms::FREE_SHIPPING_FROM,
        })
    }

    /// What was sold between two days, by category, product, country or month, most revenue first. Cancelled orders
    /// do not count; refunds are not subtracted.
    #[tool(annotations(read_only_hint = true))]
    fn sales_report(
        &self,
        Parameters(SalesBetween { from, until, group_by }): Parameters<SalesBetween>,
    ) -> Result<Json<SalesReport>, ShopError> {
        let group = match group_by {
            GroupBy::Category => "category",
            GroupBy::Product => "product_id",
            GroupBy::Country => "country",
            GroupBy::Month => "substr(placed_on, 1, 7)",
        };
        let sql = format!(
            "SELECT {group} AS \"group\", count(DISTINCT order_id) AS orders, sum(quantity) AS units,
                sum(quantity * unit_price_cents) AS revenue_cents
             FROM order_lines JOIN orders ON orders.id = order_id JOIN products ON products.id = product_id
                JOIN customers ON customers.id = customer_id
             WHERE status <> 'cancelled' AND placed_on BETWEEN ?1 AND ?2 GROUP BY 1 ORDER BY revenue_cents DESC, 1"
        );
        self.database.transaction(|db| {
            check_date(db, "from", Some(&from))?;
            check_date(db, "until", Some(&until))?;
            let rows: Vec<SalesRow> = rows(db, &sql, [&from, &until])?;
            let total_revenue_cents = rows.iter().map(|row| row.revenue_cents).sum();
            Ok(Json(SalesReport { from: from.clone(), until: until.clone(), rows, total_revenue_cents }))
        })
    }
}
