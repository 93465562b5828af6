//! Files of environment variables, in the format `.env`.
//!
//! `NAME=VALUE` in each line, optionally after `export`. Blank lines and lines that start with `#` are ignored. A value ends at
//! the end of its line or at ` #`, and is trimmed. In single quotes it is literal; in double quotes `\n`, `\r`, `\t`, `\"`,
//! `\\` and `\$` are escapes. Quoted values may have several lines. Nothing is expanded. The last of two lines with the same
//! name counts. The crate `dotenvy` expands values, and shows them in its errors.

use std::collections::HashSet;

use super::MAX_ENV_FILE;

/// Why a file is not in the format. Contains no text of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvFileProblem {
    /// A line without `=`.
    #[error("expected NAME=VALUE")]
    MissingEquals,
    /// A name with characters that are not allowed, or with a digit at its start.
    #[error("invalid name: expected letters, digits, `_`, `.` and `-`, not starting with a digit")]
    InvalidName,
    /// A quoted value that does not end.
    #[error("missing closing quote")]
    UnclosedQuote,
    /// Something other than a comment after a quoted value.
    #[error("unexpected text after the closing quote")]
    TextAfterQuote,
    /// A NUL character, which environment variables cannot contain.
    #[error("unexpected NUL character")]
    Nul,
    /// More than [`MAX_ENV_FILE`] bytes.
    #[error("the file is longer than {} KiB", MAX_ENV_FILE >> 10)]
    TooLong,
}

/// The variables of a file, in the order of their last definitions. An error has the line of its cause.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, (usize, EnvFileProblem)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let line_at = |rest: &str| text[..text.len() - rest.len()].matches('\n').count() + 1;
    if text.len() > MAX_ENV_FILE {
        return Err((line_at(""), EnvFileProblem::TooLong));
    }
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (variable, after) = match rest.starts_with('#') {
            true => (None, rest.split_once('\n').map_or("", |(_, after)| after)),
            false => assignment(rest).map_err(|problem| (line_at(rest), problem))?,
        };
        if let Some((name, value)) = variable {
            variables.push((name.to_owned(), value));
        }
        rest = after.trim_start();
    }
    let mut names = HashSet::new();
    variables.reverse();
    variables.retain(|(name, _)| names.insert(name.clone()));
    variables.reverse();
    Ok(variables)
}

type Assignment<'a> = (Option<(&'a str, String)>, &'a str);

/// Reads `NAME=VALUE`, and returns the text after it.
fn assignment(text: &str) -> Result<Assignment<'_>, EnvFileProblem> {
    let line = text.split('\n').next().unwrap_or_default();
    let (name, _) = line.split_once('=').ok_or(EnvFileProblem::MissingEquals)?;
    let value = &text[name.len() + 1..];
    let exported = name.strip_prefix("export").filter(|name| name.starts_with([' ', '\t']));
    let name = exported.unwrap_or(name).trim();
    if !is_name(name) {
        return Err(EnvFileProblem::InvalidName);
    }
    let value = value.trim_start_matches([' ', '\t']);
    let (value, after) = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => quoted(&value[1..], quote)?,
        _ => unquoted(value),
    };
    if value.contains('\0') {
        return Err(EnvFileProblem::Nul);
    }
    Ok((Some((name, value)), after))
}

fn unquoted(text: &str) -> (String, &str) {
    let (line, after) = text.split_once('\n').unwrap_or((text, ""));
    let comment = line.match_indices('#').find(|(at, _)| line[..*at].is_empty() || line[..*at].ends_with([' ', '\t']));
    let value = comment.map_or(line, |(at, _)| &line[..at]);
    (value.trim().to_owned(), after)
}

/// Reads up to the closing quote, and the rest of its line, which is blank or a comment.
fn quoted(text: &str, quote: char) -> Result<(String, &str), EnvFileProblem> {
    let mut value = String::new();
    let mut rest = text.chars();
    loop {
        match rest.next().ok_or(EnvFileProblem::UnclosedQuote)? {
            c if c == quote => break,
            '\\' if quote == '"' => match rest.next().ok_or(EnvFileProblem::UnclosedQuote)? {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                c @ ('"' | '\\' | '$') => value.push(c),
                other => value.extend(['\\', other]),
            },
            c => value.push(c),
        }
    }
    let (line, after) = rest.as_str().split_once('\n').unwrap_or((rest.as_str(), ""));
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') { Ok((value, after)) } else { Err(EnvFileProblem::TextAfterQuote) }
}

fn is_name(name: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    name.chars().all(is_valid) && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{EnvFileProblem, MAX_ENV_FILE, parse};

    #[test]
    fn variables_are_read_in_every_notation() {
        for (text, expected) in [
            ("", &[][..]),
            ("A=1\nB = two words \r\n\n C=", &[("A", "1"), ("B", "two words"), ("C", "")]),
            (
                "\u{feff}# comment = 1\n  # another\nexport A=1\nexport\tB=2\nexported=3",
                &[("A", "1"), ("B", "2"), ("exported", "3")],
            ),
            ("A=a#b # c\nB=#c\nC= # c\nD=x=y==", &[("A", "a#b"), ("B", ""), ("C", ""), ("D", "x=y==")]),
            (r"A='a $B \n # c' # d", &[("A", r"a $B \n # c")]),
            (r#"A="a\n\"b\"\\ \$B ${C} \x 'd'" "#, &[("A", "a\n\"b\"\\ $B ${C} \\x 'd'")]),
            ("A='-----\nkey\n-----'\nB=\"1\n2\"", &[("A", "-----\nkey\n-----"), ("B", "1\n2")]),
            ("A=1\nB=2\nA=3", &[("B", "2"), ("A", "3")]),
            ("A=$HOME it's", &[("A", "$HOME it's")]),
            ("a.b-c=1", &[("a.b-c", "1")]),
        ] {
            let read = parse(text).unwrap();
            let read: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(read, expected, "{text:?}");
        }
    }

    #[test]
    fn an_invalid_line_is_located() {
        for (text, line, problem) in [
            ("A=1\n\nB", 3, EnvFileProblem::MissingEquals),
            ("A='1\n2'\nexport B", 3, EnvFileProblem::MissingEquals),
            ("=1", 1, EnvFileProblem::InvalidName),
            ("1A=1", 1, EnvFileProblem::InvalidName),
            ("A B=1", 1, EnvFileProblem::InvalidName),
            ("export =1", 1, EnvFileProblem::InvalidName),
            ("A=1\nB='2\nC=3\n", 2, EnvFileProblem::UnclosedQuote),
            ("A=\"1\\", 1, EnvFileProblem::UnclosedQuote),
            ("A='1'2", 1, EnvFileProblem::TextAfterQuote),
            ("A=1\0", 1, EnvFileProblem::Nul),
        ] {
            assert_eq!(parse(text).unwrap_err(), (line, problem), "{text:?}");
        }
        let long = "A=1\n".repeat(MAX_ENV_FILE / 4);
        assert!(parse(&long).is_ok());
        assert_eq!(parse(&(long + "\n")).unwrap_err().1, EnvFileProblem::TooLong);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_an_error_with_a_line_of_it(text in r#"([A-C=#'"\\ \n\t\r$é\x00]|export ){0,40}"#) {
            match parse(&text) {
                Ok(variables) => prop_assert!(variables.iter().all(|(_, value)| !value.contains('\0'))),
                Err((line, _)) => prop_assert!(line <= text.split('\n').count()),
            }
        }
    }
}
