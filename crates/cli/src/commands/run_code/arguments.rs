//! The arguments and the help of `execbox run-code`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use execbox::Limits;
use execbox::code::CodeExecutionOptions;

use crate::files::source::ProgramArguments;
use crate::options::executor::ExecutorArguments;
use crate::options::limits::LimitArguments;
use crate::options::units::{Time, UnitError};

/// Run an ES module and print its result
///
/// The result is an export of the module, called if it is a function. Prints the result to standard output; what the
/// program reports and logs to standard error as it runs, followed by its error if it fails, and its status. The program
/// has no files, no network, no timers and no environment: it can use what the command line gives it, and nothing else.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = long_help(),
    mut_arg("max_log_chars", |arg| arg.long("max-log-bytes").alias("max-log-chars").help("Keep the first COUNT bytes of its log")),
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) program: ProgramArguments,

    /// Call this export [default: default]
    #[arg(long = "fn", value_name = "NAME", allow_hyphen_values = true)]
    pub(super) function: Option<String>,

    /// Call it with the arguments in this JSON array, or in `@FILE`
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(super) args: Option<String>,

    /// Provide the modules in DIR: each .js, .ts, .mjs and .mts file below it, as `./lib/x.ts`
    #[arg(long, value_name = "DIR", help_heading = "Modules and values")]
    pub(super) modules: Option<PathBuf>,

    /// Define a global in every module; `NAME=@FILE` reads the value from a file (repeatable)
    #[arg(long, value_name = "NAME=JSON", help_heading = "Modules and values")]
    pub(super) global: Vec<String>,

    /// Provide a module NAME with the exports in a JSON object (repeatable)
    #[arg(long, value_name = "NAME=JSON", help_heading = "Modules and values")]
    pub(super) import: Vec<String>,

    /// Provide the stub tools in FILE: each provider is a module of async functions (repeatable)
    #[arg(long, value_name = "FILE", help_heading = "Modules and values")]
    pub(super) tools: Vec<PathBuf>,

    /// Read options from a JSON file; options of the command line override it
    #[arg(long, value_name = "FILE")]
    pub(super) options: Option<PathBuf>,

    /// Name the program in errors and for its imports [default: FILE, relative to DIR]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(super) filename: Option<String>,

    /// Parse the program as this language [default: typescript]
    #[arg(long, value_name = "LANGUAGE", hide_short_help = true, value_parser = ["typescript", "javascript"])]
    pub(super) language: Option<String>,

    /// Print the whole result (status, reports, logs, error) as one line of JSON, and nothing else
    #[arg(long)]
    pub(super) json: bool,

    /// Print only the result or the error: no reports, no log, no status
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Terminate the run after TIME: `2s`, `500ms`; `none` for no limit
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, help_heading = "Limits", default_value_t = Budget(Some(Limits::default().timeout)))]
    pub(super) timeout: Budget,

    #[command(flatten)]
    pub(super) limits: LimitArguments,

    #[command(flatten)]
    pub(super) executor: ExecutorArguments,
}

/// A value of `--timeout`: a duration or `none`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget(pub(super) Option<Duration>);

impl FromStr for Budget {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "none" { Ok(Self(None)) } else { text.parse().map(|Time(budget)| Self(Some(budget))) }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(budget) => Time(budget).fmt(f),
            None => f.write_str("none"),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  execbox run-code main.ts --modules src --global rows=@rows.json
  execbox run-code -e 'export const f = (a, b) => a + b' --fn f --args '[1, 2]'
  echo 'export default new Map([[1, 2n]])' | execbox run-code --json

`--help` lists more options, the exit codes, and the notation of values.";

const LONG_HELP: &str = r#"Examples:
  execbox run-code main.ts --modules src --global rows=@rows.json
  execbox run-code -e 'export const f = (a, b) => a + b' --fn f --args '[1, 2]'
  echo 'export default new Map([[1, 2n]])' | execbox run-code --json

Programs:
  One ES module, in TypeScript or JavaScript. The result is the export that
  `--fn` names: if it is a function, its return value; if that is a promise,
  its resolution. `console` logs and `report(value)` reports; a global
  `console` or `report` that is given replaces them.

Modules:
  `--modules src` provides src/lib/math.ts as './lib/math.ts'. Nothing else
  can be imported. Symbolic links, names that begin with a dot, `node_modules`
  and the program itself are skipped.

Values:
  Values are JSON, with tags for values outside of JSON: {"$bigint": "1"},
  {"$date": 0}, {"$map": [["key", 1]]}, {"$set": [1]}, {"$number": "NaN"},
  {"$undefined": true}, {"$bytes": "AQI="} (base64), {"$regexp": "a+",
  "flags": "g"}, {"$error": "TypeError", "message": "…"}; a key that begins
  with `$` is written with another `$` in front. `--json` prints results in
  the same notation. Without `--json`, values are printed as JSON where
  possible, and otherwise as JavaScript expressions.

Options files:
  An object with keys of CodeExecutionOptions, all optional:

  { "execute": { "fn": "total", "args": [[1, 2]] },
    "imports": { "config": { "rate": 1.5 } }, "globals": { "user": "Ada" },
    "modules": { "./lib/x.ts": "export const x = 1" },
    "language": "typescript", "filename": "main.ts",
    "memoryLimitBytes": 67108864 }

Tools files:
  As for `execbox run` (see `execbox run --help`). The tools of a provider are
  the exports of a module of its name: import { list_orders } from 'shop'.

Time:
  `--timeout` is a budget: when it is exhausted, the run is terminated. With
  `--timeout none`, the safety cap of {SAFETY_CAP} applies.

Exit codes:
  0    the program succeeded
  1    the program failed or does not link (error, link_error)
  2    bad usage or bad input; nothing was run
  3    the program was stopped by a limit (memory, terminated)
  4    execbox failed (InternalError, or the result could not be written)
  130  interrupted by Ctrl-C; a second Ctrl-C ends the process at once

Environment:
  NO_COLOR              disables colors if set (see `--color`)
  EXECBOX_REMOTE_TOKEN  the token for a remote runner; else EXECBOX_TOKEN"#;

pub(super) fn safety_cap() -> Duration {
    CodeExecutionOptions::default_limits().timeout
}

fn long_help() -> String {
    LONG_HELP.replace("{SAFETY_CAP}", &Time(safety_cap()).to_string())
}
