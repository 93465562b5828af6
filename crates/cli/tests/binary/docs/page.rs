//! The parts of Markdown pages that the tests check.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The paths of all pages of the repository.
pub(crate) fn every_page() -> Vec<String> {
    let listed = Command::new("git").args(["ls-files", "*.md"]).current_dir(root()).output().unwrap();
    let pages: Vec<String> = String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect();
    assert!(pages.iter().any(|page| page == "README.md"), "{pages:?}");
    pages
}

/// One page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The path below [`root`].
    pub(crate) path: String,
    pub(crate) blocks: Vec<Block>,
    /// Targets of links, as written.
    pub(crate) links: Vec<String>,
    /// The anchors of the headings.
    pub(crate) anchors: Vec<String>,
    /// Texts in backticks.
    pub(crate) code: Vec<String>,
}

/// A fenced code block.
#[derive(Debug)]
pub(crate) struct Block {
    /// The info string.
    pub(crate) info: String,
    pub(crate) text: String,
}

impl Page {
    /// Every page of these directories, without subdirectories.
    pub(crate) fn all(directories: &[&str]) -> Vec<Page> {
        let mut pages = Vec::new();
        for directory in directories {
            for entry in fs::read_dir(root().join(directory)).unwrap() {
                let name = entry.unwrap().file_name();
                if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
                    pages.push(Self::read(Path::new(directory).join(name).to_str().unwrap()));
                }
            }
        }
        pages.sort_by(|a, b| a.path.cmp(&b.path));
        pages
    }

    pub(crate) fn read(path: &str) -> Page {
        let text = fs::read_to_string(root().join(path)).unwrap();
        let mut page = Page { path: path.to_owned(), ..Page::default() };
        let (mut heading, mut block) = (None::<String>, None::<Block>);
        for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. }) => page.links.push(dest_url.into_string()),
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.anchors.extend(heading.take().map(|text| anchor(&text))),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    block = Some(Block { info: info.into_string(), text: String::new() });
                }
                Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
                Event::Text(text) => match (&mut block, &mut heading) {
                    (Some(block), _) => block.text += &text,
                    (_, Some(heading)) => *heading += &text,
                    _ => {}
                },
                Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        *heading += &text;
                    }
                    page.code.push(text.into_string());
                }
                _ => {}
            }
        }
        page
    }
}

/// The anchor of a heading on GitHub and in mdBook.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}
