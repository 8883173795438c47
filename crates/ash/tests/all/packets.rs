//! Packets made and read by etherparse, and a handler's program run on them by the kernel.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use exos_ash::kernel::InKernel;
use exos_ash::{Checked, Layout, Memory, Outcome};
use exos_filter::gate::outcome::{self, OUTCOMES};
use exos_filter::handler::Handler as _;
use exos_filter::handler::forward::WayOut;
use exos_filter::{Counter, Program};
use exos_host::bpf::{Map, MappedArray, Prog, TestRun, permitted};
use exos_testing::ebpf::disassemble;
use exos_wire::Mac;

pub const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);
pub const BROADCAST: Ipv4Addr = Ipv4Addr::new(10, 1, 255, 255);
pub const PORT: u16 = 4000;
pub const PEERS_PORT: u16 = 50_123;
/// Instructions that find a message and send a reply, without those that compare addresses.
const FRAME_OF_BODY: u64 = 2400;
pub const PASS: u32 = 2;
pub const DROP: u32 = 1;
pub const TX: u32 = 3;

/// Our address and the peer's.
pub fn ends(v6: bool) -> (IpAddr, IpAddr) {
    match v6 {
        false => ("10.1.2.3".parse().unwrap(), "10.1.200.7".parse().unwrap()),
        true => ("fd10::1".parse().unwrap(), "fd10::2:7".parse().unwrap()),
    }
}

/// A datagram to us.
pub fn frame(v6: bool, message: &[u8]) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2(THEIRS.0, OURS.0);
    let ip = match ends(v6) {
        (IpAddr::V4(us), IpAddr::V4(peer)) => ethernet.ipv4(peer.octets(), us.octets(), 61),
        (IpAddr::V6(us), IpAddr::V6(peer)) => ethernet.ipv6(peer.octets(), us.octets(), 61),
        _ => unreachable!(),
    };
    let udp = ip.udp(PEERS_PORT, PORT);
    let mut frame = Vec::new();
    udp.write(&mut frame, message).unwrap();
    frame
}

/// A datagram to us over IPv4, from whom it may not be.
pub fn frame_from(peer: Ipv4Addr, port: u16) -> Vec<u8> {
    let IpAddr::V4(us) = ends(false).0 else {
        unreachable!()
    };
    let ethernet = PacketBuilder::ethernet2(THEIRS.0, OURS.0);
    let udp = ethernet
        .ipv4(peer.octets(), us.octets(), 61)
        .udp(port, PORT);
    let mut frame = Vec::new();
    udp.write(&mut frame, b"hello").unwrap();
    frame
}

/// What a reply says, all of whose headers are looked at.
pub fn said(v6: bool, frame: &[u8]) -> Vec<u8> {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let ethernet = match packet.link.as_ref().unwrap() {
        etherparse::LinkSlice::Ethernet2(ethernet) => ethernet.to_header(),
        other => panic!("{other:?}"),
    };
    assert_eq!((ethernet.source, ethernet.destination), (OURS.0, THEIRS.0));
    let Some(TransportSlice::Udp(udp)) = &packet.transport else {
        panic!("{packet:?}");
    };
    assert_eq!(
        (udp.source_port(), udp.destination_port()),
        (PORT, PEERS_PORT)
    );
    let header = udp.to_header();
    let payload = udp.payload().to_vec();
    let (us, peer) = ends(v6);
    let sum = match packet.net.as_ref().unwrap() {
        etherparse::NetSlice::Ipv4(ip) => {
            let ip = ip.header().to_header();
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            assert_eq!((ip.time_to_live, ip.dont_fragment), (64, true));
            assert_eq!(
                (IpAddr::from(ip.source), IpAddr::from(ip.destination)),
                (us, peer)
            );
            header.calc_checksum_ipv4(&ip, &payload)
        }
        etherparse::NetSlice::Ipv6(ip) => {
            let ip = ip.header().to_header();
            assert_eq!(ip.hop_limit, 64);
            assert_eq!(
                (IpAddr::from(ip.source), IpAddr::from(ip.destination)),
                (us, peer)
            );
            header.calc_checksum_ipv6(&ip, &payload)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(header.checksum, sum.unwrap());
    assert_eq!(frame.len(), if v6 { 62 } else { 42 } + payload.len());
    payload
}

/// Whether programs may be loaded here; says so where they may not.
pub fn allowed(test: &str) -> bool {
    match permitted() {
        Ok(()) => true,
        Err(error) => {
            eprintln!("skipped: {test}: {error}");
            false
        }
    }
}

/// A handler in the kernel, attached to nothing.
pub struct Bench {
    pub prog: Prog,
    pub memory: MappedArray,
    /// None behind a gate, which counts itself.
    counters: Option<Map>,
    /// Kept, for the program goes on to what is in it.
    _slots: Map,
}

/// What a program gives as its verdict, and does nothing else.
fn verdict(verdict: u32) -> Prog {
    let words = [u64::from(verdict) << 32 | 0xb7, 0x95];
    Prog::load(&words, "verdict", true).expect("two instructions")
}

impl Bench {
    pub fn new(handler: &Checked, may_be_partial: bool) -> Self {
        let (v4, v6) = (ends(false).0, ends(true).0);
        let ours = ["10.9.9.9".parse().unwrap(), v4, v6];
        Self::at(handler, may_be_partial, &ours)
    }

    /// At addresses of both versions of IP, or of one.
    pub fn of_versions(handler: &Checked, versions: &[bool]) -> Self {
        let ours: Vec<_> = versions.iter().map(|v6| ends(*v6).0).collect();
        Self::at(handler, false, &ours)
    }

    /// At these of our addresses.
    pub fn at(handler: &Checked, may_be_partial: bool, ours: &[IpAddr]) -> Self {
        let memory = memory_of(handler);
        let counters = Map::percpu_array("counters", 8, Counter::COUNT).unwrap();
        let slots = Map::prog_array(2).unwrap();
        let program = in_kernel(handler, &memory, may_be_partial, ours);
        let program = program.program(slots.raw_fd(), counters.raw_fd());
        Self {
            prog: load(handler, &program, ours, false),
            memory,
            counters: Some(counters),
            _slots: slots,
        }
    }

    /// As the daemon makes it, behind a gate that has looked at addresses, and ends as the handler says.
    pub fn behind_gate(handler: &Checked) -> Self {
        let memory = memory_of(handler);
        let outcomes = Map::prog_array(OUTCOMES).unwrap();
        for (outcome, becomes) in [
            (outcome::Outcome::GaveUp, PASS),
            (outcome::Outcome::Done, DROP),
            (outcome::Outcome::Transmitted, TX),
        ] {
            let program = verdict(becomes);
            outcomes.set_fd(outcome as u32, program.as_fd()).unwrap();
        }
        let program = in_kernel(handler, &memory, true, &[]);
        let program = program.in_gate(outcomes.raw_fd());
        Self {
            prog: load(handler, &program, &[], true),
            memory,
            counters: None,
            _slots: outcomes,
        }
    }

    pub fn run(&self, frame: &[u8]) -> TestRun {
        self.prog.test_run(frame).unwrap()
    }

    /// What became of a message.
    pub fn outcome(&self, v6: bool, message: &[u8]) -> Outcome {
        let frame = frame(v6, message);
        let run = self.run(&frame);
        match run.verdict {
            PASS => {
                assert_eq!(run.packet, frame, "what is given up is as it came");
                Outcome::GivenUp
            }
            DROP => Outcome::Done,
            TX => Outcome::Reply(said(v6, &run.packet)),
            other => panic!("verdict {other}"),
        }
    }

    /// None behind a gate.
    pub fn counted(&self, counter: Counter) -> Option<u64> {
        let counters = self.counters.as_ref()?;
        Some(counters.sum_percpu_u64(counter as u32).unwrap()[0])
    }

    pub fn seen<'a>(&'a self, layout: &'a Layout, handler: &'a Checked) -> Memory<'a> {
        Memory::new(self.memory.words(), layout, handler.handler())
    }
}

fn memory_of(handler: &Checked) -> MappedArray {
    let layout = Layout::of(handler.handler());
    MappedArray::new("ash", layout.bytes() as usize, 1).unwrap()
}

fn in_kernel<'a>(
    handler: &'a Checked,
    memory: &MappedArray,
    may_be_partial: bool,
    ours: &[IpAddr],
) -> InKernel<'a> {
    InKernel {
        handler,
        memory_fd: memory.raw_fd(),
        mac: OURS,
        addresses: ours.to_vec(),
        not_from: vec![BROADCAST],
        port: PORT,
        may_be_partial,
        way_out: WayOut::Transmit,
    }
}

fn load(handler: &Checked, program: &Program, ours: &[IpAddr], fragments: bool) -> Prog {
    wait_for_freed();
    let words = program.words();
    let around = FRAME_OF_BODY + 40 * ours.len() as u64;
    let most = handler.instructions() + around;
    assert!(
        words.len() as u64 <= most,
        "{} of {most}\n{}",
        words.len(),
        handler.handler()
    );
    Prog::load(&words, "ash", fragments).unwrap_or_else(|e| {
        let text = handler.handler();
        let log: Vec<_> = e.log.lines().collect();
        let log = log[log.len().saturating_sub(60)..].join("\n");
        panic!("{text}\n{}\n{log}\n{e}", disassemble(&words))
    })
}

/// Loads a handler as a slot of a shared interface has it, for both versions of IP and sums that are still to be made.
/// Returns how many instructions the verifier followed: loading takes as long as that.
pub fn load_in_gate(handler: &Checked) -> u32 {
    let memory = memory_of(handler);
    let outcomes = Map::prog_array(OUTCOMES).unwrap();
    let program = InKernel {
        way_out: WayOut::Redirect(1),
        ..in_kernel(handler, &memory, true, &[])
    };
    let program = program.in_gate(outcomes.raw_fd());
    let loaded = load(handler, &program, &[], true);
    loaded.info().unwrap().verified_insns
}

/// A thousand programs that are freed at once fill a queue of the kernel's, for which loads wait (Linux 6.18: for ever).
fn wait_for_freed() {
    static LOADS: AtomicU32 = AtomicU32::new(0);
    if LOADS.fetch_add(1, Relaxed) % 64 == 63 {
        // SAFETY: a call without pointers, which waits for a grace period of RCU (membarrier(2)).
        unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    }
}
