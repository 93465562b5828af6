//! The date, the warehouses and the shipping fees of the shop.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The current date of the shop. It never changes, so that results are reproducible.
pub(crate) const TODAY: &str = "2026-03-16";

/// Where goods are stored.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Warehouse {
    North,
    South,
}

/// The promised delivery time of an order, in days.
pub(crate) const DELIVERY_DAYS: u32 = 5;

/// The shipping fee of an order in cents, by the value of its goods in cents and their weight in grams.
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
