//! Environment variables: those that pages name exist, and those that the binary reads are described.

use std::collections::BTreeSet;

use super::page::{Page, root, sources};

/// What the variables of this project begin with.
const PREFIX: &str = "EXECBOX_";

/// Variables that processes of the binary set for each other.
const INTERNAL: [&str; 1] = ["EXECBOX_DEPTH"];

#[test]
fn variables_of_pages_exist_and_those_of_the_binary_are_described() {
    let pages = Page::for_users();
    let code = pages.iter().flat_map(|page| &page.code);
    let blocks = pages.iter().flat_map(|page| page.blocks.iter().map(|block| &block.text));
    let described: BTreeSet<&str> = code.chain(blocks).flat_map(|text| names(text)).collect();

    let mut tests = sources(&root().join("crates"));
    tests.push(std::fs::read_to_string(root().join("packages/python/src/execbox/_binary.py")).unwrap());
    let read: BTreeSet<&str> = tests.iter().flat_map(|source| names(source)).collect();
    let unknown: Vec<_> = described.difference(&read).collect();
    assert!(unknown.is_empty(), "no source has {unknown:?}");

    let binary = sources(&root().join("crates/cli/src"));
    let read: BTreeSet<&str> = binary.iter().flat_map(|source| names(source)).collect();
    assert!(INTERNAL.iter().all(|name| read.contains(name)), "{read:?}");
    let missing: Vec<_> = read.iter().filter(|name| !described.contains(*name) && !INTERNAL.contains(name)).collect();
    assert!(missing.is_empty() && read.len() > INTERNAL.len(), "no page describes {missing:?} of {read:?}");
}

/// The variables of this project in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(PREFIX).map(|(at, _)| {
        let name = &text[at..];
        let end = name.find(|c: char| !c.is_ascii_uppercase() && c != '_');
        &name[..end.unwrap_or(name.len())]
    })
}
