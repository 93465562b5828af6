//! What is enforced, what is not, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::policy::Mode;

/// One thing that the operating system can refuse to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Layer {
    /// Descriptors that were inherited are closed, except the three standard ones.
    Descriptors,
    /// Programs with the set-user-id bit give no privileges (`no_new_privs`).
    NoNewPrivileges,
    /// Limits on memory, open descriptors, file sizes, locked memory and core dumps.
    Limits,
    /// User and privileges of its own, worth nothing outside.
    UserNamespace,
    /// A network without interfaces.
    NetworkNamespace,
    /// No System V message queues, semaphores and shared memory of others.
    IpcNamespace,
    /// A host name of its own.
    HostNameNamespace,
    /// The file system is an empty read-only directory.
    EmptyRoot,
    /// All capabilities are dropped.
    Capabilities,
    /// Landlock: no file, no TCP, no signals to others.
    Landlock,
    /// Not readable by other processes of the user, and no core dumps.
    NotDumpable,
    /// A system call that the process does not need kills it (seccomp).
    SystemCalls,
}

impl Layer {
    /// All layers, in the order in which they are entered.
    pub const ALL: [Self; 12] = [
        Self::Descriptors,
        Self::NoNewPrivileges,
        Self::Limits,
        Self::UserNamespace,
        Self::NetworkNamespace,
        Self::IpcNamespace,
        Self::HostNameNamespace,
        Self::EmptyRoot,
        Self::Capabilities,
        Self::Landlock,
        Self::NotDumpable,
        Self::SystemCalls,
    ];

    /// The name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Descriptors => "inherited descriptors",
            Self::NoNewPrivileges => "no new privileges",
            Self::Limits => "resource limits",
            Self::UserNamespace => "user namespace",
            Self::NetworkNamespace => "network namespace",
            Self::IpcNamespace => "IPC namespace",
            Self::HostNameNamespace => "host name namespace",
            Self::EmptyRoot => "empty file system",
            Self::Capabilities => "capabilities",
            Self::Landlock => "Landlock",
            Self::NotDumpable => "not dumpable",
            Self::SystemCalls => "system calls",
        }
    }

    /// What a person who administers the machine can do if the layer is unavailable.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Descriptors => "mount /proc",
            Self::NoNewPrivileges => "use Linux 3.5 or later",
            Self::Limits => "raise the hard limits of the user, or lower those of the policy",
            Self::UserNamespace => {
                "allow user namespaces: user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 (Debian), \
                 kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), unshare in the container's seccomp profile"
            }
            Self::NetworkNamespace | Self::IpcNamespace | Self::HostNameNamespace => {
                "allow user namespaces, which allow these, or raise user.max_*_namespaces"
            }
            Self::EmptyRoot => "allow user namespaces, and mount and pivot_root in the container's seccomp profile",
            Self::Capabilities => "use Linux 2.6.25 or later",
            Self::Landlock => "use Linux 5.13 or later, with landlock in the boot parameter lsm=",
            Self::NotDumpable => "use Linux",
            Self::SystemCalls => "use a kernel with CONFIG_SECCOMP_FILTER, on x86-64 or aarch64",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether a layer is enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "status", content = "reason")]
pub enum Status {
    /// The kernel enforces it.
    Enforced,
    /// The policy asks for it, and it is not enforced: the reason.
    Unavailable(String),
    /// The policy does not ask for it: the reason.
    Off(String),
}

/// The status of one layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerReport {
    /// The layer.
    pub layer: Layer,
    /// Whether it is enforced.
    #[serde(flatten)]
    pub status: Status,
}

/// What is enforced of a process, and what is not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[must_use = "a layer that is missing must be reported"]
pub struct Report {
    /// Each layer once, in the order of [`Layer::ALL`].
    pub layers: Vec<LayerReport>,
}

impl Report {
    /// Every layer is off, for this reason.
    pub fn off(reason: &str) -> Self {
        let off = |layer| LayerReport { layer, status: Status::Off(reason.to_owned()) };
        Self { layers: Layer::ALL.map(off).to_vec() }
    }

    /// The status of a layer; `None` if it was not entered yet.
    pub fn status(&self, layer: Layer) -> Option<&Status> {
        self.layers.iter().find(|report| report.layer == layer).map(|report| &report.status)
    }

    /// The layers that the policy asks for and that are not enforced.
    pub fn missing(&self) -> impl Iterator<Item = (Layer, &str)> {
        self.layers.iter().filter_map(|report| match &report.status {
            Status::Unavailable(reason) => Some((report.layer, reason.as_str())),
            Status::Enforced | Status::Off(_) => None,
        })
    }

    /// Fails if the mode is [`Mode::Required`] and a layer is missing.
    ///
    /// # Errors
    /// [`Incomplete`], with the first missing layer.
    pub fn check(&self, mode: Mode) -> Result<(), Incomplete> {
        match self.missing().next() {
            Some((layer, reason)) if mode == Mode::Required => Err(Incomplete { layer, reason: reason.to_owned() }),
            _ => Ok(()),
        }
    }

    pub(crate) fn note(&mut self, layer: Layer, status: Status) {
        self.layers.push(LayerReport { layer, status });
    }
}

/// One layer per line.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, LayerReport { layer, status }) in self.layers.iter().enumerate() {
            let line_break = if at == 0 { "" } else { "\n" };
            match status {
                Status::Enforced => write!(f, "{line_break}{layer:<22} enforced")?,
                Status::Unavailable(reason) => write!(f, "{line_break}{layer:<22} NOT ENFORCED: {reason}")?,
                Status::Off(reason) => write!(f, "{line_break}{layer:<22} off: {reason}")?,
            }
        }
        Ok(())
    }
}

/// A property of the system that decides which layers are available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// Its name: `kernel`, or that of a setting.
    pub name: String,
    /// What the system says.
    pub value: String,
}

/// A layer is missing although all are required.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the jail is required and incomplete: {layer}: {reason}; {}, or use --jail best-effort", .layer.remedy())]
pub struct Incomplete {
    /// The first layer that is missing.
    pub layer: Layer,
    /// Why it is not enforced.
    pub reason: String,
}
