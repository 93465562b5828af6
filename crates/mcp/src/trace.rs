//! The trace context of a request: W3C Trace Context and Baggage in `_meta` (section "General fields" of MCP 2026-07-28). The
//! calls of a program have that of the request which runs it, so that a trace does not end at the gateway.

use rmcp::model::RequestMetaObject;

/// The trace context of a request. Values that are no visible ASCII or too long are left out, and without its `traceparent`
/// there is none.
pub(crate) fn of_request(meta: &RequestMetaObject) -> RequestMetaObject {
    let valid = |text: Option<&str>, max| text.filter(|text| text.len() <= max && is_visible(text)).map(str::to_owned);
    let mut context = RequestMetaObject::new();
    let Some(parent) = valid(meta.get_traceparent(), MAX_PARENT) else { return context };
    context.set_traceparent(parent);
    if let Some(state) = valid(meta.get_tracestate(), MAX_STATE) {
        context.set_tracestate(state);
    }
    if let Some(baggage) = valid(meta.get_baggage(), MAX_BAGGAGE) {
        context.set_baggage(baggage);
    }
    context
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// The longest values, in bytes: what the specifications require of implementations. Later versions may have a longer parent.
const MAX_PARENT: usize = 128;
const MAX_STATE: usize = 512;
const MAX_BAGGAGE: usize = 8192;

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    #[test]
    fn only_what_is_valid_is_passed_on() {
        let context = |members: Json| json!(of_request(&serde_json::from_value(members).unwrap()));
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let whole = json!({ "traceparent": parent, "tracestate": "a=1,b=2", "baggage": "user=ada" });
        assert_eq!(context(whole.clone()), whole);
        assert_eq!(context(json!({ "traceparent": parent, "other": 1 })), json!({ "traceparent": parent }));
        let long = "a".repeat(513);
        assert_eq!(context(json!({ "traceparent": parent, "tracestate": long })), json!({ "traceparent": parent }));
        assert_eq!(context(json!({ "traceparent": parent, "baggage": "a\nb" })), json!({ "traceparent": parent }));
        assert_eq!(context(json!({ "traceparent": 1, "baggage": "a=1" })), json!({}));
        assert_eq!(context(json!({ "tracestate": "a=1" })), json!({}));
    }
}
