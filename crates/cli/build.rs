//! Makes a table of the conformance cases, so that the binary carries them: the section and the text of every file
//! `conformance/SECTION.cases`, in order.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    println!("cargo::rerun-if-changed={}", directory.display());
    let mut files: Vec<PathBuf> = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "cases"));
    files.sort();
    let mut table = "[\n".to_owned();
    for file in &files {
        let (section, file) = (file.file_stem().unwrap_or_default().to_string_lossy(), file.to_string_lossy());
        writeln!(table, "    ({section:?}, include_str!({file:?})),").expect("a string takes every write");
    }
    table += "]";
    fs::write(Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("cases.rs"), table)
}
