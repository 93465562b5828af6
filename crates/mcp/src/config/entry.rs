//! One entry of a configuration: an MCP server, where it is, and what of it is used.

use std::time::Duration;

use super::node::Node;
use super::secret::Given;
use super::variables::{Used, expand};
use super::{ConfigError, Place, Problem, ServerConfig, Trouble};
use crate::filter::Pattern;
use crate::upstream::Results;

type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The outer error is one of the file, the inner one only of this server.
pub(super) fn read(
    name: &str,
    node: &Node<'_>,
    variables: Variables<'_>,
) -> Result<Result<ServerConfig, Trouble>, ConfigError> {
    let raw = RawEntry::read(node)?;
    raw.check(node)?;
    Ok(raw.server(name, variables))
}

/// What stands in the file, shapes checked. Keys that are not known are those of clients.
#[derive(Default)]
struct RawEntry<'a> {
    disabled: bool,
    kind: Option<&'a str>,
    command: Option<Node<'a>>,
    args: Vec<Node<'a>>,
    env: Vec<(&'a str, Node<'a>)>,
    directory: Option<Node<'a>>,
    url: Option<Node<'a>>,
    headers: Vec<(&'a str, Node<'a>)>,
    allow: Vec<Node<'a>>,
    deny: Vec<Node<'a>>,
    timeout: Option<Duration>,
    results: Results,
}

impl<'a> RawEntry<'a> {
    fn read(node: &Node<'a>) -> Result<Self, ConfigError> {
        let mut raw = Self::default();
        for (key, value) in node.members()? {
            if value.is_null() {
                continue; // As good as not there.
            }
            match key {
                "disabled" => raw.disabled |= value.boolean()?,
                "enabled" => raw.disabled |= !value.boolean()?,
                "type" | "transport" => raw.kind = Some(value.string()?),
                "command" => raw.command = Some(checked(value)?),
                "args" => raw.args = value.strings()?,
                "env" => raw.env = texts(&value)?,
                "cwd" => raw.directory = Some(checked(value)?),
                "url" | "serverUrl" | "httpUrl" => raw.url = Some(checked(value)?),
                "headers" => raw.headers = texts(&value)?,
                "allow" | "includeTools" | "enabledTools" => raw.allow.extend(value.strings()?),
                "deny" | "excludeTools" | "disabledTools" => raw.deny.extend(value.strings()?),
                // Clients write numbers here, of seconds or of milliseconds.
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
            (None, None) => Err(node.error(Problem::NoCommand)),
            (Some(command), None) if command.string()?.trim().is_empty() => Err(command.error(Problem::NoCommand)),
            _ => Ok(()),
        }
    }

    fn server(self, name: &str, variables: Variables<'_>) -> Result<ServerConfig, Trouble> {
        if self.disabled {
            return Err(Trouble::Disabled);
        }
        if self.kind.is_some_and(|kind| kind.eq_ignore_ascii_case("sse")) {
            return Err(Trouble::Sse);
        }
        let mut reader = Reader { variables, given: Given::default(), used: Used::new() };
        let place = match &self.url {
            Some(url) => self.web(url, &mut reader)?,
            None => self.program(&mut reader)?,
        };
        // Under the variables' own names first: those are what a reader of `${NAME}` knows.
        let mut given = Given::default();
        reader.used.iter().for_each(|(name, value)| given.add(name, value));
        given.append(reader.given);
        let mut server = ServerConfig::new(name, place, given.into_secrets());
        let patterns = |nodes: &[Node<'_>]| nodes.iter().map(|node| Pattern::new(node.text())).collect();
        server.filter.allow = patterns(&self.allow);
        server.filter.deny = patterns(&self.deny);
        server.call_timeout = self.timeout;
        server.results = self.results;
        Ok(server)
    }

    fn program(&self, reader: &mut Reader<'_>) -> Result<Place, Trouble> {
        let command = self.command.as_ref().map_or(Ok(String::new()), |command| reader.text(command))?;
        let args: Vec<String> = self.args.iter().map(|arg| reader.text(arg)).collect::<Result<_, _>>()?;
        if is_execbox(&command, &args) {
            return Err(Trouble::Itself);
        }
        reader.given.add_arguments(&args);
        let env = reader.texts(&self.env)?;
        let directory = self.directory.as_ref().map(|directory| reader.text(directory)).transpose()?;
        Ok(Place::Program { command, args, env, directory: directory.map(Into::into) })
    }

    fn web(&self, url: &Node<'_>, reader: &mut Reader<'_>) -> Result<Place, Trouble> {
        let key = url.path().to_owned();
        let url = reader.text(url)?;
        check_url(&url).map_err(|()| Trouble::Url { key })?;
        reader.given.add_address(&url);
        Ok(Place::Http { url, headers: reader.texts(&self.headers)? })
    }
}

/// Whether servers can be there at all.
pub(super) fn check_url(url: &str) -> Result<(), ()> {
    let parsed: http::Uri = url.parse().map_err(|_| ())?;
    let is_web = matches!(parsed.scheme_str(), Some("http" | "https"));
    if is_web && parsed.host().is_some_and(|host| !host.is_empty()) { Ok(()) } else { Err(()) }
}

/// Expands texts, and remembers what they were made of.
struct Reader<'a> {
    variables: Variables<'a>,
    used: Used,
    given: Given,
}

impl Reader<'_> {
    fn text(&mut self, node: &Node<'_>) -> Result<String, Trouble> {
        expand(node.text(), node.path(), self.variables, &mut self.used)
    }

    fn texts(&mut self, named: &[(&str, Node<'_>)]) -> Result<Vec<(String, String)>, Trouble> {
        let texts = named.iter().map(|(name, node)| {
            let value = self.text(node)?;
            self.given.add(name, &value);
            Ok(((*name).to_owned(), value))
        });
        texts.collect()
    }
}

/// `execbox mcp`, however it is started (`npx execbox mcp`, `/opt/bin/execbox mcp`): to start it from itself would
/// never end.
pub(super) fn is_execbox(program: &str, args: &[String]) -> bool {
    let arguments = std::iter::once(program).chain(args.iter().map(String::as_str));
    // An argument may be a command itself: `sh -c 'execbox mcp'`.
    let words: Vec<&str> = arguments.flat_map(str::split_whitespace).collect();
    let is_name = |word: &str| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
        name.strip_suffix(".exe").unwrap_or(name) == "execbox"
    };
    words.windows(2).any(|pair| is_name(pair[0]) && pair[1] == "mcp")
}

fn checked(node: Node<'_>) -> Result<Node<'_>, ConfigError> {
    node.string().map(|_| node)
}

fn texts<'a>(node: &Node<'a>) -> Result<Vec<(&'a str, Node<'a>)>, ConfigError> {
    let members = node.members()?;
    members.iter().try_for_each(|(_, value)| value.string().map(drop))?;
    Ok(members)
}

fn results(node: &Node<'_>) -> Result<Results, ConfigError> {
    match node.string()? {
        "envelope" => Ok(Results::Envelope),
        "unwrapped" => Ok(Results::Unwrapped),
        _ => Err(node.error(Problem::Word { expected: "\"envelope\" or \"unwrapped\"" })),
    }
}

/// `30s`, `500ms`, `2m`.
fn duration(node: &Node<'_>) -> Result<Duration, ConfigError> {
    let text = node.string()?.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let parsed = number.parse::<u64>().ok().zip(match unit.trim() {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    });
    let milliseconds = parsed.and_then(|(number, unit)| number.checked_mul(unit)).filter(|&time| time > 0);
    let expected = "a time with its unit, as \"500ms\", \"30s\" or \"2m\"";
    milliseconds.map(Duration::from_millis).ok_or_else(|| node.error(Problem::Word { expected }))
}

#[cfg(test)]
mod tests {
    use super::is_execbox;

    #[test]
    fn execbox_knows_itself() {
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
