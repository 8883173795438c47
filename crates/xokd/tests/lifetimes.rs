//! What begins and ends with whom: slots, grants, what they leave. As root; skipped, and said so, otherwise.

mod lab;

use std::time::Duration;

use exos_host::shared::SharedWords;
use exos_xok::Protocol;
use exos_xok::message::{PortWish, Refusal, Request, VERSION};
use exos_xok::tables::Tables;
use lab::*;

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
    assert!(within(Duration::from_secs(3), || counted(slot) > Some(0)));
    drop((first, link));
    assert!(within(Duration::from_secs(3), || counted(slot).is_none()));
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
