//! The MCP clients, and where each keeps the servers of a user.

use std::env;
use std::path::PathBuf;

/// An MCP client.
pub(super) struct Client {
    /// The name on the command line.
    pub(super) id: &'static str,
    /// The name that the client has.
    pub(super) name: &'static str,
    /// The path of its file, which may not exist.
    file: fn(&Folders) -> PathBuf,
    /// Further keys of an entry that the client requires in some of its versions.
    pub(super) keys: &'static [(&'static str, &'static str)],
    /// What stands before and after the name of a variable in a reference to it. `None` for clients that start servers with
    /// their whole environment, and those without references: the others pass the variables only that an entry names.
    pub(super) reference: Option<(&'static str, &'static str)>,
}

impl Client {
    /// The path of its file, which may not exist. `None` if this user has no home directory.
    pub(super) fn file(&self) -> Option<PathBuf> {
        Some((self.file)(&Folders::of_user()?))
    }
}

/// The clients, in the order of their names.
pub(super) const CLIENTS: &[Client] = &[
    Client {
        id: "claude-code",
        name: "Claude Code",
        file: |folders| variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| folders.home.clone()).join(".claude.json"),
        keys: &[("type", "stdio")],
        reference: None,
    },
    Client {
        id: "claude-desktop",
        name: "Claude Desktop",
        file: |folders| folders.applications.join("Claude/claude_desktop_config.json"),
        keys: &[],
        reference: None,
    },
    Client {
        id: "codex",
        name: "Codex",
        file: |folders| variable("CODEX_HOME").unwrap_or_else(|| folders.home.join(".codex")).join("config.toml"),
        keys: &[],
        reference: Some(("", "")),
    },
    Client {
        id: "cursor",
        name: "Cursor",
        file: |folders| folders.home.join(".cursor/mcp.json"),
        keys: &[],
        reference: Some(("${env:", "}")),
    },
    Client {
        id: "gemini-cli",
        name: "Gemini CLI",
        file: |folders| {
            let home = variable("GEMINI_CLI_HOME").unwrap_or_else(|| folders.home.clone());
            home.join(".gemini/settings.json")
        },
        keys: &[],
        reference: Some(("$", "")),
    },
    Client {
        id: "vscode",
        name: "VS Code",
        file: |folders| folders.applications.join("Code/User/mcp.json"),
        keys: &[("type", "stdio")],
        reference: Some(("${env:", "}")),
    },
    Client {
        id: "vscode-insiders",
        name: "VS Code Insiders",
        file: |folders| folders.applications.join("Code - Insiders/User/mcp.json"),
        keys: &[("type", "stdio")],
        reference: Some(("${env:", "}")),
    },
    Client {
        id: "vscode-settings",
        name: "VS Code (settings.json)",
        file: |folders| folders.applications.join("Code/User/settings.json"),
        keys: &[("type", "stdio")],
        reference: Some(("${env:", "}")),
    },
    Client {
        id: "windsurf",
        name: "Windsurf",
        file: |folders| folders.home.join(".codeium/windsurf/mcp_config.json"),
        keys: &[],
        reference: Some(("${env:", "}")),
    },
    Client {
        id: "zed",
        name: "Zed",
        file: |folders| folders.config.join("zed/settings.json"),
        keys: &[("source", "custom")],
        reference: None,
    },
];

/// Directories in which applications keep the files of this user.
struct Folders {
    home: PathBuf,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    config: PathBuf,
    /// The directory of graphical applications: on macOS, `~/Library/Application Support`, elsewhere that of configurations.
    applications: PathBuf,
}

impl Folders {
    fn of_user() -> Option<Self> {
        let home = env::home_dir().filter(|home| home.is_absolute())?;
        let config = variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let is_macos = cfg!(target_os = "macos");
        let applications = if is_macos { home.join("Library/Application Support") } else { config.clone() };
        let config = if is_macos { home.join(".config") } else { config };
        Some(Self { home, config, applications })
    }
}

/// The absolute path in a variable of the environment.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
