//! Suggestions for unknown names.

use crate::text::Quoted;

/// The most known names that are compared, and the most characters of each.
const MAX_COMPARED: usize = 256;
const MAX_COMPARED_CHARS: usize = 64;

/// The most known names that are listed.
const MAX_LISTED: usize = 8;

/// `; did you mean 'x'?` if one of `known` is similar to `name`; else `listed`, followed by a list of `known`.
pub(crate) fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone, listed: &str) -> String {
    near(name, known.clone()).map_or_else(|| list(known, listed), did_you_mean)
}

pub(crate) fn did_you_mean(name: &str) -> String {
    format!("; did you mean {}?", Quoted(name))
}

/// The name of `known` that is most similar to `name`: at most four edits, and a third of the longer name, apart from the case
/// of letters. `None` if there is none. Compares with the first 256 names; names have at most 64 characters.
pub fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let others = known.filter(|other| *other != name).take(MAX_COMPARED);
    others.filter_map(|other| Some((distance(name, other)?, other))).min().map(|(_, other)| other)
}

/// The name of `known` that has the same words in any order and notation: `list_orders` for `ordersList`.
pub(crate) fn same_words<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = words(name);
    (wanted.len() > 1).then(|| known.take(MAX_COMPARED).find(|other| words(other) == wanted)).flatten()
}

/// The words of a name, sorted. Words start at capitals and after characters that are not alphanumeric.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars().take(MAX_COMPARED_CHARS) {
        if !c.is_alphanumeric() || c.is_uppercase() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words.sort_unstable();
    words
}

/// Lists the first names of `known`, and the number of the others.
pub(crate) fn list(mut known: impl Iterator<Item = impl AsRef<str>>, listed: &str) -> String {
    let names: Vec<_> = known.by_ref().take(MAX_LISTED).map(|name| Quoted(name.as_ref()).to_string()).collect();
    match (names.len(), known.count()) {
        (0, _) => format!("; {listed} nothing"),
        (_, 0) => format!("; {listed} {}", names.join(", ")),
        (_, rest) => format!("; {listed} {} and {rest} more", names.join(", ")),
    }
}

/// The edit distance of two names, ignoring case: letters added, removed, replaced, or swapped with their neighbor.
/// `None` if it is too large for a typing error.
fn distance(a: &str, b: &str) -> Option<usize> {
    // Names are untrusted, and the work is the product of their lengths: they are cut first.
    let lowercase =
        |text: &str| text.chars().take(MAX_COMPARED_CHARS + 1).flat_map(char::to_lowercase).collect::<String>();
    let (a, b) = (lowercase(a), lowercase(b));
    let longer = a.chars().count().max(b.chars().count());
    if longer > MAX_COMPARED_CHARS {
        return None;
    }
    let distance = strsim::osa_distance(&a, &b);
    (distance <= longer / 3 && distance < 5).then_some(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_similar_up_to_four_edits_and_a_third_of_their_length() {
        let near = |name: &str, other: &str| near(name, [other].into_iter()).is_some();
        assert!(near("abcdef", "badcef"), "two swaps");
        assert!(!near("abcdef", "badcfe"), "three swaps of six letters");
        assert!(near("STRASSE", "strase") && near("añadir", "anadir"));
        let long = |len| "a".repeat(len);
        assert!(near(&long(64), &long(60)) && !near(&long(64), &long(59)));
        assert!(!near(&long(65), &long(64)) && !near(&long(1 << 24), &long((1 << 24) - 1)), "too long to compare");
    }

    #[test]
    fn similar_names_are_suggested_and_others_are_listed() {
        let hint = |name, known: &[&str]| hint(name, known.iter().copied(), "known:");
        assert_eq!(hint("readfile", &["writeFile", "readFile"]), "; did you mean 'readFile'?");
        assert_eq!(hint("inptu", &["input"]), "; did you mean 'input'?");
        assert_eq!(hint("lodash", &["fs", "path"]), "; known: 'fs', 'path'");
        assert_eq!(same_words("ordersList", ["list", "list_orders"].into_iter()), Some("list_orders"));
        assert_eq!(same_words("orders", ["orders"].into_iter()), None);
        assert_eq!(hint("x", &["y"]), "; known: 'y'");
        assert_eq!(hint("x", &[]), "; known: nothing");
        assert_eq!(
            hint("q", &["a", "b", "c", "d", "e", "f", "g", "h", "i"]),
            "; known: 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 1 more"
        );
    }
}
