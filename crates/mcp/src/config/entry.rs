//! One entry of a configuration: checks its values, expands its variables and collects its secrets.

use std::path::PathBuf;
use std::time::Duration;

use rmcp::model::ProtocolVersion;

use super::ignored::{HTTP_TYPES, IgnoredKey, ignored_keys};
use super::node::Node;
use super::variables::{Expander, Scope};
use super::{ConfigError, Entry, Problem, ServerConfig, SkipReason, Transport};
use crate::Secrets;
use crate::filter::Pattern;
use crate::oauth::OAuthClient;
use crate::upstream::{HttpProtocol, ResultFormat};

/// Reads an entry. A mistake in it skips this server only.
pub(super) fn read(name: &str, node: &Node<'_>, scope: Scope<'_>) -> Entry {
    let read = RawEntry::read(node).and_then(|raw| Ok((raw.kind(node)?, raw)));
    let (kind, mut uses_own) = (read.as_ref().ok().map(|(kind, _)| *kind), false);
    let mut server = match read {
        _ if is_disabled(node) => Err(SkipReason::Disabled),
        Ok((Kind::Extension, _)) => Err(SkipReason::Extension),
        Ok((kind, raw)) => raw.server(name, kind, scope, &mut uses_own),
        Err(error) => Err(SkipReason::Invalid { file: scope.context.file_name(), error: Box::new(error) }),
    };
    let mut ignored = ignored_keys(name, node, kind, uses_own);
    if server.is_ok()
        && let Some(at) = ignored.iter().position(IgnoredKey::is_meant_to_protect)
    {
        let error = Box::new(ignored.remove(at).into());
        server = Err(SkipReason::Invalid { file: scope.context.file_name(), error });
    }
    Entry { name: name.to_owned(), server, ignored }
}

/// The secrets of an entry, also if it is disabled.
pub(super) fn secrets(name: &str, node: &Node<'_>, scope: Scope<'_>) -> Secrets {
    let read = RawEntry::read(node).and_then(|raw| Ok((raw.kind(node)?, raw)));
    let server = read.ok().and_then(|(kind, raw)| raw.server(name, kind, scope, &mut false).ok());
    server.map(|server| server.secrets).unwrap_or_default()
}

/// The patterns of tools whose calls need no approval.
pub(super) fn never_asked(node: &Node<'_>) -> Result<Vec<Pattern>, ConfigError> {
    let entry = RawEntry::read(node)?;
    Ok(entry.never_ask.iter().map(|node| Pattern::new(&*node.text())).collect())
}

/// Whether an entry is disabled, whatever else it has.
pub(super) fn is_disabled(node: &Node<'_>) -> bool {
    let members = node.members().unwrap_or_default();
    let is = |key: &str, value: bool| {
        let mut found = members.iter().filter(|(other, _)| *other == key);
        found.any(|(_, node)| node.boolean() == Ok(value))
    };
    is("disabled", true) || is("enabled", false)
}

/// How an entry connects to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Command,
    Url,
    /// An extension of the client knows how.
    Extension,
}

/// The values of an entry, with their types checked. [`ignored`](super::ignored) lists the keys that are not read.
#[derive(Default)]
struct RawEntry<'a> {
    /// `type`.
    transport: Option<&'a str>,
    command: Option<Node<'a>>,
    args: Vec<Node<'a>>,
    env: Vec<(&'a str, Node<'a>)>,
    env_file: Option<Node<'a>>,
    /// Names of variables that the server inherits.
    inherited: Vec<Node<'a>>,
    directory: Option<Node<'a>>,
    url: Option<Node<'a>>,
    headers: Vec<(&'a str, Node<'a>)>,
    /// Headers, and the names of the variables with their values.
    header_variables: Vec<(&'a str, Node<'a>)>,
    /// The name of the variable with the token of the header `Authorization`.
    token_variable: Option<Node<'a>>,
    oauth: RawOAuth<'a>,
    allow: Vec<Node<'a>>,
    deny: Vec<Node<'a>>,
    read_only: bool,
    expose: Vec<Node<'a>>,
    has_no_prefix: bool,
    ask: Vec<Node<'a>>,
    never_ask: Vec<Node<'a>>,
    timeout: Option<Duration>,
    protocol_version: Option<ProtocolVersion>,
    results: ResultFormat,
    is_extension: bool,
}

impl<'a> RawEntry<'a> {
    fn read(node: &Node<'a>) -> Result<Self, ConfigError> {
        let mut raw = Self::default();
        for (key, value) in node.members()? {
            match key {
                "disabled" | "enabled" => drop(value.boolean()?), // Read by `is_disabled`.
                "type" | "transport" => raw.transport = Some(value.string()?),
                "command" if value.is_object() => raw.read_command(&value)?,
                "command" => raw.command = Some(string(value)?),
                "args" => raw.args.extend(value.strings()?),
                "env" => raw.env.extend(scalars(&value)?),
                "envFile" => raw.env_file = Some(string(value)?),
                "env_vars" => raw.inherited = inherited(&value)?,
                "cwd" => raw.directory = Some(string(value)?),
                "url" | "serverUrl" | "httpUrl" if value.is_empty() => {}
                "url" | "serverUrl" | "httpUrl" => raw.url = Some(string(value)?),
                "headers" | "http_headers" => raw.headers.extend(scalars(&value)?),
                "env_http_headers" => raw.header_variables = scalars(&value)?,
                "bearer_token_env_var" => raw.token_variable = Some(string(value)?),
                "oauth" => raw.oauth = RawOAuth::read(&value)?,
                "tools" if value.is_object() => {}
                "allow" | "includeTools" | "enabledTools" | "enabled_tools" | "tools" => {
                    raw.allow.extend(value.strings()?);
                }
                "deny" | "excludeTools" | "disabledTools" | "disabled_tools" => raw.deny.extend(value.strings()?),
                "expose" if value.is_string() => raw.expose.push(value),
                "expose" => raw.expose.extend(value.strings()?),
                "prefix" => raw.has_no_prefix = !value.boolean()?,
                "ask" if value.is_string() => raw.ask.push(value),
                "ask" => raw.ask.extend(value.strings()?),
                "alwaysAllow" | "autoApprove" => raw.never_ask.extend(value.strings()?),
                "readOnly" => raw.read_only = value.boolean()?,
                "timeout" if !value.is_number() => raw.timeout = Some(duration(&value)?),
                "tool_timeout_sec" => raw.timeout = Some(seconds(&value)?),
                "protocolVersion" => raw.protocol_version = Some(protocol_version(&value)?),
                "results" => raw.results = results(&value)?,
                "settings" => raw.is_extension = true,
                "source" => raw.is_extension |= value.string()? == "extension",
                _ => {}
            }
        }
        Ok(raw)
    }

    /// Reads `command` as an object, the older notation of Zed.
    fn read_command(&mut self, node: &Node<'a>) -> Result<(), ConfigError> {
        for (key, value) in node.members()? {
            match key {
                "path" => self.command = Some(string(value)?),
                "args" => self.args.extend(value.strings()?),
                "env" => self.env.extend(scalars(&value)?),
                _ => {}
            }
        }
        Ok(())
    }

    /// How the entry connects. A key without text counts as missing beside the other one, and `type` decides between two.
    fn kind(&self, node: &Node<'_>) -> Result<Kind, ConfigError> {
        let is_http = self.transport.map(|kind| HTTP_TYPES.iter().any(|http| http.eq_ignore_ascii_case(kind)));
        match (&self.command, &self.url) {
            (Some(command), Some(_)) if command.is_empty() => Ok(Kind::Url),
            (Some(_), Some(url)) => match is_http {
                Some(is_http) => Ok(if is_http { Kind::Url } else { Kind::Command }),
                None => Err(url.error(Problem::CommandAndUrl)),
            },
            (None, Some(_)) => Ok(Kind::Url),
            (Some(command), None) if command.is_empty() => Err(command.error(Problem::MissingCommand)),
            (Some(_), None) => Ok(Kind::Command),
            (None, None) if self.is_extension => Ok(Kind::Extension),
            (None, None) => Err(node.error(Problem::MissingCommand)),
        }
    }

    fn server(
        &self,
        name: &str,
        kind: Kind,
        scope: Scope<'_>,
        uses_own: &mut bool,
    ) -> Result<ServerConfig, SkipReason> {
        let mut expander = Expander::new(scope, &self.env, self.env_file.as_ref());
        let transport = match kind {
            Kind::Url => self.http(&mut expander),
            Kind::Command | Kind::Extension => self.stdio(&mut expander),
        };
        *uses_own = expander.used_own;
        let file = scope.context.file_name();
        let mut server = ServerConfig::new(name, transport?, expander.into_candidates().into_secrets());
        let patterns = |nodes: &[Node<'_>]| nodes.iter().map(|node| Pattern::new(&*node.text())).collect();
        server.filter.allow = patterns(&self.allow);
        server.filter.deny = patterns(&self.deny);
        server.filter.read_only = self.read_only;
        server.filter.expose = patterns(&self.expose);
        server.has_prefix = !self.has_no_prefix;
        self.ask.iter().for_each(|asked| server.ask.add(&asked.text()));
        server.ask.never = patterns(&self.never_ask);
        let lists = [&self.allow, &self.deny, &self.expose, &self.ask, &self.never_ask];
        let place = |node: &Node<'_>| (Pattern::new(&*node.text()), place(node, file.as_deref()));
        server.places.0 = lists.into_iter().flatten().map(place).collect();
        server.call_timeout = self.timeout;
        server.protocol_version.clone_from(&self.protocol_version);
        server.results = self.results;
        Ok(server)
    }

    fn stdio(&self, expander: &mut Expander<'_>) -> Result<Transport, SkipReason> {
        let command = self.command.as_ref().map_or(Ok(String::new()), |command| expander.path(command))?;
        let args: Vec<String> = self.args.iter().map(|arg| expander.path(arg)).collect::<Result<_, _>>()?;
        if is_execbox(&command, &args) {
            return Err(SkipReason::SelfReference);
        }
        expander.candidates.add_arguments(&args);
        let mut env: Vec<(String, String)> = Vec::new();
        for node in &self.inherited {
            env.extend(expander.named(node)?.map(|value| (node.text().into_owned(), value)));
        }
        env.extend_from_slice(expander.file_variables()?);
        env.retain(|(name, _)| !expander.defines(name));
        env.extend(expander.own_variables()?);
        let unset = self.env.iter().filter(|(_, node)| node.is_null()).map(|(name, _)| (*name).to_owned()).collect();
        let directory = self.directory.as_ref().map(|directory| expander.path(directory)).transpose()?;
        Ok(Transport::Stdio { command, args, env, unset, directory: directory.map(PathBuf::from) })
    }

    fn http(&self, expander: &mut Expander<'_>) -> Result<Transport, SkipReason> {
        let Some(url) = &self.url else { return Err(SkipReason::InvalidUrl { key: "url".to_owned() }) };
        let key = url.path().to_owned();
        let url = expander.expand(url)?;
        check_url(&url).map_err(|()| SkipReason::InvalidUrl { key })?;
        expander.candidates.add_url(&url);
        let is_set = |(_, node): &&(&str, Node<'_>)| !node.is_null();
        let mut headers = Vec::new();
        for (name, node) in self.headers.iter().filter(is_set) {
            headers.push(((*name).to_owned(), expander.value(name, node)?));
        }
        for (name, node) in self.header_variables.iter().filter(is_set) {
            if let Some(value) = expander.named(node)? {
                expander.candidates.add(name, &value);
                set_header(&mut headers, name, value);
            }
        }
        if let Some(node) = &self.token_variable {
            let unset =
                || SkipReason::UnsetNamedVariable { key: node.path().to_owned(), name: node.text().into_owned() };
            let token = expander.named(node)?.ok_or_else(unset)?;
            expander.candidates.add("Authorization", &token);
            set_header(&mut headers, "Authorization", format!("Bearer {token}"));
        }
        Ok(Transport::Http { url, headers, protocol: self.protocol(), oauth: self.oauth.client(expander)? })
    }

    fn protocol(&self) -> HttpProtocol {
        match self.transport.map(str::to_ascii_lowercase).as_deref() {
            Some("sse") => HttpProtocol::Sse,
            Some(kind) if HTTP_TYPES.contains(&kind) => HttpProtocol::Streamable,
            _ => HttpProtocol::Detect,
        }
    }
}

/// Adds a header, and removes those of the same name, in any case.
fn set_header(headers: &mut Vec<(String, String)>, name: &str, value: String) {
    headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    headers.push((name.to_owned(), value));
}

/// The values of `oauth`, with their types checked.
#[derive(Default)]
struct RawOAuth<'a> {
    client_id: Option<Node<'a>>,
    client_secret: Option<Node<'a>>,
    client_metadata_url: Option<Node<'a>>,
    issuer: Option<Node<'a>>,
    scopes: Vec<Node<'a>>,
    callback_port: Option<u16>,
}

impl<'a> RawOAuth<'a> {
    fn read(node: &Node<'a>) -> Result<Self, ConfigError> {
        let mut raw = Self::default();
        for (key, value) in node.members()? {
            match key {
                "clientId" => raw.client_id = Some(string(value)?),
                "clientSecret" => raw.client_secret = Some(string(value)?),
                "clientMetadataUrl" => raw.client_metadata_url = Some(string(value)?),
                "issuer" => raw.issuer = Some(string(value)?),
                "scopes" if value.is_string() => raw.scopes = vec![value],
                "scopes" => raw.scopes = value.strings()?,
                "callbackPort" => raw.callback_port = Some(port(&value)?),
                _ => {}
            }
        }
        Ok(raw)
    }

    fn client(&self, expander: &mut Expander<'_>) -> Result<OAuthClient, SkipReason> {
        let mut expand = |node: &Option<Node<'a>>| node.as_ref().map(|node| expander.expand(node)).transpose();
        let (client_id, client_secret) = (expand(&self.client_id)?, expand(&self.client_secret)?);
        let (client_metadata_url, issuer) = (expand(&self.client_metadata_url)?, expand(&self.issuer)?);
        if let Some(secret) = &client_secret {
            expander.candidates.add_secret("clientSecret", secret);
        }
        let mut scopes = Vec::new();
        for node in &self.scopes {
            scopes.extend(expander.expand(node)?.split_whitespace().map(str::to_owned));
        }
        let callback_port = self.callback_port;
        Ok(OAuthClient { client_id, client_secret, client_metadata_url, issuer, scopes, callback_port })
    }
}

/// Fails unless this is an `http` or `https` URL with a host.
pub(super) fn check_url(url: &str) -> Result<(), ()> {
    let parsed: http::Uri = url.parse().map_err(|_| ())?;
    let is_http = matches!(parsed.scheme_str(), Some("http" | "https"));
    if is_http && parsed.host().is_some_and(|host| !host.is_empty()) { Ok(()) } else { Err(()) }
}

/// Whether a command starts `execbox mcp`, directly or by another program (`npx execbox mcp`). Starting it would recurse
/// without end.
pub(super) fn is_execbox(program: &str, args: &[String]) -> bool {
    let arguments = std::iter::once(program).chain(args.iter().map(String::as_str));
    // An argument may be a whole command: `sh -c 'execbox mcp'`.
    let words: Vec<&str> = arguments.flat_map(str::split_whitespace).collect();
    let is_name = |word: &str| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
        // `npx execbox@latest`, `uvx execbox==1.0`.
        let name = name.split(['@', '=']).next().unwrap_or_default();
        name.strip_suffix(".exe").unwrap_or(name) == "execbox"
    };
    words.windows(2).any(|pair| is_name(pair[0]) && pair[1] == "mcp")
}

/// `FILE:LINE:COLUMN: PATH` of a value.
fn place(node: &Node<'_>, file: Option<&str>) -> String {
    let ((line, column), path) = (node.position(), node.path());
    let file = file.map(|file| format!("{file}:")).unwrap_or_default();
    format!("{file}{line}:{column}: {path}")
}

fn string(node: Node<'_>) -> Result<Node<'_>, ConfigError> {
    node.string().map(|_| node)
}

/// Named strings. Numbers and booleans count as their text, and null means that the name is not set.
fn scalars<'a>(node: &Node<'a>) -> Result<Vec<(&'a str, Node<'a>)>, ConfigError> {
    node.members()?; // Finds duplicates.
    let check = |(name, value): (_, Node<'a>)| Ok((name, if value.is_null() { value } else { value.scalar()? }));
    node.entries()?.into_iter().map(check).collect()
}

/// Names of variables: strings, or objects with `name`.
fn inherited<'a>(node: &Node<'a>) -> Result<Vec<Node<'a>>, ConfigError> {
    let items = node.items("an array of names [\"NAME\", \"NAME\"]")?;
    let name = |item: Node<'a>| match item.is_object() {
        true => {
            item.members()?.into_iter().find(|(key, _)| *key == "name").map_or(string(item), |(_, name)| string(name))
        }
        false => string(item),
    };
    items.into_iter().map(name).collect()
}

fn results(node: &Node<'_>) -> Result<ResultFormat, ConfigError> {
    match node.string()? {
        "envelope" => Ok(ResultFormat::Envelope),
        "data" | "unwrapped" => Ok(ResultFormat::Data), // the old name of "data"
        _ => Err(node.error(Problem::InvalidValue { expected: "\"data\" or \"envelope\"" })),
    }
}

/// A version that servers are asked for by `initialize`.
fn protocol_version(node: &Node<'_>) -> Result<ProtocolVersion, ConfigError> {
    let text = node.string()?;
    let mut known = ProtocolVersion::KNOWN_VERSIONS.iter().filter(|version| version.has_initialize());
    let expected = "\"2025-11-25\", \"2025-06-18\", \"2025-03-26\" or \"2024-11-05\"";
    let version = known.find(|version| version.as_str() == text);
    version.cloned().ok_or_else(|| node.error(Problem::InvalidValue { expected }))
}

fn port(node: &Node<'_>) -> Result<u16, ConfigError> {
    node.number()?;
    let port = node.text().parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| node.error(Problem::InvalidValue { expected: "a port from 1 to 65535" }))
}

/// `30s`, `500ms`, `1m 30s`: the grammar of the command line, but with a unit.
pub(super) fn duration(node: &Node<'_>) -> Result<Duration, ConfigError> {
    let text = if node.is_number() { "" } else { node.string()? };
    let duration = humantime::parse_duration(text.trim()).ok().filter(|duration| !duration.is_zero());
    let expected = "a duration with a unit, such as \"500ms\", \"30s\" or \"2m\"";
    duration.ok_or_else(|| node.error(Problem::InvalidValue { expected }))
}

/// A number of seconds.
fn seconds(node: &Node<'_>) -> Result<Duration, ConfigError> {
    let duration = Duration::try_from_secs_f64(node.number()?).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| node.error(Problem::InvalidValue { expected: "a number of seconds" }))
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
        for line in [
            "execbox mcp",
            "/usr/bin/execbox mcp --config x",
            "npx -y execbox mcp",
            "uvx execbox@latest mcp",
            "C:\\b\\execbox.exe mcp",
        ] {
            assert!(is(line), "{line}");
        }
        for line in ["execbox", "execbox-mcp mcp", "mcp execbox", "execbox runner mcp"] {
            assert!(!is(line), "{line}");
        }
    }
}
