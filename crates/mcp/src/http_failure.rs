//! Descriptions of failed HTTP requests, without the URLs and addresses that their errors contain.

use std::error::Error;

/// What failed, as a clause without URLs.
pub(crate) fn http_failure(error: &reqwest::Error) -> String {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref() {
            Some(rustls::Error::InvalidCertificate(_)) => return "certificate not trusted".to_owned(),
            Some(_) => return "TLS handshake failed".to_owned(),
            None => {}
        }
        // The inner error of an `io::Error` is not its source.
        let inner = error.downcast_ref().and_then(std::io::Error::get_ref);
        cause = inner.map_or_else(|| error.source(), |inner| Some(inner));
    }
    match error {
        error if error.is_timeout() => "request timed out".to_owned(),
        error if error.is_connect() => "cannot connect to its address".to_owned(),
        error if error.is_redirect() => "too many redirects".to_owned(),
        _ => "connection lost".to_owned(),
    }
}
