//! ES modules: compiled when they are first imported, and found by name.

use std::collections::HashMap;
use std::num::NonZeroI32;
use std::sync::Arc;

use execbox_core::engine::ModuleError;
use execbox_core::language::Position;
use execbox_core::program::{Module, ModuleBody};
use v8::script_compiler::{Source, compile_module};
use v8::{
    Context, Data, Exception, FixedArray, FunctionCallbackArguments, Global, Local, ModuleRequest, ModuleStatus,
    Object, PinScope, Promise, PromiseResolver, ReturnValue, ScriptOrigin, StackTrace, Value,
};

use crate::decode::{self, Failed};
use crate::encode::own_names;
use crate::outcome::describe;
use crate::run::Run;
use crate::text::{string, symbol, text_of};
use crate::{functions, stack};

/// The modules of a program.
#[derive(Default)]
pub(crate) struct Graph {
    modules: Vec<Entry>,
    by_name: HashMap<Arc<str>, usize>,
    by_hash: HashMap<NonZeroI32, Vec<usize>>,
}

struct Entry {
    name: Arc<str>,
    /// The content, until the module is compiled.
    body: Option<ModuleBody>,
    importable: bool,
    compiled: Option<Global<v8::Module>>,
    /// The exports of a synthetic module, until it is evaluated.
    exports: Option<Global<Object>>,
    /// Set when all modules that this one imports are compiled.
    complete: bool,
}

/// Why a module cannot be imported.
pub(crate) enum Unlinked {
    /// The module, or one that it imports, cannot be linked.
    Link(ModuleError),
    /// V8 threw this value.
    Threw(Global<Value>),
    /// The program is being terminated.
    Terminated,
}

impl Graph {
    pub(crate) fn new(modules: Vec<Module>) -> Self {
        let mut graph = Self::default();
        for (index, Module { name, body, importable }) in modules.into_iter().enumerate() {
            graph.by_name.insert(Arc::clone(&name), index);
            let (compiled, exports) = (None, None);
            graph.modules.push(Entry { name, body: Some(body), importable, compiled, exports, complete: false });
        }
        graph
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    fn index_of(&self, module: &Global<v8::Module>, hash: NonZeroI32) -> Option<usize> {
        let same = |index: &&usize| self.modules[**index].compiled.as_ref() == Some(module);
        self.by_hash.get(&hash)?.iter().find(same).copied()
    }
}

/// The compiled form of the module at `index`.
pub(crate) fn compiled<'s>(scope: &mut PinScope<'s, '_>, run: &Run, index: usize) -> Option<Local<'s, v8::Module>> {
    run.graph.borrow().modules.get(index)?.compiled.as_ref().map(|module| Local::new(scope, module))
}

// ---- Compiling --------------------------------------------------------------------------------------------------------

/// Compiles a module, and all that it imports, without recursion.
pub(crate) fn compile(scope: &mut PinScope<'_, '_>, run: &Run, first: usize) -> Result<(), Unlinked> {
    let (mut found, mut next) = (vec![first], 0);
    while let Some(&index) = found.get(next) {
        next += 1;
        if run.graph.borrow().modules[index].complete {
            continue;
        }
        v8::scope!(let scope, scope);
        let module = compile_one(scope, run, index)?;
        run.graph.borrow_mut().modules[index].complete = true;
        let importer = Arc::clone(&run.graph.borrow().modules[index].name);
        let requests = module.get_module_requests();
        for number in 0..requests.length() {
            let request = requests.get(scope, number).and_then(|request| request.try_cast::<ModuleRequest>().ok());
            let Some(request) = request else { continue };
            let imported = requested(scope, run, &importer, request);
            match imported {
                Ok(imported) => found.push(imported),
                Err(error) => {
                    // All of them are incomplete again, so that the next attempt fails again.
                    for index in found {
                        run.graph.borrow_mut().modules[index].complete = false;
                    }
                    return Err(Unlinked::Link(error));
                }
            }
        }
    }
    Ok(())
}

fn requested(
    scope: &mut PinScope<'_, '_>,
    run: &Run,
    importer: &Arc<str>,
    request: Local<'_, ModuleRequest>,
) -> Result<usize, ModuleError> {
    let specifier = text_of(scope, request.get_specifier(), usize::MAX);
    let name = resolve_name(importer, &specifier);
    let Some(index) = name.and_then(|name| run.graph.borrow().find(&name)) else {
        return Err(ModuleError::Specifier { module: Arc::clone(importer), specifier });
    };
    if request.get_import_attributes().length() > 0 {
        let message = format!("import attributes are not supported: '{specifier}' in '{importer}'");
        return Err(ModuleError::Binding { message });
    }
    Ok(index)
}

fn compile_one<'s>(scope: &mut PinScope<'s, '_>, run: &Run, index: usize) -> Result<Local<'s, v8::Module>, Unlinked> {
    if let Some(module) = compiled(scope, run, index) {
        return Ok(module);
    }
    let (name, body) = {
        let graph = run.graph.borrow();
        (Arc::clone(&graph.modules[index].name), graph.modules[index].body.clone())
    };
    let module = match body.ok_or(Unlinked::Terminated)? {
        ModuleBody::Source(code) => source(scope, run, &name, &code.text)?,
        ModuleBody::Synthetic(exports) => {
            let (module, exports) = synthetic(scope, run, &name, &exports)?;
            run.graph.borrow_mut().modules[index].exports = Some(exports);
            module
        }
    };
    let mut graph = run.graph.borrow_mut();
    graph.modules[index].compiled = Some(Global::new(scope, module));
    graph.modules[index].body = None;
    graph.by_hash.entry(module.get_identity_hash()).or_default().push(index);
    Ok(module)
}

fn source<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    name: &Arc<str>,
    text: &str,
) -> Result<Local<'s, v8::Module>, Unlinked> {
    let (Some(file), Some(text)) = (string(scope, name), string(scope, text)) else { return Err(Unlinked::Terminated) };
    let origin = ScriptOrigin::new(scope, file.into(), 0, 0, false, 0, None, false, false, true, None);
    v8::tc_scope!(let caught, scope);
    if let Some(module) = compile_module(caught, &mut Source::new(text, Some(&origin))) {
        return Ok(module);
    }
    let Some(message) = caught.message() else { return Err(Unlinked::Terminated) };
    let position = position(caught, run, name, message);
    let Some(thrown) = caught.exception() else { return Err(Unlinked::Terminated) };
    let (_, message) = describe(caught, thrown);
    Err(Unlinked::Link(ModuleError::Syntax { module: Arc::clone(name), message, position }))
}

/// The place that a message names, in the source.
pub(crate) fn position(
    scope: &mut PinScope<'_, '_>,
    run: &Run,
    file: &str,
    message: Local<'_, v8::Message>,
) -> Option<Position> {
    let line = message.get_line_number(scope)? as u32;
    // -1 in the message of a text that is nested too deeply.
    let column = u32::try_from(message.get_start_column()).ok()? + 1;
    Some(run.source_position(file, Position { line, column }))
}

fn synthetic<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    name: &str,
    exports: &execbox_core::value::Value,
) -> Result<(Local<'s, v8::Module>, Global<Object>), Unlinked> {
    let Ok(exports) = decoded(scope, run, exports)?.try_cast::<Object>() else { return Err(Unlinked::Terminated) };
    let names = own_names(scope, exports, v8::IndexFilter::IncludeIndices).ok_or(Unlinked::Terminated)?;
    let names: Option<Vec<Local<'_, v8::String>>> =
        (0..names.length()).map(|index| names.get_index(scope, index)?.try_into().ok()).collect();
    let (Some(names), Some(name)) = (names, string(scope, name)) else { return Err(Unlinked::Terminated) };
    let module = v8::Module::create_synthetic_module(scope, name, &names, evaluate_synthetic);
    Ok((module, Global::new(scope, exports)))
}

/// A value of the host.
pub(crate) fn decoded<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    value: &execbox_core::value::Value,
) -> Result<Local<'s, Value>, Unlinked> {
    v8::tc_scope!(let caught, scope);
    match decode::decode(caught, run, value) {
        Ok(value) => Ok(value),
        Err(Failed::Malformed) => {
            run.stop(caught, execbox_core::engine::Outcome::Fault("the host sent a malformed value".to_owned()));
            Err(Unlinked::Terminated)
        }
        Err(Failed::Thrown) => Err(thrown(caught.exception(), caught)),
    }
}

fn thrown(value: Option<Local<'_, Value>>, scope: &PinScope<'_, '_>) -> Unlinked {
    value.map_or(Unlinked::Terminated, |value| Unlinked::Threw(Global::new(scope, value)))
}

fn evaluate_synthetic<'s>(context: Local<'s, Context>, module: Local<'s, v8::Module>) -> Option<Local<'s, Value>> {
    v8::callback_scope!(unsafe scope, context);
    let run = Run::of(scope);
    let known = Global::new(scope, module);
    let exports = {
        let mut graph = run.graph.borrow_mut();
        let index = graph.index_of(&known, module.get_identity_hash())?;
        graph.modules[index].exports.take()?
    };
    let exports = Local::new(scope, exports);
    let names = own_names(scope, exports, v8::IndexFilter::IncludeIndices)?;
    for index in 0..names.length() {
        let name: Local<'_, v8::String> = names.get_index(scope, index)?.try_into().ok()?;
        let value = exports.get(scope, name.into())?;
        module.set_synthetic_module_export(scope, name, value)?;
    }
    let resolver = PromiseResolver::new(scope)?;
    let undefined = v8::undefined(scope).into();
    resolver.resolve(scope, undefined)?;
    Some(resolver.get_promise(scope).into())
}

// ---- Linking ----------------------------------------------------------------------------------------------------------

/// Compiles and links a module.
pub(crate) fn link<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    index: usize,
) -> Result<Local<'s, v8::Module>, Unlinked> {
    compile(scope, run, index)?;
    let module = compiled(scope, run, index).ok_or(Unlinked::Terminated)?;
    if module.get_status() != ModuleStatus::Uninstantiated {
        return Ok(module);
    }
    v8::tc_scope!(let caught, scope);
    if module.instantiate_module(caught, resolve) == Some(true) {
        return Ok(module);
    }
    Err(thrown(caught.exception(), caught))
}

/// Called by V8 for the imports of modules, all of which are compiled.
fn resolve<'s>(
    context: Local<'s, Context>,
    specifier: Local<'s, v8::String>,
    _attributes: Local<'s, FixedArray>,
    importer: Local<'s, v8::Module>,
) -> Option<Local<'s, v8::Module>> {
    v8::callback_scope!(unsafe scope, context);
    let run = Run::of(scope);
    let specifier = text_of(scope, specifier, usize::MAX);
    let known = Global::new(scope, importer);
    let imported = {
        let graph = run.graph.borrow();
        let importer = graph.index_of(&known, importer.get_identity_hash())?;
        graph.find(&resolve_name(&graph.modules[importer].name, &specifier)?)?
    };
    compiled(scope, &run, imported)
}

// ---- import(…) and import.meta ----------------------------------------------------------------------------------------

/// Called by V8 for `import(…)`.
pub(crate) fn import<'s>(
    scope: &mut PinScope<'s, '_>,
    _options: Local<'s, Data>,
    importer: Local<'s, Value>,
    specifier: Local<'s, v8::String>,
    attributes: Local<'s, FixedArray>,
) -> Option<Local<'s, Promise>> {
    let run = Run::of(scope);
    let resolver = PromiseResolver::new(scope)?;
    let promise = resolver.get_promise(scope);
    let specifier = text_of(scope, specifier, usize::MAX);
    let importer = importer.try_cast::<v8::String>().map(|name| text_of(scope, name, usize::MAX)).unwrap_or_default();
    let found = if run.has_modules {
        find_importable(&run, &importer, &specifier, attributes.length() > 0)
            .map_err(|message| string(scope, &message).map(|message| Exception::type_error(scope, message)))
    } else {
        let message = format!("cannot import '{specifier}': a script has no modules; write the code that it needs");
        let message = string(scope, &message);
        Err(message.map(|message| Exception::reference_error(scope, message)))
    };
    match found {
        Ok(index) => {
            let number = run.imports.borrow().len();
            let trace = stack::current(scope, stack::DEFAULT_FRAMES);
            let (importer, resolver) = (Arc::from(importer), Global::new(scope, resolver));
            run.imports.borrow_mut().push(Import { index, importer, trace, resolver });
            // The import begins later, in a microtask: the module may be being evaluated, and import itself.
            let data = v8::Integer::new(scope, number as i32);
            let begin = v8::Function::builder(begin_import).data(data.into()).build(scope)?;
            scope.enqueue_microtask(begin);
        }
        Err(error) => {
            resolver.reject(scope, error?)?;
        }
    }
    Some(promise)
}

fn find_importable(run: &Run, importer: &str, specifier: &str, has_attributes: bool) -> Result<usize, String> {
    let graph = run.graph.borrow();
    let index = resolve_name(importer, specifier).and_then(|name| graph.find(&name));
    let index = index.filter(|index| graph.modules[*index].importable);
    let index = index.ok_or_else(|| format!("there is no module '{specifier}' for '{importer}' to import"))?;
    if has_attributes {
        return Err(format!("import attributes are not supported: '{specifier}' in '{importer}'"));
    }
    Ok(index)
}

/// A module that is being imported by `import(…)`.
pub(crate) struct Import {
    index: usize,
    importer: Arc<str>,
    /// The stack of the import.
    trace: Option<Global<StackTrace>>,
    resolver: Global<PromiseResolver>,
}

#[allow(clippy::needless_pass_by_value)] // V8's signature
fn begin_import<'s>(scope: &mut PinScope<'s, '_>, args: FunctionCallbackArguments<'s>, _: ReturnValue<'_, Value>) {
    let run = Run::of(scope);
    let Some((index, resolver)) = import_parts(scope, &run, &args) else { return };
    let (importer, trace) = {
        let mut imports = run.imports.borrow_mut();
        let number = args.data().uint32_value(scope).unwrap_or_default();
        let Some(import) = imports.get_mut(number as usize) else { return };
        (Arc::clone(&import.importer), import.trace.take())
    };
    if let Err(Some(error)) = start_import(scope, &run, args.data(), &importer, index) {
        let trace = trace.map(|trace| Local::new(scope, trace));
        functions::place_error(scope, &run, error, trace);
        let _ = resolver.reject(scope, error);
    }
}

/// Links and evaluates a module; its namespace settles the promise of the import with this number. The error is `None` if the
/// program is terminated.
fn start_import<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    number: Local<'s, Value>,
    importer: &str,
    index: usize,
) -> Result<(), Option<Local<'s, Value>>> {
    let module = match link(scope, run, index) {
        Ok(module) => module,
        Err(Unlinked::Terminated) => return Err(None),
        Err(Unlinked::Threw(thrown)) => return Err(Some(Local::new(scope, thrown))),
        Err(Unlinked::Link(error)) => return Err(link_exception(scope, importer, &error)),
    };
    let evaluated = module.evaluate(scope).ok_or(None)?;
    let evaluated: Local<'_, Promise> = evaluated.try_into().map_err(|_| None)?;
    let fulfilled = v8::Function::builder(import_fulfilled).data(number).build(scope).ok_or(None)?;
    let rejected = v8::Function::builder(import_rejected).data(number).build(scope).ok_or(None)?;
    // The promise that `then` returns is not used: guest code can choose its class.
    evaluated.then2(scope, fulfilled, rejected).map(drop).ok_or(None)
}

/// What `import(…)` throws for a module that does not link.
fn link_exception<'s>(scope: &mut PinScope<'s, '_>, importer: &str, error: &ModuleError) -> Option<Local<'s, Value>> {
    match error {
        ModuleError::Syntax { message, .. } => {
            string(scope, message).map(|message| Exception::syntax_error(scope, message))
        }
        ModuleError::Specifier { specifier, module } => {
            let importer = if module.is_empty() { importer } else { module };
            let message = format!("there is no module '{specifier}' for '{importer}' to import");
            string(scope, &message).map(|message| Exception::type_error(scope, message))
        }
        error => string(scope, &error.to_string()).map(|message| Exception::type_error(scope, message)),
    }
}

fn import_parts<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    args: &FunctionCallbackArguments<'s>,
) -> Option<(usize, Local<'s, PromiseResolver>)> {
    let number = args.data().uint32_value(scope)?;
    let imports = run.imports.borrow();
    let import = imports.get(number as usize)?;
    Some((import.index, Local::new(scope, &import.resolver)))
}

#[allow(clippy::needless_pass_by_value)] // V8's signature
fn import_fulfilled<'s>(scope: &mut PinScope<'s, '_>, args: FunctionCallbackArguments<'s>, _: ReturnValue<'_, Value>) {
    let run = Run::of(scope);
    let Some((index, resolver)) = import_parts(scope, &run, &args) else { return };
    let Some(module) = compiled(scope, &run, index) else { return };
    let _ = resolver.resolve(scope, module.get_module_namespace());
}

#[allow(clippy::needless_pass_by_value)] // V8's signature
fn import_rejected<'s>(scope: &mut PinScope<'s, '_>, args: FunctionCallbackArguments<'s>, _: ReturnValue<'_, Value>) {
    let run = Run::of(scope);
    let Some((_, resolver)) = import_parts(scope, &run, &args) else { return };
    let _ = resolver.reject(scope, args.get(0));
}

/// Called by V8 for the first `import.meta` of a module: `{ url }`.
pub(crate) unsafe extern "C" fn import_meta(
    context: Local<'_, Context>,
    module: Local<'_, v8::Module>,
    meta: Local<'_, Object>,
) {
    v8::callback_scope!(unsafe scope, context);
    let run = Run::of(scope);
    let known = Global::new(scope, module);
    let name = {
        let graph = run.graph.borrow();
        let index = graph.index_of(&known, module.get_identity_hash());
        index.map(|index| Arc::clone(&graph.modules[index].name))
    };
    let Some(name) = name else { return };
    let (key, url) = (symbol(scope, "url"), string(scope, &format!("sandbox:{name}")));
    if let Some(url) = url {
        meta.create_data_property(scope, key.into(), url.into());
    }
}

// ---- Names ------------------------------------------------------------------------------------------------------------

/// Resolves `specifier` in `importer`; `None` above the root. The folder of an absolute name, and of a name above the root, is
/// the root.
fn resolve_name(importer: &str, specifier: &str) -> Option<String> {
    if !is_relative(specifier) {
        return Some(specifier.to_owned());
    }
    let mut parts = Vec::new();
    let folder = importer.rsplit_once('/').map_or("", |(folder, _)| folder);
    if is_absolute(importer) || !push_parts(&mut parts, folder) {
        parts.clear();
    }
    push_parts(&mut parts, specifier).then(|| format!("./{}", parts.join("/")))
}

/// Appends the parts of a path: `.` is skipped, `..` removes the last one. False above the root.
fn push_parts<'a>(parts: &mut Vec<&'a str>, path: &'a str) -> bool {
    let path = path.strip_suffix('/').unwrap_or(path);
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            "" if path.is_empty() => {}
            part => parts.push(part),
        }
    }
    true
}

/// Whether a specifier is `.` or `..`, or begins with `./` or `../`.
fn is_relative(specifier: &str) -> bool {
    matches!(specifier.split('/').next(), Some("." | ".."))
}

/// Whether a name is an absolute path or a URL.
fn is_absolute(name: &str) -> bool {
    let scheme = name.split_once(':').map_or("", |(scheme, _)| scheme);
    name.starts_with('/')
        || (scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')))
}

#[cfg(test)]
mod tests {
    use super::resolve_name;

    #[test]
    fn relative_specifiers_are_joined_to_the_folder_of_the_importer() {
        for (importer, specifier, expected) in [
            ("main.ts", "./lib/math.js", Some("./lib/math.js")),
            ("./lib/math.js", "../data.js", Some("./data.js")),
            ("./lib/math.js", "./../x/./y.js", Some("./x/y.js")),
            ("./lib/math.js", "../../data.js", None),
            ("main.ts", "react", Some("react")),
            ("https://a/b/c.js", "./d.js", Some("./d.js")),
            ("/a/b.js", "./d.js", Some("./d.js")),
            ("../a/b.js", "./d.js", Some("./d.js")),
            ("a/b/c.js", "..", Some("./a")),
        ] {
            assert_eq!(resolve_name(importer, specifier).as_deref(), expected, "{importer} {specifier}");
        }
    }
}
