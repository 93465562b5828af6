//! The context in which a configuration is read.

use std::path::{Path, PathBuf};

use super::Input;

/// The environment, the files and the user, for [`Config::read`](super::Config::read), which does no I/O itself. One context
/// serves one file. By default, only variables are available.
pub trait Context {
    /// The value of an environment variable, if it is set.
    fn variable(&self, name: &str) -> Option<String>;

    /// The name of the file, as messages have it. A name that ends with `.toml` means TOML.
    fn file_name(&self) -> Option<String> {
        None
    }

    /// The value of `${workspaceFolder}`, to which relative paths of `envFile` are relative.
    fn workspace_folder(&self) -> Option<PathBuf> {
        None
    }

    /// The value of `${userHome}`.
    fn user_home(&self) -> Option<PathBuf> {
        None
    }

    /// The text of a file that `envFile` names, of at most [`MAX_ENV_FILE`] bytes.
    fn env_file(&self, path: &Path) -> Result<String, Unavailable> {
        let _ = path;
        Err(Unavailable("files are not read".to_owned()))
    }

    /// The value of an input.
    fn input(&self, input: &Input) -> Result<String, Unavailable> {
        let _ = input;
        Err(Unavailable("there is no user to ask".to_owned()))
    }
}

/// The largest file that `envFile` can name, in bytes.
pub const MAX_ENV_FILE: usize = 64 << 10;

/// Why a [`Context`] has no file or no value of an input: a text for the user, without values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// A context of environment variables only.
#[derive(Debug)]
pub struct Variables<F: Fn(&str) -> Option<String>>(pub F);

impl<F: Fn(&str) -> Option<String>> Context for Variables<F> {
    fn variable(&self, name: &str) -> Option<String> {
        (self.0)(name)
    }
}
