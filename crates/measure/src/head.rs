//! The machine and the build that figures depend on: the head of each report.

use std::collections::BTreeMap;
use std::{fmt, fs};

use serde::{Deserialize, Serialize};

/// The version of the format of reports. It changes when a field changes its meaning; fields and rows may be added.
pub const FORMAT: u32 = 1;

/// What figures depend on. Contains no name of the machine and no path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    format: u32,
    /// The build of the binary.
    pub execbox: Build,
    /// The machine on which the binary ran.
    pub machine: Machine,
    /// Whether there are fewer samples, by `--quick`.
    pub quick: bool,
}

/// A build of the binary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Build {
    /// The version of the package.
    pub version: String,
    /// Whether the build is optimized.
    pub profile: Profile,
    /// The versions of the engines that are built in, by name.
    pub engines: BTreeMap<String, String>,
}

/// The profile of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// With debug assertions. Figures of such a build say nothing about a release build.
    Debug,
    /// Optimized.
    Release,
}

/// The machine on which figures were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The operating system, such as `linux`.
    pub os: String,
    /// The architecture of the processor, such as `x86_64`.
    pub arch: String,
    /// The model of the processor, `None` if the system does not report it.
    pub cpu: Option<String>,
    /// The number of cores that this process may use.
    pub cores: usize,
}

impl Head {
    /// The head for this machine and this build, which has these engines.
    pub fn of_this_machine(engines: BTreeMap<String, String>, quick: bool) -> Self {
        let execbox = Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            profile: if cfg!(debug_assertions) { Profile::Debug } else { Profile::Release },
            engines,
        };
        let machine = Machine {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpu: cpu_model(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        };
        Self { format: FORMAT, execbox, machine, quick }
    }
}

fn cpu_model() -> Option<String> {
    if cfg!(target_os = "macos") {
        let mut command = std::process::Command::new("/usr/sbin/sysctl");
        let output = command.args(["-n", "machdep.cpu.brand_string"]).output().ok()?;
        let model = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        return (!model.is_empty()).then_some(model);
    }
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim().to_owned())
}

/// The version, the engines and the machine, in a line.
impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Build { version, profile, engines } = &self.execbox;
        let engines: Vec<String> = engines.iter().map(|(name, version)| format!("{name} {version}")).collect();
        write!(f, "execbox {version} ({profile}), {}; {}", engines.join(", "), self.machine)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Debug => "debug",
            Self::Release => "release",
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { os, arch, cpu, cores } = self;
        write!(f, "{os} {arch}, {}, {cores} cores", cpu.as_deref().unwrap_or("unknown processor"))
    }
}
