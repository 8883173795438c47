//! Medians over runs, ratios of runs, and who was the limit.

/// The middle value, or the mean of the two middle ones.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "there is at least one run");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    }
}

/// What this part of some values, 0 to 1, is at most; 0 of none.
pub(crate) fn percentile(values: &mut [f64], part: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() as f64 * part) as usize;
    let last = values.len().saturating_sub(1);
    values.get(at.min(last)).copied().unwrap_or(0.0)
}

/// Ours by theirs, of each run by itself: what disturbs the machine for a while disturbs both.
pub(crate) fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    let pairs = ours.iter().zip(theirs);
    pairs
        .map(|(ours, theirs)| ours / theirs.max(f64::MIN_POSITIVE))
        .collect()
}

/// The median of something of all runs.
pub(crate) fn median_of<R>(runs: &[R], value: impl Fn(&R) -> f64) -> f64 {
    median(runs.iter().map(value).collect())
}

/// A core that was busy for this part of the time is taken to be what limits.
const BUSY: f64 = 0.95;

/// A client without time left is named first: a server of ours looks for packets even while it waits for the client.
pub(crate) fn limited_by(server_busy: f64, client_busy: f64) -> &'static str {
    match (server_busy >= BUSY, client_busy >= BUSY) {
        (_, true) => "client",
        (true, false) => "server",
        (false, false) => "neither",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![7.0]), 7.0);
    }

    #[test]
    fn parts_of_some_values() {
        let mut values: Vec<f64> = (0..100).rev().map(f64::from).collect();
        let parts = [0.5, 0.99, 1.0].map(|part| percentile(&mut values, part));
        assert_eq!(parts, [50.0, 99.0, 99.0]);
        assert_eq!(percentile(&mut [], 0.5), 0.0);
    }

    #[test]
    fn ratios_of_runs() {
        assert_eq!(ratios(&[2.0, 9.0], &[4.0, 3.0]), [0.5, 3.0]);
    }
}
