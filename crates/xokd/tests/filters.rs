//! Claims by filter, with programs by hand. As root; skipped, and said so, otherwise. What hostile ones try with them
//! is in `attacks`.

mod lab;

use exos_link::Link;
use exos_xok::message::{Answer, GrantId, Refusal, Request};
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

/// A policy that lets root claim any UDP by filter.
fn start(lab: &mut Lab) {
    let file = std::env::temp_dir().join(format!("{}.toml", lab.side('p')));
    let text = format!(
        "[[interface]]\nname = \"wire\"\naddresses = [\"{OURS}/24\"]\n\n[[allow]]\nuser = \"0\"\nfilters = [\"udp\"]\n"
    );
    std::fs::write(&file, text).expect("a temporary file");
    lab.run(&["--policy", file.to_str().expect("a path")]);
    std::fs::remove_file(&file).expect("it is ours");
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
