//! How long scripts and modules take to compile, and graphs to link: medians of many runs, printed.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::time::Instant;

use execbox_core::language::{CompileLimits, Dialect, Language, ModuleSource};
use execbox_core::link::{Sources, link};
use execbox_typescript::TypeScript;

const FIVE_LINES: &str = "\
const { hits } = await search.find({ query: 'rust sandbox', limit: 10 });
const names = hits.filter((hit) => hit.score > 0.5).map((hit) => hit.name);
const pages = await Promise.all(names.map((name) => wiki.page({ name })));
console.log(`found ${pages.length} pages`);
pages.map(({ title, url }) => ({ title, url }))
";

const TEN_LINES_OF_TYPESCRIPT: &str = "\
interface HitN { id: string; score: number; tags?: string[] }
enum KindN { Page, File = 4, Other }
async function findN<T extends HitN>(query: string, limit: number = 10): Promise<T[]> {
  const hits: T[] = await search.find({ query, limit });
  const best = hits.filter((hit): hit is T => hit.score > 0.5 && hit.tags !== undefined);
  if (best.length === 0) {
    throw new Error(`nothing found for ${query}`);
  }
  return best.map(({ id, ...rest }) => ({ id: id as string, kind: KindN.Page, ...rest }) as unknown as T);
}
";

fn main() {
    let long: String = (0..30).map(|n| TEN_LINES_OF_TYPESCRIPT.replace('N', &n.to_string())).collect();
    let long = long + "await find0('x')\n";
    report("1+1", 20_000, || TypeScript.script("1+1", &CompileLimits::default()));
    report("5 lines of JavaScript", 10_000, || TypeScript.script(FIVE_LINES, &CompileLimits::default()));
    report("10 lines of TypeScript", 5_000, || TypeScript.script(TEN_LINES_OF_TYPESCRIPT, &CompileLimits::default()));
    report("300 lines of TypeScript", 500, || TypeScript.script(&long, &CompileLimits::default()));

    let globals = BTreeSet::from(["console", "search", "report"].map(str::to_owned));
    let module = |text| ModuleSource { text, dialect: Dialect::TypeScript, globals: &globals };
    report("a module of 5 lines", 10_000, || TypeScript.module(module(FIVE_LINES), &CompileLimits::default()));
    let exported = long.replace("\nasync function", "\nexport async function");
    report("a module of 300 lines", 500, || TypeScript.module(module(&exported), &CompileLimits::default()));

    let chain = graph(100, 10);
    report("100 modules, 1 000 imports", 100, || {
        link(&chain, &TypeScript, &CompileLimits::default()).expect("it links")
    });
    let chain = graph(10_000, 10);
    report("10 000 modules, 100 000 imports", 3, || {
        link(&chain, &TypeScript, &CompileLimits::default()).expect("it links")
    });
}

/// Modules, each of which imports as many names from others.
fn graph(modules: usize, names: usize) -> Sources {
    let module = |at: usize| {
        let imports =
            (0..names).map(|n| format!("import {{ x{n} as y{n} }} from './m{}.ts';\n", (at * 7 + n + 1) % modules));
        let exports = (0..names).map(|n| format!("export const x{n}: number = {n};\n"));
        (format!("./m{at}.ts"), imports.chain(exports).collect::<String>())
    };
    let modules: BTreeMap<_, _> = (0..modules).map(module).collect();
    Sources { entry: "export * from './m0.ts';".to_owned(), modules, ..Sources::default() }
}

/// Prints the median time of `run`.
fn report<T>(name: &str, times: usize, mut run: impl FnMut() -> T) {
    let mut taken: Vec<_> = (0..times)
        .map(|_| {
            let started = Instant::now();
            black_box(run());
            started.elapsed()
        })
        .collect();
    taken.sort();
    println!("{name:32} {:>10.1?}", taken[times / 2]);
}
