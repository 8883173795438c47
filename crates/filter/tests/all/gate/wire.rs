//! A gate on real interfaces: a device with a wire to a peer, and slots, all in one namespace.
//!
//! ```text
//! peer0 ==== wire0 (D: XDP "in", tcx egress "host")        xok0 ==== exos0   slot 0, the daemon
//!                                                          xok1 ==== exos1   slots 1 and 2
//! ```

use super::model::Model;
use super::{MAC, Tables, load_tc, load_xdp};
use exos_filter::gate::{self as gates, Checksum, Slot, SlotKind};
use exos_host::bpf::{KernelTypes, Link, Prog, TcxHook, TcxLink, XdpMode};
use exos_host::netlink::Netlink;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The offsets of the running kernel; None when it does not say.
pub fn checksum() -> Option<Checksum> {
    let types = KernelTypes::load().ok()?;
    let member = |name: &str| {
        let member = types.member("sk_buff", name)?;
        Some((member.offset_bits, member.width_bits))
    };
    Checksum::from_layout(types.function("bpf_cast_to_kern_ctx")?, member)
}

/// How long to wait for what must happen, on a machine that may do other things.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Wire {
    pub tables: Tables,
    pub model: Model,
    pub peer: Packets,
    pub slots: Vec<Packets>,
    pub device: u32,
    _links: (Vec<Link>, Vec<TcxLink>, Vec<Prog>),
}

impl Wire {
    /// Three slots; `fill` makes the tables.
    pub fn new(fill: impl FnOnce(&mut Model)) -> Self {
        let netlink = Netlink::new().unwrap();
        netlink.create_veth("wire0", "peer0").unwrap();
        let index = |name: &str| netlink.link_by_name(name).unwrap().index;
        let (device, peer) = (index("wire0"), index("peer0"));
        netlink.set_mac(device, MAC).unwrap();
        let mut model = Model::default();
        (model.config.mac, model.config.ifindex) = (MAC, device);
        let ends: Vec<[u32; 2]> = (0..3)
            .map(|i| {
                let names = [format!("xok{i}"), format!("exos{i}")];
                netlink.create_veth(&names[0], &names[1]).unwrap();
                names.each_ref().map(|name| index(name))
            })
            .collect();
        for (number, [ifindex, _]) in ends.iter().enumerate() {
            let kind = if number == 0 {
                SlotKind::Daemon
            } else {
                SlotKind::Veth
            };
            let (mac, ifindex) = (MAC, *ifindex);
            model.slots[number] = Slot {
                kind,
                ifindex,
                mac,
                ..Slot::default()
            };
            model.by_ifindex.insert(ifindex, number as u32);
            model.ports.insert(number as u32);
        }
        fill(&mut model);
        for index in [device, peer]
            .into_iter()
            .chain(ends.iter().flatten().copied())
        {
            netlink.set_up(index, true).unwrap();
        }
        let tables = super::create();
        tables.fill(&model);
        let links = attach(&tables, device, &ends);
        Self {
            peer: Packets::open(peer),
            slots: ends
                .iter()
                .map(|[_, inner]| Packets::open(*inner))
                .collect(),
            tables,
            model,
            device,
            _links: links,
        }
    }
}

fn attach(tables: &Tables, device: u32, ends: &[[u32; 2]]) -> (Vec<Link>, Vec<TcxLink>, Vec<Prog>) {
    let fds = tables.fds();
    let incoming = load_xdp(&gates::incoming(&fds));
    let outgoing = load_tc(&gates::outgoing(&fds, checksum().as_ref()));
    let host = load_tc(&gates::from_host(&fds));
    // r0 = XDP_PASS; exit
    let pass = Prog::load(&[0x0000_0002_0000_00b7, 0x95], "pass", false).unwrap();
    let mut links = vec![Link::attach_xdp(device, &incoming, XdpMode::Native).unwrap()];
    let mut tcx = Vec::from_iter(attach_tc(device, &host, TcxHook::Egress));
    for [outer, inner] in ends {
        // A veth takes redirected packets only while its peer has a program.
        links.push(Link::attach_xdp(*inner, &pass, XdpMode::Native).unwrap());
        tcx.extend(attach_tc(*outer, &outgoing, TcxHook::Ingress));
    }
    (links, tcx, vec![incoming, outgoing, host, pass])
}

/// A tcx link, or a filter, which goes with the namespace, where the kernel has none (before Linux 6.6).
fn attach_tc(ifindex: u32, prog: &Prog, hook: TcxHook) -> Option<TcxLink> {
    match TcxLink::attach(ifindex, prog, hook) {
        Err(error) if error.is(libc::EINVAL) => {
            let netlink = Netlink::new().unwrap();
            netlink.put_filter(ifindex, hook, prog.as_fd()).unwrap();
            None
        }
        link => Some(link.unwrap()),
    }
}

/// A packet socket on one interface.
pub struct Packets(OwnedFd);

fn check(result: libc::c_int) -> libc::c_int {
    assert!(result >= 0, "{}", io::Error::last_os_error());
    result
}

impl Packets {
    pub fn open(ifindex: u32) -> Self {
        let all = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: no pointers; the descriptor is ours alone.
        let fd = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            OwnedFd::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, all.into())))
        };
        // SAFETY: all zero is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = ifindex as i32;
        // SAFETY: the address lives over the call and has this size.
        check(unsafe {
            let len = size_of_val(&address) as u32;
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len)
        });
        let packets = Self(fd);
        // What a batch brings at once has room, whatever the kernel reckons for each.
        packets.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 8 << 20);
        packets
    }

    /// From now on each packet that is sent begins with a virtio-net header.
    pub fn with_virtio_header(self) -> Self {
        const PACKET_VNET_HDR: libc::c_int = 15;
        self.set(libc::SOL_PACKET, PACKET_VNET_HDR, 1);
        self
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) {
        // SAFETY: the option's value lives over the call and has this size.
        check(unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                level,
                option,
                (&raw const value).cast(),
                size_of_val(&value) as u32,
            )
        });
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the bytes live over the call.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    /// The next packet that has arrived and is not our own sending.
    pub fn next(&self) -> Option<Vec<u8>> {
        loop {
            let mut frame = vec![0; 70_000];
            // SAFETY: all zero is a valid sockaddr_ll; the kernel writes at most what the sizes say.
            let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            let mut size = size_of_val(&from) as u32;
            // SAFETY: as above.
            let got = unsafe {
                libc::recvfrom(
                    self.0.as_raw_fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    libc::MSG_DONTWAIT,
                    (&raw mut from).cast(),
                    &raw mut size,
                )
            };
            if got < 0 {
                return None;
            }
            frame.truncate(got as usize);
            if from.sll_pkttype != libc::PACKET_OUTGOING {
                return Some(frame);
            }
        }
    }

    /// The next packet that is not our own sending, before [`PATIENCE`] ends, of those that `wanted` takes.
    pub fn receive(&self, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let start = std::time::Instant::now();
        while start.elapsed() < PATIENCE {
            match self.next() {
                Some(frame) if wanted(&frame) => return Some(frame),
                Some(_) => {}
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        None
    }

    pub fn expect(&self, frame: &[u8]) {
        assert!(self.receive(|have| have == frame).is_some(), "not received");
    }
}
