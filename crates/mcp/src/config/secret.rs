//! Which values of a configuration are credentials. The rule is in the documentation of [`super`].

use serde_json::Value as Json;

/// Collects the values of one server that are credentials.
#[derive(Debug, Default)]
pub(super) struct Candidates(Vec<(String, String)>);

impl Candidates {
    /// Adds an environment variable, a header or a parameter, if its value or a part of it is a credential by its form: a pair
    /// of a connection string or of cookies, a parameter of a URL, a member of JSON, a private key.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        let value = without_scheme(value).trim(); // Servers may repeat the token alone.
        self.add_part(name, name, value);
        let is_cookie = name.to_ascii_lowercase().ends_with("cookie");
        for (part, value) in pairs(value) {
            self.add_part(name, if is_cookie { name } else { part }, value);
        }
        if value.starts_with('{') {
            self.add_members(name, value);
        }
    }

    /// Adds a value with this name, or with `part` as the name inside a value of this name.
    fn add_part(&mut self, name: &str, part: &str, value: &str) {
        if is_credential(part, value) {
            self.add_secret(name, value);
        } else if self.add_password(name, value) {
            self.add_secret(name, value); // The whole URL, too.
        } else if value.contains(PRIVATE_KEY) {
            let lines = value.replace("\\r", "\n").replace("\\n", "\n");
            let lines = lines.split(|c: char| !is_base64(c));
            for line in lines.filter(|line| line.len() >= MIN_RUN).take(MAX_LINES) {
                self.add_secret(name, line);
            }
            self.add_secret(name, value);
        }
    }

    /// Adds the members of a JSON object, such as the `private_key` of a service account.
    fn add_members(&mut self, name: &str, text: &str) {
        let mut waiting = vec![(String::new(), serde_json::from_str(text).unwrap_or_default())];
        while let Some((member, value)) = waiting.pop() {
            match value {
                Json::String(value) => self.add_part(name, &member, &value),
                Json::Array(items) => waiting.extend(items.into_iter().map(|item| (member.clone(), item))),
                Json::Object(members) => waiting.extend(members),
                Json::Null | Json::Bool(_) | Json::Number(_) => {}
            }
        }
    }

    /// Adds a value that the configuration marks as a secret.
    pub(super) fn add_secret(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// Adds the arguments of a program: `--api-key VALUE`, `--api-key=VALUE`, `NAME=VALUE` and `NAME: VALUE`, also as the
    /// value of an option (`--header`, `-e`), and passwords in URLs.
    pub(super) fn add_arguments(&mut self, arguments: &[String]) {
        for argument in arguments {
            let outer = named(argument.trim_start_matches('-'));
            let inner = outer.and_then(|(_, value)| named(value)); // `--env=NAME=VALUE`.
            for (name, value) in inner.into_iter().chain(outer) {
                self.add(name, value);
            }
        }
        for (at, argument) in arguments.iter().enumerate() {
            let value = arguments.get(at + 1).filter(|value| !value.starts_with('-'));
            if let (Some(option), Some(value)) = (argument.strip_prefix('-'), value) {
                self.add(option.trim_start_matches('-'), value);
            }
            self.add_url(argument);
            self.add("argument", argument);
        }
    }

    /// Adds the password of a URL, and its query parameters that are credentials.
    pub(super) fn add_url(&mut self, url: &str) {
        self.add_password("password", url);
        for (name, value) in query(url).split('&').filter_map(|parameter| parameter.split_once('=')) {
            self.add_part(name, name, value);
        }
    }

    /// Adds the password of a URL, if it is a credential by its form. Returns whether it is.
    fn add_password(&mut self, name: &str, url: &str) -> bool {
        let password = password(url).filter(|password| is_credential("password", password));
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

/// The name and the value of `NAME=VALUE`, `NAME: VALUE` or `NAME:VALUE`.
fn named(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(['=', ':'])?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_name))
        .then(|| (name, value.trim_start()))
}

/// The pairs `NAME=VALUE` in a value: parameters of a URL, and parts of a connection string or of cookies.
fn pairs(value: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = value.split(|c: char| c == ';' || c.is_whitespace());
    let pairs = query(value).split('&').chain(parts).filter_map(|part| part.split_once('='));
    pairs.map(|(name, value)| (name, value.trim_matches(['"', '\''])))
}

/// The query of a URL.
fn query(url: &str) -> &str {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split_once('#').map_or(query, |(query, _)| query)
}

/// Whether a value with this name is a credential.
fn is_credential(name: &str, value: &str) -> bool {
    has_known_prefix(value) || names_a_secret(name) && looks_random(value)
}

/// Whether a name is that of a secret, and not of something beside it, such as `AUTH_CLIENT_ID`.
fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part)) && !OTHER_NAMES.iter().any(|end| name.ends_with(end))
}

/// Whether a value begins as the tokens of a known service do.
fn has_known_prefix(value: &str) -> bool {
    let rest = PREFIXES.iter().find_map(|prefix| value.strip_prefix(prefix));
    let is_known = rest.is_some_and(|rest| {
        let has_digit = rest.bytes().any(|byte| byte.is_ascii_digit());
        rest.len() >= MIN_AFTER_PREFIX && has_digit && rest.bytes().all(is_token)
    });
    let word = WORD_PREFIXES.iter().find_map(|prefix| value.strip_prefix(prefix));
    is_known || word.is_some_and(is_random_run)
}

/// Whether a value is one token that nobody would use as ordinary data. Words, numbers, paths, addresses, e-mail addresses
/// and UUIDs are not.
fn looks_random(value: &str) -> bool {
    let is_other = value.contains(char::is_whitespace) || is_path(value) || is_url(value) || is_email(value);
    if is_other || is_uuid(value) || is_fingerprint(value) || is_list_of_pairs(value) || value.starts_with(['{', '[']) {
        return false;
    }
    let runs = value.split(|c: char| !c.is_ascii_alphanumeric());
    value.split([';', ',']).any(is_password) || is_mixed(value) || runs.into_iter().any(is_random_run)
}

/// At least sixteen letters and digits that alternate as in no name: `0123abcd` in hexadecimal or base64.
fn is_random_run(run: &str) -> bool {
    if !run.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return false;
    }
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
    let is_symbol = |byte: u8| b"!#$%&()*<>?@[]^{|}~".contains(&byte);
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

/// Whether a value is a URL, or one without its scheme: `example.com:8080/a?b=1`.
fn is_url(value: &str) -> bool {
    let (host, rest) = value.split_at(value.find(['/', '?']).unwrap_or(value.len()));
    let (name, port) = host.split_once(':').unwrap_or((host, "0"));
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_domain = name.contains('.') && last.bytes().all(|b| b.is_ascii_lowercase()) && last.len() >= 2;
    let is_address = name.split('.').count() == 4 && name.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let is_host = (is_domain || is_address || name == "localhost") && name.split('.').all(is_label);
    value.contains("://") || !rest.is_empty() && is_host && port.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a value is a hash of something public: `SHA256:…`, `sha512-…`.
fn is_fingerprint(value: &str) -> bool {
    let kind = value.split_once([':', '-']).map(|(kind, _)| kind.to_ascii_lowercase());
    kind.is_some_and(|kind| kind == "md5" || matches!(kind.strip_prefix("sha"), Some("1" | "256" | "384" | "512")))
}

/// Whether a value has several parts, all of the form `NAME=VALUE`.
fn is_list_of_pairs(value: &str) -> bool {
    let is_pair = |pair: &str| pair.trim().split_once('=').is_some_and(|(_, value)| !value.is_empty());
    let mut pairs = value.split([';', '&']).filter(|pair| !pair.trim().is_empty());
    value.contains([';', '&']) && pairs.all(is_pair)
}

fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')
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

/// Ends of names whose values are something else, also beside a part of [`SECRET_NAMES`].
const OTHER_NAMES: &[&str] = &[
    "_db",
    "database",
    "domain",
    "email",
    "fingerprint",
    "host",
    "id",
    "ids",
    "name",
    "page",
    "path",
    "pattern",
    "policy",
    "region",
    "url",
    "user",
];

/// Authentication schemes, which precede the secret in a header.
const SCHEMES: &[&str] = &["ApiKey", "Basic", "Bearer", "Bot", "Token"];

/// The beginnings of the tokens of services, sorted.
const PREFIXES: &[&str] = &[
    "AIza",
    "AKIA",
    "ASIA",
    "ATATT",
    "ATCTT",
    "CCIPAT_",
    "CFPAT-",
    "EAAC",
    "GOCSPX-",
    "NRAK-",
    "NRII-",
    "NRJS-",
    "PMAK-",
    "SG.",
    "cfat_",
    "cfk_",
    "cfut_",
    "dapi",
    "dckr_oat_",
    "dckr_pat_",
    "dop_v1_",
    "dp.ct.",
    "dp.pt.",
    "dp.sa.",
    "dp.st.",
    "eyJ",
    "figd_",
    "figo_",
    "gho_",
    "ghp_",
    "ghr_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glc_",
    "gldt-",
    "glpat-",
    "glptt-",
    "glrt-",
    "glsa_",
    "gsk_",
    "hf_",
    "hvb.",
    "hvs.",
    "lin_api_",
    "lin_oauth_",
    "napi_",
    "nfp_",
    "npm_",
    "ntn_",
    "pat-eu1-",
    "pat-na1-",
    "patE",
    "pplx-",
    "pscale_pw_",
    "pscale_tkn_",
    "pypi-",
    "r8_",
    "rk_live_",
    "rk_test_",
    "rubygems_",
    "sb_secret_",
    "sbp_",
    "shpat_",
    "shpca_",
    "shppa_",
    "shpss_",
    "sk-",
    "sk_live_",
    "sk_test_",
    "sntrys_",
    "sntryu_",
    "tfp_",
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
    "ya29.",
];

/// The beginnings of tokens that other values have, too. What follows must look random. Sorted.
const WORD_PREFIXES: &[&str] = &["fc-", "key-", "secret_", "sk_"];

/// What marks a private key in PEM.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// The most lines of a private key.
const MAX_LINES: usize = 500;

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
            ("KEY_RULES", "length8,digits2,symbols1"),
            ("PASS_LIST", "north1;south2;east3"),
            ("TOKEN_PARAMS", "grant=code2&scope=read"),
            ("AUTH_ENDPOINT", "login.example.org/v2/token?tenant=t1"),
            ("AUTH_PROXY", "localhost:3128/?mode=auth1"),
            ("PASS_SERVER", "10.1.2.3:8443/x?y=1#z"),
            ("HOST_KEY", "SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8"),
            (
                "KEY_INTEGRITY",
                "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
            ),
            ("PRIVATE_DATABASE", "9c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f"),
            ("TOKEN_PAGE", "9c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f"),
            ("CONNECTION", "Host=db1;Database=orders_2024;Password=postgres"),
            ("SETTINGS", r#"{"key":"orders_2024","client_id":"9c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f"}"#),
            ("X", "secret_santa_2024"),
            ("X", "key-value-store-2024"),
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
            ("SUPABASE", "sb_secret_N7UND0UgjKTVK-Uodkm0Hg_xSvEMPvz"),
            ("CLOUD", "cfut_8Kd0Lq2Zx7Vb5Nm3"),
            ("X", "secret_k3J9x2Lm8Qv5Rt1Yp7Zw4"),
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
    fn prefixes_are_sorted() {
        assert!(super::PREFIXES.is_sorted() && super::WORD_PREFIXES.is_sorted());
    }

    #[test]
    fn credentials_are_found_inside_values() {
        let key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIBkg3u4kYQ\nAoGCCqGSM49AwEHoU\n-----END EC PRIVATE KEY-----";
        let account = serde_json::json!({ "client_email": "a@example.com", "private_key": key, "nested": [{ "apiToken": "t0k-A1b2C3d4E5" }] });
        for (name, value, text) in [
            ("SQL", "Server=tcp:db,1433;User Id=sa;Pwd='W1nter!2024';", "W1nter!2024"),
            (
                "BUS",
                "Endpoint=sb://x.example.net/;SharedAccessKeyName=Root;SharedAccessKey=q7Xv2Lr9Tz4Kp1Wm8Nc5Yb3Hd6Jf0Gs=",
                "q7Xv2Lr9Tz4Kp1Wm8Nc5Yb3Hd6Jf0Gs=",
            ),
            ("DSN", "host=db user=ann password=s3cret!Pass sslmode=require", "s3cret!Pass"),
            ("JDBC", "jdbc:mysql://db/shop?user=ann&password=s3cret!Pass", "s3cret!Pass"),
            ("ENDPOINT", "https://x.example/mcp?tenant=t1&apiKey=q1-A1b2C3d4E5#top", "q1-A1b2C3d4E5"),
            ("Cookie", "theme=dark; sid=k9Q2m7X4c1V8b5N3; lang=en", "k9Q2m7X4c1V8b5N3"),
            ("SIGNING", key, "MHcCAQEEIBkg3u4kYQ"),
            ("SIGNING", &key.replace('\n', "\\n"), "AoGCCqGSM49AwEHoU"),
            ("ACCOUNT", &account.to_string(), "MHcCAQEEIBkg3u4kYQ"),
            ("ACCOUNT", &account.to_string(), "t0k-A1b2C3d4E5"),
        ] {
            let visible = "dark, Root, sa, ann, db, a@example.com";
            let expected = format!("is ${{{name}}} here {visible}");
            assert_eq!(redacted(name, value, &format!("is {text} here {visible}")), expected, "{value}");
        }
        assert_eq!(redacted("SIGNING", key, &format!("{key}!")), "${SIGNING}!");
    }

    #[test]
    fn credentials_are_found_in_pairs_among_arguments() {
        for arguments in [
            &["--header", "X-Token: t0k-A1b2C3d4E5"][..],
            &["-H", "X-Token:t0k-A1b2C3d4E5"],
            &["--header=X-Token: Bearer t0k-A1b2C3d4E5"],
            &["run", "-e", "X-Token=t0k-A1b2C3d4E5", "image"],
            &["--env=X-Token=t0k-A1b2C3d4E5"],
            &["X-Token=t0k-A1b2C3d4E5"],
            &["-H", "X-Token: ApiKey t0k-A1b2C3d4E5"],
        ] {
            let mut candidates = Candidates::default();
            candidates.add_arguments(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>());
            let text = "is t0k-A1b2C3d4E5 of image run, X-Token, header".to_owned();
            let expected = "is ${X-Token} of image run, X-Token, header";
            assert_eq!(candidates.into_secrets().redact(text), expected, "{arguments:?}");
        }
        let mut candidates = Candidates::default();
        candidates.add_arguments(
            &["--key", "QUJDREVGR0g5MTIzNDU2Nzg5MGFiY2RlZg==", "--auth", "ann:W1nter!2024"].map(str::to_owned),
        );
        let text = "QUJDREVGR0g5MTIzNDU2Nzg5MGFiY2RlZg== ann:W1nter!2024";
        assert_eq!(candidates.into_secrets().redact(text.to_owned()), "${key} ${auth}");
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
