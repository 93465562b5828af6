//! `Accept` of requests, with media ranges as RFC 9110, section 12.5.1, defines them. rmcp reads only whole types.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};

/// Replaces `Accept` by the types of it that MCP has. Without the field, a client accepts all.
pub(super) fn normalize(headers: &mut HeaderMap) {
    let accepted = TYPES.into_iter().filter(|wanted| accepts(headers, wanted)).collect::<Vec<_>>().join(", ");
    // The types are ASCII.
    if let Ok(accepted) = HeaderValue::from_str(&accepted) {
        headers.insert(ACCEPT, accepted);
    }
}

/// The types of responses.
const TYPES: [&str; 2] = ["application/json", "text/event-stream"];

/// Whether a type is accepted: the most specific range that includes it decides.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    if !headers.contains_key(ACCEPT) {
        return true;
    }
    let fields = headers.get_all(ACCEPT).iter().filter_map(|field| field.to_str().ok());
    let ranges = fields.flat_map(|field| field.split(',')).filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let specificity = specificity(parts.next()?, wanted)?;
        let is_refused = parts.filter_map(|parameter| parameter.split_once('=')).any(|(name, value)| {
            name.trim().eq_ignore_ascii_case("q") && value.trim().parse::<f32>().is_ok_and(|quality| quality <= 0.0)
        });
        Some((specificity, !is_refused))
    });
    ranges.max().is_some_and(|(_, is_accepted)| is_accepted)
}

/// How specific a range is that includes a type.
fn specificity(range: &str, wanted: &str) -> Option<u8> {
    let (kind, _) = wanted.split_once('/')?;
    match range.split_once('/')? {
        _ if range.eq_ignore_ascii_case(wanted) => Some(2),
        (range, "*") if range.eq_ignore_ascii_case(kind) => Some(1),
        ("*", "*") => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_accepted_as_the_types_that_they_include() {
        let both = "application/json, text/event-stream";
        for (fields, expected) in [
            (&[][..], both),
            (&["*/*"], both),
            (&["*/*;q=0.1"], both),
            (&["text/html, */*; q=0.8"], both),
            (&["application/*, text/*"], both),
            (&["Application/JSON;charset=utf-8", "TEXT/*;q=1"], both),
            (&["application/json", "text/event-stream; q=x"], both),
            (&["*/*", "text/event-stream;q=0"], "application/json"),
            (&["text/*;Q=0.0, */*"], "application/json"),
            (&["text/*;q=0, text/event-stream"], "text/event-stream"),
            (&["application/json"], "application/json"),
            (&["text/html"], ""),
            (&[""], ""),
            (&["*, /, ;, */"], ""),
            (&["*/json"], ""),
        ] {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(ACCEPT, HeaderValue::from_static(field));
            }
            normalize(&mut headers);
            assert_eq!(headers[ACCEPT], expected, "{fields:?}");
            assert_eq!(headers.len(), 1);
        }
    }
}
