//! What is meant to be other than tcpdump's text, and what tcpdump is not asked about.

use exos_dump::text::{Printer, Style};
use exos_dump::{Origin, Packet};

fn text(style: Style, frame: &[u8]) -> String {
    let packet = Packet {
        time_ns: 0,
        bytes: frame,
        len: frame.len(),
        origin: Origin::default(),
    };
    let mut out = String::new();
    Printer::new(style).print(&packet, &mut out);
    out
}

fn verbose(verbosity: u8) -> Style {
    Style {
        verbosity,
        ..Style::default()
    }
}

/// An IPv4 packet with this payload, from 10.0.0.1 to 10.0.0.2.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![
        0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    let len = (20 + payload.len()) as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    [packet, payload.to_vec()].concat()
}

fn frame(packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], packet].concat()
}

/// A segment from port 40000 to port 80.
fn tcp(flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let offset = ((20 + options.len()) as u8 / 4) << 4;
    let mut segment = vec![
        0x9c, 0x40, 0, 80, 0, 0, 0, 9, 0, 0, 0, 8, offset, flags, 1, 0, 0, 0, 0, 0,
    ];
    segment.extend(options);
    segment.extend(payload);
    frame(&ipv4(6, &segment))
}

#[test]
fn a_head_is_shown_without_its_body_and_its_control_characters() {
    let shown = text(
        verbose(1),
        &tcp(
            0x18,
            &[],
            b"GET /\x1b[31m HTTP/1.1\r\nHost: \xe9\r\n\r\nbody\x07\n",
        ),
    );
    let head = shown.split("HTTP, length: 38").nth(1);
    assert_eq!(head, Some("\n\tGET /^[[31m HTTP/1.1\n\tHost: M-i\n\t"));
}

#[test]
fn a_user_timeout_is_given_in_seconds() {
    let shown = text(Style::default(), &tcp(0x10, &[28, 4, 0x80, 5], b""));
    assert!(
        shown.ends_with("options [uto 0x8005 300], length 0"),
        "{shown}"
    );
    let shown = text(Style::default(), &tcp(0x10, &[28, 4, 0, 5], b""));
    assert!(shown.ends_with("options [uto 0x5 5], length 0"), "{shown}");
}

#[test]
fn packets_inside_packets_end_somewhere() {
    let mut packet = ipv4(17, &[0; 8]);
    for _ in 0..300 {
        packet = ipv4(4, &packet);
    }
    let shown = text(Style::default(), &frame(&packet));
    assert!(
        shown.ends_with("[more than 4 packets inside each other]"),
        "{shown}"
    );
}

#[test]
fn extension_headers_end_somewhere() {
    let mut packet = vec![0x60, 0, 0, 0, 0x10, 0, 60, 64];
    packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].repeat(2));
    packet.extend([60, 0, 1, 4, 0, 0, 0, 0].repeat(512));
    let mut frame = frame(&packet);
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    let shown = text(Style::default(), &frame);
    assert!(
        shown.ends_with("DSTOPT [more than 16 extension headers]"),
        "{shown}"
    );
}

/// Each answer's name is as long as can be, and there are as many answers as the field can say.
#[test]
fn answers_end_somewhere() {
    let mut message = vec![0, 1, 0x80, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];
    for _ in 0..400 {
        message.extend([63; 64]);
    }
    message.push(0);
    while message.len() < 60_000 {
        message.extend([0xc0, 12, 0, 2, 0, 1, 0, 0, 0, 0, 0, 2, 0xc0, 12]);
    }
    let len = (8 + message.len()) as u16;
    let mut udp = vec![0, 53, 0x9c, 0x40, 0, 0, 0, 0];
    udp[4..6].copy_from_slice(&len.to_be_bytes());
    let shown = text(verbose(3), &frame(&ipv4(17, &[udp, message].concat())));
    assert!(shown.len() < 100_000, "{} bytes", shown.len());
}

/// A hello, or another begin of a stream or datagram, of the fuzzer's corpus.
fn sample(name: &str) -> Vec<u8> {
    let all = exos_testing::corpus("wire_hello");
    let found = all.into_iter().find(|(it, _)| it == name);
    found.unwrap_or_else(|| panic!("{name} is in the corpus")).1[1..].to_vec()
}

fn udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let words = [ports.0, ports.1, len, 0].map(u16::to_be_bytes);
    frame(&ipv4(17, &[&words.concat()[..], payload].concat()))
}

/// The port of HTTP in clear text is not looked at for TLS, any other is.
fn segment(payload: &[u8]) -> Vec<u8> {
    let mut frame = tcp(0x18, &[], payload);
    frame[36..38].copy_from_slice(&8443u16.to_be_bytes());
    frame
}

#[test]
fn hellos_are_shown() {
    for (name, wanted) in [
        (
            "client-openssl-1.3",
            ": TLS ClientHello www.example.org h2,http/1.1 1.3",
        ),
        ("client-openssl-1.2", ": TLS ClientHello a.example 1.2"),
        ("server-1.3", ": TLS ServerHello 1.3"),
        ("server-1.2-alpn", ": TLS ServerHello http/1.1 1.2"),
        ("server-retry", ": TLS HelloRetryRequest 1.3"),
        ("alert", ": TLS Alert fatal protocol_version"),
    ] {
        let shown = text(Style::default(), &segment(&sample(name)));
        assert!(shown.ends_with(wanted), "{shown}");
    }
    let shown = text(verbose(1), &segment(&sample("server-1.3")));
    assert!(shown.ends_with("1.3, suites 0x1302"), "{shown}");
    // The rest is in the next segment, or beyond the capture's snap length.
    let hello = sample("client-openssl-1.3");
    let shown = text(Style::default(), &segment(&hello[..hello.len() - 40]));
    assert!(
        shown.contains("ClientHello www.example.org") && shown.ends_with(" ..."),
        "{shown}"
    );
    let whole = segment(&hello);
    let cut = Packet {
        time_ns: 0,
        bytes: &whole[..whole.len() - 40],
        len: whole.len(),
        origin: Origin::default(),
    };
    let mut out = String::new();
    Printer::default().print(&cut, &mut out);
    assert!(
        out.contains("ClientHello www.example.org") && out.ends_with(" [|tls]"),
        "{out}"
    );
}

/// First packets that are not all there begin no connections: none is said to have been forgotten.
#[test]
fn packets_of_quic_that_are_cut_are_said_to_be() {
    let mut printer = Printer::default();
    printer.add_keys(b"");
    let mut whole = udp((50000, 8443), &sample("quic-initial"));
    let id_at = 14 + 20 + 8 + 6;
    for nth in 0..17_000_u64 {
        whole[id_at..][..8].copy_from_slice(&nth.to_be_bytes());
        let cut = Packet {
            time_ns: 0,
            bytes: &whole[..100],
            len: whole.len(),
            origin: Origin::default(),
        };
        let mut out = String::new();
        printer.print(&cut, &mut out);
        let why = " [not decrypted: the capture has cut packets]";
        assert!(out.contains(": QUIC Initial v1"), "{out}");
        assert_eq!(out.ends_with(why), nth == 0, "{out}");
    }
    assert_eq!(printer.forgotten_connections(), 0);
}

#[test]
fn packets_of_quic_are_shown() {
    for (name, ports, wanted) in [
        ("quic-initial", (50000, 8443), ": QUIC Initial v1"),
        (
            "quic-coalesced",
            (443, 50000),
            ": QUIC Initial v1, Handshake v1",
        ),
        ("quic-retry-2", (443, 50000), ": QUIC Retry v2"),
        (
            "quic-negotiation",
            (443, 50000),
            ": QUIC Version Negotiation",
        ),
    ] {
        let payload = sample(name);
        let shown = text(Style::default(), &udp(ports, &payload));
        assert!(
            shown.ends_with(&format!("UDP, length {}{wanted}", payload.len())),
            "{shown}"
        );
    }
    let shown = text(
        Style::default(),
        &udp((50000, 8443), &sample("quic-negotiation")),
    );
    assert!(shown.ends_with("UDP, length 27"), "{shown}");
    let shown = text(verbose(1), &udp((50000, 443), &sample("quic-initial")));
    assert!(
        shown.ends_with("QUIC Initial v1 to 8394c8f03e515708"),
        "{shown}"
    );
}
