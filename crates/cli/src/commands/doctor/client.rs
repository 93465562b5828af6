//! What works here and may not work for the client, which starts the gateway in a directory of its choice and, if it is a desktop
//! program, without the environment of a shell.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;

use execbox_mcp::config::{ServerConfig, Transport};

use crate::options::servers::Loaded;

/// The variables that each program has.
const COMMON_VARIABLES: [&str; 8] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER", "XDG_RUNTIME_DIR"];

/// The directories that each program has in its `PATH`.
const COMMON_PATH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// What of a server begins at the current directory.
pub(super) fn relative_paths(server: &ServerConfig) -> Vec<String> {
    let Transport::Stdio { command, args, directory, .. } = &server.transport else { return Vec::new() };
    if let Some(directory) = directory {
        return if directory.is_relative() { vec![relative("`cwd`")] } else { Vec::new() };
    }
    let command = (command.contains('/') && is_relative(command)).then(|| relative("the path of `command`"));
    let args = args.iter().filter(|arg| is_relative(arg) && arg.contains(['.', '/']) && Path::new(arg).exists());
    let args = args.map(|arg| relative(&format!("the argument {:?}", server.secrets.redact(arg.clone()))));
    command.into_iter().chain(args).collect()
}

fn relative(what: &str) -> String {
    format!("{what} begins at the current directory, which clients choose: write an absolute path")
}

pub(super) fn is_relative(path: &str) -> bool {
    Path::new(path).is_relative()
}

/// A line for each file whose values depend on the current directory.
pub(super) fn dependent_files(loaded: &Loaded) -> impl Iterator<Item = String> {
    loaded.needs.files_of_directory.iter().map(|file| {
        format!("{file}: `${{workspaceFolder}}`, relative paths of `envFile` and projects depend on the current directory, which clients choose: write absolute paths")
    })
}

/// The environment that the gateway needs from the client: `PATH` if commands are found in other directories than
/// [`COMMON_PATH`], and the variables that the configurations use, whose values may be secrets and are left out.
pub(super) fn environment(loaded: &Loaded) -> BTreeMap<String, String> {
    let path = env::var("PATH").ok().filter(|_| loaded.config.servers.iter().any(needs_path));
    let variables = loaded.needs.variables.iter().filter(|name| !COMMON_VARIABLES.contains(&&***name));
    let variables = variables.map(|name| (name.clone(), VALUE.to_owned()));
    path.map(|path| ("PATH".to_owned(), path)).into_iter().chain(variables).collect()
}

/// The value of a variable that the user has to write.
pub(super) const VALUE: &str = "…";

/// Whether a command is found through the `PATH` of this process, and not in [`COMMON_PATH`].
fn needs_path(server: &ServerConfig) -> bool {
    let Transport::Stdio { command, env, .. } = &server.transport else { return false };
    let is_in = |directory: &Path| directory.join(command).is_file();
    !command.contains('/')
        && !env.iter().any(|(name, _)| name == "PATH")
        && !COMMON_PATH.iter().any(|directory| is_in(Path::new(directory)))
        && env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|directory| is_in(&directory)))
}
