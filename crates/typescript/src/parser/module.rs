//! Imports and exports of modules, and their meaning in scripts.

use super::expression::{GrammarFlags, PHASE};
use super::{Declare, ExpressionKind, Parser, SourceLanguage, StatementKind};
use crate::Parse;
use crate::constructs::{AliasItem, Exported};
use crate::lexer::{Kind, Token};
use crate::scopes::{Binding, NameId, Use};
use crate::strings;

pub(crate) const NO_MODULES: &str =
    "`import` and `export` of modules are not supported in scripts; call tools directly by their namespaces";

/// The imports and exports of a source, in order.
#[derive(Debug, Default)]
pub(crate) struct ModuleItems {
    pub(crate) imports: Vec<ImportDeclaration>,
    pub(crate) names: Vec<ImportedName>,
    pub(crate) exports: Vec<ExportItem>,
    /// Names that are exported as types.
    pub(crate) types: Vec<String>,
    /// The default export of a script.
    pub(crate) default: Option<ExportDefault>,
    /// Classes that a script declares at its outermost level.
    pub(crate) classes: Vec<NameId>,
}

impl ModuleItems {
    /// The memory of the records, beside the bytes of their strings.
    pub(super) fn bytes(&self) -> usize {
        self.imports.capacity() * (size_of::<ImportDeclaration>() + STRING)
            + self.names.capacity() * (size_of::<ImportedName>() + STRING)
            + self.exports.capacity() * (size_of::<ExportItem>() + 2 * STRING)
            + self.types.capacity() * (size_of::<String>() + STRING)
            + self.classes.capacity() * size_of::<NameId>()
    }

    pub(super) fn mark(&self) -> ItemsMark {
        let Self { imports, names, exports, types, .. } = self;
        ItemsMark { lengths: [imports.len(), names.len(), exports.len(), types.len()], default: self.default }
    }

    pub(super) fn rewind(&mut self, mark: ItemsMark) {
        let [imports, names, exports, types] = mark.lengths;
        self.imports.truncate(imports);
        self.names.truncate(names);
        self.exports.truncate(exports);
        self.types.truncate(types);
        self.default = mark.default;
    }
}

/// The recorded items, to rewind to.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemsMark {
    lengths: [usize; 4],
    default: Option<ExportDefault>,
}

/// The size of an allocation for a string beside its bytes.
const STRING: usize = 24;

/// `import … from "specifier"` or `export … from "specifier"`.
#[derive(Debug)]
pub(crate) struct ImportDeclaration {
    pub(crate) specifier: String,
    /// The offset of the specifier.
    pub(crate) position: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// One name that an import declaration binds.
#[derive(Debug)]
pub(crate) struct ImportedName {
    /// The index of the import declaration in [`ModuleItems::imports`].
    pub(crate) import: usize,
    /// The name in the other module; `None` is its namespace.
    pub(crate) imported: Option<String>,
    pub(crate) local: NameId,
    /// The offset of the imported name; for defaults and namespaces, of the local name.
    pub(crate) position: u32,
    /// The range to erase if the name is not needed: the specifier with a comma.
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// One export.
#[derive(Debug)]
pub(crate) enum ExportItem {
    /// The export of a declaration or an expression.
    Local {
        name: String,
        local: String,
    },
    /// `local as name` in braces. The range, which begins with the local name, is erased if it is a type.
    Specifier {
        name: String,
        local: NameId,
        start: u32,
        end: u32,
    },
    /// `export default local`. The range is erased if it is a type.
    DefaultName {
        local: NameId,
        start: u32,
        end: u32,
    },
    /// `imported as name` from the import with this number; `None` is its namespace.
    From {
        name: String,
        import: usize,
        imported: Option<String>,
        position: u32,
    },
    All {
        import: usize,
    },
}

/// The default export of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExportDefault {
    /// The start and end of its name; `None` if it has none.
    pub(crate) name: Option<(u32, u32)>,
    pub(crate) call: Call,
}

/// Whether the default export of a script is called for the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Always,
    /// Called if the export is a function, which is checked at run time.
    IfFunction,
    /// Never called, as classes and generator functions.
    Never,
}

/// One name in the braces of an import or export.
#[derive(Debug, Clone, Copy)]
pub(super) struct Specifier {
    /// The first name.
    outside: Token,
    /// The name after `as`, or the first name.
    inside: Token,
    is_type: bool,
    start: u32,
    end: u32,
}

impl Parser<'_, '_> {
    // ---- imports

    pub(super) fn import_declaration(&mut self) -> Parse<StatementKind> {
        let start = self.token().start;
        self.advance()?;
        if self.is(Kind::String) {
            return self.import_from(start);
        }
        let is_type = self.options.typescript && self.is_word("type") && self.is_type_import()?;
        if self.typescript(is_type) {
            self.advance()?;
        }
        if self.is_word("defer") || self.is_word("source") {
            let next = self.peek()?;
            if next.kind == Kind::Star || (next.kind == Kind::Name && !self.token_is_word(next, "from")) {
                return self.refuse(PHASE, start);
            }
        }
        let is_alias = self.options.typescript && self.is(Kind::Name) && self.peek()?.kind == Kind::Equals;
        if self.typescript(is_alias) {
            return self.import_alias(start, start, is_type);
        }
        let (names, imports) = (self.record.items.names.len(), self.record.items.imports.len());
        let is_only_types = self.import_clause(imports, is_type)?;
        self.expect_word("from")?;
        if !is_type && !is_only_types {
            return self.import_from(start);
        }
        self.request(start)?;
        self.record.items.names.truncate(names);
        self.record.items.imports.truncate(imports);
        Ok(self.erased(start))
    }

    /// The names of an import. Returns whether all of them are types by their own modifiers, and there are any.
    fn import_clause(&mut self, import: usize, is_type: bool) -> Parse<bool> {
        let has_default = self.is_binding_name();
        if has_default {
            let local = self.token();
            self.import_name(import, Some("default".to_owned()), local, local.start, (local.start, local.end), is_type);
            self.advance()?;
            if self.is(Kind::Comma) {
                let comma = self.token().end;
                self.advance()?;
                if let Some(name) = self.record.items.names.last_mut() {
                    name.end = comma;
                }
            }
        }
        if self.is(Kind::Star) {
            let star = self.token().start;
            self.advance()?;
            self.expect_word("as")?;
            let local = self.token();
            if !self.is_binding_name() {
                return Err(self.unexpected("expected a name"));
            }
            self.import_name(import, None, local, local.start, (star, local.end), is_type);
            self.advance()?;
            return Ok(false);
        }
        let is_only_types = self.is(Kind::BraceOpen) && self.imported_specifiers(import, is_type)?;
        Ok(is_only_types && !has_default)
    }

    /// The names in the braces of an import. Returns whether all of them are types, and there are any.
    fn imported_specifiers(&mut self, import: usize, is_type: bool) -> Parse<bool> {
        let specifiers = self.specifiers()?;
        for Specifier { outside, inside, is_type: is_only_type, start, end } in &specifiers {
            if *is_only_type || is_type {
                self.record.edits.erase(*start, *end);
                self.declare(*inside, Declare::of(Binding::Type));
            } else {
                let name = self.outside_name(*outside);
                self.import_name(import, Some(name), *inside, outside.start, (*start, *end), false);
            }
        }
        Ok(!specifiers.is_empty() && specifiers.iter().all(|specifier| specifier.is_type))
    }

    /// Whether `type`, the current token, is the modifier of a type import.
    fn is_type_import(&mut self) -> Parse<bool> {
        let next = self.peek()?;
        if matches!(next.kind, Kind::BraceOpen | Kind::Star) {
            return Ok(true);
        }
        if next.kind != Kind::Name {
            return Ok(false);
        }
        if !self.token_is_word(next, "from") {
            return Ok(true);
        }
        let third = self.token_after(next)?;
        Ok(self.token_is_word(third, "from") || third.kind == Kind::Equals)
    }

    fn import_name(
        &mut self,
        import: usize,
        imported: Option<String>,
        local: Token,
        position: u32,
        (start, end): (u32, u32),
        is_type: bool,
    ) {
        let number = self.record.items.names.len() as u32;
        let binding = if is_type { Binding::Type } else { Binding::Import(number) };
        self.declare(local, Declare::of(binding));
        let local = self.name_id(local);
        self.record.items.names.push(ImportedName { import, imported, local, position, start, end });
    }

    /// The specifier and the end of an import of values. In a script only types can be imported; how the names of
    /// TypeScript are used is known later.
    fn import_from(&mut self, start: u32) -> Parse<StatementKind> {
        let import = self.request(start)?;
        let has_names = self.record.items.names.last().is_some_and(|name| name.import == import);
        if self.options.script && !(self.options.typescript && has_names) {
            return self.refuse(NO_MODULES, start);
        }
        if !self.options.script {
            return Ok(StatementKind::Other);
        }
        self.record.note(SourceLanguage::TypeScript);
        self.need_names()?;
        Ok(StatementKind::Nothing)
    }

    /// `"specifier"` and the attributes after it.
    fn request(&mut self, start: u32) -> Parse<usize> {
        if !self.is(Kind::String) {
            return Err(self.unexpected("expected a module specifier (a string)"));
        }
        let token = self.token();
        self.advance()?;
        if self.is_word("with") {
            let with = self.token().start;
            self.advance()?;
            let empty = self.is(Kind::BraceOpen) && self.peek()?.kind == Kind::BraceClose;
            if !empty && !self.options.script {
                let message = "import attributes are not supported; every module is JavaScript or TypeScript";
                return self.refuse(message, with);
            }
            self.object()?;
        }
        self.end_statement()?;
        let specifier = strings::value(self.text_of(token));
        let (position, end) = (token.start, self.before());
        self.record.items.imports.push(ImportDeclaration { specifier, position, start, end });
        Ok(self.record.items.imports.len() - 1)
    }

    /// `import a = …`, from the name on.
    fn import_alias(&mut self, start: u32, import: u32, is_type: bool) -> Parse<StatementKind> {
        self.need_names()?;
        let exported = if start == import { Exported::No } else { self.exported_alias(start) };
        let name = self.token();
        let number = self.record.lowered.aliases.len() as u32;
        let is_member = matches!(exported, Exported::ByNamespace(..));
        let binding = if is_type { Binding::Type } else { Binding::Alias(number) };
        self.binding_name(Declare { exported: is_member, is_variable: true, ..Declare::of(binding) })?;
        if is_member {
            self.refer(name, Use::Value);
        }
        self.expect(Kind::Equals, "=")?;
        let is_require = self.is_word("require") && self.peek()?.kind == Kind::ParenOpen;
        if is_require {
            if !is_type && !self.context.is_ambient {
                let message = "`import … = require(…)` is not supported in ES modules; use `import … from …`";
                return self.refuse(if self.options.script { NO_MODULES } else { message }, start);
            }
            self.advance()?;
            self.arguments()?;
        } else {
            self.entity_name(if is_type { Use::Type } else { Use::Value })?;
        }
        let end = self.before();
        self.end_statement()?;
        if is_type || self.context.is_ambient {
            return Ok(self.erased(start));
        }
        let local = self.name_id(name);
        if let Exported::ByModule(_) = exported
            && !self.options.script
        {
            let name = self.record.scopes.names.text(local).to_owned();
            self.record.items.exports.push(ExportItem::Local { local: name.clone(), name });
        }
        self.record.lowered.aliases.push(AliasItem {
            name: (local, name.start, name.end),
            import,
            exported,
            end,
            statement: (start, self.before()),
        });
        Ok(StatementKind::Declaration)
    }

    /// Erases the whole statement, which began at `start`.
    fn erased(&mut self, start: u32) -> StatementKind {
        self.record.edits.erase_item(start, self.before());
        StatementKind::Nothing
    }

    fn exported_alias(&self, export: u32) -> Exported {
        match self.context.namespace {
            Some(namespace) => Exported::ByNamespace(namespace, export),
            None => Exported::ByModule(export),
        }
    }

    // ---- exports

    pub(super) fn export_declaration(&mut self) -> Parse<StatementKind> {
        let start = self.token().start;
        self.advance()?;
        match self.token().kind {
            Kind::Star => return self.export_all(start, false),
            Kind::BraceOpen => return self.export_names(start, false),
            Kind::Equals => {
                if !self.options.script && !self.context.is_ambient {
                    return self.refuse("`export =` is not supported in ES modules; use `export default`", start);
                }
                self.advance()?;
                return self.default_value(start);
            }
            Kind::At => return self.refuse("decorators are not supported", self.token().start),
            _ => {}
        }
        if self.options.typescript && self.is_word("type") {
            let next = self.peek()?.kind;
            if self.typescript(matches!(next, Kind::Star | Kind::BraceOpen)) {
                self.advance()?;
                return if next == Kind::Star { self.export_all(start, true) } else { self.export_names(start, true) };
            }
        }
        if self.is_word("default") {
            self.advance()?;
            return self.export_default(start);
        }
        if self.typescript(self.is_word("as")) {
            self.advance()?;
            self.expect_word("namespace")?;
            self.eat(Kind::Name)?;
            self.end_statement()?;
            return Ok(self.erased(start));
        }
        if self.typescript(self.is_word("import")) {
            let import = self.token().start;
            self.advance()?;
            let is_type = self.is_word("type") && self.is_type_import()?;
            if is_type {
                self.advance()?;
            }
            return self.import_alias(start, import, is_type);
        }
        self.export_of_declaration(start)
    }

    /// A declaration after `export`.
    fn export_of_declaration(&mut self, start: u32) -> Parse<StatementKind> {
        let at = self.token().start;
        let word = if self.is(Kind::Name) { self.text_of(self.token()) } else { "" };
        let is_enum = word == "const" && {
            let next = self.peek()?;
            self.options.typescript && self.token_is_word(next, "enum")
        };
        let is_variable = matches!(word, "var" | "let" | "const") && !is_enum;
        let in_namespace = self.context.namespace.is_some();
        let first = self.record.scopes.declarations().len();
        if is_variable && in_namespace {
            self.exported_members(start)?;
            return Ok(if self.context.is_ambient { StatementKind::Ambient } else { StatementKind::Declaration });
        }
        let kind = match word {
            _ if is_enum => {
                self.advance()?;
                self.typescript_statement(at, Some(start))?
            }
            "var" | "let" | "const" | "function" | "async" | "class" => self.declaration(word)?,
            _ if self.options.typescript => self.typescript_statement(at, Some(start))?,
            _ => None,
        };
        let Some(kind) = kind else { return Err(self.unexpected("expected a declaration, `default`, `{` or `*`")) };
        if kind.is_erased() {
            if matches!(word, "type" | "interface") {
                self.export_type(first);
            }
            self.record.edits.erase_item(start, self.before());
            return Ok(kind);
        }
        match self.context.namespace {
            Some(namespace) if matches!(word, "function" | "async" | "class" | "abstract") => {
                self.record.edits.erase(start, at);
                self.record.scopes.set_exported(first);
                self.record.lowered.assigned.push((namespace, first, self.before()));
            }
            Some(_) => {}
            None if self.options.script => {
                if !matches!(word, "enum" | "namespace" | "module") && !is_enum {
                    self.record.edits.erase(start, at);
                }
            }
            None => self.export_values(first),
        }
        Ok(kind)
    }

    /// Exports the type that was declared last.
    fn export_type(&mut self, declaration: usize) {
        if let Some(declaration) = self.record.scopes.declarations().get(declaration)
            && self.context.namespace.is_none()
        {
            let name = self.record.scopes.names.text(declaration.name).to_owned();
            self.record.items.types.push(name);
        }
    }

    /// Exports the declarations of this scope from `first` on.
    fn export_values(&mut self, first: usize) {
        let scope = self.record.scopes.current();
        let names: Vec<String> = self.record.scopes.declarations()[first..]
            .iter()
            .filter(|declaration| declaration.scope == scope)
            .map(|declaration| self.record.scopes.names.text(declaration.name).to_owned())
            .collect();
        for name in names {
            self.record.items.exports.push(ExportItem::Local { local: name.clone(), name });
        }
    }

    fn export_all(&mut self, start: u32, is_type: bool) -> Parse<StatementKind> {
        self.advance()?;
        let mut name = None;
        if self.eat_word("as")? {
            let token = self.specifier_name()?;
            name = Some((self.outside_name(token), token.start));
        }
        self.expect_word("from")?;
        let import = self.request(start)?;
        if is_type {
            self.record.items.imports.truncate(import);
            self.record.items.types.extend(name.map(|(name, _)| name));
            return Ok(self.erased(start));
        }
        if self.options.script {
            return self.refuse(NO_MODULES, start);
        }
        self.record.items.exports.push(match name {
            Some((name, position)) => ExportItem::From { name, import, imported: None, position },
            None => ExportItem::All { import },
        });
        Ok(StatementKind::Other)
    }

    fn export_names(&mut self, start: u32, is_type: bool) -> Parse<StatementKind> {
        let specifiers = self.specifiers()?;
        let import = if self.eat_word("from")? {
            Some(self.request(start)?)
        } else {
            self.end_statement()?;
            None
        };
        let is_erased = is_type || (!specifiers.is_empty() && specifiers.iter().all(|specifier| specifier.is_type));
        if self.options.script && import.is_some() && !is_erased {
            return self.refuse(NO_MODULES, start);
        }
        for Specifier { outside, inside, is_type: is_only_type, start: at, end } in specifiers {
            let name = self.outside_name(inside);
            let is_type = is_type || is_only_type;
            if self.options.script {
                if name == "default" && !is_type {
                    let name = Some((outside.start, outside.end));
                    self.set_default(start, ExportDefault { name, call: Call::IfFunction })?;
                }
            } else if is_type {
                self.record.edits.erase(at, end);
                self.record.items.types.push(name);
            } else {
                let item = match import {
                    Some(import) => {
                        let (imported, position) = (Some(self.outside_name(outside)), outside.start);
                        ExportItem::From { name, import, imported, position }
                    }
                    None => ExportItem::Specifier { name, local: self.name_id(outside), start: at, end },
                };
                self.record.items.exports.push(item);
            }
        }
        if !is_erased && !self.options.script {
            return Ok(StatementKind::Other);
        }
        if let Some(import) = import {
            self.record.items.imports.truncate(import);
        }
        Ok(self.erased(start))
    }

    /// The names in the braces of an import or export.
    fn specifiers(&mut self) -> Parse<Vec<Specifier>> {
        self.advance()?;
        self.record.specifiers.clear();
        while !self.is(Kind::BraceClose) {
            let start = self.token().start;
            let is_type = self.options.typescript && self.is_word("type") && self.is_type_specifier()?;
            if self.typescript(is_type) {
                self.advance()?;
            }
            let outside = self.specifier_name()?;
            let inside = if self.eat_word("as")? { self.specifier_name()? } else { outside };
            let has_comma = self.eat(Kind::Comma)?;
            self.record.specifiers.push(Specifier { outside, inside, is_type, start, end: self.before() });
            if !has_comma {
                break;
            }
        }
        if !self.is(Kind::BraceClose) {
            return Err(self.unexpected("expected `,` or `}`"));
        }
        self.advance()?;
        Ok(std::mem::take(&mut self.record.specifiers))
    }

    /// Whether `type`, the current token, is the modifier of a name in braces. `{ type }`, `{ type as x }` name something
    /// called `type`; `{ type as }` a type called `as`.
    fn is_type_specifier(&mut self) -> Parse<bool> {
        let next = self.peek()?;
        if !self.token_is_word(next, "as") {
            return Ok(matches!(next.kind, Kind::Name | Kind::String));
        }
        let third = self.token_after(next)?;
        Ok(match third.kind {
            Kind::Comma | Kind::BraceClose => true,
            _ if self.token_is_word(third, "as") => self.token_after(third)?.kind == Kind::Name,
            _ => false,
        })
    }

    /// A name of an import or export, which may be a string.
    fn specifier_name(&mut self) -> Parse<Token> {
        let token = self.token();
        if !matches!(token.kind, Kind::Name | Kind::String) {
            return Err(self.unexpected("expected a name"));
        }
        self.advance()?;
        Ok(token)
    }

    /// The text of a name of an import or export, which may be a string.
    fn outside_name(&self, token: Token) -> String {
        match token.kind {
            Kind::String => strings::value(self.text_of(token)),
            _ => crate::scopes::unescaped(self.text_of(token)),
        }
    }

    // ---- default exports

    fn export_default(&mut self, start: u32) -> Parse<StatementKind> {
        let at = self.token().start;
        let next = self.peek()?;
        let is_async = self.is_word("async") && self.token_is_word(next, "function") && !next.on_new_line;
        if self.is_word("function") || is_async {
            return self.default_function(start, is_async);
        }
        let is_abstract = self.options.typescript && self.is_word("abstract") && self.token_is_word(next, "class");
        if is_abstract {
            self.record.note(SourceLanguage::typescript_unless(next.on_new_line));
            self.record.edits.erase(at, next.start);
            self.advance()?;
        }
        if self.is_word("class") {
            return self.default_class(start);
        }
        if self.options.typescript && self.is_word("interface") && next.kind == Kind::Name && !next.on_new_line {
            self.typescript_statement(at, Some(start))?;
            self.record.items.types.push("default".to_owned());
            return Ok(StatementKind::Nothing);
        }
        self.default_value(start)
    }

    fn default_function(&mut self, start: u32, is_async: bool) -> Parse<StatementKind> {
        let at = self.token().start;
        if is_async {
            self.advance()?;
        }
        self.advance()?;
        let is_generator = self.eat(Kind::Star)?;
        let mut name = None;
        if self.is_binding_name() {
            name = Some(self.binding_name(Declare::of(Binding::Function))?);
        }
        if !self.declared_function(start, is_async, is_generator)? {
            return Ok(StatementKind::Nothing);
        }
        self.set_default_of(start, at, name, if is_generator { Call::Never } else { Call::Always })
    }

    fn default_class(&mut self, start: u32) -> Parse<StatementKind> {
        let at = self.token().start;
        self.advance()?;
        let mut name = None;
        if self.is_binding_name() && !self.is_word("implements") {
            let token = self.binding_name(Declare::of(Binding::Class))?;
            name = Some(token);
        }
        self.in_block(Self::class_rest)?;
        self.set_default_of(start, at, name, Call::Never)
    }

    /// Makes the declaration at `at` the default export.
    fn set_default_of(&mut self, start: u32, at: u32, name: Option<Token>, call: Call) -> Parse<StatementKind> {
        if !self.options.script {
            self.check_only_default(start)?;
            let local = name.map_or_else(|| "*default*".to_owned(), |name| self.outside_name(name));
            self.record.items.exports.push(ExportItem::Local { name: "default".to_owned(), local });
            return Ok(StatementKind::Other);
        }
        self.set_default(start, ExportDefault { name: name.map(|name| (name.start, name.end)), call })?;
        match name {
            Some(_) => self.record.edits.erase(start, at),
            None => self.record.edits.insert(self.before(), ";"),
        }
        Ok(StatementKind::Other)
    }

    /// Makes the value of an expression the default export.
    fn default_value(&mut self, start: u32) -> Parse<StatementKind> {
        let value = self.assignment(GrammarFlags::ANYWHERE)?;
        self.end_statement()?;
        if !self.options.script {
            self.check_only_default(start)?;
            let name = "default".to_owned();
            if self.options.typescript && value.kind == ExpressionKind::Name {
                let local = self.record.scopes.names.id(&self.text()[value.start as usize..value.end as usize], true);
                self.record.items.exports.push(ExportItem::DefaultName { local, start, end: self.before() });
            } else {
                self.record.items.exports.push(ExportItem::Local { name, local: "*default*".to_owned() });
            }
            return Ok(StatementKind::Other);
        }
        let call = match value.kind {
            ExpressionKind::Class | ExpressionKind::Function { is_generator: true, .. } => Call::Never,
            _ => Call::IfFunction,
        };
        self.record.lowered.default_value = (value.kind == ExpressionKind::Name).then_some((value.start, value.end));
        self.set_default(start, ExportDefault { name: None, call })?;
        Ok(StatementKind::Other)
    }

    /// Fails if the module has a default export already.
    fn check_only_default(&self, start: u32) -> Parse<()> {
        let is_default = |item: &ExportItem| match item {
            ExportItem::Local { name, .. } => name == "default",
            ExportItem::DefaultName { .. } => true,
            _ => false,
        };
        if !self.context.is_ambient && self.record.items.exports.iter().any(is_default) {
            return self.refuse("a module can have only one default export", start);
        }
        Ok(())
    }

    fn set_default(&mut self, start: u32, default: ExportDefault) -> Parse<()> {
        if self.context.is_ambient {
            return Ok(());
        }
        if self.record.items.default.replace(default).is_some() {
            return self.refuse("a script can have only one default export", start);
        }
        if default.name.is_none() {
            self.record.lowered.default_export = Some(start);
        }
        Ok(())
    }
}
