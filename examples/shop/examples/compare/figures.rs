//! The figures of the page: all tasks played, as a table.

use serde_json::Value as Json;

use crate::play::{self, Tally};

/// A task that was done in both ways.
pub(crate) struct Played {
    pub(crate) question: &'static str,
    pub(crate) by_calls: (Json, Tally),
    pub(crate) by_code: (Json, Tally),
}

pub(crate) async fn play() -> Vec<Played> {
    let mut played = Vec::new();
    for task in &play::TASKS {
        let (by_calls, by_code) = (play::by_calls(task).await, play::by_code(task).await);
        played.push(Played { question: task.question, by_calls, by_code });
    }
    played
}

/// The page with these figures in place of the present ones.
pub(crate) fn set(page: &str, played: &[Played]) -> String {
    let (before, rest) = page.split_once(BEGIN).expect("a place for the figures");
    let (_, after) = rest.split_once(END).expect("an end of that place");
    format!("{before}{BEGIN}\n\n{}\n{END}{after}", table(played))
}

fn table(played: &[Played]) -> String {
    let mut table = String::from(
        "| | tools | search | results | **read in all** | written | calls | turns |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for Played { question, by_calls, by_code } in played {
        table += &format!("| *{question}* | | | | | | | |\n");
        table += &row("by calls", &by_calls.1);
        table += &row("by code", &by_code.1);
    }
    table
}

fn row(way: &str, tally: &Tally) -> String {
    let Tally { tools, search, results, written, calls, turns } = tally;
    let read = number(tally.read());
    let (tools, search, results, written) = (number(*tools), number(*search), number(*results), number(*written));
    format!("| {way} | {tools} | {search} | {results} | **{read}** | {written} | {calls} | {turns} |\n")
}

/// The digits of a number, in groups of three.
fn number(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap()).collect();
    groups.join(" ")
}

const BEGIN: &str = "<!-- Figures: made by `cargo run --release --package shop --example compare -- --write` -->";
const END: &str = "<!-- End of the figures -->";
