//! What an execution uses, and the limits on it.
//!
//! A [`UsageLimiter`] counts in each place that sees the calls of a guest: in the contract that drives it, and again in the
//! host's half of a session, which does not trust the runner.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::limits::Limits;
use crate::text::bytes_text;

/// What an execution used. Its wall time is the duration of the result.
///
/// [`Option`]s are `None` if the value was not measured: runners in other languages may not report it. Of what a runner
/// reports, a host keeps only what it cannot measure itself, at most as much as is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Usage {
    /// The CPU time that the guest computed. In JSON `cpuMs`.
    #[serde(rename = "cpuMs", with = "millis", skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<Duration>,
    /// The time in which the guest only waited for calls. In JSON `hostWaitMs`.
    #[serde(rename = "hostWaitMs", with = "millis", skip_serializing_if = "Option::is_none")]
    pub host_wait: Option<Duration>,
    /// How many calls the guest made.
    pub calls: u64,
    /// The most calls that were in flight at once.
    pub peak_calls_in_flight: u64,
    /// The size of the answers to calls: see [`Limits::max_bytes_in`].
    pub bytes_in: u64,
    /// The size of what the guest sent: see [`Limits::max_bytes_out`].
    pub bytes_out: u64,
    /// The length of all sources together, in bytes.
    pub source_bytes: u64,
    /// The most memory that the program used, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// The most memory that the host held for the guest, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_host_memory_bytes: Option<u64>,
}

impl Usage {
    crate::setters! {
        cpu_time: impl Into<Option<Duration>>,
        host_wait: impl Into<Option<Duration>>,
        calls: u64,
        peak_calls_in_flight: u64,
        bytes_in: u64,
        bytes_out: u64,
        source_bytes: u64,
        peak_memory_bytes: impl Into<Option<u64>>,
        peak_host_memory_bytes: impl Into<Option<u64>>,
    }

    /// Whether the program has made a call or a report, or has returned a result.
    pub fn has_effects(&self) -> bool {
        self.calls > 0 || self.bytes_out > 0
    }

    /// Reads the usage that a runner reports. It is not part of the specification: an invalid one is ignored.
    pub(crate) fn read(json: Option<Json>) -> Self {
        json.and_then(|json| serde_json::from_value(json).ok()).unwrap_or_default()
    }

    /// The usage, unless nothing is known of it.
    pub(crate) fn known(&self) -> Option<&Self> {
        Some(self).filter(|usage| **usage != Self::default())
    }

    /// Adds what only the runner could measure. A runner is not trusted: nothing takes longer than `elapsed`, and the
    /// memory limit holds.
    #[must_use]
    pub(crate) fn with_reported(self, reported: &Self, limits: &Limits, elapsed: Duration) -> Self {
        Self {
            cpu_time: reported.cpu_time.map(|time| time.min(elapsed)),
            host_wait: reported.host_wait.map(|time| time.min(elapsed)).or(self.host_wait),
            peak_memory_bytes: reported.peak_memory_bytes.map(|bytes| bytes.min(limits.memory_bytes)),
            ..self
        }
    }
}

/// Optional durations in milliseconds, to the microsecond.
mod millis {
    use super::{Deserialize, Duration};
    use serde::{Deserializer, Serializer, de::Error as _};

    #[allow(clippy::ref_option)] // as serde calls it
    pub(super) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.serialize_f64(duration.as_micros() as f64 / 1000.0),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let Some(ms) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
        if ms < 0.0 {
            return Err(D::Error::custom("expected a number of at least 0"));
        }
        Ok(Some(Duration::from_micros((ms * 1000.0).round() as u64)))
    }
}

/// A limit that an execution has reached. The message follows its subject: `Execution …`, `The run …`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// [`Limits::cpu_time`].
    #[error("computed for {}; its limit is {}: compute less, or raise cpu_time", ms(*used), ms(*limit))]
    CpuTime {
        /// The CPU time that the guest computed.
        used: Duration,
        /// The limit.
        limit: Duration,
    },
    /// [`Limits::cpu_time_before_calls`].
    #[error(
        "computed for {} before its first call; its limit is {}: compute less, or raise cpu_time_before_calls",
        ms(*used),
        ms(*limit)
    )]
    CpuTimeBeforeCalls {
        /// The CPU time that the guest computed.
        used: Duration,
        /// The limit.
        limit: Duration,
    },
    /// [`Limits::host_wait`].
    #[error(
        "waited for calls for {}; its limit is {}: make calls at the same time, or raise host_wait",
        ms(*used),
        ms(*limit)
    )]
    HostWait {
        /// The time in which the guest only waited.
        used: Duration,
        /// The limit.
        limit: Duration,
    },
    /// [`Limits::max_calls`].
    #[error("made {used} call{}; its limit is {limit}: make fewer calls, or raise max_calls", if *used == 1 { "" } else { "s" })]
    Calls {
        /// The calls, with the one that exceeds the limit.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// [`Limits::max_bytes_in`].
    #[error(
        "received {} from calls; its limit is {}: ask for less data, or raise max_bytes_in",
        bytes_text(*used),
        bytes_text(*limit)
    )]
    BytesIn {
        /// The size of the answers, with the one that exceeds the limit.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// [`Limits::max_bytes_out`].
    #[error(
        "sent {} to the host; its limit is {}: send less data, or raise max_bytes_out",
        bytes_text(*used),
        bytes_text(*limit)
    )]
    BytesOut {
        /// The size of inputs, reports and result, with the one that exceeds the limit.
        used: u64,
        /// The limit.
        limit: u64,
    },
}

/// A duration in milliseconds: `60 ms`, `2.5 ms`.
fn ms(duration: Duration) -> String {
    format!("{} ms", duration.as_micros() as f64 / 1000.0)
}

/// Counts what an execution uses, and refuses what exceeds its [`Limits`]. A call or bytes that are refused are not used, and
/// do not count; time does.
#[derive(Debug, Clone)]
pub struct UsageLimiter {
    limits: Limits,
    usage: Usage,
}

impl UsageLimiter {
    /// An execution that has used nothing but its source.
    pub fn new(limits: &Limits, source_bytes: usize) -> Self {
        Self { limits: *limits, usage: Usage { source_bytes: source_bytes as u64, ..Usage::default() } }
    }

    /// What was used so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Counts a call.
    ///
    /// # Errors
    /// [`LimitError::Calls`], or [`LimitError::BytesOut`] for its input. The call must not be made.
    pub fn call(&mut self, input_bytes: usize) -> Result<(), LimitError> {
        let used = self.usage.calls + 1;
        if let Some(limit) = self.limits.max_calls.filter(|limit| used > *limit) {
            return Err(LimitError::Calls { used, limit });
        }
        self.output(input_bytes)?;
        self.usage.calls = used;
        Ok(())
    }

    /// Counts the calls that are in flight: made, and not answered.
    pub(crate) fn in_flight(&mut self, calls: usize) {
        self.usage.peak_calls_in_flight = self.usage.peak_calls_in_flight.max(calls as u64);
    }

    /// Counts an input, a notification or a result.
    ///
    /// # Errors
    /// [`LimitError::BytesOut`]. It must not be passed on.
    pub fn output(&mut self, bytes: usize) -> Result<(), LimitError> {
        let used = self.usage.bytes_out.saturating_add(bytes as u64);
        if let Some(limit) = self.limits.max_bytes_out.filter(|limit| used > *limit) {
            return Err(LimitError::BytesOut { used, limit });
        }
        self.usage.bytes_out = used;
        Ok(())
    }

    /// Counts the answer to a call.
    ///
    /// # Errors
    /// [`LimitError::BytesIn`]. The guest must not receive it.
    pub fn answer(&mut self, bytes: usize) -> Result<(), LimitError> {
        let used = self.usage.bytes_in.saturating_add(bytes as u64);
        if let Some(limit) = self.limits.max_bytes_in.filter(|limit| used > *limit) {
            return Err(LimitError::BytesIn { used, limit });
        }
        self.usage.bytes_in = used;
        Ok(())
    }

    /// Counts CPU time of the guest.
    ///
    /// # Errors
    /// [`LimitError::CpuTime`] or [`LimitError::CpuTimeBeforeCalls`]. The guest must stop, and an outcome of the same turn is
    /// too late.
    pub fn compute(&mut self, time: Duration) -> Result<(), LimitError> {
        let used = self.usage.cpu_time.unwrap_or_default().saturating_add(time);
        self.usage.cpu_time = Some(used);
        let before_calls = self.limits.cpu_time_before_calls.filter(|_| !self.usage.has_effects());
        match (self.limits.cpu_time, before_calls) {
            (Some(limit), _) if used > limit => Err(LimitError::CpuTime { used, limit }),
            (_, Some(limit)) if used > limit => Err(LimitError::CpuTimeBeforeCalls { used, limit }),
            _ => Ok(()),
        }
    }

    /// Counts time in which the guest only waited for calls.
    ///
    /// # Errors
    /// [`LimitError::HostWait`] when nothing is left to wait. The guest must stop.
    pub fn wait(&mut self, time: Duration) -> Result<(), LimitError> {
        let used = self.usage.host_wait.unwrap_or_default().saturating_add(time);
        self.usage.host_wait = Some(used);
        match self.limits.host_wait {
            Some(limit) if used >= limit => Err(LimitError::HostWait { used, limit }),
            _ => Ok(()),
        }
    }

    /// Sets the most memory that the program has used, if the engine measures it.
    pub(crate) fn set_peak_memory(&mut self, bytes: Option<u64>) {
        self.usage.peak_memory_bytes = bytes;
    }

    /// How long the guest may still wait; `None` without a limit.
    pub(crate) fn wait_left(&self) -> Option<Duration> {
        Some(self.limits.host_wait?.saturating_sub(self.usage.host_wait.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn without_limits_everything_is_counted() {
        let mut limiter = UsageLimiter::new(&Limits::default(), 9);
        for _ in 0..3 {
            limiter.call(10).unwrap();
            limiter.answer(usize::MAX).unwrap();
            limiter.compute(MS).unwrap();
            limiter.wait(2 * MS).unwrap();
        }
        limiter.output(5).unwrap();
        let expected = Usage {
            cpu_time: Some(3 * MS),
            host_wait: Some(6 * MS),
            calls: 3,
            bytes_in: u64::MAX,
            bytes_out: 35,
            source_bytes: 9,
            ..Usage::default()
        };
        assert_eq!((limiter.usage(), limiter.wait_left()), (expected, None));
    }

    #[test]
    fn each_limit_is_exact_and_its_error_names_limit_usage_and_remedy() {
        let limits = Limits {
            cpu_time: Some(2 * MS),
            host_wait: Some(3 * MS),
            max_calls: Some(2),
            max_bytes_in: Some(100),
            max_bytes_out: Some(200),
            ..Limits::default()
        };
        let mut limiter = UsageLimiter::new(&limits, 0);
        limiter.call(100).unwrap();
        limiter.call(100).unwrap();
        let error = limiter.call(100).unwrap_err();
        assert_eq!(error.to_string(), "made 3 calls; its limit is 2: make fewer calls, or raise max_calls");
        assert_eq!((limiter.usage().calls, limiter.usage().bytes_out), (2, 200), "it was not made");
        let error = limiter.output(1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sent 201 bytes to the host; its limit is 200 bytes: send less data, or raise max_bytes_out"
        );
        limiter.answer(100).unwrap();
        let error = limiter.answer(1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "received 101 bytes from calls; its limit is 100 bytes: ask for less data, or raise max_bytes_in"
        );
        limiter.compute(2 * MS).unwrap();
        let error = limiter.compute(MS / 4).unwrap_err();
        assert_eq!(error.to_string(), "computed for 2.25 ms; its limit is 2 ms: compute less, or raise cpu_time");
        limiter.wait(MS).unwrap();
        assert_eq!(limiter.wait_left(), Some(2 * MS));
        let error = limiter.wait(3 * MS).unwrap_err();
        assert_eq!(
            error.to_string(),
            "waited for calls for 4 ms; its limit is 3 ms: make calls at the same time, or raise host_wait"
        );
        assert_eq!(limiter.wait_left(), Some(Duration::ZERO));
    }

    #[test]
    fn the_limit_before_calls_does_not_apply_after_one() {
        let limits = Limits { cpu_time_before_calls: Some(2 * MS), ..Limits::default() };
        let mut limiter = UsageLimiter::new(&limits, 0);
        limiter.compute(2 * MS).unwrap();
        let error = limiter.clone().compute(MS).unwrap_err();
        assert_eq!(
            error.to_string(),
            "computed for 3 ms before its first call; its limit is 2 ms: compute less, or raise cpu_time_before_calls"
        );
        let mut reports = limiter.clone();
        reports.output(1).unwrap();
        assert_eq!(reports.compute(100 * MS), Ok(()));
        limiter.call(0).unwrap();
        assert_eq!(limiter.compute(100 * MS), Ok(()));
    }

    #[test]
    fn limits_of_zero_allow_nothing() {
        let limits = Limits {
            cpu_time: Some(Duration::ZERO),
            host_wait: Some(Duration::ZERO),
            max_calls: Some(0),
            max_bytes_in: Some(0),
            max_bytes_out: Some(0),
            ..Limits::default()
        };
        let mut limiter = UsageLimiter::new(&limits, 0);
        assert_eq!(limiter.call(0), Err(LimitError::Calls { used: 1, limit: 0 }));
        assert_eq!(limiter.output(1), Err(LimitError::BytesOut { used: 1, limit: 0 }));
        assert_eq!(limiter.answer(1), Err(LimitError::BytesIn { used: 1, limit: 0 }));
        assert_eq!(limiter.compute(MS), Err(LimitError::CpuTime { used: MS, limit: Duration::ZERO }));
        assert_eq!(limiter.wait(MS), Err(LimitError::HostWait { used: MS, limit: Duration::ZERO }));
        let mut idle = UsageLimiter::new(&limits, 0);
        assert!(idle.output(0).is_ok() && idle.answer(0).is_ok() && idle.compute(Duration::ZERO).is_ok());
    }

    #[test]
    fn a_host_keeps_only_possible_claims_of_a_runner() {
        let measured = Usage { calls: 2, bytes_in: 3, host_wait: Some(MS), ..Usage::default() };
        let claimed = Usage {
            cpu_time: Some(9 * MS),
            host_wait: Some(2 * MS),
            calls: 7,
            bytes_in: 7,
            peak_memory_bytes: Some(u64::MAX),
            peak_host_memory_bytes: Some(7),
            ..Usage::default()
        };
        let usage = measured.with_reported(&claimed, &Limits::default(), 5 * MS);
        let memory = Some(Limits::default().memory_bytes);
        let kept = Usage { cpu_time: Some(5 * MS), host_wait: Some(2 * MS), peak_memory_bytes: memory, ..measured };
        assert_eq!(usage, kept);
        assert_eq!(measured.with_reported(&Usage::default(), &Limits::default(), 5 * MS), measured);
    }
}
