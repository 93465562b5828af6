//! The promises of the host in a value, without decoding it. Nothing recurses, and what is kept is bounded.

use std::collections::HashSet;

use super::wire::{self, Malformed, Reader};

/// The most objects that may be open at once: they take a megabyte, which is not charged.
const MAX_OPEN: usize = 1 << 16;

/// Adds the numbers of the promises in a value to `found`, up to `limit` numbers in all. Returns whether these are all.
pub(super) fn find(bytes: &[u8], found: &mut HashSet<u32>, limit: usize) -> bool {
    if memchr::memchr(wire::PROMISE, bytes).is_none() {
        return true;
    }
    let mut scan = Scan { reader: Reader::new(bytes), open: vec![Open::Parts(1)] };
    while let Ok(next) = scan.next() {
        match next {
            None => return true,
            Some(_) if found.len() == limit => return false,
            Some(number) => _ = found.insert(number),
        }
    }
    false
}

struct Scan<'a> {
    reader: Reader<'a>,
    /// Objects whose parts are being read, innermost last.
    open: Vec<Open>,
}

#[derive(Clone, Copy)]
enum Open {
    /// This many parts are left.
    Parts(usize),
    /// Members are read until the end mark.
    Members,
}

impl Scan<'_> {
    /// The number of the next promise; `None` at the end of the value.
    fn next(&mut self) -> Result<Option<u32>, Malformed> {
        while let Some(open) = self.open.last_mut() {
            match open {
                Open::Parts(0) => {
                    self.open.pop();
                    continue;
                }
                Open::Parts(left) => *left -= 1,
                Open::Members => match self.reader.varint()? {
                    wire::KEY_END => {
                        self.open.pop();
                        continue;
                    }
                    wire::KEY_NEW => self.text()?,
                    _ => {}
                },
            }
            if let Some(number) = self.part()? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Reads a part up to its own parts. Returns the number of a promise.
    fn part(&mut self) -> Result<Option<u32>, Malformed> {
        match self.reader.byte()? {
            wire::UNDEFINED | wire::NULL | wire::FALSE | wire::TRUE | wire::HOLE => {}
            wire::INT | wire::REFERENCE => _ = self.reader.varint()?,
            wire::F64 | wire::DATE => _ = self.reader.bytes(8)?,
            wire::STRING | wire::BIGINT => self.text()?,
            wire::ARRAY | wire::SET => self.begin(1)?,
            wire::MAP => self.begin(2)?,
            wire::OBJECT => self.push(Open::Members)?,
            wire::SPARSE => {
                self.reader.varint()?;
                self.push(Open::Members)?;
            }
            wire::REGEXP => {
                self.text()?;
                self.text()?;
            }
            wire::ERROR => self.error()?,
            wire::BUFFER => {
                let len = self.reader.varint()?;
                self.reader.varint()?;
                self.reader.bytes(len as usize)?;
            }
            wire::VIEW => {
                self.reader.byte()?;
                self.reader.varint()?;
                self.reader.varint()?;
                self.push(Open::Parts(1))?;
            }
            wire::BOXED => self.push(Open::Parts(1))?,
            wire::FUNCTION => {
                self.reader.varint()?;
                self.reader.byte()?;
                self.text()?;
            }
            wire::PROMISE => return self.reader.varint().map(Some),
            _ => return Err(Malformed),
        }
        Ok(None)
    }

    fn error(&mut self) -> Result<(), Malformed> {
        self.text()?;
        let parts = self.reader.byte()?;
        for part in [wire::ERROR_MESSAGE, wire::ERROR_STACK] {
            if parts & part != 0 {
                self.text()?;
            }
        }
        if parts & wire::ERROR_CAUSE != 0 { self.push(Open::Parts(1)) } else { Ok(()) }
    }

    /// Begins an object of a number of entries, which have `parts` each.
    fn begin(&mut self, parts: usize) -> Result<(), Malformed> {
        let count = self.reader.count()?;
        self.push(Open::Parts(count * parts))
    }

    fn push(&mut self, open: Open) -> Result<(), Malformed> {
        if self.open.len() == MAX_OPEN {
            return Err(Malformed);
        }
        self.open.push(open);
        Ok(())
    }

    /// Skips a length and that many bytes.
    fn text(&mut self) -> Result<(), Malformed> {
        let len = self.reader.varint()?;
        self.reader.bytes(len as usize).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::value::{Graph, Value};

    fn found(value: &Value, limit: usize) -> (bool, Vec<u32>) {
        let mut found = HashSet::new();
        let is_all = find(value.as_bytes(), &mut found, limit);
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_unstable();
        (is_all, found)
    }

    fn value(json: &serde_json::Value) -> Value {
        Graph::from_tagged_json(json, "value").unwrap().to_value("value").unwrap()
    }

    #[test]
    fn promises_are_found_behind_and_inside_of_every_kind_of_value() {
        let kinds = [
            json!(null),
            json!({ "$undefined": true }),
            json!([true, false, 23, -23, 0.5, "\u{17}", [], {}]),
            json!({ "\u{17}": 23, "b": { "\u{17}": 23 } }),
            json!({ "$bigint": "23" }),
            json!({ "$date": 23 }),
            json!({ "$map": [["\u{17}", 23], [{ "a": 1 }, [23]]] }),
            json!({ "$set": [23, "\u{17}"] }),
            json!({ "$regexp": "\u{17}", "flags": "g" }),
            json!({ "$error": "TypeError" }),
            json!({ "$error": "TypeError", "message": "\u{17}", "stack": "\u{17}", "cause": [23] }),
            json!({ "$bytes": "FxcX" }),
            json!({ "$buffer": "FxcX", "max": 23 }),
            json!({ "$view": "DataView", "of": { "$buffer": "FxcX" }, "offset": 1, "length": 2 }),
            json!({ "$boxed": "\u{17}" }),
            json!({ "$sparse": 23, "items": { "3": 23 } }),
            json!({ "$function": 23, "kind": "async", "name": "\u{17}" }),
        ];
        for kind in &kinds {
            assert_eq!(found(&value(&json!([kind, "\u{17}"])), 9), (true, vec![]), "{kind}");
            let beside = json!([kind, { "$promise": 5 }, { "a": kind, "b": { "$promise": 300 } }]);
            assert_eq!(found(&value(&beside), 9), (true, vec![5, 300]), "{kind}");
        }
        let shared = json!([{ "$id": 1, "$value": [23] }, { "$ref": 1 }, { "$promise": 9 }]);
        assert_eq!(found(&value(&shared), 9), (true, vec![9]));
        let promise = json!({ "$promise": 7 });
        for inside in [
            promise.clone(),
            json!({ "$map": [[1, promise]] }),
            json!({ "$map": [[promise, 1]] }),
            json!({ "$set": [promise] }),
            json!({ "$error": "Error", "cause": promise }),
            json!({ "$sparse": 3, "items": { "1": promise } }),
        ] {
            assert_eq!(found(&value(&inside), 9), (true, vec![7]), "{inside}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let many = value(&(0..5).map(|number| json!({ "$promise": number })).collect());
        assert_eq!((found(&many, 5), found(&many, 4).0), ((true, vec![0, 1, 2, 3, 4]), false));
        let deep = [wire::ARRAY, 1].repeat(MAX_OPEN).into_iter().chain([wire::PROMISE, 0]);
        assert!(!found(&Value::from_bytes(deep.collect::<Vec<_>>()), 9).0);
        for len in 0..many.as_bytes().len() {
            let cut = &many.as_bytes()[..len];
            assert_eq!(found(&Value::from_bytes(cut), 9).0, !cut.contains(&wire::PROMISE), "{cut:?}");
        }
    }
}
