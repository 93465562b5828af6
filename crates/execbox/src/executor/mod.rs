//! The [`Executor`] trait and the executors.

pub(crate) mod fallback;
pub(crate) mod inline;
mod pool;
pub(crate) mod pooled;
pub(crate) mod process;
pub(crate) mod remote;
pub(crate) mod self_test;
pub(crate) mod worker;

use std::sync::Arc;

use execbox_core::error::{ExecuteError, ExecuteResult};
use futures_util::future::BoxFuture;

use crate::code::{CodeExecution, CodeExecutionOptions};
use crate::executor::self_test::SelfTestReport;
use crate::request::ExecuteRequest;

/// Runs guest code at one level of isolation: in this process, on worker threads, in child processes, or remotely.
///
/// All methods are required, so that an executor that wraps another one cannot forget to forward one. References, boxes and
/// [`Arc`]s of executors are executors.
pub trait Executor: Send + Sync {
    /// Executes a script. Every outcome, failures to start included, is an [`ExecuteResult`].
    ///
    /// Dropping the future stops the guest and cancels its tool calls.
    fn execute(&self, request: ExecuteRequest) -> BoxFuture<'_, ExecuteResult>;

    /// Runs `source` as an ES module (code-execution specification). The run starts at once, on the current tokio runtime.
    fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution;

    /// Starts runners until there are `count`, within the size of the pool, and has each execute an empty script, so that the
    /// first requests need not wait for that. An executor without a pool does nothing, or loads its engine.
    ///
    /// # Errors
    /// A runner did not start, or the executor is [closed](Self::close).
    fn prewarm(&self, count: usize) -> BoxFuture<'_, Result<(), ExecuteError>>;

    /// Rejects the requests that wait for a runner and all later ones, waits for the busy runners, and stops all. The error of
    /// a rejected request has [`Rejected::Closed`](crate::Rejected::Closed) in [`rejected`](ExecuteError::rejected).
    ///
    /// An executor without a pool does nothing, and still accepts requests.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// Tries what limits must prevent: an endless loop, an allocation without end, and in a jail, a file and a socket. Takes
    /// about a second. The language must accept JavaScript.
    fn self_test(&self) -> BoxFuture<'_, SelfTestReport>;
}

/// Implements [`Executor`] for pointers to executors. A method that the trait gets is forwarded here, too.
macro_rules! forward_executor {
    ($($pointer:ty),*) => {$(
        impl<E: Executor + ?Sized> Executor for $pointer {
            fn execute(&self, request: ExecuteRequest) -> BoxFuture<'_, ExecuteResult> {
                (**self).execute(request)
            }

            fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution {
                (**self).run_code(source, options)
            }

            fn prewarm(&self, count: usize) -> BoxFuture<'_, Result<(), ExecuteError>> {
                (**self).prewarm(count)
            }

            fn close(&self) -> BoxFuture<'_, ()> {
                (**self).close()
            }

            fn self_test(&self) -> BoxFuture<'_, SelfTestReport> {
                (**self).self_test()
            }
        }
    )*};
}

forward_executor!(&E, Box<E>, Arc<E>);
