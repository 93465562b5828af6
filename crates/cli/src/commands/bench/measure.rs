//! The measurement of rows.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use execbox::Executor;
use execbox_measure::budget::Budget;
use execbox_measure::programs::{check_number, milliseconds};
use execbox_measure::samples::Samples;
use futures_util::future::FutureExt as _;
use serde_json::Value as Json;
use tokio::task::JoinSet;

use super::memory::Held;
use super::programs::{self, Prepared, Program, Tools};
use super::rows::{AFTER_PAUSE, Measure, Row};
use super::subject::Subject;
use crate::error::CommandError;

/// The number of samples of a row, and the time for them, without `--quick`.
pub(super) const FULL: Budget = Budget { time: Duration::from_secs(1), least: 10, most: 10_000 };
pub(super) const QUICK: Budget = Budget { time: Duration::from_millis(50), least: 5, most: 1_000 };

/// An executor under measurement.
pub(super) struct Bench {
    subject: Subject,
    executor: Arc<dyn Executor>,
    tools: Arc<Tools>,
    budget: Budget,
}

/// The timeout of the endless loop that is stopped.
const STOPPED_AFTER: Duration = Duration::from_millis(20);

/// How long each sample of the throughput takes.
const THROUGHPUT_WINDOW: Duration = Duration::from_millis(20);

impl Bench {
    pub(super) fn start(subject: Subject, budget: Budget) -> Result<Self, CommandError> {
        Ok(Self { subject, executor: subject.start(None)?, tools: Arc::new(Tools::new()), budget })
    }

    pub(super) async fn end(self) {
        self.executor.close().await;
    }

    /// Measures a row, in its unit. Fails with the reason.
    pub(super) async fn measure(&self, row: &Row) -> Result<Samples, String> {
        match row.measure {
            Measure::Memory(held) => self.memory(held).await,
            Measure::Program(program) => self.program(program).await,
            Measure::ProgramAfterPause(program) => self.program_after_pause(program).await,
            Measure::FurtherCall => self.further_call().await,
            Measure::Throughput(lanes) => self.budget.sample(|| self.throughput(lanes).boxed()).await,
            Measure::Stop => self.stop().await,
            Measure::ColdStart => self.budget.sample(|| self.cold_start().boxed()).await,
        }
    }

    async fn memory(&self, held: Held) -> Result<Samples, String> {
        let count = Held::count(self.subject.executor);
        #[allow(clippy::cast_precision_loss)] // a small number
        let each = |bytes: f64| bytes / count as f64;
        Ok(self.budget.sample(|| held.measure(self.subject, count).boxed()).await?.map(each))
    }

    async fn program(&self, program: &Program) -> Result<Samples, String> {
        self.repeat(&Prepared::new(program, &self.tools)).await
    }

    async fn repeat(&self, prepared: &Prepared) -> Result<Samples, String> {
        let once = || prepared.execute(&*self.executor, &self.tools).map(|time| time.map(milliseconds));
        self.budget.sample(|| once().boxed()).await
    }

    async fn program_after_pause(&self, program: &Program) -> Result<Samples, String> {
        let prepared = Prepared::new(program, &self.tools);
        let once = async || {
            tokio::time::sleep(AFTER_PAUSE).await;
            prepared.execute(&*self.executor, &self.tools).await.map(milliseconds)
        };
        self.budget.sample(|| once().boxed()).await
    }

    async fn further_call(&self) -> Result<Samples, String> {
        let first = self.program(&programs::FIRST_CALL).await?.median();
        let all = self.program(&programs::CALLS_IN_SEQUENCE).await?;
        Ok(all.map(|time| ((time - first) / f64::from(programs::CALLS - 1)).max(0.0)))
    }

    async fn stop(&self) -> Result<Samples, String> {
        let endless = Prepared::new(&programs::ENDLESS_LOOP, &self.tools).timeout(STOPPED_AFTER);
        let before = Prepared::new(&programs::ONE_PLUS_ONE, &self.tools);
        let once = async || {
            // The pool replaces the runner of a program that is stopped, which takes longer than the stop. This program waits
            // for that.
            before.execute(&*self.executor, &self.tools).await?;
            endless.execute(&*self.executor, &self.tools).await.map(milliseconds)
        };
        let times = self.budget.sample(|| once().boxed()).await?;
        Ok(times.map(|time| (time - milliseconds(STOPPED_AFTER)).max(0.0)))
    }

    /// Programs per second, executed by `lanes` tasks.
    async fn throughput(&self, lanes: usize) -> Result<f64, String> {
        let prepared = Arc::new(Prepared::new(&programs::ONE_PLUS_ONE, &self.tools));
        let (started, mut tasks) = (Instant::now(), JoinSet::new());
        for _ in 0..lanes {
            let (executor, tools, prepared) =
                (Arc::clone(&self.executor), Arc::clone(&self.tools), Arc::clone(&prepared));
            tasks.spawn(async move {
                let mut count = 0_u32;
                while started.elapsed() < THROUGHPUT_WINDOW {
                    prepared.execute(&*executor, &tools).await?;
                    count += 1;
                    // A program that is executed inline may never wait for anything.
                    tokio::task::yield_now().await;
                }
                Ok::<_, String>(count)
            });
        }
        let mut count = 0;
        while let Some(lane) = tasks.join_next().await {
            count += lane.map_err(|error| error.to_string())??;
        }
        Ok(f64::from(count) / started.elapsed().as_secs_f64())
    }

    async fn cold_start(&self) -> Result<f64, String> {
        let binary = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = tokio::process::Command::new(binary);
        command.args(["run", "--json", "-e", "1+1", "--executor", &self.subject.executor.to_string()]);
        command.args(["--engine", &self.subject.engine.to_string()]).stdin(Stdio::null()).kill_on_drop(true);
        let started = Instant::now();
        let output = command.output().await.map_err(|error| error.to_string())?;
        let elapsed = started.elapsed();
        let result: Json = serde_json::from_slice(&output.stdout).map_err(|_| "no result was printed".to_owned())?;
        check_number(result.get("result"), 2.0).map(|()| milliseconds(elapsed))
    }
}
