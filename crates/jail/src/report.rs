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
    /// A user and privileges of its own, which have no effect outside.
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
    /// Other processes of the user cannot read the process, and there are no core dumps.
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

    /// The layers that a process requires if it compiles programs (see [`Policy::compiles`](crate::Policy::compiles)), unless
    /// the mode is [`Mode::Off`]: such an engine has no other boundary around its memory.
    pub const OF_COMPILERS: [Self; 2] = [Self::Landlock, Self::SystemCalls];

    /// The name for people, such as `user namespace`.
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

    /// What an administrator of the machine can do if the layer is unavailable.
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
#[non_exhaustive]
pub enum Status {
    /// The kernel enforces the layer.
    Enforced,
    /// The policy asks for the layer, which is not enforced: the reason.
    Unavailable(String),
    /// The policy does not ask for the layer: the reason.
    Off(String),
}

/// The status of one layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LayerReport {
    /// The layer that the status is about.
    pub layer: Layer,
    /// Whether the layer is enforced. Serialized as the fields `status` and `reason`.
    #[serde(flatten)]
    pub status: Status,
    /// What exactly is enforced, where kernels differ: the version of Landlock, and what it lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl LayerReport {
    fn new(layer: Layer, status: Status) -> Self {
        Self { layer, status, detail: None }
    }
}

/// `enforced`, with the detail in parentheses; or why it is not.
impl fmt::Display for LayerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.status, &self.detail) {
            (Status::Enforced, None) => f.write_str("enforced"),
            (Status::Enforced, Some(detail)) => write!(f, "enforced ({detail})"),
            (Status::Unavailable(reason), _) => write!(f, "NOT ENFORCED: {reason}"),
            (Status::Off(reason), _) => write!(f, "off: {reason}"),
        }
    }
}

/// What is enforced of a process, and what is not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[must_use = "a layer that is missing must be reported"]
#[non_exhaustive]
pub struct Report {
    /// Each layer once, in the order of [`Layer::ALL`].
    pub layers: Vec<LayerReport>,
    /// Whether the process compiles programs, which requires [`Layer::OF_COMPILERS`].
    #[serde(default)]
    pub compiles: bool,
}

impl Report {
    /// A report in which every layer is off, for this reason.
    pub fn off(reason: &str) -> Self {
        let off = |layer| LayerReport::new(layer, Status::Off(reason.to_owned()));
        Self { layers: Layer::ALL.map(off).to_vec(), compiles: false }
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

    /// Fails if a layer is missing that must be enforced: each in the mode [`Mode::Required`], and [`Layer::OF_COMPILERS`] in a
    /// process that compiles programs, unless the mode is [`Mode::Off`].
    ///
    /// # Errors
    /// [`Incomplete`], with the first such layer.
    pub fn check(&self, mode: Mode) -> Result<(), Incomplete> {
        let is_required = |layer: Layer| match mode {
            Mode::Required => true,
            Mode::BestEffort => self.compiles && Layer::OF_COMPILERS.contains(&layer),
            Mode::Off => false,
        };
        match self.missing().find(|(layer, _)| is_required(*layer)) {
            Some((layer, reason)) => Err(Incomplete { layer, reason: reason.to_owned(), mode }),
            None => Ok(()),
        }
    }

    pub(crate) fn note(&mut self, layer: Layer, status: Status) {
        self.layers.push(LayerReport::new(layer, status));
    }

    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn note_enforced(&mut self, layer: Layer, detail: String) {
        self.layers.push(LayerReport { layer, status: Status::Enforced, detail: Some(detail) });
    }
}

/// One layer per line.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, report) in self.layers.iter().enumerate() {
            let line_break = if at == 0 { "" } else { "\n" };
            write!(f, "{line_break}{:<22} {report}", report.layer)?;
        }
        Ok(())
    }
}

/// A property of the system that decides which layers are available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Feature {
    /// The name of the property, such as `user.max_user_namespaces`. `kernel` is the version of the kernel.
    pub name: String,
    /// The value that the system reports.
    pub value: String,
}

/// A layer that must be enforced is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incomplete {
    /// The first required layer that is missing.
    pub layer: Layer,
    /// Why the layer is not enforced.
    pub reason: String,
    /// The mode that requires the layer.
    pub mode: Mode,
}

impl std::error::Error for Incomplete {}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layer, reason, mode } = self;
        let remedy = layer.remedy();
        if *mode == Mode::Required {
            return write!(
                f,
                "the jail is required and incomplete: {layer}: {reason}; {remedy}, or use --jail best-effort"
            );
        }
        write!(
            f,
            "an engine that compiles programs requires this layer of the jail: {layer}: {reason}; {remedy}, or use --jail \
             off, which gives a program that takes over the engine the rights of the user"
        )
    }
}
