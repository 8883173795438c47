//! How many cases a test draws.

/// This many, and `EXOS_SEEDS` times as many where that is set, as it is in long runs.
///
/// # Panics
///
/// Where it is set and is no number.
pub fn cases(usual: u64) -> u64 {
    let times = std::env::var("EXOS_SEEDS").ok();
    usual * times.map_or(1, |n| n.parse().expect("EXOS_SEEDS is a number"))
}
