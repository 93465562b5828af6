//! Links lead to files and headings that exist, and the book contains every page.

use std::fs;
use std::path::Path;

use super::page::{Page, every_page, root};

/// How pages of the book link to files that are not part of it.
const REPOSITORY: &str = "https://github.com/execbox/execbox";

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let mut broken = Vec::new();
    for page in every_page().iter().map(|path| Page::read(path)) {
        broken.extend(
            page.links.iter().filter(|link| !leads_somewhere(&page, link)).map(|link| format!("{}: {link}", page.path)),
        );
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

fn leads_somewhere(page: &Page, link: &str) -> bool {
    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = match target.strip_prefix(REPOSITORY) {
        Some("") => "README.md".into(),
        Some(path) => match path.strip_prefix("/blob/main/").or(path.strip_prefix("/tree/main/")) {
            Some(path) => path.into(),
            None => return false,
        },
        None if target.contains("://") => return true, // Tests use no network.
        None if target.is_empty() => page.path.clone().into(),
        None => Path::new(&page.path).parent().unwrap().join(target),
    };
    let Ok(path) = root().join(path).canonicalize() else { return false };
    let Ok(path) = path.strip_prefix(root()) else { return false };
    anchor.is_empty() || Page::read(path.to_str().unwrap()).anchors.iter().any(|known| known == anchor)
}

/// Relative links out of the book would be broken where the book is published.
#[test]
fn the_book_links_to_its_own_pages_only() {
    for page in Page::all(&["docs"]) {
        for link in page.links.iter().filter(|link| !link.contains("://")) {
            assert!(!link.starts_with(['.', '/']), "{}: {link}: begin it with {REPOSITORY}/blob/main/", page.path);
        }
    }
}

#[test]
fn the_summary_lists_every_page() {
    let mut listed = Page::read("docs/SUMMARY.md").links;
    listed.push("SUMMARY.md".to_owned());
    listed.sort();
    let all = Page::all(&["docs"]).into_iter();
    let mut pages: Vec<_> = all.map(|page| page.path["docs/".len()..].to_owned()).collect();
    pages.sort();
    assert_eq!(listed, pages);
}

#[test]
fn the_page_of_examples_lists_every_example_of_a_crate() {
    let listed = Page::read("examples/README.md").links;
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path().join("examples");
        for example in fs::read_dir(folder).into_iter().flatten() {
            let path = example.unwrap().path();
            let link = format!("../{}", path.strip_prefix(root()).unwrap().display());
            assert!(listed.contains(&link), "examples/README.md: {link} is missing");
        }
    }
}

/// The tests of the packages run the commands of these pages.
#[test]
fn the_examples_of_packages_are_on_their_pages() {
    for (folder, extension) in [("examples/python", "py"), ("examples/node", "mjs")] {
        let linked = Page::read(&format!("{folder}/README.md")).links;
        let names = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.filter(|name| Path::new(name).extension().is_some_and(|of_file| of_file == extension));
        let missing: Vec<_> = names.filter(|name| !linked.iter().any(|link| **link == **name)).collect();
        assert!(linked.len() > 5 && missing.is_empty(), "{folder}/README.md: {missing:?} are missing");
    }
}

#[test]
fn the_architecture_names_files_that_exist() {
    let named = Page::read("ARCHITECTURE.md").code;
    let paths = named.iter().filter(|text| ["crates/", "docs/"].iter().any(|start| text.starts_with(start)));
    let missing: Vec<_> = paths.filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "no such files: {missing:?}");
}
