//! How often something is measured.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use crate::samples::Samples;

/// How long something is measured: until the time is over, but not less than `least` and not more than `most` times.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// The time for all samples.
    pub time: Duration,
    /// The least number of samples.
    pub least: usize,
    /// The greatest number of samples.
    pub most: usize,
}

impl Budget {
    /// Samples what `once` measures. Before that, `once` is called for a tenth of the time, and at least one time. Fails with
    /// the reason of the first failure.
    pub async fn sample<'a>(
        self,
        mut once: impl FnMut() -> BoxFuture<'a, Result<f64, String>> + Send,
    ) -> Result<Samples, String> {
        let warm_up = Instant::now();
        while {
            once().await?;
            warm_up.elapsed() < self.time / 10
        } {}
        let (started, mut samples) = (Instant::now(), Vec::new());
        while samples.len() < self.least || (started.elapsed() < self.time && samples.len() < self.most) {
            samples.push(once().await?);
        }
        Samples::new(samples).ok_or_else(|| "no samples".to_owned())
    }
}
