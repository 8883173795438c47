//! What each form of answer means, and for how long it is kept. The examples of RFC 2308 are among them.

use crate::net::{Net, addresses};
use exos_inet::Duration;
use exos_names::ErrorKind;
use simple_dns::RCODE;

/// What becomes of a lookup of `an.example` for IPv4 after this answer, and for how many seconds that is kept.
fn told(rcode: RCODE, records: &str) -> (Result<Vec<std::net::IpAddr>, ErrorKind>, u64) {
    let mut net = Net::new("nameserver 192.0.2.53\noptions attempts:1");
    let lookup = net.lookup_ipv4("an.example");
    let asked = net.one();
    net.answer(&asked, &asked.with(rcode, records));
    let result = net
        .done(lookup)
        .unwrap_or_else(|| panic!("{records}: no end"));
    // How long, found by halving.
    let is_kept = |seconds: u64| {
        let mut later = Net::new("nameserver 192.0.2.53\noptions attempts:1");
        later.lookup_ipv4("an.example");
        let asked = later.one();
        later.answer(&asked, &asked.with(rcode, records));
        later.now += Duration::from_secs(seconds);
        let lookup = later.lookup_ipv4("an.example");
        let sent = later.sent();
        assert_eq!(later.done(lookup).is_some(), sent.is_empty());
        sent.is_empty()
    };
    let (mut kept, mut gone) = (0, 1 << 20);
    if !is_kept(0) {
        return (result.map_err(|error| error.kind()), 0);
    }
    while gone - kept > 1 {
        let between = (kept + gone) / 2;
        if is_kept(between) {
            kept = between
        } else {
            gone = between
        }
    }
    (result.map_err(|error| error.kind()), gone)
}

#[test]
fn addresses_and_aliases() {
    let ok = RCODE::NoError;
    let one = Ok(addresses(&["192.0.2.1"]));
    let failed = (Err(ErrorKind::ServerFailure), 1);
    for (records, expected) in [
        ("an.example 300 A 192.0.2.1", (one.clone(), 300)),
        ("AN.Example 300 A 192.0.2.1", (one.clone(), 300)),
        // A TTL of 0 is for this once; the least of several counts; a day is the most; the top bit means 0 (RFC 2181 §8).
        ("an.example 0 A 192.0.2.1", (one.clone(), 0)),
        (
            "an.example 9 A 192.0.2.1\nan.example 5 A 192.0.2.2",
            (Ok(addresses(&["192.0.2.1", "192.0.2.2"])), 5),
        ),
        ("an.example 900000 A 192.0.2.1", (one.clone(), 86_400)),
        ("an.example 2147483648 A 192.0.2.1", (one.clone(), 0)),
        (
            "an.example 9 A 192.0.2.1\nan.example 9 A 192.0.2.1",
            (one.clone(), 9),
        ),
        // Aliases, in any order.
        (
            "an.example 7 CNAME a.xx\na.xx 100 A 192.0.2.1",
            (one.clone(), 7),
        ),
        (
            "b.xx 100 A 192.0.2.1\na.xx 4 CNAME b.xx\nan.example 7 CNAME a.xx",
            (one.clone(), 4),
        ),
        // A circle has no end.
        (
            "an.example 7 CNAME a.xx\na.xx 7 CNAME an.example",
            failed.clone(),
        ),
        ("an.example 7 CNAME an.example", failed.clone()),
        // What was not asked for is not taken.
        (
            "other.example 300 A 192.0.2.66",
            (Err(ErrorKind::NoAddress), 0),
        ),
        (
            "an.example 300 A 192.0.2.1\nother.example 300 A 192.0.2.66",
            (one.clone(), 300),
        ),
        (
            "an.example 7 CNAME a.xx\nan.example 100 A 192.0.2.66",
            (Err(ErrorKind::NoAddress), 0),
        ),
        (
            "an.example 300 AAAA 2001:db8::66",
            (Err(ErrorKind::NoAddress), 0),
        ),
        (
            "other.example 7 CNAME b.xx\nb.xx 7 A 192.0.2.66",
            (Err(ErrorKind::NoAddress), 0),
        ),
    ] {
        assert_eq!(told(ok, records), expected, "{records}");
    }
}

/// RFC 2308 §2.1, "NXDOMAIN RESPONSE: TYPE 1" to 4, with what §5 says of their time.
#[test]
fn rfc_2308_no_such_name() {
    let (no, alias) = (RCODE::NameError, "an.example 100 CNAME tripple.xx");
    for (records, seconds) in [
        (&*format!("{alias}|xx 1000 SOA 50\nxx 1000 NS ns1.xx"), 50),
        (&format!("{alias}|xx 1000 SOA 50"), 50),
        (alias, 0),
        (&format!("{alias}|xx 1000 NS ns1.xx\nxx 1000 NS ns2.xx"), 0),
        // The lesser of the record's own time and its last field, and of the aliases' (§5).
        ("|example 30 SOA 50", 30),
        (&format!("{alias}|xx 1000 SOA 900"), 100),
        ("|example 9000 SOA 9000", 3600),
        // The root is above all names.
        ("|. 30 SOA 50", 30),
        ("|an.example 30 SOA 50", 30),
        // A zone that the name is not in says nothing about it.
        ("|other 30 SOA 50", 0),
        (&format!("{alias}|example 30 SOA 50"), 0),
        ("|below.an.example 30 SOA 50", 0),
    ] {
        assert_eq!(
            told(no, records),
            (Err(ErrorKind::NoSuchName), seconds),
            "{records}"
        );
    }
}

/// RFC 2308 §2.2, "NODATA RESPONSE: TYPE 1" to 3.
#[test]
fn rfc_2308_no_data() {
    for (records, seconds) in [
        ("|example 1000 SOA 50\nexample 1000 NS ns1.xx", 50),
        ("|example 1000 SOA 50", 50),
        ("", 0),
        ("|other 1000 SOA 50", 0),
        ("an.example 100 CNAME a.xx|xx 1000 SOA 50", 50),
    ] {
        assert_eq!(
            told(RCODE::NoError, records),
            (Err(ErrorKind::NoAddress), seconds),
            "{records}"
        );
    }
}

/// RFC 2308 §2.2, "REFERRAL RESPONSE", of a server that asks nobody on our behalf: it is of no use.
#[test]
fn a_referral_is_no_answer() {
    let mut net = Net::new("nameserver 192.0.2.53\nnameserver 192.0.2.54\noptions attempts:1");
    let lookup = net.lookup_ipv4("an.example");
    let asked = net.one();
    let mut reply = asked.reply();
    reply.remove_flags(simple_dns::PacketFlag::RECURSION_AVAILABLE);
    reply
        .name_servers
        .extend(crate::net::record("example 1000 NS ns1.xx"));
    net.answer(&asked, &reply.build_bytes_vec().unwrap());
    let asked = net.one();
    assert_eq!(asked.server.ip().to_string(), "192.0.2.54");
    net.answer(&asked, &asked.with_address(1));
    assert_eq!(
        net.done(lookup).unwrap().unwrap(),
        addresses(&["192.0.2.1"])
    );
}

/// RFC 9520 §3.2: a failure is kept for a second, so that a busy program does not ask again and again.
#[test]
fn failures_are_kept_for_a_second() {
    for rcode in [RCODE::ServerFailure, RCODE::Refused, RCODE::YXDOMAIN] {
        assert_eq!(told(rcode, ""), (Err(ErrorKind::ServerFailure), 1));
    }
}

#[test]
fn aliases_are_bounded() {
    let chain = |length: usize| {
        let alias = |at: usize| match at {
            0 => "an.example".to_owned(),
            _ => format!("a{at}.xx"),
        };
        let mut records: String = (0..length)
            .map(|at| format!("{} 60 CNAME {}\n", alias(at), alias(at + 1)))
            .collect();
        records += &format!("{} 60 A 192.0.2.1", alias(length));
        told(RCODE::NoError, &records)
    };
    assert_eq!(chain(16), (Ok(addresses(&["192.0.2.1"])), 60));
    assert_eq!(chain(17), (Err(ErrorKind::ServerFailure), 1));
}

/// Name servers rotate their records, so that of a part each answer would be another name's.
#[test]
fn however_many_addresses_are_all_told() {
    let all: Vec<String> = (0..4000_u32)
        .map(|n| format!("10.9.{}.{}", n / 250, n % 250 + 1))
        .collect();
    let records = all.iter().map(|ip| format!("an.example 300 A {ip}\n"));
    let mut net = Net::new("nameserver 192.0.2.53");
    let lookup = net.lookup_ipv4("an.example");
    let asked = net.one();
    let message = asked.with(RCODE::NoError, &records.collect::<String>());
    assert!(message.len() <= usize::from(u16::MAX), "it fits TCP");
    net.answer(&asked, &message);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(net.done(lookup).unwrap().unwrap(), addresses(&all));
}
