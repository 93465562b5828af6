//! `--ask`, `--always-allow` and `--audit-log`: the calls that a person must approve, and the record of decisions.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use clap::Args;
use execbox::policy::{Answer, Ask, AuditRecord, Decision, NamedLine, Policy, ProposedCall, Questions};
use execbox::{Effect, Provider};
use execbox_core::hint::near;
use execbox_core::text::{Keep, escape_json};
use execbox_mcp::config::Config;
use execbox_mcp::server::{question, whole_question};
use execbox_mcp::servers::Servers;
use execbox_mcp::{AskEffect, AskFilter, Pattern, Secrets};
use futures_util::future::BoxFuture;
use serde_json::{Value as Json, json};
use tokio::sync::oneshot;

use crate::error::{CliError, reason};
use crate::files::ownership::{self, Access, OwnershipError};
use crate::gateway::always::{Always, Target};
use crate::options::servers::{self, Loaded, ServersError};
use crate::output::terminal::safe_line;
use crate::prompt::{Attended, Terminal};

#[derive(Debug, Args)]
#[command(next_help_heading = "Approvals")]
pub(crate) struct PolicyArguments {
    /// Ask before calls of tools: `destructive`, `writes`, `all` or `github.delete_*` (repeatable)
    ///
    /// `destructive` includes tools whose servers do not state what their calls do.
    #[arg(long, value_name = "TOOLS")]
    ask: Vec<String>,

    /// Never ask for tools that match: `github.get_*`; overrides `--ask` (repeatable)
    #[arg(long, value_name = "SERVER.TOOL", hide_short_help = true)]
    always_allow: Vec<String>,

    /// Ask once for each tool whose server does not state what its calls do
    #[arg(long, hide_short_help = true)]
    ask_once: bool,

    /// Append every decision about a call to FILE, as a line of JSON
    ///
    /// Calls that cannot be recorded are not made.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    audit_log: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyError {
    #[error(transparent)]
    Pattern(ServersError),
    #[error("invalid --ask {text:?}: expected {}{}", ask_forms(.servers), did_you_mean(*.near))]
    Ask { text: String, servers: Vec<String>, near: Option<&'static str> },
    #[error("--audit-log {}: {}", path.display(), reason(.error))]
    AuditLog { path: PathBuf, error: io::Error },
    #[error("--audit-log: {0}")]
    AuditLogOwnership(#[from] OwnershipError),
}

impl CliError for PolicyError {}

/// The error for a value of `--ask` that is neither the name of an effect nor a pattern.
fn ask_error(text: &str, error: PolicyError) -> PolicyError {
    match error {
        PolicyError::Pattern(ServersError::Pattern { servers, .. }) => {
            PolicyError::Ask { text: text.to_owned(), servers, near: near(text, AskEffect::NAMES.into_iter()) }
        }
        error => error,
    }
}

fn ask_forms(servers: &[String]) -> String {
    let pattern = match servers {
        [] => String::new(),
        servers => format!(" or SERVER.TOOL, where SERVER is one of {}", servers.join(", ")),
    };
    format!("{}{pattern}", AskEffect::NAMES.join(", "))
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

/// The policy that the arguments describe.
pub(crate) struct PolicySource {
    /// The calls that need approval. Patterns match `namespace.tool`.
    ask: AskFilter,
    /// The patterns of the options, for warnings about those that match nothing.
    patterns: Vec<OptionPattern>,
    pub(crate) asks_once: bool,
    /// The tools that users exempt while this process runs.
    pub(crate) always: Arc<Always>,
    audit: Option<Arc<AuditLog>>,
}

/// A pattern of an option, as it was written and as it is matched.
struct OptionPattern {
    option: &'static str,
    text: String,
    pattern: Pattern,
}

impl PolicySource {
    pub(crate) fn read(arguments: &PolicyArguments, loaded: &Loaded, stubs: &[Provider]) -> Result<Self, PolicyError> {
        let names = Names::new(&loaded.config, stubs);
        let (mut ask, mut patterns) = (AskFilter::default(), Vec::new());
        let mut read = |option, text: &String| {
            let pattern = names.pattern(option, text)?;
            patterns.push(OptionPattern { option, text: text.clone(), pattern: pattern.clone() });
            Ok::<_, PolicyError>(pattern)
        };
        for text in &arguments.ask {
            match AskEffect::named(text) {
                Some(_) => ask.add(text),
                None => ask.tools.push(read("--ask", text).map_err(|error| ask_error(text, error))?),
            }
        }
        for text in &arguments.always_allow {
            ask.never.push(read("--always-allow", text)?);
        }
        let audit = arguments.audit_log.as_deref().map(AuditLog::open).transpose()?;
        let (always, audit) = (Always::new(loaded), audit.map(Arc::new));
        Ok(Self { ask, patterns, asks_once: arguments.ask_once, always, audit })
    }

    /// A line for each pattern of the options that matches no tool: it may be misspelled.
    pub(crate) fn unmatched(&self, servers: &Servers, stubs: &[Provider]) -> Vec<String> {
        let is_unmatched = |it: &&OptionPattern| servers::is_unmatched(&it.pattern, servers, stubs);
        let line = |it: &OptionPattern| format!("{}: no tool matches {:?}", it.option, it.text);
        self.patterns.iter().filter(is_unmatched).map(line).collect()
    }

    /// The [`policy`](Self::policy) with approvals by the user of the terminal.
    pub(crate) fn attended(&self, servers: &Servers) -> Policy {
        let user = TerminalUser { asks_once: self.asks_once, always: Arc::clone(&self.always) };
        self.policy(servers, None).approver(Arc::new(Questions::new(user)))
    }

    /// The policy for the tools of these servers and of stub files. The audit log names `client`.
    pub(crate) fn policy(&self, servers: &Servers, client: Option<&str>) -> Policy {
        let (ask, servers, secrets) = (self.ask.clone(), servers.clone(), servers.secrets());
        let always = Arc::clone(&self.always);
        let policy = Policy::new()
            .rule(move |call| (asks(call, &ask, &servers) && !always.has(&call.name())).then_some(Decision::Ask));
        match &self.audit {
            Some(log) => {
                let (log, secrets, client) = (Arc::clone(log), secrets.clone(), client.map(str::to_owned));
                policy.audit(move |record| log.add(record, client.as_deref(), &secrets))
            }
            None => policy,
        }
    }
}

/// Asks the user of the terminal.
pub(crate) struct TerminalUser {
    /// Whether an approval of a tool without a stated effect is one of all its calls.
    asks_once: bool,
    always: Arc<Always>,
}

impl Ask for TerminalUser {
    fn ask<'a>(&'a self, call: ProposedCall<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let question = match question(&call) {
                Ok(question) => question,
                Err(error) => return Answer::Refuse(error.to_string()),
            };
            let whole = (!question.is_whole).then(|| whole_question(&call).unwrap_or_default());
            let (tool, (sender, answer)) = (call.name(), oneshot::channel());
            let is_once = self.asks_once && call.effect == Effect::Unstated;
            let names = [&*call.context.original_name, &*call.context.safe_name];
            let target = self.always.target(&call.context.provider, names).ok();
            // A thread of its own instead of a blocking task, for whose end the runtime would wait: the process must be able to
            // end during a question.
            std::thread::spawn(move || {
                sender.send(ask(&question.text, whole.as_deref(), &tool, is_once, target.as_ref()))
            });
            answer.await.unwrap_or_else(|_| Answer::Refuse("the question has failed".to_owned()))
        })
    }
}

/// Asks about a call, or about all calls of its tool if `is_once`. `whole` is the text of the whole call if `text` is shortened,
/// and `target` has the file to which the tool can be added.
fn ask(text: &str, whole: Option<&str>, tool: &str, is_once: bool, target: Option<&Target>) -> Answer {
    let Some(mut terminal) = Terminal::open(Attended::InputOrError) else {
        return Answer::RefuseAll("there is no terminal to ask at".to_owned());
    };
    let refused = || "the user refused the call".to_owned();
    let (yes, mut letters) = if is_once { ("", "anq".to_owned()) } else { ("y = yes, ", "yanq".to_owned()) };
    let show = if whole.is_some() { "s = show all of it, " } else { "" };
    let always = target.map(|target| format!("w = always, written to {}, ", target.file())).unwrap_or_default();
    letters.extend(whole.map(|_| 's').into_iter().chain(target.map(|_| 'w')));
    let choice = format!("Make this call? {show}{yes}a = all calls of {tool}, {always}n = no, q = no further call: ");
    let mut text = text;
    loop {
        return match terminal.choose(&format!("\n{text}\n"), &safe_line(&choice), &letters) {
            Ok('s') => {
                text = whole.unwrap_or(text);
                continue;
            }
            Ok('w') if !target.is_some_and(|target| target.write_at(&mut terminal)) => continue,
            Ok('y') => Answer::Approve,
            Ok('a' | 'w') => Answer::ApproveTool,
            Ok('n') => Answer::Refuse(refused()),
            Ok(_) | Err(_) => Answer::RefuseAll(refused()),
        };
    }
}

/// Whether the options, or the configuration of the server, select a call, and neither exempts it.
fn asks(call: &ProposedCall<'_>, options: &AskFilter, servers: &Servers) -> bool {
    let (namespace, safe, original) = (&*call.context.provider, &*call.context.safe_name, &*call.context.original_name);
    let configured = servers.ask_filter(namespace);
    let full = [call.name(), format!("{namespace}.{original}")];
    let (full, own) = ([full[0].as_str(), full[1].as_str()], [safe, original]);
    (options.selects(&full, call.effect) || configured.selects(&own, call.effect))
        && !options.exempts(&full)
        && !configured.exempts(&own)
}

/// The names by which options refer to servers.
struct Names {
    /// Names in the configuration, with their namespaces.
    servers: Vec<(String, String)>,
    namespaces: Vec<String>,
}

impl Names {
    fn new(config: &Config, stubs: &[Provider]) -> Self {
        let names = config.servers.iter().map(|server| &server.name);
        let names = names.chain(config.skipped.iter().map(|skipped| &skipped.name));
        let of_servers = config.namespaces();
        let servers = names.cloned().zip(of_servers.iter().cloned()).collect();
        let stubs = stubs.iter().map(|stub| stub.name().to_owned());
        Self { servers, namespaces: stubs.chain(of_servers).collect() }
    }

    /// Parses `SERVER.TOOL`, where the server is named as in the configuration or as in code, or is `*`.
    fn pattern(&self, option: &'static str, text: &str) -> Result<Pattern, PolicyError> {
        let named = |name: &str| text.strip_prefix(name)?.strip_prefix('.');
        if let Some((_, namespace, tool)) =
            self.servers.iter().find_map(|(name, namespace)| Some((name, namespace, named(name)?)))
        {
            return Ok(Pattern::new(format!("{namespace}.{tool}")));
        }
        if self.namespaces.iter().any(|name| named(name).is_some()) || named("*").is_some() {
            return Ok(Pattern::new(text));
        }
        let (pattern, servers) = (text.to_owned(), self.namespaces.clone());
        Err(PolicyError::Pattern(ServersError::Pattern { option, pattern, servers }))
    }
}

/// A file with a line of JSON for each decision, in which hidden characters are escaped. At [`MAX_LOG`], calls are refused
/// because they cannot be recorded.
struct AuditLog(Mutex<File>);

impl AuditLog {
    /// Opens the file. Other users cannot change it, but can read it if its user permits that.
    fn open(path: &Path) -> Result<Self, PolicyError> {
        let failed = |error| PolicyError::AuditLog { path: path.to_owned(), error };
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(failed(io::Error::other("not a file"))); // Opening a pipe would wait for its reader.
        }
        let resolved = ownership::resolve_file(path)?;
        ownership::check_file(&resolved, path, Access::Unchangeable)?;
        let file = File::options().append(true).create(true).mode(0o600).open(resolved);
        file.map(|file| Self(Mutex::new(file))).map_err(failed)
    }

    fn add(&self, record: &AuditRecord<'_>, client: Option<&str>, secrets: &Secrets) -> io::Result<()> {
        let mut line = escape_json(&json_of(record, client, secrets).to_string(), Keep::Nothing).into_owned();
        line.push('\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if file.metadata()?.len() + line.len() as u64 > MAX_LOG {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        file.write_all(line.as_bytes())
    }
}

/// `{"time":"…","tool":"shop.delete_order","effect":"destructive","arguments":{…},"lines":[3],"decision":"approved","waitedMs":4200}`, with
/// `"linesOfFunctions":{"snippets.tidy":[2]}` if functions of the program name the tool, and `"client":"ci"` after the time if the
/// client has a name. The arguments have no secrets.
fn json_of(record: &AuditRecord<'_>, client: Option<&str>, secrets: &Secrets) -> Json {
    let (call, time) = (&record.call, humantime::format_rfc3339_millis(SystemTime::now()).to_string());
    let mut json = json!({ "time": time });
    if let Some(client) = client {
        json["client"] = client.into();
    }
    json["tool"] = call.name().into();
    json["effect"] = call.effect.as_str().into();
    match call.input.to_string().len() {
        ..=MAX_ARGUMENTS => {
            json["arguments"] = call.input.clone();
            secrets.redact_json(&mut json["arguments"]);
        }
        bytes => json["argumentsBytes"] = bytes.into(),
    }
    json["lines"] = json!([]);
    for NamedLine { function, number, .. } in call.lines().unwrap_or_default().lines {
        let of = match function {
            None => &mut json["lines"],
            Some(function) => &mut json["linesOfFunctions"][function],
        };
        match of {
            Json::Array(numbers) => numbers.push(number.into()),
            of => *of = json!([number]),
        }
    }
    json["decision"] = record.verdict.as_str().into();
    json["waitedMs"] = u64::try_from(record.waited.as_millis()).unwrap_or(u64::MAX).into();
    if let Some(reason) = record.verdict.reason() {
        json["reason"] = reason.into();
    }
    json
}

/// The maximum length of an audit log, in bytes.
const MAX_LOG: u64 = 1 << 30;

/// The maximum length of arguments that are recorded, in bytes of JSON. Of longer ones, only the length is recorded.
const MAX_ARGUMENTS: usize = 16 << 10;
