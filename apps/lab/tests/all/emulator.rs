//! Emulated wires against the real kernel: made, changed, asked, ended, and what they do to frames.
//!
//! Each test has a lab of its own name, removed when it ends. Without root the tests say SKIPPED and pass.

use exos_host::caps::{self, CapabilitySet};
use exos_host::netns::NetNs;
use exos_host::priority;
use exos_lab::{
    Conditions, Emulated, Emulation, Settings, Side, State, WireKind, down, emulate,
    middle_namespace, status, up,
};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// False, and says so, when we may not make namespaces.
fn may(test: &str) -> bool {
    let may = caps::has(CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN);
    if !may {
        // Past the test harness, which keeps to itself what passing tests print.
        let _ = std::io::stderr().write_all(format!("SKIPPED: {test} needs root\n").as_bytes());
    }
    may
}

fn settings(test: &str, conditions: Conditions) -> Settings {
    Settings {
        emulation: Some(Emulation {
            conditions,
            seed: 7,
            core: None,
        }),
        ..Settings::named(format!("e{}-{test}", std::process::id()))
    }
}

fn delayed(millis: u64) -> Conditions {
    Conditions {
        delay: Duration::from_millis(millis),
        ..Conditions::default()
    }
}

/// How long to wait for what must happen, on a machine that may do other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long it takes side b to be refused by side a, where nobody listens: a round trip.
fn round_trip(lab: &Emulated, address: &str) -> Duration {
    let address: SocketAddr = address.parse().expect("an address");
    let begin = Instant::now();
    let error = lab
        .netns(Side::B)
        .run(|| {
            // As the emulator does, so that what is measured is the wire.
            let _ = priority::real_time();
            TcpStream::connect_timeout(&address, PATIENCE)
        })
        .expect("entered")
        .expect_err("nobody listens");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    begin.elapsed()
}

#[test]
fn a_round_trip_takes_twice_the_delay() {
    if !may("delay") {
        return;
    }
    let lab = emulate(&settings("delay", delayed(10))).expect("root may");
    round_trip(&lab, "10.10.0.1:9"); // Neighbours ask for each other first.
    // None is sooner. Those that take longer were held up by the machine, not by the wire, as long as some do not.
    let (begin, mut trips) = (Instant::now(), Vec::new());
    let is_exact = |trip: &Duration| *trip < Duration::from_millis(23);
    while trips.len() < 10 || !trips.iter().any(is_exact) && begin.elapsed() < PATIENCE {
        trips.push(round_trip(&lab, "10.10.0.1:9"));
    }
    let best = *trips.iter().min().expect("there are some");
    assert!(
        best >= Duration::from_millis(20) && is_exact(&best),
        "{best:?}"
    );
    assert!(round_trip(&lab, "[fd10::1]:9") >= Duration::from_millis(20));
    let statistics = lab.finish().expect("it runs");
    assert!(
        statistics.a_to_b.frames.delivered >= 11,
        "{:?}",
        statistics.a_to_b
    );
}

#[test]
fn an_emulated_lab_is_seen_asked_and_ended_from_outside() {
    if !may("outside") {
        return;
    }
    let settings = settings("outside", delayed(1));
    let lab = emulate(&settings).expect("root may");
    let seen = status(&settings.name).expect("readable");
    assert_eq!(
        (seen.state, seen.wire),
        (State::Up, Some(WireKind::Plain)),
        "{:?}",
        seen.problems
    );
    let emulation = seen.emulation.expect("it answers");
    assert_eq!(Some(emulation.settings), settings.emulation);
    assert_eq!(emulation.pid, std::process::id());

    // A direct wire in its place ends the emulator and its namespace.
    let direct = Settings {
        emulation: None,
        ..settings.clone()
    };
    up(&direct).expect("root may");
    let seen = status(&settings.name).expect("readable");
    assert_eq!(seen.state, State::Up, "{:?}", seen.problems);
    assert!(seen.emulation.is_none());
    let middle = NetNs::find(&middle_namespace(&settings.name)).expect("readable");
    assert!(middle.is_none());
    drop(lab);
    assert!(
        !down(&settings.name).expect("ours"),
        "dropping it took it down"
    );
}

#[test]
fn a_wire_without_its_emulator_is_broken_and_repaired() {
    if !may("crash") {
        return;
    }
    let settings = settings("crash", delayed(1));
    drop(emulate(&settings).expect("root may"));
    // What a crash leaves: a namespace in which nobody forwards.
    NetNs::create(&middle_namespace(&settings.name)).expect("free");
    let seen = status(&settings.name).expect("readable");
    assert_eq!(seen.state, State::Broken);
    assert!(
        seen.problems.iter().any(|p| p.contains("not running")),
        "{:?}",
        seen.problems
    );
    let lab = emulate(&settings).expect("repaired");
    assert!(round_trip(&lab, "10.10.0.1:9") >= Duration::from_millis(2));
}

#[test]
fn an_offload_wire_is_refused() {
    let wanted = Settings {
        wire: WireKind::Offload,
        ..settings("offload", delayed(1))
    };
    let error = wanted.check().expect_err("it cannot be emulated");
    assert!(error.mend.is_some(), "{error}");
}
