//! Source that tries to overflow the stack of the host, or to keep its parser busy. Compiling it ends in time, with code or an
//! error.
//!
//! All of it runs in threads with one megabyte of stack. A stack overflow would end the process, and
//! so the test.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::thread;

use execbox_core::budget::Budget;
use execbox_core::contract::Request as _;
use execbox_core::contract::script::{Request, ScriptFunction};
use execbox_core::error::ErrorCode;
use execbox_core::language::{CompileError, CompileLimits, Dialect, GLOBALS_MODULE, Language, Module, ModuleSource};
use execbox_core::libraries::Globals;
use execbox_core::program::Limits;
use execbox_typescript::TypeScript;
use oxc_allocator::Allocator;
use oxc_ast::ast::Statement;
use oxc_parser::{ParseOptions, Parser};
use oxc_span::SourceType;
use proptest::prelude::*;

/// Runs `test` with a small stack.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(1024 * 1024).spawn(test).expect("a thread").join().expect("it does not panic");
}

/// Compiles `source` and ignores the result. The cost is limited in tokens.
fn compiles_or_not(source: &str) -> Result<String, CompileError> {
    let compiled = TypeScript.script(source, &CompileLimits::default());
    compiled.map(|code| code.text)
}

/// Compiles `text` as a module in both dialects. The cost is limited in tokens.
fn compiles_or_not_as_module(text: &str) -> [Result<Module, CompileError>; 2] {
    let globals = BTreeSet::from(["a", "x"].map(str::to_owned));
    [Dialect::TypeScript, Dialect::JavaScript].map(|dialect| {
        let source = ModuleSource { text, dialect, globals: &globals };
        TypeScript.module(source, &CompileLimits::default())
    })
}

/// The start, a repeated opening, the middle, a repeated closing, and the end.
type Nest = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// All constructs that can be nested.
const JAVASCRIPT: &[Nest] = &[
    ("", "(", "1", ")", ""),
    ("", "(", "", "", ""),
    ("", "[", "1", "]", ""),
    ("", "[", "", "", ""),
    ("x=", "{a:", "1", "}", ""),
    ("x=", "{[({", "a:1", "})]:1}", ""),
    ("", "{", "1", "}", ""),
    ("", "!", "1", "", ""),
    ("", "- ", "1", "", ""),
    ("", "typeof ", "1", "", ""),
    ("", "await ", "1", "", ""),
    ("", "new ", "a", "", ""),
    ("a", "+a", "", "", ""),
    ("a", "\n+\na", "", "", ""),
    ("'a'", "+'a'", "", "", ""),
    ("a", "&&a", "", "", ""),
    ("a", "??a", "", "", ""),
    ("", "a**", "a", "", ""),
    ("a", " in a", "", "", ""),
    ("", "x=>", "a", "", ""),
    ("", "(x)=>", "a", "", ""),
    ("", "(x=", "a", ")=>1", ""),
    ("", "async x=>", "a", "", ""),
    ("", "a=", "a", "", ""),
    ("", "a?b:", "a", "", ""),
    ("", "a?", "a", ":b", ""),
    ("", "if(a);else ", ";", "", ""),
    ("", "if(a)b,c;else ", ";", "", ""),
    ("", "if(a)if(b)if(c)do x;while(1);else ", ";", "", ""),
    ("", "if(a){}else ", "{}", "", ""),
    ("", "if(a)", ";", "", ""),
    ("", "for(;;)", ";", "", ""),
    ("", "while(1)", ";", "", ""),
    ("", "do ", ";", "while(1)", ""),
    ("", "with(a)", ";", "", ""),
    ("", "a:", ";", "", ""),
    ("a", ".b", "", "", ""),
    ("a", "?.b", "", "", ""),
    ("a", "()", "", "", ""),
    ("a", "[0]", "", "", ""),
    ("", "a(", "", ")", ""),
    ("a", "`b`", "", "", ""),
    ("", "`${", "a", "}`", ""),
    ("", "function f(){", "", "}", ""),
    ("x=", "function(){return ", "1", "}", ""),
    ("x=", "class extends ", "a", "{}", ""),
    ("x=", "class{a=", "1", "}", ""),
    ("x=", "class{static{x=", "1", "}}", ""),
    ("", "try{", "", "}catch{}", ""),
    ("", "switch(a){case 1:", "", "}", ""),
    ("x=", "[...", "1", "]", ""),
    ("let ", "[", "a", "]", "=1"),
    ("let ", "{a:", "a", "}", "=1"),
    ("let ", "[a=", "a", "]", "=1"),
    ("", "[", "a", "]", "=1"),
    ("(", "{a:", "a", "}", "=1)"),
    ("function*f(){", "yield ", "1", "", "}"),
    ("", "import(", "a", ")", ""),
    ("a", ",a", "", "", ""),
    ("", "a;", "", "", ""),
    ("", "a\n", "", "", ""),
    ("", "(a=b?(", "1", "", ""),
    ("", "({a=", "1", "})", ""),
    ("", "async({a=", "1", "})", ""),
    ("", "([{a=(", "1", ")}])", ""),
    ("", "(a,", "1", ")", ""),
    ("", "é=>", "1", "", ""),
    ("", "!\u{a0}", "1", "", ""),
    ("a", "/a", "", "", ""),
    ("", "/(/;", "1", "", ""),
    ("a++", "/'/b++", "1", "", ""),
    ("", "{}/(/*", "1", "", ""),
    ("", "!/[/]/.x+(", "1", ")", ""),
    ("", "export default ", "1", "", ""),
    ("", "await using a=", "1", "", ""),
    ("", "\\u0061=>", "1", "", ""),
    ("", "<!--\n(", "1", "", ""),
    ("", "/*", "", "", ""),
    ("", "//\u{2028}(", "1", "", ""),
    ("", "```js\n", "1", "\n```", ""),
];

const TYPES: &[Nest] = &[
    ("let x:", "(", "a", ")", ""),
    ("let x:", "(", "", "", ""),
    ("let x:", "A<", "a", ">", ""),
    ("let x:", "A<a,", "a", ">", ""),
    ("let x:a", "[]", "", "", ""),
    ("let x:a", "[0]", "", "", ""),
    ("let x:", "[", "a", "]", ""),
    ("let x:", "[", "a", "?]", ""),
    ("let x:", "{a:", "a", "}", ""),
    ("let x:", "{a:1;b:", "a", "}", ""),
    ("let x:", "keyof ", "a", "", ""),
    ("let x:a", "|a", "", "", ""),
    ("let x:", "a extends b?c:", "a", "", ""),
    ("let x:", "a extends b?", "a", ":c", ""),
    ("let x:", "a extends (infer U extends ", "a", ")?1:0", ""),
    ("let x:", "infer U extends (", "a", ")?b:c", ""),
    ("let x:", "()=>", "a", "", ""),
    ("let x:", "new()=>", "a", "", ""),
    ("let x:", "`${", "a", "}`", ""),
    ("a", " as a", "", "", ""),
    ("a", " as const", "", "", ""),
    ("a", " satisfies a", "", "", ""),
    ("", "<T>", "a", "", ""),
    ("let x:T=a", "!", "", "", ""),
    ("", "namespace a{", "let x=1", "}", ""),
    ("namespace a", ".b", "{let x=1}", "", ""),
    ("let x:a", ".b", "", "", ""),
    ("let y:T=1;", "f<", "a", ">", ""),
    ("let y:T=1;", "f<T>(", "a", ")", ""),
    ("let y:T=1;", "<T>(x:T=>", "a", ")=>1", ""),
    ("let y:T=1;", "(x:T=", "a", "):T=>1", ""),
    ("let y:T=1;", "async(x:T=", "a", "):T=>1", ""),
    ("let y:T=1;", "a?(b", "1", "):c=>d:e", ""),
    ("let y:T=1;", "a?(b):c=>", "1", "", ""),
    ("let y:T=1;", "a?(b=c?", "1", "", ""),
    ("let y:T=1;", "({a=", "1", "})", ""),
    ("let y:T=1;", "a<", "1", "", ""),
    ("let y:T=1;", "a<(", "1", ")>(1)", ""),
    ("let y:T=1;", "a<b<", "1", "", ""),
    ("let y:T=1;", "(f<", "1", "", ""),
    ("let y:T=1;", "f<{a:", "1", "", ""),
    ("let y:T=1;", "f<(a:", "1", "", ""),
    ("let y:T=1;", "(a=b<", "1", "", ""),
    ("let y:T=1;", "(a=<b>", "1", "", ""),
    ("let y:T=1;", "(a=b as(", "1", "", ""),
    ("let y:", "({a=b as ", "1", "", ""),
    ("let y:", "({a=<", "1", "", ""),
    ("let y:", "({[b as ", "1", "", ""),
    ("let y:", "([a=b as ", "1", "", ""),
    ("let y:", "({a:[b=c as ", "1", "", ""),
    ("let y:", "{[b as ", "1", "", ""),
    ("let y:T=1;", "f<{[", "1", "", ""),
    ("let y:T=1;", "f<{a:1\n[", "1", "", ""),
    ("let y:T=1;", "f<import('a',{with:{a:", "1", "", ""),
    ("let y:T=1;", "f<(@a(", "1", "", ""),
    ("let y:T=1;", "f<(a=function(){ interface X extends Y<", "1", "", ""),
    ("let y:T=1;", "a?({b=(c):d=>", "1", "", ""),
    ("let y:T=1;", "a?(b=1,c=", "1", "):d=>1", ""),
    ("let y:T=1;", "<T>(a=", "1", ")", ""),
    ("let y:T=1;", "(a:T=(b)?", "1", ":1)=>1", ""),
    ("enum A {a=", "(", "1", ")", "}"),
    ("enum A {a=1", "+1", "", "", "}"),
    ("", "enum A {a=(()=>{", "1", "})()}", ""),
    ("let x:T=", "@(", "a", ") class{}", ""),
    ("let x:", "{[k in ", "a", "]:1}", ""),
    ("let x:", "{[k in T]:", "a", "}", ""),
];

#[test]
fn nested_javascript_does_not_overflow_the_stack() {
    on_a_small_stack(|| compile_all(JAVASCRIPT));
}

#[test]
fn nested_types_do_not_overflow_the_stack() {
    on_a_small_stack(|| compile_all(TYPES));
}

/// Constructs of modules only that can be nested or long.
const MODULES: &[Nest] = &[
    ("", "export const a=()=>{", "1", "}", ""),
    ("", "export default (", "1", ")", ""),
    ("", "export let a;", "", "", ""),
    ("", "export{a};", "", "", ""),
    ("", "export*from'a';", "", "", ""),
    ("", "import'a';", "", "", ""),
    ("", "import a from'a';", "", "", ""),
    ("import{", "a,", "", "", "}from'a'"),
    ("let a;export{", "a,", "", "", "}"),
    ("", "export let[", "a", "]=1", ""),
    ("", "export namespace a{", "export let x=1", "}", ""),
    ("", "import a=", "b", "", ""),
    ("import a=b", ".b", "", "", ""),
    ("", "export import a=", "b", "", ""),
    ("", "import(", "'a'", ")", ""),
    ("", "import.meta.", "a", "", ""),
    ("", "import type a=", "b", "", ""),
    ("", "<a>", "b", "</a>", ""),
    ("", "<a b={", "c", "}/>", ""),
    ("enum A{", "a,", "", "", "}"),
    ("enum A{", "a=(", "1", ")", "}"),
    ("", "enum A{a=1}", "", "", ""),
    ("", "export enum A{a=A.b}", "", "", ""),
    ("", "class a{static{", "a", "}}", ""),
    ("class a{", "#a;", "", "", "}"),
    ("class a{constructor(", "public a,", "", "", "){}}"),
    ("", "declare module 'a'{", "", "}", ""),
    ("", "a:{", "break a", "}", ""),
    ("let ", "a,", "b", "", ""),
];

#[test]
fn nested_module_items_do_not_overflow_the_stack() {
    on_a_small_stack(|| compile_all_as_modules(MODULES));
}

#[test]
fn nested_javascript_in_modules_does_not_overflow_the_stack() {
    on_a_small_stack(|| compile_all_as_modules(JAVASCRIPT));
}

#[test]
fn nested_types_in_modules_do_not_overflow_the_stack() {
    on_a_small_stack(|| compile_all_as_modules(TYPES));
}

fn compile_all_as_modules(nests: &[Nest]) {
    for (before, open, middle, close, after) in nests {
        for times in [10, 120, 250, 2_000, 10_000, 50_000, 200_000] {
            let length = before.len() + middle.len() + after.len() + times * (open.len() + close.len());
            if length <= Limits::default().max_source_bytes {
                let source = format!("{before}{}{middle}{}{after}", open.repeat(times), close.repeat(times));
                let _ = compiles_or_not_as_module(&source);
            }
        }
    }
}

fn compile_all(nests: &[Nest]) {
    for (before, open, middle, close, after) in nests {
        for times in [10, 30, 120, 250, 2_000, 10_000, 200_000] {
            let length = before.len() + middle.len() + after.len() + times * (open.len() + close.len());
            if length <= Limits::default().max_source_bytes {
                let source = format!("{before}{}{middle}{}{after}", open.repeat(times), close.repeat(times));
                let _ = compiles_or_not(&source);
            }
        }
    }
}

#[test]
fn deep_nesting_is_an_error_with_a_position() {
    let error = compiles_or_not(&"(".repeat(100_000)).expect_err("it is too deep");
    assert_eq!(error.to_string(), format!("nesting deeper than {} levels", execbox_typescript::MAX_DEPTH));
    assert_eq!(error.position().map(|at| at.line), Some(1));
}

#[test]
fn multiplying_ambiguities_are_rejected() {
    let source = format!("let y:T=1;{}1", "(a=b<".repeat(500));
    let error = compiles_or_not(&source).expect_err("it is not TypeScript");
    assert!(
        error.to_string().starts_with("source too ambiguous to parse") || error.to_string().contains("expected"),
        "{error:?}"
    );
}

#[test]
fn long_chains_of_operands_are_accepted() {
    on_a_small_stack(|| {
        for chain in ["+a", "&&a", "??a", ",a", "|a", ".b", "()", "[0]", "?.b", "`b`", " in a", "?a:a", "=a"] {
            let source = format!("a{}", chain.repeat(20_000));
            compiles_or_not(&source).expect("it is a chain of 20 000 operands");
            let source = format!("let t: T = a{}", chain.repeat(20_000));
            compiles_or_not(&source).expect("it is a chain of 20 000 operands");
        }
    });
}

#[test]
fn many_declarations_of_one_enum_compile_in_time() {
    for times in [256, 10_000] {
        let _ = compiles_or_not(&"enum A{a=A.b}\n".repeat(times));
        let _ = compiles_or_not(&format!("enum A{{a0='x'{}}}", ",a=a0+a0".repeat(times)));
        let _ = compiles_or_not(&"namespace A{export let a=1;a}\n".repeat(times));
        let _ = compiles_or_not_as_module(&"namespace A.B{export let a=1;a}\n".repeat(times));
    }
}

#[test]
fn long_source_that_is_not_deep_is_accepted() {
    on_a_small_stack(|| {
        let record = "{ id: 12345, name: 'somebody', tags: ['a', 'b'], size: 1 / 2, ok: true, at: null },\n";
        let data = format!("const data = [\n{}];\ndata.length\n", record.repeat(10_000));
        assert!(compiles_or_not(&data).is_ok());

        let statement = "const a: Map<string, Array<number>> = f<string>(b, (c) => ({ ...c })) / 2; // it's half\n\
                         if (a.size < 3 && b.x) { g(`${a} of ${b}`) } else if (c) { h(/[/'\"]/g) }\n";
        let statements = format!("{}a\n", statement.repeat(2_000));
        compiles_or_not(&statements).expect("it is long, and no more");

        let function = "async function find(query: string): Promise<Hit[]> {\n  const hits = await search({ query })\n  \
                        return hits.filter((hit) => hit.score < 3).map(({ id, ...rest }) => ({ id, rest }))\n}\n";
        let functions = format!("{}find('x')\n", function.repeat(1_500));
        compiles_or_not(&functions).expect("it is long, and no more");

        let sum = format!("'a'{}", " +\n  'b'".repeat(5_000));
        assert!(compiles_or_not(&sum).is_ok());
    });
}

/// Pieces of source that are unlikely in random text.
const PIECES: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "=>",
    "=",
    ",",
    ";",
    ":",
    "?",
    "?.",
    ".",
    "...",
    "+",
    "++",
    "!",
    "/",
    "/g",
    "*",
    "**",
    "&&",
    "|",
    "@",
    "#a",
    "`",
    "${",
    "'",
    "\"",
    "\\",
    "\n",
    "//",
    "/*",
    "*/",
    "```",
    "~~~",
    " ",
    "\u{2028}",
    "a",
    "b ",
    "é",
    "😀",
    "\\u0061",
    "1",
    "0x",
    "1n",
    ".5",
    "'s'",
    "`t`",
    "if",
    "else ",
    "for",
    "of ",
    "in ",
    "while",
    "do ",
    "try",
    "catch",
    "finally",
    "switch",
    "case ",
    "return ",
    "throw ",
    "function ",
    "async ",
    "await ",
    "yield ",
    "new ",
    "typeof ",
    "class ",
    "extends ",
    "static ",
    "get ",
    "let ",
    "const ",
    "var ",
    "import ",
    "export ",
    "default ",
    "from ",
    "as ",
    "type ",
    "interface ",
    "enum ",
    "namespace ",
    "declare ",
    "abstract ",
    "infer ",
    "keyof ",
    "is ",
    "satisfies ",
    "this",
    "super",
    "import.meta",
    "using ",
    "accessor ",
    "implements ",
    "private ",
    "module ",
    "global ",
    "require",
    "'use strict'",
    "<T>",
    "<T,>",
    ":T",
    "!:",
    "(a=",
    "({a=",
    "(a)=>",
    "b<",
    "as(",
];

fn pieces(count: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), count).prop_map(|pieces| pieces.concat())
}

/// Whole items of modules among the pieces, so that some of it parses.
fn module_pieces() -> impl Strategy<Value = String> {
    const ITEMS: &[&str] = &[
        "import{a}from'a'\n",
        "import a,*as b from'b'\n",
        "import{type a,b as x}from'./c'\n",
        "import type b from'd'\n",
        "import'e'\n",
        "export*from'a'\n",
        "export*as a from'b'\n",
        "export{a as default,b}from'./c'\n",
        "export{a as b}\n",
        "export default a\n",
        "export const a=1\n",
        "export let{b,x:[y]}=a\n",
        "export enum a{x,b='b'}\n",
        "enum a{y=1}\n",
        "export namespace b{export let a=1}\n",
        "export class x<T>extends a<T>{constructor(private b){super()}}\n",
        "export interface y{a:b}\n",
        "type b=typeof a\n",
        "declare const x:b\n",
        "import y=a.b\n",
        "function a():void\n",
        "function a(b:x){}\n",
        "var b\n",
        "a\n",
        "x\n",
    ];
    let item = prop_oneof![4 => prop::sample::select(ITEMS), 1 => prop::sample::select(PIECES)];
    prop::collection::vec(item, 0..8).prop_map(|pieces| pieces.concat())
}

/// Whether another parser accepts `source` as a script of this language. Source that only this parser rejects, and
/// Markdown fences, do not count.
fn is_valid(source: &str, language: SourceType) -> bool {
    const DIFFERENT: &[&str] =
        &["@", "import", "export", "accessor", "```", "~~~", "<!--", "-->", "#!", "defer", "source"];
    /// Texts that are skipped as TypeScript only: source that is also valid JavaScript is read as JavaScript.
    const DIFFERENT_TYPES: &[&str] = &["global {", "class {", "let <T", "<T>let", ">/", "super"];
    let types = if language.is_typescript() { DIFFERENT_TYPES } else { &[] };
    if DIFFERENT.iter().chain(types).any(|text| source.contains(text)) {
        return false;
    }
    let arena = Allocator::new();
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let parsed = Parser::new(&arena, source, language).with_options(options).parse();
    !parsed.panicked && parsed.diagnostics.is_empty()
}

/// Whether another parser accepts `compiled` as the body of an async function.
fn is_body(compiled: &str) -> bool {
    let source = format!("(async () => {{\n{compiled}\n}})");
    let arena = Allocator::new();
    Parser::new(&arena, &source, SourceType::mjs()).parse().diagnostics.is_empty()
}

/// Whether the other parser accepts more than TypeScript where `error` is found: any word as a type (`x as if`), and
/// types with `?` or `!`, which exist in comments only (`x as 1n?`), parameters of function types without an arrow
/// (`x as()(a`), escapes of other characters in names (`<\b`), and sources that end within a type (`x as y.`).
fn is_lenience(source: &str, error: &CompileError) -> bool {
    const WORDS: &[&str] = &[
        "case", "catch", "class", "const", "default", "do", "else", "enum", "extends", "finally", "for", "if", "in",
        "is", "return", "super", "switch", "throw", "try", "var", "while",
    ];
    let message = error.to_string();
    let found = message.split("found `").nth(1).or(message.strip_prefix("unexpected `"));
    let found = found.unwrap_or_default().trim_end_matches('`');
    let Some(at) = error.position() else { return false };
    let mut before: String = source.split_inclusive('\n').take(at.line as usize - 1).collect();
    let line = source.split('\n').nth(at.line as usize - 1).unwrap_or_default();
    before.extend(line.chars().take(at.column as usize - 1));
    let before = before.trim_end();
    WORDS.contains(&found)
        || WORDS.iter().any(|word| before.ends_with(word))
        || matches!(found, "!" | "?")
        || before.ends_with('?')
        || message.starts_with("expected a type, found `")
        || message.starts_with("expected `=>`, found `")
        || message.starts_with("invalid escape in a name")
        || message.ends_with("end of the source")
}

#[test]
fn nesting_does_not_make_the_compiled_text_much_longer() {
    let source = format!("{}{}{}", "{".repeat(250), "a;\n".repeat(10_000), "}".repeat(250));
    let compiled = compiles_or_not(&source).expect("it is not too deep");
    assert!(compiled.len() < 2 * source.len(), "{} bytes became {}", source.len(), compiled.len());
}

/// Whether `module` is a valid module whose imports and exports are all in its records.
fn is_as_recorded(module: &Module) -> bool {
    let arena = Allocator::new();
    let parsed = Parser::new(&arena, &module.code.text, SourceType::mjs()).parse();
    let asked: Vec<_> = parsed
        .program
        .body
        .iter()
        .filter_map(|item| match item {
            Statement::ImportDeclaration(import) => Some(import.source.value.to_string()),
            Statement::ExportAllDeclaration(export) => Some(export.source.value.to_string()),
            Statement::ExportFromDeclaration(export) => Some(export.source.value.to_string()),
            _ => None,
        })
        .filter(|specifier| specifier != GLOBALS_MODULE)
        .collect();
    let recorded = module.requests.iter().map(|request| &request.specifier);
    !parsed.diagnostics.is_empty() || asked.iter().eq(recorded)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_text_does_not_panic(source in any::<String>()) {
        let _ = compiles_or_not(&source);
    }

    #[test]
    fn pieces_of_source_do_not_panic(source in pieces(0..40)) {
        let compiled = compiles_or_not(&source);
        for language in [SourceType::mjs(), SourceType::ts().with_module(true)] {
            if is_valid(&source, language) {
                match &compiled {
                    Ok(compiled) => prop_assert!(is_body(compiled), "{}\nbecomes\n{}", source, compiled),
                    // JavaScript has no types: there, each refusal counts.
                    Err(error) if !is_valid(&source, SourceType::mjs()) && is_lenience(&source, error) => {}
                    Err(error) => prop_assert!(false, "{}\nis refused: {:?}", source, error),
                }
            }
        }
    }

    #[test]
    fn pieces_of_modules_do_not_panic(source in module_pieces()) {
        for module in compiles_or_not_as_module(&source).into_iter().flatten() {
            prop_assert!(is_as_recorded(&module), "{:?}", module);
        }
    }

    #[test]
    fn repeated_pieces_of_source_compile_in_time(
        before in pieces(0..4), open in pieces(1..6), middle in pieces(0..2), close in pieces(0..4), times in 1..300usize
    ) {
        let source = format!("{before}{}{middle}{}", open.repeat(times), close.repeat(times));
        let _ = compiles_or_not(&source);
        let _ = compiles_or_not_as_module(&source);
    }
}

#[test]
fn the_caller_can_stop_the_parser() {
    let source = "a + b;\n".repeat(100_000);
    let asked = Cell::new(0);
    let should_stop = || {
        asked.set(asked.get() + 1);
        asked.get() == 3
    };
    let reading = CompileLimits { should_stop: &should_stop, ..CompileLimits::default() };
    TypeScript.script(&source, &reading).expect_err("the caller stops it");
    assert_eq!(asked.get(), 3, "it continues after the caller stopped it");
    let globals = BTreeSet::new();
    let module = ModuleSource { text: &source, dialect: Dialect::TypeScript, globals: &globals };
    asked.set(0);
    TypeScript.module(module, &reading).expect_err("the caller stops it");
    assert_eq!(asked.get(), 3, "it continues after the caller stopped it");
}

#[test]
fn a_source_that_is_not_ambiguous_is_parsed_once() {
    let asked_for = |start: &str, end: &str| {
        let asked = Cell::new(0);
        let should_stop = || {
            asked.set(asked.get() + 1);
            false
        };
        let reading = CompileLimits { should_stop: &should_stop, ..CompileLimits::default() };
        let _ = TypeScript.script(&format!("{start}{}{end}", "a + b;\n".repeat(20_000)), &reading);
        asked.get()
    };
    let once = asked_for("", "");
    assert!(once > 10, "{once}");
    for (start, end) in [
        ("", "const ="),
        ("", "let x: T"),
        ("", "a as T"),
        ("let x: T;", ""),
        ("interface I {}", "f<T>(x)"),
        ("new Map<K, V>();", ""),
        ("async (): Promise<T> => {};", ""),
        ("{", "}"),
    ] {
        let asked = asked_for(start, end);
        assert!(asked <= once + 1, "{start} … {end}: {asked} instead of {once}");
    }
}

#[test]
fn a_type_of_comments_is_refused() {
    let error = compiles_or_not("thisof as 1n?").expect_err("tsc refuses it, too");
    assert!(is_lenience("thisof as 1n?", &error), "{error:?}");
}

#[test]
fn too_many_merged_namespaces_are_rejected_with_a_reason() {
    let error = compiles_or_not(&"namespace N{export let a=1;a}\n".repeat(2_000)).expect_err("they are too many");
    assert_eq!(error.to_string(), "too many merged declarations of enums or namespaces");
}

// ---- memory

/// The length of what `source` compiles to, if it compiles with this budget, and the most that was charged.
fn compiled_length(source: &str, budget: usize) -> (Result<usize, CompileError>, usize) {
    let reading = CompileLimits { budget: Budget::new(budget), ..CompileLimits::default() };
    let length = TypeScript.script(source, &reading).map(|code| code.text.len());
    assert_eq!(reading.budget.used(), 0, "everything is given back");
    (length, reading.budget.peak())
}

#[test]
fn constants_are_not_folded() {
    let members = |value: &dyn Fn(usize) -> String| (1..=40).map(value).collect::<Vec<_>>().join(",");
    let sums = members(&|at| format!("a{at}=a{0}+a{0}", at - 1));
    let templates = members(&|at| format!("a{at}=`${{a{0}}}${{a{0}}}`", at - 1));
    let enums =
        (1..=40).map(|at| format!("const enum E{at} {{ a = E{0}.a + E{0}.a }} ", at - 1)).collect::<Vec<_>>().concat();
    let namespaces = (1..=40)
        .map(|at| format!("namespace N{at} {{ export const a = N{0}.a + N{0}.a }} ", at - 1))
        .collect::<Vec<_>>()
        .concat();
    for source in [
        format!("enum A{{a0=\"x\",{sums}}}"),
        format!("enum A{{a0=\"x\",{templates}}}"),
        format!("const enum A{{a0=\"x\",{sums}}} A.a40"),
        format!("const enum E0 {{ a = 'x' }} {enums}"),
        format!("namespace N0 {{ export const a = 'x' }} {namespaces} enum E {{ a = N40.a }}"),
    ] {
        let (length, peak) = compiled_length(&source, 1 << 20);
        let length = length.expect("it is valid");
        assert!(length < 4 * source.len(), "{length} bytes of {}", source.len());
        assert!(peak < 64 * source.len() + (64 << 10), "{peak} bytes for {}", source.len());
    }
}

#[test]
fn a_source_that_takes_too_much_memory_is_an_error() {
    const N: usize = 1 << 16;
    const BUDGET: usize = 4 << 20; // 16 times as much as the longest of these sources
    let (name, members) = ("N".repeat(N), "a,".repeat(N / 2));
    let numbered = |each: &dyn Fn(usize) -> String| (0..N / 8).map(each).collect::<String>();
    for (what, source) in [
        ("a long name of an enum", format!("enum {name}{{{members}}}")),
        ("a long name of a namespace", format!("namespace {name}{{export let a=1;{}}}", "a;".repeat(N / 2))),
        ("a long name of an inner namespace", format!("namespace {name}{{{}}}", "export enum E{} ".repeat(N / 16))),
        ("a long key", format!("enum A{{'{name}'=1,{members}}}")),
        ("enums", numbered(&|at| format!("enum A{at:x}{{a}}")) + &"enum B{}".repeat(N / 4)),
        ("constants", format!("enum A{{a={}1}}", "1+".repeat(2 * N))),
        ("parameters", format!("enum X {{}} function f({}) {{}}", "a,".repeat(2 * N))),
        ("blocks", format!("enum X {{}} {}", "{}".repeat(2 * N))),
        ("references", format!("enum X {{}} [{}]", "a,".repeat(4 * N))),
    ] {
        let (error, peak) = compiled_length(&source, BUDGET);
        let error = error.map(|length| format!("{what}: {length} bytes")).expect_err("it takes too much memory");
        assert!(matches!(error, CompileError::Memory(_)), "{what}: {error}");
        let text = error.to_string();
        assert!(text.starts_with("compiling the source takes too much host memory: "), "{text}");
        assert!(text.ends_with(" of 4 MiB; write less code, or raise host_memory_bytes"), "{text}");
        assert!(peak <= BUDGET, "{what}: {peak}");
    }
}

#[test]
fn ordinary_source_takes_a_small_multiple_of_its_length() {
    let function = "function handle(request: Request, limit = 10): Promise<string[]> {
        const items = request.items.filter((item: Item) => item.value > limit);
        return items.map((item) => `${item.name}: ${item.value}`);\n}\n";
    let source = function.repeat((1 << 18) / function.len());
    let (length, peak) = compiled_length(&source, 64 << 20);
    assert_eq!(length, Ok(source.len()));
    assert!(peak < 10 * source.len(), "{peak}");
}

#[test]
fn the_parser_asks_whether_to_stop_within_long_tokens_and_lookups() {
    let long = "s".repeat(1 << 18);
    let bodies = "enum A{}".repeat(10_000);
    let lookups = "a=A.b,".repeat(10_000);
    let exported = (0..5_000).map(|at| format!("export type t{at}=1;export let v{at}=1;")).collect::<Vec<_>>().concat();
    for source in [
        format!("{}'{long}'", "a<b<(".repeat(100)),
        format!("{}`{long}`", "(a,b=".repeat(100)),
        format!("{bodies}enum B{{{lookups}}}"),
        exported,
    ] {
        let asked = Cell::new(0_usize);
        let should_stop = || {
            asked.set(asked.get() + 1);
            asked.get() == 40
        };
        let reading = CompileLimits { should_stop: &should_stop, ..CompileLimits::default() };
        let globals = BTreeSet::new();
        let module = ModuleSource { text: &source, dialect: Dialect::TypeScript, globals: &globals };
        let compiled = TypeScript.module(module, &reading);
        let stopped = compiled.is_err_and(|error| error == CompileError::Stopped);
        assert!(stopped || asked.get() < 40, "{} of {} bytes", asked.get(), source.len());
        assert!(asked.get() > source.len() >> 17, "it asks often: {} times", asked.get());
    }
}

#[test]
fn compiling_many_short_functions_can_be_stopped() {
    let function = |at| ScriptFunction::new("own", format!("f{at}"), "return 1");
    let request = Request {
        code: "own.f0()".to_owned(),
        functions: (0..1000).map(function).collect(),
        providers: Vec::new(),
        waits_for_calls: false,
        globals: Globals::default(),
        limits: Limits::default(),
    };
    let asked = Cell::new(0);
    let should_stop = || {
        asked.set(asked.get() + 1);
        asked.get() == 100
    };
    let error = request.start(&TypeScript, &should_stop).err().expect("compiling is stopped");
    assert_eq!((error.code, asked.get()), (ErrorCode::Timeout, 100));
}
