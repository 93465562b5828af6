//! Measures how long requests take, as a guest makes them.

use std::hint::black_box;
use std::time::Instant;

use serde_json::{Value, json};

fn main() {
    let fields = json!({ "year": "numeric", "month": "short", "day": "numeric" });
    let currency =
        json!({ "style": "currency", "currency": "USD", "minimumFractionDigits": 2, "maximumFractionDigits": 2 });
    measure("date by pattern", &json!(["date", "en-US", "MMM d, y", "America/New_York", 1_732_600_000_123_i64]));
    measure("date with zone name", &json!(["date", "en-US", "h:mm a z", "America/New_York", 1_732_600_000_123_i64]));
    measure("zone", &json!(["zone", "America/New_York"]));
    measure("date in UTC", &json!(["date", "en-US", "MMM d, y", "UTC", 1_732_600_000_123_i64]));
    measure("find a pattern", &json!(["datePattern", "en-US", fields]));
    measure("number", &json!(["number", "en-US", { "maximumFractionDigits": 3 }, "1234567.891"]));
    measure("currency", &json!(["number", "de-DE", currency, "-1234.5"]));
    measure("compare", &json!(["compare", "en-US", {}, "résumé", "resume"]));
    measure("compare in Swedish", &json!(["compare", "sv-SE", {}, "zebra", "ärta"]));
}

fn measure(name: &str, request: &Value) {
    const ROUNDS: u32 = 20_000;
    let start = Instant::now();
    for _ in 0..ROUNDS {
        let _ = black_box(execbox_locale::call(black_box(request)));
    }
    println!("{name}: {:?}", start.elapsed() / ROUNDS);
}
