//! `execbox runner`: the library's runner on standard input and output.
//!
//! Standard output carries the protocol and nothing else.

use std::io;

use execbox::Runner;

use crate::exit::Exit;
use crate::{report, source};

/// Serves the host at the other end until it ends.
pub(crate) fn run() -> Exit {
    let runner = match Runner::new() {
        Ok(runner) => runner,
        Err(error) => {
            report::complain(&error);
            return Exit::ExecboxFailed;
        }
    };
    match serve(&runner) {
        Ok(()) => Exit::Success,
        // A host that has gone away has ended, too.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Success,
        Err(error) => {
            report::complain(&format_args!("the host's end of the protocol broke: {}", source::reason(&error)));
            Exit::ExecboxFailed
        }
    }
}

fn serve(runner: &Runner) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let served = runtime.block_on(runner.serve(tokio::io::stdin(), tokio::io::stdout()));
    // Reading standard input occupies a thread that nothing can interrupt.
    runtime.shutdown_background();
    served
}
