//! The options that set limits, generated from the table of limits.

use std::marker::PhantomData;
use std::time::Duration;

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use execbox::{Limits, ListenOptions};
use execbox_core::program::{Amount, Limit, Unit, Wire};

use crate::options::units::{Size, Time, count};

/// The default of the timeout of programs of a gateway. Longer than that of others, because tools may be remote.
pub(crate) const GATEWAY_TIMEOUT: Duration = Duration::from_secs(30);

/// The options of a command for one kind of limits.
pub(crate) trait LimitOptions {
    const HEADING: &'static str;

    /// The name of the option without dashes; `None` if there is none.
    fn option(limit: &Limit) -> Option<String>;

    /// The limits if no option is given.
    fn defaults() -> Limits;

    /// Adds further rules to an option.
    fn refine(arg: Arg) -> Arg {
        arg
    }
}

/// The limits of a program that a command executes. `--timeout` and `--auto-cpu` are options of each command.
#[derive(Debug)]
pub(crate) struct OfProgram;

impl LimitOptions for OfProgram {
    const HEADING: &'static str = "Limits";

    fn option(limit: &Limit) -> Option<String> {
        let is_common = !matches!(limit.field, "timeout" | "cpu_time_before_calls");
        is_common.then(|| limit.option.to_owned())
    }

    fn defaults() -> Limits {
        Limits::default()
    }
}

/// The maximum limits that hosts can set on a listening runner.
#[derive(Debug)]
pub(crate) struct OfHosts;

impl LimitOptions for OfHosts {
    const HEADING: &'static str = "Limits of programs, whatever their hosts ask for";

    fn option(limit: &Limit) -> Option<String> {
        let crosses = limit.wire != Wire::Never && limit.field != "cpu_time_before_calls";
        let name = limit.option.strip_prefix("max-").unwrap_or(limit.option);
        crosses.then(|| format!("max-{name}"))
    }

    fn defaults() -> Limits {
        ListenOptions::default().max_limits
    }

    fn refine(arg: Arg) -> Arg {
        arg.requires("listen")
    }
}

/// The limits that the options of a command set.
#[derive(Debug)]
pub(crate) struct LimitArguments<O = OfProgram> {
    given: Vec<(&'static Limit, Amount)>,
    options: PhantomData<O>,
}

impl<O: LimitOptions> LimitArguments<O> {
    /// The limits that the options set, and those of `base` for the others.
    pub(crate) fn limits(&self, base: Limits) -> Limits {
        let mut limits = base;
        for (limit, amount) in &self.given {
            limit.set(&mut limits, Some(*amount));
        }
        limits
    }

    /// The value of `--memory`, if it is given.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        self.given
            .iter()
            .any(|(limit, _)| limit.field == "memory_bytes")
            .then(|| self.limits(O::defaults()).memory_bytes)
    }
}

impl<O: LimitOptions> FromArgMatches for LimitArguments<O> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let options = Limits::TABLE.iter().filter(|limit| O::option(limit).is_some());
        let given = options.filter(|limit| matches.value_source(limit.field) == Some(ValueSource::CommandLine));
        let amount = |limit: &Limit| match limit.unit {
            Unit::Time => matches.get_one::<Time>(limit.field).map(|time| Amount::Time(time.0)),
            Unit::Size => matches.get_one::<Size>(limit.field).map(|size| Amount::Count(size.0)),
            Unit::Count => matches.get_one::<u64>(limit.field).map(|count| Amount::Count(*count)),
        };
        let given = given.filter_map(|limit| Some((limit, amount(limit)?))).collect();
        Ok(Self { given, options: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<O: LimitOptions> Args for LimitArguments<O> {
    fn augment_args(command: Command) -> Command {
        let options = Limits::TABLE.iter().filter_map(|limit| Some((limit, O::option(limit)?)));
        options.fold(command, |command, (limit, option)| command.arg(argument::<O>(limit, option)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument<O: LimitOptions>(limit: &Limit, option: String) -> Arg {
    let (unit, parser) = match limit.unit {
        Unit::Time => ("TIME", ValueParser::from(value_parser!(Time))),
        Unit::Size => ("SIZE", value_parser!(Size).into()),
        Unit::Count => ("COUNT", count::<u64>.into()),
    };
    let arg = Arg::new(limit.field).long(option).value_name(unit).value_parser(parser).help_heading(O::HEADING);
    let arg = arg.hide_short_help(!matches!(limit.field, "timeout" | "memory_bytes"));
    let arg = O::refine(arg.allow_negative_numbers(true));
    let default = limit.get(&O::defaults()).filter(|default| Some(*default) != limit.get(&Limits::unlimited()));
    match default {
        Some(Amount::Time(time)) => arg.help(limit.effect).default_value(Time(time).to_string()),
        Some(Amount::Count(bytes)) if limit.unit == Unit::Size => {
            arg.help(limit.effect).default_value(Size(bytes).to_string())
        }
        Some(Amount::Count(count)) => arg.help(limit.effect).default_value(count.to_string()),
        None if limit.field == "host_memory_bytes" => {
            let memory = Limits::TABLE.iter().find(|limit| limit.field == "memory_bytes").and_then(O::option);
            arg.help(format!("{} [default: that of --{}]", limit.effect, memory.unwrap_or_default()))
        }
        None => arg.help(format!("{} [default: no limit]", limit.effect)),
    }
}
