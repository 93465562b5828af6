//! The places of errors: stacks as engines record them.
//!
//! A stack is a text with one frame on each line, innermost first: `    at function (file:line:column)`, or
//! `    at file:line:column` in anonymous functions. Only the frames of the program's own code are kept.

use std::sync::Arc;

use crate::engine::Frame;
use crate::language::Position;
use crate::program::{Program, Source};

/// The names of the program's own code in stacks.
#[derive(Debug, Clone)]
pub struct Files(Vec<Arc<str>>);

impl Files {
    /// The files of a program.
    pub fn of(program: &Program) -> Self {
        let functions = program.namespaces.iter().flat_map(|namespace| &namespace.own);
        let mut names: Vec<_> = functions.map(|function| Arc::clone(&function.file)).collect();
        match &program.source {
            Source::Script { name, .. } => names.push(name.as_str().into()),
            Source::Modules(modules) => names.extend(modules.modules.iter().map(|module| Arc::clone(&module.name))),
        }
        names.sort_unstable();
        Self(names)
    }

    /// The file of that name, if the program has one.
    pub fn find(&self, name: &str) -> Option<Arc<str>> {
        let at = self.0.binary_search_by(|known| (**known).cmp(name)).ok()?;
        Some(Arc::clone(&self.0[at]))
    }

    /// The frames of a stack that are in these files, innermost first.
    pub fn frames(&self, stack: &str) -> Vec<Frame> {
        stack.lines().filter_map(|line| self.frame(line)).collect()
    }

    fn frame(&self, line: &str) -> Option<Frame> {
        let at = line.strip_prefix("    at ")?;
        let (function, (file, position)) = match at.strip_suffix(')') {
            // Names of functions and files may have parentheses.
            Some(inner) => {
                inner.rmatch_indices(" (").find_map(|(i, _)| Some((&inner[..i], self.place(&inner[i + 2..])?)))?
            }
            None => ("<anonymous>", self.place(at)?),
        };
        let function = (!matches!(function, "<anonymous>" | "<eval>")).then(|| function.to_owned());
        Some(Frame { function, file, position })
    }

    fn place(&self, place: &str) -> Option<(Arc<str>, Position)> {
        let mut parts = place.rsplitn(3, ':');
        let (column, line, file) = (parts.next()?, parts.next()?, parts.next()?);
        let position = Position { line: line.parse().ok()?, column: column.parse().ok()? };
        Some((self.find(file)?, position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: Option<&str>, file: &str, line: u32, column: u32) -> Frame {
        Frame { function: function.map(str::to_owned), file: file.into(), position: Position { line, column } }
    }

    #[test]
    fn only_frames_of_the_program_are_kept() {
        let stack = "    at total (<script>:3:12)\n    at map (native)\n    at <anonymous> (<script>:7:1)\n    \
                     at <eval> (bootstrap.js:1:1)\n    at odd (missing)\nnoise\n    at <script>:9:2\n";
        let expected =
            [frame(Some("total"), "<script>", 3, 12), frame(None, "<script>", 7, 1), frame(None, "<script>", 9, 2)];
        assert_eq!(Files(vec!["<script>".into()]).frames(stack), expected);
    }

    #[test]
    fn frames_are_found_in_modules_of_any_name() {
        let files = Files(vec!["./a (1).js".into(), "b:2:3".into()]);
        let stack = "    at f (./a (1).js:3:12)\n    at g (h) (b:2:3:4:5)\n    at f (./c.js:1:1)\n";
        let expected = [frame(Some("f"), "./a (1).js", 3, 12), frame(Some("g (h)"), "b:2:3", 4, 5)];
        assert_eq!(files.frames(stack), expected);
    }
}
