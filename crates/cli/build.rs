//! Makes a table of the conformance cases, so that the binary carries them: every `.case` file of
//! `conformance/` (a link to the directory of the repository), by its path, in order.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance").canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());
    let mut table = "[\n".to_owned();
    for section in sorted_entries(&root)?.iter().filter(|path| path.is_dir()) {
        for file in sorted_entries(section)?.iter().filter(|path| path.extension().is_some_and(|ext| ext == "case")) {
            let path = file.strip_prefix(&root).expect("an entry is below its directory");
            let [path, file] = [path, file].map(|path| path.to_str().expect("a name of a case is text"));
            writeln!(table, "    ({path:?}, include_str!({file:?})),").expect("a string takes every write");
        }
    }
    table += "]";
    fs::write(Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("cases.rs"), table)
}

fn sorted_entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    Ok(entries)
}
