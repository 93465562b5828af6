//! The memory of this process, as the system counts it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use nix::unistd::{SysconfVar, sysconf};

/// An open file that reports the memory, so that it can be read when the process can open no more files.
pub(crate) struct Resident {
    statm: File,
    page_bytes: usize,
}

impl Resident {
    /// Opens `/proc/self/statm`; `None` where the system has no such file: only Linux has it.
    pub(crate) fn open() -> Option<Self> {
        let statm = File::open("/proc/self/statm").ok()?;
        let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok()??.try_into().ok()?;
        let resident = Self { statm, page_bytes };
        resident.private_bytes().map(|_| resident)
    }

    /// The resident memory that is not mapped from files, in bytes. `None` if the file cannot be read.
    pub(crate) fn private_bytes(&self) -> Option<usize> {
        let mut text = [0; 128];
        let len = self.statm.read_at(&mut text, 0).ok()?;
        let text = str::from_utf8(&text[..len]).ok()?;
        let mut pages = text.split(' ').skip(1).map_while(|number| number.parse::<usize>().ok());
        let (resident, of_files) = (pages.next()?, pages.next()?);
        Some(resident.saturating_sub(of_files) * self.page_bytes)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_written_to_counts() {
        const BYTES: usize = 64 << 20;
        let resident = Resident::open().expect("Linux has the file");
        let before = resident.private_bytes().unwrap();
        let memory = std::hint::black_box(vec![1_u8; BYTES]);
        let growth = resident.private_bytes().unwrap() - before;
        assert!(growth >= BYTES / 2, "{growth} of {}", memory.len());
    }
}
