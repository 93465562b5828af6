//! Every `MARK` in a compiled script or module maps to its position in the source.

use std::collections::BTreeSet;

use execbox_core::language::{Code, CompileLimits, Dialect, Language, ModuleSource, Position};
use execbox_typescript::TypeScript;

/// The lines of `text`, as ECMAScript ends them.
fn lines(text: &str) -> Vec<String> {
    text.replace("\r\n", "\n").split(['\n', '\r', '\u{2028}', '\u{2029}']).map(str::to_owned).collect()
}

/// The positions of `MARK` and a number in `text`, in the order of the numbers.
fn marks(text: &str) -> Vec<(String, Position)> {
    let mut marks = Vec::new();
    for (line, content) in (1..).zip(lines(text)) {
        for (byte, _) in content.match_indices("MARK") {
            let digits = content[byte + 4..].chars().take_while(char::is_ascii_digit).count();
            let name = content[byte..byte + 4 + digits].to_owned();
            let column = content[..byte].encode_utf16().count() + 1;
            marks.push((name, Position { line, column: column.try_into().expect("a short line") }));
        }
    }
    marks.sort();
    marks
}

#[track_caller]
fn leads_back(source: &str) {
    let compiled = TypeScript.script(source, &CompileLimits::default()).expect("it compiles");
    marks_lead_back(source, &compiled);
}

#[track_caller]
fn module_leads_back(dialect: Dialect, text: &str) {
    let globals = BTreeSet::from(["console".to_owned()]);
    let source = ModuleSource { text, dialect, globals: &globals };
    let compiled = TypeScript.module(source, &CompileLimits::default()).expect("it compiles").code;
    marks_lead_back(text, &compiled);
}

#[track_caller]
fn marks_lead_back(source: &str, compiled: &Code) {
    let found: Vec<_> =
        marks(&compiled.text).into_iter().map(|(name, place)| (name, compiled.source_position(place))).collect();
    assert!(!found.is_empty(), "nothing is marked in {}", compiled.text);
    assert_eq!(found, marks(source), "compiled to\n{}", compiled.text);
}

#[test]
fn in_javascript() {
    leads_back("const a = MARK1;\n\n\n   if (a) { f(1,   MARK2) }\n/* gone */ g(a + MARK3.x[MARK4])\n");
    leads_back("'use strict';\nMARK1()");
    leads_back("throw    new MARK1(MARK2, `${ MARK3 }`)");
}

#[test]
fn in_a_lone_function() {
    leads_back("\n\nasync () => {\n      await MARK1();\n  return  MARK2\n}");
    leads_back("async function () {\n      await MARK1();\n  return  MARK2\n};");
    leads_back("export default async function main() { MARK1() }");
}

#[test]
fn in_an_object() {
    leads_back("\n  { a: MARK1,\n\n b: f(MARK2) }");
}

#[test]
fn after_enums_and_types() {
    leads_back(
        "enum Color {\n  Red,\n  Green = 'g',\n}\n\ninterface Hit {\n  id: string;\n}\ntype A = {\n  a: 1\n};\n\
         const a: Hit = MARK1 as Hit; namespace N { export const x = 1 }\n\
         class B { constructor(private x: number, public y = MARK2) { MARK3() } }\n\
         f<Hit>(a!, (MARK4 as unknown) satisfies Hit)\n",
    );
    leads_back("enum A { X = MARK1, Y =\n  MARK2.length }\nMARK3");
}

#[test]
fn in_fences() {
    leads_back("```js\nconst a = 1;\n  MARK1(a)\n```");
    leads_back("Schön 😀, here it is:\n\n```ts\nconst a: number = 1;\n  MARK1(a)\n```\nDone.");
    leads_back("  ``` f(MARK1)```");
    leads_back("\u{feff}f(MARK1)");
}

#[test]
fn on_lines_that_are_not_ascii() {
    leads_back("const ä = '😀😀', b = MARK1; f('ß', MARK2)\n/* 😀 */ g('é', MARK3)");
    leads_back("const a: string = '😀😀', b = MARK1; f('ß' as string, MARK2)");
}

#[test]
fn after_every_kind_of_line_end() {
    leads_back("a;\r\nb;\rc;\u{2028}d;\u{2029}f(1, MARK1);\r\n\r\n  MARK2");
}

#[test]
fn in_modules_of_javascript() {
    for dialect in [Dialect::JavaScript, Dialect::TypeScript] {
        let leads_back = |source| module_leads_back(dialect, source);
        leads_back(
            "import { a } from 'a';\n\n\n   if (a) { f(1,   MARK1) }\n/* gone */ export const b = MARK2.x[MARK3];\n",
        );
        leads_back("'use strict';\n  console.log(MARK1);\nexport default    function () {\n  throw   MARK2;\n}");
        leads_back("#!/usr/bin/env node\n  MARK1();\nexport default async (x) => {\n\n  await MARK2(x) }");
        leads_back("\u{feff}a;\r\nb;\rc;\u{2028}export const d = f('😀', MARK1);\r\n\r\n  MARK2");
    }
}

#[test]
fn in_modules_after_enums_and_types() {
    module_leads_back(
        Dialect::TypeScript,
        "import type { A } from './a';\nimport {\n  B,\n  type C,\n} from './b';\n\nexport enum Color {\n  Red,\n  Green = MARK1,\n}\n\n\
         export interface Hit {\n  id: string;\n  tags?: Array<{\n    name: string;\n  }>;\n}\n\n\
         const a: Hit = console.log(MARK2) as Hit; export namespace N {\n  export const x = MARK3;\n}\n\
         export class D<T> extends B<T> {\n  declare gone: string;\n  field: number = MARK4;\n\n  \
         constructor(\n    private readonly x: number,\n    public y = MARK5,\n  ) {\n    super();\n    MARK6();\n  }\n\n  \
         abstract go(): void;\n\n  async run(): Promise<void> {\n    await MARK7<Hit>(a!, (MARK8 as unknown) satisfies Hit);\n  }\n}\n\
         export default (x: number, y: string): void => { MARK9(x,\n    y, MARK10) };\n",
    );
}
