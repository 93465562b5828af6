//! Files of the user: the program that is run, files that others may change too, and files that nobody else can read.

pub(crate) mod ownership;
pub(crate) mod private_file;
pub(crate) mod rewrite;
pub(crate) mod source;
