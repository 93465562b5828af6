//! How a module is tied to others: what it asks for, imports and exports, read from its tree.
//!
//! The tree is the one that is printed, without types, so what is not in the records is not in the code.
//! Its spans are still those of the source.

use std::collections::HashSet;

use execbox_core::language::{Export, Import, Imported, Module, Position, Request};
use oxc_ast::ast::{
    BindingIdentifier, Declaration, ExportAllDeclaration, ExportDefaultDeclaration, ExportDefaultDeclarationKind,
    ExportFromDeclaration, ImportDeclaration, ImportDeclarationSpecifier, ModuleExportName, Program, Statement,
    StringLiteral,
};
use oxc_span::{GetSpan, Span};

use crate::Fault;
use crate::positions::Cursor;

/// The records of `program`, whose code is still to be printed. `candidates` are the
/// [`type_names`] that it had before types were erased.
///
/// The TypeScript parser lets a name be exported twice, as overloads and merged declarations are. When types
/// are gone it is an error.
pub(crate) fn read(program: &Program<'_>, candidates: Vec<String>) -> Result<Module, Fault> {
    let mut reader = Reader {
        cursor: Cursor::new(program.source_text),
        module: Module::default(),
        names: HashSet::new(),
        duplicate: None,
    };
    for item in &program.body {
        match item {
            Statement::ImportDeclaration(import) => reader.import(import),
            Statement::ExportDeclaration(export) => {
                for_each_name(&export.declaration, |id| reader.export_local(&id.name, &id.name, id.span));
            }
            Statement::ExportDefaultDeclaration(export) => reader.export_default(export),
            Statement::ExportNamedDeclaration(export) => {
                for one in &export.specifiers {
                    reader.export_local(&one.exported.name(), &one.local.name(), one.exported.span());
                }
            }
            Statement::ExportFromDeclaration(export) => reader.export_from(export),
            Statement::ExportAllDeclaration(export) => reader.export_all(export),
            _ => {}
        }
    }
    if let Some(fault) = reader.duplicate {
        return Err(fault);
    }
    let Reader { mut module, names: values, .. } = reader;
    module.types = candidates.into_iter().filter(|name| !values.contains(name)).collect();
    Ok(module)
}

struct Reader<'t> {
    cursor: Cursor<'t>,
    module: Module,
    /// What is exported so far.
    names: HashSet<String>,
    duplicate: Option<Fault>,
}

impl Reader<'_> {
    fn import(&mut self, import: &ImportDeclaration<'_>) {
        let request = self.module.requests.len();
        for specifier in import.specifiers.iter().flatten() {
            let local = specifier.local();
            let (imported, span) = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(named) => {
                    (Imported::Name(named.imported.name().to_string()), named.imported.span())
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(_) => {
                    (Imported::Name("default".to_owned()), local.span)
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(_) => (Imported::Namespace, local.span),
            };
            let position = self.position(span);
            self.module.imports.push(Import { request, imported, local: local.name.to_string(), position });
        }
        self.request(&import.source);
    }

    fn export_local(&mut self, name: &str, local: &str, span: Span) {
        self.export(Export::Local { name: name.to_owned(), local: local.to_owned() }, span);
    }

    fn export(&mut self, export: Export, span: Span) {
        if let Some(name) = export.name()
            && !self.names.insert(name.to_owned())
        {
            let message = format!("Duplicated export '{name}'");
            self.duplicate.get_or_insert(Fault::new(message, span.start as usize));
        }
        self.module.exports.push(export);
    }

    fn export_default(&mut self, export: &ExportDefaultDeclaration<'_>) {
        let id = match &export.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(function) => function.id.as_ref(),
            ExportDefaultDeclarationKind::ClassDeclaration(class) => class.id.as_ref(),
            _ => None,
        };
        self.export_local("default", id.map_or("*default*", |id| id.name.as_str()), export.span);
    }

    fn export_from(&mut self, export: &ExportFromDeclaration<'_>) {
        let request = self.module.requests.len();
        for one in &export.specifiers {
            let name = one.exported.name().to_string();
            let imported = Imported::Name(one.local.name().to_string());
            let position = self.position(one.local.span());
            self.export(Export::From { name, request, imported, position }, one.exported.span());
        }
        self.request(&export.source);
    }

    fn export_all(&mut self, export: &ExportAllDeclaration<'_>) {
        let request = self.module.requests.len();
        let entry = match &export.exported {
            None => Export::All { request },
            Some(name) => {
                let position = self.position(name.span());
                Export::From { name: name.name().to_string(), request, imported: Imported::Namespace, position }
            }
        };
        self.export(entry, export.span);
        self.request(&export.source);
    }

    fn request(&mut self, source: &StringLiteral<'_>) {
        let position = self.position(source.span);
        self.module.requests.push(Request { specifier: source.value.to_string(), position });
    }

    fn position(&mut self, span: Span) -> Position {
        self.cursor.position(span.start as usize)
    }
}

/// The names that `declaration` binds as values.
fn for_each_name(declaration: &Declaration<'_>, mut each: impl FnMut(&BindingIdentifier<'_>)) {
    match declaration {
        Declaration::VariableDeclaration(variables) => {
            for declarator in &variables.declarations {
                declarator.id.get_binding_identifiers().into_iter().for_each(&mut each);
            }
        }
        Declaration::FunctionDeclaration(function) => function.id.iter().for_each(each),
        Declaration::ClassDeclaration(class) => class.id.iter().for_each(each),
        _ => {}
    }
}

/// The names under which `program`, as it was written, exports what may be types and nothing else.
pub(crate) fn type_names(program: &Program<'_>) -> Vec<String> {
    let mut names = Vec::new();
    let mut add = |name: &str| names.push(name.to_owned());
    for item in &program.body {
        match item {
            Statement::ExportDeclaration(export) => match &export.declaration {
                Declaration::TSTypeAliasDeclaration(alias) => add(&alias.id.name),
                Declaration::TSInterfaceDeclaration(interface) => add(&interface.id.name),
                _ => {}
            },
            Statement::ExportDefaultDeclaration(export)
                if matches!(export.declaration, ExportDefaultDeclarationKind::TSInterfaceDeclaration(_)) =>
            {
                add("default");
            }
            Statement::ExportNamedDeclaration(export) => {
                export.specifiers.iter().for_each(|one| add(&name(&one.exported)));
            }
            Statement::ExportFromDeclaration(export) => {
                export.specifiers.iter().for_each(|one| add(&name(&one.exported)));
            }
            _ => {}
        }
    }
    names
}

fn name(name: &ModuleExportName<'_>) -> String {
    name.name().to_string()
}
