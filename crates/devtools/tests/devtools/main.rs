//! The tools as those who change Execbox use them.

mod growth;
mod soak;
