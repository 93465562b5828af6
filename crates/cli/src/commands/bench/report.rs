//! The report: what `--json` prints, `--save` writes and `--compare` reads.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::rows::{Row, Unit};
use super::subject::Subject;
use crate::engine::Engine;
use crate::error::reason;
use crate::source::{TextError, read_file};
use crate::statistics::Samples;

/// The version of the format. It changes when a field changes its meaning; fields and rows may be added.
const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) rows: Vec<Measured>,
}

/// What figures depend on. Contains no name of the machine and no path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head {
    format: u32,
    pub(super) execbox: Build,
    pub(super) machine: Machine,
    /// Whether there are fewer samples, by `--quick`.
    pub(super) quick: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Build {
    pub(super) version: String,
    pub(super) profile: Profile,
    /// The versions of the engines that are built in.
    pub(super) engines: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Profile {
    Debug,
    Release,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Debug => "debug",
            Self::Release => "release",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) os: String,
    pub(super) arch: String,
    /// The model of the processor, `null` if the system does not tell it.
    pub(super) cpu: Option<String>,
    pub(super) cores: usize,
}

/// A row on one executor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) row: String,
    pub(super) executor: String,
    pub(super) engine: String,
    pub(super) unit: Unit,
    pub(super) samples: usize,
    pub(super) p50: f64,
    /// Of times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) p95: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) p99: Option<f64>,
    /// [`Samples::noise`].
    pub(super) noise: f64,
}

impl Head {
    pub(super) fn of_this_machine(quick: bool) -> Self {
        let version = |engine: &Engine| Some((engine.to_string(), engine.version()?.to_owned()));
        let execbox = Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            profile: if cfg!(debug_assertions) { Profile::Debug } else { Profile::Release },
            engines: Engine::built_in().iter().filter_map(version).collect(),
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

impl Measured {
    pub(super) fn new(row: &Row, subject: Subject, samples: &Samples) -> Self {
        let unit = row.unit();
        let quantile = |quantile| (unit == Unit::Milliseconds).then(|| samples.quantile(quantile));
        Self {
            row: row.id.to_owned(),
            executor: subject.executor.to_string(),
            engine: subject.engine.to_string(),
            unit,
            samples: samples.count(),
            p50: samples.median(),
            p95: quantile(0.95),
            p99: quantile(0.99),
            noise: samples.noise(),
        }
    }

    /// Whether it is the same row on the same executor and engine.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.row, &self.executor, &self.engine, self.unit) == (&other.row, &other.executor, &other.engine, other.unit)
    }
}

/// Why a report cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportFileError {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error("{file} is not a report of `execbox bench --save`: {error}")]
    Invalid { file: String, error: String },
    #[error("{file} has the format {found}; this execbox reads the format {FORMAT}: save it again with this execbox")]
    Format { file: String, found: u64 },
    #[error("cannot write {file}: {}", reason(.error))]
    Unwritable { file: String, error: io::Error },
}

/// What a file of any format has.
#[derive(Deserialize)]
struct Formatted {
    format: u64,
}

impl Report {
    pub(super) fn read(path: &Path) -> Result<Self, ReportFileError> {
        let file = path.display().to_string();
        let text = read_file(path)?;
        let invalid =
            |error: serde_json::Error| ReportFileError::Invalid { file: file.clone(), error: error.to_string() };
        let Formatted { format: found } = serde_json::from_str(&text).map_err(invalid)?;
        if found != u64::from(FORMAT) {
            return Err(ReportFileError::Format { file, found });
        }
        let report: Self = serde_json::from_str(&text).map_err(invalid)?;
        match report.rows.iter().find(|row| row.p50 < 0.0 || row.noise < 0.0) {
            Some(row) => {
                let error = format!("invalid row {:?}: expected a p50 and a noise of at least 0", row.row);
                Err(ReportFileError::Invalid { file, error })
            }
            None => Ok(report),
        }
    }

    pub(super) fn save(&self, path: &Path) -> Result<(), ReportFileError> {
        let json = serde_json::to_string_pretty(self).map_err(io::Error::other);
        json.and_then(|json| fs::write(path, json + "\n")).map_err(|error| unwritable(path, error))
    }
}

/// Checks that a report can be saved, before it is measured. A file that exists is left as it is.
pub(super) fn check_writable(path: &Path) -> Result<(), ReportFileError> {
    let is_new = !path.exists();
    File::options().append(true).create(true).open(path).map_err(|error| unwritable(path, error))?;
    if is_new {
        fs::remove_file(path).map_err(|error| unwritable(path, error))?;
    }
    Ok(())
}

fn unwritable(path: &Path, error: io::Error) -> ReportFileError {
    ReportFileError::Unwritable { file: path.display().to_string(), error }
}
