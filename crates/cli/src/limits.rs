//! The options that set limits.

use std::time::Duration;

use clap::Args;
use execbox::Limits;

use crate::units::{Size, Time};

// `--timeout` is an option of each command, with a default of its own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArguments {
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help = memory_help())]
    pub(crate) memory: Option<Size>,

    /// Stop the program if the host holds more memory for it than SIZE: calls, answers, reports [default: that of --memory]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    host_memory: Option<Size>,

    /// Stop the program after it has computed for TIME; the time of its calls does not count [default: no limit]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    cpu_time: Option<Time>,

    /// Stop the program after it has waited for its calls for TIME [default: no limit]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    host_wait: Option<Time>,

    /// Stop the program if it makes more than COUNT calls [default: no limit]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    max_calls: Option<u64>,

    /// Make at most COUNT of its calls at once; further calls wait
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, default_value_t = Limits::default().max_calls_in_flight)]
    max_calls_in_flight: usize,

    /// Stop the program if the answers to its calls are larger than SIZE together [default: no limit]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    max_bytes_in: Option<Size>,

    /// Stop the program if the inputs of its calls, its reports and its result are larger than SIZE together [default: no limit]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    max_bytes_out: Option<Size>,

    /// Keep the first COUNT lines of its log
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, default_value_t = Limits::default().max_log_lines)]
    max_log_lines: usize,

    /// Keep the first COUNT characters of its log
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, default_value_t = Limits::default().max_log_chars)]
    max_log_chars: usize,

    /// Reject sources, and modules, that are longer than SIZE; a plain number is bytes
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, default_value_t = Size(Limits::default().max_source_bytes as u64))]
    max_source: Size,
}

impl LimitArguments {
    pub(crate) fn limits(&self, timeout: Duration) -> Limits {
        Limits {
            timeout,
            memory_bytes: self.memory.map_or(Limits::default().memory_bytes, |size| size.0),
            host_memory_bytes: self.host_memory.map(|size| size.0),
            cpu_time: self.cpu_time.map(|time| time.0),
            cpu_time_before_calls: None,
            host_wait: self.host_wait.map(|time| time.0),
            max_calls: self.max_calls,
            max_calls_in_flight: self.max_calls_in_flight,
            max_bytes_in: self.max_bytes_in.map(|size| size.0),
            max_bytes_out: self.max_bytes_out.map(|size| size.0),
            max_log_lines: self.max_log_lines,
            max_log_chars: self.max_log_chars,
            max_source_bytes: usize::try_from(self.max_source.0).unwrap_or(usize::MAX),
        }
    }
}

/// Not a default of clap: an options file of `run-code` may set another one.
fn memory_help() -> String {
    let default = Size(Limits::default().memory_bytes);
    format!(
        "Stop the program if it uses more memory than SIZE: `64MiB`, `1GB`; a plain number is bytes [default: {default}]"
    )
}
