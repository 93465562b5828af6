//! `--engine`: what is refused, and why.

mod support;

use support::transcript::{Typed, directory, transcript};

#[test]
fn engines_of_runners() {
    let commands = [Typed::new(&["runner", "--engine", "spidermonkey"]), Typed::new(&["runner", "--warm", "2"])];
    insta::assert_snapshot!(transcript(&directory("engines"), &commands));
}

#[test]
#[cfg(not(feature = "v8"))]
fn an_engine_that_is_not_built_in_names_its_feature() {
    let commands = [
        Typed::new(&["runner", "--engine", "v8"]),
        Typed::new(&["runner", "--engine", "v8", "--listen", "tcp:127.0.0.1:0"]),
        Typed::new(&["runner", "--engine", "v8", "--self-test"]),
        Typed::new(&["run", "--engine", "v8", "-e", "1"]),
        Typed::new(&["run", "--engine", "auto", "-e", "1"]),
        Typed::new(&["mcp", "--engine", "v8"]),
    ];
    insta::assert_snapshot!(transcript(&directory("engine"), &commands));
}

/// Returns the engine's own message.
#[cfg(feature = "v8")]
const QUICK: &str = "console.log('once'); try { null.a } catch (error) { error.message }";

#[cfg(feature = "v8")]
const COMPUTES: &str = "console.log('once'); const s = Date.now(); while (Date.now() - s < 300); try { null.a } catch (error) { error.message }";

#[test]
#[cfg(feature = "v8")]
fn v8_runs_in_child_processes() {
    let commands = [
        Typed::new(&["run", "--engine", "v8", "--jail", "required", "-e", "console.log('up'); 6 * 7"]),
        Typed::new(&["run", "--engine", "v8", "--json", "-e", "const all = []; for (;;) all.push({ all })"]),
        Typed::new(&["run-code", "--engine", "v8", "-e", "export default new Map([[1, { two: 3n }]])"]),
        // The lines of the first attempt are not shown. The engine shows in the message.
        Typed::new(&["run", "--engine", "auto", "-e", QUICK]),
        Typed::new(&["run", "--engine", "auto", "--auto-cpu", "50ms", "-e", COMPUTES]),
        Typed::new(&["run", "--engine", "auto", "--executor", "process", "--auto-cpu", "50ms", "-e", COMPUTES]),
    ];
    insta::assert_snapshot!(transcript(&directory("v8"), &commands));
}

#[test]
#[cfg(feature = "v8")]
fn an_engine_that_can_end_its_process_does_not_listen() {
    let commands = [Typed::new(&["runner", "--engine", "v8", "--listen", "tcp:127.0.0.1:0"])];
    insta::assert_snapshot!(transcript(&directory("engine"), &commands));
}

#[test]
fn engines_of_executors() {
    let mut commands = vec![
        Typed::new(&["run", "-e", "1 + 1", "--engine", "quickjs"]),
        Typed::new(&["run-code", "-e", "export default 1 + 1", "--engine", "quickjs", "--executor", "process"]),
    ];
    for executor in ["remote=unix:missing.sock", "inline", "worker"] {
        commands.push(Typed::new(&["run", "-e", "1", "--engine", "v8", "--executor", executor]));
    }
    commands.push(Typed::new(&["run", "-e", "1", "--engine", "quickjs", "--executor", "remote=unix:missing.sock"]));
    commands.push(Typed::new(&["run", "-e", "1", "--engine", "auto", "--executor", "remote=unix:missing.sock"]));
    commands.push(Typed::new(&["run", "-e", "1", "--engine", "spidermonkey"]));
    commands.push(Typed::new(&["run", "-e", "1", "--auto-cpu", "1s"]));
    commands.push(Typed::new(&["mcp", "--engine", "v8", "--executor", "worker", "--server", "a=b"]));
    insta::assert_snapshot!(transcript(&directory("executors"), &commands));
}
