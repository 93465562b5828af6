//! This process: signals, the end of its input, its open files, and its secrets.

pub(crate) mod descriptors;
pub(crate) mod interrupt;
pub(crate) mod secrecy;
pub(crate) mod stdin;
