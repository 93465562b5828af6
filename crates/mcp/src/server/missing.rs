//! What models read about namespaces whose tools cannot be called now: of servers that are starting, failed, or were skipped.

use std::fmt;

use execbox_core::text::cut;
use serde::Serialize;

use super::catalog::Query;
use super::descriptions::list;
use super::{Unavailability, UnavailableNamespace};

/// The namespaces in which a search finds nothing.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Missing {
    /// The namespaces that the search asks for by name, and the first of the others whose servers failed, with reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<UnavailableNamespace>,
    /// The other namespaces whose servers failed.
    #[serde(skip_serializing_if = "Namespaces::is_empty")]
    pub more_unavailable: Namespaces,
    /// The other namespaces whose servers are starting.
    #[serde(skip_serializing_if = "Namespaces::is_empty")]
    pub starting: Namespaces,
}

/// Names of namespaces, of which the first are shown.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Namespaces {
    /// How many there are.
    pub count: usize,
    /// The first names: as many as have 200 bytes together.
    pub names: Vec<String>,
}

impl Missing {
    /// What a search shows of `all`. Namespaces that the configuration does not want are shown if the search asks for them.
    pub(super) fn new(all: Vec<UnavailableNamespace>, query: &Query) -> Self {
        let described = query.describe.iter().filter_map(|name| name.split_once('.').map(|(namespace, _)| namespace));
        let asked: Vec<&str> = described.chain(query.namespace.as_deref()).collect();
        let (asked, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|missing| asked.contains(&&*missing.name));
        let (starting, others): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|missing| missing.state == Unavailability::Starting);
        let mut failed = others.into_iter().filter(|missing| missing.state != Unavailability::Disabled);
        let mut unavailable: Vec<_> = asked.into_iter().take(MAX_ASKED).collect();
        unavailable.extend(failed.by_ref().take(MAX_REASONS.saturating_sub(unavailable.len())));
        for missing in &mut unavailable {
            missing.reason = cut(&missing.reason, MAX_REASON);
        }
        Self { unavailable, more_unavailable: Namespaces::new(failed), starting: Namespaces::new(starting) }
    }
}

/// A line for each reason, then those of the other namespaces.
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for UnavailableNamespace { name, reason, .. } in &self.unavailable {
            writeln!(f, "\nNot available: `{name}`: {reason}.")?;
        }
        if !self.more_unavailable.is_empty() {
            writeln!(f, "\nNot available either: {}.", self.more_unavailable)?;
        }
        if !self.starting.is_empty() {
            let (servers, their) =
                if self.starting.count == 1 { ("server is", "Its") } else { ("servers are", "Their") };
            let (count, names) = (self.starting.count, &self.starting);
            writeln!(
                f,
                "\n{count} {servers} still starting: {names}. {their} tools are not found yet; search again later."
            )?;
        }
        Ok(())
    }
}

impl Namespaces {
    fn new(namespaces: impl IntoIterator<Item = UnavailableNamespace>) -> Self {
        let (mut all, mut length) = (Self::default(), 0);
        for UnavailableNamespace { name, .. } in namespaces {
            all.count += 1;
            length += name.len();
            if length <= MAX_NAMES {
                all.names.push(name);
            }
        }
        all
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The names, and how many there are more.
impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&list(self.names.iter().map(String::as_str), usize::MAX))?;
        match self.count - self.names.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The names of the namespaces in a state, for the description of a tool.
pub(super) fn names(all: &[UnavailableNamespace], is_wanted: impl Fn(Unavailability) -> bool) -> Namespaces {
    Namespaces::new(all.iter().filter(|missing| is_wanted(missing.state)).cloned())
}

/// How many namespaces that a search asks for are shown, with how many reasons in all, and the length of each, in characters.
const MAX_ASKED: usize = 3;
const MAX_REASONS: usize = 3;
const MAX_REASON: usize = 200;

/// The maximum length of the names of other namespaces, in bytes.
const MAX_NAMES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str, state: Unavailability) -> UnavailableNamespace {
        UnavailableNamespace { name: name.to_owned(), reason: "HTTP 404 Not Found".to_owned(), state }
    }

    #[test]
    fn what_a_search_asks_for_comes_first_and_everything_else_is_counted() {
        let mut all: Vec<_> = (0..40).map(|at| namespace(&format!("server_{at}"), Unavailability::Starting)).collect();
        all.extend((0..5).map(|at| namespace(&format!("broken{at}"), Unavailability::Failed)));
        all.push(namespace("off", Unavailability::Disabled));
        let query = Query { namespace: Some("server_7".to_owned()), ..Query::default() };
        let missing = Missing::new(all.clone(), &query);
        let names: Vec<_> = missing.unavailable.iter().map(|missing| &*missing.name).collect();
        assert_eq!(names, ["server_7", "broken0", "broken1"]);
        assert_eq!((missing.more_unavailable.count, missing.starting.count), (3, 39));
        let text = missing.to_string();
        assert!(text.contains("Not available: `broken1`: HTTP 404 Not Found.\n"), "{text}");
        assert!(text.contains("Not available either: `broken2`, `broken3`, `broken4`.\n"), "{text}");
        assert!(
            text.contains("39 servers are still starting: `server_0`, ") && text.contains(" more. Their"),
            "{text}"
        );
        assert!(text.chars().count() < 900, "{text}");
        let query = Query { describe: vec!["off.x".to_owned()], ..Query::default() };
        assert_eq!(Missing::new(all, &query).unavailable[0].name, "off");
        assert_eq!(Missing::new(Vec::new(), &query).to_string(), "");
    }
}
