//! What the daemon says to the one that runs it, of what it does not do. As root; skipped, and said so, otherwise.

use crate::lab;

use std::process::{Command, Stdio};

use exos_host::netlink::VethEnd;
use exos_host::netns::NetNs;
use exos_xok::message::{Answer, Refusal};
use lab::heard::Heard;
use lab::*;
use rustix::process::Signal;

/// The daemon, with what it says where it can be heard.
fn start(lab: &mut Lab, args: &[&str]) -> Heard {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xokd"));
    command.args(["--namespace", &lab.side('a'), "--socket"]);
    command.arg(lab.socket()).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let heard = Heard::from(child.stderr.take().expect("a pipe"));
    let said = Heard::from(child.stdout.take().expect("a pipe"));
    lab.daemon = Some(child);
    said.must_hear("listening");
    heard
}

const WARNING: &str = "has programs of an earlier daemon";

/// A second interface of the daemon's host, without a host behind it.
fn another_interface(lab: &Lab) {
    let here = NetNs::open(&lab.side('a')).expect("it is there");
    let netlink = here.netlink().expect("a socket");
    let (end, far) = (VethEnd::named("other"), VethEnd::named("far"));
    netlink.create_veth_pair(&end, &far).expect("a pair");
    for name in ["other", "far"] {
        let index = netlink.link_by_name(name).expect("just made").index;
        netlink.set_up(index, true).expect("it is ours");
    }
}

const OTHER: [&str; 4] = ["--interface", "other", "--address", "10.77.0.7/24"];

/// A daemon that serves another interface than the last one did says that the last one's programs go on.
#[test]
fn gates_that_no_daemon_serves_are_told_of() {
    let Some(mut lab) = Lab::new("unserved") else {
        return;
    };
    another_interface(&lab);
    lab.start(&[]);
    let program = Program::connect(&lab);
    program.attach();
    lab.kill();
    let heard = start(&mut lab, &OTHER);
    let inode = NetNs::open(&lab.side('a')).and_then(|ns| ns.inode());
    let index = lab.on_the_host(|| {
        let netlink = exos_host::netlink::Netlink::new().expect("a socket");
        netlink.link_by_name("wire").expect("it is there").index
    });
    let gate = format!("warning: {}-{index} ", inode.expect("it is there"));
    let line = heard.must_hear(WARNING);
    assert!(line.starts_with(&gate), "{line}");
    assert!(line.contains("--clean"), "{line}");
    lab.stop();
    let warned = heard.into_lines();
    assert_eq!(warned.iter().filter(|l| l.contains(WARNING)).count(), 1);
    // Served again, there is nothing to tell.
    let heard = start(
        &mut lab,
        &["--interface", "wire", "--address", "10.78.0.7/24"],
    );
    lab.stop();
    let said = heard.into_lines();
    assert!(!said.iter().any(|line| line.contains(WARNING)), "{said:?}");
}

/// What another daemon serves is nobody's concern.
#[test]
fn gates_that_another_daemon_serves_are_not_told_of() {
    let Some(mut lab) = Lab::new("served") else {
        return;
    };
    another_interface(&lab);
    lab.start(&[]);
    let first = lab.daemon.take();
    let socket = lab.socket();
    // Its socket is another's place now: that is no matter here.
    std::fs::remove_file(&socket).expect("it listens there");
    let heard = start(&mut lab, &OTHER);
    lab.stop();
    let said = heard.into_lines();
    assert!(!said.iter().any(|line| line.contains(WARNING)), "{said:?}");
    lab.daemon = first;
    lab.stop();
}

/// Rules are in force at once; what a policy says again of interfaces is not, and it is said what that is.
#[test]
fn what_takes_a_restart_is_told_when_the_policy_is_read_again() {
    let Some(mut lab) = Lab::new("restart") else {
        return;
    };
    let allow = "[[allow]]\nuser = \"0\"\n";
    lab.write_policy(allow);
    let file = lab.policy();
    let heard = start(&mut lab, &["--policy", file.to_str().expect("a name")]);
    let policy = "[[interface]]\nname = \"wire\"\nrate = \"2gbit\"\naddresses = [\"10.78.0.8/24\"]\n\
                  [[interface]]\nname = \"other\"\naddresses = [\"10.77.0.7/24\"]\n";
    std::fs::write(&file, format!("{policy}{allow}")).expect("room");
    lab.signal(Signal::HUP);
    let line = heard.must_hear("what is new of wire");
    assert!(line.contains("(rate, addresses) takes a restart"), "{line}");
    assert!(line.contains("--replace"), "{line}");
    heard.must_hear("serving other takes a restart");
    lab.stop();
    // And none of it, when it stays: other rules take none.
    lab.write_policy(allow);
    let heard = start(&mut lab, &["--policy", file.to_str().expect("a name")]);
    lab.reload("[[allow]]\nuser = \"1\"\n");
    let is_read = || match Program::connect(&lab).attach().0 {
        Answer::Refused { code, .. } => code == Refusal::NotAllowed,
        _ => false,
    };
    assert!(within(is_read), "it was not read");
    lab.stop();
    let said = heard.into_lines();
    assert!(
        !said.iter().any(|line| line.contains("restart")),
        "{said:?}"
    );
}

/// Identifiers of echo requests are held by sockets for which the daemon's group needs leave of the network namespace: a new
/// one gives it to nobody.
#[test]
fn that_identifiers_of_echo_cannot_be_held_is_told() {
    const RANGE: &str = "net.ipv4.ping_group_range";
    let Some(mut lab) = Lab::new("echoes") else {
        return;
    };
    for (groups, is_told) in [("1\t0", true), ("0\t2147483647", false)] {
        lab.on_the_host(|| {
            let written = std::fs::write("/proc/sys/net/ipv4/ping_group_range", groups);
            written.expect("the namespace is ours");
        });
        let interface = ["--interface", "wire", "--address", "10.78.0.7/24"];
        let heard = start(&mut lab, &interface);
        lab.stop();
        let said = heard.into_lines();
        let told = said.iter().any(|line| line.contains(RANGE));
        assert_eq!(told, is_told, "{groups}: {said:?}");
    }
}
