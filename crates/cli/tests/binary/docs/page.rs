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
    pub(crate) passages: Vec<Passage>,
    pub(crate) tables: Vec<Table>,
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
    /// How many headings are above it.
    pub(crate) section: usize,
}

/// A heading, a paragraph, an item of a list or a row of a table.
#[derive(Debug)]
pub(crate) struct Passage {
    /// The text without links and emphasis, code with its backticks.
    pub(crate) text: String,
    /// How many headings are above it; a heading counts itself.
    pub(crate) section: usize,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    /// The text of cells, code with its backticks.
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) section: usize,
}

impl Table {
    /// The cells of the columns with these headers, for each row; `None` if one is missing.
    pub(crate) fn columns<const N: usize>(&self, headers: [&str; N]) -> Option<Vec<[&str; N]>> {
        let places = headers.map(|header| self.header.iter().position(|cell| cell == header));
        let rows = self.rows.iter();
        rows.map(|row| {
            let cells: Option<Vec<&str>> = places.iter().map(|place| Some(row.get((*place)?)?.as_str())).collect();
            cells?.try_into().ok()
        })
        .collect()
    }
}

/// The code in a text with backticks.
pub(crate) fn code_in(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
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

    /// The pages for users.
    pub(crate) fn for_users() -> Vec<Page> {
        let mut pages = Self::all(&["", "docs"]);
        pages.retain(|page| !["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"].contains(&page.path.as_str()));
        pages
    }

    pub(crate) fn read(path: &str) -> Page {
        let text = fs::read_to_string(root().join(path)).unwrap();
        let mut page = Page { path: path.to_owned(), ..Page::default() };
        let mut reader = Reader { page: &mut page, passage: String::new(), cells: Vec::new(), block: None };
        Parser::new_ext(&text, Options::ENABLE_TABLES).for_each(|event| reader.read(event));
        page
    }

    /// The first table whose first column has this header.
    pub(crate) fn table(&self, first: &str) -> &Table {
        let table = self.tables.iter().find(|table| table.header[0] == first);
        table.unwrap_or_else(|| panic!("{} has no table whose first column is {first:?}", self.path))
    }
}

struct Reader<'a> {
    page: &'a mut Page,
    /// The passage so far; of a table, the cell.
    passage: String,
    /// The cells of the row so far.
    cells: Vec<String>,
    block: Option<Block>,
}

impl Reader<'_> {
    fn read(&mut self, event: Event<'_>) {
        let section = self.page.anchors.len();
        match event {
            Event::Start(Tag::Link { dest_url, .. }) => self.page.links.push(dest_url.into_string()),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                self.end_passage();
                self.block = Some(Block { info: info.into_string(), text: String::new(), section });
            }
            Event::End(TagEnd::CodeBlock) => self.page.blocks.extend(self.block.take()),
            Event::Text(text) => match &mut self.block {
                Some(block) => block.text += &text,
                None => self.passage += &text,
            },
            Event::Code(text) => {
                self.passage += &format!("`{text}`");
                self.page.code.push(text.into_string());
            }
            Event::SoftBreak | Event::HardBreak => self.passage.push(' '),
            Event::End(TagEnd::Heading(_)) => {
                self.page.anchors.push(anchor(&self.passage));
                self.end_passage();
            }
            Event::Start(Tag::Table(_)) => {
                self.page.tables.push(Table { header: Vec::new(), rows: Vec::new(), section });
            }
            Event::End(TagEnd::TableCell) => self.cells.push(std::mem::take(&mut self.passage)),
            Event::End(TagEnd::TableHead) => {
                let header = self.end_row();
                self.page.tables.last_mut().unwrap().header = header;
            }
            Event::End(TagEnd::TableRow) => {
                let row = self.end_row();
                self.page.tables.last_mut().unwrap().rows.push(row);
            }
            Event::Start(Tag::Item | Tag::Paragraph | Tag::List(_)) | Event::End(TagEnd::Item | TagEnd::Paragraph) => {
                self.end_passage();
            }
            _ => {}
        }
    }

    fn end_row(&mut self) -> Vec<String> {
        self.passage = self.cells.join(" | ");
        self.end_passage();
        std::mem::take(&mut self.cells)
    }

    fn end_passage(&mut self) {
        let text = std::mem::take(&mut self.passage);
        if !text.is_empty() {
            self.page.passages.push(Passage { text, section: self.page.anchors.len() });
        }
    }
}

/// The anchor of a heading on GitHub and in mdBook.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The texts of the Rust files below a directory.
pub(crate) fn sources(directory: &Path) -> Vec<String> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources.extend(self::sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(fs::read_to_string(path).unwrap());
        }
    }
    sources
}
