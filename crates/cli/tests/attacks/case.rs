//! Cases of hostile guests. `tests/attacks/README.md` documents the format.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use execbox::Limits;
use execbox_testkit::cases::{self, CaseFile};
use serde_json::Value as Json;

use crate::expand::expand;
use crate::report::Bounds;

/// The root of the corpus.
pub(crate) const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/attacks");

/// The executors, in the order of the report.
const EXECUTORS: [&str; 4] = ["inline", "worker", "process", "remote"];

/// The environment variable that names the engine of guests: `quickjs`, the default, or `v8`, which only processes have.
const ENGINE: &str = "EXECBOX_TEST_ENGINE";

/// The engine under attack.
pub(crate) fn engine() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| std::env::var(ENGINE).unwrap_or_else(|_| "quickjs".to_owned()));
    &NAME
}

/// Whether programs are attacked on V8.
pub(crate) fn is_v8() -> bool {
    engine() == "v8"
}

#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The name of the case: `GROUP/FILE: TITLE`.
    pub(crate) name: String,
    pub(crate) is_module: bool,
    /// Whether the provider `many` is granted in addition.
    pub(crate) has_many: bool,
    pub(crate) limits: Limits,
    pub(crate) bounds: Bounds,
    pub(crate) executors: Vec<&'static str>,
    pub(crate) expected: Expected,
    /// How many peers play the script at once.
    pub(crate) connections: usize,
    /// Further arguments of the process that is attacked.
    pub(crate) arguments: Vec<String>,
    /// The form in which a server over HTTP sends its hostile answer, and the method that it answers. `None` for processes.
    pub(crate) over: Option<String>,
    /// The program that a host executes while its peer is hostile.
    pub(crate) code: Option<String>,
    /// The source, or the script of a peer, and further modules by specifier.
    pub(crate) sources: Vec<(String, String)>,
}

/// The expected end of a case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expected {
    /// The classes of ends that are correct.
    pub(crate) ends: Vec<String>,
    /// A part of the message, if it matters.
    pub(crate) message: String,
    /// The result, if it matters.
    pub(crate) result: Option<Json>,
}

/// The position of a case: its file and its number in the file.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) number: usize,
}

/// The directories with hostile peers.
pub(crate) const PEERS: [&str; 5] = ["runners", "hosts", "servers", "clients", "applications"];

/// A file with the token `s3cret`, written once by each process.
fn token_file() -> &'static str {
    static FILE: LazyLock<String> = LazyLock::new(|| {
        let path = std::env::temp_dir().join(format!("execbox-hostile-token-{}", std::process::id()));
        std::fs::write(&path, "s3cret").unwrap();
        path.display().to_string()
    });
    &FILE
}

/// The files of a group.
pub(crate) fn files(group: &str) -> Vec<CaseFile> {
    CaseFile::read_all(Path::new(CORPUS).join(group))
}

/// The maximum length of a message, in bytes. A host keeps the text of a message and its parsed form before the guest's limits
/// apply.
const MESSAGE: u64 = 16 << 20;

/// The additional memory that a process with V8 may take before this is noticed, in bytes: the memory of the process is read
/// every 2 ms.
const V8_UNNOTICED: u64 = 32 << 20;

fn executors() -> Vec<&'static str> {
    if is_v8() { vec!["process"] } else { EXECUTORS.to_vec() }
}

/// Reads the case at that position.
pub(crate) fn read(group: &str, file: &CaseFile, text: &cases::Case) -> Case {
    let name = format!("{group}/{}: {}", file.name(), text.title);
    // A gateway and a listening runner have budgets of their own, in proportion to the default limits.
    let memory_bytes =
        if ["hosts", "servers", "clients", "applications"].contains(&group) { 64 << 20 } else { 16 << 20 };
    let mut limits = Limits::default().memory_bytes(memory_bytes);
    let (mut given, mut is_module, mut has_many) = (false, false, false);
    let (mut connections, mut arguments, mut code, mut over) = (1, Vec::new(), None, None);
    let (mut executors, mut expected) = (executors(), Expected::default());
    for (key, value) in text.fields_on(engine()) {
        match key.as_str() {
            "contract" => is_module = value == "module",
            "grant" => has_many = value == "many",
            "limits" => given |= set_limits(&mut limits, &json(&name, &value)),
            "on" => executors.retain(|executor| value.split(' ').any(|word| word == *executor)),
            "connections" => connections = value.parse().unwrap_or_else(|_| panic!("{name}: not a count: {value}")),
            "arguments" => {
                arguments = value.replace("TOKEN_FILE", token_file()).split(' ').map(str::to_owned).collect();
            }
            "code" => code = Some(expand(&value)),
            "over" => over = Some(value),
            "ends" => expected.ends = value.split(" | ").map(str::to_owned).collect(),
            "message" => expected.message = value,
            "result" => expected.result = Some(json(&name, &value)),
            _ => panic!("{name}: no such key: {key}"),
        }
    }
    let is_of_a_peer = PEERS.contains(&group);
    assert!((is_of_a_peer || !expected.ends.is_empty()) && !executors.is_empty(), "{name}: `ends` or `on` is empty");
    let is_stopped = expected.ends.iter().any(|class| class == "timeout" || class == "terminated");
    let time = match (given, is_stopped) {
        (true, _) => limits.timeout,
        // A peer attacks for this time.
        (false, _) if is_of_a_peer => Duration::from_millis(1500),
        (false, true) => Duration::from_millis(200),
        (false, false) => Duration::from_secs(1),
    };
    // A program that does not have to be stopped must not be stopped on a busy machine either.
    limits.timeout = if is_stopped || is_of_a_peer { time } else { Duration::from_mins(1) };
    let mut bounds = Bounds::new(time, limits.memory_bytes);
    if is_v8() {
        bounds.child = bounds.child.saturating_add(V8_UNNOTICED);
    }
    if group == "runners" {
        bounds.memory += 2 * MESSAGE;
        bounds.child += 2 * MESSAGE;
    }
    // Steps of scripts are expanded one by one: see `peer.rs`.
    let expanded = |source: &str| if is_of_a_peer { source.to_owned() } else { expand(source) };
    let sources = text.sections.iter().map(|(name, source)| (name.clone(), expanded(source))).collect();
    Case { name, is_module, has_many, limits, bounds, executors, expected, connections, arguments, over, code, sources }
}

/// Sets the given limits. Returns whether the timeout is among them.
pub(crate) fn set_limits(limits: &mut Limits, given: &Json) -> bool {
    for (key, value) in given.as_object().expect("limits are an object") {
        let value = value.as_u64().expect("a limit is a number");
        let count = || usize::try_from(value).unwrap();
        match key.as_str() {
            "timeoutMs" => limits.timeout = Duration::from_millis(value),
            "memoryLimitBytes" => limits.memory_bytes = value,
            "maxLogLines" => limits.max_log_lines = count(),
            "maxLogChars" => limits.max_log_chars = count(),
            "maxSourceBytes" => limits.max_source_bytes = count(),
            _ => panic!("no such limit: {key}"),
        }
    }
    given.get("timeoutMs").is_some()
}

fn json(name: &str, text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {text}: {error}"))
}

impl Expected {
    /// The differences between the expected end and this one.
    pub(crate) fn differences(&self, ended: &Json) -> Vec<String> {
        let mut differences = Vec::new();
        let class = ended["class"].as_str().unwrap_or_default();
        let message = ended["message"].as_str().unwrap_or_default();
        if !self.ends.iter().any(|expected| expected == class) {
            differences.push(format!("ends as {class} ({message}), expected {}", self.ends.join(" or ")));
        } else if !message.contains(&self.message) {
            differences.push(format!("message {message:?}, expected {:?}", self.message));
        }
        if self.result.as_ref().is_some_and(|expected| *expected != ended["result"]) {
            differences.push(format!("result {}", ended["result"]));
        }
        differences
    }
}
