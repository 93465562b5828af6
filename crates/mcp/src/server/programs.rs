//! Permits for programs: how many run at once, and which client is next.
//!
//! A client that starts many programs must not keep others waiting. Whenever a permit is free, it goes to the client that
//! has the fewest programs running, and over HTTP the last permits are only for clients that have none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::places::Places;
use crate::clients::Client;

/// The permits of a server, and how many of them it may use.
pub(super) struct ProgramPlaces {
    all: Programs,
    /// The part of the server; `None` if it may use all.
    part: Option<Programs>,
}

impl ProgramPlaces {
    pub(super) fn new(permits: usize) -> Self {
        Self { all: Programs::new(permits), part: None }
    }

    /// At most this number of the same permits.
    pub(super) fn part(&self, permits: usize) -> Self {
        Self { all: self.all.clone(), part: Some(Programs::new(permits)) }
    }

    /// Waits for a permit, as [`Programs::permit`].
    pub(super) async fn permit(&self, client: Client, is_shared: bool) -> Option<(Permit, Option<Permit>)> {
        let part = match &self.part {
            Some(part) => Some(part.permit(client, false).await?),
            None => None,
        };
        Some((self.all.permit(client, is_shared).await?, part))
    }
}

/// The permits of a server. Cheap to clone; clones share them.
#[derive(Clone)]
pub(super) struct Programs(Arc<Mutex<State>>);

struct State {
    running: Places,
    /// The waiters, in order, by client.
    waiting: BTreeMap<Client, VecDeque<Waiting>>,
    /// The number of waiters so far.
    waited: u64,
}

struct Waiting {
    number: u64,
    is_shared: bool,
    permit: oneshot::Sender<Permit>,
}

/// A permit for one program, until it is dropped.
pub(super) struct Permit {
    /// `None` if the permit was given back.
    programs: Option<Programs>,
    client: Client,
}

/// A waiter. Dropping it removes it from the queue.
struct Turn {
    programs: Programs,
    client: Client,
    number: u64,
    permitted: oneshot::Receiver<Permit>,
}

impl Programs {
    /// Creates this number of permits, but at least one.
    pub(super) fn new(permits: usize) -> Self {
        let (running, waiting) = (Places::new(permits, usize::MAX), BTreeMap::new());
        Self(Arc::new(Mutex::new(State { running, waiting, waited: 0 })))
    }

    /// Waits for a permit; `None` only after a panic of a task that gives permits. `is_shared` says whether other clients
    /// may need one, too.
    pub(super) async fn permit(&self, client: Client, is_shared: bool) -> Option<Permit> {
        let mut turn = self.queue(client, is_shared);
        self.fill();
        (&mut turn.permitted).await.ok()
    }

    fn queue(&self, client: Client, is_shared: bool) -> Turn {
        let (permit, permitted) = oneshot::channel();
        let mut state = self.lock();
        let number = state.waited;
        state.waited += 1;
        state.waiting.entry(client).or_default().push_back(Waiting { number, is_shared, permit });
        Turn { programs: self.clone(), client, number, permitted }
    }

    /// Gives free permits to waiters.
    fn fill(&self) {
        loop {
            let Some((client, waiting)) = self.lock().next() else { return };
            if let Err(mut permit) = waiting.permit.send(Permit { programs: Some(self.clone()), client }) {
                permit.programs = None; // The waiter was just dropped. The loop gives its permit away, without recursion.
                self.lock().running.release(client);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes the next waiter that may start, and a permit for it.
    fn next(&mut self) -> Option<(Client, Waiting)> {
        let may_start = |client: Client, first: &Waiting| self.running.check(client, first.is_shared).is_ok();
        let first = |waiting: &VecDeque<Waiting>| waiting.front().map(|first| first.number);
        let candidates = self.waiting.iter().filter(|(client, waiting)| may_start(**client, &waiting[0]));
        let (&client, _) =
            candidates.min_by_key(|(client, waiting)| (self.running.taken_by(**client), first(waiting)))?;
        let waiting = self.waiting.get_mut(&client)?;
        let next = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(&client);
        }
        self.running.take(client);
        Some((client, next))
    }

    /// Removes a waiter that was dropped, if it is still in the queue.
    fn forget(&mut self, client: Client, number: u64) {
        let Some(waiting) = self.waiting.get_mut(&client) else { return };
        if let Ok(at) = waiting.binary_search_by_key(&number, |waiting| waiting.number) {
            waiting.remove(at);
        }
        if waiting.is_empty() {
            self.waiting.remove(&client);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(programs) = self.programs.take() {
            programs.lock().running.release(self.client);
            programs.fill();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.programs.lock().forget(self.client, self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;

    use super::*;

    /// A future that has begun to wait.
    fn waiting(programs: &Programs, client: Client, is_shared: bool) -> BoxFuture<'static, Option<Permit>> {
        let programs = programs.clone();
        let mut permit = async move { programs.permit(client, is_shared).await }.boxed();
        assert!(permit.as_mut().now_or_never().is_none(), "there is no permit");
        permit
    }

    fn permitted(programs: &Programs, client: Client, is_shared: bool) -> Option<Permit> {
        programs.permit(client, is_shared).now_or_never().flatten()
    }

    #[test]
    fn the_client_with_the_fewest_programs_is_next() {
        let (programs, [greedy, modest]) = (Programs::new(3), [Client::new(), Client::new()]);
        let mut running: Vec<_> = (0..3).map(|_| permitted(&programs, greedy, false).unwrap()).collect();
        let mut more = waiting(&programs, greedy, false);
        let mut others = [waiting(&programs, modest, false), waiting(&programs, modest, false)];
        drop(running.pop());
        let first = others[0].as_mut().now_or_never().expect("it has no program, the other one two");
        assert!(others[1].as_mut().now_or_never().is_none());
        drop(running.pop());
        let turn = more.as_mut().now_or_never().expect("each has one program; the first in the queue is next");
        drop((first, turn));
        assert!(others[1].as_mut().now_or_never().is_some());
    }

    #[test]
    fn the_last_permits_are_for_clients_without_a_program() {
        let (programs, [greedy, modest]) = (Programs::new(8), [Client::new(), Client::new()]);
        let all: Vec<_> = (0..7).map(|_| permitted(&programs, greedy, true).unwrap()).collect();
        let mut more = waiting(&programs, greedy, true);
        let other = permitted(&programs, modest, true).unwrap();
        drop(other);
        assert!(more.as_mut().now_or_never().is_none());
        let only = Programs::new(8);
        let all_permits: Vec<_> = (0..8).map_while(|_| permitted(&only, greedy, false)).collect();
        assert_eq!(all_permits.len(), 8, "there is no other client");
        drop(all);
        assert!(more.now_or_never().is_some());
    }

    #[test]
    fn what_stops_waiting_leaves_nothing_behind() {
        let (programs, client) = (Programs::new(1), Client::new());
        let running = permitted(&programs, client, false).unwrap();
        let mut turns: Vec<_> = (0..1_000).map(|_| waiting(&programs, client, false)).collect();
        let last = turns.pop().unwrap();
        let granted = turns.pop().unwrap();
        drop(turns);
        assert_eq!(programs.lock().waiting[&client].len(), 2);
        drop(running);
        drop(granted); // The waiter has a permit that it never took.
        drop(last.now_or_never().unwrap());
        let state = programs.lock();
        assert!(state.running.are_unused() && state.waiting.is_empty());
    }
}
