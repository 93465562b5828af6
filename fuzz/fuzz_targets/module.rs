//! Graphs of modules from pieces of source: they link or fail with a message, and everything that was charged is given back.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use arbitrary::Arbitrary;
use execbox_core::budget::Budget;
use execbox_core::language::{CompileLimits, Dialect};
use execbox_core::link::{Sources, link};
use execbox_typescript::TypeScript;
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Module {
    items: Vec<Item>,
}

/// A line of a module. Numbers are those of modules and names.
#[derive(Debug, Arbitrary)]
enum Item {
    Import(u8, u8),
    Namespace(u8, u8),
    Export(u8),
    Type(u8),
    From(u8, u8, u8),
    All(u8),
    AllAs(u8, u8),
    Default,
    Enum(u8, Vec<u8>),
    Use(u8, u8),
    Text(String),
}

impl Item {
    fn write(&self) -> String {
        match self {
            Self::Import(name, from) => format!("import {{ n{name} }} from './{from}.ts';"),
            Self::Namespace(name, from) => format!("import * as n{name} from './{from}.ts';"),
            Self::Export(name) => format!("export const n{name}: number = 1;"),
            Self::Type(name) => format!("export type n{name} = string;"),
            Self::From(name, renamed, from) => format!("export {{ n{name} as n{renamed} }} from './{from}.ts';"),
            Self::All(from) => format!("export * from './{from}.ts';"),
            Self::AllAs(name, from) => format!("export * as n{name} from './{from}.ts';"),
            Self::Default => "export default function () {}".to_owned(),
            Self::Enum(name, members) => {
                let members: Vec<_> =
                    members.iter().map(|member| format!("m{member} = n{name}.m{member} + 'a'")).collect();
                format!("export enum n{name} {{ {} }}", members.join(", "))
            }
            Self::Use(name, member) => format!("n{name}.m{member};"),
            Self::Text(text) => text.clone(),
        }
    }
}

fuzz_target!(|modules: Vec<Module>| {
    let text = |module: &Module| module.items.iter().map(Item::write).collect::<Vec<_>>().join("\n");
    let mut texts = modules.iter().map(text);
    let sources = Sources {
        entry: texts.next().unwrap_or_default(),
        dialect: Dialect::TypeScript,
        modules: texts.enumerate().map(|(at, text)| (format!("./{at}.ts"), text)).collect::<BTreeMap<_, _>>(),
        globals: BTreeSet::from(["n1".to_owned(), "report".to_owned()]),
        ..Sources::default()
    };
    let reading = CompileLimits { budget: Budget::new(1 << 20), ..CompileLimits::default() };
    match link(&sources, &TypeScript, &reading) {
        Ok(graph) => assert_eq!(graph.modules.len(), 1 + sources.modules.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    assert_eq!(reading.budget.used(), 0);
});
