//! Hellos of TLS as OpenSSL and curl send them, QUIC's headers as RFC 9001 and RFC 9369 print them, and both made of any values.

use exos_testing::corpus;
use exos_wire::WireError;
use exos_wire::quic::{LongHeaderView, PacketType, VERSION_2};
use exos_wire::tls::{HANDSHAKE, HelloKind, HelloView, RecordView, VERSION_1_2, VERSION_1_3};
use proptest::prelude::*;

/// An input of the fuzzer's corpus, without the byte that says what it is.
fn sample(name: &str) -> Vec<u8> {
    let all = corpus("wire_hello");
    let found = all.into_iter().find(|(it, _)| it.ends_with(name));
    found.unwrap_or_else(|| panic!("{name} is in the corpus")).1[1..].to_vec()
}

#[test]
fn hellos_of_programs() {
    let none: &[&str] = &[];
    for (name, kind, host, protocols, version) in [
        (
            "client-openssl-1.3",
            HelloKind::Client,
            Some("www.example.org"),
            &["h2", "http/1.1"][..],
            VERSION_1_3,
        ),
        (
            "client-openssl-1.2",
            HelloKind::Client,
            Some("a.example"),
            none,
            VERSION_1_2,
        ),
        (
            "client-curl",
            HelloKind::Client,
            Some("www.example.net"),
            &["h2", "http/1.1"],
            VERSION_1_3,
        ),
        ("server-1.3", HelloKind::Server, None, none, VERSION_1_3),
        ("server-1.2", HelloKind::Server, None, none, VERSION_1_2),
        (
            "server-1.2-alpn",
            HelloKind::Server,
            None,
            &["http/1.1"],
            VERSION_1_2,
        ),
        ("server-retry", HelloKind::Retry, None, none, VERSION_1_3),
    ] {
        let bytes = sample(name);
        let record = RecordView::parse(&bytes).unwrap();
        assert_eq!(
            (record.content_type(), record.is_whole()),
            (HANDSHAKE, true),
            "{name}"
        );
        let hello = HelloView::parse(record.fragment()).unwrap();
        let extensions = hello.extensions();
        assert!(hello.is_whole(), "{name}");
        assert_eq!((hello.kind(), hello.version()), (kind, version), "{name}");
        assert_eq!(extensions.server_name(), host.map(str::as_bytes), "{name}");
        let said: Vec<&[u8]> = extensions.protocols().collect();
        let wanted: Vec<&[u8]> = protocols.iter().map(|name| name.as_bytes()).collect();
        assert_eq!(said, wanted, "{name}");
        let is_client = kind == HelloKind::Client;
        assert_eq!(hello.cipher_suites().count() == 1, !is_client, "{name}");
    }
    let alert = sample("alert");
    assert_eq!(RecordView::parse(&alert).unwrap().alert(), Some((2, 70)));
}

/// What lies behind a cut is not there, and what lies before it is.
#[test]
fn a_hello_that_was_cut() {
    let bytes = sample("client-openssl-1.3");
    let part = RecordView::parse(&bytes[..bytes.len() - 1]).unwrap();
    assert!(!part.is_whole());
    let hello = HelloView::parse(part.fragment()).unwrap();
    assert!(!hello.is_whole());
    assert_eq!(
        hello.extensions().server_name(),
        Some(&b"www.example.org"[..])
    );
    let error = HelloView::parse(&part.fragment()[..20]).unwrap_err();
    assert_eq!(error.name(), "truncated");
}

#[test]
fn what_is_no_tls() {
    let record = |bytes: &[u8]| RecordView::parse(bytes).unwrap_err().name();
    assert_eq!(record(b"GET / HTTP/1.1\r\n"), "bad_field");
    assert_eq!(record(&[22, 2, 0, 0, 9]), "bad_field");
    assert_eq!(record(&[22, 3, 1, 0, 0]), "bad_length");
    assert_eq!(record(&[22, 3, 1, 0xff, 0xff]), "bad_length");
    assert_eq!(record(&[22, 3, 1]), "truncated");
    // A certificate; a session id that is longer than its message.
    let hello = |bytes: &[u8]| HelloView::parse(bytes).unwrap_err().name();
    assert_eq!(hello(&[11, 0, 0, 40, 3, 3]), "bad_field");
    let mut long = vec![1, 0, 0, 40, 3, 3];
    long.extend([0; 32]);
    long.extend([32; 6]);
    assert_eq!(hello(&long), "bad_length");
}

#[test]
fn packets_of_quic() {
    use PacketType::{Handshake, Initial, Retry, VersionNegotiation};
    for (name, packets) in [
        ("quic-initial", &[(Initial, 1)][..]),
        ("quic-retry", &[(Retry, 1)]),
        ("quic-retry-2", &[(Retry, VERSION_2)]),
        ("quic-negotiation", &[(VersionNegotiation, 0)]),
        ("quic-coalesced", &[(Initial, 1), (Handshake, 1)]),
    ] {
        let bytes = sample(name);
        let (mut rest, mut found) = (&bytes[..], Vec::new());
        while let Ok(packet) = LongHeaderView::parse(rest, rest.len()) {
            found.push((packet.packet_type(), packet.version()));
            rest = packet.next();
        }
        assert_eq!(found, packets, "{name}");
    }
    let bytes = sample("quic-initial");
    let packet = LongHeaderView::parse(&bytes, bytes.len()).unwrap();
    assert_eq!(
        packet.destination_id(),
        [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]
    );
    assert!(packet.source_id().is_empty() && packet.next().is_empty());
    // Cut by a capture it is the same packet; as a whole datagram it contradicts itself.
    let cut = &bytes[..40];
    assert!(LongHeaderView::parse(cut, bytes.len()).is_ok());
    let error = LongHeaderView::parse(cut, cut.len()).unwrap_err();
    assert!(matches!(error, WireError::BadLength { layer: "quic", .. }));
    // Wherever it is cut, nothing is there to be decrypted.
    for len in 5..bytes.len() {
        let cut = LongHeaderView::parse(&bytes[..len], bytes.len());
        assert!(cut.is_err() || cut.unwrap().protected().is_none(), "{len}");
    }
}

/// RFC 8999 §6: versions of four bytes, one at least; what a capture has cut says nothing against it.
#[test]
fn lists_of_versions() {
    let list = |len: usize, there: usize| {
        let bytes = [&b"\x80\0\0\0\0\x01a\x01b"[..], &[9; 8]].concat();
        LongHeaderView::parse(&bytes[..9 + there], 9 + len).is_ok()
    };
    assert!(list(4, 4) && list(8, 8) && list(8, 3) && list(4, 0));
    assert!([0, 1, 3, 5, 6].iter().all(|len| !list(*len, *len)));
}

/// A vector behind its length.
fn vector(length_bytes: usize, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    [&length[length.len() - length_bytes..], content].concat()
}

proptest! {
    /// What is written is read, and of any part of it only what is there.
    #[test]
    fn a_hello_of_any_values(
        host in proptest::collection::vec(any::<u8>(), 1..64),
        names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..12), 0..5),
        suites in proptest::collection::vec(any::<u16>(), 0..20),
        versions in proptest::collection::vec(0x0300u16..=0x0304, 1..5),
        session in proptest::collection::vec(any::<u8>(), 0..33),
        cut in any::<prop::sample::Index>(),
    ) {
        let list: Vec<u8> = names.iter().flat_map(|name| vector(1, name)).collect();
        let two = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let name = vector(2, &[&[0][..], &vector(2, &host)].concat());
        let extension = |kind: u16, data: &[u8]| [&kind.to_be_bytes()[..], &vector(2, data)].concat();
        let extensions = [
            extension(0x0a0a, &[]),
            extension(43, &vector(1, &two(&versions))),
            extension(0, &name),
            extension(16, &vector(2, &list)),
        ].concat();
        let body = [
            &[3, 3][..], &[7; 32], &vector(1, &session), &vector(2, &two(&suites)), &[1, 0], &vector(2, &extensions),
        ].concat();
        let message = [&[1][..], &vector(3, &body)].concat();
        let hello = HelloView::parse(&message).unwrap();
        prop_assert!(hello.is_whole());
        prop_assert_eq!(hello.version(), *versions.iter().max().unwrap());
        prop_assert!(hello.cipher_suites().eq(suites.iter().copied()));
        prop_assert_eq!(hello.extensions().server_name(), Some(&host[..]));
        prop_assert!(hello.extensions().protocols().eq(names.iter().map(|name| &name[..])));
        let at = cut.index(message.len());
        if let Ok(part) = HelloView::parse(&message[..at]) {
            prop_assert!(!part.is_whole());
            let host_end = message.len() - (4 + 2 + list.len());
            prop_assert_eq!(part.extensions().server_name().is_some(), at >= host_end);
        } else {
            prop_assert!(at < 4 + 34, "{} bytes are enough", at);
        }
    }
}
