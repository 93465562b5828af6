//! A configuration of MCP servers or a file of clients, in JSON or TOML: it is read or is an error with a place in the text, and no value of a secret
//! is shown. Its servers move behind a gateway and back, or stay.

#![no_main]

use std::path::{Path, PathBuf};

use execbox_mcp::config::{ClientConfig, Config, Context, Gateway, GatewayCommand, Input, Unavailable};
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

/// Moves all servers of a text behind a gateway and back.
fn move_servers(text: &str, name: &'static str) {
    let context = Everything(text, name);
    let command = GatewayCommand::new("execbox", vec!["mcp".to_owned()]);
    let command = command.keys(vec![("type", "stdio")]).variables(vec![("TOKEN".to_owned(), "$TOKEN".to_owned())]);
    for (project, config) in Config::scopes(text, &context).unwrap_or_default() {
        let used = config.servers.iter().map(|server| &server.name);
        let names: Vec<_> = used.chain(config.skipped.iter().map(|skipped| &skipped.name)).collect();
        let names: Vec<_> = names.into_iter().map(String::as_str).filter(|name| *name != "g").collect();
        let gateway = Gateway::new(&context, "g").project(project.as_deref());
        let Ok(moved) = gateway.insert(text, "", &names, &command) else { continue };
        assert_eq!(gateway.insert(&moved.client, &moved.servers, &names, &command).as_ref(), Ok(&moved));
        gateway.remove(&moved.client, &moved.servers).unwrap();
    }
    Config::secrets(text, &context);
}

fuzz_target!(|text: &str| {
    if text.contains(SECRET) {
        return; // what the text itself says may be shown
    }
    for name in ["f.json", "f.toml"] {
        move_servers(text, name);
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
