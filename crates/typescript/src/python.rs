//! Recognizes Python, which models write, too, for the error of a script that is no JavaScript.

use crate::Fault;

/// The fault of a source; of one that is probably Python, with what to write instead.
pub(crate) fn explain(source: &str, fault: Fault) -> Fault {
    let lines = || source.lines().take(MAX_LINES);
    // A template of JavaScript can contain Python.
    if !lines().any(is_python) || lines().any(is_javascript) {
        return fault;
    }
    Fault { message: format!("{}; this looks like Python: write JavaScript or TypeScript", fault.message), ..fault }
}

/// The most lines of a source that are looked at.
const MAX_LINES: usize = 100;

/// Whether a line is one of Python, and of no JavaScript.
fn is_python(line: &str) -> bool {
    let line = line.trim();
    let first = line.split([' ', '(']).next().unwrap_or_default();
    match first {
        "def" | "elif" | "except" | "class" | "for" | "while" | "if" | "with" | "async" => line.ends_with(':'),
        "else:" | "try:" | "finally:" => line == first,
        "from" => line.contains(" import "),
        "import" => !line.contains(['"', '\'', '(', '{', '*', ';', '=']),
        _ => false,
    }
}

fn is_javascript(line: &str) -> bool {
    let line = line.trim();
    line.ends_with([';', '{', '}']) || ["const ", "let ", "var ", "//"].iter().any(|word| line.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_python_are_recognized() {
        for line in [
            "def main():",
            "async def main(a, b=1):",
            "for order in orders:",
            "  if order[\"id\"] == 7:",
            "    elif a:",
            "else:",
            "import json",
            "import numpy as np",
            "from datetime import datetime",
            "class A(B):",
            "with open(\"x\") as f:",
            "try:",
        ] {
            assert!(is_python(line), "{line}");
        }
        for line in [
            "const a = 1;",
            "for (const a of b) {",
            "import a from 'b'",
            "import json from \"./a.json\";",
            "else {",
            "try {",
            "default:",
            "case 1:",
            "outer:",
            "from(a)",
            "class A {",
        ] {
            assert!(!is_python(line), "{line}");
        }
    }
}
