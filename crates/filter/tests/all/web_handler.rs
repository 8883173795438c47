//! Requests answered in the kernel: a client's segments through the program (`BPF_PROG_TEST_RUN`), case by case.
//! Needs the privilege to load programs; without it each test says that it was skipped.

use crate::common;

use exos_filter::Counter;
use exos_filter::handler::forward::WayOut;
use exos_filter::handler::web::SecondStage;
use exos_filter::handler::web::layout::{self, Entries, copy, entry, handed, slot};
use exos_filter::handler::{Handler as _, SynHandler, WebHandler};
use exos_host::bpf::{Map, MappedArray, Prog, permitted};
use exos_inet::tcp::ListenOptions;
use exos_inet::{Config, Instant, Neighbors, Stack};
use exos_testing::ebpf::disassemble;
use exos_wire::{Mac, Sum};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering::SeqCst;

pub const DROP: u32 = 1;
pub const PASS: u32 = 2;
const TX: u32 = 3;
const REDIRECT: u32 = 4;
pub const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// Ours, and the peer's: IPv4, and IPv6.
const ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3)),
    IpAddr::V6(Ipv6Addr::new(0xfd10, 1, 0, 0, 0, 0, 2, 3)),
];
pub const PEERS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 1, 200, 7)),
    IpAddr::V6(Ipv6Addr::new(0xfd10, 1, 0, 0, 9, 8, 200, 7)),
];
const PORT: u16 = 8080;
const KEY: u64 = 0x1234_5678_9abc_def1;

pub const ENTRIES: Entries = Entries {
    count: 64,
    response_max: layout::RESPONSE_MAX,
};

pub const FIN: u8 = 1;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;

pub fn now() -> Instant {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::from_micros(t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000)
}

/// The program, and the server's side of its memory.
pub struct Bench {
    pub prog: Prog,
    pub handler: WebHandler,
    memory: MappedArray,
    /// Its clients come over IPv6.
    pub ipv6: bool,
    /// The last has what is counted.
    pub maps: [Map; 3],
}

impl Bench {
    /// For clients of either family.
    pub fn both() -> impl Iterator<Item = Self> {
        [false, true].into_iter().filter_map(Self::new)
    }

    pub fn new(ipv6: bool) -> Option<Self> {
        if let Err(error) = permitted() {
            common::skipped(&format!("requests in the kernel: {error}"));
            return None;
        }
        Some(Self::of(ipv6, WayOut::Transmit, None))
    }

    /// On an interface, or on none. With reports: what else happens is the same with and without.
    pub fn of(ipv6: bool, way_out: WayOut, second_stage: Option<SecondStage>) -> Self {
        Self::reporting(ipv6, way_out, second_stage, true)
    }

    /// With reports, or without.
    pub fn reporting(
        ipv6: bool,
        way_out: WayOut,
        second_stage: Option<SecondStage>,
        reports: bool,
    ) -> Self {
        let mut config = Config::new(OURS, 1500);
        config.neighbors = Neighbors::External;
        config.addresses = vec![(ADDRESSES[0], 16), (ADDRESSES[1], 32)];
        let mut stack = Stack::new(config, 77, now()).unwrap();
        let listener = stack
            .tcp
            .listen(None, PORT, ListenOptions::default())
            .unwrap();
        let syn = SynHandler {
            mac: OURS,
            addresses: ADDRESSES.to_vec(),
            not_from: ADDRESSES.to_vec(),
            recipe: stack.offload_syns(now(), listener).unwrap(),
            may_be_partial: second_stage.is_some(),
            way_out,
        };
        let memory =
            MappedArray::new("web", ENTRIES.memory_len_with_reports() as usize, 1).unwrap();
        let scratch = Map::percpu_array("scratch", WebHandler::SCRATCH_LEN, 1).unwrap();
        let handler = WebHandler {
            syn,
            entries: ENTRIES,
            memory_fd: memory.raw_fd(),
            scratch_fd: scratch.raw_fd(),
            key: KEY,
            second_stage,
            reports,
        };
        let slots = Map::prog_array(2).unwrap();
        let counters = Map::percpu_array("test", 8, Counter::COUNT).unwrap();
        let code = handler.program(slots.raw_fd(), counters.raw_fd());
        let prog = Prog::load(&code.words(), "web", false)
            .unwrap_or_else(|e| panic!("{}\n{}\n{e}", disassemble(&code.words()), e.log));
        let bench = Self {
            prog,
            handler,
            memory,
            ipv6,
            maps: [scratch, slots, counters],
        };
        bench.set(layout::UNTIL, u64::MAX);
        bench
    }

    pub fn set(&self, at: u64, value: u64) {
        self.memory.words()[(at / 8) as usize].store(value, SeqCst);
    }

    pub fn get(&self, at: u64) -> u64 {
        self.memory.words()[(at / 8) as usize].load(SeqCst)
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        for (n, part) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.set(at + 8 * n as u64, u64::from_ne_bytes(word));
        }
    }

    /// Where the entry is.
    pub fn enter(&self, request: &[u8], response: &[u8], closes: bool) -> u64 {
        let hash = layout::hash(KEY, request);
        let at = layout::ENTRIES + ENTRIES.first_way(hash);
        let at = at + ENTRIES.entry_len(); // The second way.
        self.write(at + entry::REQUEST, request);
        for number in 0..2 {
            self.set_copy(at, number, response, closes);
        }
        self.set(at + entry::REQUEST_LEN, request.len() as u64);
        self.set(at + entry::GENERATION, 1);
        self.set(at + entry::TAG, hash);
        at
    }

    fn set_copy(&self, at: u64, number: u64, response: &[u8], closes: bool) {
        let to = at + entry::COPIES + number * ENTRIES.copy_len();
        self.set(to + copy::SUM, u64::from(Sum::of(response).value()));
        self.set(to + copy::LEN, response.len() as u64);
        self.set(to + copy::CLOSES, u64::from(closes));
        self.write(to + copy::BYTES, response);
    }

    pub fn run(&self, frame: &[u8]) -> (u32, Vec<u8>) {
        let run = self.prog.test_run(frame).unwrap();
        (run.verdict, run.packet)
    }
}

/// A client's end of a connection, and the segments that it sends.
#[derive(Clone)]
pub struct Client {
    ipv6: bool,
    port: u16,
    stamped: bool,
    pub seq: u32,
    pub ack: u32,
    echo: u32,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub struct Got {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub data: Vec<u8>,
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}

impl Client {
    pub fn frame(&self, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut options = Vec::new();
        if flags & 2 != 0 {
            options.extend([2, 4, 5, 0xb4]);
            if self.stamped {
                options.extend([4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7]);
            }
        } else if self.stamped {
            options.extend([1, 1, 8, 10, 0, 0, 0, 10]);
            options.extend(self.echo.to_be_bytes());
        }
        let mut frame = [&OURS.0[..], &THEIRS.0].concat();
        let length = (20 + options.len() + data.len()) as u16;
        if self.ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([6, 64]);
        } else {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + length).to_be_bytes());
            frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0]);
        }
        frame.extend(octets(PEERS[usize::from(self.ipv6)]));
        frame.extend(octets(ADDRESSES[usize::from(self.ipv6)]));
        frame.extend(self.port.to_be_bytes());
        frame.extend(PORT.to_be_bytes());
        frame.extend(self.seq.to_be_bytes());
        let ack = if flags & ACK == 0 { 0 } else { self.ack };
        frame.extend(ack.to_be_bytes());
        let words = 5 + options.len() as u8 / 4;
        frame.extend([words << 4, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
        frame.extend(options);
        frame.extend(data);
        if !self.ipv6 {
            let ip = Sum::of(&frame[14..34]).finish();
            frame[24..26].copy_from_slice(&ip.to_be_bytes());
        }
        let sum = self.sum(&frame).to_be_bytes();
        let at = self.tcp() + 16;
        frame[at..at + 2].copy_from_slice(&sum);
        frame
    }

    /// Where TCP begins in frames.
    pub fn tcp(&self) -> usize {
        if self.ipv6 { 54 } else { 34 }
    }

    /// The sum of a frame's pseudo header.
    pub fn pseudo(&self, frame: &[u8]) -> Sum {
        let addresses = if self.ipv6 { 22..54 } else { 26..34 };
        let length = (frame.len() - self.tcp()) as u64;
        Sum::of(&frame[addresses]).plus(Sum::from_wide(length + 6))
    }

    /// The checksum of a segment, 0 where it has the right one.
    fn sum(&self, frame: &[u8]) -> u16 {
        let segment = Sum::of(&frame[self.tcp()..]);
        self.pseudo(frame).plus(segment).finish()
    }

    /// Its connection's, as slots have them.
    fn ends(&self) -> ([u64; 4], u32) {
        let number = usize::from(self.ipv6);
        let ends = layout::ends(ADDRESSES[number], PEERS[number]);
        (ends, u32::from(PORT) << 16 | u32::from(self.port))
    }

    pub fn opened(bench: &Bench, port: u16, stamped: bool) -> Self {
        Self::opened_at(bench, port, stamped, 1000)
    }

    fn opened_at(bench: &Bench, port: u16, stamped: bool, seq: u32) -> Self {
        let mut client = Self {
            ipv6: bench.ipv6,
            port,
            stamped,
            seq,
            ack: 0,
            echo: 0,
        };
        let (verdict, answer) = bench.run(&client.frame(2, &[]));
        assert!([TX, REDIRECT].contains(&verdict));
        client.seq += 1;
        let tcp = client.tcp();
        client.ack = be32(&answer[tcp + 4..]).wrapping_add(1);
        if stamped {
            client.echo = be32(&answer[tcp + 28..]);
        }
        client
    }

    pub fn says(&self, bench: &Bench, flags: u8, data: &[u8]) -> Result<Got, u32> {
        let frame = self.frame(flags, data);
        let (verdict, answer) = bench.run(&frame);
        if verdict != TX {
            assert!(verdict != PASS || answer == frame, "it goes up as it came");
            return Err(verdict);
        }
        Ok(self.reads(&answer))
    }

    /// What an answer says, all of which is right.
    pub fn reads(&self, answer: &[u8]) -> Got {
        let (number, tcp) = (usize::from(self.ipv6), self.tcp());
        let header = usize::from(answer[tcp + 12] >> 4) * 4;
        assert_eq!(header, if self.stamped { 32 } else { 20 });
        let (family, length): (&[u8], _) = match self.ipv6 {
            true => (&[0x86, 0xdd, 0x60, 0, 0, 0], 18),
            false => (&[8, 0, 0x45, 0], 16),
        };
        assert_eq!(answer[..length], [&THEIRS.0[..], &OURS.0, family].concat());
        let counted = answer.len() - if self.ipv6 { tcp } else { 14 };
        let length = &answer[length..length + 2];
        assert_eq!(length, (counted as u16).to_be_bytes());
        if self.ipv6 {
            assert_eq!(answer[20..22], [6, 64]);
        } else {
            assert_eq!(answer[22..24], [64, 6]);
            assert_eq!(Sum::of(&answer[14..34]).finish(), 0);
        }
        let ends = [octets(ADDRESSES[number]), octets(PEERS[number])].concat();
        assert_eq!(answer[tcp - ends.len()..tcp], ends);
        assert_eq!(answer[tcp..tcp + 2], PORT.to_be_bytes());
        assert_eq!(answer[tcp + 2..tcp + 4], self.port.to_be_bytes());
        assert_eq!(self.sum(answer), 0);
        if self.stamped {
            assert_eq!(be32(&answer[tcp + 28..]), 10, "our timestamp comes back");
        }
        Got {
            seq: be32(&answer[tcp + 4..]),
            ack: be32(&answer[tcp + 8..]),
            flags: answer[tcp + 13],
            data: answer[tcp + header..].to_vec(),
        }
    }
}

/// Whether anything tells that a bit behind the Ethernet header is damaged: IPv6 has no checksum over class, flow label and hop limit.
fn is_noticed(ipv6: bool, byte: usize, bit: usize) -> bool {
    !ipv6 || !matches!((byte, bit), (14, 0..4) | (15..18 | 21, _))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub const REQUEST: &[u8] = b"GET /small HTTP/1.1\r\nHost: here\r\n\r\n";
pub const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsmall\n";

/// A standing connection: requests one after the other, one of them twice, and its end.
#[test]
fn requests_of_a_standing_connection_are_answered() {
    for bench in Bench::both() {
        let at = bench.enter(REQUEST, RESPONSE, false);
        for stamped in [false, true] {
            let mut client = Client::opened(&bench, 4000 + u16::from(stamped), stamped);
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP), "nothing is kept");
            for _ in 0..3 {
                let expected = Got {
                    seq: client.ack,
                    ack: client.seq + REQUEST.len() as u32,
                    flags: ACK | PSH,
                    data: RESPONSE.to_vec(),
                };
                for _ in 0..2 {
                    assert_eq!(
                        client.says(&bench, ACK | PSH, REQUEST).as_ref(),
                        Ok(&expected)
                    );
                }
                client.seq = expected.ack;
                client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
            }
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
            let end = client.says(&bench, ACK | FIN, &[]).unwrap();
            assert_eq!(
                (end.seq, end.ack, end.flags),
                (client.ack, client.seq + 1, ACK | FIN)
            );
            assert_eq!(client.says(&bench, ACK | FIN, &[]), Ok(end), "again");
            client.seq += 1;
            client.ack = client.ack.wrapping_add(1);
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
        }
        assert_eq!(
            bench.get(at + entry::HITS),
            6,
            "as often as requests came, not segments"
        );
        assert_eq!(bench.get(layout::HANDED), 0);
    }
}

/// The first request comes a second time, late, while its cookie is still good.
#[test]
fn an_old_first_request_changes_nothing() {
    for bench in Bench::both() {
        let slots = || -> Vec<u64> {
            let words = layout::SLOTS / 8..layout::ENTRIES / 8;
            words.map(|word| bench.get(8 * word)).collect()
        };
        for (number, closes) in [(0, false), (1, true)] {
            bench.enter(REQUEST, RESPONSE, false);
            let mut client = Client::opened(&bench, 4000 + number, true);
            let old = client.frame(ACK | PSH, REQUEST);
            client.says(&bench, ACK | PSH, REQUEST).unwrap();
            client.seq += REQUEST.len() as u32;
            client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
            let check = |what| {
                let before = slots();
                for until in [u64::MAX, 0] {
                    bench.set(layout::UNTIL, until);
                    assert_eq!(bench.run(&old).0, DROP, "{what}");
                }
                bench.set(layout::UNTIL, u64::MAX);
                assert!(slots() == before, "{what}");
            };
            bench.enter(REQUEST, RESPONSE, closes);
            client.says(&bench, ACK | PSH, REQUEST).unwrap();
            check("the second is not acknowledged");
            client.seq += REQUEST.len() as u32;
            let response = RESPONSE.len() as u32 + u32::from(closes);
            client.ack = client.ack.wrapping_add(response);
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
            check("all is acknowledged");
            client.says(&bench, ACK | FIN, &[]).unwrap();
            check("the peer has finished");
        }
    }
}

#[test]
fn a_response_that_closes_has_its_fin() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, true);
        let mut client = Client::opened(&bench, 4000, true);
        for _ in 0..2 {
            let got = client.says(&bench, ACK | PSH, REQUEST).unwrap();
            assert_eq!((got.seq, got.flags), (client.ack, ACK | PSH | FIN));
            assert_eq!(got.data, RESPONSE);
        }
        client.seq += REQUEST.len() as u32;
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32 + 1);
        assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
        for _ in 0..2 {
            let got = client.says(&bench, ACK | FIN, &[]).unwrap();
            assert_eq!(
                (got.seq, got.ack, got.flags),
                (client.ack, client.seq + 1, ACK)
            );
        }
        // The same ends again, for another connection.
        let again = Client::opened_at(&bench, 4000, true, 1_000_000);
        assert!(again.says(&bench, ACK | PSH, REQUEST).is_ok());
    }
}

/// Behind our FIN nobody reads: the stack, which has no such connection, resets it.
#[test]
fn data_behind_the_end_goes_up_alone() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, true);
        let two = [REQUEST, REQUEST].concat();
        let long = [b'x'; 900];
        let (short, fin) = (REQUEST.len() as u32, RESPONSE.len() as u32 + 1);
        for (number, stamped) in [(0, false), (1, true)] {
            let mut client = Client::opened(&bench, 4000 + number, stamped);
            client.says(&bench, ACK | PSH, REQUEST).unwrap();
            client.seq += short;
            let before = client.says(&bench, ACK | PSH, REQUEST);
            assert_eq!(before, Err(DROP), "the response may be on its way");
            client.ack = client.ack.wrapping_add(fin);
            for data in [REQUEST, &long, b"x"] {
                for flags in [ACK, ACK | FIN] {
                    assert_eq!(client.says(&bench, flags, data), Err(PASS));
                }
            }
            client.seq -= short;
            assert_eq!(client.says(&bench, ACK, REQUEST), Err(DROP), "old");
            assert_eq!(client.says(&bench, ACK, b"x"), Err(DROP), "old");
            assert_eq!(client.says(&bench, ACK, &two), Err(PASS), "old and new");
            client.seq += short;
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
            assert!(client.says(&bench, ACK | FIN, &[]).is_ok());
        }
        assert_eq!(bench.get(layout::HANDED), 0);
    }
}

/// A response that was lost is sent again as long as it was, also where the request is answered with a longer one by now.
#[test]
fn a_response_of_another_length_replaces_one() {
    for bench in Bench::both() {
        let at = bench.enter(REQUEST, RESPONSE, false);
        let longer = [RESPONSE, b"er\n"].concat();
        let mut client = Client::opened(&bench, 4000, true);
        let request = || client.frame(ACK | PSH, REQUEST);
        let first = client.says(&bench, ACK | PSH, REQUEST).unwrap();
        bench.set_copy(at, 1, &longer, false);
        bench.set(at + entry::COPY, 1);
        assert_eq!(
            client.says(&bench, ACK | PSH, REQUEST),
            Ok(first),
            "the copy before"
        );
        bench.set_copy(at, 0, &longer, false);
        assert_eq!(bench.run(&request()).0, DROP, "neither is as long");
        let shorter = &RESPONSE[..RESPONSE.len() - 1];
        bench.set_copy(at, 0, shorter, true);
        assert_eq!(bench.run(&request()).0, DROP, "what closes is another");
        bench.set_copy(at, 0, RESPONSE, false);
        client.says(&bench, ACK | PSH, REQUEST).unwrap();
        client.seq += REQUEST.len() as u32;
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        let second = client.says(&bench, ACK | PSH, REQUEST).unwrap();
        assert_eq!(second.data, longer);
        let hits = bench.get(at + entry::HITS);
        assert_eq!(hits, 2);
    }
}

/// What is not known goes up with the connection, once.
#[test]
fn the_unusual_goes_up_with_its_connection() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let long = [b'x'; 900];
        let cases: [(&str, u8, u32, &[u8]); 6] = [
            (
                "another request",
                ACK | PSH,
                0,
                b"GET /other HTTP/1.1\r\n\r\n",
            ),
            ("a long one", ACK | PSH, 0, &long),
            ("one out of order", ACK | PSH, 5, REQUEST),
            ("a probe", ACK, u32::MAX, &[]),
            ("urgent data", ACK | 0x20, 0, REQUEST),
            ("a request with a FIN", ACK | FIN, 0, REQUEST),
        ];
        for (number, (what, flags, ahead, data)) in (0..).zip(cases) {
            let mut client = Client::opened(&bench, 5000 + number, true);
            client.says(&bench, ACK | PSH, REQUEST).unwrap();
            client.seq += REQUEST.len() as u32;
            client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
            let (rcv, nxt) = (client.seq, client.ack);
            client.seq = client.seq.wrapping_add(ahead);
            assert_eq!(client.says(&bench, flags, data), Err(PASS), "{what}");
            assert_eq!(bench.get(layout::HANDED), u64::from(number) + 1, "{what}");
            let at = layout::RING + u64::from(number) * layout::HANDED_LEN;
            assert_eq!(bench.get(at), u64::from(number) + 1, "{what}");
            let numbers = bench.get(at + handed::NUMBERS).to_ne_bytes();
            assert_eq!(numbers[..4], rcv.to_ne_bytes(), "{what}");
            assert_eq!(numbers[4..], nxt.to_ne_bytes(), "{what}");
            // From now on it is the server's.
            client.seq = rcv;
            assert_eq!(client.says(&bench, ACK | PSH, REQUEST), Err(PASS), "{what}");
        }
    }
}

/// A response that does not arrive is the server's to send in the end; so is one whose request comes again with another behind it.
#[test]
fn what_is_not_acknowledged_goes_up_as_before_the_response() {
    for bench in Bench::both() {
        let at = bench.enter(REQUEST, RESPONSE, false);
        let two = [REQUEST, REQUEST].concat();
        for (number, again) in [(0, REQUEST), (1, &two[..])] {
            let client = Client::opened(&bench, 4000 + number, true);
            let times = if again == REQUEST { 4 } else { 1 };
            for _ in 0..times {
                assert!(client.says(&bench, ACK | PSH, REQUEST).is_ok());
            }
            assert_eq!(client.says(&bench, ACK | PSH, again), Err(PASS));
            let at = layout::RING + u64::from(number) * layout::HANDED_LEN;
            let numbers = bench.get(at + handed::NUMBERS).to_ne_bytes();
            assert_eq!(numbers[..4], client.seq.to_ne_bytes());
            assert_eq!(numbers[4..], client.ack.to_ne_bytes());
        }
        // Not when it would be answered otherwise now.
        let client = Client::opened(&bench, 4002, true);
        assert!(client.says(&bench, ACK | PSH, REQUEST).is_ok());
        bench.set(at + entry::TAG, 0);
        assert!(
            client.says(&bench, ACK | PSH, REQUEST).is_ok(),
            "the response is kept"
        );
        assert_eq!(client.says(&bench, ACK | PSH, &two), Err(DROP));
        bench.set(at + entry::GENERATION, 2);
        assert_eq!(client.says(&bench, ACK | PSH, REQUEST), Err(DROP));
    }
}

/// What begins with anything else is the server's, and so is all that follows on it.
#[test]
fn connections_that_begin_otherwise_are_the_servers() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let client = Client::opened(&bench, 4000, true);
        assert_eq!(
            client.says(&bench, ACK | PSH, b"POST / HTTP/1.1\r\n"),
            Err(PASS)
        );
        assert_eq!(
            client.says(&bench, ACK | PSH, REQUEST),
            Err(PASS),
            "its slot is closed"
        );
        let (verdict, _) = bench.run(&client.frame(2, &[]));
        assert_eq!(verdict, PASS, "nor does it get a cookie while it is");
        let forged = Client {
            ack: client.ack ^ 1,
            port: 4001,
            ..client.clone()
        };
        assert_eq!(
            forged.says(&bench, ACK | PSH, REQUEST),
            Err(PASS),
            "no cookie"
        );
        let client = Client::opened(&bench, 4002, true);
        bench.set(layout::UNTIL, 0);
        assert_eq!(
            client.says(&bench, ACK | PSH, REQUEST),
            Err(PASS),
            "no word of the server"
        );
        assert_eq!(bench.get(layout::HANDED), 0);
    }
}

/// A damaged segment says nothing that is kept: the slot stays as it is, or goes up as it was.
#[test]
fn damage_does_not_change_a_connection() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let mut client = Client::opened(&bench, 4000, true);
        client.says(&bench, ACK | PSH, REQUEST).unwrap();
        client.seq += REQUEST.len() as u32;
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        let (ends, ports) = client.ends();
        let at = layout::SLOTS + layout::slot_of(KEY, ends, ports) * layout::SLOT_LEN;
        let words = || -> Vec<u64> { (0..16).map(|n| bench.get(at + 8 * n)).collect() };
        let [state, closed, begun] =
            [slot::STATE, slot::CLOSED, slot::BEGUN].map(|at| at as usize / 8);
        let mut before = words();
        let kept = slot::ENDS as usize / 8;
        assert_eq!(before[kept..kept + 4], ends);
        let frames = [
            client.frame(ACK | PSH, REQUEST),
            client.frame(ACK | PSH, &[b'x'; 900]),
            client.frame(RST, &[]),
            client.frame(RST | ACK, &[]),
            client.frame(ACK | 0x20, b"urgent"),
            client.frame(ACK | FIN, &[]),
        ];
        for now in [slot::OPEN, slot::FINISHED, slot::LAST_ACK, slot::DONE] {
            before[state] = now as u64;
            for (number, good) in frames.iter().enumerate() {
                let bits = 14 * 8..good.len() * 8;
                let bits = bits.filter(|bit| is_noticed(bench.ipv6, bit / 8, bit % 8));
                for bit in bits.filter(|bit| bit / 8 < client.tcp() + 32 || bit % 101 == 0) {
                    let what = format!("state {now}, frame {number}, bit {bit}");
                    for (n, word) in (0..).zip(&before) {
                        bench.set(at + 8 * n, *word);
                    }
                    bench.set(layout::TAKEN, bench.get(layout::HANDED));
                    let mut bad = good.clone();
                    bad[bit / 8] ^= 1 << (bit % 8);
                    assert_ne!(bench.run(&bad).0, TX, "{what}");
                    let mut after = words();
                    if bench.get(layout::HANDED) != bench.get(layout::TAKEN) {
                        assert_eq!((now, after[state]), (slot::OPEN, 0), "{what}");
                        after[state] = before[state];
                        after[closed] = before[closed];
                        assert_eq!(after[begun], 0, "{what}");
                        after[begun] = before[begun];
                    }
                    assert_eq!(after, before, "{what}");
                }
            }
        }
    }
}

/// A reset of a connection that the kernel does not have is the server's, whatever else it brings.
#[test]
fn a_reset_begins_nothing() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let client = Client::opened(&bench, 4000, true);
        for flags in [RST, RST | ACK, RST | ACK | PSH] {
            assert_eq!(client.says(&bench, flags, REQUEST), Err(PASS));
            assert_eq!(client.says(&bench, flags, &[]), Err(PASS));
        }
        assert!(client.says(&bench, ACK | PSH, REQUEST).is_ok());
    }
}

/// What the server said last may be out of date: requests of connections that stand are its own, too.
#[test]
fn without_word_of_the_server_a_standing_connection_goes_up() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let mut client = Client::opened(&bench, 4000, true);
        let first = client.says(&bench, ACK | PSH, REQUEST);
        bench.set(layout::UNTIL, 0);
        assert_eq!(
            client.says(&bench, ACK | PSH, REQUEST),
            first,
            "what was answered before is answered the same"
        );
        client.seq += REQUEST.len() as u32;
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        assert_eq!(client.says(&bench, ACK | PSH, REQUEST), Err(PASS));
        assert_eq!(bench.get(layout::HANDED), 1);
        let numbers = bench.get(layout::RING + handed::NUMBERS).to_ne_bytes();
        assert_eq!(numbers[..4], client.seq.to_ne_bytes());
        assert_eq!(numbers[4..], client.ack.to_ne_bytes());
    }
}

/// Damage is never answered; a reset ends it.
#[test]
fn damage_is_not_answered_and_a_reset_ends() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let mut client = Client::opened(&bench, 4000, true);
        let good = client.frame(ACK | PSH, REQUEST);
        for at in 14..good.len() {
            for bit in (0..8).filter(|bit| is_noticed(bench.ipv6, at, *bit)) {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert_ne!(bench.run(&bad).0, TX, "byte {at}, bit {bit}");
            }
        }
        bench.set(layout::HANDED, 0);
        for number in 0..layout::SLOT_COUNT {
            bench.set(layout::SLOTS + number * layout::SLOT_LEN + slot::CLOSED, 0);
        }
        client.says(&bench, ACK | PSH, REQUEST).unwrap();
        client.seq += REQUEST.len() as u32;
        assert_eq!(client.says(&bench, RST | ACK, &[]), Err(DROP));
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        assert_eq!(
            client.says(&bench, ACK | PSH, REQUEST),
            Err(PASS),
            "of no connection"
        );
    }
}

/// What the verifier follows of it is far below its limit of a million instructions.
#[test]
fn the_verifier_follows_few_instructions() {
    for bench in Bench::both() {
        let verified = bench.prog.info().unwrap().verified_insns;
        eprintln!("{verified} instructions verified");
        assert!(verified < 100_000, "{verified}");
    }
}
