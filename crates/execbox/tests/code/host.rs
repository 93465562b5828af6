//! The host of the cases: functions and values that a case selects by name.

use std::sync::{Arc, Mutex, OnceLock};

use execbox::code::{Args, CodeControl, CodeExecutionOptions, HostError, HostResult, HostValue};
use serde_json::{Value as Json, json};

/// The host of one run.
#[derive(Default)]
pub(crate) struct Host {
    calls: Arc<Mutex<Vec<Json>>>,
    control: Arc<OnceLock<CodeControl>>,
}

impl Host {
    /// Sets the control that `terminate` uses.
    pub(crate) fn set_control(&self, control: CodeControl) {
        self.control.set(control).expect("a host has one run");
    }

    /// The calls and reports that reached the host, in order: `[name, [arguments]]`.
    pub(crate) fn calls(&self) -> Json {
        Json::from(self.calls.lock().unwrap().clone())
    }

    /// Adds the functions and values of the group `name`.
    pub(crate) fn grant(&self, name: &str, options: CodeExecutionOptions) -> CodeExecutionOptions {
        match name {
            // The bridged modules of the specification's examples.
            "fs" => options.import(
                "fs",
                [
                    self.later("readFile", |args| Ok(HostValue::from(format!("the contents of {}", args.str(0)?)))),
                    self.later("writeFile", |args| args.str(0).map(|_| HostValue::undefined())),
                ],
            ),
            "supervisor" => options.import("supervisor", [self.now("report", |_| Ok(HostValue::undefined()))]),
            "greeter" => options
                .import("greeter", [self.now("default", |args| Ok(HostValue::from(format!("hi, {}", args.str(0)?))))]),
            "thread" => options.import(
                "thread",
                [
                    self.later("readFile", |args| Ok(HostValue::from(format!("the contents of {}", args.str(0)?)))),
                    self.later("getMessages", |_| Ok(HostValue::from(json!([{ "role": "user", "text": "hello" }])))),
                    self.later("emit", |_| Ok(HostValue::undefined())),
                ],
            ),
            // The globals of the specification's examples.
            "getMessage" => global(options, self.later("getMessage", |_| Ok(HostValue::from("my username is x")))),
            "console" => {
                let log = self.now("log", |_| Ok(HostValue::undefined()));
                options.global("console", HostValue::object([log]))
            }
            // `options.report` (§5.2), with a sink that records the reports.
            "report" => {
                let calls = Arc::clone(&self.calls);
                options.on_report(move |report| {
                    let report = report.to_tagged_json("report", 1 << 30).unwrap();
                    calls.lock().unwrap().push(json!(["the sink", [report]]));
                })
            }
            "host" => options.import("host", self.functions()),
            "tools" => {
                let deepest = HostValue::object([self.now("add", add)]);
                let deeper = HostValue::array([deepest, HostValue::from(7)]);
                options.global("tools", HostValue::object([("math".to_owned(), deeper), self.later("later", add)]))
            }
            "promises" => options
                .global("promised", HostValue::promise(async { Ok(HostValue::from(json!({ "at": "last" }))) }))
                .global(
                    "broken",
                    HostValue::promise(async { Err(HostError::named("RangeError", "the host broke it")) }),
                )
                .global("never", HostValue::promise(std::future::pending())),
            // A value as a global, and a function that returns the same value.
            "stock" => {
                let stock = || HostValue::from(json!({ "list": [1] }));
                global(options.global("stock", stock()), self.now("look", move |_| Ok(stock())))
            }
            // Returns a string of the given length.
            "big" => {
                let big = HostValue::function("big", |args: Args| {
                    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the cases use small numbers
                    let length = args.number(0)? as usize;
                    Ok(HostValue::from("x".repeat(length)))
                });
                options.global("big", big)
            }
            "timers" => global(options, self.later("setTimeout", |_| Ok(HostValue::undefined()))),
            // Terminates the run that calls it, with the given reason.
            "terminate" => {
                let control = Arc::clone(&self.control);
                let terminate = self.now("terminate", move |args| {
                    control.wait().terminate(args.get(0).as_str());
                    Ok(HostValue::undefined())
                });
                global(options, terminate)
            }
            _ => panic!("the host has no {name:?}"),
        }
    }

    /// One function of every kind.
    fn functions(&self) -> Vec<(String, HostValue)> {
        let calls = Arc::clone(&self.calls);
        vec![
            self.now("add", add),
            self.later("addLater", add),
            self.now("echo", first),
            self.later("echoLater", first),
            self.now("fail", fail),
            self.later("failLater", fail),
            self.now("failAsSyntax", |_| Err(HostError::named("SyntaxError", "not by the parser"))),
            self.now("crash", |_| execbox_testkit::crash("at /home/secret/host.rs")),
            self.later("crashLater", |_| execbox_testkit::crash("at /home/secret/host.rs")),
            ("hang".to_owned(), HostValue::async_function("hang", |_| std::future::pending())),
            self.now("twice", |args| Ok(HostValue::from(args.number(0)? * 2.0))),
            self.now("bytesOf", |args| Ok(HostValue::bytes(args.bytes(0)?))),
            // Functions that return functions and promises.
            self.now("adder", |args| {
                let base = args.number(0)?;
                Ok(HostValue::function("adder", move |args| Ok(HostValue::from(base + args.number(0)?))))
            }),
            self.now("promise", |args| {
                let graph = args.graph().clone();
                Ok(HostValue::promise(async move { Ok(HostValue::from(graph)) }))
            }),
            self.later("counter", move |_| {
                let calls = Arc::clone(&calls);
                let count =
                    HostValue::function("count", move |_| Ok(HostValue::from(json!(calls.lock().unwrap().len()))));
                Ok(HostValue::object([("count", count), ("start", HostValue::from(0))]))
            }),
        ]
    }

    /// A synchronous function.
    fn now(&self, name: &str, call: impl Fn(&Args) -> HostResult + Send + Sync + 'static) -> (String, HostValue) {
        let (calls, own_name) = (Arc::clone(&self.calls), name.to_owned());
        let call = move |args: Args| {
            record(&calls, &own_name, &args);
            call(&args)
        };
        (name.to_owned(), HostValue::function(name, call))
    }

    /// An asynchronous function that yields once.
    fn later(&self, name: &str, call: impl Fn(&Args) -> HostResult + Send + Sync + 'static) -> (String, HostValue) {
        let (calls, own_name, call) = (Arc::clone(&self.calls), name.to_owned(), Arc::new(call));
        let call = move |args: Args| {
            record(&calls, &own_name, &args);
            let call = Arc::clone(&call);
            async move {
                tokio::task::yield_now().await;
                call(&args)
            }
        };
        (name.to_owned(), HostValue::async_function(name, call))
    }
}

fn global(options: CodeExecutionOptions, (name, value): (String, HostValue)) -> CodeExecutionOptions {
    options.global(name, value)
}

fn record(calls: &Mutex<Vec<Json>>, name: &str, args: &Args) {
    let args = args.graph().to_tagged_json("args", 1 << 30).unwrap_or_else(|error| json!(error.to_string()));
    calls.lock().unwrap().push(json!([name, args]));
}

fn add(args: &Args) -> HostResult {
    Ok(HostValue::from(args.number(0)? + args.number(1)?))
}

fn fail(args: &Args) -> HostResult {
    Err(HostError::named("DiskError", args.str(0).unwrap_or("the disk is full")))
}

/// Returns the first argument unchanged.
#[allow(clippy::unnecessary_wraps)] // the signature of a host function
fn first(args: &Args) -> HostResult {
    let mut graph = args.graph().clone();
    graph.set_root(args.get(0).clone());
    Ok(HostValue::from(graph))
}
