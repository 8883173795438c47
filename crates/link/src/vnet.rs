//! The virtio-net header that goes before every frame of a TAP device, and before every super-packet
//! of a packet socket.
//!
//! It carries what a network card would do: finish a checksum, cut a large
//! segment. Layout (`struct virtio_net_hdr`, linux/virtio_net.h; Virtio 1.2
//! §5.1.6), all fields in the byte order of the machine:
//!
//! ```text
//!  0      1         2        4         6           8            10
//!  flags  gso_type  hdr_len  gso_size  csum_start  csum_offset  frame...
//! ```

use std::io;

use crate::meta::{RxChecksum, RxMeta, TxChecksum, TxMeta};

/// Bytes of the header.
pub(crate) const LEN: usize = 10;

/// The checksum is to be finished.
const FLAG_NEEDS_CSUM: u8 = 1;
/// The checksum was verified.
const FLAG_DATA_VALID: u8 = 2;

const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Says that the segments carry ECN's CWR flag; joined to the type.
const GSO_ECN: u8 = 0x80;

/// What the header says of a received frame; `None` for a kind of segmentation
/// that was not asked for.
pub(crate) fn decode(header: &[u8; LEN]) -> Option<RxMeta> {
    let [flags, gso_type, _, _, size0, size1, ..] = *header;
    let checksum = if flags & FLAG_NEEDS_CSUM != 0 {
        RxChecksum::Partial
    } else if flags & FLAG_DATA_VALID != 0 {
        RxChecksum::Verified
    } else {
        RxChecksum::Unknown
    };
    let gso_size = match gso_type & !GSO_ECN {
        GSO_NONE => None,
        GSO_TCPV4 | GSO_TCPV6 => Some(u16::from_ne_bytes([size0, size1])),
        _ => return None,
    };
    Some(RxMeta {
        checksum,
        gso_size,
        datagrams: false,
        arrived_ns: None,
    })
}

/// What the header says of a frame that may be sent on as it is: also of datagrams of UDP that are to be cut, which a stack
/// would take for one.
pub(crate) fn decode_relayed(header: &[u8; LEN]) -> Option<RxMeta> {
    let mut as_known = *header;
    let datagrams = is_of_datagrams(header);
    if datagrams {
        as_known[1] = GSO_TCPV4;
    }
    decode(&as_known).map(|meta| RxMeta { datagrams, ..meta })
}

/// True for the header of a frame that stands for several datagrams of UDP.
pub(crate) fn is_of_datagrams(header: &[u8; LEN]) -> bool {
    header[1] & !GSO_ECN == GSO_UDP_L4
}

/// Makes the header that a frame came with the one that it leaves with: it asks for what is undone, and says how long the
/// headers are that go before each segment.
pub(crate) fn make_onward(header: &mut [u8; LEN], frame: &[u8]) {
    header[0] &= FLAG_NEEDS_CSUM;
    let start = usize::from(u16::from_ne_bytes([header[6], header[7]]));
    let offset = |at: usize| {
        frame
            .get(start + at)
            .map_or(0, |byte| usize::from(byte >> 4))
    };
    let upper = match header[1] & !GSO_ECN {
        GSO_TCPV4 | GSO_TCPV6 => 4 * offset(12),
        GSO_UDP_L4 => 8,
        // Nobody cuts it.
        _ => return header[2..4].fill(0),
    };
    if header[0] == FLAG_NEEDS_CSUM {
        let len = (start + upper).min(frame.len()) as u16;
        header[2..4].copy_from_slice(&len.to_ne_bytes());
    }
}

/// True for what a kernel answers that knows of no frames of several datagrams, to one of these.
pub(crate) fn is_refusal(header: &[u8; LEN], error: &io::Error) -> bool {
    is_of_datagrams(header) && error.raw_os_error() == Some(libc::EINVAL)
}

/// True for the header of a frame that stands for several.
pub(crate) fn is_cut(header: &[u8]) -> bool {
    header[1] != GSO_NONE
}

/// The header that asks for what `meta` leaves undone.
///
/// # Panics
///
/// If segmentation is asked for without a partial checksum: every segment needs
/// its own, which only the one who cuts can finish.
pub(crate) fn encode(meta: TxMeta) -> [u8; LEN] {
    let mut header = [0; LEN];
    if let TxChecksum::Partial { start, offset } = meta.checksum {
        header[0] = FLAG_NEEDS_CSUM;
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&offset.to_ne_bytes());
    }
    if let Some(size) = meta.segment_size {
        assert!(
            meta.checksum != TxChecksum::Complete,
            "segmentation without a partial checksum"
        );
        header[1] = match meta.ipv6 {
            _ if meta.datagrams => GSO_UDP_L4,
            true => GSO_TCPV6,
            false => GSO_TCPV4,
        };
        header[2..4].copy_from_slice(&meta.header_len.to_ne_bytes());
        header[4..6].copy_from_slice(&size.to_ne_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTIAL: TxChecksum = TxChecksum::Partial {
        start: 34,
        offset: 16,
    };

    #[test]
    fn a_complete_frame_is_all_zeros() {
        assert_eq!(encode(TxMeta::default()), [0; LEN]);
        assert_eq!(decode(&[0; LEN]), Some(RxMeta::default()));
    }

    #[test]
    fn fields_lie_where_the_kernel_wants_them() {
        let meta = TxMeta {
            checksum: PARTIAL,
            segment_size: Some(1448),
            ipv6: true,
            datagrams: false,
            header_len: 86,
        };
        let mut expected = vec![1, 4];
        for field in [86u16, 1448, 34, 16] {
            expected.extend(field.to_ne_bytes());
        }
        assert_eq!(encode(meta).to_vec(), expected);
        let v4 = encode(TxMeta {
            ipv6: false,
            datagrams: false,
            ..meta
        });
        assert_eq!(v4[1], 1);
    }

    #[test]
    fn what_is_sent_partial_is_received_partial() {
        let partial = encode(TxMeta {
            checksum: PARTIAL,
            ..TxMeta::default()
        });
        let expected = RxMeta {
            checksum: RxChecksum::Partial,
            ..RxMeta::default()
        };
        assert_eq!(decode(&partial), Some(expected));
        let meta = TxMeta {
            checksum: PARTIAL,
            segment_size: Some(1448),
            ..TxMeta::default()
        };
        assert_eq!(decode(&encode(meta)).unwrap().gso_size, Some(1448));
    }

    #[test]
    fn flags_and_kinds_are_told_apart() {
        let header = |flags, kind| decode(&[flags, kind, 0, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(header(2, 0).unwrap().checksum, RxChecksum::Verified);
        assert_eq!(header(3, 0).unwrap().checksum, RxChecksum::Partial);
        assert!(header(1, GSO_TCPV4 | GSO_ECN).unwrap().gso_size.is_some());
        assert_eq!(header(1, 3), None, "UDP fragmentation was not asked for");
        assert_eq!(header(1, 5), None, "UDP segmentation was not asked for");
    }

    /// A frame that is sent on keeps its unfinished checksum and its segment size; the header's length is worked out again, and flags
    /// that are for receivers only are cleared.
    #[test]
    fn a_received_header_becomes_one_to_send_with() {
        // TCP behind 34 bytes, of which the header is 32 bytes long.
        let mut frame = [0; 200];
        frame[34 + 12] = 0x80;
        let onward = |header: [u8; LEN]| {
            let mut header = header;
            make_onward(&mut header, &frame);
            header
        };
        let [size0, size1] = 1448_u16.to_ne_bytes();
        let [len0, len1] = 66_u16.to_ne_bytes();
        let [start0, start1] = 34_u16.to_ne_bytes();
        let tcp = |len: [u8; 2]| {
            [
                1, GSO_TCPV4, len[0], len[1], size0, size1, start0, start1, 16, 0,
            ]
        };
        assert_eq!(onward(tcp([0, 200])), tcp([len0, len1]));
        assert_eq!(onward([2, 0, 9, 9, 0, 0, 0, 0, 0, 0]), [0; LEN]);
        let datagrams = [1, GSO_UDP_L4, 0, 0, size0, size1, start0, start1, 6, 0];
        assert_eq!(onward(datagrams)[2..4], 42_u16.to_ne_bytes());
        assert_eq!(decode(&datagrams), None, "a stack would take them for one");
        assert_eq!(decode_relayed(&datagrams).unwrap().gso_size, Some(1448));
        // Where it begins is its sender's word.
        let [far0, far1] = u16::MAX.to_ne_bytes();
        let lie = onward([1, GSO_TCPV6, 0, 0, size0, size1, far0, far1, 16, 0]);
        assert_eq!(lie[2..4], 200_u16.to_ne_bytes());
    }

    /// What comes and is to be cut leaves so by another link, whatever it is.
    #[test]
    fn datagrams_and_segments_are_told_apart() {
        for (datagrams, ipv6, kind) in [
            (false, false, GSO_TCPV4),
            (false, true, GSO_TCPV6),
            (true, false, GSO_UDP_L4),
            (true, true, GSO_UDP_L4),
        ] {
            let header = encode(TxMeta {
                checksum: PARTIAL,
                segment_size: Some(1000),
                ipv6,
                datagrams,
                header_len: 54,
            });
            assert_eq!(header[1], kind);
            let meta = decode_relayed(&header).unwrap();
            assert_eq!(
                (meta.gso_size, meta.checksum),
                (Some(1000), RxChecksum::Partial)
            );
        }
    }

    #[test]
    #[should_panic(expected = "without a partial checksum")]
    fn segments_need_a_checksum_each() {
        encode(TxMeta {
            segment_size: Some(1000),
            ..TxMeta::default()
        });
    }
}
