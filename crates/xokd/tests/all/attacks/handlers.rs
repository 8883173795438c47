//! Handlers as weapons: for what is another's, that cost much, that are no handlers, and that are left behind.
//!
//! What the handler itself could do wrong its language cannot say (`exos_ash`), and what it says is checked by the daemon, which gets text
//! and nothing else.

mod racing;
mod requests;

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use exos_filter::gate::limits::HANDLERS_MAX;
use exos_host::bpf::MappedArray;
use exos_xok::Protocol;
use exos_xok::message::{Answer, PortWish, Refusal, Request};

use crate::attacks::program::{Connection, refusal};
use crate::attacks::world::{MARK, OURS, case, from_us, must_be_clean, to_us, within};
use crate::handlers::download_of;
use crate::packets;

const PORT: u16 = 7000;
const BESIDE: u16 = 7001;
const LAST: &[u8] = b"this is honest";
const SWALLOWS: &str = "handler swallows { done; }";
/// A byte comes, and as much goes as a veth has room for.
const AMPLIFIES: &str = "handler amplifies { reply 200 { } }";
const ANSWERS: &str = "handler answers { reply length up to 64 { } }";

/// What the user of [`AMPLIFIES`] may send: this, and a full bucket. Bytes of a reply with its headers; and messages, which are too many.
const BITS_PER_SEC: u64 = 8000;
const BURST: u64 = 2 * 65_536;
const REPLY: u64 = 42 + 200;
const ASKED: u64 = 1500;
const ASKED_AT_ONCE: u64 = 100;

fn download(connection: &Connection, port: u16, handler: &str) -> Answer {
    connection.ask_until_heard(&download_of(port, handler)).0
}

/// A port that is another's, before its own handler is there and after, and one that was its own.
#[test]
fn for_anothers_port() {
    case(
        |hostile| {
            let program = hostile.attach();
            let own = program.connection.must_claim(PORT);
            let refused = download(&program.connection, BESIDE, SWALLOWS);
            assert_eq!(refusal(&refused), Refusal::NotFound);
            let done = download(&program.connection, PORT, SWALLOWS);
            assert_eq!(done, Answer::Downloaded);
            let counts = "handler counts { words n[1]; p = &n[0]; add(p, 1); done; }";
            let counted = download_of(PORT, counts);
            let (_, mut memory) = program.connection.ask_until_heard(&counted);
            let memory = MappedArray::adopt(memory.pop().expect("memory"), 8);
            let memory = memory.expect("without privilege, too");
            assert_eq!(memory.words()[0].swap(5, Ordering::Relaxed), 0);
            let refused = download(&program.connection, BESIDE, SWALLOWS);
            assert_eq!(refusal(&refused), Refusal::NotFound);
            // The handler stays, and has nothing to handle.
            let (released, _) = program.connection.ask(&Request::Release { grant: own });
            assert_eq!(released, Answer::Done);
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
        },
        |world| {
            let mut beside = world.program();
            beside.connection.must_claim(BESIDE);
            let mut attacker = world.attacker();
            let slot = attacker.says().parse().expect("a slot");
            let grants = beside
                .connection
                .claim(Protocol::Udp, PortWish::Number(PORT));
            assert!(matches!(grants, Answer::Granted { .. }), "{grants:?}");
            for port in [BESIDE, PORT] {
                world.far.send(&packets::udp(&to_us(OURS, port), LAST));
                beside.receive_up_to(LAST);
            }
            world.must_count(slot, "handler_done", 0);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// It answers whatever comes, also what says that it comes from others of this machine or from the whole network: nothing of that
/// reaches them, and what leaves goes where it came from and counts as sent.
#[test]
fn that_answers_everything() {
    case(
        |hostile| {
            let program = hostile.attach();
            program.connection.must_claim(PORT);
            let done = download(&program.connection, PORT, ANSWERS);
            assert_eq!(done, Answer::Downloaded);
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
        },
        |world| {
            let mut beside = world.program();
            beside.connection.must_claim(BESIDE);
            let _takes = world.take_redirected();
            let mut attacker = world.attacker();
            let slot = attacker.says().parse().expect("a slot");
            for from in [OURS, "10.79.0.255", "255.255.255.255", "127.0.0.1"] {
                let forged = packets::FrameEnds {
                    from: (from.parse::<IpAddr>().expect("an address"), BESIDE).into(),
                    ..to_us(OURS, PORT)
                };
                world.far.send(&packets::udp(&forged, MARK));
            }
            world.far.send(&packets::udp(&to_us(OURS, PORT), LAST));
            let seen = world.far.seen_up_to(LAST);
            let ours = packets::udp(&from_us(OURS, PORT), LAST);
            assert!(seen.iter().any(|frame| frame.ends_with(LAST)), "{seen:?}");
            assert_eq!(ours.len(), seen.last().map_or(0, Vec::len));
            world.far.send(&packets::udp(&to_us(OURS, BESIDE), LAST));
            must_be_clean(&beside.receive_up_to(LAST));
            within(|| world.counted(slot, "handler_answered") >= 1);
            let answered = world.counted(slot, "handler_answered");
            assert_eq!(world.counted(slot, "tx_packets"), answered);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// It sends what others ask for, much for little: no more than its share, and what is beyond that comes to the program or is dropped. Killed with its
/// handler at work, it leaves nothing: the port is another's, and so are its packets.
#[test]
fn that_amplify_and_are_killed() {
    case(
        |hostile| {
            let program = hostile.attach();
            program.connection.must_claim(PORT);
            let done = download(&program.connection, PORT, AMPLIFIES);
            assert_eq!(done, Answer::Downloaded);
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
            hostile.kill_itself();
        },
        |world| {
            let _takes = world.take_redirected();
            world.set_policy(|policy| {
                let user = "user = \"65534\"\n";
                policy.replace(user, &format!("{user}rate_max = \"{BITS_PER_SEC}bit\"\n"))
            });
            let mut attacker = world.attacker();
            let slot: u32 = attacker.says().parse().expect("a slot");
            let is_bounded = || {
                let report = world.report();
                let slots = report["interfaces"][0]["slots"].as_array().cloned();
                let mut slots = slots.expect("a list").into_iter();
                slots.any(|s| s["slot"] == slot && s["rate_max_bits_per_sec"] == BITS_PER_SEC)
            };
            assert!(within(is_bounded), "the policy was not read");
            let begin = Instant::now();
            let ask = || world.far.send(&packets::udp(&to_us(OURS, PORT), b"?"));
            let count = |names: &[&str]| {
                names
                    .iter()
                    .map(|name| world.counted(slot, name))
                    .sum::<u64>()
            };
            // Some that it may receive it may not answer. Many at once: between two looks its share grows.
            let is_skipped = || {
                (0..ASKED_AT_ONCE).for_each(|_| ask());
                count(&["handler_skipped"]) >= 5
            };
            assert!(within(is_skipped), "it answers everything");
            (0..ASKED).for_each(|_| ask());
            let all = ["handler_answered", "handler_skipped", "rx_over_share"];
            assert!(
                within(|| count(&all) >= ASKED),
                "of {ASKED} some are not counted"
            );
            let left = BURST + BITS_PER_SEC / 8 * (begin.elapsed().as_secs() + 1);
            let sent = world.counted(slot, "tx_packets");
            // One more for each processor, which looks before it sends.
            let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
            assert!((1..=left / REPLY + processors).contains(&sent), "{sent}");
            // Those that were asked for first may be under way still.
            let is_told = || {
                let sent = count(&["tx_packets", "tx_over_share"]);
                sent == count(&["handler_answered"])
            };
            assert!(within(is_told), "an answer is neither sent nor dropped");
            attacker.tell("go");
            attacker.has_killed_itself();
            assert!(within(|| world.slots().is_empty()), "it is left");
            let mut next = world.program();
            next.connection.must_claim(PORT);
            world.far.send(&packets::udp(&to_us(OURS, PORT), LAST));
            next.receive_up_to(LAST);
            world.must_count(next.slot, "handler_answered", 0);
        },
    );
}

/// As many as there may be, and one more. Killed with all of them at work it leaves none in the next one's way, which has its place and its
/// ports.
#[test]
fn of_as_many_ports_as_there_may_be() {
    const PORTS: std::ops::Range<u16> = PORT..PORT + HANDLERS_MAX as u16;
    let beside = PORTS.end + 1;
    case(
        |hostile| {
            let program = hostile.attach();
            for port in PORT..=PORTS.end {
                program.connection.must_claim(port);
            }
            for port in PORTS.chain([PORT]) {
                let done = download(&program.connection, port, SWALLOWS);
                assert_eq!(done, Answer::Downloaded);
            }
            let refused = download(&program.connection, PORTS.end, SWALLOWS);
            assert_eq!(refusal(&refused), Refusal::Limit);
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
            hostile.kill_itself();
        },
        move |world| {
            let mut attacker = world.attacker();
            let slot: u32 = attacker.says().parse().expect("a slot");
            for port in PORTS {
                world.far.send(&packets::udp(&to_us(OURS, port), MARK));
            }
            world.must_count(slot, "handler_done", HANDLERS_MAX as u64);
            let mut other = world.program();
            other.connection.must_claim(beside);
            world.far.send(&packets::udp(&to_us(OURS, beside), LAST));
            other.receive_up_to(LAST);
            attacker.tell("go");
            attacker.has_killed_itself();
            assert!(within(|| world.slots() == [other.slot]), "it is left");
            let mut next = world.program();
            assert_eq!(next.slot, slot, "the lowest number is given again");
            for port in PORTS {
                next.connection.must_claim(port);
                world.far.send(&packets::udp(&to_us(OURS, port), LAST));
                next.receive_up_to(LAST);
            }
            world.must_count(slot, "handler_done", 0);
        },
    );
}

/// Text of any kind, and an end before the answer: the daemon serves on, and nothing is left.
#[test]
fn that_are_none_and_that_nobody_waits_for() {
    case(
        |hostile| {
            let program = hostile.attach();
            program.connection.must_claim(PORT);
            let deep = format!("handler h {{ x = {}1; done; }}", "(".repeat(60_000));
            let long = format!("handler h {{ {} done; }}", "x = 1;".repeat(10_000));
            for text in ["", "\0", "handler", "handler h { done; } }", &deep, &long] {
                let refused = download(&program.connection, PORT, text);
                assert_eq!(refusal(&refused), Refusal::BadRequest, "{text:.40}");
            }
            // With another length than its memory has.
            let text = "handler h { words w[512]; done; }";
            for memory in [0, 4095, 4097, 8192] {
                let (refused, _) = program.connection.ask_until_heard(&Request::Download {
                    port: PORT,
                    memory,
                    handler: text.to_owned(),
                });
                assert_eq!(refusal(&refused), Refusal::BadRequest, "{memory}");
            }
            let request = download_of(PORT, "handler h { rows r[1000] of 4096; done; }");
            program
                .connection
                .send(&request.encode(1), &[])
                .expect("room");
            hostile.kill_itself();
        },
        |world| {
            let mut beside = world.program();
            beside.connection.must_claim(BESIDE);
            world.attacker().has_killed_itself();
            assert!(within(|| world.slots() == [beside.slot]), "it is left");
            world.far.send(&packets::udp(&to_us(OURS, BESIDE), LAST));
            must_be_clean(&beside.receive_up_to(LAST));
            beside.send(&packets::udp(&from_us(OURS, BESIDE), LAST));
            must_be_clean(&world.far.seen_up_to(LAST));
        },
    );
}
