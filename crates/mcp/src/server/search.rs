//! The search index: BM25 over the words of tools. Pure: no I/O, no clock, and the same order for the same tools.
//!
//! A name is words, too: `listPullRequests2`, `list_pull_requests_2` and `list pull requests 2` are the same four.
//! Words count without the ending of their plural. Words of names weigh more than those of parameters, and those more than those of descriptions. A word of a query
//! also finds the words that it begins, for less.

use std::collections::{BTreeMap, HashMap};

/// What is searched of one tool.
#[derive(Debug, Clone, Default)]
pub struct Document<'a> {
    /// The provider's name.
    pub namespace: &'a str,
    /// The tool's name; the one that guest code calls, and the tool's own.
    pub names: [&'a str; 2],
    /// What it does.
    pub description: &'a str,
    /// The names of its parameters.
    pub parameters: Vec<&'a str>,
}

/// An index over tools, each known by its place in the list.
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
    /// Reads tools.
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

    /// The tools that have any word of `query`, best first; equals in their own order. A query without words finds
    /// all.
    pub fn search(&self, query: &str) -> Vec<usize> {
        let query: String = query.chars().take(MAX_QUERY).collect();
        let mut asked = stems(&query);
        if asked.is_empty() {
            return (0..self.lengths.len()).collect();
        }
        asked.push(joined(&query));
        asked.sort_unstable();
        asked.dedup();
        let mut scores = vec![0.0; self.lengths.len()];
        for word in &asked {
            for (sum, score) in scores.iter_mut().zip(self.scores(word)) {
                *sum += score;
            }
        }
        let mut found: Vec<usize> = (0..scores.len()).filter(|&document| scores[document] > 0.0).collect();
        found.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        found
    }

    /// What one word of a query is worth to each tool: by the best word that it is, or begins.
    fn scores(&self, word: &str) -> Vec<f32> {
        let mut best = vec![0.0_f32; self.lengths.len()];
        let begins = word.chars().count() >= MIN_PREFIX;
        let candidates = self.words.range(word.to_owned()..).take_while(|(known, _)| known.starts_with(word));
        for (known, postings) in candidates.take(if begins { MAX_EXPANSIONS } else { 1 }) {
            let factor = match known == word {
                true => 1.0,
                false if begins => PREFIX_FACTOR,
                false => continue,
            };
            for posting in postings {
                let score = factor * self.bm25(posting, postings.len());
                best[posting.document] = best[posting.document].max(score);
            }
        }
        best
    }

    fn bm25(&self, posting: &Posting, having: usize) -> f32 {
        let (all, having) = (number(self.lengths.len()), number(having));
        let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
        let length = self.lengths[posting.document] / self.average;
        rarity * posting.weight * (K1 + 1.0) / (posting.weight + K1 * (1.0 - B + B * length))
    }
}

#[allow(clippy::cast_precision_loss)] // There are not as many tools.
fn number(count: usize) -> f32 {
    count as f32
}

/// How often a tool has each word, by where it has it.
fn weights(document: &Document<'_>) -> HashMap<String, f32> {
    let mut weights: HashMap<String, f32> = HashMap::new();
    let mut add = |words: Vec<String>, weight: f32| {
        for word in words {
            let sum = weights.entry(word).or_default();
            *sum += weight;
        }
    };
    // Both names are mostly the same words: those count once.
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

/// All words as one, for those who write a name without its gaps.
fn joined(text: &str) -> String {
    let word: String =
        text.chars().take(MAX_TEXT).filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    word.chars().take(MAX_WORD).collect()
}

/// The words of a text without the endings of English plurals: `queries` is `query`, `orders` is `order`.
fn stems(text: &str) -> Vec<String> {
    words(text).into_iter().map(stem).collect()
}

fn stem(mut word: String) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    if word.len() <= 3 || ends(&["ss", "us", "is"]) {
        return word;
    }
    if word.len() > 4 && ends(&["ies"]) {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if ends(&["sses", "shes", "ches", "xes"]) {
        word.truncate(word.len() - 2);
    } else if ends(&["s"]) {
        word.truncate(word.len() - 1);
    }
    word
}

/// The words of a text in lower case: split at everything that is no letter or digit, between letters and digits, and
/// before the capital that begins a word (`parseURLNow1` → `parse`, `url`, `now`, `1`).
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

/// The constants of BM25, as usual.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// What words are worth by where they are; in a description, 1.
const NAME_WEIGHT: f32 = 4.0;
const NAMESPACE_WEIGHT: f32 = 2.0;
const PARAMETER_WEIGHT: f32 = 1.5;

/// What a word is worth that only begins with the one asked for, and how many characters are a beginning.
const PREFIX_FACTOR: f32 = 0.5;
const MIN_PREFIX: usize = 3;
const MAX_EXPANSIONS: usize = 64;

/// How much of outsiders' text is read, in characters; parameters by number.
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
    fn names_are_words_however_they_are_written() {
        for name in ["listPullRequests2", "list_pull_requests_2", "list-pull.requests/2", "ListPullRequests2"] {
            assert_eq!(words(name), ["list", "pull", "requests", "2"], "{name}");
        }
        assert_eq!(words("parseURLNow1"), ["parse", "url", "now", "1"]);
        assert_eq!(words("größeÄndern"), ["größe", "ändern"]);
        assert_eq!(words("*/\u{2028}\u{1b}[31m"), ["31", "m"]);
    }

    #[test]
    fn plurals_find_the_singular_and_the_other_way_round() {
        let all = ["orders queries statuses boxes branches address status analysis", "gas us s"];
        assert_eq!(stems(all[0]), ["order", "query", "statuse", "box", "branch", "address", "status", "analysis"]);
        assert_eq!(stems(all[1]), ["gas", "us", "s"]);
        let index = Index::new([named("get_order", ""), named("list_branches", "")]);
        assert_eq!((index.search("orders"), index.search("branch")), (vec![0], vec![1]));
    }

    #[test]
    fn a_name_ranks_before_a_mention_and_a_rare_word_before_a_common_one() {
        let index = Index::new([
            named("get_issue", "Reads one issue of a repository"),
            named("createRelease", "Makes a release. Mentions every issue, issue by issue"),
            named("list_issues", "All issues"),
            named("unrelated", "Nothing"),
        ]);
        assert_eq!(index.search("issue").last(), Some(&1), "a mention comes after names");
        assert_eq!(index.search("iss").len(), 3, "a beginning is found");
        assert_eq!(index.search("create release for an issue")[0], 1);
        assert_eq!(index.search("createrelease"), [1], "without its gaps");
        assert_eq!(index.search("repo").len(), 4, "parameters are found");
        assert!(index.search("xyzzy").is_empty());
        assert_eq!(index.search(" -- "), [0, 1, 2, 3]);
    }

    proptest! {
        #[test]
        fn any_text_is_searched_and_what_is_named_is_found(
            names in proptest::collection::vec("\\PC{0,20}", 0..20), query in "\\PC{0,40}",
        ) {
            let index = Index::new(names.iter().map(|name| named(name, name)));
            let found = index.search(&query);
            let mut once = found.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), found.len(), "each once");
            prop_assert!(found.iter().all(|&at| at < names.len()));
            for (at, name) in names.iter().enumerate() {
                prop_assert!(index.search(name).contains(&at), "{:?} finds itself", name);
            }
        }
    }
}
