//! The limits of a program, as one table: fields, defaults, names in the protocol and on the command line, and when a runner
//! can have stopped a program for one.
//!
//! A further limit is a row here, and the place that enforces it. Readers and writers of limits, caps, options and the test of
//! the documentation go through [`Limits::TABLE`].

use std::fmt;
use std::time::Duration;

use crate::text::bytes_text;
use crate::usage::Usage;

/// A limit, as a row of [`Limits::TABLE`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Limit {
    /// The field of [`Limits`].
    pub field: &'static str,
    /// The name in texts.
    pub name: &'static str,
    /// The unit of the value.
    pub unit: Unit,
    /// How the limit crosses to a runner.
    pub wire: Wire,
    /// The command-line option that sets the limit, without dashes.
    pub option: &'static str,
    /// The effect of the limit, for the help of the option.
    pub effect: &'static str,
    /// The earliest time at which a runner can have stopped a program for this limit with the error `timeout`, given the
    /// usage that the host counted. `None` if it cannot have.
    pub(crate) stops_after: fn(&Limits, &Usage) -> Option<Duration>,
    get: fn(&Limits) -> Option<Amount>,
    set: fn(&mut Limits, Option<Amount>),
}

/// What a limit is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A duration; in the protocol in milliseconds.
    Time,
    /// Bytes.
    Size,
    /// A plain number.
    Count,
}

/// How a limit crosses to a runner: the name in `options` of `execute` and `run_code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Always, as in the runner specification.
    Always(&'static str),
    /// Where it differs from its default, which every runner applies. Not part of the specification.
    IfSet(&'static str),
    /// Not at all: the host enforces it.
    Never,
}

/// The value of a limit: a time or a count, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Amount {
    /// The value of a limit in [`Unit::Time`].
    Time(Duration),
    /// The value of every other limit.
    Count(u64),
}

impl Limit {
    /// The value in `limits`; `None` is no limit.
    pub fn get(&self, limits: &Limits) -> Option<Amount> {
        (self.get)(limits)
    }

    /// Sets the value in `limits`; `None` is no limit.
    pub fn set(&self, limits: &mut Limits, amount: Option<Amount>) {
        (self.set)(limits, amount);
    }

    /// The value as text: `1m`, `64 MiB`, `100`.
    fn text(&self, amount: Option<Amount>) -> String {
        match amount {
            None => "none".to_owned(),
            Some(Amount::Time(time)) => format!("{time:?}"),
            Some(Amount::Count(bytes)) if self.unit == Unit::Size => bytes_text(bytes),
            Some(Amount::Count(count)) => count.to_string(),
        }
    }
}

/// A field of [`Limits`].
trait Field {
    fn amount(&self) -> Option<Amount>;

    /// `None` is no limit.
    fn from_amount(amount: Option<Amount>) -> Self;
}

impl Field for Duration {
    fn amount(&self) -> Option<Amount> {
        Some(Amount::Time(*self))
    }

    fn from_amount(amount: Option<Amount>) -> Self {
        match amount {
            Some(Amount::Time(time)) => time,
            Some(Amount::Count(ms)) => Self::from_millis(ms),
            None => Self::MAX,
        }
    }
}

impl Field for u64 {
    fn amount(&self) -> Option<Amount> {
        Some(Amount::Count(*self))
    }

    fn from_amount(amount: Option<Amount>) -> Self {
        match amount {
            Some(Amount::Count(count)) => count,
            Some(Amount::Time(time)) => Self::try_from(time.as_millis()).unwrap_or(Self::MAX),
            None => Self::MAX,
        }
    }
}

impl Field for usize {
    fn amount(&self) -> Option<Amount> {
        Some(Amount::Count(*self as u64))
    }

    fn from_amount(amount: Option<Amount>) -> Self {
        Self::try_from(u64::from_amount(amount)).unwrap_or(Self::MAX)
    }
}

impl<T: Field> Field for Option<T> {
    fn amount(&self) -> Option<Amount> {
        self.as_ref().and_then(T::amount)
    }

    fn from_amount(amount: Option<Amount>) -> Self {
        amount.map(|amount| T::from_amount(Some(amount)))
    }
}

macro_rules! limits {
    ($(
        $(#[doc = $doc:literal])*
        $field:ident: $type:ty = $default:expr => {
            name: $name:literal, unit: $unit:ident, wire: $wire:expr,
            option: $option:literal, effect: $effect:literal,
            stops_after: $stops_after:expr $(,)?
        }
    )*) => {
        /// Limits of one execution or run (runner specification, `ExecutorRuntimeOptions`).
        ///
        /// `None` is no limit.
        ///
        /// ```
        /// use std::time::Duration;
        ///
        /// use execbox_core::program::Limits;
        ///
        /// let limits = Limits::default().timeout(Duration::from_secs(1)).max_calls(20);
        /// assert_eq!((limits.max_calls, limits.memory_bytes), (Some(20), 64 << 20));
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Limits {
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl Limits {
            /// Every limit.
            pub const TABLE: &'static [Limit] = &[$(Limit {
                field: stringify!($field),
                name: $name,
                unit: Unit::$unit,
                wire: $wire,
                option: $option,
                effect: $effect,
                stops_after: $stops_after,
                get: |limits| limits.$field.amount(),
                set: |limits, amount| limits.$field = <$type>::from_amount(amount),
            },)*];
        }
    };
}

limits! {
    /// Wall time from acceptance to result. Enforced by the driver, not by the engine. Default 5 s.
    timeout: Duration = Duration::from_secs(5) => {
        name: "timeout", unit: Time, wire: Wire::Always("timeoutMs"),
        option: "timeout", effect: "Stop the program after TIME",
        stops_after: |limits, _| Some(limits.timeout),
    }

    /// Memory that the program may use at once beyond its initial realm, in bytes. Default 64 MiB.
    memory_bytes: u64 = 64 << 20 => {
        name: "memory", unit: Size, wire: Wire::Always("memoryLimitBytes"),
        option: "memory", effect: "Stop the program if it uses more memory than SIZE: `64MiB`, `1GB`",
        stops_after: |_, _| None,
    }

    /// Memory that the host may hold for the program at once, in bytes: inputs of pending calls, answers, reports.
    /// Default: `None`, which is as much as `memory_bytes`.
    host_memory_bytes: Option<u64> = None => {
        name: "host memory", unit: Size, wire: Wire::IfSet("hostMemoryBytes"),
        option: "host-memory", effect: "Stop the program if the host holds more memory for it than SIZE: calls, answers, reports",
        stops_after: |_, _| None,
    }

    /// CPU time that the program computes, parsing included. Checked after each turn of the guest, which takes about two
    /// milliseconds at most. Default: none, as the timeout bounds it.
    cpu_time: Option<Duration> = None => {
        name: "CPU time", unit: Time, wire: Wire::IfSet("cpuTimeMs"),
        option: "cpu-time", effect: "Stop the program after it has computed for TIME; the time of its calls does not count",
        stops_after: |limits, _| limits.cpu_time,
    }

    /// CPU time that the program computes before its first call or report, parsing included. Default: none.
    cpu_time_before_calls: Option<Duration> = None => {
        name: "CPU time before calls", unit: Time, wire: Wire::IfSet("cpuTimeBeforeCallsMs"),
        option: "auto-cpu", effect: "Start the program again with the other engine after it has computed for TIME before its first call",
        stops_after: |limits, usage| limits.cpu_time_before_calls.filter(|_| !usage.has_effects()),
    }

    /// The time in which the program only waits for calls. Default: none, as the timeout bounds it.
    host_wait: Option<Duration> = None => {
        name: "time waiting for calls", unit: Time, wire: Wire::IfSet("hostWaitMs"),
        option: "host-wait", effect: "Stop the program after it has waited for its calls for TIME",
        stops_after: |limits, _| limits.host_wait,
    }

    /// The most calls of tools, or of host functions in modules. Default: none.
    max_calls: Option<u64> = None => {
        name: "calls", unit: Count, wire: Wire::IfSet("maxCalls"),
        option: "max-calls", effect: "Stop the program if it makes more than COUNT calls",
        stops_after: |limits, usage| limits.max_calls.filter(|max| usage.calls >= *max).map(|_| Duration::ZERO),
    }

    /// The most calls that the host makes at once; further calls wait for their turn. At least 1. Default 256.
    max_calls_in_flight: usize = 256 => {
        name: "calls in flight", unit: Count, wire: Wire::Never,
        option: "max-calls-in-flight", effect: "Make at most COUNT of its calls at once; further calls wait",
        stops_after: |_, _| None,
    }

    /// The most bytes of the answers to all calls together. A value counts about as much as it takes as JSON; in modules, as
    /// its [bytes](crate::value::Value::as_bytes). Default: none.
    max_bytes_in: Option<u64> = None => {
        name: "bytes in", unit: Size, wire: Wire::IfSet("maxBytesIn"),
        option: "max-bytes-in", effect: "Stop the program if the answers to its calls are larger than SIZE together",
        // What the runner refused to pass on is not known here.
        stops_after: |limits, _| limits.max_bytes_in.map(|_| Duration::ZERO),
    }

    /// The most bytes of the inputs of all calls, the reports and the result together. Default: none.
    max_bytes_out: Option<u64> = None => {
        name: "bytes out", unit: Size, wire: Wire::IfSet("maxBytesOut"),
        option: "max-bytes-out", effect: "Stop the program if the inputs of its calls, its reports and its result are larger than SIZE together",
        stops_after: |limits, _| limits.max_bytes_out.map(|_| Duration::ZERO),
    }

    /// The most console lines that are kept; later ones are dropped. In modules, each call of a
    /// [log function](crate::value::FunctionKind::Log) is a line. Default 100.
    max_log_lines: usize = 100 => {
        name: "log lines", unit: Count, wire: Wire::Always("maxLogLines"),
        option: "max-log-lines", effect: "Keep the first COUNT lines of its log",
        stops_after: |_, _| None,
    }

    /// The most UTF-16 code units of all kept lines together; in modules, the most bytes of the arguments. Default 64 000.
    max_log_chars: usize = 64_000 => {
        name: "log characters", unit: Count, wire: Wire::Always("maxLogChars"),
        option: "max-log-chars", effect: "Keep the first COUNT characters of its log",
        stops_after: |_, _| None,
    }

    /// The most bytes of the source of a script, and of each module. Default 4 MiB.
    max_source_bytes: usize = 4 << 20 => {
        name: "source", unit: Size, wire: Wire::IfSet("maxSourceBytes"),
        option: "max-source", effect: "Reject sources, and modules, that are longer than SIZE: `1MiB`",
        stops_after: |_, _| None,
    }
}

impl Limits {
    crate::setters! {
        timeout: Duration,
        memory_bytes: u64,
        host_memory_bytes: impl Into<Option<u64>>,
        cpu_time: impl Into<Option<Duration>>,
        cpu_time_before_calls: impl Into<Option<Duration>>,
        host_wait: impl Into<Option<Duration>>,
        max_calls: impl Into<Option<u64>>,
        max_calls_in_flight: usize,
        max_bytes_in: impl Into<Option<u64>>,
        max_bytes_out: impl Into<Option<u64>>,
        max_log_lines: usize,
        max_log_chars: usize,
        max_source_bytes: usize,
    }

    /// No limits, for [`capped_by`](Self::capped_by).
    pub fn unlimited() -> Self {
        let mut limits = Self::default();
        for limit in Self::TABLE {
            limit.set(&mut limits, None);
        }
        limits
    }

    /// Lowers each limit to that of `max`. Also returns which limits were lowered.
    pub fn capped_by(&self, max: &Self) -> (Self, CappedLimits) {
        let (mut limits, mut capped) = (*self, Vec::new());
        for limit in Self::TABLE {
            let (requested, max) = (limit.effective(&limits), limit.effective(max));
            let is_lower = max.is_some_and(|max| requested.is_none_or(|requested| requested > max));
            if is_lower {
                limit.set(&mut limits, max);
                capped.push(format!("{} {} ({} requested)", limit.name, limit.text(max), limit.text(requested)));
            }
        }
        (limits, CappedLimits(capped))
    }

    /// The earliest time at which a runner can have stopped a program with the error `timeout`, given the usage that the host
    /// counted.
    pub(crate) fn stops_after(&self, usage: &Usage) -> Duration {
        Self::TABLE.iter().filter_map(|limit| (limit.stops_after)(self, usage)).min().unwrap_or(self.timeout)
    }

    /// The CPU time after which a program that has made no call or report is stopped; `None` without a limit.
    pub fn cpu_time_at_first(&self) -> Option<Duration> {
        self.cpu_time.into_iter().chain(self.cpu_time_before_calls).min()
    }

    /// [`memory_bytes`](Self::memory_bytes), capped to `usize`.
    pub fn memory_len(&self) -> usize {
        usize::try_from(self.memory_bytes).unwrap_or(usize::MAX)
    }

    /// [`host_memory_bytes`](Self::host_memory_bytes) or its default, capped to `usize`.
    pub fn host_memory_len(&self) -> usize {
        usize::try_from(self.host_memory_bytes.unwrap_or(self.memory_bytes)).unwrap_or(usize::MAX)
    }
}

impl Limit {
    /// The value that is enforced: the limit on host memory is by default the memory limit of the program.
    fn effective(&self, limits: &Limits) -> Option<Amount> {
        let default = || (self.field == "host_memory_bytes").then_some(Amount::Count(limits.memory_bytes));
        self.get(limits).or_else(default)
    }
}

/// The limits that [`Limits::capped_by`] has lowered. As text: `timeout 30s (1m requested), memory 64 MiB (1 GiB requested)`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CappedLimits(Vec<String>);

impl CappedLimits {
    /// Whether no limit was lowered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for CappedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_lowers_limits_and_says_which() {
        let requested = Limits { max_calls: Some(9), max_bytes_in: Some(1), ..Limits::default() };
        let (limits, capped) = requested.capped_by(&Limits::unlimited());
        assert_eq!((limits, capped.is_empty()), (requested, true));

        let max = Limits {
            timeout: Duration::from_secs(1),
            cpu_time: Some(Duration::from_millis(500)),
            max_calls: Some(3),
            memory_bytes: 32 << 20,
            max_source_bytes: 100,
            ..Limits::unlimited()
        };
        let (limits, capped) = requested.capped_by(&max);
        let expected = Limits { max_bytes_in: Some(1), max_log_lines: 100, max_log_chars: 64_000, ..max };
        assert_eq!(limits, Limits { max_calls_in_flight: 256, ..expected });
        assert_eq!(
            capped.to_string(),
            "timeout 1s (5s requested), memory 32 MiB (64 MiB requested), CPU time 500ms (none requested), \
             calls 3 (9 requested), source 100 bytes (4 MiB requested)"
        );
        assert_eq!(limits.capped_by(&max), (limits, CappedLimits::default()));
    }

    #[test]
    fn each_limit_can_be_read_set_and_removed() {
        for limit in Limits::TABLE {
            let mut limits = Limits::default();
            let amount = if limit.unit == Unit::Time { Amount::Time(Duration::from_secs(7)) } else { Amount::Count(7) };
            limit.set(&mut limits, Some(amount));
            assert_eq!(limit.get(&limits), Some(amount), "{limit:?}");
            let others = Limits::TABLE.iter().filter(|other| other.field != limit.field);
            assert!(others.clone().all(|other| other.get(&limits) == other.get(&Limits::default())), "{limit:?}");
            let mut capped = Limits::unlimited();
            limit.set(&mut capped, Some(amount));
            let (lower, said) = Limits::unlimited().capped_by(&capped);
            assert_eq!((limit.get(&lower), said.is_empty()), (Some(amount), false), "{limit:?}");
        }
    }

    #[test]
    fn host_memory_is_capped_by_memory_unless_it_has_a_cap_of_its_own() {
        let host = |memory_bytes, host_memory_bytes| Limits { memory_bytes, host_memory_bytes, ..Limits::unlimited() };
        for (requested, max, expected) in [
            ((10, None), (5, None), 5),
            ((10, Some(20)), (10, None), 10),
            ((10, Some(20)), (10, Some(15)), 15),
            ((10, None), (10, Some(5)), 5),
            ((10, Some(3)), (5, None), 3),
        ] {
            let (limits, _) = host(requested.0, requested.1).capped_by(&host(max.0, max.1));
            assert_eq!(limits.host_memory_len(), expected, "{requested:?} {max:?}");
        }
    }
}
