//! Marking a packet as having met congestion (RFC 3168 §5): the Explicit Congestion Notification field of IPv4
//! and IPv6 becomes CE (11) when its sender said that it understands (10 or 01).

const CONGESTION_EXPERIENCED: u8 = 0b11;

/// Marks the packet in an Ethernet frame. False when it is not ECN-capable, marked already, or not IP.
pub(super) fn mark(frame: &mut [u8]) -> bool {
    let Some((header, packet)) = frame.split_at_mut_checked(14) else {
        return false;
    };
    match header[12..14] {
        [0x08, 0x00] => mark_v4(packet),
        [0x86, 0xdd] => mark_v6(packet),
        _ => false,
    }
}

/// The field is the low two bits of the second byte; the header's checksum follows (RFC 1624, equation 3).
fn mark_v4(packet: &mut [u8]) -> bool {
    if packet.len() < 20 || !is_capable(packet[1]) {
        return false;
    }
    let word = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let before = word(packet, 0);
    packet[1] |= CONGESTION_EXPERIENCED;
    let sum = u32::from(!word(packet, 10)) + u32::from(!before) + u32::from(word(packet, 0));
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    true
}

/// The traffic class straddles the first two bytes; its low two bits are bits 4 and 5 of the second.
fn mark_v6(packet: &mut [u8]) -> bool {
    if packet.len() < 40 || !is_capable(packet[1] >> 4) {
        return false;
    }
    packet[1] |= CONGESTION_EXPERIENCED << 4;
    true
}

/// ECT(0) or ECT(1): neither without ECN nor marked already.
fn is_capable(field: u8) -> bool {
    matches!(field & 0b11, 0b01 | 0b10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(tos: u8) -> Vec<u8> {
        let mut frame = vec![0; 14 + 40];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        let packet = &mut frame[14..];
        packet[..20].copy_from_slice(&[
            0x45, tos, 0, 40, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 10, 0, 1, 10, 10, 0, 2,
        ]);
        let sum = checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// The slow way: RFC 1071.
    fn checksum(header: &[u8]) -> u16 {
        let words = header
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn ipv4_is_marked_when_capable_and_its_checksum_stays_right() {
        for tos in 0..=255 {
            let mut frame = v4(tos);
            let marked = mark(&mut frame);
            assert_eq!(marked, tos & 3 == 1 || tos & 3 == 2, "{tos:#x}");
            assert_eq!(frame[15], if marked { tos | 3 } else { tos });
            assert_eq!(checksum(&frame[14..34]), 0, "{tos:#x}");
        }
    }

    #[test]
    fn ipv6_is_marked_when_capable() {
        for class in 0..=255_u8 {
            let mut frame = vec![0; 54];
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
            frame[14] = 0x60 | class >> 4;
            frame[15] = class << 4 | 0x5;
            let capable = class & 3 == 1 || class & 3 == 2;
            assert_eq!(mark(&mut frame), capable);
            let after = frame[14] << 4 | frame[15] >> 4;
            assert_eq!(after, if capable { class | 3 } else { class });
            assert_eq!((frame[14] >> 4, frame[15] & 0xf), (6, 5), "neighbours stay");
        }
    }

    #[test]
    fn others_are_left_alone() {
        for frame in [vec![], vec![0xff; 13], vec![0xaa; 60], v4(2)[..30].to_vec()] {
            let mut touched = frame.clone();
            assert!(!mark(&mut touched));
            assert_eq!(touched, frame);
        }
    }
}
