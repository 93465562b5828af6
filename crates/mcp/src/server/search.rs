//! The search index: BM25 over the words of tools. No I/O, no clock; the order is deterministic.
//!
//! Names are split into words: `listPullRequests2`, `list_pull_requests_2` and `list pull requests 2` have the same four.
//! Words are compared by their stems (`orders` and `order`). Words of names weigh more than words of the first sentence
//! of a description, and those more than its other words and the names of parameters. A word of a query also matches
//! its synonyms (`synonyms.rs`) and longer words that begin with it, with a lower score; words like `the` do not
//! count. Words in scripts that are written without spaces are also compared by pairs of letters. A query that asks for data ranks tools that change something lower, and the other way round. Where scores are
//! about equal, tools that read come first, then tools that destroy. Deprecated tools, tools that models should not call and
//! those that only pass on resources or prompts come last, unless the query has their names: these come first.
//!
//! The crate `bm25` has no fields with weights, synonyms or prefixes. The goals of `evals/discovery` say whether this index is good
//! enough.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use execbox::Effect;
use rust_stemmers::{Algorithm, Stemmer};

use super::guidance::Guidance;
use super::sentences::split_sentence;
use super::synonyms;

/// The searchable text of one tool.
#[derive(Debug, Clone, Default)]
pub(super) struct Document<'a> {
    /// The name of the provider.
    pub(super) namespace: &'a str,
    /// The safe name and the original name of the tool.
    pub(super) names: [&'a str; 2],
    /// The description of the tool.
    pub(super) description: &'a str,
    /// The names of the tool's parameters.
    pub(super) parameters: Vec<&'a str>,
    /// The effect of calls of the tool.
    pub(super) effect: Effect,
}

/// An index over tools, which are identified by their position in the list.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// For each tool, the factor of its scores.
    factors: Vec<f32>,
    /// For each tool, the stems of its name, without those of its namespace.
    name_words: Vec<Vec<String>>,
    /// For each tool, the first verb of its name.
    verbs: Vec<Option<Verb>>,
    /// The tools by their names, with and without namespaces, as [`joined`] words.
    names: HashMap<String, Vec<usize>>,
    /// The words of each namespace, and its tools.
    namespaces: Vec<(Vec<String>, Vec<usize>)>,
    words: BTreeMap<String, Vec<Posting>>,
}

/// A word of a tool.
#[derive(Debug)]
struct Posting {
    document: usize,
    /// How often the word occurs, weighted by field, and less in long fields.
    weight: f32,
}

/// How well a tool matches a word of a query. Default: no match.
#[derive(Debug, Clone, Copy, Default)]
struct Match {
    score: f32,
    /// 1 for an equal word, less for others.
    factor: f32,
}

/// How often a word occurs in each field of a tool.
struct Counts {
    document: usize,
    by_field: [u8; FIELDS],
}

impl Index {
    /// Indexes tools.
    pub(super) fn new<'a>(documents: impl IntoIterator<Item = Document<'a>>) -> Self {
        let mut index = Self::default();
        let mut namespaces: HashMap<&str, usize> = HashMap::new();
        let mut words: BTreeMap<String, Vec<Counts>> = BTreeMap::new();
        let mut lengths: Vec<[f32; FIELDS]> = Vec::new();
        for (at, document) in documents.into_iter().enumerate() {
            let namespace = *namespaces.entry(document.namespace).or_insert_with(|| {
                index.namespaces.push((stems(document.namespace), Vec::new()));
                index.namespaces.len() - 1
            });
            index.namespaces[namespace].1.push(at);
            index.factors.push(factor(&document));
            index.name_words.push(name_words(&document));
            index.verbs.push(index.name_words[at].iter().take(MAX_VERB).find_map(|word| Verb::of(word)));
            for name in full_names(&document) {
                index.names.entry(name).or_default().push(at);
            }
            let fields = fields(&document);
            lengths.push(fields.each_ref().map(|words| number(words.len())));
            for (word, by_field) in counts(fields) {
                words.entry(word).or_default().push(Counts { document: at, by_field });
            }
        }
        let averages = averages(&lengths);
        let weighted = words.into_iter().map(|(word, all)| {
            let posting = |counts: Counts| Posting {
                document: counts.document,
                weight: weight(counts.by_field, &lengths[counts.document], &averages),
            };
            (word, all.into_iter().map(posting).collect())
        });
        index.words = weighted.collect();
        index
    }

    /// The result of [`scored`](Self::scored), without scores.
    #[cfg(test)]
    fn search(&self, query: &str) -> Vec<usize> {
        self.scored(query, None).into_iter().map(|(document, _)| document).collect()
    }

    /// The tools that match any word of `query`, best first, with scores, which can be compared with those of `other`: the rarity
    /// of words is that in both indexes together. Equal scores are in the order of the list. A query without words matches all
    /// tools.
    pub(super) fn scored(&self, query: &str, other: Option<&Self>) -> Vec<(usize, f32)> {
        let query: String = query.chars().take(MAX_QUERY).collect();
        let is_known =
            |word: &str| self.words.contains_key(word) || other.is_some_and(|it| it.words.contains_key(word));
        let wanted = wanted(&query, is_known);
        if wanted.is_empty() {
            return (0..self.factors.len()).map(|document| (document, 0.0)).collect();
        }
        let mut scores = vec![0.0; self.factors.len()];
        let mut matched = vec![0.0; self.factors.len()];
        for word in &wanted {
            for (document, best) in self.matches(word, other).into_iter().enumerate() {
                scores[document] += best.score;
                matched[document] += best.factor;
            }
        }
        let joined = self.matches(&Wanted::new(joined(&query)), other);
        let intent = Intent::of(&query, &wanted);
        for (document, score) in scores.iter_mut().enumerate() {
            let share = matched[document] / number(wanted.len());
            if *score > 0.0 {
                *score *= (1.0 - COVERAGE + COVERAGE * share) * self.intent_factor(document, &intent);
            }
            *score += joined[document].score;
        }
        for document in self.in_named_namespaces(&wanted) {
            scores[document] += NAMED_NAMESPACE;
        }
        for (score, factor) in scores.iter_mut().zip(&self.factors) {
            *score *= factor;
        }
        for document in self.named(&query) {
            scores[document] += NAMED;
        }
        let mut found: Vec<usize> = (0..scores.len()).filter(|&document| scores[document] > 0.0).collect();
        found.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        found.into_iter().map(|document| (document, scores[document])).collect()
    }

    /// The factor of the score of a tool: higher if the query has all words of its name, lower if it asks for something else
    /// than the tool does.
    fn intent_factor(&self, document: usize, intent: &Intent<'_>) -> f32 {
        let words = &self.name_words[document];
        let is_covered = words.len() > 1 && words.iter().all(|word| intent.has(word));
        let verb = self.verbs[document].as_ref().map_or(1.0, |verb| intent.factor(verb));
        if is_covered { verb * COVERED_NAME_FACTOR } else { verb }
    }

    /// The tools of the namespaces whose words are all in the query.
    fn in_named_namespaces(&self, wanted: &[Wanted]) -> impl Iterator<Item = usize> {
        let is_wanted = |word: &String| wanted.iter().any(|wanted| wanted.word == *word);
        let named = self.namespaces.iter().filter(move |(words, _)| !words.is_empty() && words.iter().all(is_wanted));
        named.flat_map(|(_, documents)| documents.iter().copied())
    }

    /// The tools whose name is the query, or a word of it. Names of one word, such as `find`, must be the whole query.
    fn named(&self, query: &str) -> HashSet<usize> {
        let is_name_part = |c: char| c.is_alphanumeric() || NAME_MARKS.contains(&c);
        let parts = query.split(|c: char| !is_name_part(c)).take(MAX_WORDS).filter(|part| words(part).len() > 1);
        let names = parts.map(joined).chain([joined(query)]);
        names.filter_map(|name| self.names.get(&name)).flatten().copied().collect()
    }

    /// The best match of each tool for one word of a query: a word that is equal, a synonym, or begins with it.
    fn matches(&self, wanted: &Wanted, other: Option<&Self>) -> Vec<Match> {
        let mut best = vec![Match::default(); self.factors.len()];
        let others = |word: &str| other.and_then(|other| other.words.get(word)).map_or(0, Vec::len);
        let all = self.factors.len() + other.map_or(0, |other| other.factors.len());
        let mut rate = |word: &str, postings: &[Posting], factor: f32| {
            for posting in postings {
                let score = factor * bm25(posting, postings.len() + others(word), all);
                let best = &mut best[posting.document];
                *best = Match { score: best.score.max(score), factor: best.factor.max(factor) };
            }
        };
        let is_prefix = wanted.word.starts_with(is_unspaced) || wanted.word.chars().count() >= MIN_PREFIX;
        let known = self.words.range(wanted.word.clone()..).take_while(|(known, _)| known.starts_with(&wanted.word));
        for (known, postings) in known.take(if is_prefix { MAX_EXPANSIONS } else { 1 }) {
            match *known == wanted.word {
                true => rate(known, postings, 1.0),
                false if is_prefix => rate(known, postings, PREFIX_FACTOR),
                false => {}
            }
        }
        for (word, postings) in wanted.synonyms.iter().filter_map(|word| self.words.get_key_value(word)) {
            rate(word, postings, SYNONYM_FACTOR);
        }
        best
    }
}

/// The score of a word that `matching` of `all` tools have.
fn bm25(posting: &Posting, matching: usize, all: usize) -> f32 {
    let (all, matching) = (number(all), number(matching));
    let rarity = (1.0 + (all - matching + 0.5) / (matching + 0.5)).ln();
    rarity * posting.weight * (K1 + 1.0) / (posting.weight + K1)
}

/// A word of a query, and the words that mean about the same. All are stems.
struct Wanted {
    word: String,
    synonyms: &'static [String],
}

impl Wanted {
    fn new(word: String) -> Self {
        Self { synonyms: VOCABULARY.synonyms.get(&word).map_or(&[], Vec::as_slice), word }
    }
}

/// The words of a query that are searched: all but ignored words, or all if there are no others. Two words that are one in
/// the vocabulary (`close by`) count as that word; two words that are one in a tool (`to do`) count as that word, too.
fn wanted(query: &str, is_known: impl Fn(&str) -> bool) -> Vec<Wanted> {
    let vocabulary = &*VOCABULARY;
    let words = words(query);
    let pairs = words.windows(2).map(|pair| stem(&pair.concat()));
    let pairs = pairs.filter(|pair| is_known(pair) || vocabulary.synonyms.contains_key(pair)).collect::<Vec<_>>();
    let mut all = phrases(&words);
    all.extend(words.iter().flat_map(|word| parts(word)));
    let is_ignored = |word: &String| vocabulary.ignored.contains(word);
    let keep_all = pairs.is_empty() && all.iter().all(is_ignored);
    let mut seen = HashSet::new();
    let kept = all.into_iter().filter(|word| keep_all || !is_ignored(word)).chain(pairs);
    kept.filter(|word| seen.insert(word.clone())).take(MAX_WORDS).map(Wanted::new).collect()
}

/// The stems of words, and of two words at once if the vocabulary has them as one.
fn phrases(words: &[String]) -> Vec<String> {
    let mut rest = words;
    let mut stems = Vec::new();
    while let [first, after @ ..] = rest {
        let pair = after.first().map(|second| stem(&format!("{first}{second}")));
        let pair = pair.filter(|pair| VOCABULARY.synonyms.contains_key(pair));
        rest = if pair.is_some() { &after[1..] } else { after };
        stems.push(pair.unwrap_or_else(|| stem(first)));
    }
    stems
}

/// A verb of a tool's name, as a stem.
#[derive(Debug)]
struct Verb {
    kind: VerbKind,
    word: String,
}

impl Verb {
    fn of(word: &str) -> Option<Self> {
        VerbKind::of(word).map(|kind| Self { kind, word: word.to_owned() })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VerbKind {
    Reading,
    Changing,
}

impl VerbKind {
    fn of(word: &str) -> Option<Self> {
        let vocabulary = &*VOCABULARY;
        let is_reading = vocabulary.reading.contains(word);
        if vocabulary.changing.contains(word) { Some(Self::Changing) } else { is_reading.then_some(Self::Reading) }
    }
}

/// What a query asks for, by its first verb.
struct Intent<'a> {
    kind: Option<VerbKind>,
    words: HashSet<&'a str>,
    synonyms: HashSet<&'a str>,
}

impl<'a> Intent<'a> {
    fn of(query: &str, wanted: &'a [Wanted]) -> Self {
        Self {
            kind: phrases(&words(query)).iter().take(MAX_VERB).find_map(|word| VerbKind::of(word)),
            words: wanted.iter().map(|wanted| &*wanted.word).collect(),
            synonyms: wanted.iter().flat_map(|wanted| wanted.synonyms).map(String::as_str).collect(),
        }
    }

    /// Whether the query has a word, or a synonym of it.
    fn has(&self, word: &str) -> bool {
        self.words.contains(word) || self.synonyms.contains(word)
    }

    /// The factor of the score of a tool with this verb.
    fn factor(&self, verb: &Verb) -> f32 {
        if self.words.contains(&*verb.word) {
            return 1.0;
        }
        match (self.kind, verb.kind) {
            (Some(asked), kind) if asked != kind => OTHER_KIND_FACTOR,
            (Some(VerbKind::Reading), _) | (None, VerbKind::Reading) => 1.0,
            _ if self.synonyms.contains(&*verb.word) => 1.0,
            _ => OTHER_VERB_FACTOR,
        }
    }
}

/// The stems of [`synonyms`].
struct Vocabulary {
    synonyms: HashMap<String, Vec<String>>,
    ignored: HashSet<String>,
    reading: HashSet<String>,
    changing: HashSet<String>,
}

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
    let mut all: HashMap<String, Vec<String>> = HashMap::new();
    for group in synonyms::GROUPS {
        let group: Vec<String> = group.iter().flat_map(|word| stems(word)).collect();
        for word in &group {
            let others = group.iter().filter(|other| *other != word).cloned();
            all.entry(word.clone()).or_default().extend(others);
        }
    }
    let set = |words: &[&str]| words.iter().flat_map(|word| stems(word)).collect();
    Vocabulary {
        synonyms: all,
        ignored: set(synonyms::IGNORED),
        reading: set(synonyms::READING),
        changing: set(synonyms::CHANGING),
    }
});

/// The factor of all scores of a tool.
fn factor(document: &Document<'_>) -> f32 {
    let effect = match document.effect {
        Effect::ReadOnly => 1.02,
        Effect::Destructive => 0.98,
        _ => 1.0,
    };
    let last = match Guidance::of(document.description) {
        Guidance::Deprecated { .. } => DEPRECATED_FACTOR,
        Guidance::NotForModels => NOT_FOR_MODELS_FACTOR,
        Guidance::Use if RELAYS.contains(&document.names[1]) => RELAY_FACTOR,
        Guidance::Use => 1.0,
    };
    effect * last
}

/// The stems of a tool's name, without ignored words and those of its namespace.
fn name_words(document: &Document<'_>) -> Vec<String> {
    let namespace = stems(document.namespace);
    let is_kept = |word: &String| !namespace.contains(word) && !VOCABULARY.ignored.contains(word);
    stems(document.names[1]).into_iter().filter(is_kept).take(MAX_WORDS).collect()
}

/// The names of a tool as [`joined`] words, with and without its namespace.
fn full_names(document: &Document<'_>) -> HashSet<String> {
    let names = document.names.iter().map(|name| joined(name));
    let full = document.names.iter().map(|name| joined(&format!("{}{}", document.namespace, joined(name))));
    names.chain(full).filter(|name| !name.is_empty()).collect()
}

#[allow(clippy::cast_precision_loss)] // The counts are far below 2^24.
fn number(count: usize) -> f32 {
    count as f32
}

/// The number of fields of a tool: names, namespace, summary, the rest of the description, parameters.
const FIELDS: usize = 5;

/// The words of a tool by field, without ignored words.
fn fields(document: &Document<'_>) -> [Vec<String>; FIELDS] {
    let namespace = stems(document.namespace);
    // A word of both names counts once. Words of the namespace do not count in names with other words: `git.git_log`.
    let mut names: Vec<String> = document.names.iter().flat_map(|name| stems(name)).collect();
    names.sort_unstable();
    names.dedup();
    if names.iter().any(|word| !namespace.contains(word)) {
        names.retain(|word| !namespace.contains(word));
    }
    let (summary, rest) = split_sentence(document.description);
    let parameters = document.parameters.iter().take(MAX_PARAMETERS).flat_map(|name| stems(name)).collect();
    let mut fields = [names, namespace, stems(summary), stems(rest), parameters];
    for field in &mut fields {
        field.retain(|word| !VOCABULARY.ignored.contains(word));
    }
    // Joined names match queries without separators, and queries that consist of ignored words only.
    let whole: HashSet<String> = document.names.iter().map(|name| joined(name)).collect();
    fields[0].extend(whole);
    fields
}

fn counts(fields: [Vec<String>; FIELDS]) -> HashMap<String, [u8; FIELDS]> {
    let mut counts: HashMap<String, [u8; FIELDS]> = HashMap::new();
    for (field, words) in fields.into_iter().enumerate() {
        // Parts do not make a field longer.
        let parts: Vec<String> = words.iter().flat_map(|word| parts(word)).collect();
        for word in words.into_iter().chain(parts) {
            let count = &mut counts.entry(word).or_default()[field];
            *count = count.saturating_add(1);
        }
    }
    counts
}

/// The average length of each field, at least 1.
fn averages(lengths: &[[f32; FIELDS]]) -> [f32; FIELDS] {
    let tools = number(lengths.len().max(1));
    std::array::from_fn(|field| (lengths.iter().map(|lengths| lengths[field]).sum::<f32>() / tools).max(1.0))
}

fn weight(counts: [u8; FIELDS], lengths: &[f32; FIELDS], averages: &[f32; FIELDS]) -> f32 {
    let fields = counts.into_iter().zip(lengths.iter().zip(averages)).zip(WEIGHTS);
    fields
        .map(|((count, (length, average)), (weight, b))| f32::from(count) * weight / (1.0 - b + b * length / average))
        .sum()
}

/// All words joined, which matches names written without separators.
fn joined(text: &str) -> String {
    let word: String =
        text.chars().take(MAX_TEXT).filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    word.chars().take(MAX_WORD).collect()
}

/// The English stems of the words of a text: `queries` and `query` become `queri`.
fn stems(text: &str) -> Vec<String> {
    words(text).iter().map(|word| stem(word)).collect()
}

fn stem(word: &str) -> String {
    Stemmer::create(Algorithm::English).stem(word).into_owned()
}

/// The words of a text in lower case: split at everything except letters and digits, between letters and digits, and
/// before a capital that begins a word (`parseURLNow1` → `parse`, `url`, `now`, `1`).
pub(super) fn words(text: &str) -> Vec<String> {
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

/// The parts of a word in which letters of scripts without spaces occur: all pairs of neighbors, or a letter that stands alone
/// (`予定を` → `予定`, `定を`), and what is between them. Other words have none.
fn parts(word: &str) -> Vec<String> {
    if word.is_ascii() || !word.contains(is_unspaced) {
        return Vec::new();
    }
    let chars: Vec<char> = word.chars().take(MAX_TEXT).collect();
    let runs = chars.chunk_by(|a, b| is_unspaced(*a) == is_unspaced(*b));
    let parts = runs.flat_map(|run| run.windows(if is_unspaced(run[0]) { run.len().min(2) } else { run.len() }));
    parts.map(String::from_iter).filter(|part| part != word).collect()
}

/// Whether a letter or mark belongs to a script that is written without spaces between words.
fn is_unspaced(c: char) -> bool {
    c >= UNSPACED[0].0 && UNSPACED.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// The letters and marks of Thai, Lao, Myanmar, Khmer, Hiragana, Katakana and Han, sorted. Punctuation and digits are left out.
const UNSPACED: [(char, char); 19] = [
    ('\u{e01}', '\u{e3a}'),
    ('\u{e40}', '\u{e4e}'),
    ('\u{e81}', '\u{ece}'),
    ('\u{1000}', '\u{103f}'),
    ('\u{1050}', '\u{108f}'),
    ('\u{109a}', '\u{109d}'),
    ('\u{1780}', '\u{17d3}'),
    ('\u{17dc}', '\u{17dd}'),
    ('\u{3005}', '\u{3006}'),
    ('\u{3041}', '\u{309f}'),
    ('\u{30a1}', '\u{30fa}'),
    ('\u{30fc}', '\u{30ff}'),
    ('\u{31f0}', '\u{31ff}'),
    ('\u{3400}', '\u{4dbf}'),
    ('\u{4e00}', '\u{9fff}'),
    ('\u{aa60}', '\u{aa7f}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{ff66}', '\u{ff9f}'),
    ('\u{20000}', '\u{3ffff}'),
];

fn push(words: &mut Vec<String>, word: &mut String) {
    let word = std::mem::take(word);
    if !word.is_empty() {
        words.push(word.chars().take(MAX_WORD).collect());
    }
}

/// The constant of BM25 by which repeated words weigh less.
const K1: f32 = 2.0;

/// The weight of a word in each field, and how much the length of the field reduces it, from 0 to 1.
const WEIGHTS: [(f32, f32); FIELDS] = [(3.0, 0.6), (3.0, 0.0), (1.5, 0.3), (1.2, 0.8), (0.5, 0.3)];

/// The part of a score that depends on how many words of the query match.
const COVERAGE: f32 = 0.7;

/// Added to the score of each tool in a namespace that the query names.
const NAMED_NAMESPACE: f32 = 4.0;

/// Added to the score of each tool that the query names.
const NAMED: f32 = 1_000.0;

/// The characters of names beside letters and digits.
const NAME_MARKS: [char; 5] = ['_', '-', '.', '/', '$'];

/// The factor for matching a synonym.
const SYNONYM_FACTOR: f32 = 0.65;

/// The factors of tools that change something if the query reads, and the other way round, and of tools that change something
/// else than the query says.
const OTHER_KIND_FACTOR: f32 = 0.8;
const OTHER_VERB_FACTOR: f32 = 0.9;

/// The factor of tools all of whose name is in the query, if it has several words: a query of several tasks has the names of
/// several tools.
const COVERED_NAME_FACTOR: f32 = 1.25;

/// How many words of a name or query are searched for a verb.
const MAX_VERB: usize = 3;

/// The factors of deprecated tools, which come behind weak matches, and of those that models should not call.
const DEPRECATED_FACTOR: f32 = 0.01;
const NOT_FOR_MODELS_FACTOR: f32 = 0.2;

/// The names of tools that only pass on requests of MCP, and their factor: nearly every server has them.
const RELAYS: [&str; 5] = ["list_resources", "list_resource_templates", "read_resource", "list_prompts", "get_prompt"];
const RELAY_FACTOR: f32 = 0.3;

/// The factor for matching a prefix, the minimum length of a prefix in characters, and the maximum number of words that
/// one prefix matches.
const PREFIX_FACTOR: f32 = 0.4;
const MIN_PREFIX: usize = 3;
const MAX_EXPANSIONS: usize = 64;

/// The maximum lengths of untrusted text, in characters, and the maximum numbers of words of a query or name and of
/// parameters per tool.
const MAX_QUERY: usize = 1_000;
const MAX_TEXT: usize = 4_000;
const MAX_WORD: usize = 64;
const MAX_WORDS: usize = 32;
const MAX_PARAMETERS: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named<'a>(name: &'a str, description: &'a str) -> Document<'a> {
        Document {
            names: [name, name],
            description,
            parameters: vec!["repoName"],
            namespace: "api",
            ..Document::default()
        }
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
    fn tools_are_found_by_parts_of_texts_without_spaces() {
        assert!(UNSPACED.is_sorted());
        assert_eq!(parts("予定を"), ["予定", "定を"]);
        assert_eq!(parts("api呼び出し削"), ["api", "呼び", "び出", "出し", "し削"]);
        assert_eq!([parts("猫"), parts("größe"), parts("cat")], [const { Vec::<String>::new() }; 3]);
        let index = Index::new([
            named("会議室を予約", "空いている会議室を予約します"),
            named("发送邮件", "向联系人发送一封邮件"),
            named("search_files", "ค้นหาไฟล์ในโฟลเดอร์"),
            named("weather", "ອາກາດມື້ນີ້"),
            named("translate", "បកប្រែអត្ថបទ"),
            named("calendar", "ပြက္ခဒိန်ကိုဖွင့်ပါ"),
            named("カレンダー同期", "外部のカレンダーと同期する"),
            named("犬", "Pets"),
        ]);
        for (query, first) in [
            ("会議室", 0),
            ("明日の会議室を取りたい", 0),
            ("帮我给老板发一封邮件", 1),
            ("邮", 1),
            ("ช่วยค้นหาไฟล์", 2),
            ("อยากหาโฟลเดอร์", 2),
            ("ອາກາດ", 3),
            ("បកប្រែ", 4),
            ("ပြက္ခဒိန်", 5),
            ("カレンダー", 6),
            ("google カレンダーの同期", 6),
            ("犬", 7),
        ] {
            assert_eq!(index.search(query).first(), Some(&first), "{query}");
        }
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

    #[test]
    fn other_verbs_find_tools_and_words_without_meaning_do_not() {
        let index = Index::new([
            named("delete_label", "Removes a label"),
            named("create_issue", "Opens an issue"),
            named("list_pull_requests", "The open pull requests"),
            named("the_answer", "What you want is the answer to it"),
        ]);
        for (query, first) in
            [("remove a tag", 0), ("file a new bug", 1), ("show me all pull requests", 2), ("what is the answer", 3)]
        {
            assert_eq!(index.search(query)[0], first, "{query}");
        }
        assert!(!index.search("open the issue for me").contains(&3));
        assert_eq!(index.search("the")[0], 3, "words that do not count are searched if there are no others");
    }

    #[test]
    fn a_namespace_that_is_named_comes_first() {
        let document = |namespace| Document { namespace, names: ["search", "search"], ..Document::default() };
        let index = Index::new(["github", "google-maps", "slack"].map(document));
        assert_eq!(index.search("search in slack")[0], 2);
        assert_eq!(index.search("search on google maps")[0], 1);
    }

    #[test]
    fn tools_that_read_come_before_tools_that_destroy_and_deprecated_ones_last() {
        let document = |effect, description| Document { effect, ..named("clean_cache", description) };
        let index = Index::new([
            document(Effect::ReadOnly, "[Deprecated] Cleans the cache"),
            document(Effect::Destructive, "Cleans the cache"),
            document(Effect::Unstated, "Cleans the cache"),
            document(Effect::ReadOnly, "Cleans the cache"),
        ]);
        assert_eq!(index.search("clean the cache"), [3, 2, 1, 0]);
    }

    #[test]
    fn deprecated_tools_and_those_not_for_models_come_last_in_a_namespace_that_is_named_too() {
        let descriptions = [
            "Draws a map. DEPRECATED: use draw_chart instead.",
            "Draws a map. The model should not call this tool directly.",
            "Draws a map",
            "Prints something, such as a map",
        ];
        let names = ["draw_map", "draw_map_now", "draw_chart", "print_all"];
        let index = Index::new(names.iter().zip(descriptions).map(|(name, description)| named(name, description)));
        for query in ["draw a map", "draw api", "draw maps in the api"] {
            let found = index.search(query);
            assert_eq!(found[0], 2, "{query}");
            assert_eq!(found.last(), Some(&0), "{query}");
        }
        assert_eq!(index.search("draw_map")[0], 0, "unless it is named");
        assert_eq!(Index::new([named("find_deprecated_maps", "Finds deprecated maps")]).factors, [1.0]);
    }

    #[test]
    fn tools_that_pass_on_resources_do_not_displace_others() {
        let relay = |name| named(name, "Lists the resources of this server, and their templates");
        let index = Index::new([
            relay("list_resources"),
            named("list_resources_of_cluster", "Lists nodes"),
            named("paint", "Paints a list of nodes in the api"),
        ]);
        assert_eq!(index.search("list nodes api").last(), Some(&0));
        assert_eq!(index.search("list_resources")[0], 0);
    }

    #[test]
    fn names_in_a_query_come_first() {
        let document = |namespace, name| Document { namespace, names: [name, name], ..Document::default() };
        let index = Index::new([
            document("shop", "search_orders_of_customer"),
            document("shop", "orders"),
            document("old-shop", "search_orders"),
            document("shop", "search_orders"),
            document("shop", "find"),
        ]);
        for query in ["shop.search_orders", "please call `shop.search_orders`, now", "shop.searchOrders customer"] {
            assert_eq!(index.search(query)[0], 3, "{query}");
        }
        for query in ["search_orders", "the tool search-orders of customer", "searchOrders()", "search orders"] {
            assert!([2, 3].contains(&index.search(query)[0]), "{query}");
        }
        assert_eq!(index.search("orders")[0], 1);
        assert_eq!(index.search("find")[0], 4);
        assert_ne!(index.search("find orders of a customer")[0], 4, "a word is no name");
    }

    #[test]
    fn a_query_of_several_tasks_finds_the_tool_of_each() {
        let names = ["get_mail_contents", "send_mail", "list_mail_rules", "list_folders", "create_invoice", "paint"];
        let index = Index::new(names.map(|name| named(name, "Works with mail, folders and what they contain")));
        for (query, expected) in [
            ("list folders send mail", [1, 3]),
            ("create invoice list folders", [3, 4]),
            ("send mail create invoice", [1, 4]),
        ] {
            let mut first = index.search(query)[..2].to_vec();
            first.sort_unstable();
            assert_eq!(first, expected, "{query}");
        }
    }

    #[test]
    fn hostile_tools_are_indexed_and_searched_in_bounded_time() {
        let names = ["list_".repeat(1 << 17), "x".repeat(1 << 20)];
        let descriptions =
            ["a".repeat(1 << 20), "Go. ".repeat(100_000), "(deprecated ".repeat(50_000), "list\n".repeat(200_000)];
        let started = std::time::Instant::now();
        let documents = (0..200).map(|n| named(&names[n % 2], &descriptions[n % 4]));
        let index = Index::new(documents);
        for _ in 0..100 {
            index.search("list a list of lists");
        }
        assert!(started.elapsed() < std::time::Duration::from_mins(1), "{:?}", started.elapsed());
    }

    #[test]
    fn questions_find_tools_that_read_and_orders_find_tools_that_change() {
        let names = ["delete_watcher", "get_watchers", "update_report", "get_report", "stash"];
        let index = Index::new(names.map(|name| named(name, "")));
        for (query, first) in [
            ("who are the watchers", 1),
            ("which report is there", 3),
            ("close the report", 2),
            ("get rid of a watcher", 0),
            ("set aside what I did", 4),
        ] {
            assert_eq!(index.search(query)[0], first, "{query}");
        }
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
