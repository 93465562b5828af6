//! The command with which clients start execbox: one that still works after an update.

use std::env;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// A program and its first arguments.
pub(super) type Launcher = Vec<String>;

/// The launcher of a running binary, with the value of `PATH`: the runner that has fetched it, the path in `PATH` that leads to
/// it, or its own path. `None` for a path that is not UTF-8.
pub(super) fn of(binary: &Path, search: Option<&str>) -> Option<Launcher> {
    let folders: Vec<_> = binary.components().filter_map(name).collect();
    if let Some(runner) = RUNNERS.iter().find(|runner| folders.iter().any(|name| (runner.is_folder)(name))) {
        return Some(runner.command.split(' ').map(str::to_owned).collect());
    }
    let paths = search.into_iter().flat_map(|search| env::split_paths(search)).filter(|path| path.is_absolute());
    let is_binary = |path: &PathBuf| fs::canonicalize(path).is_ok_and(|path| path == binary);
    let found = paths.map(|path| path.join("execbox")).find(is_binary);
    Some(vec![found.unwrap_or_else(|| binary.to_owned()).into_os_string().into_string().ok()?])
}

fn name(component: Component<'_>) -> Option<&str> {
    match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    }
}

/// A program that fetches a package and runs it, from a folder that it may clear.
struct Runner {
    /// Whether a folder is the runner's, by its name.
    is_folder: fn(&str) -> bool,
    command: &'static str,
}

const RUNNERS: &[Runner] = &[
    Runner { is_folder: |name| name == "_npx", command: "npx --yes execbox" },
    Runner {
        is_folder: |name| name.starts_with("archive-v") || name.starts_with("environments-v"),
        command: "uvx execbox",
    },
    Runner { is_folder: |name| name == "dlx" || name.starts_with("dlx-"), command: "pnpm dlx execbox" },
    Runner { is_folder: |name| name.starts_with("bunx-"), command: "bunx execbox" },
];

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_fetched_package_is_started_by_its_runner() {
        for (binary, expected) in [
            ("/u/.npm/_npx/5f3a/node_modules/@execbox/linux-x64/execbox", "npx --yes execbox"),
            ("/u/.cache/uv/archive-v0/hQ/bin/execbox", "uvx execbox"),
            ("/u/.cache/uv/environments-v2/execbox-1/bin/execbox", "uvx execbox"),
            ("/u/.cache/pnpm/dlx/abc/node_modules/@execbox/linux-x64/execbox", "pnpm dlx execbox"),
            ("/tmp/bunx-0-execbox@latest/node_modules/@execbox/linux-x64/execbox", "bunx execbox"),
            ("/usr/bin/execbox", "/usr/bin/execbox"),
        ] {
            assert_eq!(of(Path::new(binary), None).unwrap().join(" "), expected);
        }
    }

    #[test]
    fn a_link_in_the_path_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let directory = fs::canonicalize(directory.path()).unwrap();
        let (binary, link) = (directory.join("execbox-1.0"), directory.join("execbox"));
        fs::write(&binary, "").unwrap();
        symlink(&binary, &link).unwrap();
        let launcher = |search: &Path| of(&binary, search.to_str()).unwrap();
        assert_eq!(launcher(&directory), [link.to_str().unwrap()]);
        assert_eq!(launcher(Path::new("/nowhere")), [binary.to_str().unwrap()]);
    }
}
