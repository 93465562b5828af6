//! The numbers that cross the boundary between host and guest, as in guest/boundary.h.

use execbox_core::engine::LogLevel;
use execbox_core::libraries::Library;

/// Defines an enum with the numbers that cross.
macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $number:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum $name {
            $($variant = $number),*
        }

        impl $name {
            /// `None` for other numbers, which only a compromised guest sends.
            #[allow(dead_code)] // some cross in one direction only
            pub(crate) fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            #[cfg(test)]
            const NAMES: &'static [(&'static str, u32)] = &[$((stringify!($variant), $number)),*];
        }
    };
}

numbers! {
    /// What a program is.
    Start { Script = 0, Modules = 1 }
}

numbers! {
    /// Flags of a script.
    ScriptFlag { WaitsForCalls = 1, CommonGlobals = 2, Timers = 4 }
}

numbers! {
    /// A library of the host.
    LibraryNumber { Text = 0, Console = 1, Timers = 2, Intl = 3 }
}

numbers! {
    /// Flags of a module.
    ModuleFlag { Synthetic = 1, Importable = 2 }
}

numbers! {
    /// What a settlement settles.
    Settles { Promise = 0, Call = 1, Timer = 2 }
}

numbers! {
    /// How a call or promise is settled.
    Settle { Failed = 0, Fulfilled = 1, Rejected = 2 }
}

numbers! {
    /// How a program ends.
    End { Value = 0, Thrown = 1, Failure = 2, Unlinked = 3 }
}

numbers! {
    /// The level of a console line.
    Level { Log = 0, Info = 1, Warn = 2, Error = 3, Debug = 4 }
}

/// The bit of a shift's source column that marks inserted text.
pub(crate) const SHIFT_INSERTED: u32 = 0x8000_0000;

impl LibraryNumber {
    /// The source of the library.
    pub(crate) fn source(self) -> &'static str {
        match self {
            Self::Text => Library::Text.source(),
            Self::Console => Library::Console.source(),
            Self::Timers => Library::Timers.source(),
            Self::Intl => execbox_locale::INTL,
        }
    }
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Log => Self::Log,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
            Level::Debug => Self::Debug,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use execbox_core::engine::MAX_UNAWAITED;
    use execbox_core::value::{Foreign, FunctionKind};

    /// The constants of the header, by name.
    fn header() -> Vec<(String, u32)> {
        let header = include_str!("../guest/boundary.h");
        let enums = header.split("enum {").skip(1).map(|rest| rest.split('}').next().unwrap());
        let constants = enums.flat_map(|body| body.split(',')).filter_map(|constant| constant.split_once('='));
        constants.map(|(name, number)| (name.trim().to_owned(), number.trim().parse().unwrap())).collect()
    }

    /// `BigInt` as `PREFIX_BIG_INT`.
    fn constant(prefix: &str, variant: &str) -> String {
        variant.chars().fold(prefix.to_owned(), |mut name, c| {
            if c.is_uppercase() {
                name.push('_');
            }
            name.push(c.to_ascii_uppercase());
            name
        })
    }

    #[test]
    fn numbers_are_those_of_the_header() {
        let mut expected = Vec::new();
        for (prefix, names) in [
            ("START", Start::NAMES),
            ("SCRIPT", ScriptFlag::NAMES),
            ("LIBRARY", LibraryNumber::NAMES),
            ("MODULE", ModuleFlag::NAMES),
            ("SETTLES", Settles::NAMES),
            ("SETTLE", Settle::NAMES),
            ("END", End::NAMES),
            ("LEVEL", Level::NAMES),
        ] {
            expected.extend(names.iter().map(|(variant, number)| (constant(prefix, variant), *number)));
        }
        for kind in [FunctionKind::Async, FunctionKind::Sync, FunctionKind::Notify, FunctionKind::Log] {
            expected.push((constant("CALL", &format!("{kind:?}")), kind as u32));
        }
        for kind in Foreign::ALL {
            expected.push((constant("FOREIGN", &format!("{kind:?}")), kind as u32));
        }
        assert_eq!(header(), expected);
        let header = include_str!("../guest/boundary.h");
        assert!(header.contains(&format!("SHIFT_INSERTED {SHIFT_INSERTED:#x}u")));
        assert!(header.contains(&format!("MAX_UNAWAITED {MAX_UNAWAITED}\n")));
        assert!(header.contains(&format!("LIBRARY_COUNT {}\n", LibraryNumber::NAMES.len())));
    }
}
