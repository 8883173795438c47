//! Claims by filter, with programs by hand. As root; skipped, and said so, otherwise. What hostile ones try with them
//! is in `attacks`.

use crate::lab;

use exos_link::Link;
use exos_xok::message::{Answer, GrantId, Refusal, Request, Revoked};
use lab::*;

/// Claims a filter.
fn claim_filter(program: &Program, filter: &str) -> Result<GrantId, (Refusal, String)> {
    let filter = filter.to_owned();
    match program.ask(&Request::ClaimFilter { filter }).0 {
        Answer::GrantedFilter { grant } => Ok(grant),
        Answer::Refused { code, text } => Err((code, text)),
        other => panic!("{other:?}"),
    }
}

/// A policy that lets root claim what lies within a filter.
fn allow(filter: &str) -> String {
    format!("[[allow]]\nuser = \"0\"\nfilters = [\"{filter}\"]\n")
}

/// Starts a daemon that lets root claim any UDP.
fn start(lab: &mut Lab) {
    lab.start_by(&allow("udp"));
}

/// The filter is in force through the death of the daemon, and its next one knows whose it is.
#[test]
fn a_filter_outlives_the_daemon() {
    let Some(mut lab) = Lab::new("filter-kept") else {
        return;
    };
    start(&mut lab);
    let program = Program::connect(&lab);
    let mut has = program.attached();
    let ports = claim_filter(&program, "udp dst portrange 5000-5009").expect("free");
    let more = claim_filter(&program, "udp dst port 7000").expect("free");
    let got = |lab: &Lab, link: &mut Link, port| receives(lab, link, port, "by a filter");
    for port in [5000, 5009, 7000] {
        assert!(got(&lab, &mut has.link, port), "{port}");
    }
    lab.kill();
    assert!(got(&lab, &mut has.link, 5001), "without a daemon");
    start(&mut lab);
    let again = Program::connect(&lab);
    let (back, _) = again.ask(&Request::Reattach { token: has.token });
    assert!(matches!(back, Answer::Attached { .. }), "{back:?}");
    for port in [5002, 7000] {
        assert!(got(&lab, &mut has.link, port), "under another: {port}");
    }
    let other = Program::connect(&lab);
    other.attach();
    let (code, text) = claim_filter(&other, "udp dst port 5005").expect_err("held");
    assert_eq!(code, Refusal::Held);
    assert!(
        text.contains("by test (pid ") || text.contains("held by test (pid"),
        "{text}"
    );
    for grant in [ports, more] {
        let released = again.ask(&Request::Release { grant }).0;
        assert_eq!(released, Answer::Done);
    }
    claim_filter(&other, "udp dst port 5005").expect("it was given back");
    drop((program, again, other, has));
    lab.stop();
    assert_eq!(lab.interfaces(), ["lo", "wire"], "nothing is left");
}

/// Many ports by one filter, up to the bound; one more, and what to do is said.
#[test]
fn a_filter_of_many_ports() {
    let Some(mut lab) = Lab::new("filter-many") else {
        return;
    };
    start(&mut lab);
    let program = Program::connect(&lab);
    let mut has = program.attached();
    let ports = |first: u16, count: u16| {
        // Not side by side, which would be one range.
        let ports: Vec<String> = (0..count).map(|n| (first + 2 * n).to_string()).collect();
        format!("udp and dst port ({})", ports.join(" or "))
    };
    let (code, text) = claim_filter(&program, &ports(6000, 65)).expect_err("too many");
    assert_eq!(code, Refusal::BadRequest);
    assert!(
        text.contains("65 alternatives") && text.contains("claim its parts"),
        "{text}"
    );
    claim_filter(&program, &ports(6000, 64)).expect("as many as may be");
    assert!(receives(&lab, &mut has.link, 6000, "the first"));
    assert!(receives(&lab, &mut has.link, 6126, "the last"));
    let other = Program::connect(&lab);
    other.attach();
    claim_filter(&other, &ports(6001, 64)).expect("the ports between");
    let between = claim_filter(&other, "udp dst portrange 6100-6101").expect_err("held");
    assert_eq!(between.0, Refusal::Held);
}

/// Another policy, until all of this is taken that it does not allow: how many programs the kernel verified for that.
fn verified_for(lab: &Lab, program: &Program, filter: &str, lost: &[GrantId]) -> u64 {
    let before = program.report()["filters_verified"].as_u64();
    lab.reload(&allow(filter));
    let mut asked: Vec<_> = lost.iter().map(|_| program.revoked()).collect();
    asked.sort_unstable_by_key(|what| match what {
        Revoked::Grant(grant) => *grant,
        other => panic!("{other:?}"),
    });
    assert_eq!(
        asked,
        Vec::from_iter(lost.iter().map(|id| Revoked::Grant(*id)))
    );
    let has = |id: &GrantId| {
        let grants = program.report()["slots"][0]["grants"].clone();
        let grants = grants.as_array().cloned().expect("a list");
        grants.iter().any(|grant| grant["id"] == *id)
    };
    let gone = within(|| !lost.iter().any(has));
    assert!(gone, "they are not taken");
    let after = program.report()["filters_verified"].as_u64();
    after.expect("a number") - before.expect("a number")
}

/// Filters of a program that policy takes back are taken with one verification of what is left, for what comes in and for
/// what goes out, and all of them with none. Those of others are not looked at.
#[test]
fn filters_are_taken_back_together() {
    let Some(mut lab) = Lab::new("filter-taken") else {
        return;
    };
    start(&mut lab);
    let program = Program::connect(&lab);
    let mut has = program.attached();
    let ports = [5000, 6000, 6001, 6002];
    let claim = |port: u16| claim_filter(&program, &format!("udp dst port {port}"));
    let grants = ports.map(|port| claim(port).expect("free"));
    // Only now: who has no slot is not kept waiting for.
    let other = Program::connect(&lab);
    other.attach();
    claim_filter(&other, "udp dst port 5001").expect("free");
    let few = "udp and dst portrange 5000-5001";
    assert_eq!(verified_for(&lab, &program, few, &grants[1..]), 2);
    assert!(receives(&lab, &mut has.link, 5000, "it is left"));
    lab.over_there(|| {
        let socket = std::net::UdpSocket::bind("10.78.0.2:0").expect("free");
        for (text, port) in [("taken", 6000), ("left", 5000)] {
            socket
                .send_to(text.as_bytes(), (OURS, port))
                .expect("a route");
        }
    });
    let (mut taken, mut left) = (false, false);
    let received = within(|| {
        has.link.receive(|frame, _| {
            taken |= frame.ends_with(b"taken");
            left |= frame.ends_with(b"left");
        });
        left
    });
    assert!(received && !taken, "left: {received}, taken: {taken}");
    let none = "udp and dst port 5001";
    assert_eq!(verified_for(&lab, &program, none, &grants[..1]), 0);
}
