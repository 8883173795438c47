//! Maps whose keys are numbers that the program does not choose (sockets, descriptors): looked up by one multiplication, in each wait
//! for each socket that is ready.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by descriptors, or by numbers of sockets or sets.
pub type ByNumber<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Spreads small numbers over all bits.
#[derive(Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_i32(&mut self, number: i32) {
        self.write_u32(number as u32);
    }

    fn write_u64(&mut self, number: u64) {
        /// 2^64 divided by the golden ratio (Knuth, section 6.4).
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = number.wrapping_mul(GOLDEN);
    }
}
