//! Claims by filter: wider than policy, over what others have, and sending what only looks as if it lay within.
//!
//! Policy lets the hostile program claim filters within UDP to ports 5000 to 5099. What it holds by one it receives where
//! nobody has an exact grant, and it sends what the other end would send back, from its own addresses.

use exos_wire::protocol;
use exos_xok::message::{Answer, Refusal, Request};

use crate::attacks::attacker::{Attacker, Hostile};
use crate::attacks::program::{Program, refusal};
use crate::attacks::world::{
    MARK, OURS, OURS_V6, PEER, ROOTS, World, case, from_us, is_marked, must_be_clean, to_us,
};
use crate::lab::shortage::with_descriptors_to_spare;
use crate::packets::{self, FrameEnds};

const WITHIN: &str = "udp and dst portrange 5000-5099";
const LAST: &[u8] = b"this is honest";

/// Attached, with all that policy allows by a filter.
fn holder(hostile: &Hostile) -> Program {
    let program = hostile.attach();
    program.connection.must_claim_filter(WITHIN);
    program
}

#[test]
fn claiming_filters_that_policy_does_not_allow() {
    case(
        |hostile| {
            let connection = hostile.connect();
            assert_eq!(
                refusal(&connection.claim_filter(WITHIN)),
                Refusal::BadRequest
            );
            connection.attach();
            for (filter, code) in [
                ("", Refusal::NotAllowed),
                ("all", Refusal::NotAllowed),
                ("udp", Refusal::NotAllowed),
                ("udp and dst portrange 5000-5100", Refusal::NotAllowed),
                (
                    "udp and dst port 5000 or tcp dst port 5000",
                    Refusal::NotAllowed,
                ),
                ("udp and not dst port 5000", Refusal::NotAllowed),
                ("arp", Refusal::NotAllowed),
                ("no such words", Refusal::BadRequest),
            ] {
                assert_eq!(refusal(&connection.claim_filter(filter)), code, "{filter}");
            }
            // Faster than that nobody is looked after.
            let asked: Vec<Answer> = (0..20).map(|_| connection.claim_filter("udp")).collect();
            assert!(asked.iter().any(|answer| refusal(answer) == Refusal::Busy));
            hostile.say("refused");
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("refused");
            world.daemon_must_count("refused_not_allowed", 7);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

#[test]
fn claiming_filters_over_what_others_have() {
    case(
        |hostile| {
            let program = hostile.attach();
            for filter in [
                WITHIN,
                "udp and dst port 5010",
                "udp and dst portrange 5000-5099 and not dst port 5011",
                "udp and dst portrange 5000-5099 and src port 7",
            ] {
                let answer = program.connection.claim_filter(filter);
                let Answer::Refused { code, text } = answer else {
                    panic!("{filter}: {answer:?}")
                };
                assert_eq!(code, Refusal::Held, "{text}");
                assert!(text.contains("held by program (pid "), "{text}");
            }
            // Exact claims of what lies in another's filter likewise.
            let exact = program.connection.claim(
                exos_xok::Protocol::Udp,
                exos_xok::message::PortWish::Number(5010),
            );
            assert_eq!(refusal(&exact), Refusal::Held);
            program
                .connection
                .must_claim_filter("udp and dst portrange 5020-5099");
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
        },
        |world| {
            let mut beside = world.program();
            beside
                .connection
                .must_claim_filter("udp and dst portrange 5010-5019");
            let mut attacker = world.attacker();
            let slot = attacker.says().parse().expect("a slot");
            world.far.send(&packets::udp(&to_us(OURS, 5010), LAST));
            beside.receive_up_to(LAST);
            world.must_count(slot, "rx_packets", 0);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// What comes in by the filter is the program's, but for what is somebody's exactly: before the filter and after.
#[test]
fn receiving_what_is_somebodys_exactly() {
    case(
        |hostile| {
            let mut program = holder(hostile);
            hostile.say("holding");
            let frames = program.receive_up_to(LAST);
            must_be_clean(&frames);
            assert_eq!(frames.len(), 3, "of both families, and the last");
            hostile.say("received");
        },
        |world| {
            let mut before = world.program();
            before.connection.must_claim(5050);
            let mut attacker = world.attacker();
            attacker.must_say("holding");
            world.far.send(&packets::udp(&to_us(OURS, 5050), MARK));
            world.far.send(&packets::udp(&to_us(OURS, 5100), MARK));
            for ip in [OURS, OURS_V6] {
                world.far.send(&packets::udp(&to_us(ip, 5000), b"its own"));
            }
            world.far.send(&packets::udp(&to_us(OURS, 5099), LAST));
            assert!(is_marked(&before.receive_up_to(MARK)[0]));
            attacker.must_say("received");
            attacker.finish();
        },
    );
}

#[test]
fn sending_what_does_not_lie_in_the_filter() {
    case(
        |hostile| {
            let mut program = holder(hostile);
            let segment = [&5000_u16.to_be_bytes()[..], &[0; 18], MARK].concat();
            let to_its_port = FrameEnds {
                to: (PEER.parse::<std::net::IpAddr>().expect("an address"), 5000).into(),
                ..from_us(OURS, 7000)
            };
            let frames = [
                // From others' addresses, though the filter names none.
                packets::udp(&from_us(ROOTS, 5000), MARK),
                packets::udp(&from_us("10.79.0.9", 5000), MARK),
                packets::udp(&from_us("fd79::9", 5000), MARK),
                // From a port beside the filter's, and to one of the filter's.
                packets::udp(&from_us(OURS, 5100), MARK),
                packets::udp(&to_its_port, MARK),
                // From one that is somebody's exactly.
                packets::udp(&from_us(OURS, 5050), MARK),
                // Another protocol.
                packets::ip(&from_us(OURS, 5000), protocol::TCP, &segment),
            ];
            frames.iter().for_each(|frame| program.send(frame));
            program.send(&packets::udp(&from_us(OURS_V6, 5000), b"honest, too"));
            program.send(&packets::udp(&from_us(OURS, 5099), LAST));
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
        },
        |world| {
            let exact = world.program();
            exact.connection.must_claim(5050);
            let mut attacker = world.attacker();
            must_be_clean(&world.far.seen_up_to(LAST));
            let slot = attacker.says().parse().expect("a slot");
            world.must_count(slot, "tx_bad_source", 7);
            world.must_count(slot, "tx_packets", 2);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// How many grants a slot has.
fn held(world: &World, slot: u32) -> usize {
    let report = world.report();
    let slots = report["interfaces"][0]["slots"].as_array().cloned();
    let slots = slots.expect("a list");
    let slot = slots.iter().find(|s| s["slot"] == slot);
    let grants = slot.expect("it is there")["grants"].as_array();
    grants.expect("a list").len()
}

/// What was given back or taken is neither received nor sent any more.
#[test]
fn going_on_after_the_filter_is_gone() {
    case(
        |hostile| {
            let mut program = hostile.attach();
            let grant = program.connection.must_claim_filter(WITHIN);
            program.send(&packets::udp(&from_us(OURS, 5000), LAST));
            hostile.say(&program.slot.to_string());
            hostile.wait_for("release");
            let done = program.connection.ask(&Request::Release { grant }).0;
            assert_eq!(done, Answer::Done);
            program.connection.must_claim(7000);
            program.send(&packets::udp(&from_us(OURS, 5000), MARK));
            program.send(&packets::udp(&from_us(OURS, 7000), LAST));
            hostile.say("released");
            assert_eq!(program.receive_up_to(LAST).len(), 1);
            // Again, until policy is changed.
            program.connection.must_claim_filter(WITHIN);
            hostile.say("again");
            hostile.wait_for("taken");
            program.send(&packets::udp(&from_us(OURS, 5000), MARK));
            program.send(&packets::udp(&from_us(OURS, 7000), LAST));
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            let slot = attacker.says().parse().expect("a slot");
            world.far.seen_up_to(LAST);
            attacker.tell("release");
            must_be_clean(&world.far.seen_up_to(LAST));
            attacker.must_say("released");
            world.must_count(slot, "tx_bad_source", 1);
            // The daemon answers it with an error, which quotes it.
            world
                .far
                .send(&packets::udp(&to_us(OURS, 5000), b"nobody's"));
            world.far.send(&packets::udp(&to_us(OURS, 7000), LAST));
            attacker.must_say("again");
            world.set_policy(|text| text.replace("filters = [\"udp", "filters = [\"tcp"));
            assert_eq!(held(world, slot), 2);
            let is_taken = || held(world, slot) == 1;
            assert!(crate::attacks::world::within(is_taken), "it was taken");
            attacker.tell("taken");
            must_be_clean(&world.far.seen_up_to(LAST));
            world.must_count(slot, "tx_bad_source", 2);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// The port that the program has exactly.
const OWN: u16 = 7000;
const INCOMING: &[u8] = b"this came in";

fn filter_of(port: u16) -> String {
    format!("udp and dst port {port}")
}

/// Does what the case tells it, a word and a port at a time, and says what came of it.
fn obey(hostile: &Hostile, mut program: Program) {
    program.connection.must_claim(OWN);
    hostile.say("attached");
    let mut grants = std::collections::BTreeMap::new();
    loop {
        let told = hostile.hear();
        let (word, port) = told.split_once(' ').unwrap_or((&told, "0"));
        let port: u16 = port.parse().expect("a port");
        let said = match word {
            "claim" => match program
                .connection
                .claim_filter_until_heard(&filter_of(port))
            {
                Answer::GrantedFilter { grant } => {
                    grants.insert(port, grant);
                    "granted"
                }
                refused => {
                    assert_eq!(refusal(&refused), Refusal::System, "{refused:?}");
                    "refused"
                }
            },
            "release" => {
                let grant = grants[&port];
                match program.connection.ask(&Request::Release { grant }).0 {
                    Answer::Done => "done",
                    refused => {
                        assert_eq!(refusal(&refused), Refusal::System, "{refused:?}");
                        "refused"
                    }
                }
            }
            "receive" => {
                let frames = program.receive_up_to(LAST);
                let came = frames.iter().any(|frame| frame.ends_with(INCOMING));
                ["nothing", "something"][usize::from(came)]
            }
            "send" => {
                program.send(&packets::udp(&from_us(OURS, port), MARK));
                program.send(&packets::udp(&from_us(OURS, OWN), LAST));
                "sent"
            }
            _ => return,
        };
        hostile.say(said);
    }
}

fn tell(attacker: &mut Attacker, word: &str, port: u16) -> String {
    attacker.tell(&format!("{word} {port}"));
    attacker.says()
}

/// What comes in at a port goes to the attacker, and what it sends from there goes out, both or neither.
fn must_have(world: &World, attacker: &mut Attacker, port: u16, has: bool) {
    world.far.send(&packets::udp(&to_us(OURS, port), INCOMING));
    world.far.send(&packets::udp(&to_us(OURS, OWN), LAST));
    let came = tell(attacker, "receive", port);
    assert_eq!(came == "something", has, "what comes in at {port}");
    assert_eq!(tell(attacker, "send", port), "sent");
    let seen = world.far.seen_up_to(LAST);
    let went = seen.iter().any(|frame| is_marked(frame));
    assert_eq!(went, has, "what goes out from {port}");
}

/// With ever more descriptors left to the daemon, as who fills them could choose, until it has enough: how many it takes.
/// After each attempt that is refused it is looked at what the attacker has then.
fn until_enough(
    world: &World,
    attacker: &mut Attacker,
    attempt: impl Fn(&mut Attacker, usize) -> bool,
    look: impl Fn(&mut Attacker, usize),
) -> usize {
    for spare in 0..8 {
        let pid = world.daemon_pid();
        if with_descriptors_to_spare(pid, spare, || attempt(attacker, spare)) {
            assert!(spare > 0, "some are needed");
            return spare;
        }
        look(attacker, spare);
    }
    panic!("more than eight are too few");
}

/// A claim that is refused because the daemon has no descriptor left is none for the packet path either.
#[test]
fn claiming_when_descriptors_run_out() {
    case(
        |hostile| obey(hostile, hostile.attach()),
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("attached");
            assert_eq!(tell(&mut attacker, "claim", 5000), "granted");
            let ports: Vec<u16> = (5010..).take(8).collect();
            let enough = until_enough(
                world,
                &mut attacker,
                |attacker, spare| tell(attacker, "claim", ports[spare]) == "granted",
                |attacker, spare| {
                    must_have(world, attacker, ports[spare], false);
                    must_have(world, attacker, 5000, true);
                },
            );
            for port in [5000, ports[enough]] {
                must_have(world, &mut attacker, port, true);
            }
            // They are free, for others.
            let mut other = world.program();
            other.connection.must_claim_filter(&filter_of(ports[0]));
            let incoming = packets::udp(&to_us(OURS, ports[0]), INCOMING);
            world.far.send(&incoming);
            other.receive_up_to(INCOMING);
            attacker.tell("end");
            attacker.finish();
        },
    );
}

/// What the daemon could not give back for want of descriptors is the program's still, and nobody else gets it. And nothing
/// of the check of what it sends is lost, whether a part of its filters is given back or the last.
#[test]
fn giving_back_when_descriptors_run_out() {
    case(
        |hostile| obey(hostile, hostile.attach()),
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("attached");
            for port in [5000, 5001] {
                assert_eq!(tell(&mut attacker, "claim", port), "granted");
            }
            for port in [5000, 5001] {
                until_enough(
                    world,
                    &mut attacker,
                    |attacker, _| tell(attacker, "release", port) == "done",
                    |attacker, _| must_have(world, attacker, port, true),
                );
                must_have(world, &mut attacker, port, false);
                // What was never anybody's is still looked at.
                must_have(world, &mut attacker, 6000, false);
            }
            attacker.tell("end");
            attacker.finish();
        },
    );
}
