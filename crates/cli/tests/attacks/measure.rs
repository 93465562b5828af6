//! Memory and processor time of a process under attack and its children, read from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::report::Figures;
use crate::support::{Signal, send};

/// The time between two measurements. Each reads a dozen files of the kernel, which is work that the attacks compete with.
pub(crate) const INTERVAL: Duration = Duration::from_millis(20);

/// The resources that a tree of processes used during an attack.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// The maximum growth of the resident memory of the process since the start of the attack, in bytes.
    pub(crate) root: u64,
    /// The maximum growth of the resident memory of one child, in bytes.
    pub(crate) child: u64,
    /// User and system time of all processes together.
    pub(crate) cpu: Duration,
}

impl Used {
    /// Adds the elapsed time.
    pub(crate) fn figures(self, wall: Duration) -> Figures {
        Figures { host: self.root, child: self.child, cpu: self.cpu, wall }
    }
}

/// A process and its children, without those that run `excluded`.
pub(crate) struct Watch<'a> {
    root: u32,
    excluded: Option<&'a Path>,
    seen: BTreeMap<u32, Seen>,
    cpu_before: Duration,
}

struct Seen {
    before: u64,
    peak: u64,
}

impl<'a> Watch<'a> {
    /// Takes the present memory and processor time of the processes as the baseline.
    pub(crate) fn start(root: u32, excluded: Option<&'a Path>) -> Self {
        let mut watch = Self { root, excluded, seen: BTreeMap::new(), cpu_before: Duration::ZERO };
        for process in watch.processes() {
            // The peak is reset to the memory that is resident now (proc(5)).
            let _ = fs::write(format!("/proc/{process}/clear_refs"), "5");
        }
        watch.sample();
        watch.cpu_before = watch.cpu();
        watch
    }

    /// Counts the growth of the first process from the baseline, unless less is resident now. Sets the baseline if there is none.
    pub(crate) fn count_from(&mut self, baseline: &mut Option<u64>) {
        let Some(root) = self.seen.get_mut(&self.root) else { return };
        root.before = root.before.min(*baseline.get_or_insert(root.before));
    }

    /// Reads the peaks. The kernel keeps the peak of a process as long as it lives, so that only the last moments of a child
    /// that is killed are missed.
    pub(crate) fn sample(&mut self) {
        for process in self.processes() {
            let Some((now, peak)) = resident(process) else { continue };
            let seen = self.seen.entry(process).or_insert(Seen { before: now, peak });
            seen.peak = seen.peak.max(peak);
        }
    }

    /// The resources that were used since the start.
    pub(crate) fn used(&self) -> Used {
        let mut used = Used { cpu: self.cpu().saturating_sub(self.cpu_before), ..Used::default() };
        for (process, seen) in &self.seen {
            let grown = if *process == self.root { &mut used.root } else { &mut used.child };
            *grown = (*grown).max(seen.peak.saturating_sub(seen.before));
        }
        used
    }

    /// Kills all processes.
    pub(crate) fn kill(&self) {
        for process in self.processes() {
            send(Signal::SIGKILL, process);
        }
    }

    fn processes(&self) -> Vec<u32> {
        let mut processes = vec![self.root];
        let is_excluded = |process: &u32| {
            let program = fs::read_link(format!("/proc/{process}/exe")).ok();
            program.is_some() && program.as_deref() == self.excluded
        };
        processes.extend(children(self.root).into_iter().filter(|child| !is_excluded(child)));
        processes
    }

    fn cpu(&self) -> Duration {
        // Excluded children have mostly ended by then, and cannot be distinguished from other ended children.
        let of_ended = |of_children| if self.excluded.is_some() { 0 } else { of_children };
        let of_root = ticks(self.root).map_or(0, |[own, of_children]| own + of_ended(of_children));
        let children = self.processes().into_iter().skip(1);
        let of_children: u64 = children.filter_map(ticks).map(|[own, _]| own).sum();
        // A tick is 10 ms on every Linux that this runs on.
        Duration::from_millis(10 * (of_root + of_children))
    }
}

fn children(of: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>()).collect()
}

/// Resident memory of a process now and at its peak, in bytes.
fn resident(process: u32) -> Option<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    };
    Some((field("VmRSS:")?, field("VmHWM:")?))
}

/// Processor time of a process, and of its children that it has waited for.
fn ticks(process: u32) -> Option<[u64; 2]> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<u64> =
        stat.rsplit_once(") ")?.1.split(' ').skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
    let [user, system, user_of_children, system_of_children] = fields[..] else { return None };
    Some([user + system, user_of_children + system_of_children])
}
