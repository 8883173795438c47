//! What the tests over the real kernel share: a veth pair between two namespaces
//! of their own, which goes when dropped, and UDP frames by hand.
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use exos_filter::{Action, Filter, Rule};
use exos_host::kernel::Version;
use exos_host::netlink::{Netlink, VethEnd};
use exos_host::netns::NetNs;
use exos_link::{Link, RxMeta, TxChecksum, TxMeta, XdpConfig, XdpLink};
use exos_wire::checksum::Sum;
use exos_wire::ethernet::{ETHERTYPE_IPV4, EthernetHeader, EthernetView};
use exos_wire::ipv4::{Ipv4Header, Ipv4View};
use exos_wire::udp::{UdpHeader, UdpView};
use exos_wire::{Mac, protocol};

/// Our address on the wire.
pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The kernel's.
pub const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The port that we receive at.
pub const OUR_PORT: u16 = 9000;
/// How long to wait for what must happen, on a machine that may do other things.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Packets that may be under way between the two kernels: fewer than the 256 for which a veth has room.
pub const UNDER_WAY: u32 = 200;

/// Says why a test is not run, and whether.
pub fn skip_without_root(test: &str) -> bool {
    // SAFETY: no arguments, cannot fail.
    let skip = unsafe { libc::geteuid() } != 0;
    if skip {
        say_skipped(test, "root");
    }
    skip
}

/// In one piece, and past the test harness, which keeps to itself what passing
/// tests print.
pub fn say_skipped(test: &str, needs: &str) {
    use std::io::Write as _;
    let line = format!("SKIPPED: {test} needs {needs}\n");
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("standard error");
}

/// Two namespaces joined by a veth: the calling thread is in the one where our
/// end is, the kernel has an address in the other.
pub struct Wire {
    pub our_ns: NetNs,
    pub their_ns: NetNs,
    pub our_mac: Mac,
    pub their_mac: Mac,
    names: [String; 2],
}

/// The interface on our side.
pub const OUR_INTERFACE: &str = "va";

impl Wire {
    pub fn new(mtu: u32) -> Self {
        Self::with_queues(mtu, 1)
    }

    /// Both ends receive and send by this many queues.
    pub fn with_queues(mtu: u32, queues: u32) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let stem = format!(
            "exos-link-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let names = ["a", "b"].map(|side| format!("{stem}{side}"));
        let [our_ns, their_ns] = [0, 1].map(|i| NetNs::create(&names[i]).unwrap());
        let (our_mac, their_mac) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let wire = Self {
            our_ns,
            their_ns,
            our_mac,
            their_mac,
            names,
        };
        wire.our_ns.enter().unwrap();
        wire.join(mtu, queues);
        wire
    }

    fn join(&self, mtu: u32, queues: u32) {
        let (ours, theirs) = (Netlink::new().unwrap(), self.their_ns.netlink().unwrap());
        let end = |name, mac: Mac| VethEnd {
            mac: Some(mac.0),
            mtu: Some(mtu),
            queues,
            ..VethEnd::named(name)
        };
        let there = their_end(self.their_ns.as_fd(), end("vb", self.their_mac));
        ours.create_veth_pair(&end(OUR_INTERFACE, self.our_mac), &there)
            .unwrap();
        let (a, b) = (
            ours.link_by_name(OUR_INTERFACE).unwrap(),
            theirs.link_by_name("vb").unwrap(),
        );
        ours.set_up(a.index, true).unwrap();
        theirs.set_up(b.index, true).unwrap();
        theirs.add_address(b.index, IpAddr::V4(THEIRS), 24).unwrap();
        theirs
            .set_neighbour(b.index, IpAddr::V4(OURS), self.our_mac.0)
            .unwrap();
    }

    /// A UDP socket of the kernel on the other side.
    pub fn their_socket(&self) -> UdpSocket {
        their_socket(&self.their_ns)
    }

    /// A frame from us to the kernel's `port`.
    pub fn frame_to(&self, port: u16, payload: &[u8]) -> Vec<u8> {
        let pair = Addresses {
            from: self.our_mac,
            to: self.their_mac,
            src: OURS,
            dst: THEIRS,
        };
        udp_frame(&pair, port, payload, true)
    }

    /// The id of the XDP program on our end.
    pub fn xdp_program(&self) -> Option<u32> {
        let netlink = self.our_ns.netlink().unwrap();
        netlink
            .link_by_name(OUR_INTERFACE)
            .unwrap()
            .xdp
            .map(|xdp| xdp.prog_id)
    }
}

fn their_end<'a>(ns: std::os::fd::BorrowedFd<'a>, end: VethEnd<'a>) -> VethEnd<'a> {
    VethEnd {
        netns: Some(ns),
        ..end
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // With the namespaces goes the pair. A failure cannot be dealt with here.
        for name in &self.names {
            let _ = NetNs::delete(name);
        }
    }
}

/// Rules that claim what a filter says.
pub fn claim(text: &str) -> Vec<Rule> {
    vec![Rule {
        filter: Filter::parse(text).unwrap(),
        action: Action::RedirectToSocket,
    }]
}

/// Rules that claim [`OUR_PORT`].
pub fn our_rules() -> Vec<Rule> {
    claim("udp dst port 9000")
}

/// Whether the running kernel is older.
pub fn is_before(major: u32, minor: u32) -> bool {
    exos_host::kernel::version().unwrap() < Version { major, minor }
}

/// Whether frames of this MTU need more room than a chunk, and the kernel has no pieces.
pub fn is_too_large(mtu: u32) -> bool {
    mtu > 3498 && is_before(6, 6)
}

/// Sends all that is queued: before Linux 6.17 the kernel does not show what one call has sent of more than it sends in one.
pub fn flush_all(link: &mut Link) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        link.flush().unwrap();
        if !link.wants_write() {
            return;
        }
        assert!(Instant::now() < deadline, "{:?}", link.counters());
    }
}

/// Our end of the wire, with those rules.
pub fn config() -> XdpConfig {
    XdpConfig::new(OUR_INTERFACE, our_rules())
}

/// A link on our end of the wire.
pub fn open_xdp() -> Link {
    XdpLink::open(&config()).unwrap().into()
}

/// A UDP socket of the kernel at [`THEIRS`] in a namespace.
pub fn their_socket(ns: &NetNs) -> UdpSocket {
    let socket = ns.run(|| UdpSocket::bind((THEIRS, 0)).unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sender and receiver of a frame.
pub struct Addresses {
    pub from: Mac,
    pub to: Mac,
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
}

/// A UDP frame from [`OUR_PORT`], with its checksum or only that of the
/// pseudo-header.
pub fn udp_frame(pair: &Addresses, port: u16, payload: &[u8], complete: bool) -> Vec<u8> {
    const HEADERS_LEN: usize = 14 + 20 + 8;
    let mut frame = vec![0; HEADERS_LEN];
    EthernetHeader {
        dst: pair.to,
        src: pair.from,
        vlan: None,
        ethertype: ETHERTYPE_IPV4,
    }
    .emit(&mut frame);
    Ipv4Header::atomic(pair.src, pair.dst, protocol::UDP).emit(8 + payload.len(), &mut frame[14..]);
    let pseudo = Sum::pseudo_v4(pair.src, pair.dst, protocol::UDP, 8 + payload.len() as u32);
    let header = UdpHeader {
        src_port: OUR_PORT,
        dst_port: port,
    };
    let sum = pseudo.plus(Sum::of(payload));
    header.emit(payload.len(), sum, &mut frame[34..]);
    if !complete {
        frame[40..42].copy_from_slice(&pseudo.value().to_be_bytes());
    }
    frame.extend_from_slice(payload);
    frame
}

/// What is left to do for a frame made without a complete checksum.
pub const PARTIAL_UDP: TxMeta = TxMeta {
    checksum: TxChecksum::Partial {
        start: 34,
        offset: 6,
    },
    segment_size: None,
    ipv6: false,
    datagrams: false,
    header_len: 42,
};

/// The payload of a UDP packet to `port`, when the frame is one.
pub fn udp_payload(frame: &[u8], port: u16) -> Option<&[u8]> {
    let ethernet = EthernetView::parse(frame).ok()?;
    if ethernet.ethertype() != ETHERTYPE_IPV4 {
        return None;
    }
    let ip = Ipv4View::parse(ethernet.payload()).ok()?;
    let udp = UdpView::parse(ip.payload())
        .ok()
        .filter(|_| ip.protocol() == protocol::UDP)?;
    (udp.dst_port() == port).then(|| udp.payload())
}

/// Receives until `done` says that it has seen enough, or fails when patience ends.
pub fn receive_until(link: &mut Link, mut done: impl FnMut(&[u8], RxMeta) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    let mut enough = false;
    while !enough {
        assert!(
            Instant::now() < deadline,
            "not received in time: {:?}",
            link.counters()
        );
        if link.receive(|frame, meta| enough |= done(frame, meta)) == 0 && link.prepare_wait() {
            wait_readable(link, Duration::from_millis(100));
        }
    }
}

/// Sleeps until the link is readable. True when it is.
pub fn wait_readable(link: &Link, at_most: Duration) -> bool {
    use std::os::fd::AsRawFd as _;
    let fd = link.fd().expect("a link to the kernel").as_raw_fd();
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, which lives through the call.
    unsafe { libc::poll(&raw mut poll, 1, at_most.as_millis() as i32) > 0 }
}

/// Waits until something is so, or fails when patience ends.
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The value of a counter.
pub fn counter(link: &Link, name: &str) -> u64 {
    let found = link.counters().into_iter().find(|(n, _)| *n == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}
