//! The command line, as it was typed. What the words mean is for [`crate::run`] to find out, so that
//! every complaint about them is one line of the same kind.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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

    /// Run programs for a host: the runner protocol on standard input and output
    ///
    /// Reads one JSON object per line from standard input (`execute`, `tool_result`, `cancel`) and writes
    /// one per line to standard output (`started`, `tool_call`, `done`); nothing else is ever written
    /// there. One program at a time, any number one after another. The tools are the host's. The end of
    /// standard input ends the runner, and a program that still runs.
    #[command(after_help = RUNNER_EXAMPLE)]
    Runner,
}

const RUNNER_EXAMPLE: &str = "\
Example (a host that has no tools, and waits a second for the answer):
  (echo '{\"type\":\"execute\",\"id\":\"1\",\"code\":\"6 * 7\",\"options\":{},\"providers\":[]}'; sleep 1) | execbox runner";

/// What `execbox run` is given.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The program; `-`, or nothing in a pipe, reads standard input
    #[arg(value_name = "FILE", conflicts_with = "eval")]
    pub(crate) file: Option<PathBuf>,

    /// Run this code instead of a file
    #[arg(short, long, value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) eval: Option<String>,

    /// Grant the stub tools of this file, which give canned answers (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Vec<PathBuf>,

    /// Print the whole result (outcome, logs, duration) as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Do not show what the program logs
    #[arg(short, long)]
    pub(crate) quiet: bool,

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
}

const EXAMPLES: &str = "\
Examples:
  execbox run program.ts
  execbox run -e '[1, 2, 3].map(x => x * x)'
  execbox run --help";

const RUN_EXAMPLES: &str = "\
Examples:
  execbox run program.ts --tools tools.json
  execbox run -e '[1, 2, 3].map(x => x * x)'
  echo '6 * 7' | execbox run --json --timeout 500ms --memory 16MiB

`--help` also tells the exit codes and the format of tools files.";

const RUN_LONG_HELP: &str = r#"Examples:
  execbox run program.ts --tools tools.json
  execbox run -e '[1, 2, 3].map(x => x * x)'
  echo '6 * 7' | execbox run --json --timeout 500ms --memory 16MiB

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
