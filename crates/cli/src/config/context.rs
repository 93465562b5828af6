//! The environment, files and values of inputs with which a configuration is read. Values of inputs are stored, or asked for.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use execbox_mcp::config::{Context, Input, MAX_ENV_FILE, Unavailable};

use crate::config::files::Files;
use crate::config::inputs::InputStore;
use crate::files::private_file::PrivateError;
use crate::files::source;
use crate::prompt::{Attended, PromptError, Terminal};

/// Why an input has no value.
#[derive(Debug, thiserror::Error)]
enum InputError {
    #[error(transparent)]
    Store(#[from] PrivateError),
    #[error(transparent)]
    Prompt(#[from] PromptError),
    #[error("none is stored, and there is no terminal to ask; run `execbox tools --config {file}` in a terminal once")]
    NoTerminal { file: String },
}

/// Directories of a workspace in which clients keep their files.
const CLIENT_DIRECTORIES: [&str; 5] = [".vscode", ".cursor", ".zed", ".gemini", ".codex"];

/// What the values of configurations depend on, beside the files.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// The names of variables of the environment.
    pub(crate) variables: BTreeSet<String>,
    /// The files with values that depend on the current directory.
    pub(crate) files_of_directory: BTreeSet<String>,
}

/// The context of one file.
pub(crate) struct FileContext<'a> {
    file: &'a Path,
    attended: Attended,
    /// Whether Ctrl-C was pressed at a question. Further questions are not asked then.
    interrupted: Cell<bool>,
    /// The inputs that were looked up, each of which is asked for once.
    inputs: RefCell<HashMap<String, Result<String, Unavailable>>>,
    /// The files that are read, including those of `envFile`.
    files: RefCell<Files>,
    needs: RefCell<Needs>,
}

impl<'a> FileContext<'a> {
    pub(crate) fn new(file: &'a Path, attended: Attended, files: Files) -> Self {
        let (interrupted, inputs) = (Cell::new(false), RefCell::default());
        Self { file, attended, interrupted, inputs, files: RefCell::new(files), needs: RefCell::default() }
    }

    /// Adds what the values depend on to `needs`. Returns the files that were read, including those of `envFile`.
    pub(crate) fn finish(self, needs: &mut Needs) -> Files {
        let own = self.needs.into_inner();
        needs.variables.extend(own.variables);
        needs.files_of_directory.extend(own.files_of_directory);
        self.files.into_inner()
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.get()
    }

    /// The canonical path of the file, by which values are stored. `None` for pipes and for paths that are not UTF-8.
    fn key(&self) -> Option<String> {
        let path = fs::canonicalize(self.file).ok()?;
        if path.is_file() { path.into_os_string().into_string().ok() } else { None }
    }

    fn value(&self, input: &Input) -> Result<String, InputError> {
        let store = InputStore::of_user()?;
        let key = self.key();
        let stored = key.as_deref().map(|key| store.get(key, &input.id)).transpose()?.flatten();
        let stored = stored.or_else(|| self.files.borrow().answer(self.file, &input.id));
        if let Some(value) = stored.filter(|value| input.accepts(value)) {
            return Ok(value);
        }
        if self.is_interrupted() {
            return Err(PromptError::Interrupted.into());
        }
        let file = self.file.display().to_string();
        let Some(mut terminal) = Terminal::open(self.attended) else { return Err(InputError::NoTerminal { file }) };
        let value = terminal.ask(input, &file).inspect_err(|error| {
            self.interrupted.set(matches!(error, PromptError::Interrupted));
        })?;
        let stored = key.map(|key| store.set(&key, &input.id, &value));
        if !matches!(stored, Some(Ok(()))) {
            self.files.borrow_mut().keep_answer(self.file, &input.id, value.clone());
        }
        if let Some(stored) = stored {
            let note = match stored {
                Ok(()) => format!("execbox: stored in {}", store.path().display()),
                Err(error) => format!("execbox: not stored: {error}"),
            };
            terminal.note(&note).map_err(PromptError::Io)?;
        }
        Ok(value)
    }
}

impl Context for FileContext<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        let value = env::var(name).ok()?;
        self.needs.borrow_mut().variables.insert(name.to_owned());
        Some(value)
    }

    fn file_name(&self) -> Option<String> {
        Some(self.file.display().to_string())
    }

    /// The parent of one of [`CLIENT_DIRECTORIES`] if the file is in it, else the current directory.
    fn workspace_folder(&self) -> Option<PathBuf> {
        let file = std::path::absolute(self.file).ok()?;
        let directory = file.parent()?;
        let is_of_client = |path: &Path| CLIENT_DIRECTORIES.iter().any(|name| path.file_name() == Some(name.as_ref()));
        // The directory as it is written, and without links and `..`.
        let directories = [Some(directory.to_owned()), fs::canonicalize(directory).ok()];
        let found = directories.into_iter().flatten().find(|path| is_of_client(path));
        if let Some(workspace) = found.as_deref().and_then(Path::parent) {
            return Some(fs::canonicalize(workspace).unwrap_or_else(|_| workspace.to_owned()));
        }
        self.needs.borrow_mut().files_of_directory.insert(self.file.display().to_string());
        env::current_dir().ok()
    }

    fn user_home(&self) -> Option<PathBuf> {
        env::home_dir().filter(|path| path.is_absolute())
    }

    fn env_file(&self, path: &Path) -> Result<String, Unavailable> {
        self.files.borrow_mut().record(path);
        source::read_regular(path, MAX_ENV_FILE).map_err(|error| Unavailable(error.to_string()))
    }

    fn input(&self, input: &Input) -> Result<String, Unavailable> {
        let find = || self.value(input).map_err(|error| Unavailable(error.to_string()));
        self.inputs.borrow_mut().entry(input.id.clone()).or_insert_with(find).clone()
    }
}

/// A context in which every variable and every input has a value, so that no entry is skipped for the lack of one.
#[derive(Debug)]
pub(crate) struct Placeholders {
    pub(crate) file: PathBuf,
    pub(crate) workspace: Option<PathBuf>,
}

impl Placeholders {
    /// The context of a file outside of all projects.
    pub(crate) fn of(file: &Path) -> Self {
        Self { file: file.to_owned(), workspace: None }
    }
}

impl Context for Placeholders {
    fn variable(&self, _: &str) -> Option<String> {
        Some("x".to_owned())
    }

    fn file_name(&self) -> Option<String> {
        Some(self.file.display().to_string())
    }

    fn workspace_folder(&self) -> Option<PathBuf> {
        self.workspace.clone()
    }

    fn user_home(&self) -> Option<PathBuf> {
        Some(PathBuf::from("/"))
    }

    fn env_file(&self, _: &Path) -> Result<String, Unavailable> {
        Ok(String::new())
    }

    fn input(&self, _: &Input) -> Result<String, Unavailable> {
        Ok("x".to_owned())
    }
}
