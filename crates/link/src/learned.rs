//! A cost that is learned while it is paid.

/// The weight of one sample in the mean.
const WEIGHT: f32 = 1.0 / 8.0;

/// A sample counts for this many times the mean at most: what took longer was interrupted.
const OUTLIER: f32 = 4.0;

/// The mean of a cost, in whatever unit the samples have; the last some dozen samples count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Learned(f32);

impl Learned {
    /// The cost; `None` before the first sample.
    pub fn get(self) -> Option<f32> {
        (self.0 > 0.0).then_some(self.0)
    }

    /// One more sample, above 0.
    pub fn learn(&mut self, cost: f32) {
        // One that is much cheaper than the mean says that the mean was of cold caches, or interrupted.
        self.0 = if self.0 == 0.0 || cost < self.0 / 2.0 {
            cost
        } else {
            self.0 + (cost.min(OUTLIER * self.0) - self.0) * WEIGHT
        };
    }
}
