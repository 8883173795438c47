//! What a network card does for a stack that was told it may leave work: checksums and
//! segmentation.
//!
//! Stands for the far side of a virtio-net header, or of a card's own offloads: completes partial
//! checksums, and cuts a TCP packet of many segments into packets of one. What comes out is what a
//! wire may carry, so that a simulation with offloads is read and judged like one without.

use exos_inet::stack::{Transmit, TxChecksum};
use exos_wire::{Sum, ipv4, protocol};
use std::net::IpAddr;

/// Bytes of an untagged Ethernet header.
const ETHERNET: usize = 14;

/// The frames that a transmission of the stack becomes.
pub fn frames(transmit: &Transmit<'_>) -> Vec<Vec<u8>> {
    let mut frame = transmit.head.to_vec();
    for part in transmit.body.parts() {
        frame.extend_from_slice(part);
    }
    match (transmit.checksum, transmit.segment_size) {
        (TxChecksum::Complete, None) => vec![frame],
        (TxChecksum::Partial { start, offset }, None) => {
            complete(&mut frame, start.into(), offset.into());
            vec![frame]
        }
        (TxChecksum::Partial { start, .. }, Some(size)) => cut(&frame, start.into(), size.into()),
        (TxChecksum::Complete, Some(_)) => panic!("who leaves the cutting leaves the checksum too"),
    }
}

/// Complete a partial checksum: its field holds the pseudo header's sum.
fn complete(frame: &mut [u8], start: usize, offset: usize) {
    let checksum = Sum::of(&frame[start..]).finish();
    frame[start + offset..start + offset + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Cut a TCP packet whose header begins at `tcp` into segments of at most `size` bytes of data.
fn cut(frame: &[u8], tcp: usize, size: usize) -> Vec<Vec<u8>> {
    let header_len = tcp + usize::from(frame[tcp + 12] >> 4) * 4;
    let (header, data) = frame.split_at(header_len);
    assert!(data.len() > size, "what fits one segment is not cut");
    let count = data.len().div_ceil(size);
    let pieces = data.chunks(size).enumerate();
    pieces
        .map(|(n, piece)| segment(header, tcp, (n * size) as u32, piece, n + 1 == count))
        .collect()
}

fn segment(header: &[u8], tcp: usize, offset: u32, data: &[u8], last: bool) -> Vec<u8> {
    const FIN_AND_PSH: u8 = 0x09;
    let mut out = [header, data].concat();
    let seq = u32::from_be_bytes([out[tcp + 4], out[tcp + 5], out[tcp + 6], out[tcp + 7]]);
    out[tcp + 4..tcp + 8].copy_from_slice(&seq.wrapping_add(offset).to_be_bytes());
    if !last {
        out[tcp + 13] &= !FIN_AND_PSH;
    }
    let segment_len = out.len() - tcp;
    let pseudo = write_lengths(&mut out[ETHERNET..tcp], segment_len);
    out[tcp + 16..tcp + 18].copy_from_slice(&pseudo.value().to_be_bytes());
    complete(&mut out, tcp, 16);
    out
}

/// Put the length of one segment into an IP header; gives the pseudo header's sum.
fn write_lengths(ip: &mut [u8], segment_len: usize) -> Sum {
    let (src, dst): (IpAddr, IpAddr) = if ip.len() == ipv4::LEN {
        ip[2..4].copy_from_slice(&((ipv4::LEN + segment_len) as u16).to_be_bytes());
        ip[10..12].fill(0);
        let checksum = Sum::of(ip).finish();
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        (
            address::<4>(&ip[12..]).into(),
            address::<4>(&ip[16..]).into(),
        )
    } else {
        ip[4..6].copy_from_slice(&(segment_len as u16).to_be_bytes());
        (
            address::<16>(&ip[8..]).into(),
            address::<16>(&ip[24..]).into(),
        )
    };
    Sum::pseudo(src, dst, protocol::TCP, segment_len as u32)
}

fn address<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().expect("an IP header has its addresses")
}
