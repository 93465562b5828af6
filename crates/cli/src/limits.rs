//! The options that set limits.

use std::time::Duration;

use clap::Args;
use execbox::Limits;

use crate::units::Size;

// `--timeout` is an option of each command, with a default of its own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArguments {
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help = memory_help())]
    pub(crate) memory: Option<Size>,

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
