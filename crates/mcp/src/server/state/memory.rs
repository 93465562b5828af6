//! The state of one session, in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

use execbox_core::budget::{Budget, Charge, Exhausted};

use super::snippets::{MAX_SNIPPETS_BYTES, SNIPPET_BYTES};
use super::{ENTRY_BYTES, MAX_STATE_BYTES, StateArea, StateEntry, StateError, StateStore};

/// The state of one session. Entries are charged to budgets of the session, which are parts of the budget of all sessions.
pub(super) struct MemoryState {
    values: Mutex<Entries>,
    snippets: Mutex<Entries>,
    shapes: Mutex<Entries>,
}

struct Entries {
    budget: Budget,
    /// The bytes that an entry counts in addition to its key and its text.
    entry_bytes: usize,
    kept: BTreeMap<String, Kept>,
    /// Increased by each write.
    revision: u64,
}

struct Kept {
    text: String,
    revision: u64,
    charge: Charge,
}

impl MemoryState {
    pub(super) fn new(all: &Budget) -> Self {
        let entries = |limit, entry_bytes| {
            Mutex::new(Entries { budget: all.part(limit), entry_bytes, kept: BTreeMap::new(), revision: 0 })
        };
        Self {
            values: entries(MAX_STATE_BYTES, ENTRY_BYTES),
            snippets: entries(MAX_SNIPPETS_BYTES, SNIPPET_BYTES),
            shapes: entries(MAX_STATE_BYTES, ENTRY_BYTES),
        }
    }

    /// Whether there is an entry.
    pub(super) fn is_in_use(&self) -> bool {
        [StateArea::Values, StateArea::Snippets]
            .into_iter()
            .any(|area| self.with(area, |entries| !entries.kept.is_empty()))
    }

    fn with<T>(&self, area: StateArea, work: impl FnOnce(&mut Entries) -> T) -> T {
        let entries = match area {
            StateArea::Values => &self.values,
            StateArea::Snippets => &self.snippets,
            StateArea::Shapes => &self.shapes,
        };
        work(&mut entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl StateStore for MemoryState {
    fn get(&self, area: StateArea, key: &str) -> Result<Option<String>, StateError> {
        Ok(self.with(area, |entries| entries.kept.get(key).map(|kept| kept.text.clone())))
    }

    fn set(&self, area: StateArea, key: &str, text: String) -> Result<(), StateError> {
        self.with(area, |entries| entries.set(key, text))
    }

    fn replace(&self, area: StateArea, key: &str, expected: Option<&str>, text: String) -> Result<bool, StateError> {
        self.with(area, |entries| {
            let is_expected = entries.kept.get(key).map(|kept| &*kept.text) == expected;
            if is_expected { entries.set(key, text).map(|()| true) } else { Ok(false) }
        })
    }

    fn delete(&self, area: StateArea, key: &str) -> Result<bool, StateError> {
        Ok(self.with(area, |entries| entries.kept.remove(key).is_some()))
    }

    fn list(&self, area: StateArea, prefix: &str) -> Result<Vec<StateEntry>, StateError> {
        Ok(self.with(area, |entries| {
            let from = entries.kept.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
            let all = from.take_while(|(key, _)| key.starts_with(prefix));
            let entry = |(key, kept): (&String, &Kept)| StateEntry {
                key: key.clone(),
                bytes: kept.text.len() as u64,
                revision: kept.revision,
            };
            all.map(entry).collect()
        }))
    }
}

impl Entries {
    fn set(&mut self, key: &str, mut text: String) -> Result<(), StateError> {
        text.shrink_to_fit();
        let bytes = self.entry_bytes + key.len() + text.len();
        self.revision += 1;
        let (revision, budget) = (self.revision, &self.budget);
        if let Some(kept) = self.kept.get_mut(key) {
            let more = bytes.saturating_sub(kept.charge.bytes());
            kept.charge.add(more).map_err(|error| full(budget, error))?;
            (kept.text, kept.revision) = (text, revision);
            kept.charge.shrink_to(bytes);
            return Ok(());
        }
        let charge = budget.charge(bytes).map_err(|error| full(budget, error))?;
        self.kept.insert(key.to_owned(), Kept { text, revision, charge });
        Ok(())
    }
}

fn full(own: &Budget, error: Exhausted) -> StateError {
    if error.limit != own.limit() {
        return StateError::AllFull { limit: error.limit as u64 };
    }
    let left = error.limit.saturating_sub(error.used);
    StateError::Full { limit: error.limit as u64, left: left as u64, needed: error.requested as u64 }
}

/// The maximum size of the states of all sessions together, in bytes.
pub(in super::super) const MAX_TOTAL_BYTES: usize = 128 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_the_earlier_text_stays() {
        let all = Budget::new(MAX_TOTAL_BYTES);
        let state = MemoryState::new(&all);
        let set = |key: &str, bytes: usize| state.set(StateArea::Values, key, "x".repeat(bytes));
        set("a", MAX_STATE_BYTES / 2).unwrap();
        set("a", MAX_STATE_BYTES / 2 + 1).unwrap();
        assert!(matches!(set("b", MAX_STATE_BYTES / 2), Err(StateError::Full { .. })));
        assert!(matches!(set("a", MAX_STATE_BYTES), Err(StateError::Full { .. })));
        let kept = state.get(StateArea::Values, "a").unwrap().unwrap();
        assert_eq!(kept.len(), MAX_STATE_BYTES / 2 + 1);
        assert_eq!(all.used(), kept.len() + 1 + ENTRY_BYTES);
        set("a", 3).unwrap();
        set("b", MAX_STATE_BYTES / 2).unwrap();
        assert_eq!(state.delete(StateArea::Values, "b"), Ok(true));
        assert_eq!(all.used(), 3 + 1 + ENTRY_BYTES);
        drop(state);
        assert_eq!(all.used(), 0);
    }

    #[test]
    fn texts_are_replaced_only_if_they_are_the_expected_ones() {
        let state = MemoryState::new(&Budget::new(MAX_TOTAL_BYTES));
        let replace =
            |expected: Option<&str>, text: &str| state.replace(StateArea::Values, "a", expected, text.to_owned());
        assert_eq!(replace(Some(""), "1"), Ok(false));
        assert_eq!(replace(None, "1"), Ok(true));
        assert_eq!(replace(None, "2"), Ok(false));
        assert_eq!(replace(Some("2"), "3"), Ok(false));
        assert_eq!(state.get(StateArea::Values, "a"), Ok(Some("1".to_owned())));
        assert!(matches!(replace(Some("1"), &"x".repeat(MAX_STATE_BYTES)), Err(StateError::Full { .. })));
        assert_eq!(replace(Some("1"), "2"), Ok(true));
        state.delete(StateArea::Values, "a").unwrap();
        assert_eq!(replace(Some("2"), "3"), Ok(false));
        assert_eq!(state.get(StateArea::Values, "a"), Ok(None));
    }

    #[test]
    fn sessions_share_a_limit_and_nothing_else() {
        let all = Budget::new(1_000);
        let [one, two] = [(); 2].map(|()| MemoryState::new(&all));
        one.set(StateArea::Values, "key", "x".repeat(700)).unwrap();
        let refused = two.set(StateArea::Values, "key", "y".repeat(100));
        assert_eq!(refused, Err(StateError::AllFull { limit: 1_000 }));
        assert_eq!(two.get(StateArea::Values, "key"), Ok(None));
        drop(one);
        two.set(StateArea::Values, "key", "y".repeat(100)).unwrap();
    }
}
