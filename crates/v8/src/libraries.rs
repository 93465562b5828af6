//! [Libraries](execbox_core::libraries): JavaScript that makes globals, and functions of `console`, on first use.

use execbox_core::engine::LogLevel;
use execbox_core::libraries::{Globals, Library};
use v8::{
    AccessorConfiguration, ArrayBufferView, ConstructorBehavior, Function, FunctionCallback, FunctionCallbackArguments,
    Global, Local, MapFnTo, Name, NewStringType, Object, PinScope, PropertyAttribute, PropertyCallbackArguments,
    ReturnValue, Script, ScriptOrigin, Uint8Array, Value, ValueView, ValueViewData,
};

use crate::run::Run;
use crate::text::{push_utf8, string, symbol, text_of};
use crate::{console, stack};

/// The objects that libraries have returned, in the order of [`LIBRARIES`].
pub(crate) type Objects = [Option<Global<Object>>; Library::COUNT];

const LIBRARIES: [Library; Library::COUNT] = [Library::Text, Library::Console, Library::Timers];

/// The name of the file of a library in stacks.
const FILE: &str = "<library>";

/// Adds the globals that are members of libraries, and `Intl`, where the script has not a namespace of that name.
pub(crate) fn add_globals(scope: &mut PinScope<'_, '_>, run: &Run, global: Local<'_, Object>, globals: Globals) {
    for library in globals.libraries() {
        add_members(scope, global, library, false);
    }
    if globals.common {
        let (name, intl) = (symbol(scope, "Intl"), Local::new(scope, &run.realm.intl));
        global.define_own_property(scope, name.into(), intl.into(), PropertyAttribute::DONT_ENUM);
    }
}

/// Adds the members of a library that the object has not got already. Each is read on first use.
pub(crate) fn add_members(
    scope: &mut PinScope<'_, '_>,
    object: Local<'_, Object>,
    library: Library,
    is_enumerable: bool,
) {
    for member in library.members() {
        let name = symbol(scope, member);
        if object.has_own_property(scope, name.into()) == Some(true) {
            continue;
        }
        let number = v8::Integer::new(scope, number_of(library) as i32);
        let attributes = if is_enumerable { PropertyAttribute::NONE } else { PropertyAttribute::DONT_ENUM };
        let property = AccessorConfiguration::new(read).setter(write).data(number.into());
        object.set_accessor_with_configuration(scope, name.into(), property.property_attribute(attributes));
    }
}

fn number_of(library: Library) -> usize {
    LIBRARIES.iter().position(|known| *known == library).unwrap_or_default()
}

/// Reads a member, and makes it an ordinary property.
#[allow(clippy::needless_pass_by_value)] // V8's signature
fn read<'s>(
    scope: &mut PinScope<'s, '_>,
    name: Local<'s, Name>,
    args: PropertyCallbackArguments<'s>,
    mut result: ReturnValue<'_, Value>,
) {
    let run = Run::of(scope);
    let library = args.data().uint32_value(scope).and_then(|number| LIBRARIES.get(number as usize));
    let Some(library) = library else { return };
    if let Some(value) = object(scope, &run, *library).and_then(|object| object.get(scope, name.into())) {
        replace(scope, args.holder(), name, value);
        result.set(value);
    }
}

/// A guest has assigned another value.
#[allow(clippy::needless_pass_by_value)] // V8's signature
fn write<'s>(
    scope: &mut PinScope<'s, '_>,
    name: Local<'s, Name>,
    value: Local<'s, Value>,
    args: PropertyCallbackArguments<'s>,
    _: ReturnValue<'_, ()>,
) {
    replace(scope, args.holder(), name, value);
}

fn replace(scope: &mut PinScope<'_, '_>, object: Local<'_, Object>, name: Local<'_, Name>, value: Local<'_, Value>) {
    let attributes = object.get_property_attributes(scope, name.into()).unwrap_or(PropertyAttribute::NONE);
    object.delete(scope, name.into()); // or V8 calls the setter again
    object.define_own_property(scope, name, value, attributes);
}

/// A member of a library that is a function. `None` with an exception pending, or if the program is stopped.
pub(crate) fn function<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    library: Library,
    name: &'static str,
) -> Option<Local<'s, Function>> {
    let object = object(scope, run, library)?;
    let name = symbol(scope, name);
    object.get(scope, name.into())?.try_cast::<Function>().ok()
}

/// Whether a library has run.
pub(crate) fn has_run(run: &Run, library: Library) -> bool {
    run.libraries.borrow()[number_of(library)].is_some()
}

/// The object that a library returns. Runs it on first use.
fn object<'s>(scope: &mut PinScope<'s, '_>, run: &Run, library: Library) -> Option<Local<'s, Object>> {
    if let Some(made) = &run.libraries.borrow()[number_of(library)] {
        return Some(Local::new(scope, made));
    }
    let (file, source) = (string(scope, FILE)?, string(scope, library.source())?);
    let origin = ScriptOrigin::new(scope, file.into(), 0, 0, false, 0, None, false, false, false, None);
    let function = Script::compile(scope, source, Some(&origin))?.run(scope)?.try_cast::<Function>().ok()?;
    let natives = match library {
        Library::Text => vec![native(scope, encode)?, native(scope, decode)?],
        Library::Console => vec![native(scope, write_line)?, native(scope, frames)?],
        Library::Timers => vec![native(scope, arm)?],
    };
    let undefined = v8::undefined(scope).into();
    let object = function.call(scope, undefined, &natives)?.try_cast::<Object>().ok()?;
    run.libraries.borrow_mut()[number_of(library)] = Some(Global::new(scope, object));
    Some(object)
}

// ---- Functions that libraries call ------------------------------------------------------------------------------------

fn native<'s>(scope: &mut PinScope<'s, '_>, function: impl MapFnTo<FunctionCallback>) -> Option<Local<'s, Value>> {
    let function = Function::builder(function).constructor_behavior(ConstructorBehavior::Throw).build(scope)?;
    Some(function.into())
}

/// `encode(text, isLatin1)`: the text as a `Uint8Array` of UTF-8 or Latin-1; undefined for characters that Latin-1 lacks.
#[allow(clippy::needless_pass_by_value)] // V8's signature
fn encode<'s>(scope: &mut PinScope<'s, '_>, args: FunctionCallbackArguments<'s>, mut result: ReturnValue<'_, Value>) {
    let run = Run::of(scope);
    let Ok(text) = args.get(0).try_cast::<v8::String>() else { return };
    let mut bytes = Vec::new();
    if !args.get(1).is_true() {
        push_utf8(scope, &mut bytes, text, usize::MAX);
    } else if !push_latin1(scope, &mut bytes, text) {
        return;
    }
    if let Some(made) = new_bytes(scope, &run, &bytes) {
        result.set(made.into());
    }
}

/// Appends the units of a text as bytes. Returns false if one is beyond U+00FF.
fn push_latin1(isolate: &mut v8::Isolate, bytes: &mut Vec<u8>, text: Local<'_, v8::String>) -> bool {
    match ValueView::new(isolate, text).data() {
        ValueViewData::OneByte(units) => bytes.extend_from_slice(units),
        ValueViewData::TwoByte(units) => bytes.extend(units.iter().map_while(|unit| u8::try_from(*unit).ok())),
    }
    bytes.len() == text.length()
}

/// V8 ends the process where its API cannot allocate a buffer; the intrinsic throws.
fn new_bytes<'s>(scope: &mut PinScope<'s, '_>, run: &Run, bytes: &[u8]) -> Option<Local<'s, Uint8Array>> {
    let new_buffer = Local::new(scope, &run.realm.new_buffer);
    let (undefined, len) =
        (v8::undefined(scope).into(), v8::Integer::new_from_unsigned(scope, bytes.len() as u32).into());
    let buffer: Local<'_, v8::ArrayBuffer> = new_buffer.call(scope, undefined, &[len])?.try_cast().ok()?;
    for (cell, byte) in buffer.get_backing_store().iter().zip(bytes) {
        cell.set(*byte);
    }
    Uint8Array::new(scope, buffer, 0, bytes.len())
}

/// `decode(bytes)`: the text of a `Uint8Array`; undefined if it is not valid UTF-8.
#[allow(clippy::needless_pass_by_value)] // V8's signature
fn decode<'s>(scope: &mut PinScope<'s, '_>, args: FunctionCallbackArguments<'s>, mut result: ReturnValue<'_, Value>) {
    let Ok(view) = args.get(0).try_cast::<ArrayBufferView>() else { return };
    let mut bytes = vec![0; view.byte_length()];
    view.copy_contents(&mut bytes);
    if std::str::from_utf8(&bytes).is_err() {
        return;
    }
    match v8::String::new_from_utf8(scope, &bytes, NewStringType::Normal) {
        Some(text) => result.set(text.into()),
        None => throw_too_long(scope),
    }
}

fn throw_too_long(scope: &mut PinScope<'_, '_>) {
    if let Some(message) = string(scope, "Invalid string length") {
        let error = v8::Exception::range_error(scope, message);
        scope.throw_exception(error);
    }
}

/// `write(level, line)`: a console line.
#[allow(clippy::needless_pass_by_value)] // V8's signature
fn write_line<'s>(scope: &mut PinScope<'s, '_>, args: FunctionCallbackArguments<'s>, _: ReturnValue<'_, Value>) {
    let run = Run::of(scope);
    let (Ok(level), Ok(text)) = (args.get(0).try_cast::<v8::String>(), args.get(1).try_cast::<v8::String>()) else {
        return;
    };
    let level = LogLevel::from_name(&text_of(scope, level, 8)).unwrap_or(LogLevel::Log);
    let mut line = Vec::new();
    push_utf8(scope, &mut line, text, run.log_units.get().saturating_add(1));
    console::log_bytes(&run, level, &line);
}

/// `stack()`: the frames below the function of the library that calls this.
#[allow(clippy::needless_pass_by_value)] // V8's signature
fn frames<'s>(scope: &mut PinScope<'s, '_>, _: FunctionCallbackArguments<'s>, mut result: ReturnValue<'_, Value>) {
    let run = Run::of(scope);
    let trace = v8::StackTrace::current_stack_trace(scope, stack::DEFAULT_FRAMES + 1);
    let text = trace.map(|trace| stack::text(scope, &run, trace)).unwrap_or_default();
    let lines = text.split_inclusive('\n').skip(1);
    if let Some(text) = string(scope, &lines.collect::<String>()) {
        result.set(text.into());
    }
}

/// `arm(delay)`: asks the host to wake the program after so many milliseconds; undefined takes that back.
#[allow(clippy::needless_pass_by_value)] // V8's signature
fn arm<'s>(scope: &mut PinScope<'s, '_>, args: FunctionCallbackArguments<'s>, _: ReturnValue<'_, Value>) {
    let run = Run::of(scope);
    let seconds = args.get(0).number_value(scope).map(|milliseconds| milliseconds / 1e3);
    let after = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    run.shared.lock().mailbox.timer(after);
}
