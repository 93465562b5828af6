//! The interface of front ends, for [`Runner::with_engine`](crate::Runner::with_engine): how the source of a script or module
//! becomes JavaScript.
//!
//! The enums here are exhaustive, as those of [`engine`](crate::engine).

pub use execbox_core::language::{
    Code, CompileError, CompileLimits, Export, Import, Imported, Language, Module, ModuleSource, Request, Shift,
    SyntaxError,
};
