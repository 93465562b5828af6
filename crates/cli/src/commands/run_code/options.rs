//! The options of a run: those of the options file, overridden by those of the command line.
//!
//! The options are merged into one JSON object with the keys of the specification, which the library reads; its errors are
//! shown unchanged.

use std::collections::BTreeMap;
use std::path::Path;

use execbox::Limits;
use execbox::code::CodeExecutionOptions;
use serde_json::{Map, Value as Json, json};

use super::arguments::Arguments;
use super::json::{OptionsFileError, named_value, read_json, value};
use super::modules::{self, Modules};
use crate::error::CommandError;
use crate::files::source::Source;

/// The sources of a run, for errors that point into them.
pub(super) struct Sources {
    pub(super) entry: Source,
    /// The name of the entry in the program.
    filename: String,
    /// The other sources by their names in the program.
    modules: BTreeMap<String, Source>,
}

impl Sources {
    /// The source with this name in the program. The `name` of the source is its path.
    pub(super) fn get(&self, filename: &str) -> Option<&Source> {
        if filename == self.filename { Some(&self.entry) } else { self.modules.get(filename) }
    }
}

/// The options that were read.
pub(super) struct Options {
    pub(super) options: CodeExecutionOptions,
    /// Whether the options define a global `report`, which replaces the built-in one.
    pub(super) has_report: bool,
}

/// Reads the options and the program. The program is read last: it may be typed by hand, which would be lost if an option is
/// invalid. `limits` apply where the options file sets none.
pub(super) fn read(arguments: Arguments, limits: Limits) -> Result<(Sources, Options), CommandError> {
    let mut options = arguments.options.as_deref().map_or_else(|| Ok(Map::new()), read_file)?;
    merge_cli(&mut options, &arguments)?;
    let path = arguments.program.file.clone().filter(|path| path.as_os_str() != "-");
    let modules = arguments.modules.as_deref().map(|dir| modules::read(dir, path.as_deref())).transpose()?;
    let modules = modules.unwrap_or_default();
    let entry = Source::read(arguments.program)?;
    let sources = gather(&mut options, entry, path.as_deref(), modules);
    let has_report = options.get("globals").and_then(|globals| globals.get("report")).is_some();
    let options = CodeExecutionOptions::from_json(&Json::Object(options)).map_err(OptionsFileError::Value)?;
    let options = options.limits(limits);
    Ok((sources, Options { options, has_report }))
}

/// Reads an options file and checks it, so that errors name the file.
fn read_file(path: &Path) -> Result<Map<String, Json>, OptionsFileError> {
    let options = read_json(path)?;
    let read = CodeExecutionOptions::from_json(&options);
    drop(read.map_err(|error| OptionsFileError::Options { file: path.display().to_string(), error })?);
    Ok(if let Json::Object(options) = options { options } else { Map::new() })
}

/// Overrides the options of the file by those of the command line.
fn merge_cli(options: &mut Map<String, Json>, arguments: &Arguments) -> Result<(), OptionsFileError> {
    let mut set = |path: &[&str], value: Json| {
        let (last, path) = path.split_last().expect("a path has a key");
        let object = path.iter().fold(&mut *options, |object, key| {
            let member = object.entry(*key).or_insert_with(|| json!({}));
            member.as_object_mut().expect("checked by the library")
        });
        object.insert((*last).to_owned(), value);
    };
    if let Some(function) = &arguments.function {
        set(&["execute", "fn"], json!(function));
    }
    if let Some(args) = &arguments.args {
        let args = value("--args", args)?;
        if !args.is_array() {
            return Err(OptionsFileError::NoArray);
        }
        set(&["execute", "args"], args);
    }
    for text in &arguments.global {
        let (name, value) = named_value("--global", text)?;
        set(&["globals", name], value);
    }
    for text in &arguments.import {
        let (name, value) = named_value("--import", text)?;
        set(&["imports", name], value);
    }
    if let Some(bytes) = arguments.limits.memory_bytes() {
        set(&["memoryLimitBytes"], json!(bytes));
    }
    let texts = [("filename", &arguments.filename), ("language", &arguments.language)];
    for (key, text) in texts.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?))) {
        set(&[key], json!(text));
    }
    Ok(())
}

/// Adds the modules of the directory and the name of the program to the options. Returns all sources.
fn gather(options: &mut Map<String, Json>, entry: Source, path: Option<&Path>, directory: Modules) -> Sources {
    let mut modules = BTreeMap::new();
    let given = options.get("modules").and_then(Json::as_object).into_iter().flatten();
    for (specifier, code) in given.filter_map(|(specifier, code)| Some((specifier, code.as_str()?))) {
        modules.insert(specifier.clone(), Source { name: specifier.clone(), code: code.to_owned() });
    }
    for (specifier, (path, code)) in directory.files {
        modules.insert(specifier, Source { name: path.display().to_string(), code });
    }
    let filename = options.get("filename").and_then(Json::as_str).map(str::to_owned);
    let filename = filename.unwrap_or_else(|| match (directory.program, path.and_then(Path::file_name)) {
        (Some(below), _) => below,
        (None, Some(name)) => name.display().to_string(),
        (None, None) => entry.name.clone(),
    });
    let texts: Map<_, _> = modules.iter().map(|(specifier, source)| (specifier.clone(), json!(source.code))).collect();
    options.insert("modules".to_owned(), Json::Object(texts));
    options.insert("filename".to_owned(), json!(filename));
    Sources { entry, filename, modules }
}
