//! From the finished syntax tree to text, and the function around it if it is a script's.
//!
//! The statements are printed from the tree; only the wrapper's two lines are text. The printer
//! closes every bracket it opens and prints no comments, so nothing from the source can reach past
//! the statements' end.

use std::path::PathBuf;

use execbox_core::language::Position;
use oxc_ast::ast::Program;
use oxc_codegen::{Codegen, CodegenOptions, CommentOptions};

use crate::positions::{Mapping, SourceMap};

/// Whether the way back is wanted. It costs about as much as printing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Map {
    Omit,
    Keep,
}

/// Compiled text, and the way back from it if it was wanted (else empty).
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) code: String,
    pub(crate) map: SourceMap,
}

/// Prints `program` as the body of an async arrow function.
pub(crate) fn script(program: &Program<'_>, map: Map) -> Printed {
    let mut printed = print("(async () => {\n", program, map);
    printed.code.push_str("})");
    printed
}

/// Prints `program` as it is.
pub(crate) fn module(program: &Program<'_>, map: Map) -> Printed {
    print("", program, map)
}

fn print(before: &str, program: &Program<'_>, map: Map) -> Printed {
    let mut codegen = Codegen::new().with_options(CodegenOptions {
        comments: CommentOptions::disabled(),
        // Indented, deeply nested source would become hundreds of times its size. The printer maps
        // the starts of statements only at a depth of one and more.
        indent_width: 0,
        initial_indent: 1,
        // Only its presence matters: it turns the mappings on. The name goes nowhere.
        source_map_path: (map == Map::Keep).then(PathBuf::new),
        ..CodegenOptions::default()
    });
    codegen.print_str(before);
    let printed = codegen.build(program);
    let mut mappings = Vec::new();
    if let Some(map) = printed.map {
        mappings.extend(map.get_tokens().map(|token| Mapping {
            compiled: from_zero(token.get_dst_line(), token.get_dst_col()),
            original: from_zero(token.get_src_line(), token.get_src_col()),
        }));
    }
    Printed { code: printed.code, map: SourceMap::new(mappings) }
}

/// A position from numbers that count from zero.
fn from_zero(line: u32, column: u32) -> Position {
    Position { line: line.saturating_add(1), column: column.saturating_add(1) }
}
