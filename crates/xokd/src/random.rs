//! Random bytes, for what nobody shall foresee: tokens, tickets, ports, seeds.

use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let got = getrandom(&mut bytes[..], GetRandomFlags::empty());
    // Short requests are answered whole once the machine is up.
    assert_eq!(got, Ok(N), "the kernel's random numbers");
    bytes
}
