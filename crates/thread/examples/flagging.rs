//! Lets code report items through a host function (code-execution specification §10.2).

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, Mutex};

use execbox::InlineExecutor;
use execbox::code::{CodeExecutionOptions, HostValue};
use execbox_thread::ThreadStore;
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let rows = json!([{ "id": "a", "flagged": true }, { "id": "b" }, { "id": "c", "flagged": true }]);
    println!("{:?}", flagged(rows).await?);
    Ok(())
}

pub(crate) async fn flagged(rows: Value) -> Result<BTreeSet<String>, Box<dyn Error>> {
    let thread = ThreadStore::in_memory().await?.thread("t")?;
    let source = "
        import { report } from 'supervisor';
        for (const row of rows) {
            if (row.flagged) report(row.id);
        }
        export default null;
    ";
    let flagged = Arc::new(Mutex::new(BTreeSet::new()));
    let report = {
        let flagged = Arc::clone(&flagged);
        HostValue::function("report", move |args| {
            let id = args.str(0)?; // check arguments: the guest is not trusted
            flagged.lock().unwrap().insert(id.to_owned());
            Ok(HostValue::undefined())
        })
    };
    let options = CodeExecutionOptions::new().global("rows", rows).import("supervisor", [("report", report)]);
    let result = thread.run_code(&InlineExecutor::new()?, source, options).await;
    if let Some(error) = result.error {
        return Err(error.into());
    }
    let flagged = flagged.lock().unwrap().clone();
    Ok(flagged)
}
