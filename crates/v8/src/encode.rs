//! Values to bytes, in the format of [`execbox_core::value`].
//!
//! Walks the object graph with a stack of its own. Getters run guest code, which can change the objects that are being read,
//! so no step relies on what an earlier one saw. Nothing is looked up that guest code can replace.
//!
//! `None` means that an exception is pending, or that the program is being terminated.

use std::collections::HashMap;

use execbox_core::value::{Foreign, ViewKind, wire};
use v8::{
    Array, Global, Local, Map, Object, PinScope, PropertyAttribute, Value, ValueSerializer, ValueSerializerHelper as _,
    ValueSerializerImpl,
};
use v8::{GetPropertyNamesArgs, IndexFilter, KeyCollectionMode, KeyConversionMode, PropertyFilter};

use crate::run::Run;
use crate::text::{push_utf8, string, symbol, text_of};
use crate::{functions, stack};

/// How to treat values that cannot be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For scripts: written as [`Foreign`], which the host rejects. Applies to all values that JSON cannot hold.
    Json,
    /// For modules: reported by a thrown `SerializationError`.
    Graph,
    /// For logs of modules: replaced by a string that describes the value.
    Log,
}

/// Writes `value`.
pub(crate) fn encode(
    scope: &mut PinScope<'_, '_>,
    run: &Run,
    value: Local<'_, Value>,
    mode: Mode,
    root: &'static str,
) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new(run, mode, root);
    encoder.whole(scope, value)?;
    Some(encoder.out)
}

/// Writes the arguments of a call as an array, which is object number 0.
pub(crate) fn encode_args(
    scope: &mut PinScope<'_, '_>,
    run: &Run,
    args: &v8::FunctionCallbackArguments<'_>,
    mode: Mode,
) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new(run, mode, "args");
    encoder.numbered = 1;
    encoder.out.push(wire::ARRAY);
    wire::put_varint(&mut encoder.out, args.length() as u32);
    for index in 0..args.length() {
        encoder.argument = Some(index as u32);
        encoder.whole(scope, args.get(index))?;
    }
    Some(encoder.out)
}

struct Encoder<'r> {
    run: &'r Run,
    mode: Mode,
    /// The name of the value in errors.
    root: &'static str,
    /// The argument that is being written, if the value is the arguments of a call.
    argument: Option<u32>,
    out: Vec<u8>,
    /// The first object that was written, and its number.
    first: Option<(Global<Object>, u32)>,
    /// The further objects, and their numbers. Made for the first of them.
    seen: Option<Global<Map>>,
    /// How many objects have a number.
    numbered: u32,
    keys: HashMap<Vec<u8>, u32>,
    /// The length of each buffer when it was written, by its number.
    buffers: HashMap<u32, usize>,
    open: Vec<Open>,
}

/// An object whose parts are being written.
struct Open {
    object: Global<Object>,
    parts: Parts,
    next: u32,
    count: u32,
}

enum Parts {
    /// The items of an array.
    Items,
    /// The properties with these names.
    Named(Global<Array>),
    /// Values that were collected when the object was opened: the keys and values of a `Map`, the values of a `Set`, the cause
    /// of an `Error`.
    List(Global<Array>),
}

/// How many parts are written before their handles are released.
const BATCH: u32 = 256;

/// An array that is longer than this and has holes is sparse: nearly all of it would be holes.
const MAX_HOLES: u32 = 1_000_000;

impl<'r> Encoder<'r> {
    fn new(run: &'r Run, mode: Mode, root: &'static str) -> Self {
        Self {
            run,
            mode,
            root,
            argument: None,
            out: Vec::with_capacity(128),
            first: None,
            seen: None,
            numbered: 0,
            keys: HashMap::new(),
            buffers: HashMap::new(),
            open: Vec::new(),
        }
    }

    fn whole(&mut self, scope: &mut PinScope<'_, '_>, value: Local<'_, Value>) -> Option<()> {
        self.one(scope, value)?;
        while !self.open.is_empty() {
            v8::scope!(let scope, scope);
            self.rest(scope)?;
            if self.out.len() > self.run.max_message {
                self.run.stop_out_of_memory(scope);
                return None;
            }
        }
        Some(())
    }

    // ---- One value ------------------------------------------------------------------------------------------------

    fn one(&mut self, scope: &mut PinScope<'_, '_>, value: Local<'_, Value>) -> Option<()> {
        if let Ok(text) = value.try_cast::<v8::String>() {
            self.out.push(wire::STRING);
            self.text(scope, text, usize::MAX)?;
        } else if let Ok(number) = value.try_cast::<v8::Number>() {
            wire::put_number(&mut self.out, number.value());
        } else if value.is_object() {
            let object: Local<'_, Object> = value.try_into().ok()?;
            return self.object(scope, object);
        } else if value.is_undefined() {
            self.out.push(wire::UNDEFINED);
        } else if value.is_null() {
            self.out.push(wire::NULL);
        } else if value.is_boolean() {
            self.out.push(if value.is_true() { wire::TRUE } else { wire::FALSE });
        } else if let Ok(bigint) = value.try_cast::<v8::BigInt>() {
            if self.mode == Mode::Json {
                return self.foreign(scope, Foreign::BigInt, None);
            }
            self.bigint(bigint);
        } else if let Ok(symbol) = value.try_cast::<v8::Symbol>() {
            if self.mode != Mode::Log {
                return self.foreign(scope, Foreign::Symbol, None);
            }
            let text = Local::<Value>::from(symbol).to_detail_string(scope)?;
            self.out.push(wire::STRING);
            self.text(scope, text, usize::MAX)?;
        }
        Some(())
    }

    /// Writes a string, with its length first.
    fn text(&mut self, scope: &mut PinScope<'_, '_>, text: Local<'_, v8::String>, max_units: usize) -> Option<()> {
        if self.out.len() + text.length().min(max_units) > self.run.max_message {
            self.run.stop_out_of_memory(scope);
            return None;
        }
        push_text(scope, &mut self.out, text, max_units);
        Some(())
    }

    fn bigint(&mut self, bigint: Local<'_, v8::BigInt>) {
        let mut words = vec![0; bigint.word_count()];
        let (is_negative, _) = bigint.to_words_array(&mut words);
        words.push(0); // for the sign
        if is_negative {
            let mut carry = true;
            for word in &mut words {
                (*word, carry) = (!*word).overflowing_add(u64::from(carry));
            }
        }
        self.out.push(wire::BIGINT);
        wire::put_varint(&mut self.out, 8 * words.len() as u32);
        self.out.reserve(8 * words.len());
        for word in words {
            self.out.extend_from_slice(&word.to_le_bytes());
        }
    }

    // ---- Objects --------------------------------------------------------------------------------------------------

    fn object(&mut self, scope: &mut PinScope<'_, '_>, object: Local<'_, Object>) -> Option<()> {
        if let Some(number) = self.number_of(scope, object)? {
            self.out.push(wire::REFERENCE);
            wire::put_varint(&mut self.out, number);
            return Some(());
        }
        if object.is_array() {
            self.number(scope, object)?;
            return self.array(scope, object.cast());
        }
        let class = Class::of(object);
        if self.is_plain(scope, object, class) {
            self.number(scope, object)?;
            self.out.push(wire::OBJECT);
            return self.members(scope, object);
        }
        if self.mode == Mode::Json || !self.is_rich(scope, object, class) {
            let kind = self.foreign_kind(scope, object, class);
            return self.foreign(scope, kind, Some(object));
        }
        if let Some(why) = self.why_lost(scope, object, class)? {
            if self.mode == Mode::Graph {
                return self.throw_not_copied(scope, why);
            }
            let kind = self.foreign_kind(scope, object, class);
            return self.foreign(scope, kind, Some(object));
        }
        let number = self.number(scope, object)?;
        self.rich(scope, object, class, number)
    }

    fn number_of(&mut self, scope: &mut PinScope<'_, '_>, object: Local<'_, Object>) -> Option<Option<u32>> {
        let Some((first, number)) = &self.first else { return Some(None) };
        if *first == object {
            return Some(Some(*number));
        }
        let Some(seen) = &self.seen else { return Some(None) };
        let number = Local::new(scope, seen).get(scope, object.into())?;
        Some(if number.is_undefined() { None } else { number.uint32_value(scope) })
    }

    fn number(&mut self, scope: &mut PinScope<'_, '_>, object: Local<'_, Object>) -> Option<u32> {
        let number = self.numbered;
        self.numbered += 1;
        if self.first.is_none() {
            self.first = Some((Global::new(scope, object), number));
            return Some(number);
        }
        let seen = match &self.seen {
            Some(seen) => Local::new(scope, seen),
            None => {
                let seen = Map::new(scope);
                self.seen = Some(Global::new(scope, seen));
                seen
            }
        };
        let value = v8::Integer::new_from_unsigned(scope, number);
        seen.set(scope, object.into(), value.into())?;
        Some(number)
    }

    /// Whether the object is copied as a plain object.
    fn is_plain(&self, scope: &mut PinScope<'_, '_>, object: Local<'_, Object>, class: Class) -> bool {
        if class != Class::Plain {
            return false;
        }
        let Some(prototype) = object.get_prototype(scope) else { return false };
        self.mode == Mode::Log
            || prototype.is_null()
            || prototype == Local::new(scope, &self.run.realm.object_prototype)
    }

    /// Whether objects of this class have a tag of their own.
    fn is_rich(&self, scope: &mut PinScope<'_, '_>, object: Local<'_, Object>, class: Class) -> bool {
        match class {
            Class::Date
            | Class::Map
            | Class::Set
            | Class::RegExp
            | Class::Error
            | Class::Buffer
            | Class::View
            | Class::Boxed => true,
            Class::Function => functions::of(scope, self.run, object).is_some(),
            _ => false,
        }
    }

    fn rich(
        &mut self,
        scope: &mut PinScope<'_, '_>,
        object: Local<'_, Object>,
        class: Class,
        number: u32,
    ) -> Option<()> {
        match class {
            Class::Date => {
                self.out.push(wire::DATE);
                let date: Local<'_, v8::Date> = object.cast();
                self.out.extend_from_slice(&date.value_of().to_le_bytes());
            }
            Class::Map => self.collection(scope, object, wire::MAP),
            Class::Set => self.collection(scope, object, wire::SET),
            Class::RegExp => return self.regexp(scope, object),
            Class::Error => return self.error(scope, object),
            Class::Buffer => return self.buffer(scope, object.cast(), number),
            Class::View => return self.view(scope, object.cast()),
            Class::Boxed => {
                self.out.push(wire::BOXED);
                let primitive = call(scope, &self.run.realm.unboxed, object)?;
                return self.one(scope, primitive);
            }
            _ => return self.host_function(scope, object),
        }
        Some(())
    }

    fn array(&mut self, scope: &mut PinScope<'_, '_>, array: Local<'_, Array>) -> Option<()> {
        let len = array.length();
        if self.mode != Mode::Json && !is_dense(scope, array)? {
            self.out.push(wire::SPARSE);
            wire::put_varint(&mut self.out, len);
            return self.members(scope, array.into());
        }
        if len > MAX_HOLES && !is_dense(scope, array)? {
            return self.foreign(scope, Foreign::SparseArray, Some(array.into()));
        }
        self.out.push(wire::ARRAY);
        wire::put_varint(&mut self.out, len);
        self.open(scope, array.into(), Parts::Items, len);
        Some(())
    }

    /// Writes the properties of an object, or of an array that is not dense.
    fn members(&mut self, scope: &mut PinScope<'_, '_>, object: Local<'_, Object>) -> Option<()> {
        let names = own_names(scope, object, IndexFilter::IncludeIndices)?;
        let named = Parts::Named(Global::new(scope, names));
        self.open(scope, object, named, names.length());
        Some(())
    }

    /// Writes the current content of a Map or Set: changes by getters do not count.
    fn collection(&mut self, scope: &mut PinScope<'_, '_>, object: Local<'_, Object>, tag: u8) {
        let (list, count) = if tag == wire::MAP {
            let list = object.cast::<Map>().as_array(scope);
            (list, list.length() / 2)
        } else {
            let list = object.cast::<v8::Set>().as_array(scope);
            (list, list.length())
        };
        self.out.push(tag);
        wire::put_varint(&mut self.out, count);
        let parts = Parts::List(Global::new(scope, list));
        self.open(scope, object, parts, list.length());
    }

    fn error(&mut self, scope: &mut PinScope<'_, '_>, error: Local<'_, Object>) -> Option<()> {
        let key = symbol(scope, "name");
        let name = self.read(scope, |scope| error.get(scope, key.into()))?;
        let key = symbol(scope, "message");
        let message = match own_data(scope, error, key.into()) {
            Some(message) if message.is_undefined() => None,
            Some(message) if message.is_string() => Some(message),
            Some(message) => Some(self.read(scope, |scope| message.to_string(scope).map(Into::into))?),
            None => None,
        };
        let stack = stack::of_error(scope, self.run, error);
        let key = symbol(scope, "cause");
        let cause = own_data(scope, error, key.into());
        self.out.push(wire::ERROR);
        match name.try_cast::<v8::String>() {
            Ok(name) => self.text(scope, name, MAX_NAME)?,
            Err(_) => wire::put_string(&mut self.out, "Error"),
        }
        let message: Option<Local<'_, v8::String>> = message.and_then(|message| message.try_into().ok());
        let parts = [
            (message.is_some(), wire::ERROR_MESSAGE),
            (stack.is_some(), wire::ERROR_STACK),
            (cause.is_some(), wire::ERROR_CAUSE),
        ];
        self.out.push(parts.into_iter().filter(|(has, _)| *has).map(|(_, part)| part).sum());
        if let Some(message) = message {
            self.text(scope, message, usize::MAX)?;
        }
        if let Some(stack) = stack {
            wire::put_string(&mut self.out, &stack);
        }
        if let Some(cause) = cause {
            let list = Array::new_with_elements(scope, &[cause]);
            let parts = Parts::List(Global::new(scope, list));
            self.open(scope, error, parts, 1);
        }
        Some(())
    }

    fn regexp(&mut self, scope: &mut PinScope<'_, '_>, object: Local<'_, Object>) -> Option<()> {
        let flags = call(scope, &self.run.realm.regexp_flags, object)?.to_string(scope)?;
        let source = object.cast::<v8::RegExp>().get_source(scope);
        self.out.push(wire::REGEXP);
        // V8 represents an empty source as `(?:)`, because `//` would be a comment.
        if source.length() == 4 && text_of(scope, source, 4) == "(?:)" {
            wire::put_string(&mut self.out, "");
        } else {
            self.text(scope, source, usize::MAX)?;
        }
        self.text(scope, flags, usize::MAX)
    }

    fn buffer(&mut self, scope: &mut PinScope<'_, '_>, buffer: Local<'_, v8::ArrayBuffer>, number: u32) -> Option<()> {
        let store = buffer.get_backing_store();
        let len = store.byte_length();
        if self.out.len() + len > self.run.max_message {
            self.run.stop_out_of_memory(scope);
            return None;
        }
        self.buffers.insert(number, len);
        self.out.push(wire::BUFFER);
        wire::put_varint(&mut self.out, len as u32);
        let max = self.max_byte_length(scope, buffer)?;
        wire::put_varint(&mut self.out, max.map_or(0, |max| max + 1));
        self.out.extend(store.iter().map(std::cell::Cell::get));
        Some(())
    }

    fn view(&mut self, scope: &mut PinScope<'_, '_>, view: Local<'_, v8::ArrayBufferView>) -> Option<()> {
        let kind = view_kind(view.into());
        let buffer = view.buffer(scope)?;
        let follows = self.max_byte_length(scope, buffer)?.is_some() && follows_buffer(scope, view, buffer)?;
        self.out.push(wire::VIEW);
        self.out.push(kind as u8);
        wire::put_varint(&mut self.out, view.byte_offset() as u32);
        wire::put_varint(&mut self.out, if follows { 0 } else { (view.byte_length() as u32 / kind.element_len()) + 1 });
        self.object(scope, buffer.into()) // recurses once: a buffer has no parts
    }

    /// The maximum length of a resizable buffer; `None` for others.
    fn max_byte_length(&self, scope: &mut PinScope<'_, '_>, buffer: Local<'_, v8::ArrayBuffer>) -> Option<Option<u32>> {
        let max = call(scope, &self.run.realm.max_byte_length, buffer.into())?;
        Some(if max.is_undefined() { None } else { Some(max.uint32_value(scope)?) })
    }

    fn host_function(&mut self, scope: &mut PinScope<'_, '_>, object: Local<'_, Object>) -> Option<()> {
        let function = functions::of(scope, self.run, object)?;
        let key = symbol(scope, "name");
        let name = own_data(scope, object, key.into());
        self.out.push(wire::FUNCTION);
        wire::put_varint(&mut self.out, function.number);
        self.out.push(function.kind as u8);
        match name.and_then(|name| name.try_cast::<v8::String>().ok()) {
            Some(name) => self.text(scope, name, MAX_NAME),
            None => {
                wire::put_string(&mut self.out, "");
                Some(())
            }
        }
    }

    /// Why the content of a buffer or view cannot be copied; `None` if it can.
    fn why_lost(
        &mut self,
        scope: &mut PinScope<'_, '_>,
        object: Local<'_, Object>,
        class: Class,
    ) -> Option<Option<&'static str>> {
        Some(match class {
            Class::Buffer if object.cast::<v8::ArrayBuffer>().was_detached() => {
                Some("is a detached ArrayBuffer, which cannot be copied")
            }
            Class::View => {
                let view: Local<'_, v8::ArrayBufferView> = object.cast();
                let buffer = view.buffer(scope)?;
                let end = view.byte_offset() + view.byte_length();
                let number = self.number_of(scope, buffer.into())?;
                let copied =
                    number.and_then(|number| self.buffers.get(&number).copied()).unwrap_or(buffer.byte_length());
                if buffer.was_detached() || call(scope, &self.run.realm.is_out_of_bounds, object)?.is_true() {
                    Some("shows an ArrayBuffer that is detached or too short, and cannot be copied")
                } else if end > copied {
                    Some("shows more of an ArrayBuffer than it had when it was copied")
                } else {
                    None
                }
            }
            _ => None,
        })
    }

    // ---- Parts of objects -----------------------------------------------------------------------------------------

    fn open(&mut self, scope: &mut PinScope<'_, '_>, object: Local<'_, Object>, parts: Parts, count: u32) {
        self.open.push(Open { object: Global::new(scope, object), parts, next: 0, count });
    }

    /// Writes parts of the innermost object, until another object opens, this one ends, or there are many handles.
    fn rest(&mut self, scope: &mut PinScope<'_, '_>) -> Option<()> {
        let depth = self.open.len();
        let Some(top) = self.open.last() else { return Some(()) };
        let object = Local::new(scope, &top.object);
        let (list, is_named) = match &top.parts {
            Parts::Items => (None, false),
            Parts::Named(names) => (Some(Local::new(scope, names)), true),
            Parts::List(list) => (Some(Local::new(scope, list)), false),
        };
        let (first, count) = (top.next, top.count);
        for index in first..count.min(first.saturating_add(BATCH)) {
            self.open[depth - 1].next = index + 1;
            match list {
                None => self.item(scope, object, index)?,
                Some(names) if is_named => {
                    let name = names.get_index(scope, index)?;
                    self.named(scope, object, name.cast())?;
                }
                Some(list) => {
                    let value = list.get_index(scope, index)?;
                    self.one(scope, value)?;
                }
            }
            if self.open.len() != depth {
                return Some(());
            }
        }
        if self.open[depth - 1].next == count {
            if is_named {
                wire::put_varint(&mut self.out, wire::KEY_END);
            }
            self.open.pop();
        }
        Some(())
    }

    fn item(&mut self, scope: &mut PinScope<'_, '_>, array: Local<'_, Object>, index: u32) -> Option<()> {
        let value = self.read(scope, |scope| array.get_index(scope, index))?;
        if value.is_undefined() {
            let name = v8::Integer::new_from_unsigned(scope, index).to_string(scope)?;
            if !array.has_own_property(scope, name.into())? {
                self.out.push(wire::HOLE);
                return Some(());
            }
        }
        self.one(scope, value)
    }

    /// As structuredClone does, omits a property that a getter has removed meanwhile.
    fn named(
        &mut self,
        scope: &mut PinScope<'_, '_>,
        object: Local<'_, Object>,
        name: Local<'_, v8::Name>,
    ) -> Option<()> {
        let value = self.read(scope, |scope| object.get(scope, name.into()))?;
        if value.is_undefined() && self.mode != Mode::Json && !object.has_own_property(scope, name)? {
            return Some(());
        }
        self.key(scope, name);
        self.one(scope, value)
    }

    /// Writes the text of a key the first time, and its number after that.
    fn key(&mut self, scope: &mut PinScope<'_, '_>, name: Local<'_, v8::Name>) {
        let Ok(name) = name.try_cast::<v8::String>() else { return };
        let mut text = Vec::with_capacity(name.length());
        push_utf8(scope, &mut text, name, usize::MAX);
        if let Some(&number) = self.keys.get(&text) {
            wire::put_varint(&mut self.out, wire::KEY_KNOWN + number);
            return;
        }
        wire::put_varint(&mut self.out, wire::KEY_NEW);
        wire::put_varint(&mut self.out, text.len() as u32);
        self.out.extend_from_slice(&text);
        let number = self.keys.len() as u32;
        self.keys.insert(text, number);
    }

    /// The result of a getter. In logs, a string replaces one that throws.
    fn read<'s>(
        &self,
        scope: &mut PinScope<'s, '_>,
        get: impl FnOnce(&mut PinScope<'s, '_>) -> Option<Local<'s, Value>>,
    ) -> Option<Local<'s, Value>> {
        if self.mode != Mode::Log {
            return get(scope);
        }
        v8::tc_scope!(let caught, scope);
        match get(caught) {
            Some(value) => Some(value),
            None if caught.has_terminated() => None,
            None => {
                caught.reset();
                string(caught, "[getter threw]").map(Into::into)
            }
        }
    }

    // ---- Values that cannot be copied -----------------------------------------------------------------------------

    fn foreign_kind(&self, scope: &mut PinScope<'_, '_>, object: Local<'_, Object>, class: Class) -> Foreign {
        match class {
            Class::Plain => match call(scope, &self.run.realm.is_weak_ref, object) {
                Some(is_weak) if is_weak.is_true() => Foreign::Weak,
                _ => Foreign::Instance,
            },
            Class::Function => Foreign::Function,
            Class::Date => Foreign::Date,
            Class::Map => Foreign::Map,
            Class::Set => Foreign::Set,
            Class::RegExp => Foreign::RegExp,
            Class::Error => Foreign::Error,
            Class::Buffer => Foreign::ArrayBuffer,
            Class::View => Foreign::TypedArray,
            Class::Boxed | Class::BoxedSymbol => Foreign::BoxedPrimitive,
            Class::Promise => Foreign::Promise,
            Class::Proxy => Foreign::Proxy,
            Class::Weak => Foreign::Weak,
            Class::Other => Foreign::Other,
        }
    }

    fn foreign(
        &mut self,
        scope: &mut PinScope<'_, '_>,
        kind: Foreign,
        object: Option<Local<'_, Object>>,
    ) -> Option<()> {
        let object = object.filter(|_| matches!(kind, Foreign::Instance | Foreign::Function));
        let class = object.filter(|_| kind == Foreign::Instance).and_then(|object| class_name(scope, object));
        match self.mode {
            Mode::Json => {
                self.out.extend_from_slice(&[wire::FOREIGN, kind as u8]);
                if kind == Foreign::Instance {
                    match class {
                        Some(name) => self.text(scope, name, 64)?,
                        None => wire::put_string(&mut self.out, ""),
                    }
                }
                Some(())
            }
            Mode::Graph => {
                let class = class.map(|name| text_of(scope, name, 64));
                self.throw_not_copied(scope, &why_not_copied(kind, class.as_deref()))
            }
            Mode::Log => {
                let text = describe(scope, kind, object);
                self.out.push(wire::STRING);
                wire::put_string(&mut self.out, &text);
                Some(())
            }
        }
    }

    fn throw_not_copied(&mut self, scope: &mut PinScope<'_, '_>, why: &str) -> Option<()> {
        let path = self.path(scope);
        throw_named(scope, "SerializationError", &format!("{path} {why}"));
        None
    }

    /// The path to the current part, for example `args[0].items[3].run`.
    fn path(&self, scope: &mut PinScope<'_, '_>) -> String {
        const ENDS: usize = 8;
        let mut path = self.root.to_owned();
        if let Some(argument) = self.argument {
            path.push_str(&format!("[{argument}]"));
        }
        for (depth, open) in self.open.iter().enumerate() {
            if self.open.len() > 2 * ENDS && (ENDS..self.open.len() - ENDS).contains(&depth) {
                if depth == ENDS {
                    path.push('…');
                }
                continue;
            }
            let index = open.next.saturating_sub(1);
            let object = Local::new(scope, &open.object);
            match &open.parts {
                Parts::Items => path.push_str(&format!("[{index}]")),
                Parts::Named(names) => {
                    let name = Local::new(scope, names).get_index(scope, index);
                    let name = name.and_then(|name| name.try_cast::<v8::String>().ok());
                    push_step(&mut path, &name.map(|name| text_of(scope, name, 64)).unwrap_or_default());
                }
                Parts::List(_) if object.is_map() => {
                    let of = if index % 2 == 0 { "keys" } else { "values" };
                    path.push_str(&format!(".{of}()[{}]", index / 2));
                }
                Parts::List(_) if object.is_set() => path.push_str(&format!(".values()[{index}]")),
                Parts::List(_) => path.push_str(".cause"),
            }
        }
        path
    }
}

/// Calls an intrinsic with an object.
fn call<'s>(
    scope: &mut PinScope<'s, '_>,
    function: &Global<v8::Function>,
    object: Local<'_, Object>,
) -> Option<Local<'s, Value>> {
    let function = Local::new(scope, function);
    let undefined = v8::undefined(scope).into();
    function.call(scope, undefined, &[object.into()])
}

/// The most UTF-16 units of the name of an error or function.
const MAX_NAME: usize = 256;

fn push_text(scope: &mut PinScope<'_, '_>, out: &mut Vec<u8>, text: Local<'_, v8::String>, max_units: usize) {
    // Nearly every string is ASCII, whose length in bytes is known before.
    let (start, units) = (out.len(), text.length().min(max_units));
    wire::put_varint(out, units as u32);
    let content = out.len();
    push_utf8(scope, out, text, max_units);
    let len = out.len() - content;
    if len != units {
        let mut prefix = Vec::with_capacity(5);
        wire::put_varint(&mut prefix, len as u32);
        out.splice(start..content, prefix);
    }
}

fn push_step(path: &mut String, key: &str) {
    let is_index = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = !key.is_empty()
        && !key.starts_with(|c: char| c.is_ascii_digit())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$');
    path.push_str(&if is_index {
        format!("[{key}]")
    } else if is_plain {
        format!(".{key}")
    } else {
        format!("[\"{key}\"]")
    });
}

fn why_not_copied(kind: Foreign, class: Option<&str>) -> String {
    match (kind, class) {
        (Foreign::Function, _) => {
            "is a function of the program, which cannot be copied; pass the value that it returns".into()
        }
        (Foreign::Symbol, _) => "is a symbol, which cannot be copied; use a string".into(),
        (Foreign::Weak, _) => "is a weak reference or collection, which cannot be copied".into(),
        (Foreign::Promise, _) => "is a Promise, which cannot be copied; await it".into(),
        (Foreign::Proxy, _) => "is a Proxy, which cannot be copied; use a plain object".into(),
        (Foreign::Instance, Some(class)) => {
            format!("is an instance of {class}, which cannot be copied; use a plain object ({{ ...value }})")
        }
        (Foreign::Instance, None) => {
            "is an instance of a class, which cannot be copied; use a plain object ({ ...value })".into()
        }
        _ => "is not plain data and cannot be copied".into(),
    }
}

/// A string in place of a value that cannot be copied, for logs.
fn describe(scope: &mut PinScope<'_, '_>, kind: Foreign, object: Option<Local<'_, Object>>) -> String {
    let mut text = match kind {
        Foreign::Function => "[Function",
        Foreign::Weak => "[Weak",
        Foreign::Promise => "[Promise",
        Foreign::Proxy => "[Proxy",
        _ => "[object",
    }
    .to_owned();
    if kind == Foreign::Function
        && let Some(function) = object
    {
        let key = symbol(scope, "name");
        let name = own_data(scope, function, key.into()).and_then(|name| name.try_cast::<v8::String>().ok());
        let name = name.map(|name| text_of(scope, name, 64)).filter(|name| !name.is_empty());
        text.extend(name.map(|name| format!(" {name}")));
    }
    text.push(']');
    text
}

/// Throws an `Error` with this name and message.
pub(crate) fn throw_named(scope: &mut PinScope<'_, '_>, name: &'static str, message: &str) {
    let Some(message) = string(scope, message) else { return };
    let error = v8::Exception::error(scope, message);
    let (key, name) = (symbol(scope, "name"), symbol(scope, name));
    if let Ok(object) = error.try_cast::<Object>() {
        object.define_own_property(scope, key.into(), name.into(), PropertyAttribute::DONT_ENUM);
    }
    scope.throw_exception(error);
}

// ---- What objects are -------------------------------------------------------------------------------------------------

/// V8's test of what a value is.
type Is = fn(&Value) -> bool;

/// What an object is, whatever its prototype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// An ordinary object, or `arguments`.
    Plain,
    Function,
    Date,
    Map,
    Set,
    RegExp,
    Error,
    Buffer,
    View,
    /// `Object(primitive)`.
    Boxed,
    BoxedSymbol,
    Promise,
    Proxy,
    Weak,
    Other,
}

impl Class {
    fn of(object: Local<'_, Object>) -> Self {
        let value: Local<'_, Value> = object.into();
        let classes: [(Is, Self); 22] = [
            (Value::is_proxy, Self::Proxy), // first: a proxy of a function is a function
            (Value::is_function, Self::Function),
            (Value::is_native_error, Self::Error),
            (Value::is_promise, Self::Promise),
            (Value::is_date, Self::Date),
            (Value::is_map, Self::Map),
            (Value::is_set, Self::Set),
            (Value::is_reg_exp, Self::RegExp),
            (Value::is_array_buffer, Self::Buffer),
            (Value::is_shared_array_buffer, Self::Other),
            (Value::is_array_buffer_view, Self::View),
            (Value::is_number_object, Self::Boxed),
            (Value::is_string_object, Self::Boxed),
            (Value::is_boolean_object, Self::Boxed),
            (Value::is_big_int_object, Self::Boxed),
            (Value::is_symbol_object, Self::BoxedSymbol),
            (Value::is_weak_map, Self::Weak),
            (Value::is_weak_set, Self::Weak),
            (Value::is_generator_object, Self::Other),
            (Value::is_map_iterator, Self::Other),
            (Value::is_set_iterator, Self::Other),
            (Value::is_module_namespace_object, Self::Other),
        ];
        classes.into_iter().find(|(is, _)| is(&value)).map_or(Self::Plain, |(_, class)| class)
    }
}

fn view_kind(view: Local<'_, Value>) -> ViewKind {
    let kinds: [(Is, ViewKind); 12] = [
        (Value::is_uint8_array, ViewKind::Uint8),
        (Value::is_uint8_clamped_array, ViewKind::Uint8Clamped),
        (Value::is_int8_array, ViewKind::Int8),
        (Value::is_int16_array, ViewKind::Int16),
        (Value::is_uint16_array, ViewKind::Uint16),
        (Value::is_int32_array, ViewKind::Int32),
        (Value::is_uint32_array, ViewKind::Uint32),
        (Value::is_big_int64_array, ViewKind::BigInt64),
        (Value::is_big_uint64_array, ViewKind::BigUint64),
        (Value::is_float16_array, ViewKind::Float16),
        (Value::is_float32_array, ViewKind::Float32),
        (Value::is_float64_array, ViewKind::Float64),
    ];
    kinds.into_iter().find(|(is, _)| is(&view)).map_or(ViewKind::DataView, |(_, kind)| kind)
}

/// Whether the length of a view is that of its resizable buffer. Only V8's serialization format has this flag.
fn follows_buffer(
    scope: &mut PinScope<'_, '_>,
    view: Local<'_, v8::ArrayBufferView>,
    buffer: Local<'_, v8::ArrayBuffer>,
) -> Option<bool> {
    const FOLLOWS: u8 = 1;
    let context = scope.get_current_context();
    let serializer = ValueSerializer::new(scope, Box::new(OnlyViews));
    serializer.transfer_array_buffer(0, buffer); // so its bytes are not copied
    serializer.write_value(context, view.into())?;
    let flags = serializer.release().last().copied();
    Some(flags.is_some_and(|flags| flags & FOLLOWS != 0))
}

/// A delegate for the serialization of views, for which V8 calls none of its methods.
struct OnlyViews;

impl ValueSerializerImpl for OnlyViews {
    fn throw_data_clone_error<'s>(&self, scope: &mut PinScope<'s, '_>, message: Local<'s, v8::String>) {
        let error = v8::Exception::error(scope, message);
        scope.throw_exception(error);
    }
}

// ---- Properties -------------------------------------------------------------------------------------------------------

/// The names of the enumerable own properties that are not symbols, as strings.
pub(crate) fn own_names<'s>(
    scope: &mut PinScope<'s, '_>,
    object: Local<'_, Object>,
    indices: IndexFilter,
) -> Option<Local<'s, Array>> {
    let arguments = GetPropertyNamesArgs {
        mode: KeyCollectionMode::OwnOnly,
        property_filter: PropertyFilter::ONLY_ENUMERABLE | PropertyFilter::SKIP_SYMBOLS,
        index_filter: indices,
        key_conversion: KeyConversionMode::ConvertToString,
    };
    object.get_property_names(scope, arguments)
}

/// Whether an array has no holes and no enumerable properties besides its items.
fn is_dense(scope: &mut PinScope<'_, '_>, array: Local<'_, Array>) -> Option<bool> {
    v8::scope!(let scope, scope);
    let array = Local::new(scope, array);
    let others = own_names(scope, array.into(), IndexFilter::SkipIndices)?;
    if others.length() > 0 {
        return Some(false);
    }
    Some(own_names(scope, array.into(), IndexFilter::IncludeIndices)?.length() == array.length())
}

/// The own data property with this name; runs no guest code.
pub(crate) fn own_data<'s>(
    scope: &mut PinScope<'s, '_>,
    object: Local<'_, Object>,
    name: Local<'_, v8::Name>,
) -> Option<Local<'s, Value>> {
    if object.is_proxy() || !object.has_own_property(scope, name)? {
        return None;
    }
    let descriptor: Local<'_, Object> = object.get_own_property_descriptor(scope, name)?.try_into().ok()?;
    let key = symbol(scope, "value");
    if !descriptor.has_own_property(scope, key.into())? {
        return None;
    }
    descriptor.get(scope, key.into())
}

/// The name of an object's class, if it is a data property of a data property `constructor` of its prototype.
fn class_name<'s>(scope: &mut PinScope<'s, '_>, object: Local<'_, Object>) -> Option<Local<'s, v8::String>> {
    let prototype: Local<'_, Object> = object.get_prototype(scope)?.try_into().ok()?;
    let key = symbol(scope, "constructor");
    let class: Local<'_, Object> = own_data(scope, prototype, key.into())?.try_into().ok()?;
    let key = symbol(scope, "name");
    own_data(scope, class, key.into())?.try_into().ok()
}
