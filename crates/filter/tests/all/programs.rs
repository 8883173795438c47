//! The generated programs as text: what they do is readable, and small ones stay small.

use exos_filter::{Action, Filter, ProgramMaps, Rule, compile, dispatcher, stamping_dispatcher};
use exos_testing::ebpf::disassemble;

fn program(text: &str, otherwise: Action, counters_fd: Option<i32>) -> String {
    let rule = Rule {
        filter: Filter::parse(text).unwrap(),
        action: Action::RedirectToSocket,
    };
    let maps = ProgramMaps {
        xskmap_fd: 5,
        counters_fd,
        early_drop: None,
    };
    disassemble(&compile(&[rule], otherwise, &maps).unwrap().words())
}

/// The listener of a web server: 35 instructions and the redirection.
#[test]
fn one_port_of_one_address() {
    insta::assert_snapshot!(program(
        "tcp dst port 80 and dst host 10.0.0.2",
        Action::Pass,
        None
    ));
}

/// The type alone decides: no header is looked into.
#[test]
fn arp_needs_only_the_type() {
    insta::assert_snapshot!(program("arp", Action::Drop, None));
}

#[test]
fn frames_are_not_parsed_for_their_address() {
    insta::assert_snapshot!(program("ether dst 02:00:00:00:00:01", Action::Pass, None));
}

#[test]
fn verdicts_are_counted_at_the_end() {
    insta::assert_snapshot!(program("all", Action::Pass, Some(7)));
}

#[test]
fn the_dispatcher_calls_slot_zero() {
    insta::assert_snapshot!(disassemble(&dispatcher(9, Action::Pass).words()));
}

#[test]
fn the_stamping_dispatcher_notes_the_time_first() {
    insta::assert_snapshot!(disassemble(&stamping_dispatcher(9, Action::Pass).words()));
}

/// A verdict that does not depend on the packet is all there is.
#[test]
fn constant_rules_are_constant_programs() {
    let maps = ProgramMaps {
        xskmap_fd: -1,
        counters_fd: None,
        early_drop: None,
    };
    for text in ["all", "none", "tcp or not tcp"] {
        let rule = Rule {
            filter: Filter::parse(text).unwrap(),
            action: Action::Pass,
        };
        let program = compile(&[rule], Action::Pass, &maps).unwrap();
        assert_eq!(
            program.insns().len(),
            2,
            "{}",
            disassemble(&program.words())
        );
    }
}

/// Rules whose filters begin alike share the beginning: a thousand listeners are two
/// instructions each, found by halving.
#[test]
fn common_beginnings_are_shared() {
    let rules: Vec<Rule> = (0..1000)
        .map(|i| Rule {
            filter: Filter::parse(&format!("tcp dst port {} and dst host 10.0.0.2", 1000 + i))
                .unwrap(),
            action: Action::RedirectToSocket,
        })
        .collect();
    let maps = ProgramMaps {
        xskmap_fd: 5,
        counters_fd: None,
        early_drop: None,
    };
    let length = compile(&rules, Action::Pass, &maps).unwrap().insns().len();
    assert!(length < 2050, "{length}");
}

/// More than the instruction set's jumps can span is an error, not a wrong program.
#[test]
fn too_many_rules_are_refused() {
    let rules: Vec<Rule> = (0..6000u32)
        .map(|i| Rule {
            filter: Filter::parse(&format!(
                "tcp dst port {} and src host 10.0.{}.{}",
                i,
                i / 256,
                i % 256
            ))
            .unwrap(),
            action: Action::Drop,
        })
        .collect();
    let maps = ProgramMaps {
        xskmap_fd: 5,
        counters_fd: None,
        early_drop: None,
    };
    let error = compile(&rules, Action::Pass, &maps).unwrap_err();
    assert!(error.to_string().contains("fewer or simpler rules"));
}
