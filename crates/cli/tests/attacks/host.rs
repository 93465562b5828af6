//! A host in a process of its own: executes one case on one executor after another, and `1 + 1` before and after each.
//!
//! Standard output has for each executor the lines `ready`, the end of the case, and the end of `1 + 1`. Each step waits for a
//! line on standard input, so that the test can measure between the steps.

use std::io::BufRead as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use execbox::code::{CodeExecutionOptions, Status};
use execbox::transport::Address;
use execbox::{
    ExecuteRequest, Executor, InlineExecutor, PoolOptions, ProcessExecutor, Provider, RemoteExecutor, Runner,
    RunnerCommand, Tool, ToolError, WorkerExecutor,
};
use execbox_testkit::cases::CaseFile;
use serde_json::{Value as Json, json};

use crate::case::{self, Case};

/// The first argument of a process that is a host.
pub(crate) const HOST: &str = "be-a-hostile-host";

/// Runs a host with the arguments `HOST EXECUTORS GROUP FILE NUMBER`. The executors are names or the address of a runner,
/// separated by commas.
pub(crate) fn main(arguments: &[String]) {
    let [executors, group, path, number] = arguments else { panic!("{arguments:?}") };
    let file = CaseFile::read(path);
    let case = case::read(group, &file, &file.cases[number.parse::<usize>().unwrap()]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _entered = runtime.enter();
    for executor in executors.split(',') {
        let (attacked, _runner) = executor_of(executor);
        // A hostile runner executes nothing, but the host that it attacked must still execute programs.
        let checked = if group == "runners" { executor_of("inline").0 } else { Arc::clone(&attacked) };
        println!("{}", if runtime.block_on(works(&*checked)) { "ready" } else { "it does not work" });
        wait();
        println!("{}", runtime.block_on(execute(&*attacked, &case)));
        wait();
        println!("{}", runtime.block_on(works(&*checked)));
        wait();
    }
}

/// Waits for a line.
fn wait() {
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
}

fn executor_of(name: &str) -> (Arc<dyn Executor>, Option<Listening>) {
    let pool = PoolOptions::default().max_size(1);
    let executor: Arc<dyn Executor> = match name {
        "inline" => Arc::new(InlineExecutor::new().unwrap()),
        "worker" => Arc::new(WorkerExecutor::builder(Runner::new().unwrap()).unwrap().pool(pool).build()),
        "process" => {
            let command = RunnerCommand::new(crate::EXECBOX).args(["runner", "--engine", case::engine()]);
            Arc::new(ProcessExecutor::builder(command).pool(pool).build())
        }
        "remote" => {
            let runner = Listening::start(&[]);
            return (Arc::new(RemoteExecutor::with_address(runner.address.clone(), None)), Some(runner));
        }
        address => Arc::new(RemoteExecutor::with_address(address.parse().unwrap(), None)),
    };
    (executor, None)
}

/// A runner that listens on a free port.
pub(crate) struct Listening {
    pub(crate) process: Child,
    pub(crate) address: Address,
}

impl Listening {
    pub(crate) fn start(arguments: &[String]) -> Self {
        let mut command = Command::new(crate::EXECBOX);
        command.args(["runner", "--listen"]);
        if !arguments.iter().any(|argument| argument.contains(':')) {
            command.arg("tcp:127.0.0.1:0");
        }
        command.args(arguments).env_remove("EXECBOX_TOKEN").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        let mut errors = std::io::BufReader::new(process.stderr.take().unwrap());
        errors.read_line(&mut line).unwrap();
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        let address = line.trim().strip_prefix("execbox: listening on ").unwrap_or_else(|| panic!("{line}"));
        Self { process, address: address.parse().unwrap() }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether the executor executes `1 + 1`.
pub(crate) async fn works(executor: &dyn Executor) -> bool {
    let request = ExecuteRequest::new("1 + 1").timeout(Duration::from_mins(1));
    let script = executor.execute(request).await.outcome;
    script == Ok(Some(json!(2)))
}

/// Executes a case and describes how it ended.
async fn execute(executor: &dyn Executor, case: &Case) -> Json {
    let source = case.code.as_ref().unwrap_or(&case.sources[0].1);
    let started = Instant::now();
    let mut ended = if case.is_module {
        let options = CodeExecutionOptions::new().limits(case.limits).providers(providers(case)).on_report(|_| {});
        let modules = case.sources[1..].iter();
        let options = modules.fold(options, |options, (specifier, source)| options.module(specifier, source));
        let ended = executor.run_code(source, options).await;
        let result = ended.to_json().map(|mut json| json["result"].take());
        let result = result.unwrap_or_else(|error| json!(error.to_string()));
        let class = if ended.status == Status::Success { "ok" } else { ended.status.as_str() };
        let error = ended.error.as_ref();
        let class = if error.is_some_and(|error| error.is_internal) { "internal_error" } else { class };
        json!({ "class": class, "message": error.map(ToString::to_string), "result": result })
    } else {
        let request =
            ExecuteRequest::new(source.as_str()).limits(case.limits).providers(providers(case)).on_log(|_| {});
        let ended = executor.execute(request).await;
        match ended.outcome {
            Ok(result) => json!({ "class": "ok", "result": result }),
            Err(error) => json!({ "class": error.code.as_str(), "message": error.render() }),
        }
    };
    ended["wallMs"] = json!(u64::try_from(started.elapsed().as_millis()).unwrap());
    // A large result of a hostile guest is not needed by the test.
    if is_large(&ended["result"]) {
        ended["result"] = json!("large");
    }
    if let Some(message) = ended["message"].as_str().filter(|message| message.len() > 2_000) {
        ended["message"] = json!(message.chars().take(500).collect::<String>());
    }
    ended
}

/// Whether the JSON is longer than about 10 000 bytes. The value is not written for this, because the time would count as that
/// of the attack.
fn is_large(json: &Json) -> bool {
    let (mut len, mut rest) = (0, vec![json]);
    while let Some(json) = rest.pop() {
        len += match json {
            Json::String(text) => text.len(),
            Json::Array(items) => items.len(),
            Json::Object(members) => members.keys().map(String::len).sum::<usize>() + members.len(),
            _ => 4,
        };
        if len > 10_000 {
            return true;
        }
        match json {
            Json::Array(items) => rest.extend(items),
            Json::Object(members) => rest.extend(members.values()),
            _ => {}
        }
    }
    false
}

fn providers(case: &Case) -> Vec<Provider> {
    if case.has_many { vec![tools(), many()] } else { vec![tools()] }
}

/// More tools than fit 16 bits: `f0` to `f69999` return their number.
fn many() -> Provider {
    let tool = |number| Tool::new(format!("f{number}"), move |_: Json, _| async move { Ok(json!(number)) });
    Provider::builder("many").tools((0..70_000).map(tool)).build().unwrap()
}

/// The tools that a case may call, as the global `tools` of a script and the module `tools`.
pub(crate) fn tools() -> Provider {
    let strict = json!({
        "type": "object", "required": ["id"], "additionalProperties": false,
        "properties": { "id": { "type": "integer" }, "note": { "type": "string", "maxLength": 10 } }
    });
    let echo = Tool::new("echo", async |input: Json, _| Ok(input));
    let slow = Tool::new("slow", async |_: Json, _| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(Json::Null)
    });
    let fail = Tool::new("fail", async |input: Json, _| {
        Err::<Json, _>(ToolError::new(input.as_str().unwrap_or("the disk is full")))
    });
    let hang = Tool::new("hang", async |_: Json, _| std::future::pending::<Result<Json, ToolError>>().await);
    let big = Tool::new("big", async |input: Json, _| Ok(json!("x".repeat(count(&input)))));
    let zeros = Tool::new("zeros", async |input: Json, _| Ok(Json::Array(vec![json!(0); count(&input)])));
    let nested = Tool::new("nested", async |input: Json, _| {
        Ok((0..count(&input)).fold(json!(1), |inner, _| Json::Array(vec![inner])))
    });
    let keys = Tool::new("keys", async |input: Json, _| {
        Ok(Json::Object((0..count(&input)).map(|key| (format!("key{key}"), Json::Null)).collect()))
    });
    let length = Tool::new("length", async |input: Json, _| Ok(json!(input.to_string().len())));
    let proto = Tool::new("proto", async |_: Json, _| {
        Ok(json!({ "__proto__": { "admin": true }, "then": "a word", "constructor": 1, "toString": 2 }))
    });
    let strict = Tool::new("strict", async |input: Json, _| Ok(input)).input_schema(strict);
    let liar = Tool::new("liar", async |_: Json, _| Ok(json!({ "count": "many" })))
        .output_schema(json!({ "type": "object", "properties": { "count": { "type": "integer" } } }));
    let matching = Tool::new("matching", async |input: Json, _| Ok(input))
        .input_schema(json!({ "type": "string", "pattern": "^(a+)+$" }));
    let unique = Tool::new("unique", async |_: Json, _| Ok(Json::Null))
        .input_schema(json!({ "type": "array", "uniqueItems": true }));
    let crash = Tool::new("crash", async |_: Json, _| -> Result<Json, ToolError> { panic!("at /home/secret/tool.rs") });
    let tools =
        [echo, slow, fail, hang, big, zeros, nested, keys, length, proto, strict, liar, matching, unique, crash];
    Provider::builder("tools").tools(tools).build().unwrap()
}

fn count(input: &Json) -> usize {
    input.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0).min(64 << 20)
}
