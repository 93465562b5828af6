//! The runner protocol: both halves connected under a simulated clock, each half against a hostile peer, and each half under
//! random sequences of events.

mod hostile;
mod joined;
mod limits;
mod pair;
mod runs;
mod sequences;
