//! Samples of one quantity: quantiles and noise.

/// Samples in the order in which they were measured. There is at least one.
pub struct Samples(Vec<f64>);

/// How many blocks of consecutive samples [`Samples::noise`] compares.
const BLOCKS: usize = 5;

impl Samples {
    /// Returns `None` without samples.
    pub fn new(samples: Vec<f64>) -> Option<Self> {
        (!samples.is_empty()).then_some(Self(samples))
    }

    /// The number of samples.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest sample.
    pub fn least(&self) -> f64 {
        self.quantile(0.0)
    }

    /// The sample in the middle.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The sample whose rank is nearest to `quantile`, from 0 to 1.
    pub fn quantile(&self, quantile: f64) -> f64 {
        quantile_of(&self.0, quantile)
    }

    /// How much the medians of five blocks of consecutive samples differ, relative to the median of all: 0.1 if the largest is
    /// 10 % of the median above the smallest. 0 for a single sample.
    pub fn noise(&self) -> f64 {
        let length = self.0.len().div_ceil(BLOCKS);
        let medians: Vec<f64> = self.0.chunks(length).map(|block| quantile_of(block, 0.5)).collect();
        let spread = quantile_of(&medians, 1.0) - quantile_of(&medians, 0.0);
        let median = self.median();
        if median > 0.0 { spread / median } else { 0.0 }
    }

    /// The samples with `change` applied to each.
    #[must_use]
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self(self.0.into_iter().map(change).collect())
    }
}

fn quantile_of(samples: &[f64], quantile: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    // an index of a short list
    let index = ((sorted.len() - 1) as f64 * quantile).round() as usize;
    sorted[index]
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // of numbers that are not computed, or 0
mod tests {
    use super::*;

    fn samples(samples: &[f64]) -> Samples {
        Samples::new(samples.to_vec()).unwrap()
    }

    #[test]
    fn quantiles_are_samples() {
        let samples = samples(&[5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!([0.0, 0.5, 0.95, 1.0].map(|quantile| samples.quantile(quantile)), [1.0, 3.0, 5.0, 5.0]);
        assert_eq!((samples.count(), samples.least(), samples.median()), (5, 1.0, 3.0));
        assert!(Samples::new(Vec::new()).is_none());
    }

    #[test]
    fn noise_is_the_spread_of_block_medians() {
        assert_eq!(samples(&[7.0]).noise(), 0.0);
        assert_eq!(samples(&[2.0; 50]).noise(), 0.0);
        // One slow sample does not change the median of its block.
        assert_eq!(samples(&[1.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]).noise(), 0.0);
        // A drift changes the medians.
        let drift: Vec<f64> = (0..50).map(|at| 100.0 + f64::from(at)).collect();
        assert!((0.2..0.5).contains(&samples(&drift).noise()));
    }
}
