//! A configuration of MCP servers or a file of clients, in JSON or TOML: it is read or is an error with a place in the text, and no value of a secret
//! is shown.

#![no_main]

use std::path::{Path, PathBuf};

use execbox_mcp::config::{ClientConfig, Config, Context, Input, Unavailable};
use libfuzzer_sys::fuzz_target;

const SECRET: &str = "s3cret-of-the-environment";

/// The text, which is also the content of every file, and the name of the configuration.
struct Everything<'a>(&'a str, &'static str);

impl Context for Everything<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "TOKEN").then(|| SECRET.to_owned())
    }

    fn file_name(&self) -> Option<String> {
        Some(self.1.to_owned())
    }

    fn workspace_folder(&self) -> Option<PathBuf> {
        Some("/w".into())
    }

    fn user_home(&self) -> Option<PathBuf> {
        Some("/h".into())
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
    for name in ["f.json", "f.toml"] {
        if let Err(error) = ClientConfig::read(text, &Everything(text, name)) {
            assert!(!error.to_string().contains(SECRET), "{error}");
        }
        let mut config = Config::default();
        match config.read(text, &Everything(text, name)) {
            Ok(()) => {
                let skipped = config.skipped.iter().map(|skipped| format!("{} {}", skipped.name, skipped.reason));
                let reasons = config.skipped.iter().map(|skipped| skipped.reason.for_models());
                let ignored = config.ignored.iter().map(ToString::to_string);
                for shown in skipped.chain(reasons).chain(ignored) {
                    assert!(!shown.contains(SECRET), "{shown}");
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
