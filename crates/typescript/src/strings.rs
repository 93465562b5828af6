//! The values of string literals.

use crate::lexer::unicode_escape;

/// The value of the literal `text`, which includes its quotes. A lone surrogate becomes U+FFFD.
pub(crate) fn value(text: &str) -> String {
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    let mut value = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        value.push_str(&rest[..at]);
        rest = escape(&rest[at..], &mut value);
    }
    value.push_str(rest);
    value
}

/// Adds the value of the escape at the start of `text`, and returns the text after it.
fn escape<'t>(text: &'t str, value: &mut String) -> &'t str {
    if let Some((character, end)) = unicode_escape(text, 0) {
        value.push(character);
        return &text[end..];
    }
    let mut characters = text.chars();
    characters.next();
    let Some(escaped) = characters.next() else { return "" };
    let rest = characters.as_str();
    value.push(match escaped {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '0' if !rest.starts_with(|c: char| c.is_ascii_digit()) => '\0',
        'x' => match rest.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                value.push(code.into());
                return &rest[2..];
            }
            None => 'x',
        },
        'u' => '\u{fffd}',
        '\r' => return rest.strip_prefix('\n').unwrap_or(rest),
        '\n' | '\u{2028}' | '\u{2029}' => return rest,
        other => other,
    });
    rest
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn escapes_are_decoded() {
        for (text, expected) in [
            (r"'a\tb\x41\u0042\u{43}'", "a\tbABC"),
            (r#""it\'s""#, "it's"),
            ("'a\\\nb'", "ab"),
            (r"'\0\q'", "\0q"),
            ("''", ""),
        ] {
            assert_eq!(value(text), expected);
        }
    }
}
