//! Which values of a configuration are credentials. The rule is in the documentation of [`super`].

/// Collects the values of one server that are credentials.
#[derive(Debug, Default)]
pub(super) struct Candidates(Vec<(String, String)>);

impl Candidates {
    /// Adds an environment variable, a header or a parameter, if its value is a credential by its form.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        let value = without_scheme(value).trim(); // Servers may repeat the token alone.
        let is_credential = || names_a_secret(name) && looks_random(value);
        if has_known_prefix(value) || is_credential() {
            self.add_secret(name, value);
        } else if self.add_password(name, value) {
            self.add_secret(name, value); // The whole URL, too.
        }
    }

    /// Adds a value that the configuration marks as a secret.
    pub(super) fn add_secret(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// Adds the arguments of a program: `--api-key VALUE`, `--api-key=VALUE`, and passwords in URLs.
    pub(super) fn add_arguments(&mut self, arguments: &[String]) {
        for (at, argument) in arguments.iter().enumerate() {
            self.add_url(argument);
            let (option, value) = match argument.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (argument.as_str(), arguments.get(at + 1).map(String::as_str)),
            };
            match value {
                Some(value) if argument.starts_with('-') && !value.starts_with('-') => {
                    self.add(option.trim_start_matches('-'), value);
                }
                _ => self.add("argument", argument),
            }
        }
    }

    /// Adds the password of a URL, and its query parameters that are credentials.
    pub(super) fn add_url(&mut self, url: &str) {
        self.add_password("password", url);
        let query = url.split_once('?').map_or("", |(_, query)| query);
        for (name, value) in query.split('&').filter_map(|parameter| parameter.split_once('=')) {
            self.add(name, value);
        }
    }

    /// Adds the password of a URL, if it is a credential by its form. Returns whether it is.
    fn add_password(&mut self, name: &str, url: &str) -> bool {
        let password = password(url).filter(|password| has_known_prefix(password) || looks_random(password));
        if let Some(password) = password {
            self.add_secret(name, password);
        }
        password.is_some()
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(super) fn into_secrets(self) -> crate::Secrets {
        crate::Secrets::new(self.0)
    }
}

/// The credentials in the value of a header: `TOKEN` of `Bearer TOKEN`. Another value is as it is.
pub(super) fn without_scheme(value: &str) -> &str {
    let token = value.split_once(' ').filter(|(scheme, _)| SCHEMES.iter().any(|s| s.eq_ignore_ascii_case(scheme)));
    token.map_or(value, |(_, token)| token.trim_start())
}

/// Whether a name is that of a secret, and not of an identifier beside it, such as `AUTH_CLIENT_ID`.
fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part)) && !IDENTIFIERS.iter().any(|end| name.ends_with(end))
}

/// Whether a value begins as the tokens of a known service do.
fn has_known_prefix(value: &str) -> bool {
    let rest = PREFIXES.iter().find_map(|prefix| value.strip_prefix(prefix));
    rest.is_some_and(|rest| {
        let has_digit = rest.bytes().any(|byte| byte.is_ascii_digit());
        rest.len() >= MIN_AFTER_PREFIX && has_digit && rest.bytes().all(is_token)
    })
}

/// Whether a value is one token that nobody would use as ordinary data. Words, numbers, paths, addresses, e-mail addresses
/// and UUIDs are not.
fn looks_random(value: &str) -> bool {
    let is_other = value.contains(char::is_whitespace) || is_path(value) || value.contains("://") || is_email(value);
    if is_other || is_uuid(value) || value.starts_with(['{', '[']) {
        return false;
    }
    let runs = value.split(|c: char| !c.is_ascii_alphanumeric());
    is_password(value) || is_mixed(value) || runs.into_iter().any(is_random_run)
}

/// At least sixteen letters and digits that alternate as in no name: `0123abcd` in hexadecimal or base64.
fn is_random_run(run: &str) -> bool {
    let pairs = || run.as_bytes().windows(2).map(|pair| (Class::of(pair[0]), Class::of(pair[1])));
    let digits = pairs().filter(|(a, b)| (*a == Class::Digit) != (*b == Class::Digit)).count();
    run.len() >= MIN_RUN && (digits >= MIN_CHANGES || changes(run) * 4 >= run.len())
}

/// At least twelve characters of all of upper case, lower case and digits, which alternate as in no name; or forty, as the
/// keys of AWS have.
fn is_mixed(value: &str) -> bool {
    let has = |class: Class| value.bytes().any(|byte| Class::of(byte) == class);
    let is_each = has(Class::Upper) && has(Class::Lower) && has(Class::Digit) && value.bytes().all(is_token);
    let alternates = value.len() >= MIN_MIXED && changes(value) * 4 >= value.len();
    is_each && (alternates || value.len() == 40 && !value.contains(['-', '_', '.', ':', '~']))
}

/// At least eight characters with letters, digits and a symbol: a strong password.
fn is_password(value: &str) -> bool {
    let is_symbol = |byte: u8| b"!#$%&()*;<>?@[]^{|}~".contains(&byte);
    let has = |is: fn(&u8) -> bool| value.as_bytes().iter().any(is);
    value.len() >= MIN_PASSWORD
        && has(u8::is_ascii_alphabetic)
        && has(u8::is_ascii_digit)
        && value.bytes().any(is_symbol)
}

/// How often the kind of character changes. A capital that begins a word is no change.
fn changes(text: &str) -> usize {
    let pairs = text.as_bytes().windows(2).map(|pair| (Class::of(pair[0]), Class::of(pair[1])));
    let is_change = |&(a, b): &(Class, Class)| a != b && a != Class::Other && b != Class::Other;
    pairs.filter(is_change).filter(|pair| *pair != (Class::Upper, Class::Lower)).count()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Upper,
    Lower,
    Digit,
    Other,
}

impl Class {
    fn of(byte: u8) -> Self {
        match byte {
            b'A'..=b'Z' => Self::Upper,
            b'a'..=b'z' => Self::Lower,
            b'0'..=b'9' => Self::Digit,
            _ => Self::Other,
        }
    }
}

/// Whether a byte occurs in tokens: base64, hexadecimal, parts separated by `-`, `_`, `.` or `:`.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.:+/=~".contains(&byte)
}

fn is_path(value: &str) -> bool {
    let drive = value.get(1..3).is_some_and(|mark| matches!(mark, ":\\" | ":/"));
    drive || ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start))
}

fn is_email(value: &str) -> bool {
    let domain = value.split_once('@').map(|(_, domain)| domain);
    domain.is_some_and(|domain| {
        domain.contains('.') && domain.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
    })
}

fn is_uuid(value: &str) -> bool {
    let lengths = value.split('-').map(str::len).collect::<Vec<_>>();
    lengths == [8, 4, 4, 4, 12] && value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// `scheme://user:PASSWORD@host`.
fn password(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    Some(user.split_once(':').map_or(user, |(_, password)| password))
}

/// Parts of names whose values may be secrets.
const SECRET_NAMES: &[&str] =
    &["auth", "cookie", "credential", "key", "pass", "_pat", "private", "pwd", "secret", "token"];

/// Ends of names whose values identify something.
const IDENTIFIERS: &[&str] = &["id", "ids", "name", "user", "email"];

/// Authentication schemes, which precede the secret in a header.
const SCHEMES: &[&str] = &["Basic", "Bearer", "Token"];

/// The beginnings of the tokens of services.
const PREFIXES: &[&str] = &[
    "AIza",
    "AKIA",
    "ASIA",
    "EAAC",
    "SG.",
    "dapi",
    "dckr_pat_",
    "dop_v1_",
    "eyJ",
    "figd_",
    "ghp_",
    "gho_",
    "ghr_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "glptt-",
    "hf_",
    "lin_api_",
    "ntn_",
    "npm_",
    "patE",
    "pplx-",
    "pypi-",
    "r8_",
    "rk_live_",
    "rk_test_",
    "sbp_",
    "shpat_",
    "sk-",
    "sk_live_",
    "sk_test_",
    "sntrys_",
    "tvly-",
    "whsec_",
    "xai-",
    "xapp-",
    "xoxa-",
    "xoxb-",
    "xoxe-",
    "xoxp-",
    "xoxr-",
    "xoxs-",
];

/// The shortest lengths in bytes: of what follows a prefix, of a random run, of a mixed token and of a password. The fewest
/// changes between letters and digits in a random run.
const MIN_AFTER_PREFIX: usize = 8;
const MIN_RUN: usize = 16;
const MIN_MIXED: usize = 12;
const MIN_PASSWORD: usize = 8;
const MIN_CHANGES: usize = 4;

#[cfg(test)]
mod tests {
    use super::Candidates;

    /// What a text becomes beside a variable with this name and value.
    fn redacted(name: &str, value: &str, text: &str) -> String {
        let mut candidates = Candidates::default();
        candidates.add(name, value);
        candidates.into_secrets().redact(text.to_owned())
    }

    /// The values of public configurations that also occur as data.
    #[test]
    fn values_that_also_occur_as_data_are_not_secrets() {
        for (name, value) in [
            ("API_KEY", "test"),
            ("AUTH", "none"),
            ("AUTH_MODE", "oauth2"),
            ("AUTH_DOMAIN", "my-project-12345.firebaseapp.com"),
            ("ACCOUNT_ID", "123456789012"),
            ("AWS_SECRET_ACCOUNT", "123456789012"),
            ("API_KEY", "1234567890123456789"),
            ("AUTH_ROLE", "arn:aws:iam::123456789012:role/AdminRole2024"),
            ("AUTHOR", "Ann Lee <ann.lee@example.com>"),
            ("CLIENT_ID", "Iv1.8a61f9b3a7aba766"),
            ("DB_PASSWORD", "postgres"),
            ("FOLDER", "1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms"),
            ("GOOGLE_CLOUD_KEY", "/srv/ann/key2024.json"),
            ("JIRA_API_USERNAME", "ann.lee1@example.com"),
            ("KEYBOARD", "us-intl"),
            ("KEYSPACE", "customer_orders_2024"),
            ("MAX_TOKENS", "10000"),
            ("MONKEY", "true"),
            ("NEO4J_PASSWORD", "password"),
            ("PASSIVE", "AlwaysWhenPossibleAndNeeded"),
            ("PRIVATE_TEAM", "T01ABCDEF9"),
            ("PRIMARY_KEY", "customer_id"),
            ("SECRET_NAME", "prod/db/password"),
            ("TENANT_KEY", "8c5f6a2e-9a0b-4c1d-8e2f-3a4b5c6d7e8f"),
            ("TOKEN_MODEL", "gpt-4o-mini-2024-07-18"),
            ("TOKENIZER", "cl100k_base"),
            ("TOKEN_URL", "https://example.com/oauth2/token"),
            ("TOKEN_START", "2026-07-28T10:30:00Z"),
            ("DATABASE_URL", "postgres://postgres:postgres@localhost:5432/app"),
        ] {
            let text = format!("is {value} here");
            assert_eq!(redacted(name, value, &text), text, "{name}");
        }
    }

    #[test]
    fn credentials_are_found_by_their_form() {
        for (name, value) in [
            ("X", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
            ("OPENAI", "sk-proj-abc123def"),
            ("SLACK", "xoxb-1234-abcd5"),
            ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
            ("JWT", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP"),
            ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            ("DATADOG_API_KEY", "0c5f3a2b9d8e7f6a1b2c3d4e5f6a7b8c"),
            ("PASSWORD", "Tr0ub4dor&3"),
            ("TOKEN", "s3cr3t-A1b2C3d4"),
            ("Authorization", "Bearer 9f86d081884c7d659a2feaa0c55ad015"),
        ] {
            let token = value.trim_start_matches("Bearer ");
            assert_eq!(redacted(name, value, &format!("is {token} here")), format!("is ${{{name}}} here"));
        }
        let url = "postgres://ann:Tr0ub4dor&3@db/shop";
        assert_eq!(redacted("DB", url, &format!("{url} Tr0ub4dor&3")), "${DB} ${DB}");
    }

    #[test]
    fn credentials_are_found_in_arguments_and_urls() {
        let mut candidates = Candidates::default();
        let arguments = ["--api-key", "k3y-A1b2C3d4E5", "--token=t0k-A1b2C3d4E5", "--key", "--x", "xoxb-1234-abcd5"];
        candidates.add_arguments(&arguments.map(str::to_owned));
        candidates.add_arguments(&["redis://:p4ss-A1b2C3d4@host".to_owned()]);
        candidates.add_url("https://example.com/mcp?api_key=q1-A1b2C3d4E5&page=2");
        let text = "k3y-A1b2C3d4E5 t0k-A1b2C3d4E5 xoxb-1234-abcd5 p4ss-A1b2C3d4 q1-A1b2C3d4E5 ann";
        let redacted = candidates.into_secrets().redact(text.into());
        assert_eq!(redacted, "${api-key} ${token} ${x} ${password} ${api_key} ann");
    }
}
