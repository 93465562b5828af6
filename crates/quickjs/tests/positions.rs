//! Positions of errors: the cases in `positions/errors.cases`, with the positions in node.

mod harness;

use execbox_core::engine::{Engine, Outcome, Turn};
use execbox_core::language::Position;
use execbox_core::program::{Limits, Program, Source};
use execbox_testkit::cases::{Case, CaseFile};
use harness::{engine, turn};

/// `=== name`, `node: line:column` (or `none`), `ours: line:column` where that differs, `---`, and the code: the body
/// of an async function. `\u2028` stands for that character.
#[test]
fn errors_have_the_position_that_threw() {
    let cases = CaseFile::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/positions/errors.cases")).cases;
    let mut same = 0;
    let wrong: Vec<String> = cases.iter().filter_map(|case| check(case, &mut same).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(same >= 154, "only {same} are where node places them");
}

fn check(case: &Case, same: &mut usize) -> Result<(), String> {
    let name = &case.title;
    let fields = case.fields();
    let field = |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, text)| place(text));
    let node = field("node").ok_or(format!("{name}: no line `node:`"))?;
    let ours = field("ours").unwrap_or(node);
    if node.is_some_and(|node| ours.map(|ours| ours.line) != Some(node.line)) {
        return Err(format!("{name}: another line than node's"));
    }
    *same += usize::from(node == ours);
    let found = thrown_at(&case.body().replace("\\u2028", "\u{2028}"));
    if found == ours { Ok(()) } else { Err(format!("{name}: {found:?} and not {ours:?}")) }
}

fn place(text: &str) -> Option<Position> {
    let (line, column) = text.split_once(':')?;
    Some(Position { line: line.parse().ok()?, column: column.parse().ok()? })
}

fn thrown_at(code: &str) -> Option<Position> {
    let source = Source::Script { name: "<script>".into(), code: code.into() };
    let mut guest = engine().start(Program::new(source, Vec::new(), Limits::default())).unwrap();
    match turn(&mut *guest) {
        Turn::Done(Outcome::Threw(thrown)) => thrown.frames.first().map(|frame| frame.position),
        _ => None,
    }
}
