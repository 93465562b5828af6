//! Reads the stacks that QuickJS records, keeping the frames of the program's own code.

use execbox_core::engine::Frame;
use execbox_core::language::Position;

/// The frames of a stack whose place is in the file `name`, innermost first.
///
/// A line reads `    at function (file:line:column)`, or `    at file:line:column` for a syntax error.
pub(crate) fn frames(stack: &str, name: &str) -> Vec<Frame> {
    stack.lines().filter_map(|line| frame(line, name)).collect()
}

fn frame(line: &str, name: &str) -> Option<Frame> {
    let at = line.strip_prefix("    at ")?;
    let (function, place) = match at.strip_suffix(')') {
        Some(inner) => inner.rsplit_once(" (")?,
        None => ("<anonymous>", at),
    };
    let (line, column) = place.strip_prefix(name)?.strip_prefix(':')?.split_once(':')?;
    let position = Position { line: line.parse().ok()?, column: column.parse().ok()? };
    let function = (!matches!(function, "<anonymous>" | "<eval>")).then(|| function.to_owned());
    Some(Frame { function, position })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_of_the_program_are_kept() {
        let stack = "    at total (<script>:3:12)\n    at map (native)\n    at <anonymous> (<script>:7:1)\n    \
                     at <eval> (bootstrap.js:1:1)\n    at odd (missing)\nnoise\n    at <script>:9:2\n";
        let frame = |function: Option<&str>, line, column| Frame {
            function: function.map(str::to_owned),
            position: Position { line, column },
        };
        assert_eq!(frames(stack, "<script>"), [frame(Some("total"), 3, 12), frame(None, 7, 1), frame(None, 9, 2)]);
    }
}
