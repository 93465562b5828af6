//! Limits of a request that are set one by one.

use std::time::Duration;

use execbox_core::program::Limits;

/// The limits that were set one by one. They replace those that are set together, before or afterwards.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SingleLimits {
    pub(crate) timeout: Option<Duration>,
    pub(crate) cpu_time: Option<Duration>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) max_calls: Option<u64>,
    pub(crate) max_log_lines: Option<usize>,
}

impl SingleLimits {
    /// `limits`, with these in their places.
    pub(crate) fn in_place_of(&self, limits: &Limits) -> Limits {
        limits
            .timeout(self.timeout.unwrap_or(limits.timeout))
            .cpu_time(self.cpu_time.or(limits.cpu_time))
            .memory_bytes(self.memory_bytes.unwrap_or(limits.memory_bytes))
            .max_calls(self.max_calls.or(limits.max_calls))
            .max_log_lines(self.max_log_lines.unwrap_or(limits.max_log_lines))
    }
}

/// Setters of single limits, for a builder with the fields `limits` and `single_limits`.
macro_rules! limit_setters {
    () => {
        /// Sets the [timeout](Limits::timeout) alone. It replaces that of [`limits`](Self::limits), in any order.
        pub fn timeout(mut self, timeout: Duration) -> Self {
            self.single_limits.timeout = Some(timeout);
            self
        }

        /// Sets the limit on [CPU time](Limits::cpu_time) alone. It replaces that of [`limits`](Self::limits), in any order.
        pub fn cpu_time(mut self, cpu_time: Duration) -> Self {
            self.single_limits.cpu_time = Some(cpu_time);
            self
        }

        /// Sets the [memory limit](Limits::memory_bytes) alone, in bytes. It replaces that of [`limits`](Self::limits), in any
        /// order.
        pub fn memory_bytes(mut self, bytes: u64) -> Self {
            self.single_limits.memory_bytes = Some(bytes);
            self
        }

        /// Sets the limit on [calls](Limits::max_calls) alone. It replaces that of [`limits`](Self::limits), in any order.
        pub fn max_calls(mut self, count: u64) -> Self {
            self.single_limits.max_calls = Some(count);
            self
        }

        /// Sets the limit on [log lines](Limits::max_log_lines) alone. It replaces that of [`limits`](Self::limits), in any
        /// order.
        pub fn max_log_lines(mut self, count: usize) -> Self {
            self.single_limits.max_log_lines = Some(count);
            self
        }

        /// The limits that apply.
        pub(crate) fn effective_limits(&self) -> Limits {
            self.single_limits.in_place_of(&self.limits)
        }

        /// Replaces all limits, those that were set one by one included.
        pub(crate) fn with_exact_limits(self, limits: Limits) -> Self {
            Self { limits, single_limits: SingleLimits::default(), ..self }
        }
    };
}
pub(crate) use limit_setters;
