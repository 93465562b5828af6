//! What the result of a script is, written into its syntax tree.
//!
//! | the program is | the result is |
//! |---|---|
//! | one async arrow or async function expression | what calling it gives |
//! | one function declaration, with or without a name (not a generator) | what calling it gives |
//! | a program with a default export | the export; if that is a function, what calling it gives |
//! | one string literal | the string |
//! | anything else | the value of the last statement, if it is an expression |
//!
//! The last statement is looked for inside blocks, `if`, `try`, `catch` and labels; loops give
//! nothing. Exports lose the `export`, because a script has no modules; imports are refused. All of
//! this happens before types are erased, so that an enum is still a declaration and not the
//! expression it becomes. Nothing here reads or writes text.

use std::collections::HashSet;

use oxc_allocator::{Allocator, ArenaBox, ArenaVec, TakeIn};
use oxc_ast::ast::{
    BinaryOperator, BindingIdentifier, BindingPattern, Class, ClassType, Declaration, ExportDefaultDeclaration,
    ExportDefaultDeclarationKind, ExportFromDeclaration, ExportNamedDeclaration, Expression, Function, FunctionType,
    Ident, IdentifierReference, ImportDeclaration, ImportDeclarationSpecifier, ModuleExportName, Program, Statement,
    TSImportEqualsDeclaration, TSModuleReference, TSNamespaceDeclarationBody, UnaryOperator, VariableDeclaration,
    VariableDeclarationKind, VariableDeclarator,
};
use oxc_ast::builder::AstBuilder;
use oxc_ast_visit::Visit;
use oxc_span::{GetSpan, SPAN, Span};

use crate::Fault;
use crate::parse::Parsed;

/// Makes `parsed` a function body that returns the script's result.
pub(crate) fn shape<'a>(arena: &'a Allocator, parsed: &mut Parsed<'a>) -> Result<(), Fault> {
    let builder = &AstBuilder::new(arena);
    let program = &mut parsed.program;
    program.hashbang = None;
    program.comments.clear();
    if program.body.iter().any(belongs_to_modules) {
        let unused_name = unused_name(program, builder);
        let mut modules = Modules { builder, unused_name, body: ArenaVec::new_in(builder), default: None };
        for statement in program.body.take_in(builder) {
            modules.lower(statement)?;
        }
        let (body, has_result) = modules.finish();
        program.body = body;
        if has_result {
            return Ok(());
        }
    }
    return_last(program, parsed.nameless_function, builder);
    Ok(())
}

/// Whether `statement` may only stand in a module, or is TypeScript's way to write such a one.
fn belongs_to_modules(statement: &Statement<'_>) -> bool {
    statement.is_module_declaration() || matches!(statement, Statement::TSImportEqualsDeclaration(_))
}

// ---- a program without a default export

/// Returns what the program's one function or its last statement gives.
fn return_last<'a>(program: &mut Program<'a>, nameless_function: bool, builder: &AstBuilder<'a>) {
    let mut lasting = program.body.iter_mut().filter(|statement| !leaves_nothing(statement));
    match (lasting.next(), lasting.next()) {
        (None, _) => {
            // Strings alone are directives; the last of them is the value.
            if let Some(directive) = program.directives.pop() {
                let string = Expression::StringLiteral(ArenaBox::new_in(directive.expression, builder));
                program.body.push(returning(directive.span, string, builder));
            }
        }
        (Some(Statement::FunctionDeclaration(function)), None) if !function.generator => {
            if let Some(id) = &function.id {
                let name = Expression::new_identifier(id.span, id.name, builder);
                let result = returning(function.span, call(name, builder), builder);
                program.body.push(result);
            }
        }
        (Some(Statement::ExpressionStatement(only)), None)
            if is_async_function(&only.expression) || (nameless_function && !is_generator(&only.expression)) =>
        {
            let function = only.expression.take_in(builder);
            only.expression = call(function, builder);
            return_from_list(&mut program.body, builder);
        }
        _ => return_from_list(&mut program.body, builder),
    }
}

/// Whether nothing is left of `statement` when types are gone.
fn leaves_nothing(statement: &Statement<'_>) -> bool {
    match statement {
        Statement::EmptyStatement(_)
        | Statement::TSTypeAliasDeclaration(_)
        | Statement::TSInterfaceDeclaration(_)
        | Statement::TSExternalModuleDeclaration(_)
        | Statement::TSGlobalDeclaration(_) => true,
        Statement::VariableDeclaration(declaration) => declaration.declare,
        Statement::FunctionDeclaration(function) => function.declare || function.body.is_none(),
        Statement::ClassDeclaration(class) => class.declare,
        Statement::TSEnumDeclaration(declaration) => declaration.declare,
        Statement::TSNamespaceDeclaration(namespace) => namespace.declare || has_only_types(&namespace.body),
        Statement::TSImportEqualsDeclaration(import) => import.import_kind.is_type(),
        _ => false,
    }
}

fn has_only_types(body: &TSNamespaceDeclarationBody<'_>) -> bool {
    match body {
        TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => has_only_types(&inner.body),
        TSNamespaceDeclarationBody::TSModuleBlock(block) => block.body.iter().all(|statement| match statement {
            Statement::ExportDeclaration(export) => matches!(
                export.declaration,
                Declaration::TSTypeAliasDeclaration(_) | Declaration::TSInterfaceDeclaration(_)
            ),
            statement => leaves_nothing(statement),
        }),
    }
}

/// Whether `expression` is an async function that can be called for its result.
fn is_async_function(expression: &Expression<'_>) -> bool {
    match expression.get_inner_expression() {
        Expression::ArrowFunctionExpression(arrow) => arrow.r#async,
        Expression::FunctionExpression(function) => function.r#async && !function.generator,
        _ => false,
    }
}

fn is_generator(expression: &Expression<'_>) -> bool {
    matches!(expression.get_inner_expression(), Expression::FunctionExpression(function) if function.generator)
}

/// Makes the last of `statements` that leaves something return its value.
fn return_from_list<'a>(statements: &mut ArenaVec<'a, Statement<'a>>, builder: &AstBuilder<'a>) {
    if let Some(last) = statements.iter_mut().rev().find(|statement| !leaves_nothing(statement)) {
        return_from(last, builder);
    }
}

/// Makes `statement` return its value, where it has one.
fn return_from<'a>(statement: &mut Statement<'a>, builder: &AstBuilder<'a>) {
    match statement {
        Statement::ExpressionStatement(expression) => {
            let value = expression.expression.take_in(builder);
            *statement = returning(expression.span, value, builder);
        }
        Statement::BlockStatement(block) => return_from_list(&mut block.body, builder),
        Statement::LabeledStatement(labeled) => return_from(&mut labeled.body, builder),
        Statement::IfStatement(branches) => {
            return_from(&mut branches.consequent, builder);
            if let Some(alternate) = &mut branches.alternate {
                return_from(alternate, builder);
            }
        }
        Statement::TryStatement(attempt) => {
            return_from_list(&mut attempt.block.body, builder);
            if let Some(handler) = &mut attempt.handler {
                return_from_list(&mut handler.body.body, builder);
            }
        }
        _ => {}
    }
}

// ---- a program with exports

/// A script's default export: what is under `name` when all statements have run.
struct Default<'a> {
    name: Ident<'a>,
    span: Span,
    call: Call,
}

/// Whether the default export is called for the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Always,
    /// As only the run can tell.
    IfFunction,
    /// Classes and generator functions are not.
    Never,
}

/// Takes the modules out of a program, statement by statement.
struct Modules<'b, 'a> {
    builder: &'b AstBuilder<'a>,
    /// A name that the program does not use, for a default export without one.
    unused_name: Ident<'a>,
    body: ArenaVec<'a, Statement<'a>>,
    default: Option<Default<'a>>,
}

impl<'a> Modules<'_, 'a> {
    fn lower(&mut self, statement: Statement<'a>) -> Result<(), Fault> {
        match statement {
            Statement::ImportDeclaration(import) => refuse_if(imports_values(&import), import.span),
            Statement::TSImportEqualsDeclaration(import) if is_require(&import) => {
                refuse_if(import.import_kind.is_value(), import.span)
            }
            Statement::ExportAllDeclaration(export) => refuse_if(export.export_kind.is_value(), export.span),
            Statement::ExportFromDeclaration(export) => refuse_if(exports_values(&export), export.span),
            Statement::TSNamespaceExportDeclaration(_) => Ok(()),
            Statement::ExportNamedDeclaration(export) => self.lower_names(export.unbox()),
            Statement::ExportDefaultDeclaration(export) => self.lower_default(export.unbox()),
            Statement::TSExportAssignment(export) => {
                let export = export.unbox();
                self.default_value(export.expression, export.span)
            }
            Statement::ExportDeclaration(export) => self.keep(Statement::from(export.unbox().declaration)),
            statement => self.keep(statement),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "one arm among many that can fail")]
    fn keep(&mut self, statement: Statement<'a>) -> Result<(), Fault> {
        self.body.push(statement);
        Ok(())
    }

    /// `export { a, b as c, d as default }`
    fn lower_names(&mut self, export: ExportNamedDeclaration<'a>) -> Result<(), Fault> {
        for specifier in export.specifiers {
            let is_value = export.export_kind.is_value() && specifier.export_kind.is_value();
            if let ModuleExportName::IdentifierReference(local) = &specifier.local
                && is_value
                && specifier.exported.name() == "default"
            {
                self.set_default(Default { name: local.name, span: local.span, call: Call::IfFunction })?;
            }
        }
        Ok(())
    }

    fn lower_default(&mut self, export: ExportDefaultDeclaration<'a>) -> Result<(), Fault> {
        match export.declaration {
            ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => Ok(()),
            ExportDefaultDeclarationKind::FunctionDeclaration(function) if function.body.is_none() => Ok(()),
            ExportDefaultDeclarationKind::FunctionDeclaration(function) => self.default_function(function, export.span),
            ExportDefaultDeclarationKind::ClassDeclaration(class) => self.default_class(class, export.span),
            declaration => self.default_value(declaration.into_expression(), export.span),
        }
    }

    /// A function with a name stays a declaration, and so is there from the start.
    fn default_function(&mut self, mut function: ArenaBox<'a, Function<'a>>, span: Span) -> Result<(), Fault> {
        let call = if function.generator { Call::Never } else { Call::Always };
        if let Some(id) = &function.id {
            let name = id.name;
            self.body.push(Statement::FunctionDeclaration(function));
            return self.set_default(Default { name, span, call });
        }
        function.r#type = FunctionType::FunctionExpression;
        self.default_under_unused_name(Expression::FunctionExpression(function), span, call)
    }

    fn default_class(&mut self, mut class: ArenaBox<'a, Class<'a>>, span: Span) -> Result<(), Fault> {
        if let Some(id) = &class.id {
            let name = id.name;
            self.body.push(Statement::ClassDeclaration(class));
            return self.set_default(Default { name, span, call: Call::Never });
        }
        class.r#type = ClassType::ClassExpression;
        self.default_under_unused_name(Expression::ClassExpression(class), span, Call::Never)
    }

    fn default_value(&mut self, value: Expression<'a>, span: Span) -> Result<(), Fault> {
        let call = match value.get_inner_expression() {
            Expression::ClassExpression(_) => Call::Never,
            Expression::Identifier(name) if self.is_class(name.name) => Call::Never,
            _ if is_generator(&value) => Call::Never,
            _ => Call::IfFunction,
        };
        self.default_under_unused_name(value, span, call)
    }

    /// `const _default = value;`, where the export was.
    fn default_under_unused_name(&mut self, value: Expression<'a>, span: Span, call: Call) -> Result<(), Fault> {
        let pattern = BindingPattern::new_binding_identifier(SPAN, self.unused_name, self.builder);
        let declarator = VariableDeclarator::new(span, pattern, None, Some(value), false, self.builder);
        let declarators = ArenaVec::from_array_in([declarator], self.builder);
        let kind = VariableDeclarationKind::Const;
        let declaration = VariableDeclaration::boxed(span, kind, declarators, false, self.builder);
        self.body.push(Statement::VariableDeclaration(declaration));
        self.set_default(Default { name: self.unused_name, span, call })
    }

    fn set_default(&mut self, default: Default<'a>) -> Result<(), Fault> {
        let offset = default.span.start as usize;
        match self.default.replace(default) {
            Some(_) => Err(Fault::new("a script can have only one default export", offset)),
            None => Ok(()),
        }
    }

    fn is_class(&self, name: Ident<'a>) -> bool {
        self.body.iter().any(|statement| match statement {
            Statement::ClassDeclaration(class) => class.id.as_ref().is_some_and(|id| id.name == name),
            _ => false,
        })
    }

    /// The statements without modules, and the result at their end if there is a default export.
    fn finish(mut self) -> (ArenaVec<'a, Statement<'a>>, bool) {
        let Some(default) = self.default.take() else { return (self.body, false) };
        let builder = self.builder;
        let value = || Expression::new_identifier(default.span, default.name, builder);
        let call_it = match default.call {
            Call::IfFunction if self.is_class(default.name) => Call::Never,
            call_it => call_it,
        };
        let result = match call_it {
            Call::Always => call(value(), builder),
            Call::Never => value(),
            Call::IfFunction => {
                let type_of = Expression::new_unary_expression(SPAN, UnaryOperator::Typeof, value(), builder);
                let function = Expression::new_string_literal(SPAN, "function", None, builder);
                let equal = BinaryOperator::StrictEquality;
                let test = Expression::new_binary_expression(SPAN, type_of, equal, function, builder);
                Expression::new_conditional_expression(SPAN, test, call(value(), builder), value(), builder)
            }
        };
        self.body.push(returning(default.span, result, builder));
        (self.body, true)
    }
}

fn refuse_if(needs_modules: bool, span: Span) -> Result<(), Fault> {
    let message = "a script has no modules to import from or export to; call the namespaces given to it directly";
    if needs_modules { Err(Fault::new(message, span.start as usize)) } else { Ok(()) }
}

/// `import "a"` and `import {} from "a"` run a module, and so are not about types.
fn imports_values(import: &ImportDeclaration<'_>) -> bool {
    let only_types = import.specifiers.as_ref().is_some_and(|specifiers| {
        !specifiers.is_empty()
            && specifiers.iter().all(|specifier| match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(specifier) => specifier.import_kind.is_type(),
                _ => false,
            })
    });
    import.import_kind.is_value() && !only_types
}

fn exports_values(export: &ExportFromDeclaration<'_>) -> bool {
    let only_types = !export.specifiers.is_empty() && export.specifiers.iter().all(|one| one.export_kind.is_type());
    export.export_kind.is_value() && !only_types
}

fn is_require(import: &TSImportEqualsDeclaration<'_>) -> bool {
    matches!(import.module_reference, TSModuleReference::ExternalModuleReference(_))
}

// ---- pieces

/// `return value;`
fn returning<'a>(span: Span, value: Expression<'a>, builder: &AstBuilder<'a>) -> Statement<'a> {
    Statement::new_return_statement(span, Some(value), builder)
}

/// `function()`
fn call<'a>(function: Expression<'a>, builder: &AstBuilder<'a>) -> Expression<'a> {
    let span = function.span();
    Expression::new_call_expression(span, function, None, ArenaVec::new_in(builder), false, builder)
}

/// A name that nothing in `program` has.
fn unused_name<'a>(program: &Program<'a>, builder: &AstBuilder<'a>) -> Ident<'a> {
    let mut names = Names::default();
    names.visit_program(program);
    let numbered = (2..).map(|number| format!("_default{number}"));
    let name = std::iter::once("_default".to_owned()).chain(numbered).find(|name| !names.used.contains(name.as_str()));
    Ident::from_str_in(&name.unwrap_or_default(), builder)
}

/// Every name that a program binds or refers to.
#[derive(Default)]
struct Names<'a> {
    used: HashSet<&'a str>,
}

impl<'a> Visit<'a> for Names<'a> {
    fn visit_binding_identifier(&mut self, identifier: &BindingIdentifier<'a>) {
        self.used.insert(identifier.name.as_str());
    }

    fn visit_identifier_reference(&mut self, identifier: &IdentifierReference<'a>) {
        self.used.insert(identifier.name.as_str());
    }
}
