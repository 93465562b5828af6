//! Which values of a configuration are secrets. See [`super`] for the rule.

/// Collects what a server is given and must not tell.
#[derive(Debug, Default)]
pub(super) struct Given(Vec<(String, String)>);

impl Given {
    /// A value of that name: an environment variable, a header, a parameter.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        if let Some(password) = password(value) {
            self.0.push((name.to_owned(), password.to_owned()));
        }
        // `Bearer TOKEN`: servers repeat the token alone, too.
        let token = value.split_once(' ').filter(|(scheme, _)| SCHEMES.iter().any(|s| s.eq_ignore_ascii_case(scheme)));
        let value = token.map_or(value, |(_, token)| token.trim());
        if names_a_secret(name) || !is_plain(value) {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    /// The arguments of a program: `--api-key VALUE`, `--api-key=VALUE`, and passwords in addresses.
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
                _ => self.add_address(argument),
            }
        }
    }

    /// An address: the password in it, and the parameters whose names are those of secrets.
    pub(super) fn add_address(&mut self, address: &str) {
        if let Some(password) = password(address) {
            self.0.push(("password".to_owned(), password.to_owned()));
        }
        let query = address.split_once('?').map_or("", |(_, query)| query);
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

/// Whether a value is what many texts have, and secrets are not.
fn is_plain(value: &str) -> bool {
    is_path(value) || is_bare_address(value) || value.split([' ', ',', ';', ':', '-', '_', '.', '/']).all(is_word)
}

/// A number, letters as words have them (all of one case, but for the first), or next to nothing, as `v1` and `s3`.
fn is_word(word: &str) -> bool {
    let is_number = word.len() <= MAX_DIGITS && word.bytes().all(|byte| byte.is_ascii_digit());
    let rest = word.get(1..).unwrap_or_default();
    let is_cased = |is: fn(char) -> bool| rest.chars().all(|c| c.is_alphabetic() && is(c));
    let is_text = word.len() <= LONGEST_WORD
        && word.chars().all(char::is_alphabetic)
        && (is_cased(char::is_lowercase) || is_cased(char::is_uppercase));
    is_number || is_text || word.len() <= SHORTEST_KEY && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn is_path(value: &str) -> bool {
    let drive = value.get(1..3).is_some_and(|mark| matches!(mark, ":\\" | ":/"));
    drive || ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start))
}

/// An address of the web without a password or a query.
fn is_bare_address(value: &str) -> bool {
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

/// Parts of names whose values are hidden whatever they look like.
const SECRET_NAMES: &[&str] = &["auth", "cookie", "credential", "key", "pass", "private", "pwd", "secret", "token"];

/// What stands before the secret in a header.
const SCHEMES: &[&str] = &["Basic", "Bearer", "Token"];

/// What passes for a word and for a number.
const LONGEST_WORD: usize = 20;
const MAX_DIGITS: usize = 8;
const SHORTEST_KEY: usize = 3;

#[cfg(test)]
mod tests {
    use super::{Given, is_plain};

    #[test]
    fn plain_values_are_told_from_secrets() {
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
    fn secrets_are_found_where_they_stand() {
        let mut given = Given::default();
        given.add("Authorization", "Bearer abcdef");
        given.add("DB_PASSWORD", "horse");
        given.add("DATABASE_URL", "postgres://ann:s3cr@db/shop");
        given.add("NODE_ENV", "production");
        let arguments = ["--api-key", "first", "--token=second", "-v", "--key", "--x", "redis://:third@host"];
        given.add_arguments(&arguments.map(str::to_owned));
        given.add_address("https://example.com/mcp?api_key=fourth&page=2");
        let secrets = given.into_secrets();
        let hidden = secrets.hide("abcdef horse s3cr production first second third fourth ann".into());
        assert_eq!(
            hidden,
            "${Authorization} ${DB_PASSWORD} ${DATABASE_URL} production ${api-key} ${token} ${password} ${api_key} ann"
        );
    }
}
