//! What files mean, and what is said about those that mean nothing.

use super::*;
use std::path::Path;

const FILE: &str = r#"
[[interface]]
name = "eth0"
rate = "1gbit"
addresses = ["192.0.2.7/24", "2001:db8::7/64"]
gateways = ["192.0.2.1"]

[[interface]]
name = "eth1"
share_address = true

[[allow]]
user = "1000"
interface = "eth0"
addresses = ["192.0.2.7"]
protocols = ["tcp", "icmp"]
ports = ["80", "8000-8999"]
modes = ["shared", "direct"]
queues = ["1", "4-5"]
weight = 3
rate_max = "100mbit"
memory_max = "16MiB"
programs_max = 2
dump = "all"
filters = ["udp and dst portrange 4000-4100", "icmp"]

[[allow]]
anyone = true
addresses = "any"
protocols = ["udp"]
"#;

fn policy() -> Policy {
    file::parse(Path::new("/etc/exos/xokd.toml"), FILE).expect("it is right")
}

fn claim(protocol: Protocol, local: &str, port: u16) -> Claim {
    Claim {
        interface: 1,
        protocol,
        local: local.parse().expect("an address"),
        port,
        remote: None,
    }
}

fn who(uid: u32) -> Who {
    Who {
        uid,
        groups: vec![uid],
    }
}

#[test]
fn a_file_says_who_may_do_what() {
    let policy = policy();
    assert_eq!(policy.interfaces[0].rate, Some(125_000_000));
    assert!(policy.interfaces[1].share_address);
    let may = |uid, interface, protocol, local, port| {
        let claim = claim(protocol, local, port);
        policy.claim(&who(uid), interface, &claim).is_ok()
    };
    use Protocol::{Any, Icmp, Tcp, Udp};
    assert!(may(1000, "eth0", Tcp, "192.0.2.7", 80));
    assert!(may(1000, "eth0", Tcp, "192.0.2.7", 8999));
    assert!(may(1000, "eth0", Icmp, "192.0.2.7", 7));
    assert!(!may(1000, "eth0", Icmp, "192.0.2.7", 0), "all of it");
    assert!(!may(1000, "eth0", Tcp, "192.0.2.7", 81));
    assert!(!may(1000, "eth0", Tcp, "192.0.2.8", 80));
    assert!(!may(1000, "eth1", Tcp, "192.0.2.7", 80));
    assert!(!may(1001, "eth0", Tcp, "192.0.2.7", 80));
    assert!(!may(1000, "eth0", Tcp, "192.0.2.7", 0), "all ports");
    assert!(!may(1000, "eth0", Any, "192.0.2.7", 0));
    assert!(may(1001, "eth1", Udp, "192.0.2.9", 5353));
    assert!(!may(1001, "eth1", Udp, "192.0.2.9", 53), "a system port");
    let rule = policy.attach(&who(1000), "eth0", Some(1)).expect("direct");
    assert_eq!((rule.weight, rule.programs_max), (3, 2));
    assert!(policy.attach(&who(1000), "eth1", Some(1)).is_err());
    assert!(policy.attach(&who(1001), "eth1", None).is_ok());
    assert_eq!(policy.dump(&who(1000), "eth0"), Dump::All);
    assert_eq!(policy.dump(&who(1001), "eth0"), Dump::Own);
    // Whatever the file says.
    assert_eq!(policy.dump(&who(0), "eth0"), Dump::All);
}

/// An identifier is no port, so rules about ports say nothing about it. All of ICMP is more, and has to be said.
#[test]
fn identifiers_of_echo_are_everybodys_and_all_of_icmp_is_not() {
    let rule = |ports: &str| {
        let text = format!(
            "[[interface]]\nname = \"eth0\"\nshare_address = true\n[[allow]]\nanyone = true\n{ports}"
        );
        file::parse(Path::new("p.toml"), &text).expect("it is right")
    };
    for (ports, whole) in [
        ("", false),
        ("ports = [\"80\"]\n", false),
        ("ports = [\"1024-65535\", \"1-1023\"]\n", false),
        ("ports = [\"1-65535\"]\n", true),
    ] {
        let policy = rule(ports);
        for (protocol, local) in [
            (Protocol::Icmp, "192.0.2.7"),
            (Protocol::Icmpv6, "2001:db8::7"),
        ] {
            let may = |port| policy.allows(&who(1000), "eth0", &claim(protocol, local, port));
            assert!(may(1) && may(u16::MAX), "{ports}");
            assert_eq!(may(0), whole, "{ports}");
            let any = claim(protocol, local, 7);
            let chosen = policy.ports(&who(1000), "eth0", &any, &(40_000..=40_999));
            assert_eq!(chosen, Ok(vec![40_000..=40_999]), "{ports}");
        }
    }
}

#[test]
fn filters_are_allowed_that_lie_in_one_of_the_rule() {
    let policy = policy();
    let may = |uid, interface, text: &str| {
        let filter = Filter::parse(text).expect("a filter");
        policy
            .general(&who(uid), interface, text, &filter)
            .map(drop)
    };
    assert_eq!(
        may(1000, "eth0", "udp dst port 4000 and src net 10.0.0.0/8"),
        Ok(())
    );
    assert_eq!(may(1000, "eth0", "icmp[0] = 8"), Ok(()));
    for (uid, interface, text) in [
        (1000, "eth0", "udp dst port 4101"),
        (1000, "eth0", "udp dst port 4000 or icmp6"),
        (1000, "eth1", "icmp"),
        (1001, "eth0", "icmp"),
        (1000, "eth0", ""),
    ] {
        let refused = may(uid, interface, text).expect_err(text).to_string();
        assert!(
            refused.contains(&format!("filters = [{text:?}]")),
            "{refused}"
        );
    }
}

#[test]
fn a_refusal_says_which_rule_would_allow_it() {
    let claim = claim(Protocol::Tcp, "192.0.2.7", 443);
    let refused = policy().claim(&who(1000), "eth0", &claim);
    let text = refused.expect_err("443 is not there").to_string();
    assert!(text.contains("ports = [\"443\"]"), "{text}");
    assert!(text.contains("interface = \"eth0\""), "{text}");
    assert!(text.contains("/etc/exos/xokd.toml"), "{text}");
}

#[test]
fn groups_count() {
    let text = "[[interface]]\nname=\"e\"\nshare_address=true\n[[allow]]\ngroup=\"50\"\n";
    let policy = file::parse(Path::new("p"), text).expect("it is right");
    let member = Who {
        uid: 7,
        groups: vec![7, 50],
    };
    assert!(policy.attach(&member, "e", None).is_ok());
    assert!(policy.attach(&who(7), "e", None).is_err());
}

/// The most of what rules say of a user, their groups, or everybody.
#[test]
fn programs_are_as_many_as_one_rule_allows() {
    let allow = [
        "user = \"7\"\nprograms_max = 100",
        "group = \"50\"\nprograms_max = 500",
        "anyone = true\nprograms_max = 2",
    ];
    let allow: String = allow.map(|rule| format!("[[allow]]\n{rule}\n")).concat();
    let text = format!("[[interface]]\nname=\"e\"\nshare_address=true\n{allow}");
    let policy = file::parse(Path::new("p"), &text).expect("it is right");
    for (uid, groups, most) in [
        (7, Some(&[7][..]), 100),
        (7, Some(&[7, 50]), 500),
        (8, Some(&[8]), 2),
        (8, None, 500),
    ] {
        assert_eq!(policy.programs_max(uid, groups), most, "{uid} {groups:?}");
    }
}

/// Queues are those of the rule; which mode comes first says what a program gets that does not ask.
#[test]
fn queues_are_lent_by_rules_that_say_direct() {
    let queues = |policy: &Policy, uid| {
        let may = |q: &u32| policy.attach(&who(uid), "eth0", Some(*q)).is_ok();
        (0..8).filter(may).collect::<Vec<_>>()
    };
    let named = policy();
    assert_eq!(queues(&named, 1000), [1, 4, 5]);
    assert_eq!(queues(&named, 1001), [0; 0]);
    assert!(!named.prefers_direct(&who(1000), "eth0"), "shared is first");
    let refused = named.attach(&who(1000), "eth0", Some(2));
    let text = refused.expect_err("not in the list").to_string();
    assert!(
        text.contains("modes = [\"direct\"], queues = [\"2\"]"),
        "{text}"
    );
    let text = "[[interface]]\nname=\"eth0\"\nshare_address=true\n[[allow]]\nuser=\"7\"\nmodes=[\"direct\"]\n";
    let only = file::parse(Path::new("p"), text).expect("it is right");
    assert_eq!(queues(&only, 7), [0, 1, 2, 3, 4, 5, 6, 7], "any");
    assert!(only.prefers_direct(&who(7), "eth0"));
    assert!(only.attach(&who(7), "eth0", None).is_err());
    assert!(
        only.rules[0].to_string().contains("unchecked"),
        "{}",
        only.rules[0]
    );
}

#[test]
fn errors_name_the_line_and_what_to_write() {
    let cases = [
        ("", 0, "names no interface"),
        ("[[interface]]\nname = \"e\"\n", 1, "share_address = true"),
        ("[[interface]]\nname = 7\n", 2, "string"),
        (
            "[[interface]]\nname = \"e\"\nshare = true\n",
            3,
            "unknown field",
        ),
        (
            "[[interface]]\nname = \"e\"\naddresses = [\"1.2.3.4\"]\n",
            3,
            "192.0.2.7/24",
        ),
        (
            "[[interface]]\nname = \"e\"\naddresses = [\"1.2.3.4/33\"]\n",
            3,
            "192.0.2.7/24",
        ),
        (
            "[[interface]]\nname = \"e\"\nshare_address = true\nrate = \"fast\"\n",
            4,
            "1gbit",
        ),
    ];
    for (text, line, words) in cases {
        let error = file::parse(Path::new("p.toml"), text).expect_err(text);
        assert_eq!(error.line, line, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let good = "[[interface]]\nname = \"e\"\nshare_address = true\n[[allow]]\n";
    let cases = [
        ("", 4, "anyone = true"),
        ("user = \"nobody at all\"\n", 5, "a user of this machine"),
        (
            "anyone = true\nuser = \"0\"\n",
            4,
            "a rule is about one of them",
        ),
        ("anyone = true\nports = [\"0\"]\n", 6, "8000-8999"),
        ("anyone = true\nports = [\"9-8\"]\n", 6, "8000-8999"),
        (
            "anyone = true\nprotocols = [\"tcp\", \"sctp\"]\n",
            6,
            "\"udp\"",
        ),
        ("anyone = true\naddresses = \"all\"\n", 6, "\"any\""),
        ("anyone = true\naddresses = [\"x\"]\n", 6, "\"any\""),
        (
            "anyone = true\nmodes = [\"fast\"]\n",
            6,
            "\"shared\" or \"direct\"",
        ),
        (
            "anyone = true\nqueues = [\"0\"]\n",
            6,
            "modes = [\"direct\"]",
        ),
        (
            "anyone = true\nmodes = [\"direct\"]\nqueues = [\"3-1\"]\n",
            7,
            "\"0-3\"",
        ),
        ("anyone = true\nweight = 0\n", 6, "1 to 1000"),
        ("anyone = true\ninterface = \"f\"\n", 6, "[[interface]]"),
        ("anyone = true\nmemory_max = \"lots\"\n", 6, "64MiB"),
        ("anyone = true\ndump = \"some\"\n", 6, "\"own\""),
        ("anyone = true\nfilters = [\"udp prt 7\"]\n", 6, "udp prt 7"),
        ("anyone = true\nprots = [\"80\"]\n", 6, "unknown field"),
    ];
    for (text, line, words) in cases {
        let error = file::parse(Path::new("p.toml"), &format!("{good}{text}")).expect_err(text);
        assert_eq!(error.line, line, "{error}");
        let said = error.to_string();
        assert!(
            said.contains(words) && said.starts_with("p.toml:"),
            "{said}"
        );
    }
}

#[test]
fn without_a_file_the_systems_ports_are_nobodys() {
    let interface = Interface {
        name: "eth0".to_owned(),
        rate: None,
        addresses: Vec::new(),
        gateways: Vec::new(),
        share_address: true,
    };
    let policy = without_file(interface, 1000);
    let may = |uid, port| {
        let claim = claim(Protocol::Tcp, "192.0.2.7", port);
        policy.claim(&who(uid), "eth0", &claim)
    };
    assert!(may(1000, 1024).is_ok() && may(0, 8080).is_ok());
    let refused = may(0, 80).expect_err("a system port").to_string();
    assert!(refused.contains("--policy FILE"), "{refused}");
    assert!(may(1001, 8080).is_err());
    // Other people's packets, and queues that nobody checks, are root's alone.
    let dump = |uid| policy.dump(&who(uid), "eth0");
    assert_eq!(
        [0, 1000, 1001].map(dump),
        [Dump::All, Dump::Own, Dump::None]
    );
    let direct = |uid| policy.attach(&who(uid), "eth0", Some(0)).is_ok();
    assert_eq!([0, 1000, 1001].map(direct), [true, false, false]);
    let said: Vec<String> = policy.rules.iter().map(ToString::to_string).collect();
    assert!(said[0].ends_with("see all packets"), "{said:?}");
    assert!(said[1].ends_with("see own packets"), "{said:?}");
}
