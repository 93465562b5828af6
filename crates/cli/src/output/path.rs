//! Paths as people read them.

use std::env;
use std::path::Path;

/// A path, with `~` for the home directory.
pub(crate) fn shown(path: &Path) -> String {
    let home = env::home_dir().filter(|home| home.components().count() > 1);
    match home.and_then(|home| Some(path.strip_prefix(home).ok()?.to_owned())) {
        Some(path) => format!("~/{}", path.display()),
        None => path.display().to_string(),
    }
}
