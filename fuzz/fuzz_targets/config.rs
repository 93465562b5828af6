//! A configuration of MCP servers: it is read or is an error with a place in the text, and no value of a secret is shown.

#![no_main]

use std::path::Path;

use execbox_mcp::config::{Config, Context, Input, Unavailable};
use libfuzzer_sys::fuzz_target;

const SECRET: &str = "s3cret-of-the-environment";

/// The text, which is also the content of every file.
struct Everything<'a>(&'a str);

impl Context for Everything<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "TOKEN").then(|| SECRET.to_owned())
    }

    fn env_file(&self, _: &Path) -> Result<String, Unavailable> {
        Ok(self.0.replace("TOKEN", SECRET))
    }

    fn input(&self, _: &Input) -> Result<String, Unavailable> {
        Ok(SECRET.to_owned())
    }
}

fuzz_target!(|text: &str| {
    if text.contains(SECRET) {
        return; // what the text itself says may be shown
    }
    let mut config = Config::default();
    match config.read(text, &Everything(text)) {
        Ok(()) => {
            let skipped = config.skipped.iter().map(|skipped| format!("{} {}", skipped.name, skipped.reason));
            for shown in skipped.chain(config.ignored.iter().map(ToString::to_string)) {
                assert!(!shown.contains(SECRET), "{shown}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
