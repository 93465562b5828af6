//! Generated TypeScript.

use std::fmt::Write as _;

/// A script of some 15 lines for each of `groups`. Its result is twice the number of groups.
pub fn script(groups: usize) -> String {
    format!("{}{}", declarations(groups), sum(groups))
}

/// Types, an enum, a class with parameter properties, and a function for each of `groups`, as models write them.
pub fn declarations(groups: usize) -> String {
    let mut source = String::new();
    for number in 0..groups {
        let _ = write!(
            source,
            "enum Level{number} {{ Low = 1, High }}
interface Row{number} {{
  id: string;
  tags?: Array<{{ name: string; weight: number }}>;
}}
class Store{number}<T extends Row{number}> {{
  constructor(private readonly rows: T[], public level: Level{number} = Level{number}.Low) {{}}
  total(): number {{
    return this.rows.reduce((sum, row) => sum + (row.tags ?? []).length, this.level as number);
  }}
}}
function scan{number}(count: number): number {{
  const rows: Row{number}[] = Array.from({{ length: count }}, (_, id) => ({{ id: `${{id}}`, tags: [] }}));
  return new Store{number}<Row{number}>(rows, Level{number}.High).total();
}}
"
        );
    }
    source
}

/// An expression with the value of [`script`], which calls the function of each group.
pub fn sum(groups: usize) -> String {
    let calls: Vec<String> = (0..groups).map(|number| format!("scan{number}(3)")).collect();
    // One line for each: a deeply nested expression would cost more than its length.
    format!("[\n{}\n].reduce((sum, each) => sum + each)", calls.join(",\n"))
}
