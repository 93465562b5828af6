//! The lines of a script that name a tool: in its code, not in its comments and texts.
//!
//! A reader takes these lines for what the program does, so text that may not be code is left out. The scan is one pass over
//! the source. It ends where only a parser knows whether `/` begins a regular expression or divides.

use execbox_core::contract::script::ScriptFunction;

/// The lines of a program that name a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedLines {
    /// The first ten lines that name the tool.
    pub lines: Vec<NamedLine>,
    /// Whether these are all lines that name the tool; `false` if that is not known.
    pub is_complete: bool,
}

/// A line that names a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedLine {
    /// The function that contains the line, such as `lib.total`; `None` in the code of the script.
    pub function: Option<String>,
    /// The number of the line in the code, counted from 1.
    pub number: usize,
    /// The line without comments.
    pub text: String,
}

/// Finds the lines of a script and its functions that name the tool `tool` of `provider`.
pub(super) fn find_all(script: &str, functions: &[ScriptFunction], provider: &str, tool: &str) -> NamedLines {
    let mut found = find(script, provider, tool);
    for function in functions {
        let NamedLines { lines, is_complete } = find(&function.code, provider, tool);
        let lines = lines.into_iter().map(|line| NamedLine { function: Some(function.file()), ..line });
        found.lines.extend(lines);
        found.is_complete &= is_complete && found.lines.len() <= MAX_LINES;
        found.lines.truncate(MAX_LINES);
    }
    found
}

/// Finds the lines of `source` that name the tool `tool` of `provider`: `provider.tool`, `provider["tool"]`.
fn find(source: &str, provider: &str, tool: &str) -> NamedLines {
    let Some((number, code)) = code(source) else { return NamedLines::default() };
    let line = Line { number, text: String::new(), is_named: false };
    let mut scanner = Scanner {
        rest: code,
        provider,
        tool,
        line,
        templates: Vec::new(),
        found: NamedLines::default(),
        is_full: false,
    };
    let is_read = scanner.scan().is_some();
    scanner.end_line();
    scanner.found.is_complete = is_read && !scanner.is_full;
    scanner.found
}

/// The code, and the number of its first line. `None` if prose surrounds it.
fn code(source: &str) -> Option<(usize, &str)> {
    let is_fence = |line: &str| line.trim_start().starts_with("```");
    if source.starts_with("#!") {
        return source.find(is_line_end).map(|end| (1, &source[end..]));
    }
    let Some(rest) = source.trim_start().strip_prefix("```") else {
        return (!source.lines().any(is_fence)).then_some((1, source));
    };
    let code = &rest[rest.find('\n')? + 1..];
    let start = source.len() - code.len();
    let mut end = 0;
    for line in code.split_inclusive('\n') {
        if is_fence(line) {
            let is_last = code[end + line.len()..].trim().is_empty();
            return is_last.then(|| (source[..start].matches('\n').count() + 1, &code[..end]));
        }
        end += line.len();
    }
    None
}

struct Scanner<'a> {
    rest: &'a str,
    provider: &'a str,
    tool: &'a str,
    line: Line,
    /// For each template that is open, how many braces are open in its `${`.
    templates: Vec<usize>,
    found: NamedLines,
    /// Whether more lines name the tool than are kept.
    is_full: bool,
}

/// The line that is being read, without comments.
struct Line {
    number: usize,
    text: String,
    is_named: bool,
}

/// The part of the tool's name that was just read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Nothing,
    /// A dot after something else: the next name is no provider.
    Dot,
    Provider,
    ProviderDot,
    ProviderBracket,
    ProviderBracketTool,
}

/// What `/` means after the last token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slash {
    Divides,
    BeginsRegex,
    Unknown,
}

impl<'a> Scanner<'a> {
    /// Reads all tokens. Returns `None` if the scan ended before the end of the source.
    fn scan(&mut self) -> Option<()> {
        let (mut read, mut slash) = (Read::Nothing, Slash::BeginsRegex);
        while let Some(first) = self.rest.chars().next() {
            if self.is_full {
                return None;
            }
            if self.rest.starts_with("//") {
                let end = self.rest.find(is_line_end).unwrap_or(self.rest.len());
                self.rest = &self.rest[end..];
                continue;
            }
            if let Some(comment) = self.rest.strip_prefix("/*") {
                self.skip_comment(comment)?;
                continue;
            }
            if first.is_whitespace() || is_line_end(first) || first == '\u{feff}' {
                self.take(first.len_utf8());
                continue;
            }
            (read, slash) = match first {
                c if is_in_name(c) => self.name(read),
                '"' | '\'' => (self.after_text(read, first)?, Slash::Divides),
                '`' => {
                    self.take(1);
                    (self.template()?, if self.templates.is_empty() { Slash::Divides } else { Slash::Unknown })
                }
                '/' => self.slash(slash)?,
                _ => self.punctuator(first, read)?,
            };
        }
        self.templates.is_empty().then_some(())
    }

    fn name(&mut self, read: Read) -> (Read, Slash) {
        let end = self.rest.find(|c| !is_in_name(c)).unwrap_or(self.rest.len());
        let name = self.take(end);
        let next = match read {
            Read::ProviderDot if name == self.tool => {
                self.line.is_named = true;
                Read::Nothing
            }
            Read::Dot | Read::ProviderDot => Read::Nothing,
            _ if name == self.provider => Read::Provider,
            _ => Read::Nothing,
        };
        (next, if KEYWORDS.contains(&name) { Slash::Unknown } else { Slash::Divides })
    }

    fn punctuator(&mut self, first: char, read: Read) -> Option<(Read, Slash)> {
        let text = ["...", "?.", "++", "--"].into_iter().find(|text| self.rest.starts_with(text));
        let text = text.map_or_else(|| first.to_string(), str::to_owned);
        self.take(text.len());
        let next = match (&*text, read) {
            ("." | "?.", Read::Provider) => Read::ProviderDot,
            ("." | "?.", _) => Read::Dot,
            ("!", Read::Provider) => Read::Provider,
            ("[", Read::Provider | Read::ProviderDot) => Read::ProviderBracket,
            ("]", Read::ProviderBracketTool) => {
                self.line.is_named = true;
                Read::Nothing
            }
            _ => Read::Nothing,
        };
        let slash = match &*text {
            "]" | "." | "?." => Slash::Divides,
            ")" | "}" | "++" | "--" | "!" | ">" => Slash::Unknown,
            _ => Slash::BeginsRegex,
        };
        match (&*text, self.templates.last_mut()) {
            ("{", Some(open)) => *open += 1,
            ("}", Some(0)) => {
                self.templates.pop();
                return Some((self.template()?, Slash::Unknown));
            }
            ("}", Some(open)) => *open -= 1,
            _ => {}
        }
        Some((next, slash))
    }

    /// Reads a `/` that does not begin a comment.
    fn slash(&mut self, slash: Slash) -> Option<(Read, Slash)> {
        match slash {
            Slash::BeginsRegex => {
                let Regex::Ends(length) = regex(self.rest) else { return None };
                self.take(length);
                return Some((Read::Nothing, Slash::Divides));
            }
            Slash::Unknown if regex(self.rest) != Regex::None => return None,
            Slash::Unknown | Slash::Divides => {}
        }
        self.take(1);
        Some((Read::Nothing, Slash::BeginsRegex))
    }

    /// Reads a text in quotes. Returns the part of the tool's name that was read with it.
    fn after_text(&mut self, read: Read, quote: char) -> Option<Read> {
        let start = self.rest;
        self.take(1);
        loop {
            let c = self.rest.chars().next()?;
            match c {
                '\\' => {
                    self.take(1);
                    let escaped = self.rest.chars().next()?;
                    self.take(if self.rest.starts_with("\r\n") { 2 } else { escaped.len_utf8() });
                }
                '\n' | '\r' => return None,
                c => {
                    self.take(c.len_utf8());
                    if c == quote {
                        break;
                    }
                }
            }
        }
        let text = &start[1..start.len() - self.rest.len() - 1];
        Some(if read == Read::ProviderBracket && text == self.tool { Read::ProviderBracketTool } else { Read::Nothing })
    }

    /// Reads the rest of a template, to its end or its next `${`.
    fn template(&mut self) -> Option<Read> {
        loop {
            let c = self.rest.chars().next()?;
            if c == '\\' {
                self.take(1);
                let escaped = self.rest.chars().next()?;
                self.take(escaped.len_utf8());
            } else if self.rest.starts_with("${") {
                self.take(2);
                self.templates.push(0);
                return Some(Read::Nothing);
            } else {
                self.take(c.len_utf8());
                if c == '`' {
                    return Some(Read::Nothing);
                }
            }
        }
    }

    fn skip_comment(&mut self, comment: &'a str) -> Option<()> {
        let end = comment.find("*/")?;
        let lines = line_ends(&comment[..end]);
        if lines > 0 {
            self.end_line();
            self.line.number += lines - 1;
        }
        self.rest = &comment[end + 2..];
        Some(())
    }

    /// Takes `length` bytes, which become a part of the line.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        let mut characters = taken.chars().peekable();
        while let Some(c) = characters.next() {
            if !is_line_end(c) {
                if self.line.text.len() < MAX_LINE {
                    self.line.text.push(c);
                }
            } else if c != '\r' || characters.peek().copied().or_else(|| rest.chars().next()) != Some('\n') {
                self.end_line();
            }
        }
        taken
    }

    fn end_line(&mut self) {
        let text = std::mem::take(&mut self.line.text);
        if std::mem::take(&mut self.line.is_named) {
            match self.found.lines.len() {
                ..MAX_LINES => {
                    let (number, text) = (self.line.number, text.trim().to_owned());
                    self.found.lines.push(NamedLine { function: None, number, text });
                }
                _ => self.is_full = true,
            }
        }
        self.line.number += 1;
    }
}

/// Whether a text that begins with `/` can be a regular expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Regex {
    /// A regular expression, which ends after this many bytes.
    Ends(usize),
    /// No regular expression: the line does not contain its end.
    None,
    /// Unknown: the end is more than [`MAX_REGEX`] bytes away.
    Far,
}

fn regex(text: &str) -> Regex {
    let (mut is_escaped, mut in_class) = (false, false);
    for (at, c) in text.char_indices().skip(1) {
        match c {
            c if is_line_end(c) => return Regex::None,
            _ if at > MAX_REGEX => return Regex::Far,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => return Regex::Ends(at + 1),
            _ => {}
        }
    }
    Regex::None
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

/// How many lines end in a text.
fn line_ends(text: &str) -> usize {
    text.chars().filter(|c| is_line_end(*c)).count() - text.matches("\r\n").count()
}

fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '#' | '\\' | '\u{200c}' | '\u{200d}')
}

/// Words after which `/` may begin a regular expression.
const KEYWORDS: &[&str] = &[
    "await",
    "break",
    "case",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "extends",
    "in",
    "instanceof",
    "new",
    "of",
    "return",
    "throw",
    "typeof",
    "void",
    "yield",
];

/// The most lines, and the most bytes of each.
const MAX_LINES: usize = 10;
const MAX_LINE: usize = 1000;

/// How far to search for the end of a regular expression, in bytes.
const MAX_REGEX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(source: &str) -> (Vec<usize>, bool) {
        let found = find(source, "h", "del");
        (found.lines.iter().map(|line| line.number).collect(), found.is_complete)
    }

    #[test]
    fn code_names_a_tool() {
        for source in [
            "h.del({})",
            "await h.del;",
            "(h.dels, h.del)",
            "h . del()",
            "h?.del()",
            "h['del']()",
            "h[\"del\"]",
            "h?.['del']",
            "`${h.del()}`",
            "`${`${{ a: h.del() }}`} ${1}`",
            "const a = b / 2; h.del() / 3",
            "/'/.test(a); h.del()",
            "a = [/[/'\"]/g]; h.del()",
            "(1 + 2) / 3; h.del()",
            "'//'; h.del()",
            "h!.del()",
            "h /* a */ . del()",
        ] {
            assert_eq!(numbers(source), (vec![1], true), "{source}");
        }
        assert_eq!(numbers("h\n  .del()\r\n/*\n\r\n*/ h.del()\u{2028}h.del()").0, [2, 5, 6]);
        assert_eq!(numbers("```js\nh.del()\n```\n"), (vec![2], true));
        assert_eq!(find("x(); h.del(1) /* a */ // b", "h", "del").lines[0].text, "x(); h.del(1)");
    }

    #[test]
    fn comments_texts_and_longer_names_name_no_tool() {
        for source in [
            "",
            "// h.del()",
            "/* h.del() */",
            "/*\n h.del() */ h['de' + 'l']()",
            "'h.del()'",
            "\"\\\" h.del()\"",
            "`h.del() \\` h.del()`",
            "`${1} h.del()`",
            "/h.del()/",
            "h.dels()",
            "my.h.del()",
            "sh.del()",
            "hh.del",
            "h.del_all",
            "h['del' + x]",
            "h[del]",
            "my?.h.del()",
            "//\\\nx",
            "'\\\n h.del()'",
            "h\\u002edel",
            "({ h: 1 }).del",
            "#h.del",
            "{ h }.del",
            "1./ 2; '/' // ' h.del()",
        ] {
            assert!(numbers(source).0.is_empty(), "{source}");
        }
        assert_eq!(numbers("// a\r h.del()").0, [2], "each line terminator ends a comment");
    }

    /// A wrong parse takes the call in each source for code; the right one takes it for a comment or a text.
    #[test]
    fn reading_ends_where_only_a_parser_knows_what_follows() {
        for source in [
            "if (x) /'/; // ' h.del()",
            "{} /'/; // ' h.del()",
            "a++ /'/; // ' h.del()",
            "return /'/; // ' h.del()",
            "if (x) /`/;\n// ` h.del()",
            "'never closed\n h.del()",
            "`never closed h.del()",
            "/* never closed h.del()",
            "prose h.del()\n```\n1\n```",
            "`\n```\n h.del()\n```\n`",
            "```\n1\n```\n h.del()",
            "``` h.del()",
            "break\n/'/; // ' h.del()",
            "#! h.del()",
        ] {
            assert_eq!(numbers(source), (vec![], false), "{source}");
        }
    }

    #[test]
    fn the_first_lines_of_many_are_kept_and_long_ones_are_cut() {
        let many = find(&"h.del();\n".repeat(100_000), "h", "del");
        assert_eq!((many.lines.len(), many.is_complete), (MAX_LINES, false));
        assert!(!find("h.del();\n".repeat(MAX_LINES + 1).trim_end(), "h", "del").is_complete);
        assert!(find(&"h.del();\n".repeat(MAX_LINES), "h", "del").is_complete);
        let long = find(&format!("h.del('{}')", "x".repeat(1 << 20)), "h", "del");
        assert!(long.lines[0].text.len() <= MAX_LINE + 3);
        find(&"/".repeat(1 << 20), "h", "del");
        find(&"(a)/b;".repeat(1 << 17), "h", "del");
        find(&"a/b[".repeat(1 << 18), "h", "del");
        find(&")/[".repeat(1 << 18), "h", "del");
        find(&"${`".repeat(1 << 18), "h", "del");
    }
}
