//! The report: what `--json` prints, `--save` writes and `--compare` reads.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use execbox_measure::head::{FORMAT, Head};
use execbox_measure::samples::Samples;
use execbox_measure::unit::Unit;
use serde::{Deserialize, Serialize};

use super::rows::Row;
use super::subject::Subject;
use crate::error::reason;
use crate::files::source::{TextError, read_file};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) rows: Vec<Measured>,
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
    /// The 95th percentile. Only for rows that measure times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) p95: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) p99: Option<f64>,
    /// The noise, by [`Samples::noise`].
    pub(super) noise: f64,
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

    /// Whether `other` is the same row on the same executor and engine.
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

/// The part of a report file that every format has.
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

/// Checks that a report can be saved before anything is measured. An existing file is not changed.
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
