//! What comes in to a program that has all ports of an address, and what it may send, frame by frame: of other protocols and
//! addresses, fragments, errors about what is its own and what is not. As root, in network namespaces of this test's own.
//! Skipped, and said so, otherwise.
//!
//! Nothing waits for a time to pass to show that a frame did not arrive: behind all of them one is sent that must, on the
//! same way.

use crate::lab;
use crate::packet_socket;
use crate::packets;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use exos_host::netns::NetNs;
use exos_link::{Link, TxMeta};
use exos_wire::{Mac, protocol};
use exos_xok::Protocol;
use exos_xok::message::{PortWish, Request};
use lab::*;
use packets::FrameEnds;
use rustix::net::{RecvFlags, SendFlags};

/// An address beside [`OURS`] on the same interface.
const OTHER: &str = "10.78.0.8";
/// The far end's.
const FAR: &str = "10.78.0.2:5000";
/// Behind everything else.
const LAST: &str = "the last of them";
/// RFC 2784: nobody here speaks it.
const GRE: u8 = 47;

/// Whose a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    /// The program's that has all ports.
    Whole,
    /// The program's beside it.
    Beside,
    /// Neither's: the daemon's, the host's, or dropped.
    Nobodys,
}
use Whose::{Beside, Nobodys, Whole};

/// The Ethernet addresses of both ends.
struct Macs {
    us: Mac,
    them: Mac,
}

impl Macs {
    fn new(lab: &Lab) -> Self {
        Self {
            us: Mac(lab.mac('a')),
            them: Mac(lab.mac('b')),
        }
    }

    /// To an end of ours.
    fn to(&self, ip: &str, port: u16) -> FrameEnds {
        FrameEnds {
            from_mac: self.them,
            to_mac: self.us,
            from: FAR.parse().expect("an end"),
            to: end(ip, port),
        }
    }
}

fn end(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

fn turned(ends: &FrameEnds) -> FrameEnds {
    FrameEnds {
        from_mac: ends.to_mac,
        to_mac: ends.from_mac,
        from: ends.to,
        to: ends.from,
    }
}

/// Ports, and what stands for the rest of a header; who looks at no more than ports takes it for a segment.
fn ports(ends: &FrameEnds) -> Vec<u8> {
    let ports = [
        ends.from.port(),
        ends.to.port(),
        0,
        0,
        0,
        0,
        0x5000,
        0,
        0,
        0,
    ];
    ports.map(u16::to_be_bytes).concat()
}

/// A frame's name, at its end.
fn named(ends: &FrameEnds, protocol: u8, header: &[u8], name: &str) -> Vec<u8> {
    packets::ip(ends, protocol, &[header, name.as_bytes()].concat())
}

/// A piece of a packet whose first has not been seen.
fn later(ends: &FrameEnds, protocol: u8, name: &str) -> Vec<u8> {
    let mut frame = named(ends, protocol, &[0; 20], name);
    // RFC 791 §3.1: the offset, in units of eight bytes, and no flag; another identification than others'.
    frame[18..22].copy_from_slice(&[0x77, protocol, 0, 185]);
    frame
}

/// An error (RFC 792: port unreachable) about a packet that went this way, to who sent it.
fn error_about(about: &FrameEnds, protocol: u8, name: &str) -> Vec<u8> {
    error_by(&turned(about), about, protocol, name)
}

fn error_by(ends: &FrameEnds, about: &FrameEnds, protocol: u8, name: &str) -> Vec<u8> {
    let quoted = packets::ip(about, protocol, &ports(about));
    let header = [&[3, 3, 0, 0, 0, 0, 0, 0], &quoted[14..]].concat();
    named(ends, protocol::ICMP, &header, name)
}

fn echo(ends: &FrameEnds, name: &str) -> Vec<u8> {
    named(ends, protocol::ICMP, &[8, 0, 0, 0, 1, 2, 0, 3], name)
}

fn udp(ends: &FrameEnds, name: &str) -> Vec<u8> {
    packets::udp(ends, name.as_bytes())
}

fn tcp(ends: &FrameEnds, name: &str) -> Vec<u8> {
    named(ends, protocol::TCP, &ports(ends), name)
}

/// This frame, of another network (IEEE 802.1Q).
fn tagged(mut frame: Vec<u8>) -> Vec<u8> {
    frame.splice(12..12, [0x81, 0, 0, 7]);
    frame
}

/// Whose a frame is, its name, and the frame, which ends with that.
type Case = (Whose, String, Vec<u8>);

fn case(way: &str, whose: Whose, name: &str, frame: &dyn Fn(&str) -> Vec<u8>) -> Case {
    let name = format!("{way}, {name}");
    let frame = frame(&name);
    (whose, name, frame)
}

/// The names of those among `frames` that end with one, of `all`.
fn names<'a>(frames: &[Vec<u8>], all: &[&'a str]) -> Vec<&'a str> {
    let is_there = |name: &&str| frames.iter().any(|f| f.ends_with(name.as_bytes()));
    all.iter().copied().filter(is_there).collect()
}

/// The names of frames that are somebody's.
fn of(cases: &[Case], whose: Whose) -> Vec<&str> {
    let their = cases.iter().filter(|(of, ..)| *of == whose);
    their.map(|(_, name, _)| name.as_str()).collect()
}

/// What arrives at a ring, up to the last.
fn received(link: &mut Link) -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    up_to_the_last(|| {
        link.receive(|frame, _| frames.push(frame.to_vec()));
        frames.iter().any(|frame| frame.ends_with(LAST.as_bytes()))
    });
    frames
}

/// What arrives at the far end, up to the last. Its kernel's own packets are seen there too: errors that quote what has
/// arrived, which leave as late as its question for our link address is answered.
fn seen(far: &OwnedFd, far_mac: Mac) -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    up_to_the_last(|| {
        while let Ok((len, _)) = rustix::net::recv(far, &mut buffer[..], RecvFlags::DONTWAIT) {
            let frame = &buffer[..len];
            if frame[6..12] != far_mac.0 {
                frames.push(frame.to_vec());
            }
        }
        frames.iter().any(|frame| frame.ends_with(LAST.as_bytes()))
    });
    frames
}

fn up_to_the_last(mut is_there: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !is_there() {
        assert!(Instant::now() < patience, "the last one does not arrive");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn send(link: &mut Link, frame: &[u8]) {
    assert!(link.transmit(frame, &[], TxMeta::default()), "room");
    link.flush().expect("it is up");
}

/// The world of a test: a program with all ports of [`OURS`], one with single ports beside it, and the far end.
struct World {
    lab: Lab,
    far: OwnedFd,
    _programs: [Program; 2],
    whole: Link,
    beside: Link,
}

impl World {
    fn new(test: &str, protocol: Protocol, ports: &[(Protocol, &str)]) -> Option<Self> {
        let mut lab = Lab::new(test)?;
        let policy = format!(
            "[[interface]]\nname = \"wire\"\naddresses = [\"{OURS}/24\", \"{OTHER}/24\"]\n\
             [[allow]]\nuser = \"root\"\nprotocols = [\"ip\", \"tcp\", \"udp\"]\nports = [\"1-65535\"]\n"
        );
        let file = lab.policy();
        std::fs::write(&file, policy).expect("room");
        lab.run(&["--policy", file.to_str().expect("a name")]);
        let programs = [Program::connect(&lab), Program::connect(&lab)];
        let [whole, beside] = [&programs[0], &programs[1]].map(|p| p.attached().link);
        let claim = |program: &Program, protocol, ip: &str, port| {
            let request = Request::Claim {
                protocol,
                local: Some(ip.parse().expect("an address")),
                port,
                remote: None,
            };
            port_of(&program.ask(&request).0);
        };
        claim(&programs[0], protocol, OURS, PortWish::All);
        for (protocol, ip) in ports {
            claim(&programs[1], *protocol, ip, PortWish::Number(4000));
        }
        let there = NetNs::open(&lab.side('b')).expect("it is there");
        let link = there.netlink().and_then(|n| n.link_by_name("wire"));
        let index = link.expect("the wire").index;
        let far = there.run(|| packet_socket::open(index));
        Some(Self {
            far: far.expect("it can be entered"),
            lab,
            _programs: programs,
            whole,
            beside,
        })
    }

    /// Sends all from the far end: each arrives at whose it is, and nowhere else. The last ones are for both.
    fn comes_in(&mut self, cases: &[Case], last: [Vec<u8>; 2]) {
        let frames = cases.iter().map(|(.., frame)| frame).chain(&last);
        for frame in frames {
            let sent = rustix::net::send(&self.far, frame, SendFlags::empty());
            assert_eq!(sent, Ok(frame.len()));
        }
        let all: Vec<&str> = cases.iter().map(|(_, name, _)| name.as_str()).collect();
        for (link, whose) in [(&mut self.whole, Whole), (&mut self.beside, Beside)] {
            let frames = received(link);
            assert_eq!(names(&frames, &all), of(cases, whose), "{whose:?}");
        }
    }

    /// Both send all of it: what leaves is whose it is.
    fn goes_out(&mut self, cases: &[Case], last: [Vec<u8>; 2]) {
        let all: Vec<&str> = cases.iter().map(|(_, name, _)| name.as_str()).collect();
        let senders = [(&mut self.whole, Whole), (&mut self.beside, Beside)];
        for ((link, whose), last) in senders.into_iter().zip(last) {
            cases.iter().for_each(|(.., frame)| send(link, frame));
            send(link, &last);
            let frames = seen(&self.far, Mac(self.lab.mac('b')));
            assert_eq!(names(&frames, &all), of(cases, whose), "{whose:?}");
        }
    }
}

/// Frames between the far end and an address of which a program has all ports of a protocol: by an end of that program, of the one
/// beside it, of that one by another protocol, of nobody, and the first with a wrong Ethernet address. `sole` is who has later
/// pieces of others: those that come in are the only one's that has ports there, and none may be sent.
fn about_a_protocol(
    way: &str,
    [ours, theirs, beside, nobodys, station]: &[FrameEnds; 5],
    sole: Whose,
) -> [Case; 18] {
    let case = |whose, name, frame: &dyn Fn(&str) -> Vec<u8>| case(way, whose, name, frame);
    let error = |about, protocol, name: &str| error_about(&turned(about), protocol, name);
    [
        case(Whole, "any port", &|name| udp(ours, name)),
        case(Whole, "a port that a program has of TCP", &|name| {
            udp(beside, name)
        }),
        case(Beside, "another address", &|name| udp(theirs, name)),
        case(Nobodys, "nobody's port there", &|name| udp(nobodys, name)),
        case(Beside, "a port of TCP", &|name| tcp(beside, name)),
        case(Nobodys, "nobody's of TCP", &|name| tcp(ours, name)),
        case(Nobodys, "another protocol", &|name| {
            named(ours, GRE, &[0; 8], name)
        }),
        case(Nobodys, "an echo request", &|name| echo(ours, name)),
        case(Whole, "a later piece", &|name| {
            later(ours, protocol::UDP, name)
        }),
        case(sole, "of another address", &|name| {
            later(theirs, protocol::UDP, name)
        }),
        case(sole, "of another protocol", &|name| {
            later(ours, protocol::TCP, name)
        }),
        case(Whole, "an error", &|name| error(ours, protocol::UDP, name)),
        case(Beside, "an error of others", &|name| {
            error(theirs, protocol::UDP, name)
        }),
        case(Beside, "an error of TCP", &|name| {
            error(beside, protocol::TCP, name)
        }),
        case(Nobodys, "an error of nobody's", &|name| {
            error(ours, protocol::TCP, name)
        }),
        case(Nobodys, "an error by another", &|name| {
            error_by(theirs, &turned(ours), protocol::UDP, name)
        }),
        case(Nobodys, "another network", &|name| tagged(udp(ours, name))),
        case(Nobodys, "another station", &|name| udp(station, name)),
    ]
}

/// All ports of one protocol, beside a port of another protocol of the same address and one of the protocol elsewhere.
#[test]
fn all_ports_of_a_protocol() {
    let beside = [(Protocol::Tcp, OURS), (Protocol::Udp, OTHER)];
    let Some(mut world) = World::new("both-ways", Protocol::Udp, &beside) else {
        return;
    };
    let macs = Macs::new(&world.lab);
    let ends = [(OURS, 9), (OTHER, 4000), (OURS, 4000), (OTHER, 9)];
    let ends = ends.map(|(ip, port)| macs.to(ip, port));
    let wrong = Mac([2, 9, 9, 9, 9, 9]);

    let [ours, theirs, beside, nobodys] = ends;
    let to_another = FrameEnds {
        to_mac: wrong,
        ..ours
    };
    let cases = about_a_protocol("in", &[ours, theirs, beside, nobodys, to_another], Beside);
    world.comes_in(&cases, [udp(&ours, LAST), udp(&theirs, LAST)]);

    let [ours, theirs, beside, nobodys] = ends.map(|ends| turned(&ends));
    let by_another = FrameEnds {
        from_mac: wrong,
        ..ours
    };
    let cases = about_a_protocol("out", &[ours, theirs, beside, nobodys, by_another], Nobodys);
    world.goes_out(&cases, [udp(&ours, LAST), udp(&theirs, LAST)]);
}

/// Frames between the far end and an address that a program has all of, and another address with one port of a program's.
fn about_an_address(way: &str, [ours, theirs, there]: &[FrameEnds; 3]) -> [Case; 12] {
    let case = |whose, name, frame: &dyn Fn(&str) -> Vec<u8>| case(way, whose, name, frame);
    [
        case(Whole, "a datagram", &|name| udp(ours, name)),
        case(Whole, "a segment", &|name| tcp(ours, name)),
        case(Whole, "another protocol", &|name| {
            named(ours, GRE, &[0; 8], name)
        }),
        case(Whole, "an echo request", &|name| echo(ours, name)),
        case(Whole, "a later piece", &|name| later(ours, GRE, name)),
        case(Whole, "an error", &|name| {
            error_about(&turned(ours), GRE, name)
        }),
        case(Beside, "another address", &|name| udp(theirs, name)),
        case(Nobodys, "a segment there", &|name| tcp(theirs, name)),
        case(Nobodys, "another protocol there", &|name| {
            named(there, GRE, &[0; 8], name)
        }),
        case(Nobodys, "an echo request there", &|name| echo(there, name)),
        case(Nobodys, "a later piece there", &|name| {
            later(there, GRE, name)
        }),
        case(Nobodys, "an error there", &|name| {
            error_about(&turned(there), GRE, name)
        }),
    ]
}

/// All of an address, beside a port of another.
#[test]
fn all_of_an_address() {
    let beside = [(Protocol::Udp, OTHER)];
    let Some(mut world) = World::new("all-of-it", Protocol::Any, &beside) else {
        return;
    };
    let macs = Macs::new(&world.lab);
    let ends = [(OURS, 9), (OTHER, 4000), (OTHER, 9)].map(|(ip, port)| macs.to(ip, port));
    let lasts = |ends: &[FrameEnds; 3]| [udp(&ends[0], LAST), udp(&ends[1], LAST)];
    world.comes_in(&about_an_address("in", &ends), lasts(&ends));
    let ends = ends.map(|ends| turned(&ends));
    world.goes_out(&about_an_address("out", &ends), lasts(&ends));
}
