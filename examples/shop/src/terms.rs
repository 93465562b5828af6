//! The shop's terms: its day, its warehouses, what shipping costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The day that it is in this shop, always. What is late today is late tomorrow, so that examples stay true.
pub(crate) const TODAY: &str = "2026-03-16";

/// Where goods are.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Warehouse {
    North,
    South,
}

/// Within how many days an order promises to arrive.
pub(crate) const DELIVERY_DAYS: u32 = 5;

/// What shipping an order costs, in cents, by the value of its goods in cents and their weight in grams.
pub(crate) fn shipping_fee(value_cents: u32, weight_grams: u32) -> u32 {
    match (value_cents, weight_grams) {
        (FREE_SHIPPING_FROM.., _) => 0,
        (_, HEAVY_FROM..) => HEAVY_SHIPPING_FEE,
        _ => SHIPPING_FEE,
    }
}

pub(crate) const SHIPPING_FEE: u32 = 490;
pub(crate) const HEAVY_SHIPPING_FEE: u32 = 890;
pub(crate) const HEAVY_FROM: u32 = 3_000;
pub(crate) const FREE_SHIPPING_FROM: u32 = 30_000;
