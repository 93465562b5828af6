//! `console` of scripts (runner specification, "Logs").

use execbox_core::engine::LogLevel;
use execbox_core::libraries::Library;
use v8::{FunctionCallbackArguments, Local, Object, PinScope, PropertyAttribute, ReturnValue, Value};

use crate::run::Run;
use crate::text::{push_utf8, symbol};
use crate::{libraries, stack};

const LEVELS: [(&str, LogLevel); 5] = [
    ("log", LogLevel::Log),
    ("info", LogLevel::Info),
    ("warn", LogLevel::Warn),
    ("error", LogLevel::Error),
    ("debug", LogLevel::Debug),
];

/// Makes the `console` object.
pub(crate) fn new<'s>(scope: &mut PinScope<'s, '_>) -> Local<'s, Object> {
    let console = Object::new(scope);
    for (number, (name, _)) in LEVELS.into_iter().enumerate() {
        let number = v8::Integer::new(scope, number as i32);
        let function =
            v8::Function::builder(log).data(number.into()).constructor_behavior(v8::ConstructorBehavior::Throw);
        let Some(function) = function.build(scope) else { continue };
        let name = symbol(scope, name);
        function.set_name(name);
        console.create_data_property(scope, name.into(), function.into());
    }
    libraries::add_members(scope, console, Library::Console, true);
    console
}

/// Adds `console` to the globals.
pub(crate) fn add(scope: &mut PinScope<'_, '_>, run: &Run, global: Local<'_, Object>) {
    let name = symbol(scope, "console");
    let console = Local::new(scope, &run.realm.console);
    global.define_own_property(scope, name.into(), console.into(), PropertyAttribute::DONT_ENUM);
}

#[allow(clippy::needless_pass_by_value)] // V8's signature
fn log(scope: &mut PinScope<'_, '_>, args: FunctionCallbackArguments<'_>, _: ReturnValue<'_, Value>) {
    let run = Run::of(scope);
    let level = args.data().uint32_value(scope).and_then(|number| LEVELS.get(number as usize));
    let level = level.map_or(LogLevel::Log, |(_, level)| *level);
    if run.log_units.get() == 0 {
        log_bytes(&run, level, &[]);
        return;
    }
    if is_for_library(scope, &run, &args)
        && let Some(line) = library_line(scope, &run, &args)
    {
        log_bytes(&run, level, &line);
        return;
    }
    let mut line = Vec::new();
    for index in 0..args.length() {
        if index > 0 {
            line.push(b' ');
        }
        put(scope, &run, args.get(index), &mut line);
        if line.len() > run.max_message {
            run.stop_out_of_memory(scope);
            return;
        }
    }
    // As maps and sets in objects are as JSON.
    let has_empty_object =
        line.windows(2).any(|two| two == b"{}") && (0..args.length()).any(|i| args.get(i).is_object());
    if has_empty_object && let Some(with_collections) = library_line(scope, &run, &args) {
        line = with_collections;
    }
    log_bytes(&run, level, &line);
}

/// Whether the library writes the line: with placeholders, maps or sets, and after any other function of it, as groups indent.
fn is_for_library(scope: &mut PinScope<'_, '_>, run: &Run, args: &FunctionCallbackArguments<'_>) -> bool {
    if libraries::has_run(run, Library::Console) {
        return true;
    }
    if (0..args.length()).any(|index| args.get(index).is_map() || args.get(index).is_set()) {
        return true;
    }
    let format = args.get(0).try_cast::<v8::String>().ok().filter(|_| args.length() > 1);
    format.is_some_and(|format| match v8::ValueView::new(scope, format).data() {
        v8::ValueViewData::OneByte(units) => units.contains(&b'%'),
        v8::ValueViewData::TwoByte(units) => units.contains(&u16::from(b'%')),
    })
}

/// The line as the library writes it; `None` if that fails.
fn library_line(scope: &mut PinScope<'_, '_>, run: &Run, args: &FunctionCallbackArguments<'_>) -> Option<Vec<u8>> {
    v8::tc_scope!(let scope, scope);
    let function = libraries::function(scope, run, Library::Console, "line")?;
    let arguments: Vec<_> = (0..args.length()).map(|index| args.get(index)).collect();
    let undefined = v8::undefined(scope).into();
    let text = function.call(scope, undefined, &arguments)?.try_cast::<v8::String>().ok()?;
    let mut line = Vec::new();
    push_utf8(scope, &mut line, text, run.log_units.get().saturating_add(1));
    Some(line)
}

/// Appends the text of a logged value: strings as they are, `undefined` by name, other values as JSON where possible, and else
/// as a string. Errors and numbers are strings too, instead of the `{}` and `null` of JSON.
fn put(scope: &mut PinScope<'_, '_>, run: &Run, value: Local<'_, Value>, line: &mut Vec<u8>) {
    // One unit more than the host keeps, so that the host can detect that it must cut.
    let max_units = run.log_units.get().saturating_add(1);
    v8::tc_scope!(let scope, scope);
    if let Ok(text) = value.try_cast::<v8::String>() {
        push_utf8(scope, line, text, max_units);
        return;
    }
    if value.is_undefined() {
        line.extend_from_slice(b"undefined");
        return;
    }
    if let Ok(number) = value.try_cast::<v8::Number>()
        && number.value() == 0.0
        && number.value().is_sign_negative()
    {
        line.push(b'-');
    }
    let mut text = None;
    if !value.is_native_error() && !value.is_symbol() && !value.is_number() && !value.is_function() {
        // `undefined` becomes the text "undefined" here: an object whose toJSON returns it, which is written as a string below.
        text = v8::json::stringify(scope, value).filter(|text| !is_undefined(scope, *text));
    }
    if let Some(text) = text.or_else(|| plain_text(scope, value)) {
        push_utf8(scope, line, text, max_units);
    } else {
        line.extend_from_slice(b"[object]");
    }
}

fn is_undefined(scope: &mut PinScope<'_, '_>, text: Local<'_, v8::String>) -> bool {
    text.length() == 9 && crate::text::text_of(scope, text, 9) == "undefined"
}

/// The value as a string, symbols included. `None` if that throws.
pub(crate) fn plain_text<'s>(scope: &mut PinScope<'s, '_>, value: Local<'_, Value>) -> Option<Local<'s, v8::String>> {
    v8::tc_scope!(let scope, scope);
    if value.is_symbol() { value.to_detail_string(scope) } else { value.to_string(scope) }
}

/// Logs a thrown value and its place as an error.
pub(crate) fn log_uncaught(scope: &mut PinScope<'_, '_>, run: &Run, how: &str, thrown: Local<'_, Value>) {
    if run.log_units.get() == 0 {
        log_bytes(run, LogLevel::Error, &[]);
        return;
    }
    let mut line = how.as_bytes().to_vec();
    put(scope, run, thrown, &mut line);
    let stack = stack::of_thrown(scope, run, thrown);
    if let Some(frame) = stack.lines().next() {
        line.push(b'\n');
        line.extend_from_slice(frame.as_bytes());
    }
    log_bytes(run, LogLevel::Error, &line);
}

/// Logs a line as an error.
pub(crate) fn log_text(run: &Run, text: &str) {
    log_bytes(run, LogLevel::Error, text.as_bytes());
}

/// Logs a line. Further ones than the host keeps are only counted.
pub(crate) fn log_bytes(run: &Run, level: LogLevel, line: &[u8]) {
    let left = run.shared.lock().mailbox.log(level, line);
    run.log_units.set(left);
}
