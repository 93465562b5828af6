//! Bounds on the input and the work of linking.

/// The most modules in one graph, not counting the entry.
pub const MAX_MODULES: usize = 10_000;

/// The most bytes of the sources of one graph together.
pub const MAX_SOURCES_BYTES: usize = 64 * 1024 * 1024;

/// The most lookups of a name in a module. An import usually takes one; a name behind `export *` takes one for each
/// module that is re-exported.
pub const MAX_STEPS: usize = 4_000_000;

/// The longest filename or specifier that names a module, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 1024;
