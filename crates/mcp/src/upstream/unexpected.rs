//! Responses over HTTP that are no messages of MCP: pages, redirects, failures. Their description shows what the server says.

use execbox_core::text::cut;
use http::StatusCode;
use http::header::{AsHeaderName, CONTENT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use reqwest::Response;
use rmcp::model::ServerJsonRpcMessage;

use crate::Secrets;

/// A response that is no message of MCP, or one with a status of failure.
#[derive(Debug)]
pub(super) struct Unexpected {
    pub(super) status: StatusCode,
    media_type: String,
    /// A coding of the body that is not supported.
    coding: Option<String>,
    /// When the server may be asked again: seconds or a date.
    retry_after: Option<String>,
    /// The URL that the response redirects to, without its query.
    redirect: Option<String>,
    /// The beginning of the body.
    body: String,
    /// The error of JSON-RPC in the body, if there is one.
    pub(super) answer: Option<Box<ServerJsonRpcMessage>>,
}

impl Unexpected {
    /// Describes a response whose body is not read.
    pub(super) fn new(response: &Response) -> Self {
        Self {
            status: response.status(),
            media_type: media_type(response),
            coding: header(response, CONTENT_ENCODING).filter(|coding| !coding.trim().eq_ignore_ascii_case("identity")),
            retry_after: header(response, RETRY_AFTER)
                .map(|after| after.trim().to_owned())
                .filter(|after| !after.is_empty()),
            redirect: if response.status().is_redirection() { redirect(response) } else { None },
            body: String::new(),
            answer: None,
        }
    }

    pub(super) fn with_body(self, body: &[u8]) -> Self {
        Self { body: String::from_utf8_lossy(body).into_owned(), ..self }
    }

    pub(super) fn with_answer(self, answer: Option<ServerJsonRpcMessage>) -> Self {
        Self { answer: answer.map(Box::new), ..self }
    }

    /// Whether a request over a session can have failed because the session has ended. The status of the specification is 404,
    /// but servers that were restarted use others.
    pub(super) fn may_end_session(&self) -> bool {
        let is_other = matches!(
            self.status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::TOO_MANY_REQUESTS
        );
        self.status.is_client_error() && !is_other || self.status == StatusCode::INTERNAL_SERVER_ERROR
    }

    /// What the server has answered, as a clause on one line.
    pub(super) fn describe(&self, secrets: &Secrets) -> String {
        let says = self.says(secrets);
        if !self.status.is_success() {
            let after = self.retry_after();
            let redirect = self.redirect.as_ref().map(|to| format!("; not followed: {}", line(to))).unwrap_or_default();
            let says = if says.is_empty() { says } else { format!(": {says}") };
            return format!("HTTP {}{after}{redirect}{says}", self.status);
        }
        match (self.body.trim().is_empty(), self.media_type.as_str()) {
            (true, _) => format!("invalid response: HTTP {} without an answer", self.status),
            (_, "" | "application/json") => format!("invalid response: not an MCP message: {says}"),
            (_, media_type) => {
                let says = if says.is_empty() { says } else { format!(": {says}") };
                format!("invalid response: {} instead of JSON or events{says}", line(media_type))
            }
        }
    }

    /// The beginning of the body on one line; of a page of HTML, its title.
    fn says(&self, secrets: &Secrets) -> String {
        if let Some(coding) = &self.coding {
            return format!("its Content-Encoding {:?} is not supported", line(coding));
        }
        let body = secrets.redact(self.body.clone());
        let begins = |with: &str| {
            let start = body.trim_start().as_bytes();
            start.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
        };
        if self.media_type != "text/html" && !begins("<!doctype html") && !begins("<html") {
            return line(&body);
        }
        title(&body).map(|title| format!("a page with the title {:?}", line(title))).unwrap_or_default()
    }

    fn retry_after(&self) -> String {
        match &self.retry_after {
            Some(seconds) if seconds.parse::<u32>().is_ok() => format!("; retry after {seconds} s"),
            Some(date) => format!("; retry after {}", line(date)),
            None => String::new(),
        }
    }
}

/// The content of the element `title` of a page, if it is not empty.
fn title(page: &str) -> Option<&str> {
    let lower = page.to_ascii_lowercase();
    let element = lower.find("<title")?;
    let start = element + lower[element..].find('>')? + 1;
    let end = start + lower[start..].find('<')?;
    Some(page[start..end].trim()).filter(|title| !title.is_empty())
}

/// The URL that a response redirects to, without its query, which may have secrets.
fn redirect(response: &Response) -> Option<String> {
    let mut to = response.url().join(&header(response, LOCATION)?).ok()?;
    to.set_query(None);
    to.set_fragment(None);
    let _ = (to.set_username(""), to.set_password(None));
    Some(to.to_string())
}

/// A header, if it is text.
pub(super) fn header(response: &Response, name: impl AsHeaderName) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The media type of a body in lower case, without parameters.
pub(super) fn media_type(response: &Response) -> String {
    let stated = header(response, CONTENT_TYPE).unwrap_or_default();
    stated.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The beginning of a text, on one line.
pub(super) fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    cut(&words.collect::<Vec<_>>().join(" "), MAX_EXCERPT)
}

/// The maximum length of an excerpt of a response, in characters.
const MAX_EXCERPT: usize = 200;
