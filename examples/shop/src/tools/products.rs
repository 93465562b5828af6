//! Products and their reviews.

use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use rusqlite::{Connection, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Shop;
use crate::database::{Page, ShopError, name, row};

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Category {
    Tents,
    Sleeping,
    Kitchen,
    Packs,
    Clothing,
    Light,
    Walking,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Product {
    id: String,
    name: String,
    category: Category,
    price_cents: u32,
    /// From 1 to 5; null without reviews
    average_rating: Option<f64>,
    review_count: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ProductDetails {
    #[serde(flatten)]
    product: Product,
    #[serde(flatten)]
    details: Details,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Details {
    description: String,
    weight_grams: u32,
    /// How many can be sold, over all warehouses
    available: u32,
    sold_last_90_days: u32,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Review {
    id: u32,
    product_id: String,
    customer_id: String,
    /// From 1 to 5
    rating: u32,
    title: String,
    text: String,
    written_on: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchProducts {
    /// Text in the name or the description; upper and lower case are the same
    query: Option<String>,
    category: Option<Category>,
    max_price_cents: Option<u32>,
    /// Items per page, 1 to 50; 20 if left out
    limit: Option<u32>,
    /// The `next_cursor` of the page before
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetProduct {
    /// Such as P17
    product_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListReviews {
    /// Only those of this product, such as P17
    product_id: Option<String>,
    /// Only those with at most so many stars
    max_rating: Option<u32>,
    /// Items per page, 1 to 50; 20 if left out
    limit: Option<u32>,
    /// The `next_cursor` of the page before
    cursor: Option<String>,
}

#[tool_router(router = product_tools, vis = "pub(super)")]
impl Shop {
    /// Finds products by text, category and price, by name. Prices are in cents of a euro. Says nothing of stock: use
    /// `stock_levels` for that, or `get_product` for one product.
    #[tool(annotations(read_only_hint = true))]
    fn search_products(
        &self,
        Parameters(SearchProducts { query, category, max_price_cents, limit, cursor }): Parameters<SearchProducts>,
    ) -> Result<Json<Page<Product>>, ShopError> {
        let sql = format!(
            "SELECT {PRODUCT} FROM products
             WHERE (?1 IS NULL OR instr(lower(name || ' ' || description), lower(?1)))
             AND (?2 IS NULL OR category = ?2) AND (?3 IS NULL OR price_cents <= ?3) ORDER BY name"
        );
        self.database.page(&sql, params![query, name(category), max_price_cents], limit, cursor.as_deref()).map(Json)
    }

    /// One product with its description, weight, what is available of it over all warehouses, and how many were sold
    /// in the last 90 days.
    #[tool(annotations(read_only_hint = true))]
    fn get_product(
        &self,
        Parameters(GetProduct { product_id }): Parameters<GetProduct>,
    ) -> Result<Json<ProductDetails>, ShopError> {
        let details = "
            SELECT description, weight_grams,
                (SELECT sum(on_hand - reserved) FROM stock WHERE product_id = id) AS available,
                (SELECT coalesce(sum(quantity), 0) FROM order_lines JOIN orders ON order_id = orders.id
                    WHERE product_id = products.id AND status <> 'cancelled'
                    AND placed_on > date((SELECT max(placed_on) FROM orders), '-90 days')) AS sold_last_90_days
            FROM products WHERE id = ?1";
        self.database.transaction(|db| {
            let product = row(db, &format!("SELECT {PRODUCT} FROM products WHERE id = ?1"), [&product_id], || {
                no_product(&product_id)
            })?;
            let details = row(db, details, [&product_id], || no_product(&product_id))?;
            Ok(Json(ProductDetails { product, details }))
        })
    }

    /// What customers say about products, the newest first.
    #[tool(annotations(read_only_hint = true))]
    fn list_reviews(
        &self,
        Parameters(ListReviews { product_id, max_rating, limit, cursor }): Parameters<ListReviews>,
    ) -> Result<Json<Page<Review>>, ShopError> {
        if let Some(id) = &product_id {
            self.database.transaction(|db| check_product(db, id))?;
        }
        let sql = "SELECT * FROM reviews WHERE (?1 IS NULL OR product_id = ?1) AND (?2 IS NULL OR rating <= ?2)
            ORDER BY written_on DESC, id DESC";
        self.database.page(sql, params![product_id, max_rating], limit, cursor.as_deref()).map(Json)
    }
}

pub(super) fn check_product(db: &Connection, id: &str) -> Result<(), ShopError> {
    let known = db.query_row("SELECT EXISTS (SELECT * FROM products WHERE id = ?)", [id], |row| row.get(0))?;
    if known { Ok(()) } else { Err(ShopError::Invalid(no_product(id))) }
}

fn no_product(id: &str) -> String {
    format!("unknown product {id:?}: expected an id such as P01; find it with search_products")
}

const PRODUCT: &str = "id, name, category, price_cents,
    (SELECT round(avg(rating), 1) FROM reviews WHERE product_id = products.id) AS average_rating,
    (SELECT count(*) FROM reviews WHERE product_id = products.id) AS review_count";
