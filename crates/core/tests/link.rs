//! Tests the linker with a language of one record per line, and against ECMAScript's own algorithm.
//!
//! ```text
//! import NAME from SPECIFIER
//! export NAME                       declares NAME
//! export NAME as OTHER from SPECIFIER
//! export * from SPECIFIER
//! ```

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::thread;

use execbox_core::language::{
    Code, CompileError, CompileLimits, Dialect, Export, Import, Imported, Language, Module, ModuleSource, Position,
    Request, SyntaxError,
};
use execbox_core::link::{LinkFailure, MAX_MODULES, OptionError, Sources, Unresolved, link, resolve};
use proptest::prelude::*;

struct Records;

impl Language for Records {
    fn script(&self, _: &str, _: &CompileLimits<'_>) -> Result<Code, CompileError> {
        Err(SyntaxError { message: "scripts are not supported".to_owned(), position: None }.into())
    }

    fn module(&self, source: ModuleSource<'_>, _: &CompileLimits<'_>) -> Result<Module, CompileError> {
        let mut module = Module { code: source.text.into(), ..Module::default() };
        for (line, text) in (1..).zip(source.text.lines()) {
            let position = Position { line, column: 1 };
            let request = module.requests.len();
            let mut ask = |specifier: &str| {
                module.requests.push(Request { specifier: specifier.to_owned(), position });
            };
            let name = |name: &str| Imported::Name(name.to_owned());
            match text.split(' ').collect::<Vec<_>>()[..] {
                ["import", wanted, "from", specifier] => {
                    ask(specifier);
                    let local = format!("local{line}");
                    module.imports.push(Import { request, imported: name(wanted), local, position });
                }
                ["export", "*", "from", specifier] => {
                    ask(specifier);
                    module.exports.push(Export::All { request });
                }
                ["export", wanted, "as", exported, "from", specifier] => {
                    ask(specifier);
                    let (exported, imported) = (exported.to_owned(), name(wanted));
                    module.exports.push(Export::From { name: exported, request, imported, position });
                }
                ["export", declared] => {
                    let declared = declared.to_owned();
                    module.exports.push(Export::Local { name: declared.clone(), local: declared });
                }
                _ => {
                    let message = format!("invalid record {text:?}");
                    return Err(SyntaxError { message, position: Some(position) }.into());
                }
            }
        }
        Ok(module)
    }
}

// ---- resolve

#[test]
fn specifiers_are_relative_to_the_importer() {
    for (importer, specifier, name) in [
        ("<runCode>", "./a.js", "./a.js"),
        ("main.ts", "./a.js", "./a.js"),
        ("./main.ts", "./a.js", "./a.js"),
        ("src/main.ts", "./a.js", "./src/a.js"),
        ("src/main.ts", "../a.js", "./a.js"),
        ("./lib/deep/x.js", "../../a.js", "./a.js"),
        ("./lib/x.js", "././y/../a.js", "./lib/a.js"),
        ("./lib/x.js", "./../lib/./a.js", "./lib/a.js"),
        ("/srv/me/main.ts", "./a.js", "./a.js"),
        ("https://example.com/src/main.ts", "./a.js", "./a.js"),
        ("C:\\src\\main.ts", "./a.js", "./a.js"),
        ("../main.ts", "./a.js", "./a.js"),
        ("./lib/x.js", "fs", "fs"),
        ("./lib/x.js", "@scope/pkg/deep", "@scope/pkg/deep"),
        ("./lib/x.js", ".hidden", ".hidden"),
        ("./lib/x.js", "..dots", "..dots"),
        ("./lib/x.js", ".", "./lib"),
        ("./lib/x.js", "..", "./"),
        ("./lib/x.js", "./", "./lib/"),
        ("./lib/x.js", "./a//b.js", "./lib/a//b.js"),
    ] {
        assert_eq!(resolve(importer, specifier), Ok(name.to_owned()), "{specifier} from {importer}");
    }
}

#[test]
fn unresolvable_specifiers_are_rejected() {
    for (importer, specifier, why) in [
        ("<runCode>", "../a.js", Unresolved::OutsideRoot),
        ("<runCode>", "..", Unresolved::OutsideRoot),
        ("./lib/x.js", "../../a.js", Unresolved::OutsideRoot),
        ("./lib/x.js", "../../lib/a.js", Unresolved::OutsideRoot),
        ("./x.js", "https://example.com/a.js", Unresolved::Url),
        ("./x.js", "HTTP:a", Unresolved::Url),
        ("./x.js", "node:fs", Unresolved::Url),
        ("./x.js", "execbox:globals", Unresolved::Url),
        ("./x.js", "data:,", Unresolved::Url),
        ("./x.js", "/a.js", Unresolved::Absolute),
        ("./x.js", "//example.com/a.js", Unresolved::Absolute),
        ("./x.js", "", Unresolved::Empty),
    ] {
        assert_eq!(resolve(importer, specifier), Err(why), "{specifier} from {importer}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn resolution_is_total_and_names_are_canonical(importer in "(\\PC|[./:]){0,24}", specifier in "(\\PC|[./:]){0,24}") {
        if let Ok(name) = resolve(&importer, &specifier) {
            // A name resolves to itself from the root, so each module has one name.
            let again = resolve("<runCode>", &name);
            prop_assert!(again == Ok(name.clone()) || name == "./", "{name:?} becomes {again:?}");
            prop_assert!(!name.split('/').skip(1).any(|segment| segment == "..") || !name.starts_with("./"), "{}", name);
        }
    }

    #[test]
    fn linking_never_panics_for_any_specifier_and_filename(filename in "(\\PC|[./:]){0,12}", specifier in "[^ \n]{1,12}") {
        let entry = format!("export * from {specifier}");
        let sources = Sources { entry, filename: Some(filename), ..Sources::default() };
        prop_assert!(link(&sources, &Records, &CompileLimits::default()).is_err());
    }
}

// ---- names, compared with ECMAScript's algorithm

/// `ResolveExport` of ECMA-262 (§16.2.1.7.2.2), transcribed. Returns the module and the name of the binding.
fn resolve_export(
    modules: &BTreeMap<String, Module>,
    at: &str,
    name: &str,
    set: &mut HashSet<(String, String)>,
) -> Answer {
    if !set.insert((at.to_owned(), name.to_owned())) {
        return Answer::Null;
    }
    let module = &modules[at];
    for export in &module.exports {
        match export {
            Export::Local { name: exported, local } if exported == name => {
                return Answer::Binding(at.to_owned(), local.clone());
            }
            Export::From { name: exported, request, imported: Imported::Name(imported), .. } if exported == name => {
                return resolve_export(modules, &module.requests[*request].specifier, imported, set);
            }
            _ => {}
        }
    }
    if name == "default" {
        return Answer::Null;
    }
    let mut star = Answer::Null;
    for export in &module.exports {
        let Export::All { request } = export else { continue };
        match resolve_export(modules, &module.requests[*request].specifier, name, set) {
            Answer::Ambiguous => return Answer::Ambiguous,
            Answer::Null => {}
            found if star == Answer::Null => star = found,
            found if found == star => {}
            Answer::Binding(..) => return Answer::Ambiguous,
        }
    }
    star
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Null,
    Ambiguous,
    Binding(String, String),
}

/// The exports of `entry`, if all modules that it reaches link.
fn specified(modules: &BTreeMap<String, Module>, entry: &str) -> Option<BTreeSet<String>> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![entry.to_owned()]);
    while let Some(at) = open.pop() {
        let specifiers = modules[&at].requests.iter().map(|request| request.specifier.clone());
        if reached.insert(at.clone()) {
            open.extend(specifiers);
        }
    }
    let binds =
        |at: &str, name: &str| matches!(resolve_export(modules, at, name, &mut HashSet::new()), Answer::Binding(..));
    let links = reached.iter().all(|at| {
        let module = &modules[at];
        let specifier = |request: usize| &module.requests[request].specifier;
        let imports = module.imports.iter().all(|import| match &import.imported {
            Imported::Name(name) => binds(specifier(import.request), name),
            Imported::Namespace => true,
        });
        imports && module.exports.iter().all(|one| !matches!(one, Export::From { name, .. } if !binds(at, name)))
    });
    let names = NAMES.iter().filter(|name| binds(entry, name)).map(|name| (*name).to_owned());
    links.then(|| names.collect())
}

const NAMES: [&str; 4] = ["a", "b", "c", "default"];
const MODULES: [&str; 6] = ["./0", "./1", "./2", "./3", "./4", "./5"];

fn lines() -> impl Strategy<Value = String> {
    let name = || prop::sample::select(&NAMES[..]);
    let module = || prop::sample::select(&MODULES[..]);
    let line = prop_oneof![
        4 => name().prop_map(|name| format!("export {name}")),
        4 => module().prop_map(|from| format!("export * from {from}")),
        1 => (name(), name(), module()).prop_map(|(name, other, from)| format!("export {name} as {other} from {from}")),
        1 => (name(), module()).prop_map(|(name, from)| format!("import {name} from {from}")),
    ];
    prop::collection::vec(line, 0..4).prop_map(|lines| {
        // A module cannot export a name twice.
        let mut exported = HashSet::new();
        let first = |line: &String| {
            let words: Vec<_> = line.split(' ').collect();
            let name = if words.len() == 6 { words[3] } else { words[1] };
            words[0] == "import" || name == "*" || exported.insert(name.to_owned())
        };
        lines.into_iter().filter(first).collect::<Vec<_>>().join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn names_resolve_as_in_ecmascript(texts in prop::collection::vec(lines(), MODULES.len())) {
        let texts: BTreeMap<String, String> = MODULES.map(str::to_owned).into_iter().zip(texts).collect();
        let globals = BTreeSet::new();
        let modules = texts.iter().map(|(name, text)| {
            let source = ModuleSource { text, dialect: Dialect::default(), globals: &globals };
            (name.clone(), Records.module(source, &CompileLimits::default()).expect("the source consists of records"))
        });
        let modules: BTreeMap<_, _> = modules.collect();
        let expected = specified(&modules, "./0");

        let sources = Sources { entry: "export * from ./0".to_owned(), modules: texts.clone(), ..Sources::default() };
        let linked = link(&sources, &Records, &CompileLimits::default());
        prop_assert_eq!(linked.is_ok(), expected.is_some(), "{:?}", linked);
        if let (Ok(graph), Some(mut names)) = (linked, expected) {
            names.remove("default");
            prop_assert_eq!(graph.exports().map(str::to_owned).collect::<BTreeSet<_>>(), names);
            prop_assert_eq!(graph.modules.len(), 1 + texts.len());
        }
    }
}

// ---- depth and size

/// Links on a thread with a small stack.
fn links_on_a_small_stack(sources: Sources) -> usize {
    let linking = move || link(&sources, &Records, &CompileLimits::default()).expect("the sources link").modules.len();
    thread::Builder::new().stack_size(128 * 1024).spawn(linking).expect("a thread").join().expect("it does not panic")
}

#[test]
fn the_longest_chain_links_on_a_small_stack() {
    for line in ["export * from ", "export a as a from ", "import a from "] {
        let last = MAX_MODULES - 1;
        let module = |at: usize| {
            let text = if at == last { "export a".to_owned() } else { format!("{line}./{}", at + 1) };
            let declared = if line.starts_with("import") && at != last { "\nexport a" } else { "" };
            (format!("./{at}"), text + declared)
        };
        let modules = (0..MAX_MODULES).map(module).collect();
        let sources = Sources { entry: "import a from ./0".to_owned(), modules, ..Sources::default() };
        assert_eq!(links_on_a_small_stack(sources), MAX_MODULES + 1);
    }
}

#[test]
fn a_cycle_of_all_modules_links_on_a_small_stack() {
    let module = |at: usize| (format!("./{at}"), format!("export a{at}\nexport * from ./{}", (at + 1) % MAX_MODULES));
    let modules = (0..MAX_MODULES).map(module).collect();
    let sources = Sources { entry: "import a9999 from ./0".to_owned(), modules, ..Sources::default() };
    assert_eq!(links_on_a_small_stack(sources), MAX_MODULES + 1);
}

#[test]
fn a_chain_of_broken_modules_reports_the_first_error() {
    let module = |at: usize| (format!("./{at}"), format!("import a from ./{}\nexport a", at + 1));
    let modules = (0..MAX_MODULES).map(module).collect();
    let sources = Sources { modules, ..Sources::default() };
    let graph = link(&sources, &Records, &CompileLimits::default()).expect("the entry imports nothing");
    let thrown = "throw new SyntaxError(\"unknown module './10000'; did you mean './1000'? (./9999:1:1)\");";
    assert_eq!(graph.modules.len(), 1 + MAX_MODULES);
    assert!(graph.modules[1..].iter().all(|module| module.code.text == thrown), "{:?}", graph.modules[1]);
}

#[test]
fn too_many_lookups_are_rejected() {
    // Each lookup visits every module.
    const PARTS: usize = 1_500;
    let barrel = |number: usize| {
        let lines: Vec<_> = (0..PARTS).map(|at| format!("export * from ./{at}")).collect();
        (format!("./all{number}"), lines.join("\n"))
    };
    let sources = |barrels: usize, imports: usize| {
        let parts = (0..PARTS).map(|at| (format!("./{at}"), format!("export a{at}")));
        let import = |at: usize| format!("import a{} from ./all{}", at % PARTS, at / PARTS % barrels);
        Sources {
            entry: (0..imports).map(import).collect::<Vec<_>>().join("\n"),
            modules: parts.chain((0..barrels).map(barrel)).collect(),
            ..Sources::default()
        }
    };
    assert!(link(&sources(1, 4 * PARTS), &Records, &CompileLimits::default()).is_ok(), "results are cached");
    let error =
        link(&sources(2, 2 * PARTS), &Records, &CompileLimits::default()).expect_err("the step limit is exceeded");
    assert_eq!(*error.failure, LinkFailure::TooTangled);
}

#[test]
fn too_many_modules_are_rejected() {
    let modules = (0..=MAX_MODULES).map(|at| (format!("./{at}"), String::new())).collect();
    let error = link(&Sources { modules, ..Sources::default() }, &Records, &CompileLimits::default())
        .expect_err("the module limit is exceeded");
    assert_eq!(*error.failure, LinkFailure::Option(OptionError::TooManyModules(MAX_MODULES + 1)));
}

// ---- memory and time

#[test]
fn a_graph_that_takes_too_much_memory_is_an_error() {
    const N: usize = 300_000;
    let exports = (0..N).map(|at| format!("export a{at}\n")).collect::<Vec<_>>().concat();
    let imports = (0..N).map(|at| format!("import a{at} from ./0\n")).collect::<Vec<_>>().concat();
    let modules = BTreeMap::from([("./0".to_owned(), exports)]);
    let reading = CompileLimits::default();
    let error = link(&Sources { entry: imports, modules, ..Sources::default() }, &Records, &reading)
        .expect_err("it takes too much memory");
    assert!(matches!(*error.failure, LinkFailure::Memory(_)), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("linking the modules takes too much host memory: "), "{text}");
    assert!(text.ends_with(" of 64 MiB; write less code, or raise host_memory_bytes"), "{text}");
    assert!(reading.budget.peak() <= 64 << 20);
    assert_eq!(reading.budget.used(), 0, "everything is given back");
}

#[test]
fn an_error_is_not_copied_to_every_importer() {
    let long = format!("import a from {}", "s".repeat(1 << 20));
    let importer = |at: usize| (format!("./{at}"), "import a from ./0".to_owned());
    let modules = (1..MAX_MODULES).map(importer).chain([("./0".to_owned(), long)]).collect();
    let reading = CompileLimits::default();
    let graph =
        link(&Sources { modules, ..Sources::default() }, &Records, &reading).expect("the entry imports nothing");
    let broken: Vec<_> = graph.modules.iter().filter_map(|module| module.broken.as_ref()).collect();
    assert_eq!(broken.len(), MAX_MODULES);
    assert!(broken.iter().all(|error| Arc::ptr_eq(error, broken[0])));
    assert!(graph.modules.iter().all(|module| module.code.text.len() < 1000));
}

#[test]
fn sources_that_are_too_long_together_are_rejected() {
    let modules = (0..5).map(|at| (format!("./{at}"), "\n".repeat(16 << 20))).collect();
    let error = link(&Sources { modules, ..Sources::default() }, &Records, &CompileLimits::default())
        .expect_err("they are too long");
    assert_eq!(error.to_string(), "the sources have 80 MiB together; the limit is 64 MiB");
}

#[test]
fn linking_can_be_stopped() {
    // The modules are one cycle of re-exports, and every lookup visits all of them.
    let module = |at: usize| (format!("./{at}"), format!("export a{at}\nexport * from ./{}", (at + 1) % MAX_MODULES));
    let modules = (0..MAX_MODULES).map(module).collect();
    let sources = Sources { entry: "export * from ./0".to_owned(), modules, ..Sources::default() };
    let asked = Cell::new(0);
    let should_stop = || {
        asked.set(asked.get() + 1);
        asked.get() == 100
    };
    let reading = CompileLimits { should_stop: &should_stop, ..CompileLimits::default() };
    let error = link(&sources, &Records, &reading).expect_err("it is stopped");
    assert_eq!((&*error.failure, asked.get()), (&LinkFailure::Stopped, 100));
}
