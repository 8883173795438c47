//! The daemon with real interfaces: as root, in network namespaces of this test's own. Skipped, and said so, otherwise.
//!
//! A wire joins side a, where the daemon serves 10.78.0.7, and side b, a Linux host. The program under test speaks the
//! protocol by hand, so that it can also do what no honest program does.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use exos_host::netns::NetNs;
use exos_host::shared::SharedWords;
use exos_link::{Facts, Link, XdpLink};
use exos_xok::message::{Answer, FromDaemon, Mode, PortWish, Refusal, Request, VERSION};
use exos_xok::tables::Tables;
use exos_xok::{Claim, Protocol};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

const OURS: &str = "10.78.0.7";

/// Two namespaces and the wire between them, gone with this value.
struct Lab {
    name: String,
    daemon: Option<Child>,
}

impl Lab {
    /// `None` when this process may not make one.
    fn new(test: &str) -> Option<Self> {
        let name = format!("xokd-{test}-{}", std::process::id());
        let lab = Self { name, daemon: None };
        if !rustix::process::geteuid().is_root() || NetNs::create(&lab.side('a')).is_err() {
            eprintln!("SKIPPED {test}: needs root");
            return None;
        }
        NetNs::create(&lab.side('b')).expect("a second one");
        let [a, b] = ['a', 'b'].map(|side| NetNs::open(&lab.side(side)).expect("just made"));
        let [left, right] = [&a, &b].map(|ns| ns.netlink().expect("a socket"));
        let end = |name, netns| exos_host::netlink::VethEnd {
            netns,
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
        Some(lab)
    }

    fn side(&self, side: char) -> String {
        format!("{}-{side}", self.name)
    }

    fn socket(&self) -> PathBuf {
        std::env::temp_dir().join(format!("{}.sock", self.name))
    }

    /// Starts the daemon and waits until it listens.
    fn start(&mut self, more: &[&str]) {
        let ours = format!("{OURS}/24");
        self.launch(&[&["--address", &ours], more].concat());
    }

    fn launch(&mut self, more: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xokd"));
        command.args(["--namespace", &self.side('a'), "--interface", "wire"]);
        command.args(["--user", "0"]);
        command.arg("--socket").arg(self.socket()).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let said = child.stdout.take().expect("a pipe");
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(said));
        assert!(lines.any(|line| line.is_ok_and(|l| l.starts_with("listening"))));
        std::thread::spawn(move || lines.for_each(drop));
        self.daemon = Some(child);
    }

    fn kill(&mut self) {
        let mut child = self.daemon.take().expect("it runs");
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
    }

    /// As an operator does it: the daemon takes everything down.
    fn stop(&mut self) {
        let mut child = self.daemon.take().expect("it runs");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is ours");
        assert!(child.wait().expect("it ends").success());
    }

    /// Something on side b.
    fn over_there<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let there = NetNs::open(&self.side('b')).expect("it is there");
        there.run(work).expect("it can be entered")
    }

    /// Something on side a, the daemon's host.
    fn on_the_host<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let here = NetNs::open(&self.side('a')).expect("it is there");
        here.run(work).expect("it can be entered")
    }

    /// Connects from side b: `Err` carries what the peer answered.
    fn dial(&self, port: u16) -> std::io::Result<TcpStream> {
        let to = format!("{OURS}:{port}").parse().expect("an address");
        self.over_there(move || TcpStream::connect_timeout(&to, Duration::from_secs(2)))
    }

    fn interfaces(&self) -> Vec<String> {
        let here = NetNs::open(&self.side('a')).expect("it is there");
        let links = here
            .netlink()
            .and_then(|n| n.links())
            .expect("they can be listed");
        links.into_iter().map(|link| link.name).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut child) = self.daemon.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let mut clean = Command::new(env!("CARGO_BIN_EXE_xokd"));
        clean
            .args(["--clean", "--namespace", &self.side('a'), "--socket"])
            .arg(self.socket());
        let _ = clean.stdout(Stdio::null()).status();
        for side in ['a', 'b'] {
            let _ = NetNs::delete(&self.side(side));
        }
    }
}

/// A program's connection.
struct Program(OwnedFd);

impl Program {
    fn connect(lab: &Lab) -> Self {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None);
        let socket = socket.expect("a socket");
        let address = SocketAddrUnix::new(lab.socket()).expect("a path");
        rustix::net::connect(&socket, &address).expect("it listens");
        Self(socket)
    }

    fn ask(&self, request: &Request) -> (Answer, Vec<OwnedFd>) {
        rustix::net::send(&self.0, &request.encode(7), SendFlags::NOSIGNAL).expect("room");
        loop {
            let mut buffer = vec![0; exos_xok::limits::MESSAGE_BYTES_MAX];
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [std::io::IoSliceMut::new(&mut buffer)];
            let got = rustix::net::recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::empty());
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

    fn attach(&self) -> (Answer, Vec<OwnedFd>) {
        self.ask(&Request::Attach {
            interface: String::new(),
            mode: Mode::Auto,
            chunks: 512,
            program: "test".to_owned(),
        })
    }

    fn claim(&self, protocol: Protocol, port: PortWish) -> Answer {
        let request = Request::Claim {
            protocol,
            local: None,
            port,
            remote: None,
        };
        self.ask(&request).0
    }
}

fn port_of(answer: &Answer) -> (u32, Claim) {
    match answer {
        Answer::Granted { grant, claim } => (*grant, *claim),
        other => panic!("not granted: {other:?}"),
    }
}

fn refusal(answer: &Answer) -> (Refusal, &str) {
    match answer {
        Answer::Refused { code, text } => (*code, text),
        other => panic!("not refused: {other:?}"),
    }
}

fn within(time: Duration, mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + time;
    while !done() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// A datagram from side b, as the ring receives it.
fn receives(lab: &Lab, link: &mut Link, port: u16, text: &str) -> bool {
    receives_at(lab, link, (OURS, port), text)
}

fn receives_at(lab: &Lab, link: &mut Link, to: (&str, u16), text: &str) -> bool {
    lab.over_there(|| {
        let socket = UdpSocket::bind("10.78.0.2:0").expect("free");
        socket.send_to(text.as_bytes(), to).expect("a route");
    });
    within(Duration::from_secs(2), || {
        let mut found = false;
        link.receive(|frame, _| found |= frame.ends_with(text.as_bytes()));
        found
    })
}

#[test]
fn what_nobody_claims_is_answered_and_what_is_claimed_arrives() {
    let Some(mut lab) = Lab::new("basic") else {
        return;
    };
    lab.start(&[]);
    let reset = lab.dial(8080).expect_err("nobody is there");
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionRefused);
    let program = Program::connect(&lab);
    let (welcome, fds) = program.ask(&Request::Hello { version: VERSION });
    assert!(matches!(
        welcome,
        Answer::Welcome {
            version: VERSION,
            ..
        }
    ));
    let words = SharedWords::open(fds.into_iter().next().expect("the tables")).expect("sealed");
    let tables = Tables::new(words.words()).expect("tables");
    let peer = "10.78.0.2".parse().expect("an address");
    let index = tables.interfaces().next().expect("one").index;
    assert!(tables.neighbour(index, peer).is_some(), "it has asked us");
    let (attached, fds) = program.attach();
    let Answer::Attached { facts, slot, .. } = attached else {
        panic!("{attached:?}")
    };
    let adopted = XdpLink::adopt("wire", &Facts::from_bytes(&facts.link), fds).expect("a ring");
    let mut link = Link::from(adopted);
    let (_, claim) = port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    assert_eq!(claim.to_string(), format!("udp {OURS}:5353"));
    assert!(receives(&lab, &mut link, 5353, "for us"));
    assert!(tables.grants().any(|g| g.slot == slot && g.claim == claim));
    let other = Program::connect(&lab);
    other.attach();
    let held = other.claim(Protocol::Udp, PortWish::Number(5353));
    let (code, text) = refusal(&held);
    assert_eq!(code, Refusal::Held);
    assert!(text.contains("held by test (pid "), "{text}");
    let low = other.claim(Protocol::Tcp, PortWish::Number(80));
    assert_eq!(refusal(&low).0, Refusal::NotAllowed);
    // What is not granted does not leave: a frame of zeros to start with, from nobody.
    assert!(link.transmit(&[0; 60], &[], exos_link::TxMeta::default()));
    link.flush().expect("it is up");
    let refused = || {
        tables
            .slot(slot)
            .is_some_and(|s| s.counters.iter().sum::<u64>() > 2)
    };
    assert!(within(Duration::from_secs(3), refused), "it was counted");
    drop((program, link));
    assert!(within(Duration::from_secs(1), || tables
        .slot(slot)
        .is_none()));
    let (grant, _) = port_of(&other.claim(Protocol::Udp, PortWish::Number(5353)));
    assert!(matches!(
        other.ask(&Request::Release { grant }).0,
        Answer::Done
    ));
    drop(other);
    lab.stop();
    assert_eq!(lab.interfaces(), ["lo", "wire"], "nothing is left");
}

#[test]
fn programs_keep_what_they_have_when_the_daemon_is_killed() {
    let Some(mut lab) = Lab::new("killed") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let (attached, fds) = program.attach();
    let Answer::Attached {
        facts, token, slot, ..
    } = attached
    else {
        panic!("{attached:?}")
    };
    let adopted = XdpLink::adopt("wire", &Facts::from_bytes(&facts.link), fds).expect("a ring");
    let mut link = Link::from(adopted);
    let (grant, claim) = port_of(&program.claim(Protocol::Udp, PortWish::Ephemeral));
    // The peer has to know our Ethernet address: nobody answers for it while there is no daemon.
    assert!(receives(&lab, &mut link, claim.port, "with a daemon"));
    lab.kill();
    assert!(receives(&lab, &mut link, claim.port, "without a daemon"));
    lab.start(&[]);
    let again = Program::connect(&lab);
    let (stranger, _) = again.ask(&Request::Reattach {
        token: exos_xok::message::Secret([0; 16]),
    });
    assert_eq!(refusal(&stranger).0, Refusal::NotFound);
    let (back, _) = again.ask(&Request::Reattach { token });
    let Answer::Attached {
        slot: same, grants, ..
    } = back
    else {
        panic!("{back:?}")
    };
    assert_eq!((same, grants), (slot, vec![(grant, claim)]));
    // The next takes over in order, and the one before ends well.
    let mut before = lab.daemon.take().expect("it runs");
    lab.start(&["--replace"]);
    assert!(before.wait().expect("it ends").success());
    assert!(receives(&lab, &mut link, claim.port, "under another"));
    drop(again);
    let third = Program::connect(&lab);
    assert!(matches!(
        third.ask(&Request::Reattach { token }).0,
        Answer::Attached { .. }
    ));
    lab.kill();
    drop((third, link));
    let mut clean = Command::new(env!("CARGO_BIN_EXE_xokd"));
    clean
        .args(["--clean", "--namespace", &lab.side('a'), "--socket"])
        .arg(lab.socket());
    assert!(
        clean
            .stdout(Stdio::null())
            .status()
            .expect("it runs")
            .success()
    );
    assert_eq!(lab.interfaces(), ["lo", "wire"], "nothing is left");
}

/// The host's own address, shared: what is granted is the program's and cannot be the host's, all else stays the host's.
#[test]
fn ports_of_a_shared_address_are_the_programs_or_the_hosts() {
    const SHARED: &str = "10.78.0.1";
    let Some(mut lab) = Lab::new("shared") else {
        return;
    };
    lab.launch(&["--share-address"]);
    let bind_tcp = |lab: &Lab, port| lab.on_the_host(move || TcpListener::bind((SHARED, port)));
    let bind_udp = |lab: &Lab, port| lab.on_the_host(move || UdpSocket::bind((SHARED, port)));
    let everywhere = lab.on_the_host(|| TcpListener::bind("0.0.0.0:2222"));
    let everywhere = everywhere.expect("free");
    let program = Program::connect(&lab);
    let (attached, fds) = program.attach();
    let Answer::Attached { facts, token, .. } = attached else {
        panic!("{attached:?}")
    };
    let adopted = XdpLink::adopt("wire", &Facts::from_bytes(&facts.link), fds).expect("a ring");
    let mut link = Link::from(adopted);
    let held = program.claim(Protocol::Tcp, PortWish::Number(2222));
    let (code, text) = refusal(&held);
    assert_eq!(code, Refusal::Held);
    assert!(text.contains("another program of this host"), "{text}");
    let (tcp, _) = port_of(&program.claim(Protocol::Tcp, PortWish::Number(8080)));
    port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    bind_tcp(&lab, 8080).expect_err("the program has it");
    bind_udp(&lab, 5353).expect_err("the program has it");
    assert!(receives_at(&lab, &mut link, (SHARED, 5353), "granted"));
    // The host neither answers nor resets what goes to the program, and goes on serving the rest.
    let silent = lab.over_there(|| {
        let to = "10.78.0.1:8080".parse().expect("an address");
        TcpStream::connect_timeout(&to, Duration::from_millis(300))
    });
    let silent = silent.expect_err("the program does not answer").kind();
    assert_eq!(silent, std::io::ErrorKind::TimedOut);
    lab.over_there(|| TcpStream::connect((SHARED, 2222)))
        .expect("the host's listener answers");
    drop(everywhere);
    // The next daemon holds the ports again.
    lab.kill();
    lab.launch(&["--share-address"]);
    bind_tcp(&lab, 8080).expect_err("the program has it still");
    let again = Program::connect(&lab);
    assert!(matches!(
        again.ask(&Request::Reattach { token }).0,
        Answer::Attached { .. }
    ));
    again.ask(&Request::Release { grant: tcp });
    bind_tcp(&lab, 8080).expect("it was given back");
    bind_udp(&lab, 5353).expect_err("this one was not");
    drop((again, link));
    assert!(within(Duration::from_secs(2), || bind_udp(&lab, 5353).is_ok()));
}

/// What a scraper gets, in the namespace that the daemon was started in.
fn scrape(port: u16) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        .expect("room");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

#[test]
fn scrapers_read_the_counters_of_each_program() {
    let Some(mut lab) = Lab::new("metrics") else {
        return;
    };
    let free = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    lab.start(&["--metrics", &format!("127.0.0.1:{port}")]);
    let program = Program::connect(&lab);
    let (attached, fds) = program.attach();
    let Answer::Attached { facts, slot, .. } = attached else {
        panic!("{attached:?}")
    };
    let adopted = XdpLink::adopt("wire", &Facts::from_bytes(&facts.link), fds).expect("a ring");
    let mut link = Link::from(adopted);
    port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    assert!(receives(&lab, &mut link, 5353, "counted"));
    let labels = format!("interface=\"wire\",slot=\"{slot}\",program=\"test\",uid=\"0\"");
    let text = scrape(port);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    for line in [
        format!("exos_rx_packets_total{{{labels}}} 1"),
        format!("exos_grants{{{labels}}} 1"),
        "# TYPE exos_rx_packets_total counter".to_owned(),
        "exos_slots 1".to_owned(),
    ] {
        assert!(text.lines().any(|l| l == line), "no {line:?} in:\n{text}");
    }
    // A frame of zeros comes from nobody: dropped, and counted under a name.
    assert!(link.transmit(&[0; 60], &[], exos_link::TxMeta::default()));
    link.flush().expect("it is up");
    let dropped = format!("exos_tx_bad_mac_total{{{labels}}} 1");
    assert!(within(Duration::from_secs(3), || {
        scrape(port).lines().any(|l| l == dropped)
    }));
}
