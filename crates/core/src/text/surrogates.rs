//! Lone surrogates in JSON texts.

/// A JSON text with every escape of a lone surrogate replaced by U+FFFD, as `String.prototype.toWellFormed` does; `None` if
/// there is none.
///
/// `JSON.stringify` writes a lone surrogate as `\ud800`, which is valid JSON and not a valid Rust string.
pub fn mend_surrogates(line: &str) -> Option<String> {
    let mut mended = String::new();
    let mut kept = 0;
    let mut at = 0;
    while let Some(found) = line[at..].find('\\') {
        let escape = at + found;
        match (unit_at(line, escape), unit_at(line, escape + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => at = escape + 12,
            (Some(0xd800..0xe000), _) => {
                mended += &line[kept..escape];
                mended += "\\ufffd";
                at = escape + 6;
                kept = at;
            }
            _ => at = escape + 1 + line[escape + 1..].chars().next()?.len_utf8(),
        }
    }
    (kept > 0).then(|| mended + &line[kept..])
}

/// The UTF-16 unit of the escape at this place, such as `\ud800`.
fn unit_at(line: &str, at: usize) -> Option<u16> {
    let digits = line.get(at..at + 6)?.strip_prefix("\\u")?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}
