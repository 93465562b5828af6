//! The first sentence of a description, which is hostile text: the length that is looked at is bounded.

use super::synonyms::IGNORED;

/// Splits a description after its first sentence. A sentence can continue on the next line; a heading, a list item or a
/// paragraph ends without a full stop, too.
pub(super) fn split_sentence(description: &str) -> (&str, &str) {
    let description = description.trim_start();
    let scanned = description.char_indices().nth(MAX_SCANNED).map_or(description, |(at, _)| &description[..at]);
    let block = &scanned[..block_end(scanned)];
    description.split_at(sentence_end(block).unwrap_or(block.len()))
}

/// Where the first block of a text ends: a paragraph, a heading or a list item.
fn block_end(text: &str) -> usize {
    let (mut end, mut last) = (0, "");
    for line in text.split_inclusive('\n') {
        if end > 0 && !continues(last, line) {
            break;
        }
        end += line.len();
        last = line;
    }
    end
}

/// Whether a line belongs to the same block as the line before it.
fn continues(before: &str, line: &str) -> bool {
    let is_indented = line.starts_with([' ', '\t']);
    let (before, line) = (before.trim(), line.trim());
    if line.is_empty() || is_heading(before) || is_list_item(line) || is_heading(line) || is_label(line) {
        return false;
    }
    if is_list_item(before) {
        return is_indented;
    }
    // Short lines that are followed by a capital are titles, unless they end within a sentence.
    let ends_within =
        before.ends_with([',', '(', '-']) || before.rsplit(' ').next().is_some_and(|w| IGNORED.contains(&w));
    !line.starts_with(char::is_uppercase) || ends_within || before.chars().count() >= MIN_WRAPPED
}

/// Whether a line is a heading, a rule, a fence, a table row or a quote of Markdown, or all in bold.
fn is_heading(line: &str) -> bool {
    let is_bold = line.len() > 4
        && line.starts_with("**")
        && line.find("**").is_some()
        && line[2..].find("**") == Some(line.len() - 4);
    line.starts_with(['#', '|', '>', '=', '<']) || line.starts_with("```") || line.starts_with("---") || is_bold
}

fn is_list_item(line: &str) -> bool {
    let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered =
        after_number.len() < line.len() && (after_number.starts_with(". ") || after_number.starts_with(") "));
    is_numbered || ["- ", "* ", "+ ", "• ", "– "].iter().any(|mark| line.starts_with(mark))
}

/// Whether a line is the name of a section, such as `Args:`.
fn is_label(line: &str) -> bool {
    line.ends_with(':') && line.split_whitespace().count() <= MAX_LABEL
}

/// Where the first sentence ends in a block, if it ends before the block.
fn sentence_end(block: &str) -> Option<usize> {
    block.char_indices().filter(|(_, c)| matches!(c, '.' | '!' | '?' | '。' | '！' | '？')).find_map(|(at, c)| {
        let after = &block[at + c.len_utf8()..];
        // Quotes and brackets that close after the mark belong to the sentence.
        let rest = after.trim_start_matches(['.', '!', '?', '"', '\'', '”', '’', ')', ']', '*', '_', '`']);
        let ends = match c {
            '.' => is_followed_by_space(rest) && !is_within(&block[..at], rest.trim_start()),
            '!' | '?' => is_followed_by_space(rest),
            _ => true,
        };
        ends.then(|| block.len() - rest.len())
    })
}

fn is_followed_by_space(rest: &str) -> bool {
    rest.chars().next().is_none_or(char::is_whitespace)
}

/// Whether a full stop between these texts belongs to an abbreviation, an ellipsis or the number of a list item.
fn is_within(before: &str, after: &str) -> bool {
    let word =
        before.rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | '[' | '"' | '/')).next().unwrap_or_default();
    let goes_on = after.starts_with(|c: char| c.is_lowercase() || c.is_numeric());
    let is_in = |list: &[&str]| list.iter().any(|each| each.eq_ignore_ascii_case(word));
    let is_initials = word.split('.').all(|part| part.chars().count() == 1 && part.chars().all(char::is_alphabetic));
    let is_number = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit()) && before.trim_start() == word;
    is_initials
        || is_number
        || is_in(ABBREVIATIONS)
        || goes_on && (is_in(ENDING_ABBREVIATIONS) || word.is_empty() || word.ends_with('.'))
}

/// Abbreviations that end no sentence, and those that end one if a capital follows.
const ABBREVIATIONS: &[&str] =
    &["vs", "cf", "approx", "incl", "excl", "resp", "esp", "fig", "dr", "mr", "mrs", "ms", "prof", "al", "eg", "ie"];
const ENDING_ABBREVIATIONS: &[&str] =
    &["etc", "max", "min", "no", "nr", "ca", "inc", "ltd", "corp", "ver", "sec", "st"];

/// The length of the beginning of a description that is searched for the end of a sentence, in characters.
const MAX_SCANNED: usize = 1_000;

/// The length from which a line is hard-wrapped and continues on the next one, in characters.
const MIN_WRAPPED: usize = 40;

/// The maximum number of words in the name of a section.
const MAX_LABEL: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn first(description: &str) -> String {
        split_sentence(description).0.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sentences_continue_on_the_next_line() {
        for (description, expected) in [
            (
                "List the invoices of a customer: date, amount, state and what was paid (cash, card,\nVouchers). Newest first.",
                "List the invoices of a customer: date, amount, state and what was paid (cash, card, Vouchers).",
            ),
            ("Counts\nthe rows of a table. More.", "Counts the rows of a table."),
            ("Returns the list of\nOrders. More.", "Returns the list of Orders."),
            ("Moves a page\r\n  to another space\r\n", "Moves a page to another space"),
            ("Plays a song\n\nand more", "Plays a song"),
        ] {
            assert_eq!(first(description), expected, "{description:?}");
        }
    }

    #[test]
    fn headings_and_list_items_end_with_their_line() {
        for (description, expected) in [
            ("# Weather\nForecasts of a week.", "# Weather"),
            ("**Weather**\nforecasts of a week.", "**Weather**"),
            ("Weather\n=======\nForecasts of a week.", "Weather"),
            ("Weather forecasts\nReturns those of a week.", "Weather forecasts"),
            ("- a city\n- a country", "- a city"),
            ("- a city\nforecasts are returned", "- a city"),
            ("- a city\n  or a village\n- a country", "- a city or a village"),
            ("1. Sign in\n2. Ask", "1. Sign in"),
            (
                "Returns one of these values for the city that was named\n- rain\n- sun",
                "Returns one of these values for the city that was named",
            ),
            (
                "Forecasts the weather of the coming week in a city\nArgs:\n  city: its name",
                "Forecasts the weather of the coming week in a city",
            ),
        ] {
            assert_eq!(first(description), expected, "{description:?}");
        }
    }

    #[test]
    fn stops_within_words_and_abbreviations_do_not_end_a_sentence() {
        for (description, expected) in [
            ("Sends mail, e.g. Invoices to customers. More.", "Sends mail, e.g. Invoices to customers."),
            ("Sends one kind (i.e. Letters). More.", "Sends one kind (i.e. Letters)."),
            (
                "Needs version 2.4.1 or b.json at 0.5 of the size. More.",
                "Needs version 2.4.1 or b.json at 0.5 of the size.",
            ),
            ("Sorts names, dates etc. in place. More.", "Sorts names, dates etc. in place."),
            ("Sorts names, dates etc. More.", "Sorts names, dates etc."),
            ("Compares apples vs. Pears. More.", "Compares apples vs. Pears."),
            ("Waits ... and returns. More.", "Waits ... and returns."),
            ("Reads b.json. More.", "Reads b.json."),
            ("Since 2.4. More.", "Since 2.4."),
            ("Clears all! More.", "Clears all!"),
            ("Lost? Asks for the way.", "Lost?"),
            ("Lists `a.b?c` of a file (\"all.\") More.", "Lists `a.b?c` of a file (\"all.\")"),
            ("画像を作る。説明。", "画像を作る。"),
            ("", ""),
            ("...", "..."),
        ] {
            assert_eq!(first(description), expected, "{description:?}");
        }
    }

    #[test]
    fn the_time_for_hostile_descriptions_is_bounded() {
        let hostile = [
            "x".repeat(1 << 20),
            "A. ".repeat(100_000),
            "e.g. ".repeat(100_000),
            "\n".repeat(1 << 20),
            "# a\n".repeat(1 << 18),
        ];
        let started = std::time::Instant::now();
        for text in &hostile {
            let (sentence, rest) = split_sentence(text);
            assert!(sentence.chars().count() <= MAX_SCANNED);
            assert_eq!(sentence.len() + rest.len(), text.trim_start().len());
        }
        assert!(started.elapsed() < std::time::Duration::from_mins(1), "{:?}", started.elapsed());
    }
}
