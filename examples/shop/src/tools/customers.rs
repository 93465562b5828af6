//! Customers.

use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use rusqlite::params;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Shop;
use crate::database::{Page, ShopError, name, row};

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Tier {
    Standard,
    Plus,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Customer {
    id: String,
    name: String,
    email: String,
    tier: Tier,
    country: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CustomerDetails {
    #[serde(flatten)]
    customer: Customer,
    #[serde(flatten)]
    details: Details,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Details {
    street: String,
    postcode: String,
    city: String,
    customer_since: String,
    order_count: u32,
    /// Without cancelled orders
    spent_cents: u32,
    /// Null without orders
    last_order_on: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListCustomers {
    /// Text in the name or the email; upper and lower case are the same
    query: Option<String>,
    /// Two letters, such as DE
    country: Option<String>,
    tier: Option<Tier>,
    /// Items per page, 1 to 50; 20 if left out
    limit: Option<u32>,
    /// The `next_cursor` of the page before
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetCustomer {
    /// Such as C042
    customer_id: String,
}

#[tool_router(router = customer_tools, vis = "pub(super)")]
impl Shop {
    /// Finds customers by text, country and tier, in the order of their ids.
    #[tool(annotations(read_only_hint = true))]
    fn list_customers(
        &self,
        Parameters(ListCustomers { query, country, tier, limit, cursor }): Parameters<ListCustomers>,
    ) -> Result<Json<Page<Customer>>, ShopError> {
        let sql = "SELECT id, name, email, tier, country FROM customers
            WHERE (?1 IS NULL OR instr(lower(name || ' ' || email), lower(?1)))
            AND (?2 IS NULL OR country = upper(?2)) AND (?3 IS NULL OR tier = ?3) ORDER BY id";
        self.database.page(sql, params![query, country, name(tier)], limit, cursor.as_deref()).map(Json)
    }

    /// One customer with the address, and what they ordered in all.
    #[tool(annotations(read_only_hint = true))]
    fn get_customer(
        &self,
        Parameters(GetCustomer { customer_id }): Parameters<GetCustomer>,
    ) -> Result<Json<CustomerDetails>, ShopError> {
        let customer = "SELECT id, name, email, tier, country FROM customers WHERE id = ?";
        let details = "
            SELECT street, postcode, city, customer_since, count(order_totals.id) AS order_count,
                coalesce(sum(total_cents) FILTER (WHERE status <> 'cancelled'), 0) AS spent_cents,
                max(placed_on) AS last_order_on
            FROM customers LEFT JOIN order_totals ON customer_id = customers.id
            WHERE customers.id = ? GROUP BY customers.id";
        self.database.transaction(|db| {
            let customer = row(db, customer, [&customer_id], || no_customer(&customer_id))?;
            let details = row(db, details, [&customer_id], || no_customer(&customer_id))?;
            Ok(Json(CustomerDetails { customer, details }))
        })
    }
}

pub(super) fn no_customer(id: &str) -> String {
    format!("unknown customer {id:?}: expected an id such as C001; find it with list_customers")
}
