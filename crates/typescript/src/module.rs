//! Compiles a module into code for the engine and the records that linking needs.
//!
//! Markdown fences are not removed from modules. In the JavaScript dialect, TypeScript syntax is an error that names the
//! dialect. In the TypeScript dialect, source that is valid only as JavaScript is compiled as such.
//!
//! # Imports in TypeScript
//!
//! The TypeScript compiler removes an import that is never used as a value, because it may be a type. This crate removes
//! a name that is used *as a type* and never as a value, and the declaration with its last name. A name that is *never
//! used* remains: importing a missing name is an error (§3.2), and plain JavaScript has the same meaning in both dialects.
//!
//! # Globals
//!
//! A name that no scope of the module binds is free. A free name of a global (§3.4) is bound by an import after the last
//! line of the source; imports are hoisted.

use std::collections::{BTreeMap, BTreeSet};

use execbox_core::language::{
    CompileLimits, Dialect, Export, GLOBALS_MODULE, Import, Imported, Module, ModuleSource, Position, Request,
    SyntaxError,
};

use crate::Parse;
use crate::lower::{self, Uses};
use crate::parser::{ExportItem, ModuleItems, Options, Parser, SourceLanguage};
use crate::scopes::{Binding, ScopeId};

use crate::{Fault, ParseError, positions};

/// Compiles `source`.
pub(crate) fn compile(
    source: ModuleSource<'_>,
    reading: &CompileLimits<'_>,
) -> Result<Module, ParseError<SyntaxError>> {
    let (module, language) = read(source, source.dialect == Dialect::TypeScript, reading);
    let module = match (module, source.dialect) {
        // The source has the same fault when it is read as JavaScript.
        (Err(ParseError::Fault(fault)), Dialect::TypeScript) if language == SourceLanguage::Either => {
            Err(ParseError::Fault(fault))
        }
        (Err(ParseError::Fault(first)), Dialect::TypeScript) => match read(source, false, reading).0 {
            Err(ParseError::Fault(second)) => Err(ParseError::Fault(first.further(second))),
            other => other,
        },
        (Err(ParseError::Fault(fault)), Dialect::JavaScript) => match read(source, true, reading).0 {
            Ok(_) => {
                let message = format!("{}; this is TypeScript syntax, but the language is JavaScript", fault.message);
                Err(ParseError::Fault(Fault::new(message, fault.offset)))
            }
            Err(ParseError::Fault(_)) => Err(ParseError::Fault(fault)),
            Err(halt) => Err(halt),
        },
        (other, _) => other,
    };
    module.map_err(|halt| halt.map(|fault| fault.within(source.text)))
}

/// Compiles `source` in one language. Also returns what was recorded about its language.
fn read(source: ModuleSource<'_>, typescript: bool, reading: &CompileLimits<'_>) -> (Parse<Module>, SourceLanguage) {
    let options = Options { typescript, script: false, scopes: true };
    match Parser::new(source.text, options, reading) {
        Ok(mut parser) => (compile_with(&mut parser, source), parser.record.language),
        Err(halt) => (Err(halt), SourceLanguage::Either),
    }
}

fn compile_with(parser: &mut Parser<'_, '_>, source: ModuleSource<'_>) -> Parse<Module> {
    parser.source()?;
    let uses = lower::lower(parser)?;
    charge_items(parser)?;
    let kept = keep_imports(parser, &uses);
    check_imported_names(parser, &kept)?;
    let exports = keep_exports(parser)?;
    let mut module = records(parser, &kept, &exports);
    let globals: BTreeSet<&str> = uses
        .free
        .iter()
        .map(|name| parser.record.scopes.names.text(*name))
        .filter(|name| source.globals.contains(*name))
        .collect();
    let mut after = String::new();
    if !globals.is_empty() {
        let names: Vec<&str> = globals.into_iter().collect();
        after = format!("\nimport {{ {} }} from \"{GLOBALS_MODULE}\";", names.join(", "));
    }
    module.code = parser.apply_edits(&after)?;
    Ok(module)
}

/// Charges the records of the imports, exports and outermost declarations, and the sets from which they are made.
fn charge_items(parser: &mut Parser<'_, '_>) -> Parse<()> {
    const SET_ENTRY: usize = 64;
    let ModuleItems { imports, names, exports, types, .. } = &parser.record.items;
    let tables = imports.len() + names.len() + exports.len() + types.len() + parser.record.scopes.declarations().len();
    let strings = parser.text().len();
    parser.tokens.costs.keep_items::<Request>(parser.record.items.imports.len())?;
    parser.tokens.costs.keep_items::<Import>(parser.record.items.names.len())?;
    parser.tokens.costs.keep_items::<Export>(parser.record.items.exports.len())?;
    parser.tokens.costs.keep(tables * SET_ENTRY)?;
    if tables > 0 { parser.tokens.costs.keep(strings) } else { Ok(()) }
}

/// The imports that remain.
pub(crate) struct Kept {
    /// For every import declaration its number among the remaining ones.
    pub(crate) imports: Vec<Option<usize>>,
    names: Vec<bool>,
}

/// Erases the imports that are used only as types.
pub(crate) fn keep_imports(parser: &mut Parser<'_, '_>, uses: &Uses) -> Kept {
    let exported: BTreeSet<_> = parser
        .record
        .items
        .exports
        .iter()
        .filter_map(|item| match item {
            ExportItem::Specifier { local, .. } => Some(*local),
            _ => None,
        })
        .collect();
    let mut names = Vec::with_capacity(parser.record.items.names.len());
    for (name, (as_value, as_type)) in parser.record.items.names.iter().zip(&uses.imports) {
        names.push(*as_value || !*as_type || !parser.options.typescript || exported.contains(&name.local));
    }
    let mut kept_of_import = BTreeMap::new();
    for (name, is_kept) in parser.record.items.names.iter().zip(&names) {
        let (kept, all) = kept_of_import.entry(name.import).or_insert((0, 0));
        *kept += usize::from(*is_kept);
        *all += 1;
    }
    let mut imports = Vec::with_capacity(parser.record.items.imports.len());
    let mut count = 0;
    for (number, import) in parser.record.items.imports.iter().enumerate() {
        let is_dropped = kept_of_import.get(&number).is_some_and(|(kept, _)| *kept == 0);
        if is_dropped {
            parser.record.edits.erase_item(import.start, import.end);
            imports.push(None);
        } else {
            imports.push(Some(count));
            count += 1;
        }
    }
    for (number, (name, is_kept)) in parser.record.items.names.iter().zip(&names).enumerate() {
        if *is_kept || imports[name.import].is_none() {
            continue;
        }
        parser.record.edits.erase(name.start, name.end);
        // Without `* as name`, the comma after the default import is erased, too.
        if name.imported.is_none()
            && let Some(default) = number.checked_sub(1).map(|before| &parser.record.items.names[before])
            && default.import == name.import
        {
            let length = parser.record.scopes.names.text(default.local).len() as u32;
            parser.record.edits.erase(default.position + length, default.end);
        }
    }
    Kept { imports, names }
}

/// Fails at the first name that is imported and declared again in the outermost scope. Imports and declarations that are
/// erased do not count.
fn check_imported_names(parser: &Parser<'_, '_>, kept: &Kept) -> Parse<()> {
    let scopes = &parser.record.scopes;
    let mut seen = BTreeMap::new();
    for declaration in scopes.declarations().iter().filter(|declaration| declaration.scope == ScopeId::OUTERMOST) {
        let is_import = match declaration.binding {
            Binding::Import(number) if kept.names[number as usize] => true,
            Binding::Import(_) | Binding::Alias(_) | Binding::Type | Binding::Ambient | Binding::Member(..) => continue,
            Binding::Value
            | Binding::Constant(_)
            | Binding::Function
            | Binding::Class
            | Binding::Enum(_)
            | Binding::Namespace(_) => false,
        };
        let was_import = seen.insert(declaration.name, is_import);
        if was_import.is_some_and(|was_import| was_import || is_import) {
            let name = scopes.names.text(declaration.name);
            let fault = match (was_import, is_import) {
                (Some(true), true) => "is imported twice",
                _ => "is both imported and declared in this module",
            };
            return Err(ParseError::fault(format!("`{name}` {fault}"), declaration.start));
        }
    }
    Ok(())
}

/// Erases the exports in braces that are types. Returns for every export whether it remains.
fn keep_exports(parser: &mut Parser<'_, '_>) -> Parse<Vec<bool>> {
    let mut values = BTreeSet::new();
    let (mut types, mut ambient) = (BTreeSet::new(), BTreeSet::new());
    for declaration in
        parser.record.scopes.declarations().iter().filter(|declaration| declaration.scope == ScopeId::OUTERMOST)
    {
        if declaration.binding.is_value() {
            values.insert(declaration.name);
        } else {
            types.insert(declaration.name);
            if declaration.binding == Binding::Ambient {
                ambient.insert(declaration.name);
            }
        }
    }
    let mut kept = Vec::with_capacity(parser.record.items.exports.len());
    let mut seen = BTreeSet::new();
    for item in &parser.record.items.exports {
        kept.push(match item {
            ExportItem::Specifier { name, local, start, end } if types.contains(local) && !values.contains(local) => {
                parser.record.edits.erase(*start, *end);
                parser.record.items.types.push(name.clone());
                false
            }
            ExportItem::DefaultName { local, start, end } if types.contains(local) && !values.contains(local) => {
                let is_ambient = ambient.contains(local);
                if !is_ambient {
                    parser.record.edits.erase_item(*start, *end);
                    parser.record.items.types.push("default".to_owned());
                }
                is_ambient
            }
            ExportItem::Specifier { local, start, .. } if !values.contains(local) => {
                let name = parser.record.scopes.names.text(*local);
                return Err(ParseError::fault(format!("the export `{name}` is not declared in this module"), *start));
            }
            ExportItem::Specifier { name, start: at, .. } | ExportItem::From { name, position: at, .. } => {
                if !seen.insert(name.clone()) {
                    return Err(ParseError::fault(format!("duplicate export `{name}`"), *at));
                }
                true
            }
            // A function or class merged with a namespace is exported once.
            ExportItem::Local { name, .. } => seen.insert(name.clone()),
            ExportItem::DefaultName { .. } | ExportItem::All { .. } => true,
        });
    }
    Ok(kept)
}

/// The records that linking needs.
fn records(parser: &Parser<'_, '_>, kept: &Kept, kept_exports: &[bool]) -> Module {
    let items = &parser.record.items;
    let mut offsets: Vec<u32> = items.imports.iter().map(|import| import.position).collect();
    offsets.extend(items.names.iter().map(|name| name.position));
    offsets.extend(items.exports.iter().filter_map(|item| match item {
        ExportItem::From { position, .. } => Some(*position),
        _ => None,
    }));
    let places = places(parser.text(), offsets);
    let place = |offset: u32| places.get(&offset).copied().unwrap_or(Position { line: 1, column: 1 });
    let text_of = |name| parser.record.scopes.names.text(name).to_owned();
    let mut module = Module::default();
    for (import, number) in items.imports.iter().zip(&kept.imports) {
        if number.is_some() {
            let position = place(import.position);
            module.requests.push(Request { specifier: import.specifier.clone(), position });
        }
    }
    for (name, is_kept) in items.names.iter().zip(&kept.names) {
        if let (true, Some(request)) = (*is_kept, kept.imports[name.import]) {
            let imported = name.imported.clone().map_or(Imported::Namespace, Imported::Name);
            let position = place(name.position);
            module.imports.push(Import { request, imported, local: text_of(name.local), position });
        }
    }
    for (item, _) in items.exports.iter().zip(kept_exports).filter(|(_, is_kept)| **is_kept) {
        let request = |import: &usize| kept.imports[*import].unwrap_or_default();
        module.exports.push(match item {
            ExportItem::Local { name, local } => Export::Local { name: name.clone(), local: local.clone() },
            ExportItem::Specifier { name, local, .. } => Export::Local { name: name.clone(), local: text_of(*local) },
            ExportItem::From { name, import, imported, position } => Export::From {
                name: name.clone(),
                request: request(import),
                imported: imported.clone().map_or(Imported::Namespace, Imported::Name),
                position: place(*position),
            },
            ExportItem::DefaultName { .. } => {
                Export::Local { name: "default".to_owned(), local: "*default*".to_owned() }
            }
            ExportItem::All { import } => Export::All { request: request(import) },
        });
    }
    let exported: BTreeSet<_> = module.exports.iter().filter_map(Export::name).collect();
    module.types = items.types.iter().filter(|name| !exported.contains(name.as_str())).cloned().collect();
    module
}

/// The positions of `offsets` in `text`, in one pass.
fn places(text: &str, mut offsets: Vec<u32>) -> BTreeMap<u32, Position> {
    offsets.sort_unstable();
    let mut cursor = positions::Cursor::new(text);
    offsets.into_iter().map(|offset| (offset, cursor.position(offset as usize))).collect()
}
