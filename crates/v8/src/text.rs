//! Text between Rust and V8.

use v8::{Isolate, Local, NewStringType, PinScope, String as JsString, ValueView, ValueViewData};

/// Makes a string of V8; `None` if it is too long for one.
pub(crate) fn string<'s>(scope: &mut PinScope<'s, '_>, text: &str) -> Option<Local<'s, JsString>> {
    JsString::new(scope, text)
}

/// An internalized string for a property name that the engine uses.
pub(crate) fn symbol<'s>(scope: &mut PinScope<'s, '_>, name: &'static str) -> Local<'s, JsString> {
    JsString::new_from_utf8(scope, name.as_bytes(), NewStringType::Internalized).expect("the name is short")
}

/// Appends the first `max_units` UTF-16 units as UTF-8. Lone surrogates become U+FFFD; a pair is never split.
pub(crate) fn push_utf8(isolate: &mut Isolate, out: &mut Vec<u8>, text: Local<'_, JsString>, max_units: usize) {
    let view = ValueView::new(isolate, text);
    match view.data() {
        ValueViewData::OneByte(bytes) => push_latin1(out, &bytes[..bytes.len().min(max_units)]),
        ValueViewData::TwoByte(units) => push_utf16(out, units, max_units),
    }
}

fn push_latin1(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_ascii() {
        out.extend_from_slice(bytes);
        return;
    }
    out.reserve(bytes.len() + bytes.len() / 8);
    for &byte in bytes {
        if byte < 0x80 { out.push(byte) } else { out.extend_from_slice(&[0xc0 | byte >> 6, 0x80 | (byte & 0x3f)]) }
    }
}

fn push_utf16(out: &mut Vec<u8>, units: &[u16], max_units: usize) {
    out.reserve(units.len().min(max_units));
    let (mut left, mut bytes) = (max_units, [0; 4]);
    for decoded in char::decode_utf16(units.iter().copied()) {
        let char = decoded.unwrap_or(char::REPLACEMENT_CHARACTER);
        if char.len_utf16() > left {
            return;
        }
        left -= char.len_utf16();
        out.extend_from_slice(char.encode_utf8(&mut bytes).as_bytes());
    }
}

/// The text of a string, cut to `max_units`.
pub(crate) fn text_of(isolate: &mut Isolate, text: Local<'_, JsString>, max_units: usize) -> String {
    let mut bytes = Vec::new();
    push_utf8(isolate, &mut bytes, text, max_units);
    String::from_utf8(bytes).expect("it was written as UTF-8")
}
