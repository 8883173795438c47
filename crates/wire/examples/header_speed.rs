//! What reading and writing one packet costs: `cargo run --release -p exos-wire --example header_speed`.
//!
//! Prints nanoseconds per operation, the best of several runs, because anything slower was
//! something else that the machine did; and bytes per nanosecond (GB/s) for sums. Every operation's
//! input goes through `black_box`, so that nothing is computed ahead of time.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use exos_wire::ethernet::{self, EthernetHeader, EthernetView};
use exos_wire::ipv4::{self, Ipv4Header, Ipv4View};
use exos_wire::tcp::{self, TcpFlags, TcpHeader, TcpOptions, TcpView};
use exos_wire::{Mac, SeqNumber, Sum, protocol};

const RUNS: usize = 15;
const OPERATIONS: u32 = 200_000;

const SRC: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
const DST: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 2);

fn main() {
    for len in [20, 40, 64, 256, 1460, 4096, 65_536] {
        let bytes = vec![0xa5; len];
        let ns = time(|| u64::from(Sum::of(black_box(&bytes)).value()));
        println!(
            "{:<38} {ns:>8.2} ns {:>7.1} GB/s",
            format!("sum of {len} bytes"),
            len as f64 / ns
        );
    }
    let frame = frame(1448);
    report("parse ethernet, ipv4, tcp, options", || {
        parse(black_box(&frame))
    });
    report("the same, ipv4 header sum verified", || {
        parse_verified(black_box(&frame))
    });
    let mut out = [0; 128];
    report("emit ethernet, ipv4, tcp, timestamps", || {
        emit(
            black_box(1448),
            black_box(Sum::from_value(0x1234)),
            &mut out,
        ) as u64
    });
    let (a, b) = (Sum::from_value(0x1234), Sum::from_value(0xfedc));
    report("join two sums", || {
        u64::from(black_box(a).followed_by(black_box(7), black_box(b)).value())
    });
}

fn report(what: &str, operation: impl FnMut() -> u64) {
    println!("{what:<38} {:>8.2} ns", time(operation));
}

/// Nanoseconds per operation.
fn time(mut operation: impl FnMut() -> u64) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        for _ in 0..OPERATIONS {
            black_box(operation());
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(OPERATIONS));
    }
    best
}

fn frame(payload_len: usize) -> Vec<u8> {
    let mut frame = vec![0x5a; 14 + 20 + 32 + payload_len];
    emit(payload_len, Sum::ZERO, &mut frame);
    frame
}

/// What a received data segment's fast path looks at.
fn parse(frame: &[u8]) -> u64 {
    let ethernet = EthernetView::parse(frame).unwrap();
    let ip = Ipv4View::parse(ethernet.payload()).unwrap();
    segment(&ip)
}

fn parse_verified(frame: &[u8]) -> u64 {
    let ethernet = EthernetView::parse(frame).unwrap();
    let ip = Ipv4View::parse(ethernet.payload()).unwrap();
    assert!(ip.header_checksum_ok());
    segment(&ip)
}

fn segment(ip: &Ipv4View<'_>) -> u64 {
    let tcp = TcpView::parse(ip.payload()).unwrap();
    let timestamps = tcp.options().timestamps.unwrap();
    u64::from(ip.src().to_bits() ^ ip.dst().to_bits())
        ^ u64::from(tcp.src_port() ^ tcp.dst_port())
        ^ u64::from(tcp.seq().0 ^ tcp.ack().0 ^ timestamps.value)
        ^ u64::from(tcp.flags().0)
        ^ tcp.payload().len() as u64
}

fn emit(payload_len: usize, payload_sum: Sum, out: &mut [u8]) -> usize {
    let tcp = TcpHeader {
        src_port: 80,
        dst_port: 50_000,
        seq: SeqNumber(1),
        ack: SeqNumber(2),
        flags: TcpFlags::ACK,
        window: 0xffff,
        urgent: 0,
    };
    let mut at = EthernetHeader {
        dst: Mac([2, 0, 0, 0, 0, 1]),
        src: Mac([2, 0, 0, 0, 0, 2]),
        vlan: None,
        ethertype: ethernet::ETHERTYPE_IPV4,
    }
    .emit(out);
    let options = TcpOptions::with_timestamps(3, 4);
    let segment_len = tcp::LEN + tcp::options_len(&options) + payload_len;
    at += Ipv4Header::atomic(SRC, DST, protocol::TCP).emit(segment_len, &mut out[at..]);
    let sum = Sum::pseudo_v4(SRC, DST, protocol::TCP, segment_len as u32).plus(payload_sum);
    let header_len = tcp.emit_with_checksum(&options, sum, &mut out[at..]);
    assert_eq!(at, ethernet::LEN + ipv4::LEN);
    at + header_len
}
