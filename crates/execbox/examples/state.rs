//! Tools that share state: each call receives a clone of an `Arc`.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use execbox::{ExecuteRequest, Executor, InlineExecutor, Provider, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of the tools: a database, for example.
#[derive(Default)]
struct Db {
    stock: Mutex<BTreeMap<String, u32>>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Item {
    name: String,
    count: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let db = Arc::new(Db::default());
    let add = Tool::typed_with_state("add", Arc::clone(&db), async |db, item: Item, _| {
        *db.stock.lock().unwrap().entry(item.name).or_default() += item.count;
        Ok(())
    });
    let take = Tool::typed_with_state("take", Arc::clone(&db), async |db, item: Item, _| {
        let mut stock = db.stock.lock().unwrap();
        let left = stock.get_mut(&item.name).ok_or_else(|| format!("there is no {}", item.name))?;
        *left = left.checked_sub(item.count).ok_or("there are too few")?;
        Ok(Item { count: *left, ..item })
    });
    let store = Provider::builder("store").tool(add).tool(take).build()?;

    let code = "
        await store.add({ name: 'pen', count: 5 });
        const failure = await store.take({ name: 'cup', count: 1 }).catch((error) => error.message);
        const left = await store.take({ name: 'pen', count: 2 });
        ({ left, failure })
    ";
    let result = InlineExecutor::new()?.execute(ExecuteRequest::new(code).provider(store)).await;
    println!("{}", result.value::<serde_json::Value>()?);
    println!("{:?}", db.stock.lock().unwrap());
    Ok(())
}
