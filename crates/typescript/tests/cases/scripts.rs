//! Compiled scripts: the code for the engine.

use execbox_core::language::{CompileLimits, Language};
use execbox_typescript::TypeScript;

use crate::{snapshots, source};

#[test]
fn scripts_are_compiled_to_function_bodies() {
    snapshots("scripts", |_, case| {
        let compile = |source: &str| {
            let code = TypeScript.script(source, &CompileLimits::default());
            code.unwrap_or_else(|error| panic!("{}: {error:?}", case.title)).text
        };
        let source = source(case);
        let compiled = compile(&format!("{source}\n"));
        // Without the line feed at the end, at most an empty line is missing.
        let [without_line_feed, with_line_feed] = [&compile(&source), &compiled].map(|text| text.replace("\n\n", "\n"));
        assert_eq!(without_line_feed.trim_end(), with_line_feed.trim_end(), "{}", case.title);
        compiled.trim_end().to_owned()
    });
}

/// A function that is the whole source is called with `input`, async or not; other sources use it by name.
#[test]
fn functions_are_called_with_their_input() {
    for (source, expected) in [
        ("async ({ id }) => id", "return (async ({ id }) => id)(input)"),
        ("(a: number) => a + 1", "return ((a        ) => a + 1)(input)"),
        ("function twice(x) { return 2 * x }", "function twice(x) { return 2 * x }\nreturn twice(input);"),
        (
            "export default function (x) { return x }",
            "const $result = function (x) { return x };\nreturn $result(input);",
        ),
        ("const { a } = input;\na * 2", "const { a } = input;\nreturn a * 2"),
    ] {
        let compiled = TypeScript.function(source, &CompileLimits::default()).map(|code| code.text);
        assert_eq!(compiled.as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn what_javascript_can_read_is_compiled_as_javascript() {
    for source in [
        "f(a < b, c > (d))",
        "f(a <\n b, c > (d))",
        "f(a < b | c > (d))",
        "(a = f(b < c & d > (e))) => g",
        "f(a < b, c > (d), async < T, U > (x))",
        "x ? (a) : b => c",
        "x ? y ? (a) : b => c : d",
        "switch (x) { case (a): b => c }",
        "switch (x) { case async (a): b => c }",
        "x ? readonly [0] : (readonly [a]) ? b : c",
        "class A { readonly\n*x() {} }",
        "let a\n!\nb",
        "interface in x",
        "namespace instanceof x",
        "{ a() }",
    ] {
        let code = TypeScript.script(source, &CompileLimits::default()).expect("it is JavaScript");
        assert_eq!(code.text.replacen("return ", "", 1), source, "in JavaScript, nothing is erased");
    }
}
