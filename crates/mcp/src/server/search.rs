//! The search index: BM25 over the words of tools. No I/O, no clock; the order is deterministic.
//!
//! Names are split into words: `listPullRequests2`, `list_pull_requests_2` and `list pull requests 2` have the same four.
//! Words are compared by their stems (`orders` and `order`). Words of names weigh more than words of parameters, and
//! those more than words of descriptions. A word of a query also matches longer words that begin with it, with a lower
//! score.

use std::collections::{BTreeMap, HashMap};

use rust_stemmers::{Algorithm, Stemmer};

/// The searchable text of one tool.
#[derive(Debug, Clone, Default)]
pub struct Document<'a> {
    /// The name of the provider.
    pub namespace: &'a str,
    /// The safe name and the original name of the tool.
    pub names: [&'a str; 2],
    /// The description.
    pub description: &'a str,
    /// The names of its parameters.
    pub parameters: Vec<&'a str>,
}

/// An index over tools, which are identified by their position in the list.
#[derive(Debug, Default)]
pub struct Index {
    lengths: Vec<f32>,
    average: f32,
    words: BTreeMap<String, Vec<Posting>>,
}

#[derive(Debug)]
struct Posting {
    document: usize,
    weight: f32,
}

impl Index {
    /// Indexes tools.
    pub fn new<'a>(documents: impl IntoIterator<Item = Document<'a>>) -> Self {
        let mut index = Self::default();
        for (number, document) in documents.into_iter().enumerate() {
            let weights = weights(&document);
            index.lengths.push(weights.values().sum());
            for (word, weight) in weights {
                index.words.entry(word).or_default().push(Posting { document: number, weight });
            }
        }
        index.average = index.lengths.iter().sum::<f32>() / number(index.lengths.len().max(1));
        index
    }

    /// The tools that match any word of `query`, best first; equal scores in the order of the list. A query without
    /// words matches all tools.
    pub fn search(&self, query: &str) -> Vec<usize> {
        let query: String = query.chars().take(MAX_QUERY).collect();
        let mut wanted = stems(&query);
        if wanted.is_empty() {
            return (0..self.lengths.len()).collect();
        }
        wanted.push(joined(&query));
        wanted.sort_unstable();
        wanted.dedup();
        let mut scores = vec![0.0; self.lengths.len()];
        for word in &wanted {
            for (sum, score) in scores.iter_mut().zip(self.scores(word)) {
                *sum += score;
            }
        }
        let mut found: Vec<usize> = (0..scores.len()).filter(|&document| scores[document] > 0.0).collect();
        found.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        found
    }

    /// The score of each tool for one word of a query: that of its best word that is equal or begins with it.
    fn scores(&self, word: &str) -> Vec<f32> {
        let mut best = vec![0.0_f32; self.lengths.len()];
        let is_prefix = word.chars().count() >= MIN_PREFIX;
        let candidates = self.words.range(word.to_owned()..).take_while(|(known, _)| known.starts_with(word));
        for (known, postings) in candidates.take(if is_prefix { MAX_EXPANSIONS } else { 1 }) {
            let factor = match known == word {
                true => 1.0,
                false if is_prefix => PREFIX_FACTOR,
                false => continue,
            };
            for posting in postings {
                let score = factor * self.bm25(posting, postings.len());
                best[posting.document] = best[posting.document].max(score);
            }
        }
        best
    }

    fn bm25(&self, posting: &Posting, matching: usize) -> f32 {
        let (all, matching) = (number(self.lengths.len()), number(matching));
        let rarity = (1.0 + (all - matching + 0.5) / (matching + 0.5)).ln();
        let length = self.lengths[posting.document] / self.average;
        rarity * posting.weight * (K1 + 1.0) / (posting.weight + K1 * (1.0 - B + B * length))
    }
}

#[allow(clippy::cast_precision_loss)] // The counts are far below 2^24.
fn number(count: usize) -> f32 {
    count as f32
}

/// The words of a tool, with the sum of their weights.
fn weights(document: &Document<'_>) -> HashMap<String, f32> {
    let mut weights: HashMap<String, f32> = HashMap::new();
    let mut add = |words: Vec<String>, weight: f32| {
        for word in words {
            let sum = weights.entry(word).or_default();
            *sum += weight;
        }
    };
    // A word of both names counts once.
    let mut named: Vec<String> = document.names.iter().flat_map(|name| stems(name)).collect();
    named.extend(document.names.iter().map(|name| joined(name)));
    named.sort_unstable();
    named.dedup();
    add(named, NAME_WEIGHT);
    add(stems(document.namespace), NAMESPACE_WEIGHT);
    add(document.parameters.iter().take(MAX_PARAMETERS).flat_map(|name| stems(name)).collect(), PARAMETER_WEIGHT);
    add(stems(document.description), 1.0);
    weights
}

/// All words joined, which matches names written without separators.
fn joined(text: &str) -> String {
    let word: String =
        text.chars().take(MAX_TEXT).filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    word.chars().take(MAX_WORD).collect()
}

/// The English stems of the words of a text: `queries` and `query` become `queri`.
fn stems(text: &str) -> Vec<String> {
    let stemmer = Stemmer::create(Algorithm::English);
    words(text).into_iter().map(|word| stemmer.stem(&word).into_owned()).collect()
}

/// The words of a text in lower case: split at everything except letters and digits, between letters and digits, and
/// before a capital that begins a word (`parseURLNow1` → `parse`, `url`, `now`, `1`).
pub fn words(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().take(MAX_TEXT).collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| chars[at]);
        if !c.is_alphanumeric() || before.is_some_and(|before| parted(before, c, chars.get(at + 1).copied())) {
            push(&mut words, &mut word);
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
    }
    push(&mut words, &mut word);
    words
}

fn parted(before: char, c: char, after: Option<char>) -> bool {
    before.is_numeric() != c.is_numeric()
        || c.is_uppercase() && (!before.is_uppercase() || after.is_some_and(char::is_lowercase))
}

fn push(words: &mut Vec<String>, word: &mut String) {
    let word = std::mem::take(word);
    if !word.is_empty() {
        words.push(word.chars().take(MAX_WORD).collect());
    }
}

/// The usual constants of BM25.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// The weights of words by field; that of descriptions is 1.
const NAME_WEIGHT: f32 = 4.0;
const NAMESPACE_WEIGHT: f32 = 2.0;
const PARAMETER_WEIGHT: f32 = 1.5;

/// The factor for matching a prefix, the minimum length of a prefix in characters, and the maximum number of words that
/// one prefix matches.
const PREFIX_FACTOR: f32 = 0.5;
const MIN_PREFIX: usize = 3;
const MAX_EXPANSIONS: usize = 64;

/// The maximum lengths of untrusted text, in characters, and the maximum number of parameters per tool.
const MAX_QUERY: usize = 1_000;
const MAX_TEXT: usize = 4_000;
const MAX_WORD: usize = 64;
const MAX_PARAMETERS: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named<'a>(name: &'a str, description: &'a str) -> Document<'a> {
        Document { namespace: "api", names: [name, name], description, parameters: vec!["repoName"] }
    }

    #[test]
    fn names_are_split_into_words() {
        for name in ["listPullRequests2", "list_pull_requests_2", "list-pull.requests/2", "ListPullRequests2"] {
            assert_eq!(words(name), ["list", "pull", "requests", "2"], "{name}");
        }
        assert_eq!(words("parseURLNow1"), ["parse", "url", "now", "1"]);
        assert_eq!(words("größeÄndern"), ["größe", "ändern"]);
        assert_eq!(words("*/\u{2028}\u{1b}[31m"), ["31", "m"]);
    }

    #[test]
    fn words_match_in_all_their_forms() {
        let pairs = [
            ["orders", "order"],
            ["queries", "query"],
            ["statuses", "status"],
            ["boxes", "box"],
            ["branches", "branch"],
            ["address", "addresses"],
            ["analysis", "analysis"],
            ["gas", "gas"],
            ["us", "us"],
            ["creating", "created"],
        ];
        for (at, pair) in pairs.iter().enumerate() {
            for (found, query) in [(0, 1), (1, 0)] {
                let index = Index::new(pairs.iter().map(|pair| named(pair[found], "")));
                assert_eq!(index.search(pair[query]), [at], "{pair:?}");
            }
        }
    }

    #[test]
    fn names_rank_before_descriptions_and_rare_words_before_common_ones() {
        let index = Index::new([
            named("get_issue", "Reads one issue of a repository"),
            named("createRelease", "Makes a release. Mentions every issue, issue by issue"),
            named("list_issues", "All issues"),
            named("unrelated", "Nothing"),
        ]);
        assert_eq!(index.search("issue").last(), Some(&1), "descriptions come after names");
        assert_eq!(index.search("iss").len(), 3, "a prefix matches");
        assert_eq!(index.search("create release for an issue")[0], 1);
        assert_eq!(index.search("createrelease"), [1], "without separators");
        assert_eq!(index.search("repo").len(), 4, "parameters match");
        assert!(index.search("xyzzy").is_empty());
        assert_eq!(index.search(" -- "), [0, 1, 2, 3]);
    }

    proptest! {
        #[test]
        fn any_text_is_searched_and_every_name_finds_its_tool(
            names in proptest::collection::vec("\\PC{0,20}", 0..20), query in "\\PC{0,40}",
        ) {
            let index = Index::new(names.iter().map(|name| named(name, name)));
            let found = index.search(&query);
            let mut once = found.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), found.len(), "no duplicates");
            prop_assert!(found.iter().all(|&at| at < names.len()));
            for (at, name) in names.iter().enumerate() {
                prop_assert!(index.search(name).contains(&at), "{:?} finds itself", name);
            }
        }
    }
}
