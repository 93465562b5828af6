//! Which values of a configuration are secrets. The rule is in the documentation of [`super`].

/// Collects the values of one server, and keeps those that are secrets.
#[derive(Debug, Default)]
pub(super) struct Candidates(Vec<(String, String)>);

impl Candidates {
    /// Adds an environment variable, a header or a parameter.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        if let Some(password) = password(value) {
            self.0.push((name.to_owned(), password.to_owned()));
        }
        // `Bearer TOKEN`: servers may repeat the token alone.
        let token = value.split_once(' ').filter(|(scheme, _)| SCHEMES.iter().any(|s| s.eq_ignore_ascii_case(scheme)));
        let value = token.map_or(value, |(_, token)| token.trim());
        if names_a_secret(name) || !is_plain(value) {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Adds a value that is always a secret.
    pub(super) fn add_secret(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// Adds the arguments of a program: `--api-key VALUE`, `--api-key=VALUE`, and passwords in URLs.
    pub(super) fn add_arguments(&mut self, arguments: &[String]) {
        for (at, argument) in arguments.iter().enumerate() {
            let (option, value) = match argument.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (argument.as_str(), arguments.get(at + 1).map(String::as_str)),
            };
            let option = option.trim_start_matches('-');
            match value {
                Some(value) if argument.starts_with('-') && names_a_secret(option) && !value.starts_with('-') => {
                    self.add(option, value);
                }
                _ => self.add_url(argument),
            }
        }
    }

    /// Adds the password of a URL, and its query parameters with the names of secrets.
    pub(super) fn add_url(&mut self, url: &str) {
        if let Some(password) = password(url) {
            self.0.push(("password".to_owned(), password.to_owned()));
        }
        let query = url.split_once('?').map_or("", |(_, query)| query);
        for (name, value) in query.split('&').filter_map(|parameter| parameter.split_once('=')) {
            if names_a_secret(name) {
                self.0.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(super) fn into_secrets(self) -> crate::Secrets {
        crate::Secrets::new(self.0)
    }
}

fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Whether a value looks like ordinary text, unlike a secret. Redacting such a value would damage other text.
fn is_plain(value: &str) -> bool {
    is_path(value) || is_bare_url(value) || value.split([' ', ',', ';', ':', '-', '_', '.', '/']).all(is_word)
}

/// A number, a word (letters of one case after the first), or a short name such as `v1` or `s3`.
fn is_word(word: &str) -> bool {
    let is_number = word.len() <= MAX_DIGITS && word.bytes().all(|byte| byte.is_ascii_digit());
    let rest = word.get(1..).unwrap_or_default();
    let is_cased = |is: fn(char) -> bool| rest.chars().all(|c| c.is_alphabetic() && is(c));
    let is_text = word.len() <= MAX_WORD
        && word.chars().all(char::is_alphabetic)
        && (is_cased(char::is_lowercase) || is_cased(char::is_uppercase));
    is_number || is_text || word.len() <= MAX_SHORT_NAME && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn is_path(value: &str) -> bool {
    let drive = value.get(1..3).is_some_and(|mark| matches!(mark, ":\\" | ":/"));
    drive || ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start))
}

/// A web address without a password or a query.
fn is_bare_url(value: &str) -> bool {
    let web = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://"));
    web.is_some_and(|rest| !rest.contains(['@', '?', '#', ' ']))
}

/// `scheme://user:PASSWORD@host`.
fn password(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    Some(user.split_once(':').map_or(user, |(_, password)| password))
}

/// Parts of names whose values are secrets.
const SECRET_NAMES: &[&str] = &["auth", "cookie", "credential", "key", "pass", "private", "pwd", "secret", "token"];

/// Authentication schemes, which precede the secret in a header.
const SCHEMES: &[&str] = &["Basic", "Bearer", "Token"];

/// The maximum lengths of a plain word, number and short name, in bytes.
const MAX_WORD: usize = 20;
const MAX_DIGITS: usize = 8;
const MAX_SHORT_NAME: usize = 3;

#[cfg(test)]
mod tests {
    use super::{Candidates, is_plain};

    #[test]
    fn plain_values_are_distinguished_from_secrets() {
        for plain in [
            "true",
            "8080",
            "1.5",
            "production",
            "read-only",
            "repos,issues",
            "INFO",
            "Europe/Berlin",
            "en_US.UTF-8",
            "/srv/ann/projects",
            "./data",
            "C:\\Users\\Ann",
            "https://api.example.com/v1",
            "localhost:8080",
            "ann",
            "application/json",
            "/usr/local/bin:/usr/bin",
        ] {
            assert!(is_plain(plain), "{plain}");
        }
        for secret in [
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "sk-proj-abc123",
            "hunter2",
            "correctHorse",
            "123456789012",
            "postgres://ann:pw@db/shop",
            "https://hooks.example.com/?k=1",
            "xoxb-1234-abcd5",
            "AKIAIOSFODNN7EXAMPLE",
        ] {
            assert!(!is_plain(secret), "{secret}");
        }
    }

    #[test]
    fn secrets_are_found_in_headers_variables_arguments_and_urls() {
        let mut candidates = Candidates::default();
        candidates.add("Authorization", "Bearer abcdef");
        candidates.add("DB_PASSWORD", "horse");
        candidates.add("DATABASE_URL", "postgres://ann:s3cr@db/shop");
        candidates.add("NODE_ENV", "production");
        let arguments = ["--api-key", "first", "--token=second", "-v", "--key", "--x", "redis://:third@host"];
        candidates.add_arguments(&arguments.map(str::to_owned));
        candidates.add_url("https://example.com/mcp?api_key=fourth&page=2");
        let secrets = candidates.into_secrets();
        let redacted = secrets.redact("abcdef horse s3cr production first second third fourth ann".into());
        assert_eq!(
            redacted,
            "${Authorization} ${DB_PASSWORD} ${DATABASE_URL} production ${api-key} ${token} ${password} ${api_key} ann"
        );
    }
}
