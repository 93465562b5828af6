//! What `execbox run-code` is given, and its help.

use std::path::PathBuf;

use clap::Args;

use super::{LimitArguments, PlaceArguments, ProgramArguments};

/// What `execbox run-code` is given.
#[derive(Debug, Args)]
pub(crate) struct RunCodeArguments {
    #[command(flatten)]
    pub(crate) program: ProgramArguments,

    /// Execute this export [default: default]
    #[arg(long = "fn", value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) function: Option<String>,

    /// Call it with the arguments in this JSON array, or in `@FILE`
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) args: Option<String>,

    /// Give it the modules in this directory: every .js, .ts, .mjs and .mts file below it, as `./lib/x.ts`
    #[arg(long, value_name = "DIR", help_heading = "Modules and values")]
    pub(crate) modules: Option<PathBuf>,

    /// Give every module a global of this name and value; `NAME=@FILE` reads a file (may be repeated)
    #[arg(long, value_name = "NAME=JSON", help_heading = "Modules and values")]
    pub(crate) global: Vec<String>,

    /// Give it a module of values, imported by this name; an object of exports (may be repeated)
    #[arg(long, value_name = "NAME=JSON", help_heading = "Modules and values")]
    pub(crate) import: Vec<String>,

    /// Give it the stub tools of this file: each provider is a module of async functions (may be repeated)
    #[arg(long, value_name = "FILE", help_heading = "Modules and values")]
    pub(crate) tools: Vec<PathBuf>,

    /// Take the options in this JSON file; those of the command line override it
    #[arg(long, value_name = "FILE")]
    pub(crate) options: Option<PathBuf>,

    /// Name the program, in errors and for its imports [default: FILE's name; from DIR if it lies there]
    #[arg(long, value_name = "NAME")]
    pub(crate) filename: Option<String>,

    /// What the program is written in: typescript or javascript [default: typescript]
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) language: Option<String>,

    #[command(flatten)]
    pub(crate) place: PlaceArguments,

    /// Print the whole result (status, reports, logs, error, duration) as one line of JSON, and nothing else
    #[arg(long)]
    pub(crate) json: bool,

    /// Show the result or the error alone: no reports, no log, no status
    #[arg(short, long)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) limits: LimitArguments,
}

pub(super) const RUN_CODE_EXAMPLES: &str = "\
Examples:
  execbox run-code main.ts --modules src --global rows=@rows.json
  execbox run-code -e 'export const add = (a, b) => a + b' --fn add --args '[1, 2]'
  echo 'export default new Map([[1, 2n]])' | execbox run-code --json

`--help` also tells the exit codes, how values are written, and the format of options files.";

pub(super) const RUN_CODE_LONG_HELP: &str = r#"Examples:
  execbox run-code main.ts --modules src --global rows=@rows.json
  execbox run-code -e 'export const add = (a, b) => a + b' --fn add --args '[1, 2]'
  echo 'export default new Map([[1, 2n]])' | execbox run-code --json

Programs:
  One ES module, in TypeScript or JavaScript. The result is the export that `--fn` names: what calling it
  gives if it is a function, and what that comes to if it is a promise. `console` logs, `report(value)`
  reports; a global of either name that is given takes its place.

Modules:
  `--modules src` gives src/lib/math.ts as './lib/math.ts'. Only what is given can be imported. Symbolic
  links, names that begin with a dot, and `node_modules` are passed over; the program itself is not among
  them.

Values:
  Values are JSON, or JSON with tags for what it cannot say: {"$bigint": "1"}, {"$date": 0}, {"$map":
  [["key", 1]]}, {"$set": [1]}, {"$number": "NaN"}, {"$undefined": true}, {"$bytes": "AQI="} (base64),
  {"$regexp": "a+", "flags": "g"}, {"$error": "TypeError", "message": "…"}; a key that begins with `$` is
  written with another `$` in front. `--json` prints results in the same way. Without it, what JSON can say
  is printed as JSON, and the rest as JavaScript writes it.

Options files:
  An object with any of the keys of CodeExecutionOptions:

  { "execute": { "fn": "total", "args": [[1, 2]] },
    "imports": { "config": { "rate": 1.5 } }, "globals": { "user": "Ada" },
    "modules": { "./lib/x.ts": "export const x = 1" },
    "language": "typescript", "memoryLimitBytes": 67108864, "filename": "main.ts" }

Tools files:
  As for `execbox run` (see `execbox run --help`). The tools of a provider are the exports of a module of
  its name: import { list_orders } from 'shop'.

Time:
  `--timeout` is a budget: when it is spent, the run is terminated. `--timeout none` leaves it to the
  safety cap of 5 minutes.

Exit codes:
  0    the program succeeded
  1    the program failed, or does not link (error, link_error)
  2    bad usage or bad input; nothing was run
  3    the program was stopped by a limit (memory, terminated)
  4    execbox failed (an InternalError of its own, or the result could not be written)
  130  interrupted by Ctrl-C; a second Ctrl-C ends it at once

NO_COLOR, if set, turns colours off."#;
