//! The executors under test: every kind, with QuickJS and with the scripted engine.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use execbox::transport::{Address, CommandTransport, Listener, Socket, StreamTransport};
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
    pub(crate) accepts: Accepts,
    pub(crate) executor: Arc<dyn Executor>,
}

pub(crate) fn all() -> Vec<NamedExecutor> {
    let _runtime = RUNTIME.enter();
    let runner = || Runner::new().unwrap();
    let scripted = || Runner::with_engine(Arc::new(Scripted), Arc::new(Moves));
    let javascript = |name, executor| NamedExecutor { name, accepts: Accepts::JavaScript, executor };
    let moves = |name, executor| NamedExecutor { name, accepts: Accepts::Moves, executor };
    vec![
        javascript("inline", Arc::new(InlineExecutor::new().unwrap())),
        javascript("worker", Arc::new(WorkerExecutor::builder(Runner::new().unwrap()).pool(two()).build())),
        javascript("process", Arc::new(ProcessExecutor::builder(this_program()).pool(two()).build())),
        javascript("pipe", Arc::new(narrow_pipe(runner()))),
        javascript("stdio", Arc::new(RemoteExecutor::new(child))),
        javascript("tcp", Arc::new(listening(&"tcp:127.0.0.1:0".parse().unwrap()))),
        javascript("unix", Arc::new(listening(&Socket::Unix(socket_path()).into()))),
        javascript("websocket", Arc::new(listening(&"ws://127.0.0.1:0".parse().unwrap()))),
        moves("scripted-inline", Arc::new(InlineExecutor::with_engine(Arc::new(Scripted), Arc::new(Moves)))),
        moves("scripted-thread", Arc::new(InlineExecutor::with_engine(bound_to_a_thread(), Arc::new(Moves)))),
        moves("scripted-worker", Arc::new(WorkerExecutor::with_engine(bound_to_a_thread(), Arc::new(Moves)))),
        moves("scripted-pipe", Arc::new(narrow_pipe(scripted()))),
    ]
}

fn bound_to_a_thread() -> Arc<ThreadBound<Scripted>> {
    Arc::new(ThreadBound(Arc::new(Scripted)))
}

fn two() -> PoolOptions {
    PoolOptions { max_size: 2, ..PoolOptions::for_cores(2) }
}

/// This program is its own runner: `main` begins with [`execbox::serve_if_runner`].
fn this_program() -> RunnerCommand {
    RunnerCommand::this_program().unwrap()
}

async fn child() -> std::io::Result<CommandTransport> {
    CommandTransport::spawn(std::process::Command::new(std::env::current_exe()?).arg("execbox-runner"))
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
    let listener = RUNTIME.block_on(Listener::bind(address, None)).unwrap();
    let address = listener.address().clone();
    RUNTIME.spawn(async move { Runner::new().unwrap().listen(listener, 100).await });
    RemoteExecutor::with_address(address, None)
}

fn socket_path() -> PathBuf {
    std::env::temp_dir().join(format!("execbox-contract-{}.sock", std::process::id()))
}
