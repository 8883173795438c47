//! Plain frames, without any stack: what the link itself can do, and what an attacker can send.
//!
//! The sender and the receiver of full-sized frames measure the packet limit of the link. The sender of SYNs goes
//! as fast as that too; its frames are made once and only addresses, ports and sequence numbers are changed, with the
//! checksums updated (RFC 1624). Beside other programs of its namespace it takes nothing off the interface.

use super::load;
use super::options::{RawArgs, RawRole};
use crate::stage::link::{EXPERIMENT, experiment, flush, open};
use crate::stage::{print_measured, say_ready};
use exos_filter::Filter;
use exos_host::{Error, Result, error::Context as _};
use exos_link::{Link, RX_BATCH, TxMeta};
use exos_wire::ethernet::EthernetHeader;
use exos_wire::ipv4::Ipv4Header;
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use exos_wire::{SeqNumber, Sum, protocol};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A full-sized frame on a wire with an MTU of 1500.
const FRAME_LEN: usize = 1514;

/// Turns between two looks at the clock, which would cost more than a turn that finds nothing to do.
const TURNS_PER_CLOCK: u32 = 64;

/// Does as the command line says.
pub fn raw(args: &RawArgs) -> Result<ExitCode> {
    let time = Duration::from_secs_f64(args.seconds);
    match args.role {
        RawRole::Load => load::run(args)?,
        RawRole::Echo => load::echo(args)?,
        RawRole::Count => report("received", count(args, time, false)?, time),
        RawRole::Answer => report("received", count(args, time, true)?, time),
        RawRole::Send => report("sent", send(args, time)?, time),
        RawRole::Syns => report("sent", syns(args, time)?, time),
    }
    Ok(ExitCode::SUCCESS)
}

fn report(what: &str, frames: u64, time: Duration) {
    let rate = frames as f64 / time.as_secs_f64();
    print_measured(&serde_json::json!({ what: frames, "frames_per_sec": rate }));
}

/// A receiver of TCP acknowledges this many segments at once (RFC 9293 §3.8.6.3).
const ANSWER_EVERY: u64 = 2;

/// Bytes of an acknowledgement with timestamps and its Ethernet header.
const ANSWER_LEN: usize = 66;

/// Frames under way where frames are answered: a sender that goes on regardless keeps the receiver's core
/// from taking what came.
const WINDOW: u64 = 512;

/// How long no answer comes before what is under way is taken to be lost.
const LOST_AFTER: Duration = Duration::from_millis(10);

/// Counts from the first frame on, for so long; answers frames by short ones where asked to.
fn count(args: &RawArgs, time: Duration, answers: bool) -> Result<u64> {
    let mut link = open(experiment())?;
    let mut answer = vec![0xff; ANSWER_LEN];
    ethernet(&link, args, EXPERIMENT)?.emit(&mut answer);
    say_ready(args.ready.as_deref())?;
    let first = Instant::now() + crate::limits::CONNECT_TIMEOUT;
    let mut frames = 0;
    while frames == 0 {
        frames = link.receive(|_, _| {}) as u64;
        if Instant::now() > first {
            return Err(Error::new("no frame came in time"));
        }
    }
    let (end, mut answered) = (Instant::now() + time, 0);
    while Instant::now() < end {
        for _ in 0..TURNS_PER_CLOCK {
            frames += link.receive(|_, _| {}) as u64;
            while answers && frames - answered >= ANSWER_EVERY {
                link.transmit(&answer, &[], TxMeta::default());
                answered += ANSWER_EVERY;
            }
            flush(&mut link)?;
        }
    }
    Ok(frames)
}

fn send(args: &RawArgs, time: Duration) -> Result<u64> {
    let link = open(experiment())?;
    let mut frame = vec![0xff; FRAME_LEN];
    ethernet(&link, args, EXPERIMENT)?.emit(&mut frame);
    if args.answered {
        exchange(link, args, time, &frame)
    } else {
        transmit(link, args, time, |_| &frame)
    }
}

/// Sends as fast as answers come, for so long; how many frames.
fn exchange(mut link: Link, args: &RawArgs, time: Duration, frame: &[u8]) -> Result<u64> {
    say_ready(args.ready.as_deref())?;
    let (head, body) = frame.split_at(54);
    let (mut sent, mut confirmed) = (0, 0);
    let mut heard = Instant::now();
    let end = heard + time;
    while Instant::now() < end {
        for _ in 0..TURNS_PER_CLOCK {
            let answers = link.receive(|_, _| {}) as u64;
            confirmed = sent.min(confirmed + answers * ANSWER_EVERY);
            if answers > 0 {
                heard = Instant::now();
            }
            while sent - confirmed < WINDOW && link.transmit(head, &[body], TxMeta::default()) {
                sent += 1;
            }
            flush(&mut link)?;
        }
        if heard.elapsed() > LOST_AFTER {
            (confirmed, heard) = (sent, Instant::now());
        }
    }
    Ok(sent)
}

fn ethernet(link: &Link, args: &RawArgs, ethertype: u16) -> Result<EthernetHeader> {
    let dst = args.mac.ok_or(Error::new("frames need --mac to go to"))?;
    Ok(EthernetHeader {
        dst,
        src: link.mac(),
        vlan: None,
        ethertype,
    })
}

/// Sends what `next` gives, for so long; how many frames.
fn transmit<'f>(
    mut link: Link,
    args: &RawArgs,
    time: Duration,
    mut next: impl FnMut(u64) -> &'f [u8],
) -> Result<u64> {
    say_ready(args.ready.as_deref())?;
    let (mut sent, begin) = (0, Instant::now());
    loop {
        let passed = begin.elapsed();
        if passed >= time {
            break;
        }
        let due = match args.rate {
            0 => u64::MAX,
            rate => (rate as f64 * passed.as_secs_f64()) as u64,
        };
        let room = link.room().min(RX_BATCH as usize) as u64;
        for _ in 0..room.min(due.saturating_sub(sent)) {
            let (head, body) = next(sent).split_at(54);
            sent += u64::from(link.transmit(head, &[body], TxMeta::default()));
        }
        flush(&mut link)?;
    }
    Ok(sent)
}

/// SYNs that differ, made before: as many as a server may remember, some times over.
const SYNS: u64 = 65_536;

fn syns(args: &RawArgs, time: Duration) -> Result<u64> {
    let link = open(Filter::nothing())?;
    let header = ethernet(&link, args, exos_wire::ethernet::ETHERTYPE_IPV4)?;
    let to = args.to.ok_or(Error::new("SYNs need --to"))?;
    // Clients on the same core come first.
    rustix::process::nice(10).context(|| "cannot lower the priority")?;
    let frames: Vec<Vec<u8>> = (0..SYNS).map(|n| syn(&header, to, n)).collect();
    transmit(link, args, time, |n| &frames[(n % SYNS) as usize])
}

/// A SYN as Linux sends it, from an address of the range for benchmarks (RFC 2544) that nobody has.
fn syn(ethernet: &EthernetHeader, to: SocketAddr, n: u64) -> Vec<u8> {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let src = Ipv4Addr::from(0xc612_0000 | (mixed >> 47) as u32);
    let IpAddr::V4(dst) = to.ip() else {
        panic!("the flood is one of IPv4")
    };
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
    let mut frame = vec![0; 14 + 20 + len];
    ethernet.emit(&mut frame);
    ip.emit(len, &mut frame[14..]);
    frame[34..].copy_from_slice(&segment[..len]);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_wire::Mac;
    use exos_wire::ethernet::EthernetView;
    use exos_wire::ipv4::Ipv4View;
    use exos_wire::tcp::TcpView;
    use std::collections::BTreeSet;

    #[test]
    fn floods_are_made_of_valid_syns_that_differ() {
        let header = EthernetHeader {
            dst: Mac([2, 0, 0, 0, 0, 1]),
            src: Mac([2, 0, 0, 0, 0, 2]),
            vlan: None,
            ethertype: exos_wire::ethernet::ETHERTYPE_IPV4,
        };
        let to: SocketAddr = "10.10.0.10:80".parse().unwrap();
        let mut seen = BTreeSet::new();
        for n in 0..1000 {
            let frame = syn(&header, to, n);
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
