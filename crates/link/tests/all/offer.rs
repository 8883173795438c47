//! A link made by root and used by a process that may do nothing: it exchanges packets, and everything
//! else that its descriptors could be thought to allow fails. As root; the namespaces are the tests'
//! own.
//!
//! The program's side runs in a process of its own, this test program once more, with the name of one
//! ignored test: as user 65534, without any capability, in a namespace that has no part in the link.

use crate::common;

use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use common::*;
use exos_host::netlink::VethEnd;
use exos_host::netns::NetNs;
use exos_link::{Facts, Feed, Link, Offer, OfferConfig, TxChecksum, TxMeta, XdpLink};
use exos_wire::checksum::Sum;
use exos_wire::ethernet::{ETHERTYPE_IPV4, EthernetHeader, EthernetView};
use exos_wire::ipv4::{Ipv4Header, Ipv4View};
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, TcpView, fill_partial_checksum};
use exos_wire::{Mac, SeqNumber, protocol};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

const NOBODY: u32 = 65_534;
const CHUNKS: u32 = 256;

/// The kernel gives a queue free some time after the last socket of it has been closed.
const QUEUE_WAIT: Duration = PATIENCE;

/// The kernel's port that answers with what it got.
const ECHO_PORT: u16 = 7;

/// What the program's process is told beside the descriptors.
struct Hello {
    facts: Facts,
    peer: Mac,
}

impl Hello {
    const LEN: usize = Facts::LEN + 6;

    fn to_bytes(&self) -> Vec<u8> {
        [&self.facts.to_bytes()[..], &self.peer.0].concat()
    }

    fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let (facts, peer) = bytes.split_first_chunk().expect("the facts");
        Self {
            facts: Facts::from_bytes(facts),
            peer: Mac(peer.try_into().expect("six bytes")),
        }
    }
}

fn offer(wire: &Wire) -> Offer {
    Offer::make(&OfferConfig {
        namespace: &wire.our_ns,
        interface: OUR_INTERFACE.to_owned(),
        queue: 0,
        chunks: CHUNKS,
        mac: wire.our_mac,
        rx_partial_checksum: true,
        super_packets: true,
        prefer_busy_poll: false,
        feed: Feed::Everything(None),
        queue_wait: QUEUE_WAIT,
    })
    .unwrap()
}

/// Has a test of this file run as the program that the link is for, and pass.
fn run_program(test: &str, wire: &Wire, offer: &Offer, namespace: &NetNs) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new("/proc/self/exe");
    command
        .args([test, "--exact", "--ignored", "--nocapture"])
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = namespace.run(|| command.spawn().unwrap()).unwrap();
    let hello = Hello {
        facts: offer.facts,
        peer: wire.their_mac,
    };
    let packet = offer.packet.as_ref().unwrap();
    let fds = [&offer.socket, &offer.memory, packet].map(|fd| fd.as_fd());
    pass(&ours, &hello.to_bytes(), &fds);
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

fn pass(to: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    let sent = sendmsg(
        to,
        &[io::IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::empty(),
    );
    assert_eq!(sent.unwrap(), bytes.len());
}

/// What the parent passed through standard input.
fn passed() -> (Hello, Vec<OwnedFd>) {
    let mut bytes = [0; Hello::LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [io::IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    recvmsg(io::stdin(), &mut into, &mut ancillary, flags).unwrap();
    let fds = ancillary
        .drain()
        .flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
            _ => Vec::new(),
        })
        .collect();
    (Hello::from_bytes(&bytes), fds)
}

/// The link works for a process without privilege, and nothing but the link does.
#[test]
fn a_process_without_privilege_has_the_link_and_nothing_else() {
    if skip_without_root("a_process_without_privilege_has_the_link_and_nothing_else") {
        return;
    }
    let wire = Wire::new(1500);
    let offer = offer(&wire);
    let elsewhere = NetNs::anonymous().unwrap();
    let netlink = elsewhere.netlink().unwrap();
    // So that it has interfaces of numbers that the slot's namespace does not have.
    for i in 0..4 {
        let names = [format!("x{i}"), format!("y{i}")];
        let [a, b] = [0, 1].map(|j| VethEnd::named(&names[j]));
        netlink.create_veth_pair(&a, &b).unwrap();
    }
    let _echo = Echo::start(&wire);
    run_program("offer::program_of_nobody", &wire, &offer, &elsewhere);
}

/// Without what the daemon keeps the link receives nothing, and with all of it gone the queue is free.
#[test]
fn what_is_held_is_the_way_in() {
    if skip_without_root("what_is_held_is_the_way_in") {
        return;
    }
    let wire = Wire::new(1500);
    let first = offer(&wire);
    let adopt = |offer: Offer| {
        let fds = vec![offer.socket, offer.memory, offer.packet.unwrap()];
        let link = XdpLink::adopt(OUR_INTERFACE, &offer.facts, fds).unwrap();
        (Link::from(link), offer.held)
    };
    let (mut link, held) = adopt(first);
    let socket = wire.their_socket();
    socket.send_to(b"one", (OURS, OUR_PORT)).unwrap();
    receive_until(&mut link, |frame, _| {
        udp_payload(frame, OUR_PORT) == Some(b"one")
    });
    drop(held);
    wait_for("the program to go", || wire.xdp_program().is_none());
    // What the other side's kernel says of itself may have come before that.
    while link.receive(|_, _| ()) > 0 {}
    socket.send_to(b"two", (OURS, OUR_PORT)).unwrap();
    assert!(!wait_readable(&link, Duration::from_millis(50)));
    drop(link);
    adopt(offer(&wire));
}

/// Whatever does not fit together is refused before anything of it is used.
#[test]
fn what_does_not_fit_together_is_refused() {
    if skip_without_root("what_does_not_fit_together_is_refused") {
        return;
    }
    let wire = Wire::new(1500);
    let Offer {
        facts,
        socket,
        memory,
        packet,
        held: _held,
    } = offer(&wire);
    let packet = packet.unwrap();
    let copies = |fds: &[&OwnedFd]| fds.iter().map(|fd| fd.try_clone().unwrap()).collect();
    let refused = |facts: &Facts, fds: Vec<OwnedFd>| {
        let error = XdpLink::adopt("va", facts, fds).unwrap_err().to_string();
        assert!(error.contains("same version"), "{error}");
        error
    };
    let all = [&socket, &memory, &packet];
    let more = Facts {
        rx_ring: 2 * facts.rx_ring,
        ..facts
    };
    refused(&more, copies(&all));
    let longer = Facts {
        chunk_size: 4096,
        ..facts
    };
    assert!(refused(&longer, copies(&all)).contains("bytes of memory are"));
    assert!(refused(&facts, copies(&all[..2])).contains("2 descriptors"));
    assert!(refused(&facts, Vec::new()).contains("0 descriptors"));
    assert!(refused(&facts, copies(&[&packet, &memory, &socket])).contains("AF_XDP socket"));
    assert!(refused(&facts, copies(&[&socket, &memory, &memory])).contains("packet socket"));
    let unsealed = OwnedFd::from(fs::File::open("/dev/zero").unwrap());
    assert!(refused(&facts, copies(&[&socket, &unsealed, &packet])).contains("sealed"));
    XdpLink::adopt("va", &facts, copies(&all)).unwrap();
}

/// Answers packets at [`ECHO_PORT`] of the other side until dropped.
struct Echo {
    thread: Option<std::thread::JoinHandle<()>>,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Echo {
    fn start(wire: &Wire) -> Self {
        let bind = || std::net::UdpSocket::bind((THEIRS, ECHO_PORT)).unwrap();
        let socket = wire.their_ns.run(bind).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let stop = std::sync::Arc::<std::sync::atomic::AtomicBool>::default();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                    socket.send_to(&buffer[..len], from).unwrap();
                }
            }
        });
        Self {
            thread: Some(thread),
            stop,
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// The program that the link is for.
#[test]
#[ignore = "run by another test of this file, in a process of its own"]
fn program_of_nobody() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    assert!(
        status.contains("CapEff:\t0000000000000000"),
        "no capabilities"
    );
    assert!(status.contains(&format!("Uid:\t{NOBODY}\t{NOBODY}")));
    let (hello, fds) = passed();
    let copies: Vec<OwnedFd> = fds.iter().map(|fd| fd.try_clone().unwrap()).collect();
    let link = XdpLink::adopt("va", &hello.facts, fds).unwrap();
    assert!(link.offload().tx_segmentation.is_some());
    let mut link = Link::from(link);
    exchange(&mut link, &hello, 1000);
    send_super_packet(&mut link, &hello);
    let [socket, memory, packet] = &copies[..] else {
        panic!("three descriptors");
    };
    bound_once_and_for_all(socket);
    sealed(memory, hello.facts.memory_len());
    confined(packet);
    exchange(&mut link, &hello, 10);
    assert_eq!(counter(&link, "rx_bad_descriptor"), 0);
}

/// Sends frames to the echo service, one after the other, and gets them back.
fn exchange(link: &mut Link, hello: &Hello, count: u32) {
    let pair = Addresses {
        from: hello.facts.mac,
        to: hello.peer,
        src: OURS,
        dst: THEIRS,
    };
    for n in 0..count {
        let payload = [&n.to_be_bytes()[..], &vec![n as u8; n as usize % 1400]].concat();
        let frame = udp_frame(&pair, ECHO_PORT, &payload, true);
        assert!(link.transmit(&frame, &[], TxMeta::default()));
        link.flush().unwrap();
        receive_until(link, |frame, _| {
            udp_payload(frame, OUR_PORT) == Some(&payload)
        });
    }
}

/// 20,000 bytes of TCP in one frame reach the kernel, which answers that nobody is there.
fn send_super_packet(link: &mut Link, hello: &Hello) {
    const DATA: usize = 20_000;
    let header = TcpHeader {
        src_port: OUR_PORT,
        dst_port: 9,
        seq: SeqNumber(1),
        ack: SeqNumber(0),
        flags: TcpFlags::PSH,
        window: 1000,
        urgent: 0,
    };
    let mut head = vec![0; 54];
    let addresses = (hello.peer, hello.facts.mac);
    emit_headers(&mut head, addresses, OURS, THEIRS, 20 + DATA);
    header.emit(&TcpOptions::default(), &mut head[34..]);
    let len = 20 + DATA as u32;
    let pseudo = Sum::pseudo_v4(OURS, THEIRS, protocol::TCP, len);
    fill_partial_checksum(&mut head[34..], pseudo);
    let meta = TxMeta {
        checksum: TxChecksum::Partial {
            start: 34,
            offset: 16,
        },
        segment_size: Some(1448),
        ipv6: false,
        datagrams: false,
        header_len: 54,
    };
    assert!(link.transmit(&head, &[&[7; DATA]], meta));
    link.flush().unwrap();
    assert_eq!(counter(link, "tx_super_packets"), 1);
    let segments = DATA.div_ceil(1448);
    assert_eq!(counter(link, "tx_super_packet_segments"), segments as u64);
    let bytes = DATA + segments * 54;
    assert_eq!(counter(link, "tx_super_packet_segment_bytes"), bytes as u64);
    // What the kernel refuses has not been taken.
    let segments_of_nothing = TxMeta {
        segment_size: Some(0),
        ..meta
    };
    assert!(!link.transmit(&head, &[&[7; DATA]], segments_of_nothing));
    assert_eq!(counter(link, "tx_super_packet_refused"), 1);
    assert_eq!(counter(link, "tx_super_packets"), 1);
    // RFC 9293 §3.10.7.1: the reset acknowledges all of the data.
    receive_until(link, |frame, _| {
        let ip = EthernetView::parse(frame).unwrap().payload();
        let ip = Ipv4View::parse(ip).ok();
        let ip = ip.filter(|ip| ip.protocol() == protocol::TCP);
        ip.is_some_and(|ip| {
            let tcp = TcpView::parse(ip.payload()).unwrap();
            tcp.flags().contains(TcpFlags::RST) && tcp.ack() == SeqNumber(1 + DATA as u32)
        })
    });
}

fn emit_headers(head: &mut [u8], (dst, src): (Mac, Mac), from: Ipv4Addr, to: Ipv4Addr, len: usize) {
    let ethernet = EthernetHeader {
        dst,
        src,
        vlan: None,
        ethertype: ETHERTYPE_IPV4,
    };
    ethernet.emit(head);
    let ip = Ipv4Header::atomic(from, to, protocol::TCP);
    ip.emit(len, &mut head[14..]);
}

/// Nothing of a bound AF_XDP socket can be changed: neither where it is, nor its memory, nor its rings.
fn bound_once_and_for_all(socket: &OwnedFd) {
    for interface in 1..=16 {
        for flags in [0, libc::XDP_COPY, libc::XDP_SHARED_UMEM] {
            let address = libc::sockaddr_xdp {
                sxdp_family: libc::AF_XDP as u16,
                sxdp_flags: flags,
                sxdp_ifindex: interface,
                sxdp_queue_id: 0,
                sxdp_shared_umem_fd: socket.as_raw_fd() as u32,
            };
            assert_eq!(bind(socket, &address), Err(libc::EBUSY));
        }
    }
    for ring in [
        libc::XDP_RX_RING,
        libc::XDP_TX_RING,
        libc::XDP_UMEM_FILL_RING,
        libc::XDP_UMEM_COMPLETION_RING,
    ] {
        assert_eq!(set(socket, libc::SOL_XDP, ring, &64_u32), Err(libc::EBUSY));
    }
    let mut own = vec![0_u8; 1 << 16];
    let region = libc::xdp_umem_reg {
        addr: own.as_mut_ptr().align_offset(4096) as u64 + own.as_mut_ptr() as u64,
        len: 8 * 4096,
        chunk_size: 4096,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    let registered = set(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &region);
    assert_eq!(registered, Err(libc::EBUSY));
    assert_eq!(namespace_of(socket), Err(libc::EPERM));
    assert_eq!(new_socket(libc::AF_XDP), Err(libc::EPERM), "of its own");
}

/// The memory grows no more, and stays what can be written.
fn sealed(memory: &OwnedFd, len: u64) {
    let memory = fs::File::from(memory.try_clone().unwrap());
    let error = memory.set_len(len + 4096).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    // SAFETY: numbers only.
    let sealed = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_WRITE) };
    assert_eq!(result(sealed), Err(libc::EBUSY));
    assert_eq!(memory.metadata().unwrap().len(), len);
}

/// A packet socket reaches the interfaces of its own namespace, the end of our pair and the loopback,
/// and no others; it changes nothing on them, and takes no memory for rings.
fn confined(packet: &OwnedFd) {
    let here: Vec<(u32, String)> = (1..=64)
        .filter_map(|index| Some((index, name_of(packet, index)?)))
        .collect();
    let mut names: Vec<&str> = here.iter().map(|(_, name)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["lo", OUR_INTERFACE]);
    for index in 1..=64 {
        // SAFETY: all-zero is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index;
        let bound = bind(packet, &address);
        match here.iter().find(|(i, _)| *i == index as u32) {
            // The loopback is down in here.
            Some((_, name)) if name == "lo" => {
                assert!(matches!(bound, Ok(()) | Err(libc::ENETDOWN)))
            }
            Some(_) => assert_eq!(bound, Ok(())),
            None => assert_eq!(bound, Err(libc::ENODEV), "interface {index}"),
        }
    }
    for option in [libc::PACKET_RX_RING, libc::PACKET_TX_RING] {
        for blocks in [0, 1, 1024] {
            let ring = libc::tpacket_req {
                tp_block_size: 4096,
                tp_block_nr: blocks,
                tp_frame_size: 4096,
                tp_frame_nr: blocks,
            };
            let set = set(packet, libc::SOL_PACKET, option, &ring);
            assert_eq!(set, Err(libc::EBUSY), "ring of {blocks} blocks");
        }
    }
    assert_eq!(take_down(packet), Err(libc::EPERM));
    assert_eq!(namespace_of(packet), Err(libc::EPERM));
    assert_eq!(new_socket(libc::AF_PACKET), Err(libc::EPERM), "of its own");
    let back = here.iter().find(|(_, name)| name == OUR_INTERFACE).unwrap();
    // SAFETY: all-zero is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = back.0 as i32;
    assert_eq!(bind(packet, &address), Ok(()));
}

/// A system call's result: nothing, or the error's number.
fn result(returned: i32) -> Result<(), i32> {
    if returned < 0 {
        Err(io::Error::last_os_error().raw_os_error().unwrap())
    } else {
        Ok(())
    }
}

fn bind<T>(socket: &OwnedFd, address: &T) -> Result<(), i32> {
    let (at, len) = (std::ptr::from_ref(address).cast(), size_of::<T>() as u32);
    // SAFETY: a structure of the length given.
    result(unsafe { libc::bind(socket.as_raw_fd(), at, len) })
}

fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> Result<(), i32> {
    let (at, len) = (std::ptr::from_ref(value).cast(), size_of::<T>() as u32);
    // SAFETY: a value of the length given.
    result(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, len) })
}

fn new_socket(family: i32) -> Result<(), i32> {
    // SAFETY: numbers only.
    let fd = unsafe { libc::socket(family, libc::SOCK_RAW, 0) };
    result(fd)?;
    // SAFETY: just made.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

/// Asks for a descriptor of the socket's network namespace.
fn namespace_of(socket: &OwnedFd) -> Result<(), i32> {
    const SIOCGSKNS: libc::c_ulong = 0x894c;
    // SAFETY: a request without an argument.
    result(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS) })
}

fn request() -> libc::ifreq {
    // SAFETY: integers and unions of them, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

/// The name of an interface of the socket's namespace.
fn name_of(socket: &OwnedFd, index: u32) -> Option<String> {
    let mut request = request();
    request.ifr_ifru.ifru_ifindex = index as i32;
    // SAFETY: the kernel reads and writes one `ifreq`.
    let asked = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME, &raw mut request) };
    result(asked).ok()?;
    let name = request.ifr_name.iter().take_while(|&&c| c != 0);
    Some(name.map(|&c| char::from(c.cast_unsigned())).collect())
}

/// Asks for our end of the pair to be taken down.
fn take_down(socket: &OwnedFd) -> Result<(), i32> {
    let mut request = request();
    for (to, from) in request.ifr_name.iter_mut().zip(OUR_INTERFACE.bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: the kernel reads one `ifreq`.
    result(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request) })
}
