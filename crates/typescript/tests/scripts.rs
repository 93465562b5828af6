//! Compiled scripts: each `tests/scripts/NAME.ts` is a script, and the `NAME.snap` next to it the code for the engine.

use std::fs;
use std::path::Path;

use execbox_core::language::{CompileLimits, Language};
use execbox_typescript::TypeScript;
use insta::Settings;

#[test]
fn scripts_are_compiled_to_function_bodies() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path(&directory);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut names: Vec<String> = fs::read_dir(&directory)
        .expect("the scripts are there")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.strip_suffix(".ts").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 100, "only {} scripts", names.len());
    for name in names {
        let source = fs::read_to_string(directory.join(format!("{name}.ts"))).expect("a script is text");
        let compiled =
            TypeScript.script(&source, &CompileLimits::default()).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        settings.bind(|| insta::assert_snapshot!(name, compiled.text));
    }
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
