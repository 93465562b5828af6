//! The outline of a value that is too large to show.

use serde_json::{Map, Value as Json};

/// `value` as JSON, with the first items of long lists, the first members of large objects and the beginnings of long texts,
/// and how much is missing. Has at most `max` characters, if that is possible.
pub(super) fn outline(value: &Json, max: usize) -> String {
    let mut text = String::new();
    for level in &LEVELS {
        text = Outline { level, nodes: MAX_NODES }.of(value, level.depth).to_string();
        if text.chars().count() <= max {
            break;
        }
    }
    text
}

/// How much an outline shows.
struct Level {
    items: usize,
    members: usize,
    characters: usize,
    depth: usize,
}

const LEVELS: [Level; 6] = [
    Level { items: 30, members: 60, characters: 400, depth: 8 },
    Level { items: 10, members: 60, characters: 200, depth: 6 },
    Level { items: 5, members: 40, characters: 100, depth: 5 },
    Level { items: 3, members: 20, characters: 60, depth: 4 },
    Level { items: 1, members: 10, characters: 30, depth: 3 },
    Level { items: 1, members: 5, characters: 20, depth: 2 },
];

/// The maximum number of values in an outline.
const MAX_NODES: usize = 5_000;

struct Outline<'a> {
    level: &'a Level,
    /// How many more values can be shown.
    nodes: usize,
}

impl Outline<'_> {
    /// Recurses `depth` levels at most.
    fn of(&mut self, value: &Json, depth: usize) -> Json {
        self.nodes = self.nodes.saturating_sub(1);
        match value {
            Json::String(text) => Json::String(self.text(text)),
            Json::Array(items) if !items.is_empty() && (depth == 0 || self.nodes == 0) => {
                Json::String(format!("… {} items", items.len()))
            }
            Json::Object(members) if !members.is_empty() && (depth == 0 || self.nodes == 0) => {
                Json::String(format!("… {} members", members.len()))
            }
            Json::Array(items) => {
                let mut shown = Vec::new();
                for item in items.iter().take(self.level.items) {
                    if self.nodes == 0 {
                        break;
                    }
                    shown.push(self.of(item, depth - 1));
                }
                let rest = items.len() - shown.len();
                shown.extend((rest > 0).then(|| Json::String(format!("… {rest} more items"))));
                Json::Array(shown)
            }
            Json::Object(members) => {
                let mut shown = Map::new();
                for (name, member) in members.iter().take(self.level.members) {
                    if self.nodes == 0 {
                        break;
                    }
                    shown.insert(self.text(name), self.of(member, depth - 1));
                }
                let rest = members.len().saturating_sub(shown.len());
                if rest > 0 {
                    shown.insert("…".to_owned(), Json::String(format!("{rest} more members")));
                }
                Json::Object(shown)
            }
            value => value.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        match text.char_indices().nth(self.level.characters) {
            Some((at, _)) => format!("{}… {} more characters", &text[..at], text[at..].chars().count()),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_outline_shows_what_fits_and_counts_the_rest() {
        let rows: Vec<Json> = (0..1_000).map(|id| json!({ "id": id, "text": "x".repeat(500) })).collect();
        let value = json!({ "rows": rows, "total": 1_000, "deep": { "a": { "b": { "c": { "d": [1, 2, 3] } } } } });
        let shown = outline(&value, 1_000);
        assert!(shown.chars().count() <= 1_000, "{shown}");
        for part in [
            "\"total\":1000",
            "… 995 more items",
            "{\"id\":0,\"text\":\"xxx",
            "more characters\"",
            "\"d\":\"… 3 items\"",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(outline(&json!([1, "a", null, [], {}]), 1_000), "[1,\"a\",null,[],{}]");
    }

    /// Without a bound on values, lists in lists would show 30 to the power of 8 of them.
    #[test]
    fn outlines_of_wide_and_deep_values_are_bounded() {
        let mut wide = json!(1);
        for _ in 0..3 {
            wide = Json::Array(vec![wide; 60]);
        }
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!({ "a": [deep] });
        }
        for value in [wide, deep, Json::Array(vec![Json::Object(Map::new()); 100_000])] {
            assert!(outline(&value, 2_000).chars().count() <= 2_000);
        }
    }
}
