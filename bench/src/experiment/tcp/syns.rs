//! A flood of SYNs from ever new addresses.
//!
//! Its frames are made once, since many of them are needed in a second. Beside other programs of its namespace it takes
//! nothing off the interface.

use crate::stage::frames::{IPV4_HEADERS_LEN, ipv4_frame};
use crate::stage::helper::{Helper, say_ready};
use crate::stage::link::{flush, open};
use exos_filter::Filter;
use exos_host::{Result, error::Context as _};
use exos_link::{RX_BATCH, TxMeta};
use exos_wire::ipv4::Ipv4Header;
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use exos_wire::{Mac, SeqNumber, Sum, protocol};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

/// SYNs that differ, made before: as many as a server may remember, some times over.
const SYNS: u64 = 65_536;

/// A sender of SYNs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Syns {
    pub to: SocketAddrV4,
    /// Link address that frames go to.
    pub mac: [u8; 6],
    pub seconds: f64,
    /// SYNs a second at most; 0: as many as go.
    pub rate: u64,
}

impl Helper for Syns {
    const NAME: &'static str = "syns";
    /// How many a second.
    type Measured = f64;

    fn run(self) -> Result<f64> {
        let mut link = open(Filter::nothing())?;
        let macs = (link.mac(), Mac(self.mac));
        // Clients on the same core come first.
        rustix::process::nice(10).context(|| "cannot lower the priority")?;
        let frames: Vec<Vec<u8>> = (0..SYNS).map(|n| syn(macs, self.to, n)).collect();
        say_ready()?;
        let time = Duration::from_secs_f64(self.seconds);
        let (mut sent, begin) = (0, Instant::now());
        while begin.elapsed() < time {
            let due = match self.rate {
                0 => u64::MAX,
                rate => (rate as f64 * begin.elapsed().as_secs_f64()) as u64,
            };
            let room = link.room().min(RX_BATCH as usize) as u64;
            for _ in 0..room.min(due.saturating_sub(sent)) {
                let (head, body) = frames[(sent % SYNS) as usize].split_at(54);
                sent += u64::from(link.transmit(head, &[body], TxMeta::default()));
            }
            flush(&mut link)?;
        }
        Ok(sent as f64 / self.seconds)
    }
}

/// A SYN as Linux sends it, from an address of the range for benchmarks (RFC 2544) that nobody has.
fn syn(macs: (Mac, Mac), to: SocketAddrV4, n: u64) -> Vec<u8> {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let src = Ipv4Addr::from(0xc612_0000 | (mixed >> 47) as u32);
    let dst = *to.ip();
    let tcp = TcpHeader {
        src_port: 1024 + (mixed >> 20) as u16 % 60_000,
        dst_port: to.port(),
        seq: SeqNumber(mixed as u32),
        ack: SeqNumber(0),
        flags: TcpFlags::SYN,
        window: 64_240,
        urgent: 0,
    };
    let options = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(exos_wire::tcp::Timestamps {
            value: mixed as u32,
            echo: 0,
        }),
        ..TcpOptions::default()
    };
    let mut segment = [0; 60];
    let len = tcp.emit(&options, &mut segment);
    let pseudo = Sum::pseudo(src.into(), dst.into(), protocol::TCP, len as u32);
    exos_wire::tcp::fill_checksum(&mut segment[..len], pseudo);
    let ip = Ipv4Header {
        ident: n as u16,
        ..Ipv4Header::atomic(src, dst, protocol::TCP)
    };
    let mut frame = ipv4_frame(macs, ip, len);
    frame[IPV4_HEADERS_LEN..].copy_from_slice(&segment[..len]);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_wire::ethernet::EthernetView;
    use exos_wire::ipv4::Ipv4View;
    use exos_wire::tcp::TcpView;
    use std::collections::BTreeSet;

    #[test]
    fn floods_are_made_of_valid_syns_that_differ() {
        let macs = (Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 1]));
        let to: SocketAddrV4 = "10.10.0.10:80".parse().unwrap();
        let mut seen = BTreeSet::new();
        for n in 0..1000 {
            let frame = syn(macs, to, n);
            let ethernet = EthernetView::parse(&frame).unwrap();
            let ip = Ipv4View::parse(ethernet.payload()).unwrap();
            assert!(ip.header_checksum_ok() && ip.dst() == Ipv4Addr::new(10, 10, 0, 10));
            assert_eq!(ip.src().octets()[..1], [198]);
            let pseudo = Sum::pseudo(
                ip.src().into(),
                ip.dst().into(),
                6,
                ip.payload().len() as u32,
            );
            let tcp = TcpView::parse(ip.payload()).unwrap();
            assert!(tcp.checksum_ok(pseudo) && tcp.flags() == TcpFlags::SYN);
            assert_eq!(tcp.options().mss, Some(1460));
            seen.insert((ip.src(), tcp.src_port()));
        }
        assert!(seen.len() > 990, "{}", seen.len());
    }
}
