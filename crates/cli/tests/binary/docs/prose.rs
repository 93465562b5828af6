//! The text of pages: lines of prose have a width that reviews of differences can show.

use std::fs;

use super::page::{every_page, root};

const MAX_WIDTH: usize = 120;

#[test]
fn lines_of_prose_have_at_most_120_characters() {
    let long: Vec<_> = every_page().iter().flat_map(|page| long_lines(page)).collect();
    assert!(long.is_empty(), "wrap these lines at {MAX_WIDTH} characters:\n{}", long.join("\n"));
}

/// The places of lines that are too long. Rows of tables, blocks of code and pictures are not prose, and a line without spaces
/// cannot be wrapped.
fn long_lines(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let mut in_code = false;
    let mut long = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let begins = line.trim_start();
        if begins.starts_with("```") {
            in_code = !in_code;
        }
        let is_prose = !in_code && !begins.starts_with(['|', '!']) && begins.trim_start_matches("- ").contains(' ');
        if is_prose && line.chars().count() > MAX_WIDTH {
            long.push(format!("{page}:{}", at + 1));
        }
    }
    long
}
