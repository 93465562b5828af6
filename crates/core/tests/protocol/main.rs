//! The runner protocol: both halves joined under a pretend clock, each half against a hostile peer, and
//! each under random sequences of whatever can happen to it.

mod hostile;
mod joined;
mod pair;
mod runs;
mod sequences;
