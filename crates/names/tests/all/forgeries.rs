//! Messages that are nearly the answer: each is dropped under its name, nothing of it is kept, and the answer is still taken.

use crate::net::{Net, record};
use exos_testing::heap::{Counting, counted, largest};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, PacketFlag, QCLASS, QTYPE, RCODE, TYPE};
use std::net::SocketAddr;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

type Forge = fn(&mut simple_dns::Packet);

#[test]
fn a_forged_answer_is_dropped() {
    let forgeries: [(&str, &str, Forge); 9] = [
        ("another identifier", "drop_identifier", |reply| {
            reply.set_id(reply.id() ^ 1)
        }),
        ("another name", "drop_question", |reply| {
            reply.questions[0].qname = Name::new_unchecked("victim.example")
        }),
        ("a name that goes on", "drop_question", |reply| {
            reply.questions[0].qname = Name::new_unchecked("a.example.evil")
        }),
        ("another type", "drop_question", |reply| {
            reply.questions[0].qtype = QTYPE::TYPE(TYPE::AAAA)
        }),
        ("another class", "drop_question", |reply| {
            reply.questions[0].qclass = QCLASS::CLASS(CLASS::CH)
        }),
        ("no question", "drop_question", |reply| {
            reply.questions.clear()
        }),
        ("two questions", "drop_question", |reply| {
            reply.questions.push(reply.questions[0].clone())
        }),
        ("a query", "drop_malformed", |reply| {
            reply.remove_flags(PacketFlag::RESPONSE)
        }),
        ("an update", "drop_malformed", |reply| {
            *reply.opcode_mut() = simple_dns::OPCODE::Update
        }),
    ];
    for (what, counter, forge) in forgeries {
        let mut net = Net::new("nameserver 192.0.2.53");
        let lookup = net.lookup_ipv4("a.example");
        let query = net.one();
        let mut reply = query.reply();
        reply.answers.extend(record("a.example 60 A 192.0.2.66"));
        forge(&mut reply);
        net.answer(&query, &reply.build_bytes_vec().unwrap());
        assert_eq!((net.done(lookup), net.sent().len()), (None, 0), "{what}");
        assert_eq!(
            (net.counter(counter), net.resolver.cached()),
            (1, 0),
            "{what}"
        );
        net.answer(&query, &query.with_address(1));
        assert_eq!(
            net.done(lookup).unwrap().unwrap()[0].to_string(),
            "192.0.2.1",
            "{what}"
        );
    }
}

#[test]
fn an_answer_from_elsewhere_is_dropped() {
    let mut net = Net::new("nameserver 192.0.2.53\nnameserver fe80::1%2");
    let lookup = net.lookup_ipv4("a.example");
    let query = net.one();
    let answer = query.with_address(66);
    for from in [
        "192.0.2.54:53",
        "192.0.2.53:54",
        "[::ffff:192.0.2.53]:53",
        "[fe80::1]:53",
    ] {
        let from: SocketAddr = from.parse().unwrap();
        net.resolver
            .handle_datagram(net.now, query.query, from, &answer);
    }
    assert_eq!(
        (
            net.counter("drop_source"),
            net.done(lookup),
            net.resolver.cached()
        ),
        (4, None, 0)
    );
}

/// An address that is valid on each interface by itself is another on another interface.
#[test]
fn an_answer_from_another_interface_is_dropped() {
    let mut net = Net::new("nameserver fe80::1%2");
    let lookup = net.lookup_ipv4("a.example");
    let query = net.one();
    let send = |net: &mut Net, from: &str| {
        let from: SocketAddr = from.parse().unwrap();
        net.resolver
            .handle_datagram(net.now, query.query, from, &query.with_address(1));
    };
    send(&mut net, "[fe80::1%3]:53");
    assert_eq!((net.counter("drop_source"), net.done(lookup)), (1, None));
    // Not everyone tells the interface.
    send(&mut net, "[fe80::1]:53");
    assert!(net.done(lookup).unwrap().is_ok());
}

/// An answer that comes to the port of another query.
#[test]
fn an_answer_to_another_port_is_dropped() {
    let mut net = Net::new("nameserver 192.0.2.53");
    net.lookup("a.example");
    let sent = net.sent();
    for (to, of) in [(0, 1), (1, 0)] {
        net.resolver.handle_datagram(
            net.now,
            sent[to].query,
            sent[of].server,
            &sent[of].with_address(66),
        );
    }
    assert_eq!(
        (net.counter("drop_identifier"), net.resolver.cached()),
        (2, 0)
    );
}

/// Whoever cannot see the query has the case of its letters to guess, too. A guess without them starts TCP, and no more.
#[test]
fn an_answer_in_other_letters_is_not_taken() {
    let mut net = Net::new("nameserver 192.0.2.53");
    let lookup = net.lookup_ipv4("a-long-name.example");
    let query = net.one();
    let mut forged = query.with_address(66);
    forged[13] ^= 0x20;
    net.answer(&query, &forged);
    assert_eq!(
        (
            net.done(lookup),
            net.resolver.cached(),
            net.counter("case_lost")
        ),
        (None, 0, 1)
    );
    let stream = net.one();
    net.answer(&stream, &stream.with_address(1));
    assert!(net.done(lookup).unwrap().is_ok());
    // The server kept the case over TCP: it is still sent letters in random case.
    net.sent();
    net.lookup_ipv4("another-long-name.example");
    assert_ne!(net.one().name(), "another-long-name.example");
}

/// Records about other names, in every section of a true answer: none is kept.
#[test]
fn what_was_not_asked_is_not_kept() {
    let mut net = Net::new("nameserver 192.0.2.53");
    let lookup = net.lookup_ipv4("a.example");
    let query = net.one();
    let mut reply = query.reply();
    let poison = "victim.example 9000 A 192.0.2.66";
    reply.answers.extend(record("a.example 60 A 192.0.2.1"));
    reply.answers.extend(record(poison));
    reply
        .answers
        .extend(record("b.example 9000 CNAME victim.example"));
    reply
        .name_servers
        .extend(record("example 9000 NS victim.example"));
    reply
        .name_servers
        .extend(record("victim.example 9000 SOA 9000"));
    reply.additional_records.extend(record(poison));
    net.answer(&query, &reply.build_bytes_vec().unwrap());
    assert_eq!(net.done(lookup).unwrap().unwrap().len(), 1);
    assert_eq!(
        (net.resolver.cached(), net.counter("records_ignored")),
        (1, 2)
    );
    net.sent();
    net.lookup_ipv4("victim.example");
    net.lookup_ipv4("b.example");
    assert_eq!(net.sent().len(), 2);
}

/// Records of other classes, also with the bit that multicast DNS has set there, are not addresses of the Internet.
#[test]
fn records_of_other_classes_are_not_taken() {
    let forgeries: [fn(&mut simple_dns::ResourceRecord); 2] = [
        |record| record.class = CLASS::CH,
        |record| record.cache_flush = true,
    ];
    for forge in forgeries {
        let mut net = Net::new("nameserver 192.0.2.53\noptions attempts:1");
        let lookup = net.lookup_ipv4("a.example");
        let query = net.one();
        let mut reply = query.reply();
        let mut forged = record("a.example 60 A 192.0.2.66").unwrap();
        forge(&mut forged);
        reply.answers.push(forged);
        net.answer(&query, &reply.build_bytes_vec().unwrap());
        assert!(net.done(lookup).unwrap().is_err());
    }
}

/// A header may promise 65,535 records in each section. Nothing is made ready for what cannot be there.
#[test]
fn promises_without_records_are_failures() {
    for bytes in [6, 8, 10] {
        let mut net = Net::new("nameserver 192.0.2.53\noptions attempts:1");
        let lookup = net.lookup_ipv4("a.example");
        let query = net.one();
        let mut message = query.with(RCODE::NoError, "a.example 60 A 192.0.2.1");
        message[bytes..bytes + 2].fill(0xff);
        counted(|| net.answer(&query, &message));
        assert!(net.done(lookup).unwrap().is_err());
        assert_eq!(net.counter("server_failures"), 1);
        assert!((1..10_000).contains(&largest()), "{} bytes", largest());
    }
}

/// Many wrong identifiers at the right port are somebody's guesses: the server is asked over TCP instead, and no other way to it is
/// tried where it has none.
#[test]
fn many_guesses_end_the_datagrams() {
    for has_tcp in [true, false] {
        let mut net = Net::new("nameserver 192.0.2.53\noptions attempts:1");
        let lookup = net.lookup_ipv4("a.example");
        let query = net.one();
        let mut guess = query.with_address(66);
        for _ in 0..16 {
            assert!(net.sent().is_empty());
            guess[1] = guess[1].wrapping_add(1);
            net.answer(&query, &guess);
        }
        let stream = net.one();
        assert_eq!((stream.port, net.counter("guesses")), (None, 1));
        net.answer(&query, &query.with_address(66));
        match has_tcp {
            true => net.answer(&stream, &stream.with_address(1)),
            false => net.resolver.handle_failure(net.now, stream.query),
        }
        assert_eq!(net.done(lookup).unwrap().is_ok(), has_tcp);
        assert!(net.sent().is_empty());
    }
}

/// The letters of a name in an address record need not be those of the question.
#[test]
fn only_the_question_has_to_keep_its_letters() {
    let mut net = Net::new("nameserver 192.0.2.53");
    let lookup = net.lookup_ipv4("a.example");
    let query = net.one();
    let mut reply = query.reply();
    reply.answers.extend(record("A.eXaMpLe 60 A 192.0.2.1"));
    assert!(matches!(reply.answers[0].rdata, RData::A(_)));
    net.answer(&query, &reply.build_bytes_vec().unwrap());
    assert!(net.done(lookup).unwrap().is_ok());
}
