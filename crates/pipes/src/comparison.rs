//! What copies cost (*ASHs*, Table 4), and what it saves to take the Internet checksum of a message and to turn its words of 32 bits round
//! while it is copied (Table 5): in passes of their own, in one loop that is compiled here, and in one that is written by hand. Passes
//! and what is written by hand are made by the compiler for the widest vectors of this machine, AVX2's or AVX-512's, whichever is faster.
//!
//! For `exos bench ash`; it stands here because calls of code for vectors are unsafe.

#[cfg(target_arch = "x86_64")]
mod vectors;

use crate::PipeError;

/// Where messages are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the processor's nearest cache, as far as they fit.
    Cache,
    /// Each in memory that was not touched for 96 MB.
    Memory,
}

/// MB/s of messages of one length in one place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// One copy.
    pub copy: f64,
    /// Two, one of the other.
    pub twice: f64,
    /// A copy with the checksum.
    pub sum: Ways,
    /// A copy with the checksum and words turned round.
    pub swap: Ways,
}

/// MB/s of one job in each way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ways {
    /// In passes of their own.
    pub passes: f64,
    /// In one loop that is compiled here.
    pub one_loop: f64,
    /// In one that is written by hand.
    pub by_hand: f64,
}

/// Measures messages of a length, the best of several turns; nothing where the machine has no AVX2.
///
/// # Errors
///
/// There is no memory for machine code.
pub fn rates(length: usize, place: Place) -> Result<Option<Rates>, PipeError> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        return vectors::rates(length, place).map(Some);
    }
    let _ = (length, place);
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No speed is looked at.
    #[test]
    fn all_ways_are_measured_where_there_are_vectors() {
        let Some(rates) = rates(64, Place::Cache).expect("there is memory") else {
            return;
        };
        let ways = [rates.sum, rates.swap];
        let each = ways.map(|way| [way.passes, way.one_loop, way.by_hand]);
        let each = [rates.copy, rates.twice].into_iter().chain(each.concat());
        assert!(each.into_iter().all(|rate| rate > 0.0), "{rates:?}");
    }
}
