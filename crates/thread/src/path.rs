//! The paths of a thread's files: virtual, absolute and normalized.
//!
//! Paths name rows of the database, never files of the host. Directories do not exist on their own; they are prefixes of
//! paths.

use std::fmt;

use execbox_core::text::cut;

use crate::error::{PathError, PathProblem};
use crate::limits::PATH_BYTES;

/// A normalized path: `/` and segments between single slashes, none of which is empty, `.` or `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FilePath(String);

/// A set of paths: all below a directory and, if written without a final `/`, the path itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    /// The directory, with a final `/`.
    folder: String,
    with_itself: bool,
}

impl FilePath {
    /// Normalizes a path: adds a missing first `/` and drops empty segments and `.`.
    pub(crate) fn parse(path: &str) -> Result<Self, PathError> {
        let parsed = normalize(path)?;
        if parsed.names_folder { Err(reject(path, PathProblem::Folder)) } else { Ok(Self(parsed.path)) }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Scope {
    /// The scope of all paths.
    pub(crate) fn everything() -> Self {
        Self { folder: "/".to_owned(), with_itself: false }
    }

    pub(crate) fn parse(path: &str) -> Result<Self, PathError> {
        let Normalized { mut path, names_folder } = normalize(path)?;
        if !path.ends_with('/') {
            path.push('/');
        }
        Ok(Self { folder: path, with_itself: !names_folder })
    }

    pub(crate) fn contains(&self, path: &FilePath) -> bool {
        path.0.starts_with(&self.folder) || self.itself() == Some(path.as_str())
    }

    /// Whether this contains all paths of `other`.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other.folder.starts_with(&self.folder)
            && (self.with_itself || !other.with_itself || other.folder.len() > self.folder.len())
    }

    /// The path that is contained although it is not below the directory.
    pub(crate) fn itself(&self) -> Option<&str> {
        self.with_itself.then(|| self.folder.trim_end_matches('/'))
    }

    /// The prefix of the paths below the directory.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    /// The least string that sorts after all paths below the directory: `0` follows `/`.
    pub(crate) fn end(&self) -> String {
        format!("{}0", self.folder.trim_end_matches('/'))
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.itself().unwrap_or(&self.folder))
    }
}

struct Normalized {
    /// `/` or `/a/b`.
    path: String,
    /// Whether the path is written as a directory: its last segment is empty or `.`.
    names_folder: bool,
}

fn normalize(path: &str) -> Result<Normalized, PathError> {
    let reject = |problem| Err(reject(path, problem));
    if path.is_empty() {
        return reject(PathProblem::Empty);
    }
    if path.len() >= PATH_BYTES {
        return reject(PathProblem::TooLong(path.len())); // also at equal length, because a first `/` may be added
    }
    if path.contains(char::is_control) {
        return reject(PathProblem::ControlCharacter);
    }
    if path.contains('\\') {
        return reject(PathProblem::Backslash);
    }
    let mut normal = String::with_capacity(path.len() + 1);
    let mut names_folder = true;
    for segment in path.split('/') {
        names_folder = matches!(segment, "" | ".");
        match segment {
            "" | "." => {}
            ".." => return reject(PathProblem::ParentFolder),
            segment => {
                normal.push('/');
                normal.push_str(segment);
            }
        }
    }
    if normal.is_empty() {
        normal.push('/');
    }
    Ok(Normalized { path: normal, names_folder })
}

fn reject(path: &str, problem: PathProblem) -> PathError {
    PathError { path: cut(path, 100), problem }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_normalized() {
        for path in ["/data/input.json", "data/input.json", "./data/input.json", "//data///./input.json"] {
            assert_eq!(FilePath::parse(path).unwrap().as_str(), "/data/input.json", "{path}");
        }
        for path in ["/...", "/a b", "/ünï/€", "/~", "/%2e%2e/x", "/..a/b.."] {
            assert_eq!(FilePath::parse(path).unwrap().as_str(), path);
        }
    }

    #[test]
    fn invalid_paths_are_rejected_with_their_problem() {
        let long = "x".repeat(PATH_BYTES);
        let rejected = [
            ("", PathProblem::Empty),
            (&*long, PathProblem::TooLong(PATH_BYTES)),
            ("/a\0b", PathProblem::ControlCharacter),
            ("/a\nb", PathProblem::ControlCharacter),
            ("C:\\secrets", PathProblem::Backslash),
            ("..", PathProblem::ParentFolder),
            ("/data/../secrets", PathProblem::ParentFolder),
            ("/data/..", PathProblem::ParentFolder),
            ("/", PathProblem::Folder),
            ("/data/", PathProblem::Folder),
            ("/data/.", PathProblem::Folder),
        ];
        for (path, problem) in rejected {
            assert_eq!(FilePath::parse(path).unwrap_err().problem, problem, "{path:?}");
        }
        assert_eq!(
            FilePath::parse("/data/../x").unwrap_err().to_string(),
            "invalid path \"/data/../x\": `..` is not supported; use the path from the root"
        );
        assert!(FilePath::parse(&long).unwrap_err().to_string().len() < 250, "long paths are cut");
    }

    #[test]
    fn scopes_are_directories_and_not_string_prefixes() {
        let contains = |scope: &str, path: &str| Scope::parse(scope).unwrap().contains(&FilePath::parse(path).unwrap());
        assert!(contains("/data/", "/data/x") && contains("/data", "/data/x/y") && contains("/", "/x"));
        assert!(!contains("/data", "/database") && !contains("/data/", "/database/x"));
        assert!(contains("/data", "/data") && !contains("/data/", "/data"));
        assert!(contains("/data/input.json", "/data/input.json") && !contains("/data/input.json", "/data/input.json5"));
    }

    /// Paths of few special segments, so that they often coincide.
    fn path_text() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec!["", ".", "..", "a", "b", "a0", "a.", "data", "é", "\u{1}", "\\"]);
        prop_oneof![prop::collection::vec(part, 0..6).prop_map(|parts| parts.join("/")), ".{0,40}"]
    }

    proptest! {
        #[test]
        fn parsed_paths_are_canonical(text in path_text()) {
            let Ok(path) = FilePath::parse(&text) else { return Ok(()) };
            prop_assert_eq!(&FilePath::parse(path.as_str()).unwrap(), &path, "parsing again changes nothing");
            prop_assert!(path.as_str().starts_with('/') && path.as_str().len() <= PATH_BYTES);
            let parts: Vec<&str> = path.as_str()[1..].split('/').collect();
            prop_assert!(parts.iter().all(|part| !matches!(*part, "" | "." | "..")), "{}", path);
        }

        #[test]
        fn scopes_contain_the_paths_below_their_directory(scope in path_text(), path in path_text()) {
            let (Ok(scope), Ok(path)) = (Scope::parse(&scope), FilePath::parse(&path)) else { return Ok(()) };
            let below = |folder: &str| {
                let folder: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
                let parts: Vec<&str> = path.as_str()[1..].split('/').collect();
                parts.len() > folder.len() && parts[..folder.len()] == folder[..]
            };
            let itself = scope.itself() == Some(path.as_str());
            prop_assert_eq!(scope.contains(&path), below(scope.folder()) || itself);
            // The database compares strings instead; the result is the same.
            let in_range = *path.as_str() > *scope.folder() && *path.as_str() < *scope.end();
            prop_assert_eq!(scope.contains(&path), in_range || itself);
        }

        #[test]
        fn a_covering_scope_contains_the_paths_of_the_other(a in path_text(), b in path_text(), path in path_text()) {
            let (Ok(a), Ok(b), Ok(path)) = (Scope::parse(&a), Scope::parse(&b), FilePath::parse(&path)) else {
                return Ok(());
            };
            prop_assert!(!(a.covers(&b) && b.contains(&path)) || a.contains(&path));
            prop_assert!(Scope::everything().covers(&a) && a.covers(&a));
        }
    }
}
