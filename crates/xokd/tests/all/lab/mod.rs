//! Two namespaces with a wire between them, the daemon in one, and a program that speaks the protocol by hand, so that
//! it can also do what no honest program does. Needs root.
pub mod heard;
pub mod shortage;

use std::net::{TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use exos_host::netns::NetNs;
use exos_host::shared::SharedWords;
use exos_link::{Facts, Link, XdpLink};
use exos_xok::limits::MESSAGE_DESCRIPTORS_MAX;
use exos_xok::message::{
    Answer, FromDaemon, GrantId, Mode, Notice, PortWish, Refusal, Request, Revoked, Secret, VERSION,
};
use exos_xok::{Claim, Protocol};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

pub const OURS: &str = "10.78.0.7";

/// Longer than anything takes here, on the busiest machine: what takes longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Two namespaces and the wire between them, gone with this value.
pub struct Lab {
    pub name: String,
    pub daemon: Option<Child>,
}

impl Lab {
    /// `None` when this process may not make one.
    pub fn new(test: &str) -> Option<Self> {
        Self::with_queues(test, 1)
    }

    /// A lab whose wire has this many queues each way; `None` when this process may not make one.
    pub fn with_queues(test: &str, queues: u32) -> Option<Self> {
        Self::prepared(test, queues, |_| ())
    }

    /// A lab of this many queues, after `prepare` has run in the daemon's namespace, whose name it is given.
    pub fn prepared(test: &str, queues: u32, prepare: impl FnOnce(&str)) -> Option<Self> {
        let name = format!("xokd-{test}-{}", std::process::id());
        let lab = Self { name, daemon: None };
        if !rustix::process::geteuid().is_root() || NetNs::create(&lab.side('a')).is_err() {
            eprintln!("SKIPPED {test}: needs root");
            return None;
        }
        NetNs::create(&lab.side('b')).expect("a second one");
        prepare(&lab.side('a'));
        let [a, b] = ['a', 'b'].map(|side| NetNs::open(&lab.side(side)).expect("just made"));
        let [left, right] = [&a, &b].map(|ns| ns.netlink().expect("a socket"));
        let end = |name, netns| exos_host::netlink::VethEnd {
            netns,
            queues,
            ..exos_host::netlink::VethEnd::named(name)
        };
        let theirs = std::os::fd::AsFd::as_fd(&b);
        left.create_veth_pair(&end("wire", None), &end("wire", Some(theirs)))
            .expect("a pair");
        for (netlink, ip) in [(&left, "10.78.0.1"), (&right, "10.78.0.2")] {
            let index = netlink.link_by_name("wire").expect("it is there").index;
            netlink
                .add_address(index, ip.parse().expect("an address"), 24)
                .expect("free");
            netlink.set_up(index, true).expect("it is ours");
        }
        // Who asks for our address waits for as long as a daemon may take to answer, and knows it while there is none.
        for (setting, value) in [
            ("mcast_solicit", "300"),
            ("base_reachable_time_ms", "3600000"),
        ] {
            let setting = format!("net/ipv4/neigh/wire/{setting}");
            b.set_sysctl(&setting, value).expect("it has them");
        }
        Some(lab)
    }

    pub fn side(&self, side: char) -> String {
        format!("{}-{side}", self.name)
    }

    pub fn socket(&self) -> PathBuf {
        std::env::temp_dir().join(format!("{}.sock", self.name))
    }

    /// Starts the daemon and waits until it listens.
    pub fn start(&mut self, more: &[&str]) {
        let ours = format!("{OURS}/24");
        self.launch(&[&["--address", &ours], more].concat());
    }

    pub fn launch(&mut self, more: &[&str]) {
        self.run(&[&["--interface", "wire", "--user", "0"], more].concat());
    }

    /// The policy that the daemon reads.
    pub fn write_policy(&self, allow: &str) {
        let policy = format!(
            "[[interface]]\nname = \"wire\"\nrate = \"1gbit\"\naddresses = [\"{OURS}/24\"]\n{allow}"
        );
        std::fs::write(self.policy(), policy).expect("room");
    }

    pub fn policy(&self) -> PathBuf {
        std::env::temp_dir().join(format!("{}.toml", self.name))
    }

    /// Starts the daemon by a policy.
    pub fn start_by(&mut self, allow: &str) {
        self.write_policy(allow);
        let file = self.policy();
        self.run(&["--policy", file.to_str().expect("a name")]);
    }

    /// Has the daemon go by another policy.
    pub fn reload(&self, allow: &str) {
        self.write_policy(allow);
        self.signal(Signal::HUP);
    }

    pub fn signal(&self, signal: Signal) {
        let daemon = self.daemon.as_ref().expect("it runs");
        let pid = rustix::process::Pid::from_child(daemon);
        rustix::process::kill_process(pid, signal).expect("it is ours");
    }

    /// The daemon stands still, until it is told to continue.
    pub fn stand(&self) {
        self.signal(Signal::STOP);
        let pid = self.daemon.as_ref().expect("it runs").id();
        let state = format!("/proc/{pid}/stat");
        let stands = || std::fs::read_to_string(&state).is_ok_and(|text| text.contains(") T "));
        assert!(within(stands), "it goes on");
    }

    /// Starts the daemon with nothing but these arguments, and where it is.
    pub fn run(&mut self, args: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xokd"));
        command.args(["--namespace", &self.side('a'), "--socket"]);
        command.arg(self.socket()).args(args);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let said = child.stdout.take().expect("a pipe");
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(said));
        assert!(lines.any(|line| line.is_ok_and(|l| l.starts_with("listening"))));
        std::thread::spawn(move || lines.for_each(drop));
        self.daemon = Some(child);
    }

    pub fn kill(&mut self) {
        let mut child = self.daemon.take().expect("it runs");
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
    }

    /// As an operator does it: the daemon takes everything down.
    pub fn stop(&mut self) {
        let mut child = self.daemon.take().expect("it runs");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, Signal::TERM).expect("it is ours");
        assert!(child.wait().expect("it ends").success());
    }

    /// Something on side b.
    pub fn over_there<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let there = NetNs::open(&self.side('b')).expect("it is there");
        there.run(work).expect("it can be entered")
    }

    /// Something on side a, the daemon's host.
    pub fn on_the_host<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let here = NetNs::open(&self.side('a')).expect("it is there");
        here.run(work).expect("it can be entered")
    }

    /// Connects from side b: `Err` carries what the peer answered.
    pub fn dial(&self, port: u16) -> std::io::Result<TcpStream> {
        let to = format!("{OURS}:{port}").parse().expect("an address");
        self.over_there(move || TcpStream::connect_timeout(&to, PATIENCE))
    }

    /// Sends a datagram from side b.
    pub fn tell(&self, to: (&str, u16), text: &str) {
        self.over_there(|| {
            let socket = UdpSocket::bind("10.78.0.2:0").expect("free");
            socket.send_to(text.as_bytes(), to).expect("a route");
        });
    }

    /// The Ethernet address of the wire's end.
    pub fn mac(&self, side: char) -> [u8; 6] {
        let there = NetNs::open(&self.side(side)).expect("it is there");
        let link = there.netlink().and_then(|n| n.link_by_name("wire"));
        link.expect("the wire").mac.expect("it has one")
    }

    /// A datagram from our address to side b's, as a frame; without a checksum, which IPv4 allows.
    pub fn datagram(&self, from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
        let ip = [10, 78, 0, 7, 10, 78, 0, 2];
        let mut header = vec![
            0x45,
            0,
            0,
            (28 + payload.len()) as u8,
            0,
            0,
            0x40,
            0,
            64,
            17,
            0,
            0,
        ];
        header.extend(ip);
        let words = header
            .chunks(2)
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let sum: u32 = words.sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        let ports = [from, to, 8 + payload.len() as u16, 0];
        let ports = ports.map(u16::to_be_bytes).concat();
        let (b, a) = (self.mac('b'), self.mac('a'));
        [&b[..], &a, &[8, 0], &header, &ports, payload].concat()
    }

    pub fn interfaces(&self) -> Vec<String> {
        let here = NetNs::open(&self.side('a')).expect("it is there");
        let links = here
            .netlink()
            .and_then(|n| n.links())
            .expect("they can be listed");
        links.into_iter().map(|link| link.name).collect()
    }
}

impl Lab {
    /// What `--clean` says, in the daemon's namespace.
    pub fn clean(&self) -> Output {
        self.clean_by(&self.socket())
    }

    /// What `--clean` says where a daemon would listen at `socket`.
    pub fn clean_by(&self, socket: &Path) -> Output {
        clean(&self.side('a'), socket)
    }

    /// What `--clean` says in the namespace of this side.
    pub fn clean_from(&self, side: char) -> Output {
        clean(&self.side(side), &self.socket())
    }

    /// What a daemon that cannot start on the wire says.
    pub fn refused(&self, socket: &Path) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xokd"));
        command.args(["--namespace", &self.side('a'), "--interface", "wire"]);
        command.args(["--address", "10.78.0.8/24", "--socket"]);
        let output = command.arg(socket).output().expect("it runs");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("text")
    }
}

fn clean(namespace: &str, socket: &Path) -> Output {
    let mut clean = Command::new(env!("CARGO_BIN_EXE_xokd"));
    clean.args(["--clean", "--namespace", namespace, "--socket"]);
    clean.arg(socket).output().expect("it runs")
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut child) = self.daemon.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.clean();
        let _ = std::fs::remove_file(self.policy());
        for side in ['a', 'b'] {
            let _ = NetNs::delete(&self.side(side));
        }
    }
}

/// A program's connection.
pub struct Program(pub OwnedFd);

impl Program {
    pub fn connect(lab: &Lab) -> Self {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None);
        let socket = socket.expect("a socket");
        let address = SocketAddrUnix::new(lab.socket()).expect("a path");
        rustix::net::connect(&socket, &address).expect("it listens");
        Self(socket)
    }

    pub fn ask(&self, request: &Request) -> (Answer, Vec<OwnedFd>) {
        self.tell(request);
        self.answer()
    }

    /// Asks, and does not wait.
    pub fn tell(&self, request: &Request) {
        rustix::net::send(&self.0, &request.encode(7), SendFlags::NOSIGNAL).expect("room");
    }

    /// The answer to that.
    pub fn answer(&self) -> (Answer, Vec<OwnedFd>) {
        loop {
            let mut buffer = vec![0; exos_xok::limits::MESSAGE_BYTES_MAX];
            let mut space = [std::mem::MaybeUninit::uninit();
                rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [std::io::IoSliceMut::new(&mut buffer)];
            // A daemon that is started later must not have them too.
            let flags = RecvFlags::CMSG_CLOEXEC;
            let got = rustix::net::recvmsg(&self.0, &mut parts, &mut ancillary, flags);
            let len = got.expect("an answer").bytes;
            let fds = ancillary.drain().flat_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
                _ => Vec::new(),
            });
            let fds = fds.collect();
            if let FromDaemon::Answer(7, answer) =
                FromDaemon::decode(&buffer[..len]).expect("sound")
            {
                return (answer, fds);
            }
        }
    }

    /// The daemon's report of its first interface, made after this was called: one is lent for a while, the longer the longer it took to make.
    pub fn report(&self) -> Value {
        let called = clock_gettime(ClockId::Monotonic);
        let called_ns = called.tv_sec as u64 * 1_000_000_000 + called.tv_nsec as u64;
        loop {
            let (_, fds) = self.ask(&Request::Status);
            let file = std::fs::File::from(fds.into_iter().next().expect("a report"));
            let mut report: Value = serde_json::from_reader(file).expect("JSON");
            crate::daemon::every_field_is_described(&report);
            if report["time_ns"].as_u64() >= Some(called_ns) {
                return report["interfaces"][0].take();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the daemon says unasked, if anything.
    pub fn notice(&self) -> Option<Notice> {
        let mut buffer = vec![0; exos_xok::limits::MESSAGE_BYTES_MAX];
        let (len, _) = rustix::net::recv(&self.0, &mut *buffer, RecvFlags::DONTWAIT).ok()?;
        match FromDaemon::decode(&buffer[..len]).expect("sound") {
            FromDaemon::Notice(notice) => Some(notice),
            FromDaemon::Answer(..) => None,
        }
    }

    /// What the daemon asks for next.
    pub fn revoked(&self) -> Revoked {
        let mut found = None;
        let asked = within(|| {
            if let Some(Notice::Revoke { what, .. }) = self.notice() {
                found = Some(what);
            }
            found.is_some()
        });
        assert!(asked, "nothing is asked for");
        found.expect("just so")
    }

    /// The tables, as a program has them.
    pub fn tables(&self) -> SharedWords {
        let (_, fds) = self.ask(&Request::Hello { version: VERSION });
        SharedWords::open(fds.into_iter().next().expect("the tables")).expect("sealed")
    }

    pub fn attach(&self) -> (Answer, Vec<OwnedFd>) {
        self.attach_by(Mode::Auto)
    }

    pub fn attach_by(&self, mode: Mode) -> (Answer, Vec<OwnedFd>) {
        self.ask(&Request::Attach {
            interface: String::new(),
            mode,
            chunks: 512,
            program: "test".to_owned(),
        })
    }

    /// A slot with its ring.
    pub fn attached(&self) -> Attached {
        self.attached_by(Mode::Auto)
    }

    pub fn attached_by(&self, mode: Mode) -> Attached {
        Attached::from(self.attach_by(mode))
    }

    pub fn claim(&self, protocol: Protocol, port: PortWish) -> Answer {
        let request = Request::Claim {
            protocol,
            local: None,
            port,
            remote: None,
        };
        self.ask(&request).0
    }
}

/// What a program has of its slot.
pub struct Attached {
    pub slot: u32,
    pub token: Secret,
    pub direct: bool,
    pub descriptors: usize,
    pub link: Link,
}

impl From<(Answer, Vec<OwnedFd>)> for Attached {
    fn from((answer, fds): (Answer, Vec<OwnedFd>)) -> Self {
        let descriptors = fds.len();
        let Answer::Attached {
            facts, slot, token, ..
        } = answer
        else {
            panic!("{answer:?}")
        };
        let adopted = XdpLink::adopt("wire", &Facts::from_bytes(&facts.link), fds);
        Self {
            slot,
            token,
            direct: facts.direct,
            descriptors,
            link: Link::from(adopted.expect("a ring")),
        }
    }
}

pub fn port_of(answer: &Answer) -> (GrantId, Claim) {
    match answer {
        Answer::Granted { grant, claim } => (*grant, *claim),
        other => panic!("not granted: {other:?}"),
    }
}

pub fn refusal(answer: &Answer) -> (Refusal, &str) {
    match answer {
        Answer::Refused { code, text } => (*code, text),
        other => panic!("not refused: {other:?}"),
    }
}

/// Whether it comes true before patience ends. The time in which nobody looked, because the machine stood still, does not end it.
pub fn within(mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    let mut looks = 0;
    while !done() {
        looks += 1;
        if looks > 100 && Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// A datagram from side b, as the ring receives it.
pub fn receives(lab: &Lab, link: &mut Link, port: u16, text: &str) -> bool {
    receives_at(lab, link, (OURS, port), text)
}

pub fn receives_at(lab: &Lab, link: &mut Link, to: (&str, u16), text: &str) -> bool {
    lab.tell(to, text);
    within(|| {
        let mut found = false;
        link.receive(|frame, _| found |= frame.ends_with(text.as_bytes()));
        found
    })
}
