//! The doctor on real interfaces. Without root the tests of interfaces say SKIPPED and pass.

use exos_doctor::{Check, InterfaceReport, Mark, examine, examine_interface};
use exos_host::bpf::{Link, Prog, XdpMode};
use exos_host::caps::{self, CapabilitySet};
use exos_lab::{Guard, INTERFACE, Settings, Side, WireKind, up};
use std::io::Write as _;
use std::path::Path;

fn lab(test: &str, wire: WireKind, mtu: u32) -> Option<Guard> {
    if !caps::has(CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN | CapabilitySet::BPF) {
        // Past the test harness, which keeps to itself what passing tests print.
        let _ = std::io::stderr().write_all(format!("SKIPPED: {test} needs root\n").as_bytes());
        return None;
    }
    let settings = Settings {
        wire,
        mtu,
        ..Settings::named(format!("d{}-{test}", std::process::id()))
    };
    Some(up(&settings).expect("root may").0.guard())
}

fn nowhere() -> &'static Path {
    Path::new("/nowhere/xokd.sock")
}

fn examine_wire(lab: &Guard) -> InterfaceReport {
    let link = lab.link(Side::A).expect("there");
    lab.netns(Side::A)
        .run(|| examine_interface(&link))
        .expect("entered")
        .expect("examined")
}

fn check<'a>(report: &'a InterfaceReport, id: &str) -> &'a Check {
    report
        .checks
        .iter()
        .find(|check| check.id == id)
        .unwrap_or_else(|| panic!("no {id} in {report:?}"))
}

#[test]
fn a_lab_wire_is_well() {
    let Some(lab) = lab("well", WireKind::Plain, 1500) else {
        return;
    };
    let report = examine_wire(&lab);
    assert_eq!(
        (report.driver.as_deref(), report.mtu, report.rx_queues),
        (Some("veth"), 1500, 1)
    );
    for id in [
        "state",
        "native-xdp",
        "queues",
        "mtu",
        "receive-offload",
        "xdp-program",
    ] {
        assert_eq!(
            check(&report, id).mark,
            Mark::Ok,
            "{:?}",
            check(&report, id)
        );
    }
    assert!(check(&report, "checksums").what.contains("with checksums"));
}

/// A veth takes what is redirected to it where its other end has GRO or a program.
#[test]
fn that_a_veth_takes_redirected_frames_depends_on_its_other_end() {
    let Some(lab) = lab("redirect", WireKind::Plain, 1500) else {
        return;
    };
    let what = || {
        let report = examine_wire(&lab);
        let check = report.checks.into_iter().find(|c| c.id == "live-frames");
        check.map(|check| check.what)
    };
    let Some(without) = what() else {
        // Before 6.3 the kernel does not say.
        return;
    };
    assert_eq!(without, "takes no redirected frames");
    let ethtool = lab.netns(Side::B).ethtool().expect("inside");
    ethtool
        .set_feature(INTERFACE, "rx-gro", true)
        .expect("a veth has it");
    assert_eq!(what().as_deref(), Some("takes redirected frames"));
}

#[test]
fn another_program_is_named_while_it_is_there() {
    let Some(lab) = lab("other", WireKind::Plain, 1500) else {
        return;
    };
    let index = lab.link(Side::A).expect("there").index;
    let attach = || {
        let pass = Prog::load(&[0x2_0000_00b7, 0x95], "somebody_elses", false).expect("it loads");
        Link::attach_xdp(index, &pass, XdpMode::Native).expect("veth is native")
    };
    let link = lab.netns(Side::A).run(attach).expect("entered");
    let report = examine_wire(&lab);
    let found = check(&report, "xdp-program");
    assert_eq!(found.mark, Mark::Fail);
    assert!(
        found.what.contains("somebody_elses") && found.what.starts_with("native"),
        "{found:?}"
    );
    drop(link);
    // Somebody who lists the links of the machine may hold this one for a moment longer.
    let gone = || check(&examine_wire(&lab), "xdp-program").mark == Mark::Ok;
    let waited = (0..1200).any(|_| {
        gone() || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            false
        }
    });
    assert!(waited, "{:?}", check(&examine_wire(&lab), "xdp-program"));
}

#[test]
fn what_is_wrong_with_an_interface_is_said() {
    let Some(lab) = lab("wrong", WireKind::Offload, 9000) else {
        return;
    };
    assert_ne!(check(&examine_wire(&lab), "mtu").mark, Mark::Ok);
    let netlink = lab.netns(Side::A).netlink().expect("inside");
    netlink
        .set_up(lab.link(Side::A).expect("there").index, false)
        .expect("ours");
    let report = examine_wire(&lab);
    let state = check(&report, "state");
    assert!(
        state.mark == Mark::Warn && state.mend.as_ref().is_some_and(|m| m.contains(INTERFACE)),
        "{state:?}"
    );
}

#[test]
fn loopback_and_names_that_are_not_there() {
    let report = examine(&["lo".to_owned()], nowhere()).expect("lo is everywhere");
    assert!(!report.ok, "our stack speaks Ethernet");
    assert_eq!(check(&report.interfaces[0], "ethernet").mark, Mark::Fail);
    let error = examine(&["nosuchiface".to_owned()], nowhere()).expect_err("not there");
    assert!(error.to_string().contains("choose one of"), "{error}");
}

#[test]
fn a_report_becomes_json_as_documented() {
    let json =
        serde_json::to_value(examine(&[], nowhere()).expect("examined")).expect("plain data");
    let kernel = &json["machine"][0];
    assert_eq!(kernel["id"], "kernel");
    for field in ["mark", "what", "meaning", "mend"] {
        assert!(kernel.get(field).is_some(), "{field}");
    }
    assert!(json["ok"].is_boolean() && json["interfaces"].is_array());
    assert_eq!(json["daemon"][0]["id"], "daemon");
    for id in ["modes", "live-frames"] {
        let machine = json["machine"].as_array().expect("a list");
        assert!(machine.iter().any(|check| check["id"] == id), "{id}");
    }
}
