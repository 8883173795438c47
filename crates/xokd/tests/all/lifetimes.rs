//! What begins and ends with a program: slots, grants, what they leave. As root; skipped, and said so, otherwise.

use crate::lab;

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use exos_host::bpf::{Map, Prog};
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_host::shared::SharedWords;
use exos_xok::Protocol;
use exos_xok::message::{Answer, PortWish, Refusal, Request, VERSION};
use exos_xok::tables::Tables;
use exos_xokd::limits::{MESSAGES_PER_TURN, REATTACH_TIME};
use lab::shortage::with_descriptors_to_spare;
use lab::*;
use rustix::process::Signal;

/// A slot's number is used again; what its last program was counted is not the next one's.
#[test]
fn a_slot_that_is_used_again_counts_from_nothing() {
    let Some(mut lab) = Lab::new("again") else {
        return;
    };
    lab.start(&[]);
    let watcher = Program::connect(&lab);
    let (_, fds) = watcher.ask(&Request::Hello { version: VERSION });
    let words = SharedWords::open(fds.into_iter().next().expect("the tables")).expect("sealed");
    let tables = Tables::new(words.words()).expect("tables");
    let counted = |slot| tables.slot(slot).map(|s| s.counters.iter().sum::<u64>());
    let first = Program::connect(&lab);
    let Attached { slot, mut link, .. } = first.attached();
    port_of(&first.claim(Protocol::Udp, PortWish::Number(5353)));
    assert!(receives(&lab, &mut link, 5353, "counted"));
    assert!(within(|| counted(slot) > Some(0)));
    drop((first, link));
    assert!(within(|| counted(slot).is_none()));
    let second = Program::connect(&lab);
    assert_eq!(second.attached().slot, slot);
    assert_eq!(counted(slot), Some(0));
}

/// Chosen ports are those that policy allows, also when that is not where the daemon would begin to look; without any
/// the rule that is wanted is named.
#[test]
fn chosen_ports_are_of_those_that_policy_allows() {
    let Some(mut lab) = Lab::new("chosen") else {
        return;
    };
    let allow = |ports: &str| format!("[[allow]]\nuser = \"0\"\nports = [\"{ports}\"]\n");
    lab.start_by(&allow("40000-40003"));
    let program = Program::connect(&lab);
    program.attached();
    let choose = || program.claim(Protocol::Tcp, PortWish::Ephemeral);
    let mut ports: Vec<u16> = (0..4).map(|_| port_of(&choose()).1.port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [40000, 40001, 40002, 40003]);
    assert_eq!(refusal(&choose()).0, Refusal::Limit);
    lab.reload(&allow("80"));
    program.revoked();
    let refused = choose();
    let (code, text) = refusal(&refused);
    assert_eq!(code, Refusal::NotAllowed);
    assert!(text.contains("ports = [\"32768-60999\"]"), "{text}");
}

/// Names of namespaces that are of this laboratory's wire, as earlier versions gave them to those of slots.
fn named(lab: &Lab) -> Vec<String> {
    let inode = NetNs::open(&lab.side('a')).and_then(|ns| ns.inode());
    let prefix = format!("exos-xok-{}-", inode.expect("it is there"));
    let mut all = NetNs::list_with_leavings().expect("they can be listed");
    all.retain(|name| name.starts_with(&prefix));
    all
}

/// What the names of this laboratory's wire begin with.
fn gate_name(lab: &Lab) -> String {
    lab.on_the_host(|| {
        let index = Netlink::new().and_then(|n| n.link_by_name("wire"));
        let inode = NetNs::current().and_then(|ns| ns.inode());
        let (inode, index) = (inode.expect("ours"), index.expect("it is there").index);
        format!("{inode}-{index}")
    })
}

/// Namespaces of slots had names once, by which anybody could hold them. The next daemon takes these away, as does
/// `--clean`, and what they stood for goes.
#[test]
fn names_of_an_earlier_version_go() {
    let Some(mut lab) = Lab::new("named") else {
        return;
    };
    let name = format!("exos-xok-{}-7", gate_name(&lab));
    for clean in [false, true] {
        // The `--clean` of another test that runs beside this one takes it away even while it is made.
        let made = (0..100).any(|_| NetNs::create(&name).is_ok());
        assert!(made, "{:?}", NetNs::create(&name).err());
        match clean {
            true => drop(lab.clean()),
            false => {
                lab.start(&[]);
                Program::connect(&lab).attached();
                assert!(named(&lab).is_empty(), "{:?}", named(&lab));
                lab.stop();
            }
        }
        assert!(named(&lab).is_empty(), "{:?}", named(&lab));
    }
}

/// What a killed daemon leaves is found by its name, also without its state; what a running one has is left alone.
#[test]
fn what_is_left_goes_and_what_is_used_stays() {
    let Some(mut lab) = Lab::new("clean") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let Attached { mut link, .. } = program.attached();
    port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    // By the name of another daemon's socket, which nobody listens at.
    let other = std::env::temp_dir().join(format!("{}-other.sock", lab.name));
    let said = String::from_utf8(lab.clean_by(&other).stdout).expect("text");
    assert!(said.contains("which a running daemon serves"), "{said}");
    let inode = NetNs::open(&lab.side('a')).and_then(|ns| ns.inode());
    let ours = format!("{}-", inode.expect("it is there"));
    let removed = said
        .lines()
        .any(|l| l.starts_with("removed") && l.contains(&ours));
    assert!(!removed, "{said}");
    assert!(receives(&lab, &mut link, 5353, "it is still there"));
    assert!(named(&lab).is_empty(), "{:?}", named(&lab));
    // Nor is a second daemon served by what the first one has.
    let taken = lab.refused(&other);
    assert!(taken.contains("another daemon serves wire"), "{taken}");
    lab.kill();
    for name in exos_xokd::state::names() {
        if name.starts_with(&ours) {
            std::fs::remove_file(format!("/run/exos/{name}.json")).expect("it was written");
        }
    }
    let said = String::from_utf8(lab.clean().stdout).expect("text");
    for what in ["removed gate", "removed interface xok"] {
        assert!(said.contains(what), "no {what:?} in {said}");
    }
    assert_eq!(lab.interfaces(), ["lo", "wire"]);
    let said = String::from_utf8(lab.clean().stdout).expect("text");
    assert!(!said.contains(&ours), "{said}");
}

/// The interface's namespace is gone, and with it our ends of the pairs: the rest is found from elsewhere.
#[test]
fn what_is_left_of_a_namespace_that_is_gone_goes_too() {
    let Some(mut lab) = Lab::new("gone") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    program.attached();
    let folder = std::path::Path::new("/sys/fs/bpf/exos").join(gate_name(&lab));
    assert!(folder.exists(), "{}", folder.display());
    lab.kill();
    drop(program);
    NetNs::delete(&lab.side('a')).expect("nobody is in it");
    // The kernel takes down all namespaces of the machine one after another, in its own time.
    let cleaned = within(|| {
        lab.clean_from('b');
        !folder.exists()
    });
    assert!(cleaned, "{}", folder.display());
}

/// `ip netns exec` makes a mount namespace with a /sys of its own, in which nothing outlives the daemon.
#[test]
fn a_daemon_whose_names_end_with_it_says_so() {
    let Some(lab) = Lab::new("private") else {
        return;
    };
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &lab.side('a'), env!("CARGO_BIN_EXE_xokd")]);
    command.args([
        "--interface",
        "wire",
        "--address",
        "10.78.0.7/24",
        "--socket",
    ]);
    command.arg(lab.socket());
    command.stderr(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("ip is of iproute2");
    let said = BufReader::new(child.stdout.take().expect("a pipe"));
    let started = |line: std::io::Result<String>| line.is_ok_and(|l| l.starts_with("listening"));
    assert!(said.lines().any(started));
    child.kill().expect("it is ours");
    let output = child.wait_with_output().expect("it ends");
    let warned = String::from_utf8(output.stderr).expect("text");
    assert!(warned.contains("--namespace NAME"), "{warned}");
}

/// A second holder, and a ticket that is on its way, live through a daemon that is killed.
#[test]
fn what_is_passed_on_outlives_the_daemon() {
    let Some(mut lab) = Lab::new("passed") else {
        return;
    };
    lab.start(&[]);
    let (first, second) = (Program::connect(&lab), Program::connect(&lab));
    let one = first.attached();
    let mut two = second.attached();
    let claim = |port| port_of(&first.claim(Protocol::Udp, PortWish::Number(port))).0;
    let (shared, moved) = (claim(5000), claim(5001));
    let ticket = |answer: Answer| match answer {
        Answer::Ticket(secret) => secret,
        other => panic!("no ticket: {other:?}"),
    };
    let share = ticket(first.ask(&Request::Share { grant: shared }).0);
    port_of(&second.ask(&Request::Import { ticket: share }).0);
    let offered = ticket(first.ask(&Request::Share { grant: moved }).0);
    // More answers than a user has in a turn: that of the one before is over, and what it did is written down.
    for _ in 0..=MESSAGES_PER_TURN {
        first.ask(&Request::Hello { version: VERSION });
    }
    lab.kill();
    lab.start(&[]);
    let [first, second] = [one.token, two.token].map(|token| {
        let again = Program::connect(&lab);
        let (back, _) = again.ask(&Request::Reattach { token });
        assert!(matches!(back, Answer::Attached { .. }), "{back:?}");
        again
    });
    port_of(&second.ask(&Request::Import { ticket: offered }).0);
    for grant in [shared, moved] {
        let (answer, _) = first.ask(&Request::Release { grant });
        assert!(matches!(answer, Answer::Done), "{answer:?}");
    }
    assert!(receives(&lab, &mut two.link, 5001, "moved"));
    assert!(receives(&lab, &mut two.link, 5000, "shared"));
}

/// An ICMP error is of the flow that it is about: the program whose datagram found nobody hears of it, and no other.
#[test]
fn errors_reach_the_program_whose_packet_caused_them() {
    let Some(mut lab) = Lab::new("errors") else {
        return;
    };
    lab.start(&[]);
    let (sender, other) = (Program::connect(&lab), Program::connect(&lab));
    let [mut ours, mut theirs] = [&sender, &other].map(|program| program.attached().link);
    port_of(&sender.claim(Protocol::Udp, PortWish::Number(5000)));
    port_of(&other.claim(Protocol::Udp, PortWish::Number(5001)));
    // Both know the way: the peer has asked for our address.
    assert!(receives(&lab, &mut ours, 5000, "the first"));
    assert!(receives(&lab, &mut theirs, 5001, "the second"));
    let frame = lab.datagram(5000, 9, b"to nobody");
    assert!(ours.transmit(&frame, &[], exos_link::TxMeta::default()));
    ours.flush().expect("it is up");
    // RFC 792: destination unreachable, port unreachable, with the datagram's header behind.
    let about_it =
        |frame: &[u8]| frame[23] == 1 && frame[34..36] == [3, 3] && frame[62..64] == [0x13, 0x88];
    let heard = |link: &mut exos_link::Link| {
        let mut heard = false;
        link.receive(|frame, _| heard |= about_it(frame));
        heard
    };
    assert!(within(|| heard(&mut ours)));
    assert!(receives(&lab, &mut ours, 5000, "after it"));
    assert!(!heard(&mut theirs));
}

/// On a machine under load a program gives up waiting for a daemon that has come back, and asks again: what it asked
/// before that is heard later, and must not take the slot.
#[test]
fn who_asks_again_for_a_slot_keeps_it() {
    let Some(mut lab) = Lab::new("impatient") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let Attached {
        token,
        slot,
        link: _link,
        ..
    } = program.attached();
    lab.kill();
    lab.start(&[]);
    // The daemon is stopped, so that all of it is there at once.
    lab.stand();
    for _ in 0..3 {
        let impatient = Program::connect(&lab);
        impatient.tell(&Request::Reattach { token });
    }
    let patient = Program::connect(&lab);
    patient.tell(&Request::Reattach { token });
    lab.signal(Signal::CONT);
    let (answer, _) = patient.answer();
    assert!(
        matches!(answer, Answer::Attached { slot: same, .. } if same == slot),
        "{answer:?}"
    );
    port_of(&patient.claim(Protocol::Udp, PortWish::Number(5000)));
}

/// Where the daemon writes down what its successor is to know.
fn state_file(lab: &Lab) -> PathBuf {
    PathBuf::from("/run/exos").join(format!("{}.json", gate_name(lab)))
}

/// Has a turn of the daemon's end: it hears no more of a user in one.
fn end_turn(program: &Program) {
    for _ in 0..=MESSAGES_PER_TURN {
        program.ask(&Request::Hello { version: VERSION });
    }
}

/// What there was no descriptor for to write it down with is written when there is one, and not lost with the daemon.
#[test]
fn what_could_not_be_written_down_is_written_later() {
    let Some(mut lab) = Lab::new("unwritten") else {
        return;
    };
    lab.start(&[]);
    let [giver, taker] = [(); 2].map(|()| Program::connect(&lab));
    let (one, two) = (giver.attached(), taker.attached());
    let (grant, _) = port_of(&giver.claim(Protocol::Udp, PortWish::Number(5000)));
    end_turn(&giver);
    let file = state_file(&lab);
    let written = || std::fs::read(&file).expect("it is there");
    let before = written();
    let daemon = lab.daemon.as_ref().expect("it runs").id();
    let ticket = with_descriptors_to_spare(daemon, 0, || {
        let (answer, _) = giver.ask(&Request::Share { grant });
        let Answer::Ticket(ticket) = answer else {
            panic!("no ticket: {answer:?}")
        };
        end_turn(&giver);
        assert_eq!(written(), before, "there was nothing to write it with");
        ticket
    });
    let later = within(|| written() != before);
    assert!(later, "it is not written");
    lab.kill();
    lab.start(&[]);
    let [_giver, taker] = [one.token, two.token].map(|token| {
        let again = Program::connect(&lab);
        let (back, _) = again.ask(&Request::Reattach { token });
        assert!(matches!(back, Answer::Attached { .. }), "{back:?}");
        again
    });
    port_of(&taker.ask(&Request::Import { ticket }).0);
}

/// Programs that go while there is no daemon.
const LEFT: usize = 12;

fn slots(words: &SharedWords) -> usize {
    Tables::new(words.words()).expect("tables").slots().count()
}

/// Programs that have gone, whose slots a new daemon has and stands: one that may speak to it, its tables, and what they have of their
/// slots. None where their time was over before it stood.
fn leave_all(lab: &mut Lab) -> Option<(Program, SharedWords, Vec<Attached>)> {
    let attach = |_| {
        let program = Program::connect(lab);
        let attached = program.attached();
        (program, attached)
    };
    let (programs, has): (Vec<_>, Vec<_>) = (0..LEFT).map(attach).unzip();
    lab.kill();
    drop(programs);
    lab.start(&[]);
    let late = Program::connect(lab);
    let words = late.tables();
    lab.stand();
    if slots(&words) == LEFT {
        return Some((late, words, has));
    }
    lab.signal(Signal::CONT);
    assert!(within(|| slots(&words) == 0), "they are left");
    None
}

/// Programs that do not come back to a new daemon lose their slots one in a turn, and others are heard in between: of
/// many, all of whom are due at once, the last finds its slot still there.
#[test]
fn who_does_not_come_back_goes_one_in_a_turn() {
    let Some(mut lab) = Lab::new("one-by-one") else {
        return;
    };
    lab.start(&[]);
    let in_time = (0..10).find_map(|_| leave_all(&mut lab));
    let (late, words, has) = in_time.expect("in one of many attempts");
    std::thread::sleep(REATTACH_TIME + Duration::from_millis(500));
    // More than is heard in the turn in which the first one goes.
    for _ in 0..=MESSAGES_PER_TURN {
        late.tell(&Request::Untap { tap: 1 });
    }
    for Attached { token, .. } in [&has[0], &has[LEFT - 1]] {
        late.tell(&Request::Reattach { token: *token });
    }
    lab.signal(Signal::CONT);
    for _ in 0..=MESSAGES_PER_TURN {
        assert_eq!(refusal(&late.answer().0).0, Refusal::NotFound);
    }
    let first = late.answer().0;
    assert_eq!(refusal(&first).0, Refusal::NotFound, "it has gone");
    let last = late.answer().0;
    assert!(matches!(last, Answer::Attached { .. }), "{last:?}");
    let left = || slots(&words);
    assert!(within(|| left() == 1), "{}", left());
}

/// A gate that was taken down while a process had its program of live frames leaves the guard, and is not taken down again and
/// again.
#[test]
fn a_guard_that_is_left_is_no_gate() {
    let Some(lab) = Lab::new("guard") else {
        return;
    };
    let inode = NetNs::open(&lab.side('a')).and_then(|ns| ns.inode());
    let name = format!("{}-7", inode.expect("it is there"));
    let folder = std::path::Path::new("/sys/fs/bpf/exos").join(&name);
    // r0 = XDP_PASS; exit
    let program = Prog::load(&[0x0000_0002_0000_00b7, 0x95], "kept", false).expect("as root");
    let guard = format!("guard{}", program.info().expect("it is there").id);
    let stands_for = |name: &str| {
        std::fs::create_dir_all(&folder).expect("as root");
        let map = Map::array("exos_test", 4, 1).expect("as root");
        // It may be there from before.
        let _ = map.pin(&folder.join(name));
    };
    let clean = || String::from_utf8(lab.clean().stdout).expect("text");
    let (removed, kept) = (format!("removed gate {name}"), format!("guard of {name}"));
    // Sweeps of other tests take down what nobody serves in any namespace: one may be looking at it, or come first.
    let is_removed = |parts: &[&str]| {
        let mut said = String::new();
        let is_removed = within(|| {
            parts.iter().for_each(|name| stands_for(name));
            said = clean();
            said.contains(&removed)
        });
        assert!(is_removed, "{said}");
        said
    };
    let said = is_removed(&[&guard, "config"]);
    assert!(said.contains(&kept), "{said}");
    let mut said = String::new();
    let looks = within(|| {
        said = clean();
        !said.contains(&format!("left alone: {name}"))
    });
    assert!(looks && said.contains(&kept), "{said}");
    assert!(!said.contains(&removed), "{said}");
    drop(program);
    let said = is_removed(&[&guard]);
    assert!(!said.contains(&kept), "{said}");
    assert!(!folder.exists());
}
