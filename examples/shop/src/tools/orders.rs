//! Orders: their lines, shipments, returns and refunds.

use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use rusqlite::{Connection, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Shop;
use super::customers::no_customer;
use super::products::check_product;
use crate::database::{Page, ShopError, check_date, name, row, rows};
use crate::terms;

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OrderStatus {
    Pending,
    Packed,
    Shipped,
    Delivered,
    Cancelled,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Order {
    id: u32,
    customer_id: String,
    status: OrderStatus,
    placed_on: String,
    /// When it has to be delivered
    promised_by: String,
    shipping_fee_cents: u32,
    /// The goods and the shipping fee
    total_cents: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OrderDetails {
    #[serde(flatten)]
    order: Order,
    ship_to: Address,
    lines: Vec<Line>,
    shipments: Vec<Shipment>,
    refunds: Vec<Refund>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Address {
    name: String,
    street: String,
    postcode: String,
    city: String,
    country: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Line {
    product_id: String,
    product_name: String,
    quantity: u32,
    unit_price_cents: u32,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Shipment {
    id: u32,
    carrier: String,
    tracking_code: String,
    shipped_on: String,
    /// Null while it is on its way
    delivered_on: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Refund {
    id: u32,
    amount_cents: u32,
    reason: String,
    refunded_on: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Return {
    id: u32,
    order_id: u32,
    product_id: String,
    quantity: u32,
    reason: String,
    status: ReturnStatus,
    requested_on: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ReturnStatus {
    Requested,
    Refunded,
    Rejected,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListOrders {
    status: Option<OrderStatus>,
    /// Only those of this customer, such as C042
    customer_id: Option<String>,
    /// Only those placed on this day or later, as YYYY-MM-DD
    placed_from: Option<String>,
    /// Only those promised for a day before this one, as YYYY-MM-DD
    promised_before: Option<String>,
    /// Items per page, 1 to 50; 20 if left out
    limit: Option<u32>,
    /// The `next_cursor` of the page before
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetOrder {
    /// Such as 1042
    order_id: u32,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateOrder {
    /// Such as C042
    customer_id: String,
    #[schemars(length(min = 1, max = 20))]
    lines: Vec<NewLine>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewLine {
    /// Such as P17
    product_id: String,
    #[schemars(range(min = 1, max = 100))]
    quantity: u32,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RefundOrder {
    order_id: u32,
    #[schemars(range(min = 1))]
    amount_cents: u32,
    /// What the customer is told
    reason: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListReturns {
    status: Option<ReturnStatus>,
    /// Only those of this order
    order_id: Option<u32>,
    /// Items per page, 1 to 50; 20 if left out
    limit: Option<u32>,
    /// The `next_cursor` of the page before
    cursor: Option<String>,
}

#[tool_router(router = order_tools, vis = "pub(super)")]
impl Shop {
    /// Finds orders by status, customer and dates, the newest first. An order is late when the day it was promised by
    /// is past and it is still pending, packed or shipped. What was ordered is in `get_order`.
    #[tool(annotations(read_only_hint = true))]
    fn list_orders(
        &self,
        Parameters(ListOrders { status, customer_id, placed_from, promised_before, limit, cursor }): Parameters<
            ListOrders,
        >,
    ) -> Result<Json<Page<Order>>, ShopError> {
        self.database.transaction(|db| {
            check_date(db, "placed_from", placed_from.as_deref())?;
            check_date(db, "promised_before", promised_before.as_deref())?;
            customer_id.as_deref().map_or(Ok(()), |id| check_customer(db, id))
        })?;
        let sql = "SELECT * FROM order_totals
            WHERE (?1 IS NULL OR status = ?1) AND (?2 IS NULL OR customer_id = ?2)
            AND (?3 IS NULL OR placed_on >= ?3) AND (?4 IS NULL OR promised_by < ?4) ORDER BY id DESC";
        let filter = params![name(status), customer_id, placed_from, promised_before];
        self.database.page(sql, filter, limit, cursor.as_deref()).map(Json)
    }

    /// One order with its lines, where it goes to, its shipments and what was refunded.
    #[tool(annotations(read_only_hint = true))]
    fn get_order(
        &self,
        Parameters(GetOrder { order_id }): Parameters<GetOrder>,
    ) -> Result<Json<OrderDetails>, ShopError> {
        self.database.transaction(|db| order(db, order_id)).map(Json)
    }

    /// Places an order at today's prices. The goods are reserved, each line at one warehouse, and the order is
    /// pending. Fails without any effect if something is not available.
    #[tool(annotations(read_only_hint = false, destructive_hint = false))]
    fn create_order(
        &self,
        Parameters(CreateOrder { customer_id, lines }): Parameters<CreateOrder>,
    ) -> Result<Json<OrderDetails>, ShopError> {
        if !(1..=20).contains(&lines.len()) {
            return Err(ShopError::Invalid(format!("invalid lines: expected 1 to 20, got {}", lines.len())));
        }
        self.database.transaction(|db| {
            check_customer(db, &customer_id)?;
            let insert = "INSERT INTO orders SELECT max(id) + 1, ?1, 'pending', ?2, date(?2, ?3 || ' days'), 0
                FROM orders RETURNING id";
            let parameters = params![customer_id, terms::TODAY, terms::DELIVERY_DAYS];
            let id: u32 = db.query_row(insert, parameters, |row| row.get(0))?;
            for line in &lines {
                add_line(db, id, line)?;
            }
            let sum = "SELECT sum(quantity * unit_price_cents), sum(quantity * weight_grams)
                FROM order_lines JOIN products ON product_id = id WHERE order_id = ?";
            let (value, weight) = db.query_row(sum, [id], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let fee = terms::shipping_fee(value, weight);
            db.execute("UPDATE orders SET shipping_fee_cents = ? WHERE id = ?", [fee, id])?;
            order(db, id).map(Json)
        })
    }

    /// Gives money back for an order, at most what was paid and not refunded yet. Cannot be undone.
    #[tool(annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = false))]
    fn refund_order(
        &self,
        Parameters(RefundOrder { order_id, amount_cents, reason }): Parameters<RefundOrder>,
    ) -> Result<Json<OrderDetails>, ShopError> {
        self.database.transaction(|db| {
            let OrderDetails { order: Order { total_cents, .. }, refunds, .. } = order(db, order_id)?;
            let left = total_cents - refunds.iter().map(|refund| refund.amount_cents).sum::<u32>();
            if amount_cents == 0 || amount_cents > left {
                return Err(ShopError::Invalid(format!(
                    "invalid amount_cents: expected 1 to {left} (not yet refunded of {total_cents}), got \
                     {amount_cents} for order {order_id}"
                )));
            }
            let insert = "INSERT INTO refunds VALUES (NULL, ?, ?, ?, ?)";
            db.execute(insert, params![order_id, amount_cents, reason, terms::TODAY])?;
            order(db, order_id).map(Json)
        })
    }

    /// What customers send back, or want to, the newest first.
    #[tool(annotations(read_only_hint = true))]
    fn list_returns(
        &self,
        Parameters(ListReturns { status, order_id, limit, cursor }): Parameters<ListReturns>,
    ) -> Result<Json<Page<Return>>, ShopError> {
        let sql = "SELECT * FROM returns WHERE (?1 IS NULL OR status = ?1) AND (?2 IS NULL OR order_id = ?2)
            ORDER BY requested_on DESC, id DESC";
        self.database.page(sql, params![name(status), order_id], limit, cursor.as_deref()).map(Json)
    }
}

/// Reads all parts of an order.
fn order(db: &Connection, id: u32) -> Result<OrderDetails, ShopError> {
    let missing = || format!("unknown order {id}; find it with list_orders");
    let address = "SELECT name, street, postcode, city, country
        FROM orders JOIN customers ON customer_id = customers.id WHERE orders.id = ?";
    let lines = "SELECT product_id, name AS product_name, quantity, unit_price_cents
        FROM order_lines JOIN products ON product_id = id WHERE order_id = ? ORDER BY product_id";
    Ok(OrderDetails {
        order: row(db, "SELECT * FROM order_totals WHERE id = ?", [id], missing)?,
        ship_to: row(db, address, [id], missing)?,
        lines: rows(db, lines, [id])?,
        shipments: rows(db, "SELECT * FROM shipments WHERE order_id = ? ORDER BY id", [id])?,
        refunds: rows(db, "SELECT * FROM refunds WHERE order_id = ? ORDER BY id", [id])?,
    })
}

/// Adds a line to an order, and reserves its goods at the warehouse that has most of them.
fn add_line(db: &Connection, order: u32, line: &NewLine) -> Result<(), ShopError> {
    let NewLine { product_id, quantity } = line;
    check_product(db, product_id)?;
    if !(1..=100).contains(quantity) {
        return Err(ShopError::Invalid(format!("invalid quantity of {product_id}: expected 1 to 100, got {quantity}")));
    }
    let most = "SELECT warehouse, on_hand - reserved FROM stock WHERE product_id = ? ORDER BY 2 DESC, 1 LIMIT 1";
    let (warehouse, available): (String, u32) =
        db.query_row(most, [product_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if available < *quantity {
        return Err(ShopError::Invalid(format!(
            "not enough stock of {product_id}: {quantity} ordered, at most {available} at one warehouse ({warehouse})"
        )));
    }
    let reserve = "UPDATE stock SET reserved = reserved + ? WHERE product_id = ? AND warehouse = ?";
    db.execute(reserve, params![quantity, product_id, warehouse])?;
    let insert = "INSERT INTO order_lines SELECT ?1, id, ?2, price_cents FROM products WHERE id = ?3
        ON CONFLICT DO UPDATE SET quantity = quantity + excluded.quantity";
    db.execute(insert, params![order, quantity, product_id])?;
    Ok(())
}

fn check_customer(db: &Connection, id: &str) -> Result<(), ShopError> {
    let known = db.query_row("SELECT EXISTS (SELECT * FROM customers WHERE id = ?)", [id], |row| row.get(0))?;
    if known { Ok(()) } else { Err(ShopError::Invalid(no_customer(id))) }
}
