//! The command line, as it was typed. What the words mean is for the commands to find out, so that
//! every complaint about them is one line of the same kind.

mod run_code;
mod servers;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use self::run_code::RunCodeArguments;
use self::run_code::{RUN_CODE_EXAMPLES, RUN_CODE_LONG_HELP};
use self::servers::{MCP_EXAMPLES, MCP_LONG_HELP, TOOLS_EXAMPLES, TYPES_EXAMPLES};
pub(crate) use self::servers::{McpArguments, ServerArguments, ToolsArguments, TypesArguments};

/// Runs JavaScript and TypeScript written by language models, in a sandbox, next to real tools.
#[derive(Debug, Parser)]
#[command(name = "execbox", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one program and print its result
    ///
    /// The result is printed to standard output as JSON. What the program logs goes to standard error as
    /// it comes, and so does its error if it fails. The program has no files, no network, no timers and
    /// no environment: it can call the tools that it is granted, and nothing else.
    #[command(after_help = RUN_EXAMPLES, after_long_help = RUN_LONG_HELP)]
    Run(RunArguments),

    /// Run one ES module, with further modules and values that it is given, and print its result
    ///
    /// The program is a module; its result is one of its exports, called if it is a function. The result is
    /// printed to standard output; what the program reports goes to standard error as it comes, and what it
    /// logs, and its error if it fails, when it is over. The program has no files, no network, no timers and
    /// no environment: it can use what the command line gives it, and nothing else.
    #[command(after_help = RUN_CODE_EXAMPLES, after_long_help = RUN_CODE_LONG_HELP)]
    RunCode(RunCodeArguments),

    /// Put MCP servers behind one that runs code: an MCP server on standard input and output, or over HTTP
    ///
    /// A client that is given this server instead of the others sees three tools: one searches the tools of all
    /// servers, the others run code that calls them, in a sandbox. What the code does not return stays out of the
    /// model's context.
    #[command(after_help = MCP_EXAMPLES, after_long_help = MCP_LONG_HELP)]
    Mcp(McpArguments),

    /// List or search the tools of MCP servers
    #[command(after_help = TOOLS_EXAMPLES)]
    Tools(ToolsArguments),

    /// Print the tools of MCP servers as TypeScript declarations
    #[command(after_help = TYPES_EXAMPLES)]
    Types(TypesArguments),

    /// Run programs for hosts: the runner protocol
    ///
    /// On standard input and output, or for everybody who connects to where it listens. It reads one JSON
    /// object per line (`execute`, `tool_result`, `cancel`) and writes one per line (`started`,
    /// `tool_call`, `done`); nothing else is ever written to standard output. One program at a time on a
    /// connection, any number one after another. The tools are the host's.
    ///
    /// The end of standard input ends the runner, and a program that still runs. SIGTERM and Ctrl-C drain
    /// it: no program begins any more, and those that run have `--drain` left; a second one ends it at once.
    #[command(after_help = RUNNER_EXAMPLES)]
    Runner(RunnerArguments),

    /// Test a runner, written in whatever language, against the specification
    ///
    /// Plays the host in short conversations with the runner, each with a process or a connection of its
    /// own, and reports where the runner does not say what the specification demands.
    #[command(after_help = CONFORM_EXAMPLES)]
    Conform(ConformArguments),
}

/// What `execbox runner` is given.
#[derive(Debug, Args)]
pub(crate) struct RunnerArguments {
    /// Listen there instead: `tcp:127.0.0.1:7000`, `unix:PATH`, `ws://127.0.0.1:7000`; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,

    /// Serve hosts that show the token in this file (or in `EXECBOX_TOKEN`), and nobody else
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) token_file: Option<PathBuf>,

    /// Serve at most so many hosts at once; more have to wait [default: 256]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, requires = "listen")]
    pub(crate) max_connections: Option<String>,

    /// How long running programs have left when the runner is to stop [default: 5s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) drain: Option<String>,
}

const RUNNER_EXAMPLES: &str = "\
Examples:
  execbox runner --listen unix:/run/user/1000/execbox.sock
  execbox runner --listen ws://0.0.0.0:7000 --token-file token.txt

A host that has no tools, and waits a second for the answer:
  (echo '{\"type\":\"execute\",\"id\":\"1\",\"code\":\"6 * 7\",\"options\":{},\"providers\":[]}'; sleep 1) | execbox runner";

/// What `execbox run` is given.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) program: ProgramArguments,

    /// Grant the stub tools of this file, which give canned answers (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) place: PlaceArguments,

    /// Print the whole result (outcome, logs, duration) as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Do not show what the program logs
    #[arg(short, long)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) servers: ServerArguments,

    #[command(flatten)]
    pub(crate) limits: LimitArguments,
}

/// Which program.
#[derive(Debug, Args)]
pub(crate) struct ProgramArguments {
    /// The program; `-`, or nothing in a pipe, reads standard input
    #[arg(value_name = "FILE", conflicts_with = "eval")]
    pub(crate) file: Option<PathBuf>,

    /// Run this code instead of a file
    #[arg(short, long, value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) eval: Option<String>,
}

/// Where it runs.
#[derive(Debug, Args)]
pub(crate) struct PlaceArguments {
    /// Where it runs: inline, worker, process or remote=ADDRESS [default: inline]
    #[arg(long, value_name = "WHERE")]
    pub(crate) executor: Option<String>,

    /// Show a remote runner the token in this file (or in `EXECBOX_TOKEN`)
    #[arg(long, value_name = "FILE", requires = "executor")]
    pub(crate) token_file: Option<PathBuf>,
}

/// What it is held to.
#[derive(Debug, Args)]
pub(crate) struct LimitArguments {
    /// Stop the program after this time: `2s`, `500ms`; a plain number is milliseconds [default: 5s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, help_heading = "Limits")]
    pub(crate) timeout: Option<String>,

    /// Stop it when it uses more memory: `64MiB`, `1GB`; a plain number is bytes [default: 64MiB]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Limits")]
    pub(crate) memory: Option<String>,

    /// Keep this many lines of its log, the earliest [default: 100]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, help_heading = "Limits")]
    pub(crate) max_log_lines: Option<String>,

    /// Keep this many characters of its log [default: 64000]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, help_heading = "Limits")]
    pub(crate) max_log_chars: Option<String>,

    /// Refuse a longer source, and longer modules: `8MiB`; a plain number is bytes [default: 4MiB]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Limits")]
    pub(crate) max_source: Option<String>,
}

/// What `execbox conform` is given.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // Each is a flag of its own.
pub(crate) struct ConformArguments {
    /// Start the runner by this command, anew for each case; it speaks on its standard input and output
    #[arg(value_name = "COMMAND", last = true, conflicts_with = "connect")]
    pub(crate) command: Vec<OsString>,

    /// Connect to the runner at `tcp:HOST:PORT`, `unix:PATH` or `ws://HOST:PORT`, anew for each case
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) connect: Option<String>,

    /// Show the runner the token in this file (or in `EXECBOX_TOKEN`)
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub(crate) token_file: Option<PathBuf>,

    /// Play the cases of this directory instead of the built-in ones
    #[arg(long, value_name = "DIR", help_heading = "Cases")]
    pub(crate) cases: Option<PathBuf>,

    /// Play only cases with this text in their names (may be repeated)
    #[arg(long, value_name = "TEXT", help_heading = "Cases")]
    pub(crate) only: Vec<String>,

    /// Also play the cases of what Execbox does beyond the specification
    #[arg(long, help_heading = "Cases")]
    pub(crate) extensions: bool,

    /// List the cases, and play none
    #[arg(long, help_heading = "Cases")]
    pub(crate) list: bool,

    /// Fail by what is recommended, too, and not only by what is demanded
    #[arg(long, help_heading = "Verdict")]
    pub(crate) strict: bool,

    /// Pass over the failures in this file, one case and its reason a line; fail if one of them passes
    #[arg(long, value_name = "FILE", help_heading = "Verdict")]
    pub(crate) known: Option<PathBuf>,

    /// Print the report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Play this many cases at once
    #[arg(long, value_name = "COUNT", default_value = "4", allow_negative_numbers = true)]
    pub(crate) jobs: String,

    /// Multiply the times that the runner is given by this factor: `3` for a slow one
    #[arg(long, value_name = "FACTOR", default_value = "1", allow_negative_numbers = true)]
    pub(crate) patience: String,
}

const CONFORM_EXAMPLES: &str = "\
Examples:
  execbox conform -- node my-runner.js
  execbox conform --connect tcp:localhost:7000 --only logs --only truncation
  execbox conform --list

Exit codes:
  0    the runner does what is demanded
  1    it does not
  2    bad usage, a bad case, or no runner to be reached
  4    the report could not be written";

const EXAMPLES: &str = "\
Examples:
  execbox run program.ts
  execbox mcp --config ~/.cursor/mcp.json
  execbox run -e '[1, 2, 3].map(x => x * x)'
  execbox run --help";

const RUN_EXAMPLES: &str = "\
Examples:
  execbox run program.ts --tools tools.json
  execbox run -e '[1, 2, 3].map(x => x * x)'
  echo '6 * 7' | execbox run --json --timeout 500ms --memory 16MiB
  execbox run program.ts --config ~/.cursor/mcp.json --timeout 1m
  execbox run program.ts --executor remote=tcp:127.0.0.1:7000

`--help` also tells the exit codes and the format of tools files.";

const RUN_LONG_HELP: &str = r#"Examples:
  execbox run program.ts --tools tools.json
  execbox run -e '[1, 2, 3].map(x => x * x)'
  echo '6 * 7' | execbox run --json --timeout 500ms --memory 16MiB
  execbox run program.ts --config ~/.cursor/mcp.json --timeout 1m

Executors:
  inline            in this process, on its one thread
  worker            in this process, on a thread of its own
  process           in a child process that is killed if it does not stop
  remote=ADDRESS    at a runner that listens there: tcp:HOST:PORT, unix:PATH or ws://HOST:PORT

Programs:
  Whatever models write is run: an expression, statements (the last expression is the result), a
  top-level `return`, one function, `export default`, TypeScript, a fenced Markdown block.

Tools files:
  Each provider is a global of the program, each tool an async function of it. The first answer
  whose `when` is contained in the input is given; an answer without `when` fits every input.

  { "providers": { "shop": { "tools": { "list-orders": {
      "description": "Lists the orders of a shop",
      "input":  { "type": "object", "properties": { "status": { "type": "string" } } },
      "output": { "type": "array" },
      "answers": [
        { "when": { "status": "open" }, "returns": [{ "id": 7 }] },
        { "when": { "status": "lost" }, "fails": "there is no such status" },
        { "returns": [] }
      ],
      "delay": "20ms"
  } } } } }

  `description`, `input`, `output` (JSON Schemas, checked) and `delay` may be left out; `$comment` may
  stand anywhere. A name that is no identifier is changed into one: `shop.list_orders(…)`.

Exit codes:
  0    the program succeeded
  1    the program failed (runtime_error, tool_error, validation_error, serialization_error)
  2    bad usage or bad input; nothing was run
  3    the program was stopped by a limit (timeout, memory_limit)
  4    execbox failed (internal_error, or the result could not be written)
  130  interrupted by Ctrl-C; a second Ctrl-C ends it at once

NO_COLOR, if set, turns colours off."#;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
