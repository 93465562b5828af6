//! A tool with which a model runs code that calls tools: its description, and the text of its results.
//!
//! ```
//! use execbox::code_tool::{self, Answer};
//! use execbox::{ExecuteRequest, Executor, InlineExecutor, Provider, Tool};
//! use serde_json::{Value, json};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let orders = Tool::new("list_orders", async |_: Value, _| Ok(json!([{ "id": "A-7", "total": 60 }])));
//! let shop = Provider::builder("shop").tool(orders).build()?;
//!
//! // For the model, with `code_tool::input_schema()`.
//! let description = code_tool::description(&[shop.clone()], false, 20_000);
//! assert!(description.contains("declare namespace shop"));
//!
//! let executor = InlineExecutor::new()?;
//! let code = "console.log('one call'); return (await shop.list_orders())[0].total"; // from the model
//! let result = executor.execute(ExecuteRequest::new(code).provider(shop)).await;
//! assert_eq!(Answer::new(&result, 24_000).text, "60\n\nLogs:\none call");
//! # Ok(())
//! # }
//! ```

mod answer;
mod description;
mod outline;

pub use self::answer::{Answer, Outline};
pub use self::description::{description, how_to, input_schema, types};
