//! What the commands that work with MCP servers are given, and their help.

use std::path::PathBuf;

use clap::Args;

use super::LimitArguments;

/// Which MCP servers, and what of them.
#[derive(Debug, Args)]
#[command(next_help_heading = "MCP servers")]
pub(crate) struct ServerArguments {
    /// Use the MCP servers of this file, in the format of MCP clients: `mcpServers` (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,

    /// Use one more: `NAME=COMMAND WITH ARGUMENTS`, started without a shell, or `NAME=https://…` (may be repeated)
    #[arg(long, value_name = "NAME=SERVER")]
    pub(crate) server: Vec<String>,

    /// Import only matching tools of a server: `github.get_*`; `*` matches any text (may be repeated)
    #[arg(long, value_name = "SERVER.TOOL")]
    pub(crate) allow: Vec<String>,

    /// Hide matching tools; overrides --allow; `*.delete_*` applies to all servers (may be repeated)
    #[arg(long, value_name = "SERVER.TOOL")]
    pub(crate) deny: Vec<String>,
}

/// What `execbox mcp` is given.
#[derive(Debug, Args)]
#[command(mut_arg("timeout", |argument| argument.help(TIMEOUT)))]
pub(crate) struct McpArguments {
    /// Also grant the stub tools of this file, which give canned answers (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Vec<PathBuf>,

    /// Where code runs: process, worker, inline or remote=ADDRESS [default: process]
    #[arg(long, value_name = "WHERE")]
    pub(crate) executor: Option<String>,

    /// Show a remote runner the token in this file (or in `EXECBOX_TOKEN`)
    #[arg(long, value_name = "FILE", requires = "executor")]
    pub(crate) executor_token_file: Option<PathBuf>,

    /// Say on standard error only what has failed
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Let the servers that are started write to standard error, too
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    #[command(flatten)]
    pub(crate) servers: ServerArguments,

    /// Listen at this address instead, for many clients: `127.0.0.1:8080`; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", help_heading = "HTTP")]
    pub(crate) http: Option<String>,

    /// Serve clients that show the token in this file (or in `EXECBOX_TOKEN`), and nobody else
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "HTTP")]
    pub(crate) token_file: Option<PathBuf>,

    /// Clients reach it by this name, too: `box.example.com` (may be repeated)
    #[arg(long, value_name = "HOST", requires = "http", help_heading = "HTTP")]
    pub(crate) allow_host: Vec<String>,

    /// Serve web pages of this origin: `https://app.example.com:443` (may be repeated)
    #[arg(long, value_name = "ORIGIN", requires = "http", help_heading = "HTTP")]
    pub(crate) allow_origin: Vec<String>,

    /// Which tools the client has: `split` (search, and run code), `single` (run code, with the types in its
    /// description) or `both` [default: both]
    #[arg(long, value_name = "LAYOUT", help_heading = "The client's tools")]
    pub(crate) layout: Option<String>,

    /// The name of the tool that searches [default: `mcp_search_tools`]
    #[arg(long, value_name = "NAME", help_heading = "The client's tools")]
    pub(crate) search_name: Option<String>,

    /// The name of the tool that runs code [default: `mcp_execute_code`]
    #[arg(long, value_name = "NAME", help_heading = "The client's tools")]
    pub(crate) execute_name: Option<String>,

    /// The name of the tool that runs code and carries the types [default: `mcp_code`]
    #[arg(long, value_name = "NAME", help_heading = "The client's tools")]
    pub(crate) code_name: Option<String>,

    #[command(flatten)]
    pub(crate) limits: LimitArguments,
}

/// What `execbox tools` is given.
#[derive(Debug, Args)]
pub(crate) struct ToolsArguments {
    /// Words to look for, best first; without them, all tools are listed
    #[arg(value_name = "QUERY")]
    pub(crate) query: Vec<String>,

    /// Only tools of this namespace
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// At most so many
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) limit: Option<String>,

    /// Print one line of JSON, with signatures
    #[arg(long)]
    pub(crate) json: bool,

    /// Also those of this file of stub tools (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) servers: ServerArguments,
}

/// What `execbox types` is given.
#[derive(Debug, Args)]
pub(crate) struct TypesArguments {
    /// Only these namespaces
    #[arg(value_name = "NAMESPACE")]
    pub(crate) namespaces: Vec<String>,

    /// Also those of this file of stub tools (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) servers: ServerArguments,
}

/// The same option as elsewhere, with another default: tools may be far away.
const TIMEOUT: &str = "Stop code after this time, that of its tools included: `2s`, `1m`; a plain number is \
    milliseconds [default: 30s]";

pub(super) const MCP_EXAMPLES: &str = "\
Examples:
  execbox mcp --config ~/.cursor/mcp.json
  execbox mcp --server 'files=npx -y @modelcontextprotocol/server-filesystem /work' --deny 'files.write_*'

`--help` also tells how a client is set up, and the format of configurations.";

pub(super) const MCP_LONG_HELP: &str = r#"Examples:
  execbox mcp --config ~/.cursor/mcp.json
  execbox mcp --server 'files=npx -y @modelcontextprotocol/server-filesystem /work' --deny 'files.write_*'
  execbox mcp --config servers.json --layout single --timeout 1m
  execbox mcp --config servers.json --http 127.0.0.1:8080

In a client's own configuration, instead of all other servers:
  { "mcpServers": { "execbox": { "command": "execbox", "args": ["mcp", "--config", "/path/to/servers.json"] } } }

Configurations:
  The files of MCP clients as they are (`mcpServers`; `servers` in VS Code), comments and trailing commas
  included. Of each server, with what execbox adds:

  { "mcpServers": {
      "github": {
        "command": "npx", "args": ["-y", "some-github-server"], "env": { "TOKEN": "${GITHUB_TOKEN}" }, "cwd": "/work",
        "allow": ["get_*", "list_*"],   // only these tools
        "deny": ["*_secret"],           // never these, even if allowed
        "timeout": "30s",               // of each call; 2m if left out
        "results": "unwrapped"          // tools give their data, and throw; otherwise MCP's envelope
      },
      "tickets": { "url": "https://tickets.example.com/mcp", "headers": { "Authorization": "Bearer ${TICKETS}" } }
  } }

  `${NAME}` and `${NAME:-default}` are environment variables. `"disabled": true` leaves a server out, and so does
  being `execbox mcp` itself. Each server is a namespace: `my-server` becomes `my_server`; names that collide are
  numbered. A server that is started gets PATH, HOME and the like of the environment, and what `env` names.

Secrets:
  The variables that a server uses, its `env` and its `headers` are hidden from results, errors and descriptions
  (as `${NAME}`), unless they are plain: paths, short numbers, words, addresses without passwords.

A server that cannot be reached is told on standard error, and takes none of the others down; it is tried again
when the client next asks for something.

Exit codes:
  0    the client has ended the connection, or SIGTERM or Ctrl-C has ended it
  2    bad usage, or a bad configuration
  4    execbox failed"#;

pub(super) const TOOLS_EXAMPLES: &str = "\
Examples:
  execbox tools --config ~/.cursor/mcp.json
  execbox tools --config servers.json create issue
  execbox tools --server 'time=uvx mcp-server-time' --json

Exit codes:
  0    the tools are listed
  1    they are, but for those of a server that cannot be reached
  2    bad usage, or a bad configuration
  4    the list could not be written";

pub(super) const TYPES_EXAMPLES: &str = "\
Examples:
  execbox types --config ~/.cursor/mcp.json > tools.d.ts
  execbox types --config servers.json github

Exit codes: those of `execbox tools`.";
