//! The shift of our windows (RFC 7323 §2).

/// The least shift with which the whole buffer can be announced in 16 bits.
pub(in crate::tcp) const fn window_scale_for(buffer: u32) -> u8 {
    let mut shift = 0;
    while shift < 14 && (buffer >> shift) > u16::MAX as u32 {
        shift += 1;
    }
    shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_scales() {
        let cases = [
            (1, 0),
            (65_535, 0),
            (65_536, 1),
            (131_071, 1),
            (262_144, 3),
            (1 << 30, 14),
            (u32::MAX, 14),
        ];
        for (buffer, shift) in cases {
            assert_eq!(window_scale_for(buffer), shift, "{buffer}");
        }
    }
}
