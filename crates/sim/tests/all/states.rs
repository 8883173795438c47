//! Every TCP state against every kind of segment, on a whole stack: what it answers, and where it
//! goes.
//!
//! One host is the subject. It is led into a state, the wire is cut, and one segment made by hand
//! arrives. The table of answers and states that comes of it is compared as a whole, and was
//! checked against RFC 9293 §3.10.7, RFC 5961 and RFC 1337 by eye: a change of any cell is a change
//! of behaviour to be looked at.

use exos_inet::stack::RxChecksum;
use exos_sim::prelude::*;
use exos_wire::ethernet::{ETHERTYPE_IPV4, EthernetHeader, EthernetView};
use exos_wire::ipv4::{Ipv4Header, Ipv4View};
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, TcpView, fill_checksum};
use exos_wire::{SeqNumber, Sum, ipv4, protocol, tcp};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

/// A segment that was put on the wire.
#[derive(Clone)]
struct Seen {
    from: usize,
    header: TcpHeader,
    timestamp: u32,
    /// Sequence numbers that it takes.
    len: u32,
}

/// Subject, connection, and all that was said.
struct Scene {
    sim: Sim,
    subject: usize,
    conn: Option<Conn>,
    seen: Rc<RefCell<Vec<Seen>>>,
    cut: Rc<RefCell<bool>>,
}

impl Scene {
    fn new(subject: usize) -> Scene {
        let mut sim = Sim::new(Seed(21)).latency(ms(10));
        sim.server.listen(80, Plan::MANUAL);
        let (seen, cut) = (
            Rc::new(RefCell::new(Vec::new())),
            Rc::new(RefCell::new(false)),
        );
        let (sink, is_cut) = (seen.clone(), cut.clone());
        sim.link().drop_if(move |from, frame| {
            sink.borrow_mut().extend(read(from, frame));
            *is_cut.borrow()
        });
        Scene {
            sim,
            subject,
            conn: None,
            seen,
            cut,
        }
    }

    fn cut(&mut self) {
        *self.cut.borrow_mut() = true;
    }

    /// Let time pass so that what was commanded leaves.
    fn breathe(&mut self) {
        self.sim.run_for(Duration::from_micros(1));
    }

    fn subject(&mut self) -> &mut Host {
        if self.subject == CLIENT {
            &mut self.sim.client
        } else {
            &mut self.sim.server
        }
    }

    /// What the subject sends next, and what it expects next.
    fn numbers(&self) -> (SeqNumber, SeqNumber, u32, u32) {
        let seen = self.seen.borrow();
        let by = |end| seen.iter().filter(move |s: &&Seen| s.from == end);
        let end = |s: &Seen| s.header.seq + s.len;
        let of = |end_of: usize| {
            by(end_of)
                .map(end)
                .reduce(|a, b| if b.gt(a) { b } else { a })
        };
        let timestamp = |end| by(end).next_back().map_or(1, |s| s.timestamp);
        let peer = 1 - self.subject;
        let next = of(self.subject).unwrap_or(SeqNumber(0));
        (
            next,
            of(peer).unwrap_or(SeqNumber(5000)),
            timestamp(peer),
            timestamp(self.subject),
        )
    }

    /// A segment of the peer arrives; remembered as if the peer had sent it when it is `accepted`.
    fn arrive(
        &mut self,
        flags: TcpFlags,
        offset: i64,
        ack_offset: i64,
        len: usize,
        accepted: bool,
    ) {
        let (next, expected, timestamp, echo) = self.numbers();
        let moved = |seq: SeqNumber, by: i64| SeqNumber(seq.0.wrapping_add(by as u32));
        let ports = if self.subject == CLIENT {
            (80, 4000)
        } else {
            (4000, 80)
        };
        let header = TcpHeader {
            src_port: ports.0,
            dst_port: ports.1,
            seq: moved(expected, offset),
            ack: if flags.contains(TcpFlags::ACK) {
                moved(next, ack_offset)
            } else {
                SeqNumber(0)
            },
            flags,
            window: 60_000,
            urgent: 0,
        };
        if accepted {
            let marks =
                u32::from(flags.contains(TcpFlags::SYN)) + u32::from(flags.contains(TcpFlags::FIN));
            let seen = Seen {
                from: 1 - self.subject,
                header,
                timestamp,
                len: len as u32 + marks,
            };
            self.seen.borrow_mut().push(seen);
        }
        let (from, to) = (self.sim.client.ip(), self.sim.server.ip());
        let (from, to) = if self.subject == CLIENT {
            (to, from)
        } else {
            (from, to)
        };
        let frame = frame(
            (from, to),
            &header,
            &TcpOptions::with_timestamps(timestamp, echo),
            len,
        );
        let end = self.subject;
        self.sim.inject(end, &frame);
    }

    fn state(&mut self) -> String {
        let known = self.conn;
        let host = self.subject();
        let conn = known.or_else(|| (!host.endpoints.is_empty()).then(|| host.nth(0)));
        match conn.and_then(|c| host.info(c)) {
            Some(info) => format!("{:?}", info.state),
            None if host.stack.tcp.time_wait_connections() > 0 => "TimeWait".into(),
            None => match conn.and_then(|c| host.closed(c)) {
                Some(reason) => format!("over: {reason:?}"),
                // Half-open, not yet shown to a program.
                None if host.stack.tcp.connections() > 0 => "SynReceived".into(),
                None => "nobody".into(),
            },
        }
    }
}

fn read(from: usize, frame: &[u8]) -> Option<Seen> {
    let ethernet = EthernetView::parse(frame).ok()?;
    let ip = Ipv4View::parse(ethernet.payload())
        .ok()
        .filter(|ip| ip.protocol() == protocol::TCP)?;
    let tcp = TcpView::parse(ip.payload()).ok()?;
    let timestamp = tcp.options().timestamps.map_or(0, |t| t.value);
    Some(Seen {
        from,
        header: tcp.values(),
        timestamp,
        len: tcp.seq_len(),
    })
}

fn frame(
    (src, dst): (IpAddr, IpAddr),
    header: &TcpHeader,
    options: &TcpOptions,
    len: usize,
) -> Vec<u8> {
    let mut segment = vec![0; 60];
    let header_len = header.emit(options, &mut segment);
    segment.truncate(header_len);
    segment.resize(header_len + len, 0x55);
    let pseudo = Sum::pseudo(src, dst, protocol::TCP, segment.len() as u32);
    let payload = Sum::of(&segment[header_len..]);
    fill_checksum(&mut segment[..header_len], pseudo.plus(payload));
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (src, dst) else {
        panic!("IPv4 here")
    };
    let ip = Ipv4Header::atomic(src, dst, protocol::TCP);
    let to = usize::from(dst.octets()[3] - 1);
    let mut out = vec![0; 14 + ipv4::LEN];
    EthernetHeader {
        dst: mac(to),
        src: mac(1 - to),
        vlan: None,
        ethertype: ETHERTYPE_IPV4,
    }
    .emit(&mut out);
    ip.emit(segment.len(), &mut out[14..]);
    out.extend(segment);
    assert_eq!(tcp::LEN + 12, header_len);
    out
}

const ACK: TcpFlags = TcpFlags::ACK;
const SYN: TcpFlags = TcpFlags::SYN;
const FIN: TcpFlags = TcpFlags::FIN;
const RST: TcpFlags = TcpFlags::RST;

/// Lead a subject into a state; the wire is cut from then on.
fn scene(state: &str) -> Scene {
    let subject = if matches!(state, "nobody" | "Listen" | "SynReceived") {
        SERVER
    } else {
        CLIENT
    };
    let mut scene = Scene::new(subject);
    if state == "nobody" {
        // A port where nobody listens is what the segments are for.
        scene = Scene::new(CLIENT);
    }
    if !matches!(state, "nobody" | "Listen") {
        let to = scene.sim.server.addr();
        let conn = scene.sim.client.connect_from(4000, to, Plan::MANUAL);
        scene.conn = (subject == CLIENT).then_some(conn);
    }
    match state {
        "SynSent" => {}
        "SynReceived" => scene.sim.run_for(ms(5)),
        _ => scene.sim.run_for(ms(100)),
    }
    scene.cut();
    scene.sim.run_for(ms(6));
    let finish = |scene: &mut Scene| {
        let conn = scene.conn.unwrap();
        scene.subject().finish(conn);
        scene.breathe();
    };
    match state {
        "FinWait1" => finish(&mut scene),
        "FinWait2" | "TimeWait" => {
            finish(&mut scene);
            scene.arrive(ACK, 0, 0, 0, true);
            if state == "TimeWait" {
                scene.arrive(FIN | ACK, 0, 0, 0, true);
            }
        }
        "CloseWait" | "LastAck" => {
            scene.arrive(FIN | ACK, 0, 0, 0, true);
            if state == "LastAck" {
                finish(&mut scene);
            }
        }
        "Closing" => {
            finish(&mut scene);
            scene.arrive(FIN | ACK, 0, -1, 0, true);
        }
        _ => {}
    }
    scene.breathe();
    scene
}

const STATES: [&str; 11] = [
    "nobody",
    "Listen",
    "SynSent",
    "SynReceived",
    "Established",
    "FinWait1",
    "FinWait2",
    "CloseWait",
    "Closing",
    "LastAck",
    "TimeWait",
];

/// Name, flags, offsets of sequence and acknowledgement number from what is expected, data.
const SEGMENTS: [(&str, TcpFlags, i64, i64, usize); 19] = [
    ("syn", SYN, 0, 0, 0),
    ("syn, old", SYN, -100_000, 0, 0),
    ("syn ack", TcpFlags(SYN.0 | ACK.0), 0, 0, 0),
    ("syn ack, bad ack", TcpFlags(SYN.0 | ACK.0), 0, 1000, 0),
    ("ack", ACK, 0, 0, 0),
    ("ack, old", ACK, 0, -1, 0),
    ("ack, very old", ACK, 0, -10_000_000, 0),
    ("ack, unsent", ACK, 0, 1000, 0),
    ("data", ACK, 0, 0, 10),
    ("data, gap", ACK, 100, 0, 10),
    ("data, old", ACK, -10, 0, 10),
    ("data, beyond", ACK, 1 << 20, 0, 10),
    ("data, no ack", TcpFlags::NONE, 0, 0, 10),
    ("fin", TcpFlags(FIN.0 | ACK.0), 0, 0, 0),
    ("fin, old ack", TcpFlags(FIN.0 | ACK.0), 0, -1, 0),
    ("fin, gap", TcpFlags(FIN.0 | ACK.0), 100, 0, 0),
    ("rst", TcpFlags(RST.0 | ACK.0), 0, 0, 0),
    ("rst, inside", RST, 10, 0, 0),
    ("rst, outside", RST, -10, 0, 0),
];

#[test]
fn scenes_are_what_they_claim() {
    for state in STATES {
        let mut scene = scene(state);
        let expected = if state == "Listen" { "nobody" } else { state };
        assert_eq!(scene.state(), expected);
    }
}

fn cell(state: &str, segment: (&str, TcpFlags, i64, i64, usize)) -> String {
    let (_, flags, offset, ack_offset, len) = segment;
    let mut scene = scene(state);
    let before = (scene.state(), scene.seen.borrow().len());
    scene.arrive(flags, offset, ack_offset, len, false);
    // Long enough for a delayed acknowledgement, too short for a retransmission.
    scene.sim.run_for(ms(60));
    let seen = scene.seen.borrow()[before.1..].to_vec();
    let answers: Vec<_> = seen.iter().map(|s| s.header.flags.to_string()).collect();
    let after = scene.state();
    let moved = if after == before.0 {
        String::new()
    } else {
        after
    };
    match (answers.join(" "), moved.as_str()) {
        (answers, "") if answers.is_empty() => "-".into(),
        (answers, _) if answers.is_empty() => moved,
        (answers, "") => answers,
        (answers, _) => format!("{answers} {moved}"),
    }
}

#[test]
fn every_state_and_every_segment() {
    let mut text = String::new();
    for segment in SEGMENTS {
        text += &format!("{}\n", segment.0);
        for state in STATES {
            text += &format!("    {state:<12} {}\n", cell(state, segment));
        }
    }
    let words = |text: &str| {
        text.lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(words(&text), words(TABLE), "\n{text}");
}

/// Frames damaged in every way: nothing panics, and nothing but drops comes of a bad
/// checksum.
#[test]
fn damaged_segments_are_dropped() {
    let mut scene = scene("Established");
    let (next, expected, timestamp, echo) = scene.numbers();
    let header = TcpHeader {
        src_port: 80,
        dst_port: 4000,
        seq: expected,
        ack: next,
        flags: RST | ACK,
        window: 1,
        urgent: 0,
    };
    let ends = (scene.sim.server.ip(), scene.sim.client.ip());
    let whole = frame(
        ends,
        &header,
        &TcpOptions::with_timestamps(timestamp, echo),
        20,
    );
    for bit in 14 * 8..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        scene.subject().stack.handle_frame(
            Instant::from_millis(500),
            &damaged,
            RxChecksum::Unknown,
        );
        assert_eq!(scene.state(), "Established", "bit {bit}");
    }
    for len in 0..whole.len() {
        scene.subject().stack.handle_frame(
            Instant::from_millis(500),
            &whole[..len],
            RxChecksum::Unknown,
        );
        assert_eq!(scene.state(), "Established", "{len} bytes");
    }
    scene.sim.inject(CLIENT, &whole);
    assert_eq!(scene.state(), "over: Reset", "whole it is a reset");
}

const TABLE: &str = "
syn
    nobody       R.
    Listen       S. SynReceived
    SynSent      S. SynReceived
    SynReceived  .
    Established  .
    FinWait1     .
    FinWait2     .
    CloseWait    .
    Closing      .
    LastAck      .
    TimeWait     .
syn, old
    nobody       R.
    Listen       S. SynReceived
    SynSent      S. SynReceived
    SynReceived  .
    Established  .
    FinWait1     .
    FinWait2     .
    CloseWait    .
    Closing      .
    LastAck      .
    TimeWait     .
syn ack
    nobody       R
    Listen       R
    SynSent      . Established
    SynReceived  .
    Established  .
    FinWait1     .
    FinWait2     .
    CloseWait    .
    Closing      .
    LastAck      .
    TimeWait     .
syn ack, bad ack
    nobody       R
    Listen       R
    SynSent      R S
    SynReceived  .
    Established  .
    FinWait1     .
    FinWait2     .
    CloseWait    .
    Closing      .
    LastAck      .
    TimeWait     .
ack
    nobody       R
    Listen       R
    SynSent      -
    SynReceived  Established
    Established  -
    FinWait1     FinWait2
    FinWait2     -
    CloseWait    -
    Closing      TimeWait
    LastAck      over: Done
    TimeWait     -
ack, old
    nobody       R
    Listen       R
    SynSent      R S
    SynReceived  R
    Established  -
    FinWait1     -
    FinWait2     -
    CloseWait    -
    Closing      -
    LastAck      -
    TimeWait     -
ack, very old
    nobody       R
    Listen       R
    SynSent      R S
    SynReceived  R
    Established  .
    FinWait1     .
    FinWait2     .
    CloseWait    .
    Closing      .
    LastAck      .
    TimeWait     -
ack, unsent
    nobody       R
    Listen       R
    SynSent      R S
    SynReceived  R
    Established  .
    FinWait1     .
    FinWait2     .
    CloseWait    .
    Closing      .
    LastAck      .
    TimeWait     -
data
    nobody       R
    Listen       R
    SynSent      -
    SynReceived  . Established
    Established  .
    FinWait1     . FinWait2
    FinWait2     .
    CloseWait    -
    Closing      TimeWait
    LastAck      over: Done
    TimeWait     .
data, gap
    nobody       R
    Listen       R
    SynSent      -
    SynReceived  . Established
    Established  .
    FinWait1     . FinWait2
    FinWait2     .
    CloseWait    -
    Closing      TimeWait
    LastAck      over: Done
    TimeWait     .
data, old
    nobody       R
    Listen       R
    SynSent      -
    SynReceived  .
    Established  .
    FinWait1     .
    FinWait2     .
    CloseWait    .
    Closing      .
    LastAck      .
    TimeWait     .
data, beyond
    nobody       R
    Listen       R
    SynSent      -
    SynReceived  .
    Established  .
    FinWait1     .
    FinWait2     .
    CloseWait    .
    Closing      .
    LastAck      .
    TimeWait     .
data, no ack
    nobody       R.
    Listen       -
    SynSent      -
    SynReceived  -
    Established  -
    FinWait1     -
    FinWait2     -
    CloseWait    -
    Closing      -
    LastAck      -
    TimeWait     .
fin
    nobody       R
    Listen       R
    SynSent      -
    SynReceived  . CloseWait
    Established  . CloseWait
    FinWait1     . TimeWait
    FinWait2     . TimeWait
    CloseWait    -
    Closing      TimeWait
    LastAck      over: Done
    TimeWait     .
fin, old ack
    nobody       R
    Listen       R
    SynSent      R S
    SynReceived  R
    Established  . CloseWait
    FinWait1     . Closing
    FinWait2     . TimeWait
    CloseWait    -
    Closing      -
    LastAck      -
    TimeWait     .
fin, gap
    nobody       R
    Listen       R
    SynSent      -
    SynReceived  . Established
    Established  .
    FinWait1     . FinWait2
    FinWait2     .
    CloseWait    -
    Closing      TimeWait
    LastAck      over: Done
    TimeWait     .
rst
    nobody       -
    Listen       -
    SynSent      over: Refused
    SynReceived  nobody
    Established  over: Reset
    FinWait1     over: Reset
    FinWait2     over: Reset
    CloseWait    over: Reset
    Closing      over: Reset
    LastAck      over: Reset
    TimeWait     -
rst, inside
    nobody       -
    Listen       -
    SynSent      -
    SynReceived  .
    Established  .
    FinWait1     .
    FinWait2     .
    CloseWait    .
    Closing      .
    LastAck      .
    TimeWait     -
rst, outside
    nobody       -
    Listen       -
    SynSent      -
    SynReceived  -
    Established  -
    FinWait1     -
    FinWait2     -
    CloseWait    -
    Closing      -
    LastAck      -
    TimeWait     -
";
