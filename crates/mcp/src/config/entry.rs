//! One entry of a configuration: checks its values, expands its variables and collects its secrets.

use std::path::PathBuf;
use std::time::Duration;

use super::node::Node;
use super::secret::Candidates;
use super::variables::{Scope, Used, expand};
use super::{ConfigError, Problem, ServerConfig, SkipReason, Transport, env_file};
use crate::filter::Pattern;
use crate::oauth::OAuthClient;
use crate::upstream::{HttpProtocol, ResultFormat};

/// The outer error is an error of the file, the inner one skips this server only.
pub(super) fn read(
    name: &str,
    node: &Node<'_>,
    scope: Scope<'_>,
) -> Result<Result<ServerConfig, SkipReason>, ConfigError> {
    let raw = RawEntry::read(node)?;
    raw.check(node)?;
    Ok(raw.server(name, scope))
}

/// The values of an entry, with their types checked. [`ignored`](super::ignored) lists the keys that are not read.
#[derive(Default)]
struct RawEntry<'a> {
    disabled: bool,
    kind: Option<&'a str>,
    command: Option<Node<'a>>,
    args: Vec<Node<'a>>,
    env: Vec<(&'a str, Node<'a>)>,
    env_file: Option<Node<'a>>,
    directory: Option<Node<'a>>,
    url: Option<Node<'a>>,
    headers: Vec<(&'a str, Node<'a>)>,
    oauth: RawOAuth<'a>,
    allow: Vec<Node<'a>>,
    deny: Vec<Node<'a>>,
    read_only: bool,
    ask: Vec<Node<'a>>,
    never_ask: Vec<Node<'a>>,
    timeout: Option<Duration>,
    results: ResultFormat,
}

impl<'a> RawEntry<'a> {
    fn read(node: &Node<'a>) -> Result<Self, ConfigError> {
        let mut raw = Self::default();
        for (key, value) in node.members()? {
            if value.is_null() {
                continue; // As if the key were missing.
            }
            match key {
                "disabled" => raw.disabled |= value.boolean()?,
                "enabled" => raw.disabled |= !value.boolean()?,
                "type" | "transport" => raw.kind = Some(value.string()?),
                "command" => raw.command = Some(string(value)?),
                "args" => raw.args = value.strings()?,
                "env" => raw.env = strings(&value)?,
                "envFile" => raw.env_file = Some(string(value)?),
                "cwd" => raw.directory = Some(string(value)?),
                "url" | "serverUrl" | "httpUrl" => raw.url = Some(string(value)?),
                "headers" => raw.headers = strings(&value)?,
                "oauth" => raw.oauth = RawOAuth::read(&value)?,
                "allow" | "includeTools" | "enabledTools" => raw.allow.extend(value.strings()?),
                "deny" | "excludeTools" | "disabledTools" => raw.deny.extend(value.strings()?),
                "ask" if value.string().is_ok() => raw.ask.push(value),
                "ask" => raw.ask.extend(value.strings()?),
                "alwaysAllow" | "autoApprove" => raw.never_ask.extend(value.strings()?),
                "readOnly" => raw.read_only = value.boolean()?,
                "timeout" if !value.is_number() => raw.timeout = Some(duration(&value)?),
                "results" => raw.results = results(&value)?,
                _ => {}
            }
        }
        Ok(raw)
    }

    fn check(&self, node: &Node<'_>) -> Result<(), ConfigError> {
        match (&self.command, &self.url) {
            _ if self.disabled => Ok(()),
            (Some(_), Some(url)) => Err(url.error(Problem::CommandAndUrl)),
            (None, None) => Err(node.error(Problem::MissingCommand)),
            (Some(command), None) if command.string()?.trim().is_empty() => Err(command.error(Problem::MissingCommand)),
            _ => Ok(()),
        }
    }

    fn server(self, name: &str, scope: Scope<'_>) -> Result<ServerConfig, SkipReason> {
        if self.disabled {
            return Err(SkipReason::Disabled);
        }
        let mut expander = Expander { scope, candidates: Candidates::default(), used: Vec::new() };
        let transport = match &self.url {
            Some(url) => self.http(url, &mut expander)?,
            None => self.stdio(&mut expander)?,
        };
        // The names of variables come first: `${NAME}` in a redacted text then means what it means in the file.
        let mut candidates = Candidates::default();
        for Used { name, value, is_password } in &expander.used {
            if *is_password { candidates.add_secret(name, value) } else { candidates.add(name, value) }
        }
        candidates.append(expander.candidates);
        let mut server = ServerConfig::new(name, transport, candidates.into_secrets());
        let patterns = |nodes: &[Node<'_>]| nodes.iter().map(|node| Pattern::new(node.text())).collect();
        server.filter.allow = patterns(&self.allow);
        server.filter.deny = patterns(&self.deny);
        server.filter.read_only = self.read_only;
        self.ask.iter().for_each(|asked| server.ask.add(asked.text()));
        server.ask.never = patterns(&self.never_ask);
        server.call_timeout = self.timeout;
        server.results = self.results;
        Ok(server)
    }

    fn stdio(&self, expander: &mut Expander<'_>) -> Result<Transport, SkipReason> {
        let command = self.command.as_ref().map_or(Ok(String::new()), |command| expander.expand(command))?;
        let args: Vec<String> = self.args.iter().map(|arg| expander.expand(arg)).collect::<Result<_, _>>()?;
        if is_execbox(&command, &args) {
            return Err(SkipReason::SelfReference);
        }
        expander.candidates.add_arguments(&args);
        let mut env = self.env_file.as_ref().map_or(Ok(Vec::new()), |file| expander.env_file(file))?;
        env.retain(|(name, _)| !self.env.iter().any(|(other, _)| other == name));
        for (name, value) in &env {
            expander.candidates.add(name, value);
        }
        env.extend(expander.expand_all(&self.env)?);
        let directory = self.directory.as_ref().map(|directory| expander.expand(directory)).transpose()?;
        Ok(Transport::Stdio { command, args, env, directory: directory.map(Into::into) })
    }

    fn http(&self, url: &Node<'_>, expander: &mut Expander<'_>) -> Result<Transport, SkipReason> {
        let key = url.path().to_owned();
        let url = expander.expand(url)?;
        check_url(&url).map_err(|()| SkipReason::InvalidUrl { key })?;
        expander.candidates.add_url(&url);
        let (headers, oauth) = (expander.expand_all(&self.headers)?, self.oauth.client(expander)?);
        Ok(Transport::Http { url, headers, protocol: self.protocol(), oauth })
    }

    fn protocol(&self) -> HttpProtocol {
        match self.kind.map(str::to_ascii_lowercase).as_deref() {
            Some("sse") => HttpProtocol::Sse,
            Some("http" | "streamablehttp" | "streamable-http" | "streamable_http") => HttpProtocol::Streamable,
            _ => HttpProtocol::Detect,
        }
    }
}

/// The values of `oauth`, with their types checked.
#[derive(Default)]
struct RawOAuth<'a> {
    client_id: Option<Node<'a>>,
    client_secret: Option<Node<'a>>,
    scopes: Vec<Node<'a>>,
    callback_port: Option<u16>,
}

impl<'a> RawOAuth<'a> {
    fn read(node: &Node<'a>) -> Result<Self, ConfigError> {
        let mut raw = Self::default();
        for (key, value) in node.members()? {
            match key {
                _ if value.is_null() => {}
                "clientId" => raw.client_id = Some(string(value)?),
                "clientSecret" => raw.client_secret = Some(string(value)?),
                "scopes" if value.is_string() => raw.scopes = vec![value],
                "scopes" => raw.scopes = value.strings()?,
                "callbackPort" => raw.callback_port = Some(port(&value)?),
                _ => {}
            }
        }
        Ok(raw)
    }

    fn client(&self, expander: &mut Expander<'_>) -> Result<OAuthClient, SkipReason> {
        let client_id = self.client_id.as_ref().map(|id| expander.expand(id)).transpose()?;
        let client_secret = self.client_secret.as_ref().map(|secret| expander.expand(secret)).transpose()?;
        if let Some(secret) = &client_secret {
            expander.candidates.add_secret("clientSecret", secret);
        }
        let mut scopes = Vec::new();
        for node in &self.scopes {
            scopes.extend(expander.expand(node)?.split_whitespace().map(str::to_owned));
        }
        Ok(OAuthClient { client_id, client_secret, scopes, callback_port: self.callback_port })
    }
}

/// Fails unless this is an `http` or `https` URL with a host.
pub(super) fn check_url(url: &str) -> Result<(), ()> {
    let parsed: http::Uri = url.parse().map_err(|_| ())?;
    let is_http = matches!(parsed.scheme_str(), Some("http" | "https"));
    if is_http && parsed.host().is_some_and(|host| !host.is_empty()) { Ok(()) } else { Err(()) }
}

/// Expands variables, and records the values that may be secrets.
struct Expander<'a> {
    scope: Scope<'a>,
    used: Vec<Used>,
    candidates: Candidates,
}

impl Expander<'_> {
    fn expand(&mut self, node: &Node<'_>) -> Result<String, SkipReason> {
        expand(node.text(), node.path(), self.scope, &mut self.used)
    }

    /// Reads the variables of a file.
    fn env_file(&mut self, node: &Node<'_>) -> Result<Vec<(String, String)>, SkipReason> {
        let (key, file) = (node.path().to_owned(), node.text().to_owned());
        let path = PathBuf::from(self.expand(node)?);
        let context = self.scope.context;
        let path = if path.is_relative() { context.workspace_folder().unwrap_or_default().join(path) } else { path };
        let text = context.env_file(&path);
        let text =
            text.map_err(|reason| SkipReason::UnreadableEnvFile { key: key.clone(), file: file.clone(), reason })?;
        env_file::parse(&text).map_err(|(line, problem)| SkipReason::InvalidEnvFile { key, file, line, problem })
    }

    fn expand_all(&mut self, named: &[(&str, Node<'_>)]) -> Result<Vec<(String, String)>, SkipReason> {
        let expanded = named.iter().map(|(name, node)| {
            let value = self.expand(node)?;
            self.candidates.add(name, &value);
            Ok(((*name).to_owned(), value))
        });
        expanded.collect()
    }
}

/// Whether a command starts `execbox mcp`, directly or by another program (`npx execbox mcp`). Starting it would recurse
/// without end.
pub(super) fn is_execbox(program: &str, args: &[String]) -> bool {
    let arguments = std::iter::once(program).chain(args.iter().map(String::as_str));
    // An argument may be a whole command: `sh -c 'execbox mcp'`.
    let words: Vec<&str> = arguments.flat_map(str::split_whitespace).collect();
    let is_name = |word: &str| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
        name.strip_suffix(".exe").unwrap_or(name) == "execbox"
    };
    words.windows(2).any(|pair| is_name(pair[0]) && pair[1] == "mcp")
}

fn string(node: Node<'_>) -> Result<Node<'_>, ConfigError> {
    node.string().map(|_| node)
}

fn strings<'a>(node: &Node<'a>) -> Result<Vec<(&'a str, Node<'a>)>, ConfigError> {
    let members = node.members()?;
    members.iter().try_for_each(|(_, value)| value.string().map(drop))?;
    Ok(members)
}

fn results(node: &Node<'_>) -> Result<ResultFormat, ConfigError> {
    match node.string()? {
        "envelope" => Ok(ResultFormat::Envelope),
        "data" | "unwrapped" => Ok(ResultFormat::Data), // the old name of "data"
        _ => Err(node.error(Problem::InvalidValue { expected: "\"data\" or \"envelope\"" })),
    }
}

fn port(node: &Node<'_>) -> Result<u16, ConfigError> {
    let port = node.number()?.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| node.error(Problem::InvalidValue { expected: "a port from 1 to 65535" }))
}

/// `30s`, `500ms`, `1m 30s`: the grammar of the command line, but with a unit.
fn duration(node: &Node<'_>) -> Result<Duration, ConfigError> {
    let duration = humantime::parse_duration(node.string()?.trim()).ok().filter(|duration| !duration.is_zero());
    let expected = "a duration with a unit, such as \"500ms\", \"30s\" or \"2m\"";
    duration.ok_or_else(|| node.error(Problem::InvalidValue { expected }))
}

#[cfg(test)]
mod tests {
    use super::is_execbox;

    #[test]
    fn commands_that_start_execbox_mcp_are_recognized() {
        let is = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            is_execbox(&words.next().unwrap(), &words.collect::<Vec<_>>())
        };
        assert!(is_execbox("sh", &["-c".to_owned(), "exec execbox mcp --config x".to_owned()]));
        for line in ["execbox mcp", "/usr/bin/execbox mcp --config x", "npx -y execbox mcp", "C:\\b\\execbox.exe mcp"] {
            assert!(is(line), "{line}");
        }
        for line in ["execbox", "execbox-mcp mcp", "mcp execbox", "execbox runner mcp"] {
            assert!(!is(line), "{line}");
        }
    }
}
