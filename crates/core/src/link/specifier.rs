//! Resolution of specifiers, shared by the linker and engines.

/// Resolves `specifier`, as written in the module `importer`, to the name of a module (§3.2, §3.3). The module need not
/// exist.
///
/// - A specifier is *relative* if it is `.` or `..`, or begins with `./` or `../`. It is joined to the
///   directory of `importer`: split at `/`, a segment `.` is dropped, a segment `..` removes the one before it, and is
///   an error if there is none. The name is `./` and the remaining segments.
/// - It is a *URL* if it begins with a scheme (a letter, then letters, digits, `+`, `-`, `.`) and a colon.
/// - It is *absolute* if it begins with `/`.
/// - Any other that is not empty is *bare*: it is the name itself.
///
/// The directory of a name is its path without the last segment. A name that is not a path below the root (a URL, an
/// absolute path, one with too many `..`) has the root as its directory.
///
/// Nothing is decoded, no extension is added, and case matters.
pub fn resolve(importer: &str, specifier: &str) -> Result<String, Unresolved> {
    let is_relative = matches!(specifier, "." | "..") || specifier.starts_with("./") || specifier.starts_with("../");
    if is_relative {
        let mut path = path(importer).unwrap_or_default();
        path.pop();
        join(&mut path, specifier).ok_or(Unresolved::OutsideRoot)?;
        return Ok(format!("./{}", path.join("/")));
    }
    match specifier {
        "" => Err(Unresolved::Empty),
        _ if specifier.starts_with('/') => Err(Unresolved::Absolute),
        _ if is_url(specifier) => Err(Unresolved::Url),
        _ => Ok(specifier.to_owned()),
    }
}

/// The shortest specifier for the module `name` in the module `importer`.
pub(super) fn relative(importer: &str, name: &str) -> String {
    let (mut from, to) = (path(importer).unwrap_or_default(), path(name).unwrap_or_default());
    from.pop();
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = match from.len() - common {
        0 => "./".to_owned(),
        up => "../".repeat(up),
    };
    up + &to[common..].join("/")
}

/// Why a specifier cannot be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unresolved {
    /// The specifier is a URL.
    #[error("is a URL; modules are not loaded from URLs")]
    Url,
    /// The specifier begins with `/`.
    #[error("is an absolute path; use a path relative to the importer, such as './x.js'")]
    Absolute,
    /// The specifier has more `..` than there are directories.
    #[error("is outside the root of the modules")]
    OutsideRoot,
    /// The specifier is empty.
    #[error("is an empty specifier")]
    Empty,
}

/// The segments of a name, if it is a path below the root.
pub(super) fn path(name: &str) -> Option<Vec<&str>> {
    if name.starts_with('/') || is_url(name) {
        return None;
    }
    let mut segments = Vec::new();
    join(&mut segments, name).map(|()| segments)
}

/// Appends `relative` to `path`. Returns `None` if it leaves the root.
fn join<'a>(path: &mut Vec<&'a str>, relative: &'a str) -> Option<()> {
    for segment in relative.split('/') {
        match segment {
            "." => {}
            ".." => drop(path.pop()?),
            _ => path.push(segment),
        }
    }
    Some(())
}

fn is_url(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_specifiers_resolve_to_their_module() {
        for (importer, name, specifier) in [
            ("<runCode>", "./a.js", "./a.js"),
            ("<runCode>", "./lib/a.js", "./lib/a.js"),
            ("./lib/b.js", "./lib/a.js", "./a.js"),
            ("./lib/b.js", "./a.js", "../a.js"),
            ("lib/deep/b.js", "./lib/other/a.js", "../other/a.js"),
            ("/srv/me/b.js", "./a.js", "./a.js"),
        ] {
            assert_eq!(relative(importer, name), specifier);
            assert_eq!(resolve(importer, specifier), Ok(name.to_owned()));
        }
    }
}
