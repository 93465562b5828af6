//! Challenges of servers: the header `WWW-Authenticate` of answers with status 401 and 403 (RFC 6750 §3, RFC 9728 §5.1).

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// What a server asks for in the challenges of one answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// The scopes that the request needs.
    pub(crate) scopes: Vec<String>,
    /// The URL of the metadata of the resource.
    pub(super) resource_metadata: Option<String>,
    /// Whether the token is valid, but has too few scopes.
    pub(crate) is_scope_insufficient: bool,
}

impl Challenge {
    /// Reads all challenges of an answer; of a parameter that occurs several times, the first.
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let mut challenge = Self::default();
        for value in headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()) {
            for (name, value) in parameters(value) {
                match name.to_ascii_lowercase().as_str() {
                    "scope" if challenge.scopes.is_empty() => challenge.scopes = scopes(&value),
                    "resource_metadata" if challenge.resource_metadata.is_none() && !value.is_empty() => {
                        challenge.resource_metadata = Some(value);
                    }
                    "error" => challenge.is_scope_insufficient |= value == "insufficient_scope",
                    _ => {}
                }
            }
        }
        challenge
    }
}

/// The parameters of a challenge, with and without quotation marks. Names of schemes, and what else has no value, are skipped.
fn parameters(text: &str) -> Vec<(&str, String)> {
    let (mut parameters, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find(is_name) {
        let (name, after) = split(&rest[start..], |c| !is_name(c));
        let after = after.trim_start();
        let Some(value) = after.strip_prefix('=') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        let (value, after) = if let Some(quoted) = value.strip_prefix('"') {
            unquote(quoted)
        } else {
            let (value, after) = split(value, |c| matches!(c, ',' | ';') || c.is_ascii_whitespace());
            (value.to_owned(), after)
        };
        parameters.push((name, value));
        rest = after;
    }
    parameters
}

/// Whether a character belongs to the name of a parameter, or to another word.
fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*')
}

fn split(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

/// The value of a quoted string whose opening mark has been read, and what follows it.
fn unquote(text: &str) -> (String, &str) {
    let (mut value, mut characters) = (String::new(), text.chars());
    while let Some(c) = characters.next() {
        match c {
            '"' => break,
            '\\' => value.extend(characters.next()),
            c => value.push(c),
        }
    }
    (value, characters.as_str())
}

/// The scopes in a list (RFC 6749 §3.3), without what can be none.
pub(super) fn scopes(list: &str) -> Vec<String> {
    // Some servers separate them by commas.
    let separator = if list.contains(char::is_whitespace) { char::is_whitespace } else { |c| c == ',' };
    list.split(separator).filter(|scope| is_scope(scope)).take(MAX_SCOPES).map(str::to_owned).collect()
}

pub(super) fn is_scope(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    (1..=MAX_SCOPE).contains(&text.len()) && text.bytes().all(is_valid)
}

/// Adds the scopes that a list lacks, up to a limit.
pub(super) fn add_scopes(list: &mut Vec<String>, others: &[String]) {
    for scope in others {
        if list.len() < MAX_SCOPES && !list.contains(scope) {
            list.push(scope.clone());
        }
    }
}

/// The maximum number of scopes in a list, and the maximum length of each, in bytes.
pub(super) const MAX_SCOPES: usize = 100;
const MAX_SCOPE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Challenge {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        Challenge::read(&headers)
    }

    #[test]
    fn parameters_are_read_in_every_notation() {
        let all = |values: &[&str]| {
            let challenge = read(values);
            let metadata = challenge.resource_metadata.unwrap_or_default();
            format!("{} {metadata} {}", challenge.scopes.join("+"), challenge.is_scope_insufficient)
        };
        for (values, expected) in [
            (&["Bearer"][..], "  false"),
            (&[""], "  false"),
            (&["Bearer scope=\"a b\", resource_metadata=\"https://x/y\""], "a+b https://x/y false"),
            (&["Bearer resource_metadata=https://x/y?z=1,scope=a"], "a https://x/y?z=1 false"),
            (&["bearer Scope = \"a\" , ERROR = \"insufficient_scope\""], "a  true"),
            (&["Bearer error=insufficient_scope; scope=a"], "a  true"),
            (&["Bearer realm=\"scope=x, \\\"scope=\\\"y\", scope=\"a\""], "a  false"),
            (&["Basic realm=\"x\"", "Bearer scope=\"a\"", "Bearer scope=\"b\""], "a  false"),
            (&["Basic realm=\"x\", Bearer scope=\"a,b,c:d\""], "a+b+c:d  false"),
            (&["Bearer scope=\"a"], "a  false"),
            (&["Bearer scope=\"\", resource_metadata=\"\""], "  false"),
            (&["Bearer scope=\"a\tb \\\"c ok\""], "a+b+ok  false"),
            (&["Bearer scope="], "  false"),
            (&["====,,\"=\"scope=a"], "a  false"),
        ] {
            assert_eq!(all(values), expected, "{values:?}");
        }
    }

    #[test]
    fn lists_of_scopes_are_limited() {
        let many = (0..10_000).map(|at| format!("s{at}")).collect::<Vec<_>>().join(" ");
        assert_eq!(scopes(&many).len(), MAX_SCOPES);
        assert_eq!(scopes(&format!("a {} b", "x".repeat(300))), ["a", "b"]);
        let mut list = scopes(&many);
        add_scopes(&mut list, &["new".to_owned()]);
        assert_eq!(list.len(), MAX_SCOPES);
    }

    proptest::proptest! {
        #[test]
        fn any_challenge_is_read(text in "[ -~]{0,200}") {
            read(&[&text]);
        }

        #[test]
        fn a_scope_after_any_other_parameter_is_found(value in "[ -~]{0,50}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let challenge = read(&[&format!("Bearer x=\"{quoted}\", scope=\"a\"")]);
            proptest::prop_assert_eq!(challenge.scopes, ["a"]);
        }
    }
}
