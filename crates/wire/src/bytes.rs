//! Big-endian fields at constant offsets in byte arrays of constant size.
//!
//! Offsets are const parameters, and a field that does not lie in its array fails to compile. That
//! is what makes the accessors of views total. [`head`] and [`head_mut`] turn the front of a slice
//! into such an array.

use crate::WireError;

/// The 16-bit field at `AT`.
#[inline(always)]
pub(crate) const fn be16<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u16 {
    const { assert!(AT + 2 <= N) };
    u16::from_be_bytes([bytes[AT], bytes[AT + 1]])
}

/// The 32-bit field at `AT`.
#[inline(always)]
pub(crate) const fn be32<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u32 {
    u32::from_be_bytes(array::<AT, 4, N>(bytes))
}

/// The `M` bytes at `AT`.
#[inline(always)]
pub(crate) const fn array<const AT: usize, const M: usize, const N: usize>(
    bytes: &[u8; N],
) -> [u8; M] {
    const { assert!(AT + M <= N) };
    let mut out = [0; M];
    let mut i = 0;
    while i < M {
        out[i] = bytes[AT + i];
        i += 1;
    }
    out
}

/// Writes `M` bytes at `AT`.
#[inline(always)]
pub(crate) fn put<const AT: usize, const M: usize, const N: usize>(
    out: &mut [u8; N],
    value: [u8; M],
) {
    const { assert!(AT + M <= N) };
    out[AT..AT + M].copy_from_slice(&value);
}

/// Writes the 16-bit field at `AT`.
#[inline(always)]
pub(crate) fn put16<const AT: usize, const N: usize>(out: &mut [u8; N], value: u16) {
    put::<AT, 2, N>(out, value.to_be_bytes());
}

/// Writes the 32-bit field at `AT`.
#[inline(always)]
pub(crate) fn put32<const AT: usize, const N: usize>(out: &mut [u8; N], value: u32) {
    put::<AT, 4, N>(out, value.to_be_bytes());
}

/// Splits a fixed-size header off what arrived.
#[inline(always)]
pub(crate) fn head<'a, const N: usize>(
    bytes: &'a [u8],
    layer: &'static str,
) -> Result<(&'a [u8; N], &'a [u8]), WireError> {
    match bytes.split_first_chunk() {
        Some(parts) => Ok(parts),
        None => Err(WireError::Truncated {
            layer,
            need: N,
            have: bytes.len(),
        }),
    }
}

/// The front of an output buffer as an array.
///
/// # Panics
/// When the buffer is smaller than `N`: the caller broke the rule of `emit`.
#[inline(always)]
pub(crate) fn head_mut<'a, const N: usize>(
    out: &'a mut [u8],
    layer: &'static str,
) -> (&'a mut [u8; N], &'a mut [u8]) {
    let have = out.len();
    match out.split_first_chunk_mut() {
        Some(parts) => parts,
        None => panic!("emitting {layer} needs {N} bytes of room, not {have}"),
    }
}
