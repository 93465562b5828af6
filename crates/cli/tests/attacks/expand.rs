//! Repetitions in cases: `⟦TEXT × N⟧` stands for N copies of the text.
//!
//! In the text, `%i` is the number of the copy, from 1, and `%p` is the number before it. Repetitions nest: the inner one is
//! expanded first, and its `%i` is its own.

use std::fmt::Write as _;

/// Expands every repetition.
pub(crate) fn expand(text: &str) -> String {
    let (mut outer, mut current) = (Vec::new(), String::new());
    for piece in text.split_inclusive(['⟦', '⟧']) {
        if let Some(before) = piece.strip_suffix('⟦') {
            current.push_str(before);
            outer.push(std::mem::take(&mut current));
        } else if let Some(inner) = piece.strip_suffix('⟧') {
            current.push_str(inner);
            let around = outer.pop().unwrap_or_else(|| panic!("⟧ without ⟦: {text}"));
            current = around + &repetition(&current);
        } else {
            current.push_str(piece);
        }
    }
    assert!(outer.is_empty(), "⟦ without ⟧: {text}");
    current
}

/// Expands what is between two brackets.
fn repetition(inner: &str) -> String {
    let (text, count) = inner.rsplit_once(" × ").unwrap_or_else(|| panic!("no ` × `: {inner}"));
    let count: usize = count.parse().unwrap_or_else(|_| panic!("not a count: {count}"));
    let mut parts = text.split('%');
    let first = parts.next().unwrap_or_default();
    let parts: Vec<&str> = parts.collect();
    if parts.is_empty() {
        return text.repeat(count);
    }
    let mut copies = String::new();
    for i in 1..=count {
        copies.push_str(first);
        for part in &parts {
            match part.split_at_checked(1) {
                Some(("i", rest)) => write!(copies, "{i}{rest}").unwrap(),
                Some(("p", rest)) => write!(copies, "{}{rest}", i - 1).unwrap(),
                _ => write!(copies, "%{part}").unwrap(),
            }
        }
    }
    copies
}
