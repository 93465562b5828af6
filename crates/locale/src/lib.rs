//! Numbers, dates, time zones and the order of text by locale, as ECMA-402 (`Intl`) has them.
//!
//! **This crate has no stable interface.** It is a part of the engine QuickJS, which has no ICU. The functions are pure: no I/O, no clock, no state. [`call`] is their entry point for a
//! guest, and [`INTL`] the source of the objects of ECMA-402 that use it.
//!
//! ```
//! use execbox_locale::call;
//! use serde_json::json;
//!
//! let digits = json!({ "style": "currency", "currency": "USD", "minimumFractionDigits": 2, "maximumFractionDigits": 2 });
//! assert_eq!(call(&json!(["number", "en-US", digits, "1234.5"])), Ok(json!("$1,234.50")));
//! ```

mod call;
mod civil;
pub mod collate;
pub mod date;
mod decimal;
pub mod number;
mod parts;
mod plural;
mod skeleton;
mod table;
pub mod zone;

pub use call::call;
pub use decimal::RoundingMode;
pub use parts::Parts;
pub use table::Locale;

/// A JavaScript expression: a function that takes the native function that reaches [`call`], and returns `Intl` and the
/// functions of built-in objects that depend on a locale.
pub const INTL: &str = include_str!("intl.js");
