//! The paths of a thread's files: virtual, absolute, in one form only.
//!
//! They name rows in a database and never a file of the host. A path is text between slashes; folders are not things of their
//! own but what paths have in common.

use std::fmt;

use crate::error::{PathError, PathProblem};
use crate::limits::PATH_BYTES;

/// The path of a file: `/` and parts between single slashes, none of which is empty, `.` or `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FilePath(String);

/// Some paths: with a `/` at its end all below that folder, without it that very path, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    /// The folder, with a `/` at its end.
    folder: String,
    with_itself: bool,
}

impl FilePath {
    /// Normalises a path: it starts at the root whether it says so or not, and empty parts and `.` are dropped.
    pub(crate) fn parse(path: &str) -> Result<Self, PathError> {
        let parsed = normalise(path)?;
        if parsed.names_folder { Err(refuse(path, PathProblem::Folder)) } else { Ok(Self(parsed.path)) }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Scope {
    /// All files of a thread.
    pub(crate) fn everything() -> Self {
        Self { folder: "/".to_owned(), with_itself: false }
    }

    pub(crate) fn parse(path: &str) -> Result<Self, PathError> {
        let Normalised { mut path, names_folder } = normalise(path)?;
        if !path.ends_with('/') {
            path.push('/');
        }
        Ok(Self { folder: path, with_itself: !names_folder })
    }

    pub(crate) fn contains(&self, path: &FilePath) -> bool {
        path.0.starts_with(&self.folder) || self.itself() == Some(path.as_str())
    }

    /// Whether all paths of `other` are paths of this.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other.folder.starts_with(&self.folder)
            && (self.with_itself || !other.with_itself || other.folder.len() > self.folder.len())
    }

    /// The one path that is not below the folder.
    pub(crate) fn itself(&self) -> Option<&str> {
        self.with_itself.then(|| self.folder.trim_end_matches('/'))
    }

    /// What the paths below the folder begin with.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    /// The least text that is greater than all paths below the folder: `0` is what comes after `/`.
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

struct Normalised {
    /// `/` or `/a/b`.
    path: String,
    /// Whether it was written as a folder: it ends with `/` or `.`, or is the root.
    names_folder: bool,
}

fn normalise(path: &str) -> Result<Normalised, PathError> {
    let refuse = |problem| Err(refuse(path, problem));
    if path.is_empty() {
        return refuse(PathProblem::Empty);
    }
    if path.len() >= PATH_BYTES {
        return refuse(PathProblem::TooLong(path.len())); // less than, since it may get a `/` in front
    }
    if path.contains(char::is_control) {
        return refuse(PathProblem::ControlCharacter);
    }
    if path.contains('\\') {
        return refuse(PathProblem::Backslash);
    }
    let mut normal = String::with_capacity(path.len() + 1);
    let mut names_folder = true;
    for part in path.split('/') {
        names_folder = matches!(part, "" | ".");
        match part {
            "" | "." => {}
            ".." => return refuse(PathProblem::ParentFolder),
            part => {
                normal.push('/');
                normal.push_str(part);
            }
        }
    }
    if normal.is_empty() {
        normal.push('/');
    }
    Ok(Normalised { path: normal, names_folder })
}

fn refuse(path: &str, problem: PathProblem) -> PathError {
    const MAX_CHARS: usize = 100;
    let cut = path.char_indices().nth(MAX_CHARS).map(|(at, _)| format!("{}…", &path[..at]));
    PathError { path: cut.unwrap_or_else(|| path.to_owned()), problem }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_have_one_form() {
        for path in ["/data/input.json", "data/input.json", "./data/input.json", "//data///./input.json"] {
            assert_eq!(FilePath::parse(path).unwrap().as_str(), "/data/input.json", "{path}");
        }
        for path in ["/...", "/a b", "/ünï/€", "/~", "/%2e%2e/x", "/..a/b.."] {
            assert_eq!(FilePath::parse(path).unwrap().as_str(), path);
        }
    }

    #[test]
    fn hostile_paths_are_refused_each_for_its_reason() {
        let long = "x".repeat(PATH_BYTES);
        let refused = [
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
        for (path, problem) in refused {
            assert_eq!(FilePath::parse(path).unwrap_err().problem, problem, "{path:?}");
        }
        assert_eq!(
            FilePath::parse("/data/../x").unwrap_err().to_string(),
            "\"/data/../x\" is not a path of this thread: `..` is not allowed; write the path from the root"
        );
        assert!(FilePath::parse(&long).unwrap_err().to_string().len() < 250, "long paths are cut");
    }

    #[test]
    fn scopes_are_folders_and_not_beginnings() {
        let contains = |scope: &str, path: &str| Scope::parse(scope).unwrap().contains(&FilePath::parse(path).unwrap());
        assert!(contains("/data/", "/data/x") && contains("/data", "/data/x/y") && contains("/", "/x"));
        assert!(!contains("/data", "/database") && !contains("/data/", "/database/x"));
        assert!(contains("/data", "/data") && !contains("/data/", "/data"));
        assert!(contains("/data/input.json", "/data/input.json") && !contains("/data/input.json", "/data/input.json5"));
    }

    /// Paths of few, tricky parts, so that they meet often.
    fn path_text() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec!["", ".", "..", "a", "b", "a0", "a.", "data", "é", "\u{1}", "\\"]);
        prop_oneof![prop::collection::vec(part, 0..6).prop_map(|parts| parts.join("/")), ".{0,40}"]
    }

    proptest! {
        #[test]
        fn what_is_parsed_is_in_its_only_form(text in path_text()) {
            let Ok(path) = FilePath::parse(&text) else { return Ok(()) };
            prop_assert_eq!(&FilePath::parse(path.as_str()).unwrap(), &path, "parsing again changes nothing");
            prop_assert!(path.as_str().starts_with('/') && path.as_str().len() <= PATH_BYTES);
            let parts: Vec<&str> = path.as_str()[1..].split('/').collect();
            prop_assert!(parts.iter().all(|part| !matches!(*part, "" | "." | "..")), "{}", path);
        }

        #[test]
        fn a_scope_contains_what_its_folder_is_in_front_of(scope in path_text(), path in path_text()) {
            let (Ok(scope), Ok(path)) = (Scope::parse(&scope), FilePath::parse(&path)) else { return Ok(()) };
            let below = |folder: &str| {
                let folder: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
                let parts: Vec<&str> = path.as_str()[1..].split('/').collect();
                parts.len() > folder.len() && parts[..folder.len()] == folder[..]
            };
            let itself = scope.itself() == Some(path.as_str());
            prop_assert_eq!(scope.contains(&path), below(scope.folder()) || itself);
            // The same by comparing text, as the database does.
            let in_range = *path.as_str() > *scope.folder() && *path.as_str() < *scope.end();
            prop_assert_eq!(scope.contains(&path), in_range || itself);
        }

        #[test]
        fn a_scope_that_covers_another_contains_its_paths(a in path_text(), b in path_text(), path in path_text()) {
            let (Ok(a), Ok(b), Ok(path)) = (Scope::parse(&a), Scope::parse(&b), FilePath::parse(&path)) else {
                return Ok(());
            };
            prop_assert!(!(a.covers(&b) && b.contains(&path)) || a.contains(&path));
            prop_assert!(Scope::everything().covers(&a) && a.covers(&a));
        }
    }
}
