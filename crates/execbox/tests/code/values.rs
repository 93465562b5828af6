//! Random values (§3.5) are unchanged after a round trip through the guest, by every path into and out of it.

use std::sync::{Arc, Mutex};

use execbox::Executor;
use execbox::code::{Args, CodeExecutionOptions, Graph, HostValue, Status};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::Test;
use crate::executors::RUNTIME;
use execbox_testkit::graphs::any_graph;

pub(crate) const TESTS: &[(&str, Test)] =
    &[("3.5-values: any value is unchanged after a round trip by every path", any_value)];

/// Returns each value of the host in the result and in a call of a host function.
const SOURCE: &str = "
    import { imported, take, give, giveLater, promised } from 'host';
    export default async function (arg) {
        const all = [arg, global, imported, give(), await giveLater(), await promised];
        for (const one of all) take(one);
        report(all[0]);
        return all;
    }";

/// The number of paths into the guest.
const PATHS: usize = 6;

fn any_value(executor: &Arc<dyn Executor>) {
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&any_graph(), |graph| {
            let taken = Arc::new(Mutex::new(Vec::new()));
            let options = options(&graph, &taken);
            let result = RUNTIME.block_on(async { executor.run_code(SOURCE, options).await });
            prop_assert_eq!(result.status, Status::Success, "{:?}", result.error);
            prop_assert_eq!(&*result.result.unwrap(), &array(vec![graph.clone(); PATHS]));
            prop_assert_eq!(&*taken.lock().unwrap(), &vec![array(vec![graph.clone()]); PATHS]);
            prop_assert_eq!(&*result.reports[0], &graph);
            Ok(())
        })
        .unwrap();
}

/// Passes `graph` by every path, and records the arguments of `take` in `taken`.
fn options(graph: &Graph, taken: &Arc<Mutex<Vec<Graph>>>) -> CodeExecutionOptions {
    let value = || HostValue::from(graph.clone());
    let (now, later, promised, taken) = (graph.clone(), graph.clone(), value(), Arc::clone(taken));
    let take = HostValue::function("take", move |args: Args| {
        taken.lock().unwrap().push(args.graph().clone());
        Ok(HostValue::undefined())
    });
    let give = HostValue::function("give", move |_| Ok(HostValue::from(now.clone())));
    let give_later = HostValue::async_function("giveLater", move |_| {
        let graph = later.clone();
        async move { Ok(HostValue::from(graph)) }
    });
    let exports = [
        ("imported", value()),
        ("take", take),
        ("give", give),
        ("giveLater", give_later),
        ("promised", HostValue::promise(async move { Ok(promised) })),
    ];
    CodeExecutionOptions::new().args([value()]).global("global", value()).import("host", exports).on_report(|_| ())
}

/// The values as one array. They share nothing.
fn array(graphs: Vec<Graph>) -> Graph {
    let mut all = Graph::default();
    let items: Vec<_> = graphs.into_iter().map(|graph| all.append(graph)).collect();
    let root = all.array(items);
    all.set_root(root);
    all
}
