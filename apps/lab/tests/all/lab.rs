//! Labs against the real kernel: made, changed, repaired, used, removed.
//!
//! Each test has labs of its own name, removed when it ends. Without root the tests say SKIPPED and pass.

use clap::Parser as _;
use exos_host::caps::{self, CapabilitySet};
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_lab::{
    Guard, INTERFACE, LabArgs, Outcome, Settings, Side, State, WireKind, down, list, run, status,
    up,
};
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};

/// False, and says so, when we may not make namespaces.
fn may(test: &str) -> bool {
    let may = caps::has(CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN);
    if !may {
        // Past the test harness, which keeps to itself what passing tests print.
        let _ = std::io::stderr().write_all(format!("SKIPPED: {test} needs root\n").as_bytes());
    }
    may
}

fn settings(test: &str) -> Settings {
    let settings = Settings::named(format!("t{}-{test}", std::process::id()));
    // A run that was killed may have had our process's number.
    if caps::has(CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN) {
        down(&settings.name).expect("root may");
    }
    settings
}

/// Makes the lab and checks what had to be done.
fn up_as(settings: &Settings, expected: Outcome) -> Guard {
    let (lab, outcome) = up(settings).expect("root may");
    assert_eq!(outcome, expected);
    let status = status(&settings.name).expect("readable");
    assert_eq!(
        (status.state, status.wire),
        (State::Up, Some(settings.wire)),
        "{:?}",
        status.problems
    );
    assert!(
        status
            .sides
            .iter()
            .all(|side| side.mtu == Some(settings.mtu)),
        "{status:?}"
    );
    lab.guard()
}

/// True when side b reaches side a over IPv4 and IPv6. `ping` need not be installed: a TCP connection to a port
/// where nobody listens is refused by the other side at once, which takes neighbour discovery and both ways.
fn reaches(lab: &Guard) -> bool {
    let refused = |address: &str| {
        let address: std::net::SocketAddr = address.parse().expect("an address");
        let wait = std::time::Duration::from_secs(60);
        let error = lab
            .netns(Side::B)
            .run(|| std::net::TcpStream::connect_timeout(&address, wait))
            .expect("entered");
        error.expect_err("nobody listens").kind() == std::io::ErrorKind::ConnectionRefused
    };
    refused("10.10.0.1:9") && refused("[fd10::1]:9")
}

#[test]
fn up_twice_then_other_settings_then_down() {
    if !may("up") {
        return;
    }
    let plain = settings("up");
    let lab = up_as(&plain, Outcome::Made);
    assert!(reaches(&lab), "usable at once");
    std::mem::forget(lab);
    std::mem::forget(up_as(&plain, Outcome::Unchanged));

    let longer = Settings {
        mtu: 3000,
        ..plain.clone()
    };
    let index = up_as(&longer, Outcome::Changed)
        .link(Side::A)
        .expect("there")
        .index;
    assert_eq!(
        status(&plain.name).expect("readable").state,
        State::Down,
        "the guard took it down"
    );

    std::mem::forget(up_as(&plain, Outcome::Made));
    let offload = Settings {
        wire: WireKind::Offload,
        ..plain.clone()
    };
    std::mem::forget(up_as(&offload, Outcome::Changed));
    std::mem::forget(up_as(&offload, Outcome::Unchanged));
    let wide = Settings {
        queues: 2,
        ..plain.clone()
    };
    std::mem::forget(up_as(&wide, Outcome::Changed));
    std::mem::forget(up_as(&wide, Outcome::Unchanged));
    let steered = Settings {
        receive_cores: Some([0, 0]),
        ..wide.clone()
    };
    let lab = up_as(&steered, Outcome::Changed);
    assert!(reaches(&lab));
    std::mem::forget(lab);
    std::mem::forget(up_as(&steered, Outcome::Unchanged));
    let cores = || {
        let state = status(&plain.name).expect("readable");
        [0, 1].map(|side: usize| state.sides[side].receive_core)
    };
    assert_eq!(cores(), [Some(0); 2]);
    std::mem::forget(up_as(&wide, Outcome::Changed));
    assert_eq!(cores(), [None; 2]);
    let state = status(&plain.name).expect("readable");
    assert_eq!(state.state, State::Up, "{:?}", state.problems);
    let lab = up_as(&plain, Outcome::Changed);
    assert!(reaches(&lab));
    assert_ne!(lab.link(Side::A).expect("there").index, index);
    drop(lab);
    assert!(!down(&plain.name).expect("nothing there is no error"));
}

#[test]
fn what_is_damaged_is_repaired() {
    if !may("repair") {
        return;
    }
    let settings = settings("repair");
    std::mem::forget(up_as(&settings, Outcome::Made));
    let inside = |side: Side| {
        NetNs::open(&side.namespace(&settings.name))
            .expect("there")
            .netlink()
            .expect("netlink")
    };
    let wire = |netlink: &Netlink| netlink.link_by_name(INTERFACE).expect("there").index;
    let damages: [(&str, &dyn Fn()); 6] = [
        ("side b has no namespace", &|| {
            assert!(NetNs::delete(&Side::B.namespace(&settings.name)).expect("ours"))
        }),
        ("has no wire", &|| {
            inside(Side::A)
                .delete_link(wire(&inside(Side::A)))
                .expect("ours")
        }),
        ("is down", &|| {
            inside(Side::B)
                .set_up(wire(&inside(Side::B)), false)
                .expect("ours")
        }),
        ("has no address", &|| {
            let (ip, prefix) = Side::A.addresses()[0];
            inside(Side::A)
                .delete_address(wire(&inside(Side::A)), ip, prefix)
                .expect("there");
        }),
        ("MTU", &|| {
            inside(Side::A)
                .set_mtu(wire(&inside(Side::A)), 1400)
                .expect("allowed")
        }),
        ("offloads", &|| {
            let ethtool = NetNs::open(&Side::A.namespace(&settings.name))
                .expect("there")
                .ethtool()
                .expect("inside");
            ethtool
                .set_feature(INTERFACE, "rx-checksum", true)
                .expect("veth lets it be changed");
        }),
    ];
    for (problem, damage) in damages {
        damage();
        let broken = status(&settings.name).expect("readable");
        assert_eq!(broken.state, State::Broken, "{problem}");
        assert!(
            broken.problems.iter().any(|p| p.contains(problem)),
            "{problem}: {:?}",
            broken.problems
        );
        let lab = up_as(&settings, Outcome::Changed);
        assert!(reaches(&lab), "after: {problem}");
        std::mem::forget(lab);
    }
    assert!(down(&settings.name).expect("ours"));
}

#[test]
fn what_a_crash_left_can_be_removed() {
    if !may("crash") {
        return;
    }
    let settings = settings("crash");
    let file = format!("/run/netns/{}", Side::A.namespace(&settings.name));
    std::fs::write(&file, "").expect("writable");
    assert!(down(&settings.name).expect("ours"), "there was something");
    assert!(!std::path::Path::new(&file).exists());
    std::fs::write(&file, "").expect("writable");
    drop(up_as(&settings, Outcome::Made));

    NetNs::create(&Side::B.namespace(&settings.name)).expect("new");
    assert_eq!(
        status(&settings.name).expect("readable").state,
        State::Broken
    );
    assert!(down(&settings.name).expect("half a lab goes too"));
}

#[test]
fn two_labs_side_by_side() {
    if !may("two") {
        return;
    }
    let (one, two) = (
        settings("one"),
        Settings {
            wire: WireKind::Offload,
            ..settings("two")
        },
    );
    let first = up_as(&one, Outcome::Made);
    let second = up_as(&two, Outcome::Made);
    let names = list().expect("readable");
    assert!(
        names.contains(&one.name) && names.contains(&two.name),
        "{names:?}"
    );
    assert!(reaches(&first) && reaches(&second));
    drop(first);
    assert!(reaches(&second));
}

#[test]
fn settings_that_cannot_be_leave_nothing() {
    if !may("refused") {
        return;
    }
    let wanted = Settings {
        mtu: 70_000,
        ..settings("refused")
    };
    let error = up(&wanted).expect_err("no packet is that long");
    assert!(error.mend.is_some(), "{error}");
    assert_eq!(status(&wanted.name).expect("readable").state, State::Down);
}

/// The command line of `exos lab` alone, for the tests below.
#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    lab: LabArgs,
}

fn cli(arguments: &[&str]) -> ExitCode {
    let cli =
        Cli::try_parse_from(["exos-lab"].iter().chain(arguments)).expect("a valid command line");
    match run(cli.lab) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(125)
        }
    }
}

/// Not a test by itself: `exec` never returns, so the tests start this binary again with a command line here.
#[test]
fn as_a_command() {
    if let Ok(line) = std::env::var("EXOS_LAB_TEST_COMMAND") {
        let code = cli(&line.split('\x1f').collect::<Vec<_>>());
        std::process::exit(if code == ExitCode::SUCCESS { 0 } else { 125 });
    }
}

/// The command line run as a process of its own.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("known"));
    command.args(["--exact", "lab::as_a_command", "--nocapture"]);
    command.env("EXOS_LAB_TEST_COMMAND", arguments.join("\x1f"));
    command
}

#[test]
fn exec_passes_status_streams_and_signals() {
    if !may("exec") {
        return;
    }
    let settings = settings("exec");
    let _lab = up_as(&settings, Outcome::Made);
    let exec = |side: &str, script: &str| {
        command(&[
            "exec",
            "--name",
            &settings.name,
            side,
            "--",
            "sh",
            "-c",
            script,
        ])
    };
    assert_eq!(
        exec("a", "exit 7").status().expect("it runs").code(),
        Some(7)
    );

    let mut cat = exec("b", "cat; ls /sys/class/net")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    cat.stdin
        .take()
        .expect("piped")
        .write_all(b"through and through\n")
        .expect("it reads");
    let seen = String::from_utf8(cat.wait_with_output().expect("it ends").stdout).expect("text");
    assert!(seen.contains("through and through"), "{seen}");
    assert!(
        seen.contains(INTERFACE) && !seen.contains("eth0"),
        "/sys is that of the namespace: {seen}"
    );

    let killed = exec("a", "kill -TERM $$").status().expect("it runs");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&killed),
        Some(15)
    );

    let missing = command(&[
        "exec",
        "--name",
        &settings.name,
        "a",
        "--",
        "no-such-program",
    ])
    .output()
    .expect("it runs");
    assert_eq!(missing.status.code(), Some(125));
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(
        said.contains("no-such-program") && said.contains("installed"),
        "{said}"
    );
}

#[test]
fn the_command_line_from_up_to_down() {
    if !may("cli") {
        return;
    }
    let name = settings("cli").name;
    let output = |arguments: &[&str]| {
        let output = command(arguments).output().expect("it runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (code, said) = output(&["exec", "--name", &name, "a", "--", "true"]);
    assert!(
        code == Some(125) && said.contains(&format!("exos lab up --name {name}")),
        "{said}"
    );
    let (code, said) = output(&["up", "--name", &name, "--mtu", "2000"]);
    assert!(
        code == Some(0) && said.contains("is up: plain wire, MTU 2000"),
        "{said}"
    );
    let (code, said) = output(&["up", "--name", &name, "--mtu", "2000"]);
    assert!(code == Some(0) && said.contains("was up already"), "{said}");
    let (code, said) = output(&["status", "--name", &name]);
    assert!(
        code == Some(0) && said.contains(": up, plain wire") && said.contains("fd10::2/64"),
        "{said}"
    );
    let (_, said) = output(&["status", "--name", &name, "--json"]);
    let json = &said[said.find('{').expect("an object")..];
    let json: serde_json::Value = serde_json::from_str(json).expect("valid JSON");
    assert_eq!(json["labs"][0]["sides"][1]["mtu"], 2000);
    let (code, said) = output(&["down", "--name", &name]);
    assert!(code == Some(0) && said.contains("is gone"), "{said}");
    let (code, said) = output(&["down", "--name", &name]);
    assert!(code == Some(0) && said.contains("nothing to do"), "{said}");
}
