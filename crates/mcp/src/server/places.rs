//! Places that clients share: how many are taken, and which client may take a further one.

use std::collections::HashMap;

use crate::clients::Client;

/// A limited number of places.
#[derive(Debug)]
pub(super) struct Places {
    free: usize,
    /// How many of the places are only for clients that have none.
    reserve: usize,
    /// How many places one client may have.
    share: usize,
    /// The clients that have places, and how many.
    taken: HashMap<Client, usize>,
}

impl Places {
    /// Creates this number of places, but at least one. One client may have `share` of them.
    pub(super) fn new(count: usize, share: usize) -> Self {
        let free = count.max(1);
        Self { free, reserve: free / RESERVED_PART, share: share.max(1), taken: HashMap::new() }
    }

    pub(super) fn share(&self) -> usize {
        self.share
    }

    /// The number of places that the client has.
    pub(super) fn taken_by(&self, client: Client) -> usize {
        self.taken.get(&client).copied().unwrap_or_default()
    }

    /// Checks whether the client may take a place. `is_shared` says whether other clients may need one, too: then the last
    /// places are for those that have none.
    pub(super) fn check(&self, client: Client, is_shared: bool) -> Result<(), NoPlace> {
        let taken = self.taken_by(client);
        let reserve = if is_shared && taken > 0 { self.reserve } else { 0 };
        match () {
            () if taken >= self.share => Err(NoPlace::Share),
            () if self.free <= reserve => Err(NoPlace::Full),
            () => Ok(()),
        }
    }

    /// Takes a place that [`check`](Self::check) has found.
    pub(super) fn take(&mut self, client: Client) {
        self.free -= 1;
        *self.taken.entry(client).or_default() += 1;
    }

    pub(super) fn release(&mut self, client: Client) {
        self.free += 1;
        if let Some(taken) = self.taken.get_mut(&client) {
            *taken -= 1;
            if *taken == 0 {
                self.taken.remove(&client);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn are_unused(&self) -> bool {
        self.taken.is_empty()
    }
}

/// Why a client gets no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The client has as many as one client may have.
    Share,
    /// All are taken that the client may have.
    Full,
}

/// One in this many places is only for clients that have none.
const RESERVED_PART: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_its_share_and_the_last_places_are_for_clients_without_one() {
        let (mut places, [busy, other, third, fourth, last]) = (Places::new(16, 8), [(); 5].map(|()| Client::new()));
        let mut take = |client| places.check(client, true).map(|()| places.take(client));
        assert!([busy; 8].into_iter().chain([other; 6]).all(|client| take(client).is_ok()));
        assert_eq!(take(busy), Err(NoPlace::Share));
        assert_eq!(take(other), Err(NoPlace::Full), "two places are left, for others");
        assert!(take(third).is_ok() && take(fourth).is_ok());
        assert_eq!(take(last), Err(NoPlace::Full));
        places.release(busy);
        assert_eq!(places.check(busy, true), Err(NoPlace::Full));
        assert_eq!(places.check(busy, false), Ok(()), "no other client needs it");
        assert_eq!(places.check(last, true), Ok(()));
    }

    #[test]
    fn clients_without_places_are_forgotten() {
        let (mut places, client) = (Places::new(2, 2), Client::new());
        places.take(client);
        places.take(client);
        places.release(client);
        assert_eq!(places.taken_by(client), 1);
        places.release(client);
        assert!(places.are_unused());
    }
}
