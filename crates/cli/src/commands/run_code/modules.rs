//! A directory as source modules, keyed by their import specifiers: `./lib/math.ts`.
//!
//! Only regular files with an extension of modules are opened. Symbolic links are not followed, so nothing outside of the
//! directory is read.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use execbox_core::link::{MAX_MODULES, MAX_SOURCES_BYTES};

use crate::error::{CliError, reason};
use crate::files::source::{self, TextError};

/// The file extensions of modules.
const EXTENSIONS: [&str; 4] = ["js", "ts", "mjs", "mts"];

/// The maximum number of files and directories that are visited, so that a wrong directory fails early.
const MAX_ENTRIES: usize = 100_000;

/// The modules of a directory.
#[derive(Debug, Default)]
pub(super) struct Modules {
    /// The path and the text of each module, by specifier.
    pub(super) files: BTreeMap<String, (PathBuf, String)>,
    /// The specifier of the program if it is in the directory. The program is not in `files`.
    pub(super) program: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ModulesError {
    #[error("--modules: cannot read {dir}: {}", reason(error))]
    Unreadable { dir: String, error: io::Error },
    #[error("--modules: {dir} is not a directory")]
    NoDirectory { dir: String },
    #[error("--modules: {0}")]
    Text(#[from] TextError),
    #[error("--modules: the name of {file} is not UTF-8; rename it")]
    Name { file: String },
    #[error("--modules: {dir} has more than {MAX_MODULES} modules; use a smaller directory")]
    TooMany { dir: String },
    #[error("--modules: {dir} has more than {MAX_ENTRIES} files and directories; use a smaller directory")]
    TooLarge { dir: String },
    #[error("--modules: the modules in {dir} have more than {} MiB; use a smaller directory", MAX_SOURCES_BYTES >> 20)]
    TooLong { dir: String },
}

impl CliError for ModulesError {}

/// Reads the modules below `dir`, except `program`, a path that may be below it.
pub(super) fn read(dir: &Path, program: Option<&Path>) -> Result<Modules, ModulesError> {
    let name = dir.display().to_string();
    let root = fs::canonicalize(dir).map_err(|error| ModulesError::Unreadable { dir: name.clone(), error })?;
    if !root.is_dir() {
        return Err(ModulesError::NoDirectory { dir: name });
    }
    let program = program.and_then(|path| fs::canonicalize(path).ok());
    let program = program.as_deref().and_then(|path| path.strip_prefix(&root).ok());
    let mut modules = Modules::default();
    let mut len = 0;
    for below in walk(dir)? {
        let path = dir.join(&below);
        let specifier = specifier(&below).ok_or_else(|| ModulesError::Name { file: path.display().to_string() })?;
        if program == Some(&below) {
            modules.program = Some(specifier);
            continue;
        }
        let text = source::read_file(&path)?;
        len += text.len() as u64;
        modules.files.insert(specifier, (path, text));
        if modules.files.len() > MAX_MODULES {
            return Err(ModulesError::TooMany { dir: name });
        }
        if len > MAX_SOURCES_BYTES as u64 {
            return Err(ModulesError::TooLong { dir: name });
        }
    }
    Ok(modules)
}

/// The paths of all modules below `dir`, relative to it.
fn walk(dir: &Path) -> Result<Vec<PathBuf>, ModulesError> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    let mut seen = 0;
    while let Some(below) = open.pop() {
        let here = dir.join(&below);
        let unreadable = |error| ModulesError::Unreadable { dir: here.display().to_string(), error };
        for entry in fs::read_dir(&here).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            seen += 1;
            if seen > MAX_ENTRIES {
                return Err(ModulesError::TooLarge { dir: dir.display().to_string() });
            }
            let kind = entry.file_type().map_err(unreadable)?;
            let path = below.join(entry.file_name());
            if is_skipped(&entry) {
            } else if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() && is_module(&path) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Whether an entry is a hidden file or a directory of dependencies.
fn is_skipped(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    name.as_encoded_bytes().starts_with(b".") || name == "node_modules"
}

fn is_module(path: &Path) -> bool {
    path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|one| extension == *one))
}

/// The specifier of a path relative to the directory; `None` if it is not UTF-8.
fn specifier(below: &Path) -> Option<String> {
    let segments: Option<Vec<_>> = below.iter().map(|segment| segment.to_str()).collect();
    Some(format!("./{}", segments?.join("/")))
}
