//! The handler that answers requests, as a weapon: its memory is the program's, who may write anything there at any time.
//!
//! Whatever is written, what leaves is the grant's, for what came and where that came from, and counted; others' packets go as ever.

mod cores;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use exos_filter::handler::WebHandler;
use exos_filter::handler::web::layout::{self, Entries, Rings, copy, entry, slot};
use exos_host::bpf::MappedArray;
use exos_testing::Random;
use exos_wire::checksum::Sum;
use exos_wire::tcp::cookie::{Recipe, SynAck};
use exos_wire::{ethernet, ipv4, protocol};
use exos_xok::Protocol;
use exos_xok::message::{Answer, Answering, PortWish, Refusal, Request};

use crate::attacks::attacker::Hostile;
use crate::attacks::program::{Connection, refusal};
use crate::attacks::world::{
    MARK, OUR_MAC, OURS, PEER_MAC, World, case, from_us, must_be_clean, to_us, within,
};
use crate::packets::{self, FrameEnds};

const PORT: u16 = 7000;
const BESIDE: u16 = 7001;
const LAST: &[u8] = b"this is honest";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
const KEY: u64 = 79;
const SEQ: u32 = 100;
const ACK: u32 = 200;
/// Hosts at the far end, which is none of them.
const SENDERS: usize = 8;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACKS: u8 = 16;

fn answering(port: u16) -> Answering {
    let says = SynAck {
        mss: 1460,
        window: 65_535,
        scale: 7,
        hop_limit: 64,
        class: 0,
    };
    Answering {
        recipe: Recipe {
            port,
            key: [1, 2],
            cookie_salt: 3,
            sequence_salt: 4,
            epoch_us: 64_000_000,
            v4: says,
            v6: says,
        },
        key: KEY,
        requests: 4,
        response_max: layout::RESPONSE_MAX as u16,
        peer_connections: Some(100),
        reports: true,
        http: true,
        cores: 1,
        core: 0,
        memory_of: None,
    }
}

const ENTRIES: Entries = Entries {
    count: 4,
    response_max: layout::RESPONSE_MAX,
};

fn claim(connection: &Connection, port: u16) -> Answer {
    connection.claim(Protocol::Tcp, PortWish::Number(port))
}

fn answer_requests(connection: &Connection, answering: Answering) -> Answer {
    connection
        .ask_until_heard(&Request::AnswerRequests(answering))
        .0
}

/// The memory of a handler of a port that is claimed here.
fn memory(connection: &Connection) -> MappedArray {
    assert!(matches!(claim(connection, PORT), Answer::Granted { .. }));
    lent_memory(connection, answering(PORT))
}

fn lent_memory(connection: &Connection, answering: Answering) -> MappedArray {
    let cores = answering.cores.into();
    let request = Request::AnswerRequests(answering);
    let (answer, mut fds) = connection.ask_until_heard(&request);
    assert_eq!(answer, Answer::Downloaded);
    let len = WebHandler::rings(ENTRIES, true, cores).memory_len() as usize;
    MappedArray::adopt(fds.pop().expect("memory"), len).expect("without privilege, too")
}

/// Who sends a segment.
fn sender(number: usize) -> FrameEnds {
    let host = format!("10.79.0.{}", 30 + number);
    let from: IpAddr = host.parse().expect("an address");
    FrameEnds {
        from: (from, 9000 + number as u16).into(),
        ..to_us(OURS, PORT)
    }
}

/// A segment with a right checksum, and an MSS where it is a SYN.
fn segment(ends: &FrameEnds, numbers: (u32, u32), flags: u8, payload: &[u8]) -> Vec<u8> {
    let options: &[u8] = if flags & SYN != 0 {
        &[2, 4, 5, 0xb4]
    } else {
        &[]
    };
    let mut bytes = [ends.from.port(), ends.to.port()]
        .map(u16::to_be_bytes)
        .concat();
    bytes.extend([numbers.0, numbers.1].map(u32::to_be_bytes).concat());
    bytes.extend([((5 + options.len() / 4) << 4) as u8, flags]);
    bytes.extend([0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend(options);
    bytes.extend(payload);
    let pseudo = Sum::pseudo(
        ends.from.ip(),
        ends.to.ip(),
        protocol::TCP,
        bytes.len() as u32,
    );
    let sum = pseudo.plus(Sum::of(&bytes)).finish();
    bytes[16..18].copy_from_slice(&sum.to_be_bytes());
    packets::ip(ends, protocol::TCP, &bytes)
}

/// One that says something to a connection as [`write_anything`] makes it, or to none.
fn any_segment(random: &mut Random) -> Vec<u8> {
    let ends = sender(random.below(SENDERS));
    let seq = SEQ + random.pick(&[0, 0, 0, 0, 1, REQUEST.len() as u32, 1000]);
    let ack = ACK + random.pick(&[0, 0, 0, 0, 1, 1360, 1361]);
    let flags = random.pick(&[
        ACKS,
        ACKS,
        ACKS,
        ACKS,
        ACKS | FIN,
        SYN,
        RST,
        ACKS | RST,
        ACKS | SYN,
    ]);
    let payload = random.pick(&[REQUEST, REQUEST, REQUEST, b"", MARK]);
    segment(&ends, (seq, ack), flags, payload)
}

/// Numbers that are no lengths, places or states, and some that are.
fn any_number(random: &mut Random) -> u64 {
    let numbers = [
        0,
        1,
        1360,
        1361,
        4096,
        u64::from(u16::MAX),
        1 << 31,
        u64::from(u32::MAX),
        1 << 40,
        u64::MAX,
    ];
    match random.below(8) {
        0 => random.next(),
        _ => random.pick(&numbers),
    }
}

/// Writes over a connection, and what it is answered with: what makes sense but for a number here and there. Nothing is out, or an answer is
/// that is not acknowledged.
fn write_anything(words: &[AtomicU64], rings: Rings, random: &mut Random) {
    let set = |at: u64, value: u64| words[(at / 8) as usize].store(value, Ordering::Relaxed);
    let halves = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let any = |random: &mut Random, sound: u64| match random.one_in(30) {
        true => any_number(random),
        false => sound,
    };
    set(layout::UNTIL, any(random, u64::MAX));
    set(layout::ROOM, any(random, 1000));
    for ring in rings.own().map(|core| rings.at(core)) {
        let handed = words[((ring + layout::HANDED) / 8) as usize].load(Ordering::Relaxed);
        set(ring + layout::TAKEN, handed);
    }
    set(layout::TO_REPORT, any(random, 0));
    set(layout::HEARD, any(random, 0));
    let (is_out, len) = (random.one_in(2), random.pick(&[1, 60, 1360]));
    let closes = u32::from(random.one_in(3));
    let ends = sender(random.below(SENDERS));
    let four = layout::ends(ends.to.ip(), ends.from.ip());
    let ports = u32::from(PORT) << 16 | u32::from(ends.from.port());
    let at = layout::SLOTS + layout::slot_of(KEY, four, ports) * layout::SLOT_LEN;
    for (word, n) in four.into_iter().zip(0..) {
        set(at + slot::ENDS + 8 * n, word);
    }
    set(at + slot::PORTS, halves(ports, random.below(5) as u32));
    let state = match is_out {
        true => slot::OPEN + closes as i32,
        false => random.pick(&[slot::OPEN, slot::OPEN, slot::LAST_ACK, slot::DONE]),
    };
    set(at + slot::STATE, any(random, state as u64));
    let (taken, sent) = match is_out {
        true => (REQUEST.len() as u32, len + closes),
        false => (0, 0),
    };
    set(at + slot::RCV, any(random, halves(SEQ + taken, ACK + sent)));
    set(at + slot::UNA, any(random, halves(ACK, SEQ)));
    let place = random.pick(&[0, 4096]);
    set(at + slot::ENTRY, any(random, place));
    set(at + slot::KEPT, any(random, halves(1 << 10, 65_535)));
    set(at + slot::VERSION, any(random, 0));
    set(at + slot::CLOSED, any(random, 0));
    set(at + slot::LOCK, 0);
    let of_request = layout::hash(KEY, REQUEST);
    for place in 0..ENTRIES.count {
        let at = layout::ENTRIES + place * ENTRIES.entry_len();
        set(at + entry::REQUEST_LEN, any(random, REQUEST.len() as u64));
        set(at + entry::VERSION, any(random, place & 1));
        for n in 0..2 {
            let copy = at + entry::COPIES + n * ENTRIES.copy_len();
            set(copy + copy::SUM, any_number(random));
            set(copy + copy::LEN, any(random, len.into()));
            set(copy + copy::CLOSES, any(random, closes.into()));
            set(copy + copy::BYTES, any_number(random));
        }
        for (word, n) in REQUEST.chunks(8).zip(0..) {
            let mut whole = [0; 8];
            whole[..word.len()].copy_from_slice(word);
            set(at + ENTRIES.request() + 8 * n, u64::from_ne_bytes(whole));
        }
        set(at + entry::TAG, of_request);
    }
}

/// What left for segments that came: the grant's, to who sent them, as long as it says, no longer than a frame may be.
fn must_be_an_answer(frame: &[u8]) {
    assert_eq!(
        frame[..12],
        [PEER_MAC.0, OUR_MAC.0].concat(),
        "{frame:02x?}"
    );
    let packet = &frame[ethernet::LEN..];
    assert_eq!(
        (packet[0], packet[9]),
        (0x45, protocol::TCP),
        "{frame:02x?}"
    );
    assert_eq!(Sum::of(&packet[..ipv4::LEN]).finish(), 0, "{frame:02x?}");
    let len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    assert_eq!(packet.len(), len, "{frame:02x?}");
    assert!(len <= 1500, "{frame:02x?}");
    let is_answer_to = |number| {
        let ends = sender(number);
        let (IpAddr::V4(to), IpAddr::V4(from)) = (ends.from.ip(), ends.to.ip()) else {
            panic!("IPv4")
        };
        let ports = [PORT, ends.from.port()].map(u16::to_be_bytes).concat();
        packet[12..16] == from.octets() && packet[16..20] == to.octets() && packet[20..24] == ports
    };
    assert!((0..SENDERS).any(is_answer_to), "{frame:02x?}");
}

/// The memory is written over, again and again, while segments come.
#[test]
fn whose_memory_is_anything() {
    case(
        |hostile| {
            let program = hostile.attach();
            let memory = memory(&program.connection);
            write_over(hostile, &[program.slot], &memory, 1);
        },
        |world| must_send_no_more_than_answers(world, 1),
    );
}

/// Writes over the memory of these slots until told to end.
fn write_over(hostile: &Hostile, slots: &[u32], memory: &MappedArray, cores: u32) {
    let slots: Vec<String> = slots.iter().map(u32::to_string).collect();
    hostile.say(&slots.join(" "));
    let rings = WebHandler::rings(ENTRIES, true, cores);
    let (mut random, is_over) = (Random(23), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                write_anything(memory.words(), rings, &mut random);
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        hostile.wait_for("go");
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Segments come to the slots of an attacker, which writes over what they answer with.
fn must_send_no_more_than_answers(world: &World, cores: usize) {
    const SENT: u64 = 12_000;
    let _takes = world.take_redirected();
    let mut beside = world.program();
    beside.connection.must_claim(BESIDE);
    assert!(matches!(
        claim(&beside.connection, BESIDE),
        Answer::Granted { .. }
    ));
    let mut attacker = world.attacker();
    let said = attacker.says();
    let slots = said.split(' ').map(|slot| slot.parse().expect("a slot"));
    let slots: Vec<u32> = slots.collect();
    assert_eq!(
        (slots.len(), world.second_stages()),
        (cores, cores),
        "each slot has its own"
    );
    let mut random = Random(24);
    for _ in 0..SENT {
        world.far.send(&any_segment(&mut random));
        std::thread::sleep(Duration::from_micros(50));
    }
    let dealt_with = || {
        let counted = ["answered", "done", "gave_up", "dropped"];
        let counted = counted.map(|how| counted_of(world, &slots, &format!("handler_{how}")));
        counted.iter().sum::<u64>()
    };
    assert!(
        within(|| dealt_with() == SENT),
        "{} of {SENT}",
        dealt_with()
    );
    // What says that it comes from the program beside, or from all, is not answered.
    for from in [OURS, "10.79.0.255", "127.0.0.1"] {
        let from: IpAddr = from.parse().expect("an address");
        let forged = FrameEnds {
            from: (from, BESIDE).into(),
            ..sender(0)
        };
        world.far.send(&segment(&forged, (SEQ, 0), SYN, b""));
    }
    let others = FrameEnds {
        to: (to_us(OURS, BESIDE).to.ip(), BESIDE).into(),
        ..sender(0)
    };
    let ours = segment(&others, (SEQ, ACK), ACKS, LAST);
    world.far.send(&ours);
    let came = beside.receive_up_to(LAST);
    assert_eq!(
        came,
        [ours],
        "others' segments come as they are, and no more"
    );
    must_have_answered(world, &slots, SENT, &mut beside);
    attacker.tell("go");
    attacker.finish();
}

/// What is counted of these slots together.
fn counted_of(world: &World, slots: &[u32], counter: &str) -> u64 {
    slots.iter().map(|slot| world.counted(*slot, counter)).sum()
}

/// All that was seen at the far end is answers, and there are no more of them than were counted.
fn must_have_answered(
    world: &World,
    slots: &[u32],
    sent: u64,
    beside: &mut crate::attacks::program::Program,
) {
    beside.send(&packets::udp(&from_us(OURS, BESIDE), LAST));
    let mut seen = world.far.seen_up_to(LAST);
    seen.pop();
    // What the host there says by itself.
    let is_tcp = |frame: &Vec<u8>| frame[12..14] == [8, 0] && frame[23] == protocol::TCP;
    let answers: Vec<_> = seen.into_iter().filter(is_tcp).collect();
    answers.iter().for_each(|frame| must_be_an_answer(frame));
    let longest = answers.iter().map(Vec::len).max().unwrap_or(0);
    assert_eq!(
        longest,
        14 + 20 + 20 + layout::RESPONSE_MAX,
        "{}",
        answers.len()
    );
    let [packets, bytes] = ["tx_packets", "tx_bytes"].map(|name| counted_of(world, slots, name));
    let seen_bytes = answers.iter().map(Vec::len).sum::<usize>() as u64;
    assert!(answers.len() as u64 <= packets && seen_bytes <= bytes);
    assert_eq!(packets, counted_of(world, slots, "handler_answered"));
    assert!((50..=sent).contains(&packets), "{packets}");
}

/// What makes no sense of what is asked for.
const SENSELESS: [fn(&mut Answering); 12] = [
    |it| it.requests = 0,
    |it| it.requests = 5,
    |it| it.requests = 1 << 17,
    |it| it.response_max = 0,
    |it| it.response_max = 1368,
    |it| it.response_max = 1359,
    |it| it.recipe.epoch_us = 0,
    |it| it.recipe.epoch_us = u32::MAX,
    |it| it.recipe.v6.scale = 255,
    |it| it.cores = 0,
    |it| it.cores = 65,
    |it| it.core = 1,
];

/// The largest numbers that do make sense.
fn extreme() -> Answering {
    Answering {
        recipe: Recipe {
            key: [u64::MAX; 2],
            cookie_salt: u32::MAX,
            sequence_salt: u32::MAX,
            epoch_us: i32::MAX as u32,
            ..answering(PORT).recipe
        },
        key: u64::MAX,
        ..answering(PORT)
    }
}

/// Ports of others, numbers that make no sense, more memory than a user may have: the daemon says no, and goes on.
#[test]
fn for_what_it_may_not_have() {
    case(
        |hostile| {
            let program = hostile.attach();
            let connection = &program.connection;
            assert!(matches!(claim(connection, PORT), Answer::Granted { .. }));
            for port in [0, BESIDE] {
                let refused = answer_requests(connection, answering(port));
                assert_eq!(refusal(&refused), Refusal::NotFound);
            }
            for change in SENSELESS {
                let mut it = answering(PORT);
                change(&mut it);
                let refused = answer_requests(connection, it.clone());
                assert_eq!(refusal(&refused), Refusal::BadRequest, "{it:?}");
            }
            let large = Answering {
                requests: 1 << 16,
                ..answering(PORT)
            };
            let refused = answer_requests(connection, large);
            assert_eq!(refusal(&refused), Refusal::Limit);
            let done = answer_requests(connection, extreme());
            assert_eq!(done, Answer::Downloaded);
            hostile.say("done");
            hostile.wait_for("go");
        },
        |world| {
            let _takes = world.take_redirected();
            let mut beside = world.program();
            assert!(matches!(
                claim(&beside.connection, BESIDE),
                Answer::Granted { .. }
            ));
            let mut attacker = world.attacker();
            attacker.must_say("done");
            let others = FrameEnds {
                to: (to_us(OURS, BESIDE).to.ip(), BESIDE).into(),
                ..sender(0)
            };
            world.far.send(&segment(&others, (SEQ, ACK), ACKS, LAST));
            must_be_clean(&beside.receive_up_to(LAST));
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// It ends with an answer under way, and with one given: nothing of it is left, at the interface neither.
#[test]
fn that_nobody_waits_for() {
    case(
        |hostile| {
            let program = hostile.attach();
            let _memory = memory(&program.connection);
            let request = Request::AnswerRequests(answering(PORT));
            let sent = program.connection.send(&request.encode(1), &[]);
            sent.expect("room");
            hostile.kill_itself();
        },
        |world| {
            let _takes = world.take_redirected();
            world.attacker().has_killed_itself();
            assert!(within(|| world.slots().is_empty()), "it is left");
            assert!(within(|| world.second_stages() == 0));
            let mut next = world.program();
            assert!(matches!(
                claim(&next.connection, PORT),
                Answer::Granted { .. }
            ));
            world.far.send(&segment(&sender(0), (SEQ, ACK), ACKS, LAST));
            assert_eq!(next.receive_up_to(LAST).len(), 1);
            world.must_count(next.slot, "handler_answered", 0);
        },
    );
}

/// There is no place for what completes its answers: it is refused, and the handler before it goes on.
#[test]
fn that_there_is_no_place_for() {
    case(
        |hostile| {
            let program = hostile.attach();
            let _memory = memory(&program.connection);
            hostile.say("done");
            for _ in 0..2 {
                hostile.wait_for("again");
                let again = answer_requests(&program.connection, answering(PORT));
                hostile.say(match again {
                    Answer::Downloaded => "done",
                    _ => "refused",
                });
            }
        },
        |world| {
            let _takes = world.take_redirected();
            let mut attacker = world.attacker();
            attacker.must_say("done");
            let place = world.gate().join("ingress");
            std::fs::remove_file(&place).expect("it is there");
            std::fs::create_dir(&place).expect("bpffs has folders");
            attacker.tell("again");
            attacker.must_say("refused");
            let slot = &world.report()["interfaces"][0]["slots"][0];
            let handled = format!("tcp {PORT}");
            assert_eq!(
                slot["handled_ports"],
                serde_json::json!([handled]),
                "{slot}"
            );
            std::fs::remove_dir(&place).expect("it is empty");
            attacker.tell("again");
            attacker.must_say("done");
            attacker.finish();
        },
    );
}

/// A port that nobody listens at is where a segment of ours went, says who it went to.
fn unreachable() -> Vec<u8> {
    let ends = sender(0);
    let ours = FrameEnds {
        from: ends.to,
        to: ends.from,
        ..ends
    };
    let about = segment(&ours, (ACK, SEQ), ACKS, b"");
    let mut bytes = vec![3, 3, 0, 0, 0, 0, 0, 0];
    bytes.extend(&about[ethernet::LEN..][..ipv4::LEN + 8]);
    let sum = Sum::of(&bytes).finish();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    packets::ip(&ends, protocol::ICMP, &bytes)
}

/// So few steps that most segments cannot be looked at: they are dropped, for the program knows nothing of their connections. What is
/// said about them comes.
#[test]
fn with_more_than_its_steps() {
    const SENT: u64 = 200;
    const ERRORS: u64 = 20;
    case(
        |hostile| {
            let mut program = hostile.attach();
            let _memory = memory(&program.connection);
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
            let mut came = 0;
            program.link.receive(|_, _| came += 1);
            hostile.say(&came.to_string());
        },
        |world| {
            let _takes = world.take_redirected();
            world.set_policy(|policy| {
                let of = "user = \"65534\"\n";
                policy.replace(of, &format!("{of}handler_steps = 10000\n"))
            });
            world.end_turn();
            let mut attacker = world.attacker();
            let slot = attacker.says().parse().expect("a slot");
            for _ in 0..SENT {
                let syn = segment(&sender(0), (SEQ, 0), SYN, b"");
                world.far.send(&syn);
            }
            let counted = |how: &str| world.counted(slot, &format!("handler_{how}"));
            assert!(within(|| counted("answered") + counted("dropped") == SENT));
            assert!(counted("dropped") > SENT / 2, "{}", counted("dropped"));
            for _ in 0..ERRORS {
                world.far.send(&unreachable());
            }
            let received = || world.counted(slot, "rx_packets") - counted("answered");
            assert!(within(|| received() == ERRORS), "{}", received());
            attacker.tell("go");
            let said = attacker.says();
            assert_eq!(said, ERRORS.to_string(), "no segment went past the handler");
            attacker.finish();
        },
    );
}
