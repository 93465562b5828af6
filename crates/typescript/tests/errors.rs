//! Errors of invalid scripts, with their positions.

use std::fmt::Write;

use execbox_core::language::{CompileLimits, Language};
use execbox_core::program::Limits;
use execbox_typescript::TypeScript;

const NOT_SCRIPTS: &[(&str, &str)] = &[
    ("closes the wrapper", "}); evil(); (() => {"),
    ("closes the wrapper of an object", "{}); evil(); ({}"),
    ("one bracket too many", "const a = f(1));"),
    ("one bracket too few", "const a = f(1;\n"),
    ("a block that does not end", "if (a) {\n  b();\n"),
    ("an operand is missing", "const a = 1 +;"),
    ("a name is missing", "const = 1;"),
    ("an unterminated string", "const a = 'abc;\n1"),
    ("a template that does not end", "const a = `abc;\n1"),
    ("a comment that does not end", "1 /* abc"),
    ("an object that is almost one", "{ a: 1, b: }"),
    ("an object with a statement", "{ a: 1, b; }"),
    ("after non-ASCII text", "const ä = '😀'; ="),
    ("on a later line", "const a = 1;\n\n  const b == 2;\n"),
    ("after Windows line ends", "a;\r\nb;\r\nc c;\r\n"),
    ("after a line separator", "a;\u{2028}b b"),
    ("wrong in both languages, far into TypeScript", "const a: number = 1;\nconst b: string = ;\n"),
    ("TypeScript that JavaScript reads further", "let a = 1 +* 2"),
    ("an enum without end", "enum A { X, Y"),
    ("a type that is none", "type A = ;"),
    ("an import", "import fs from 'fs';\nfs.readFileSync('x')"),
    ("an import of names", "const a = 1;\nimport { b } from 'b';"),
    ("an import for its effects", "import 'b';"),
    ("an import of nothing", "import {} from 'b';"),
    ("an import in TypeScript", "const a: number = 1;\n  import { b } from 'b';"),
    ("an import of values and types", "import { type A, b } from 'b';"),
    ("an import behind a label", "a: import b from 'b';"),
    ("an import behind a label with an escape", "\\u0061: import b from 'b';"),
    ("an import with require", "import b = require('b');"),
    ("an export from elsewhere", "export { a } from 'a';"),
    ("an export of everything", "export * from 'a';"),
    ("an export of all types and then some", "export type * from 'a';\nexport * as b from 'b';"),
    ("two default exports", "export default 1;\nexport default 2;"),
    ("two default exports by name", "const a = 1;\nexport { a as default };\nexport = a;"),
    ("import.meta", "const here = import.meta.url;"),
    ("import.meta in TypeScript", "const here: string = import.meta.url;"),
    ("import.meta in an object", "{ here: import.meta.url }"),
    ("an export of async", "export async;"),
    ("an export of let", "export let;"),
    ("an export of an async arrow function", "export async () => 1"),
    ("an export of async in a namespace", "namespace a {\n  export async\n}"),
    ("an export of async in a namespace before a line", "namespace a { export async\nfunction f() {} }"),
    ("an export of async in an ambient namespace", "declare namespace a { export async }"),
    ("a decorator", "@logged\nclass A {}"),
    ("a decorator on a method", "class A {\n  @logged go() {}\n}"),
    ("a decorator in TypeScript", "class A {\n  constructor(@inject() private x: X) {}\n}"),
    ("JSX", "const a = <div>hello</div>;"),
    ("an error in a fence", "```js\nconst a = 1;\n  const b = ;\n```"),
    ("an error in a fence amid prose", "Here it is:\n\n```js\nawait f(;\n```\nDone."),
    ("two fences", "```js\n1\n```\nand\n```js\n2\n```\n"),
    ("prose", "I'm sorry, I cannot do that."),
    ("prose with two fences", "First:\n```js\n1\n```\nthen:\n```js\n2\n```\n"),
    ("prose without words of JavaScript before two fences", "Solution\n```js\n1\n```\n```js\n2\n```\n"),
    ("a list before two fences", "- install\n```sh\nnpm i x\n```\n- run\n```js\n2\n```\n"),
    ("a fault after two fences in a comment", "/*\n```\n1\n```\n```\n2\n```\n*/\nconst a = ;"),
    ("an error in a fence after one word", "Solution\n```js\nconst a = ;\n```"),
    ("Python", "import json\norders = await shop.list_orders()\nfor order in orders:\n    print(order)\n"),
    ("Python in a fence", "```python\ndef main():\n    return 1\n```"),
    ("Python with a comment first", "# the total\ntotal = sum(o[\"price\"] for o in orders)\nif total > 3:\n  pass"),
    ("Python in a template", "const code = `\nimport json\n`;\nconst = 1;"),
    ("quotes of a word processor", "const a = “text”;"),
    ("single quotes of a word processor", "const a = 1;\nf(‘x’)"),
    ("a dash of a word processor", "const a = 5 – 3;"),
    ("a character that is no name", "const a = 1 \u{1f600} 2;"),
    ("await in a plain function", "function f() { await g(); }"),
    ("an invalid assignment", "1 = 2;"),
    ("break outside of a loop", "const a = 1;\nbreak;"),
    ("a merge conflict", "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> c\n"),
];

#[test]
fn invalid_scripts_have_errors_with_positions() {
    let mut explained = String::new();
    for (name, source) in NOT_SCRIPTS {
        let said = match TypeScript.script(source, &CompileLimits::default()) {
            Ok(compiled) => format!("compiles to {:?}", compiled.text),
            Err(error) => match error.position() {
                Some(position) => format!("{position} {error}"),
                None => error.to_string(),
            },
        };
        writeln!(explained, "{name}\n  {source:?}\n  {said}\n").expect("a string takes text");
    }
    insta::assert_snapshot!("not_scripts", explained);
}

#[test]
fn a_source_that_is_too_long_is_rejected() {
    let source = " ".repeat(Limits::default().max_source_bytes + 1);
    let error = TypeScript.script(&source, &CompileLimits::default()).expect_err("the source is too long");
    assert_eq!(error.to_string(), "the source is 4194305 bytes long; the limit is 4194304");
    assert_eq!(error.position(), None);
}
