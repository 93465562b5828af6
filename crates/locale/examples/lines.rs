//! Reads requests as lines of JSON and writes an answer for each: `{"value": …}` or `{"error": …}`.
//! `tests/oracle` and `tests/node` start it.

use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};

fn main() -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = match serde_json::from_str::<Value>(&line?).map_err(|error| error.to_string()) {
            Ok(request) => execbox_locale::call(&request)
                .map_or_else(|error| json!({ "error": error }), |value| json!({ "value": value })),
            Err(error) => json!({ "error": error }),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}
