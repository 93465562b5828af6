//! The executors under test: every kind, with QuickJS and with the scripted engine; or child processes of another runner.
//!
//! The environment variable `EXECBOX_TEST_RUNNER` names the command of that runner: its program and arguments, with spaces in
//! between. A path is relative to the repository. For a runner with `--engine NAME`, the tests expect what cases say about that
//! engine, and otherwise what they say about QuickJS. An example:
//! `EXECBOX_TEST_RUNNER='target/debug/execbox runner --engine v8'`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::{env, fs};

use execbox::transport::tls::{Certificates, ClientTls, Identity, ServerTls, Trust};
use execbox::transport::{AcceptOptions, Address, CommandTransport, ConnectOptions, Listener, Socket, StreamTransport};
use execbox::{
    Executor, InlineExecutor, PoolOptions, ProcessExecutor, RemoteExecutor, Runner, RunnerCommand, WorkerExecutor,
};
use tokio::runtime::Runtime;

use execbox_testkit::scripted::{Moves, Scripted, ThreadBound};

/// The runtime of all tests.
pub(crate) static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

/// What the engine accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepts {
    JavaScript,
    /// The programs of the scripted engine.
    Moves,
}

/// An executor under test, with an engine.
#[derive(Clone)]
pub(crate) struct NamedExecutor {
    pub(crate) name: &'static str,
    pub(crate) engine: &'static str,
    pub(crate) accepts: Accepts,
    pub(crate) executor: Arc<dyn Executor>,
}

pub(crate) fn all() -> Vec<NamedExecutor> {
    let _runtime = RUNTIME.enter();
    if let Ok(command) = env::var("EXECBOX_TEST_RUNNER") {
        return other_runner(&command);
    }
    let runner = || Runner::new().unwrap();
    let scripted = || Runner::with_engine(Arc::new(Scripted), Arc::new(Moves));
    let javascript = |name, executor| NamedExecutor { name, engine: QUICKJS, accepts: Accepts::JavaScript, executor };
    let moves = |name, executor| NamedExecutor { name, engine: "scripted", accepts: Accepts::Moves, executor };
    vec![
        javascript("inline", Arc::new(InlineExecutor::new().unwrap())),
        javascript("worker", Arc::new(WorkerExecutor::builder(Runner::new().unwrap()).unwrap().pool(two()).build())),
        javascript("process", Arc::new(ProcessExecutor::builder(this_program()).pool(two()).build())),
        javascript("pipe", Arc::new(narrow_pipe(runner()))),
        javascript("stdio", Arc::new(RemoteExecutor::new(child))),
        javascript("tcp", Arc::new(listening(&"tcp:127.0.0.1:0".parse().unwrap()))),
        javascript("tls", Arc::new(listening_with_tls())),
        javascript("unix", Arc::new(listening(&Socket::Unix(socket_path()).into()))),
        javascript("websocket", Arc::new(listening(&"ws://127.0.0.1:0".parse().unwrap()))),
        moves("scripted-inline", Arc::new(InlineExecutor::with_engine(Arc::new(Scripted), Arc::new(Moves)).unwrap())),
        moves("scripted-thread", Arc::new(InlineExecutor::with_engine(bound_to_a_thread(), Arc::new(Moves)).unwrap())),
        moves("scripted-worker", Arc::new(WorkerExecutor::with_engine(bound_to_a_thread(), Arc::new(Moves)).unwrap())),
        moves("scripted-pipe", Arc::new(narrow_pipe(scripted()))),
    ]
}

const QUICKJS: &str = "quickjs";

/// Child processes of a runner that is not this program.
fn other_runner(command: &str) -> Vec<NamedExecutor> {
    let words: Vec<&'static str> = command.to_owned().leak().split_whitespace().collect();
    let (program, arguments) = words.split_first().expect("EXECBOX_TEST_RUNNER has a program");
    let program = match program.contains('/') {
        true => Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(program),
        false => PathBuf::from(program),
    };
    let engine = words.windows(2).find(|words| words[0] == "--engine").map_or(QUICKJS, |words| words[1]);
    let javascript = |name, executor| NamedExecutor { name, engine, accepts: Accepts::JavaScript, executor };
    let environment: Vec<_> = env::vars_os().filter(|(name, _)| name != "EXECBOX_TEST_RUNNER").collect();
    let reused = RunnerCommand::new(&program).args(arguments).envs(environment);
    let arguments = arguments.to_vec();
    let fresh = move || {
        let spawned = CommandTransport::spawn(Command::new(&program).args(&arguments));
        async { spawned }
    };
    vec![
        javascript("process", Arc::new(ProcessExecutor::builder(reused).pool(two()).build())),
        javascript("stdio", Arc::new(RemoteExecutor::new(fresh))),
    ]
}

fn bound_to_a_thread() -> Arc<ThreadBound<Scripted>> {
    Arc::new(ThreadBound(Arc::new(Scripted)))
}

fn two() -> PoolOptions {
    PoolOptions::default().max_size(2)
}

/// This program is its own runner: `main` begins with [`execbox::serve_if_runner`].
fn this_program() -> RunnerCommand {
    RunnerCommand::this_program().unwrap()
}

async fn child() -> std::io::Result<CommandTransport> {
    CommandTransport::spawn(Command::new(env::current_exe()?).arg("execbox-runner"))
}

/// A runner behind an in-memory pipe that is smaller than any message.
fn narrow_pipe(runner: Runner) -> RemoteExecutor {
    RemoteExecutor::new(move || {
        let runner = runner.clone();
        async move {
            let (here, there) = tokio::io::duplex(37);
            let (reader, writer) = tokio::io::split(there);
            tokio::spawn(async move { runner.serve(StreamTransport::new(reader, writer)).await });
            let (reader, writer) = tokio::io::split(here);
            Ok(StreamTransport::new(reader, writer))
        }
    })
}

/// A runner that listens at `address` until the tests end.
fn listening(address: &Address) -> RemoteExecutor {
    RemoteExecutor::with_address(listen(address, AcceptOptions::default()), None)
}

fn listening_with_tls() -> RemoteExecutor {
    let pem = |name| fs::read(format!("{}/../tls/tests/pem/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let identity = Identity::from_pem(&pem("server.pem"), &pem("server.key")).unwrap();
    let accept = AcceptOptions::default().tls(ServerTls::new(identity, None).unwrap());
    let trust = Trust::only(Certificates::from_pem(&pem("authority.pem")).unwrap()).unwrap();
    let connect = ConnectOptions::default().tls(ClientTls::new(trust, None).unwrap());
    RemoteExecutor::with_address(listen(&"tls:127.0.0.1:0".parse().unwrap(), accept), connect)
}

fn listen(address: &Address, options: AcceptOptions) -> Address {
    let listener = RUNTIME.block_on(Listener::bind(address, options)).unwrap();
    let address = listener.address().clone();
    RUNTIME.spawn(async move { Runner::new().unwrap().listen(listener, execbox::ListenOptions::default()).await });
    address
}

fn socket_path() -> PathBuf {
    env::temp_dir().join(format!("execbox-contract-{}.sock", std::process::id()))
}
