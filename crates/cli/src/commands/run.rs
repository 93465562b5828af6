//! `execbox run`: runs one program.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use execbox::{
    CancellationToken, Cause, ErrorCode, ExecuteError, ExecuteRequest, ExecuteResult, Executor, Limits, Provider,
};
use execbox_core::hint::near;
use execbox_mcp::config::Config;
use execbox_mcp::server::{CodeServer, OWN_NAMESPACES, ServerOptions};
use execbox_mcp::upstream::UpstreamOptions;
use execbox_mcp::{Secrets, Shapes};

use crate::error::{CommandError, SystemError};
use crate::exit::Exit;
use crate::files::source::{ProgramArguments, Source};
use crate::gateway::policy::{PolicyArguments, PolicySource};
use crate::gateway::tool_source::ToolSource;
use crate::options::executor::{ExecutorArguments, ExecutorConfig};
use crate::options::limits::{GATEWAY_TIMEOUT, LimitArguments};
use crate::options::servers::{self, Purpose, ServerArguments};
use crate::options::state::{self, StateFile};
use crate::options::stub;
use crate::options::units::Time;
use crate::output::report;
use crate::process::interrupt;

/// Run a program and print its result
///
/// Prints the result to standard output as JSON, and what the program logs to standard error as it runs, followed by
/// its error if it fails. The program has no files, no network, no timers and no environment: it can call the tools
/// that it is granted, and nothing else.
#[allow(clippy::struct_excessive_bools)] // one per flag
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = LONG_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program: ProgramArguments,

    /// Run the program as `execbox mcp` does: with `tools`, `store`, `snippets` and `results`
    #[arg(long)]
    gateway: bool,

    /// Use the values and snippets in FILE, that of `execbox mcp --state` [default: none, in memory]
    #[arg(long, value_name = "FILE", requires = "gateway")]
    state: Option<PathBuf>,

    /// Print the whole result (outcome, logs, duration, usage) as one line of JSON
    #[arg(long)]
    json: bool,

    /// Print what the program used: time, calls, memory, bytes
    #[arg(long)]
    usage: bool,

    /// Do not print the log
    #[arg(short, long)]
    quiet: bool,

    /// Give the program `setTimeout`, `setInterval` and `setImmediate`
    ///
    /// They wait within the limits.
    #[arg(long, hide_short_help = true)]
    timers: bool,

    /// Do not give the program `Intl`, `TextEncoder`, `TextDecoder`, `atob`, `btoa`, `self` and `eval`
    #[arg(long, hide_short_help = true)]
    no_common_globals: bool,

    /// Cancel calls that the program did not await when it returns, instead of waiting for them
    #[arg(long, hide_short_help = true)]
    cancel_unawaited: bool,

    #[command(flatten)]
    servers: ServerArguments,

    /// Grant the stub tools in FILE, which return fixed answers (repeatable)
    #[arg(long, value_name = "FILE", help_heading = "MCP servers")]
    tools: Vec<PathBuf>,

    /// Stop the program after TIME: `2s`, `500ms` [default: 5s; with `--gateway` 30s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, help_heading = "Limits")]
    timeout: Option<Time>,

    #[command(flatten)]
    limits: LimitArguments,

    #[command(flatten)]
    policy: PolicyArguments,

    #[command(flatten)]
    executor: ExecutorArguments,
}

pub(crate) fn run(arguments: Arguments) -> Result<Exit, CommandError> {
    let job = Job::new(arguments)?;
    let (executed, interrupted) = interrupt::cancel_on_interrupt(|cancellation| job.execute(cancellation));
    let mut result = executed?;
    job.secrets.redact_result(&mut result);
    let printed = if job.json { report::print_json(&result) } else { report::print_human(&result, &job.source) };
    printed.map_err(SystemError::Output)?;
    if !job.json && !job.quiet {
        report::note_dropped_logs(result.dropped_logs, result.logs.len(), &job.limits, "max-log-chars");
    }
    if job.usage {
        report::print_usage(&result.usage, result.duration);
    }
    Ok(match result.error() {
        Some(error) if interrupted && error.code == ErrorCode::Timeout => Exit::Interrupted,
        _ => Exit::of_script(&result),
    })
}

#[allow(clippy::struct_excessive_bools)] // one per flag
struct Job {
    source: Source,
    stubs: Vec<Provider>,
    config: Config,
    /// The secrets of the servers, which are redacted from what is printed.
    secrets: Secrets,
    policy: PolicySource,
    limits: Limits,
    executor: ExecutorConfig,
    /// Whether the program is one of a gateway.
    gateway: bool,
    /// The file of `--state`.
    state: Option<PathBuf>,
    json: bool,
    usage: bool,
    quiet: bool,
    cancel_unawaited: bool,
    timers: bool,
    common_globals: bool,
}

impl Job {
    fn new(arguments: Arguments) -> Result<Self, CommandError> {
        let default = if arguments.gateway { GATEWAY_TIMEOUT } else { Limits::default().timeout };
        let timeout = arguments.timeout.map_or(default, |timeout| timeout.0);
        let limits = arguments.limits.limits(Limits::default().timeout(timeout));
        let mut executor = ExecutorConfig::read(&arguments.executor, &limits)?;
        if arguments.gateway {
            executor = executor.with_max_programs(PROGRAMS);
        }
        let stubs = stub::load(&arguments.tools)?;
        let loaded = servers::read(&arguments.servers, &stubs, Purpose::Once)?;
        let policy = PolicySource::read(&arguments.policy, &loaded, &stubs)?;
        // The program is read last: it may be typed by hand, which would be lost if another argument is invalid.
        let source = Source::read(arguments.program)?;
        let Arguments { gateway, state, json, usage, quiet, cancel_unawaited, timers, no_common_globals, .. } =
            arguments;
        let common_globals = !no_common_globals;
        Ok(Self {
            source,
            stubs,
            config: loaded.config,
            secrets: Secrets::default(),
            policy,
            limits,
            executor,
            gateway,
            state,
            json,
            usage,
            quiet,
            cancel_unawaited,
            timers,
            common_globals,
        })
    }

    fn execute(&self, cancellation: CancellationToken) -> Result<ExecuteResult, CommandError> {
        let has_io = !self.config.servers.is_empty() || self.state.is_some();
        let executed = self.executor.run(has_io, async |executor| self.execute_on(executor, cancellation).await);
        executed.unwrap_or_else(|error| Ok(ExecuteResult::failed(error, Duration::ZERO)))
    }

    async fn execute_on(
        &self,
        executor: Arc<dyn Executor>,
        cancellation: CancellationToken,
    ) -> Result<ExecuteResult, CommandError> {
        let state = StateFile::open_option(self.state.as_deref()).await?;
        let shapes = self.gateway.then(Shapes::default);
        let servers = UpstreamOptions::default().secrets(self.secrets.clone()).shapes(shapes.clone());
        let servers = servers::start(&self.config, servers, None);
        let used = servers::used_namespaces(&self.config, &self.source.code, self.gateway);
        let is_used = |namespace: &str| used.iter().any(|name| name == namespace);
        tokio::select! {
            () = servers::settled(&servers, is_used, || ()) => {}
            () = cancellation.cancelled() => {}
        }
        servers::print_failures(&servers, is_used);
        self.policy.unmatched(&servers, &self.stubs).iter().for_each(report::warn);
        let (request, policy) = (self.request(cancellation), self.policy.attended(&servers));
        let result = if self.gateway {
            let options = ServerOptions::default()
                .policy(policy)
                .state(state::options(state.clone()))
                .shapes(shapes)
                .start_timeout(Duration::ZERO); // The servers that the program can use are ready or failed.
            let source = ToolSource { stubs: self.stubs.clone(), servers: servers.clone() };
            CodeServer::new(executor, source, options).execute(request).await
        } else {
            let providers = servers::all_providers(&self.stubs, &servers);
            let providers = providers.into_iter().map(|provider| provider.with_policy(&policy));
            let providers: Vec<_> = providers.collect();
            let mut result = executor.execute(request.providers(providers.iter().cloned())).await;
            if let Err(error) = &mut result.outcome {
                mention_namespace(error, &self.config.namespaces(), &providers);
                servers.explain(error);
            }
            result
        };
        servers.close().await;
        if let Some(state) = state {
            state.close().await;
        }
        Ok(result)
    }

    /// The request, without providers.
    fn request(&self, cancellation: CancellationToken) -> ExecuteRequest {
        let request = ExecuteRequest::new(self.source.code.as_str())
            .wait_for_calls(!self.cancel_unawaited)
            .timers(self.timers)
            .common_globals(self.common_globals)
            .limits(self.limits)
            .cancellation(cancellation);
        if self.quiet { request } else { request.on_log(report::log_sink(self.secrets.clone())) }
    }
}

/// Adds a hint to the error of a program that names a namespace of the gateway, or nearly one of a server that was not waited for.
/// The runner itself compares names with those of `providers`.
fn mention_namespace(error: &mut ExecuteError, configured: &[String], providers: &[Provider]) {
    let Some(Cause::NotDefined { name }) = error.cause.as_deref() else { return };
    let is_provider = |namespace: &&str| providers.iter().any(|provider| provider.name() == *namespace);
    let others = configured.iter().map(String::as_str).filter(|namespace| !is_provider(namespace));
    let mut namespaces = others.clone().chain(providers.iter().map(Provider::name));
    // In code, `my-notes` is `my` minus `notes`.
    let is_beginning =
        |namespace: &&str| namespace.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('_'));
    if OWN_NAMESPACES.contains(&name.as_str()) {
        error.message += &format!("; `{name}` exists in the gateway: add `--gateway`");
    } else if let Some(near) = near(name, others).or_else(|| namespaces.find(is_beginning)) {
        error.message += &format!("; did you mean {near}?");
    }
}

/// How many programs of a gateway run at once: one, and the check of a snippet, for which it waits.
const PROGRAMS: usize = 2;

const EXAMPLES: &str = "\
Examples:
  execbox run program.ts --tools tools.json
  execbox run -e '[1, 2, 3].map(x => x * x)'
  echo '6 * 7' | execbox run --json --timeout 500ms --memory 16MiB
  execbox run program.ts --config ~/.cursor/mcp.json --timeout 1m
  execbox run program.ts --executor remote=tcp:127.0.0.1:7000

`--help` lists more options, the exit codes and the format of tools files.";

const LONG_HELP: &str = r#"Examples:
  execbox run program.ts --tools tools.json
  execbox run -e '[1, 2, 3].map(x => x * x)'
  echo '6 * 7' | execbox run --json --timeout 500ms --memory 16MiB
  execbox run program.ts --config ~/.cursor/mcp.json --timeout 1m
  execbox run program.js --config servers.json --gateway --state state.db

Executors:
  inline            in this process, on its main thread
  worker            in this process, on a separate thread
  process           in a child process that is killed if it does not stop
  remote=ADDRESS    on a runner at tcp:HOST:PORT, unix:PATH or ws://HOST:PORT

Programs:
  Accepts the forms that models write: an expression, statements (the last
  expression is the result), a top-level `return`, one function, `export
  default`, TypeScript, a fenced Markdown block.

Tools files:
  Each provider is a global of the program, each tool an async function of it.
  A call returns the first answer whose `when` is contained in the input; an
  answer without `when` matches every input.

  { "providers": { "shop": { "tools": { "list-orders": {
      "description": "Lists the orders of a shop",
      "input": {
        "type": "object", "properties": { "status": { "type": "string" } }
      },
      "output": { "type": "array" },
      "answers": [
        { "when": { "status": "open" }, "returns": [{ "id": 7 }] },
        { "when": { "status": "lost" }, "fails": "there is no such status" },
        { "returns": [] }
      ],
      "delay": "20ms"
  } } } } }

  `description`, `input`, `output` (JSON Schemas, which are checked) and
  `delay` are optional; `$comment` is allowed anywhere. A name that is not an
  identifier is changed into one: `shop.list_orders(…)`.

Exit codes:
  0    the program succeeded
  1    the program failed (runtime_error, tool_error, validation_error,
       serialization_error)
  2    bad usage or bad input; nothing was run
  3    the program was stopped by a limit (timeout, memory_limit)
  4    execbox failed (internal_error, or the result could not be written)
  130  interrupted by Ctrl-C; a second Ctrl-C ends the process at once

Environment:
  NO_COLOR              disables colors if set (see `--color`)
  EXECBOX_REMOTE_TOKEN  the token for a remote runner; else EXECBOX_TOKEN"#;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn the_default_timeout_is_that_of_the_gateway_with_its_option() {
        for (words, seconds) in [(&[][..], 5), (&["--gateway"], 30), (&["--gateway", "--timeout", "2s"], 2)] {
            let CommandLine { arguments } = CommandLine::parse_from([&["run", "-e", "1"], words].concat());
            let Ok(job) = Job::new(arguments) else { panic!("{words:?}") };
            assert_eq!(job.limits.timeout.as_secs(), seconds, "{words:?}");
        }
    }
}
