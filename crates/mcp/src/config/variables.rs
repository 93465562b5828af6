//! Expansion of `${NAME}` in values.

use super::SkipReason;

/// The variables that were used, each with its value.
pub(super) type Used = Vec<(String, String)>;

/// Replaces every `${NAME}` and `${NAME:-default}` in `text`, and adds the variables to `used`.
///
/// `${env:NAME}`, the notation of some clients, is the same as `${NAME}`. The default is used if the variable is unset or
/// empty. `$${` is a literal `${`; any other `$` is itself. `key` is the path of keys for errors.
pub(super) fn expand(
    text: &str,
    key: &str,
    variables: &dyn Fn(&str) -> Option<String>,
    used: &mut Used,
) -> Result<String, SkipReason> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            expanded += before;
            expanded += "${";
            rest = &rest[at + 2..];
            continue;
        }
        expanded += &rest[..at];
        let Some((inside, after)) = rest[at + 2..].split_once('}') else {
            return Err(SkipReason::InvalidVariable { key: key.to_owned() });
        };
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        if name.starts_with("input:") {
            return Err(SkipReason::InputVariable { key: key.to_owned(), name: name.to_owned() });
        }
        if !is_name(name) {
            return Err(SkipReason::InvalidVariable { key: key.to_owned() });
        }
        let value = variables(name).filter(|value| default.is_none() || !value.is_empty());
        let value = value.or_else(|| default.map(str::to_owned));
        let value = value.ok_or_else(|| SkipReason::UnsetVariable { key: key.to_owned(), name: name.to_owned() })?;
        expanded += &value;
        used.push((name.to_owned(), value));
        rest = after;
    }
    Ok(expanded + rest)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::{Used, expand};

    #[test]
    fn variables_are_expanded_and_recorded() {
        let variables = |name: &str| match name {
            "A" => Some("one".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${A}".to_owned()),
            _ => None,
        };
        for (text, expanded) in [
            ("plain $ $$ {A} $A", "plain $ $$ {A} $A"),
            ("<${A}${A}>", "<oneone>"),
            ("${env:A}", "one"),
            ("${EMPTY}|${EMPTY:-d}|${NONE:-d}|${NONE:-}|${A:-d}", "|d|d||one"),
            ("${NESTED}", "${A}"),
            ("$${A} ${A}", "${A} one"),
        ] {
            assert_eq!(expand(text, "k", &variables, &mut Used::new()).unwrap(), expanded, "{text}");
        }
        for text in ["${NONE}", "${", "${A", "${}", "${A-x}", "${A:x}", "${input:a}", "${1}", "x ${A} ${NONE}"] {
            assert!(expand(text, "k", &variables, &mut Used::new()).is_err(), "{text}");
        }
        let mut used = Used::new();
        expand("${A} ${NONE:-d}", "k", &variables, &mut used).unwrap();
        assert_eq!(used, [("A".to_owned(), "one".to_owned()), ("NONE".to_owned(), "d".to_owned())]);
    }
}
