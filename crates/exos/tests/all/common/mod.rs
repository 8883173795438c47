//! A daemon that says what a test has it say, and a wire to the kernel whose end it lends.
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use exos::{Daemon, Role};
use exos_host::netlink::VethEnd;
use exos_host::netns::NetNs;
use exos_host::shared::SharedWords;
use exos_link::{Feed, Offer, OfferConfig};
use exos_wire::Mac;
use exos_xok::Claim;
use exos_xok::message::{
    Answer, Facts, GrantId, InterfaceInfo, LocalAddress, Notice, Refusal, Request, Secret, VERSION,
};
use exos_xok::tables::{self, Neighbour, NeighbourState, TablesWriter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recvmsg,
    sendmsg, socket_with,
};

/// How long to wait for what must happen, on a machine that may do other things.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The address that is lent.
pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);
/// The kernel's at the other end.
pub const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);
/// The number of the interface, in messages and tables.
pub const INTERFACE: u32 = 42;
/// Its name.
pub const NAME: &str = "lent0";
/// What proves that a slot is one's own.
pub const TOKEN: Secret = Secret([7; 16]);

/// Where a test's daemon listens.
pub struct Listener {
    pub path: PathBuf,
    fd: OwnedFd,
}

impl Listener {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("exos-via-{}-{number}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let fd = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        bind(&fd, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&fd, 4).unwrap();
        Self { path, fd }
    }

    pub fn accept(&self) -> Peer {
        wait_readable(self.fd.as_fd());
        Peer(accept_with(&self.fd, SocketFlags::CLOEXEC).unwrap())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The daemon's end of a connection.
pub struct Peer(OwnedFd);

impl Peer {
    /// The next request.
    pub fn request(&self) -> (u32, Request) {
        wait_readable(self.0.as_fd());
        let mut buffer = vec![0; 1 << 16];
        let mut space = [MaybeUninit::uninit(); 64];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut buffer)];
        let got = recvmsg(&self.0, &mut into, &mut ancillary, RecvFlags::empty()).unwrap();
        assert!(got.bytes > 0, "the program has gone");
        Request::decode(&buffer[..got.bytes]).unwrap()
    }

    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let pieces = [IoSlice::new(bytes)];
        let sent = sendmsg(&self.0, &pieces, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
        assert_eq!(sent, bytes.len());
    }

    pub fn answer(&self, tag: u32, answer: &Answer, fds: &[BorrowedFd<'_>]) {
        self.send(&answer.encode(tag), fds);
    }

    pub fn notice(&self, notice: &Notice) {
        self.send(&notice.encode(), &[]);
    }

    /// Takes the greeting, and answers it.
    pub fn welcome(&self, lent: &Lent) {
        let (tag, request) = self.request();
        assert_eq!(request, Request::Hello { version: VERSION });
        let welcome = Answer::Welcome {
            version: VERSION,
            pid: std::process::id(),
            interfaces: vec![lent.info.clone()],
        };
        self.answer(tag, &welcome, &[lent.tables.as_fd()]);
    }

    /// Greets a program and lends it an end of the wire, for as long as the offer is there. Returns what it has asked.
    pub fn lend(&self, lent: &Lent, wire: &Wire) -> (Request, Offer) {
        self.welcome(lent);
        let (tag, request) = self.request();
        let offer = wire.offer();
        let packet = offer.packet.as_ref().unwrap();
        let fds = [offer.socket.as_fd(), offer.memory.as_fd(), packet.as_fd()];
        self.answer(tag, &attached(&offer), &fds);
        // Of a kernel that lends no ways past the interface: the link does without.
        let (tag, bypass) = self.request();
        assert_eq!(bypass, Request::Bypass);
        let (code, text) = (Refusal::Unsupported, String::from("not on this kernel"));
        self.answer(tag, &Answer::Refused { code, text }, &[]);
        (request, offer)
    }

    /// Takes a claim, grants it as `grant`, and returns it.
    pub fn grant(&self, grant: GrantId, fill_in: impl Fn(&Request) -> Claim) -> Claim {
        let (tag, request) = self.request();
        let claim = fill_in(&request);
        self.answer(tag, &Answer::Granted { grant, claim }, &[]);
        claim
    }
}

fn wait_readable(fd: BorrowedFd<'_>) {
    let timeout = Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&timeout)).unwrap(), 1, "nothing came");
}

/// A veth from a namespace in which the lent end is to one where the kernel has an address.
pub struct Wire {
    pub slot: NetNs,
    pub kernel: NetNs,
    mac: Mac,
    kernel_mac: Mac,
}

impl Wire {
    pub fn new() -> Self {
        let [slot, kernel] = [0, 1].map(|_| NetNs::anonymous().unwrap());
        let (mac, kernel_mac) = (Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 1, 2]));
        let inside = slot.netlink().unwrap();
        let ours = VethEnd {
            mac: Some(mac.0),
            ..VethEnd::named("exos0")
        };
        let theirs = VethEnd {
            mac: Some(kernel_mac.0),
            netns: Some(kernel.as_fd()),
            ..VethEnd::named("wire0")
        };
        inside.create_veth_pair(&ours, &theirs).unwrap();
        let index = inside.link_by_name("exos0").unwrap().index;
        inside.set_up(index, true).unwrap();
        let outside = kernel.netlink().unwrap();
        let index = outside.link_by_name("wire0").unwrap().index;
        outside.add_address(index, THEIRS.into(), 24).unwrap();
        outside.set_up(index, true).unwrap();
        outside.set_neighbour(index, OURS.into(), mac.0).unwrap();
        Self {
            slot,
            kernel,
            mac,
            kernel_mac,
        }
    }

    pub fn offer(&self) -> Offer {
        Offer::make(&OfferConfig {
            namespace: &self.slot,
            interface: "exos0".to_owned(),
            queue: 0,
            chunks: 1024,
            mac: self.mac,
            rx_partial_checksum: true,
            super_packets: true,
            prefer_busy_poll: false,
            feed: Feed::Everything(None),
            queue_wait: Duration::ZERO,
        })
        .unwrap()
    }

    /// What the daemon knows of the kernel at the other end.
    pub fn neighbour(&self) -> Neighbour {
        Neighbour {
            interface: INTERFACE,
            ip: THEIRS.into(),
            mac: self.kernel_mac,
            state: NeighbourState::Reachable,
            confirmed_ns: 1,
        }
    }
}

/// A program that wants `port` of the daemon's address; one that only connects where it is 0.
pub fn wanted(listener: &Listener, port: u16) -> Daemon {
    let role = match port {
        0 => Role::Connect(Vec::new()),
        port => Role::Serve(vec![port]),
    };
    Daemon {
        interface: Some(NAME.to_owned()),
        socket: listener.path.clone(),
        ..Daemon::new(role)
    }
}

/// What the daemon has to lend.
pub struct Lent {
    pub info: InterfaceInfo,
    pub tables: SharedWords,
}

impl Lent {
    pub fn new() -> Self {
        let tables = SharedWords::create("tables", tables::WORDS).unwrap();
        TablesWriter::new(tables.words(), std::process::id());
        let info = InterfaceInfo {
            name: NAME.to_owned(),
            index: INTERFACE,
            mac: Mac([2, 0, 0, 0, 1, 1]),
            mtu: 1500,
            addresses: vec![LocalAddress {
                ip: IpAddr::V4(OURS),
                prefix: 24,
                ours_alone: true,
            }],
            gateways: Vec::new(),
        };
        Self { info, tables }
    }

    /// Enters a neighbour, and says so.
    pub fn learn(&self, neighbour: &Neighbour) {
        let writer = TablesWriter::new(self.tables.words(), std::process::id());
        writer.set_neighbour(neighbour);
        writer.changed();
    }
}

/// The answer to a request for a link.
pub fn attached(offer: &Offer) -> Answer {
    Answer::Attached {
        slot: 3,
        token: TOKEN,
        facts: Facts {
            interface: INTERFACE,
            direct: false,
            link: offer.facts.to_bytes(),
        },
        grants: Vec::new(),
    }
}

/// True without root; says so.
pub fn skip_without_root(test: &str) -> bool {
    let skip = !rustix::process::geteuid().is_root();
    if skip {
        use std::io::Write as _;
        let line = format!("SKIPPED: {test} needs root\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    skip
}

/// Runs a loop until something is so, or fails when patience ends.
pub fn until_so(what: &str, mut done: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + PATIENCE;
    let mut looks = 0;
    while !done() {
        looks += 1;
        // The time in which nobody looked, because the machine stood still, does not end it.
        let is_late = looks > 100 && std::time::Instant::now() > until;
        assert!(!is_late, "waited in vain for {what}");
    }
}
