//! An ES module with a host function, reports, and a `Map` as its result.

use std::error::Error;

use execbox::code::{Args, CodeExecutionOptions, HostError, HostValue, Node};
use execbox::{Executor, InlineExecutor};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    customer: String,
    cents: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let read = HostValue::typed("readFile", async |path: String| match path.as_str() {
        "orders.json" => {
            Ok(r#"[{"customer":"ada","cents":1250},{"customer":"bob","cents":300},{"customer":"ada","cents":50}]"#)
        }
        _ => Err(HostError::new(format!("file not found: {path}"))),
    });
    let fee = HostValue::function("fee", |args: Args| {
        let (order, percent) = (args.get_as::<Order>(0)?, args.get_as::<Option<u32>>(1)?);
        let percent = if order.customer == "ada" { 0 } else { percent.unwrap_or(2) };
        Ok(HostValue::from(order.cents * percent / 100))
    });
    let source = "
        import { readFile } from 'fs';
        import { total } from './totals.ts';
        const orders = JSON.parse(await readFile('orders.json'));
        report({ orders: orders.length });
        export default total(orders);
    ";
    let totals = "
        type Order = { customer: string, cents: number };
        export function total(orders: Order[]): Map<string, number> {
            const sums = new Map<string, number>();
            for (const order of orders) sums.set(order.customer, (sums.get(order.customer) ?? 0) + order.cents + fee(order));
            return sums;
        }
    ";
    let options = CodeExecutionOptions::new()
        .import("fs", [("readFile", read)])
        .global("fee", fee)
        .module("./totals.ts", totals)
        .on_report(|report| println!("report {report}"));
    let result = InlineExecutor::new()?.run_code(source, options).await;
    let sums = result.result.ok_or("the run has no result")?;
    println!("{sums}"); // as JSON, with tags for what JSON does not have
    if let Some(Node::Map(entries)) = sums.node(sums.root()) {
        for (customer, cents) in entries {
            println!("{}: {} cents", customer.as_str().unwrap_or_default(), cents.as_number().unwrap_or_default());
        }
    }
    Ok(())
}
