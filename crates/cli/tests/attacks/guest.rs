//! Hostile guests: each case in a host process of its own, on one executor after another.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::Ended;
use crate::case::{Case, Place};
use crate::host;
use crate::measure::{INTERVAL, Watch};
use crate::report::{Bounds, Figures};

/// The time within which the host process must write a line, unless it is under attack.
const STEP: Duration = Duration::from_mins(2);

/// A host process that executes one case.
struct Host {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Host {
    fn start(group: &str, place: &Place, executors: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([host::HOST, &executors.join(","), group]).arg(&place.path).arg(place.number.to_string());
        command.env("RUST_BACKTRACE", "0"); // symbols of a debug build are large
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { input: process.stdin.take().unwrap(), process, lines }
    }

    fn go_on(&mut self) {
        let _ = self.input.write_all(b"\n");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A listening runner does not notice the end of its host.
        Watch::start(self.process.id(), None).kill();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the case on the executors. An error describes each bound and expectation that it violates.
pub(crate) fn run(group: &str, place: &Place, case: &Case, executors: &[&str]) -> Vec<Ended> {
    let mut host = Host::start(group, place, executors);
    let mut baseline = None;
    executors.iter().map(|_| attack(&mut host, case, &mut baseline)).collect()
}

/// Runs the case on the next executor. The growth of the host counts from the baseline, before the first attack: what an attack
/// leaves behind counts for those after it, too.
fn attack(host: &mut Host, case: &Case, baseline: &mut Option<u64>) -> Ended {
    let mut failed = Vec::new();
    if host.lines.recv_timeout(STEP).as_deref() != Ok("ready") {
        return (Figures::default(), vec!["1 + 1 does not work before the case".to_owned()]);
    }
    let bounds = case.bounds;
    let mut watch = Watch::start(host.process.id(), None);
    watch.count_from(baseline);
    host.go_on();
    let started = Instant::now();
    let ended = attacked(host, &mut watch, bounds);
    let wall = ended.as_ref().ok().and_then(|ended| ended["wallMs"].as_u64());
    let wall = wall.map_or(started.elapsed(), Duration::from_millis);
    let figures = watch.used().figures(wall);
    failed.extend(bounds.violations(&figures));
    match ended {
        Ok(ended) => failed.extend(case.expected.differences(&ended)),
        Err(reason) => failed.push(reason),
    }
    host.go_on();
    match host.lines.recv_timeout(STEP) {
        Ok(line) if line == "true" => {}
        other => failed.push(format!("1 + 1 does not work after the case: {other:?}")),
    }
    host.go_on();
    (figures, failed)
}

/// Waits until the case has ended, and ends the host if it exceeds its bounds by far.
fn attacked(host: &Host, watch: &mut Watch<'_>, bounds: Bounds) -> Result<Json, String> {
    let started = Instant::now();
    loop {
        watch.sample();
        match host.lines.recv_timeout(INTERVAL) {
            Ok(line) => {
                watch.sample();
                return Ok(serde_json::from_str(&line).unwrap_or_else(|_| json!({ "class": line })));
            }
            Err(RecvTimeoutError::Disconnected) => return Err("the host process died".to_owned()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if bounds.is_far_beyond(&watch.used().figures(started.elapsed())) {
            watch.kill();
            return Err("killed, because it is far beyond its bounds".to_owned());
        }
    }
}
