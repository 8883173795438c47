//! Random bytes of the kernel's, for what nobody shall foresee: tokens, tickets, ports, secrets of hashes and of sequence numbers.

use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes.
///
/// # Panics
///
/// The machine is not up, or more than 256 are asked for: fewer are always given whole (getrandom(2)).
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let got = getrandom(&mut bytes[..], GetRandomFlags::empty());
    assert_eq!(got, Ok(N), "the kernel's random numbers");
    bytes
}

/// A random number.
pub fn random_number() -> u64 {
    u64::from_ne_bytes(random())
}
