//! What the fuzz targets of `exos-wire` check of any bytes.
//!
//! Each function takes the fuzzer's bytes and panics when something does not hold. The file is
//! included by the fuzz targets and by `crates/wire/tests/all/corpus.rs`, which replays the corpora
//! with a stable compiler; it depends on nothing but `exos_wire`.

use std::net::{IpAddr, Ipv6Addr};

use exos_wire::arp::{self, ArpView};
use exos_wire::ethernet::{self, EthernetView};
use exos_wire::icmpv4::Icmpv4View;
use exos_wire::icmpv6::{Icmpv6, Icmpv6View};
use exos_wire::ipv4::{self, Ipv4View};
use exos_wire::ipv6::{self, FragmentHeader, Ipv6View};
use exos_wire::limits::TCP_OPTIONS_LEN_MAX;
use exos_wire::ndp::{
    NdpOptions, NeighborAdvertisement, NeighborSolicitation, RouterAdvertisement,
    RouterSolicitation,
};
use exos_wire::quic::{LongHeaderView, PacketType};
use exos_wire::quoted::Quoted;
use exos_wire::tcp::{
    self, FastOpenCookie, RawOptions, SackBlocks, TcpOptions, TcpView, Timestamps, options_len,
};
use exos_wire::tls::{HelloView, RecordView};
use exos_wire::udp::{self, UdpView};
use exos_wire::{SeqNumber, Sum, checksum, protocol};

/// A frame: every layer's parser and every accessor is called; lengths and offsets fit together;
/// what is emitted again from the values is the same bytes, or the same values where the bytes hold
/// more than the values.
pub fn frame(data: &[u8]) {
    let Ok(frame) = EthernetView::parse(data) else {
        return;
    };
    assert_eq!(frame.header_len() + frame.payload().len(), data.len());
    let mut out = [0; ethernet::LEN + ethernet::VLAN_TAG_LEN];
    let len = frame.values().emit(&mut out);
    // An untagged header cannot say that a tag follows, and there is none to be lost.
    assert_eq!(out[..len], data[..len]);
    match frame.ethertype() {
        ethernet::ETHERTYPE_ARP => arp(frame.payload()),
        ethernet::ETHERTYPE_IPV4 => ipv4(frame.payload()),
        ethernet::ETHERTYPE_IPV6 => ipv6(frame.payload()),
        _ => {}
    }
}

fn arp(payload: &[u8]) {
    let Ok(view) = ArpView::parse(payload) else {
        return;
    };
    let mut out = [0; arp::LEN];
    assert_eq!(view.packet().emit(&mut out), arp::LEN);
    assert_eq!(out, payload[..arp::LEN]);
}

fn ipv4(payload: &[u8]) {
    let _ = Quoted::parse_v4(payload);
    let Ok(packet) = Ipv4View::parse(payload) else {
        return;
    };
    assert_eq!(
        packet.header_len() + packet.payload().len(),
        packet.total_len()
    );
    assert_eq!(packet.header().len(), ipv4::LEN + packet.options().len());
    assert_eq!(
        packet.is_fragment(),
        packet.more_fragments() || packet.fragment_offset() != 0
    );
    let options = packet.options_iter().take_while(Result::is_ok).flatten();
    assert!(options.map(|option| option.data.len() + 2).sum::<usize>() <= packet.options().len());
    let reserved_flag = packet.header()[6] & 0x80 != 0;
    let other_zero = packet.header_checksum() == 0xffff;
    if packet.header_checksum_ok() && packet.options().is_empty() && !reserved_flag && !other_zero {
        let mut out = [0; ipv4::LEN];
        assert_eq!(
            packet.values().emit(packet.payload().len(), &mut out),
            ipv4::LEN
        );
        assert_eq!(out, packet.header());
    }
    let (src, dst) = (packet.src().into(), packet.dst().into());
    if !packet.is_fragment() {
        upper(src, dst, packet.protocol(), packet.payload());
    }
}

fn ipv6(payload: &[u8]) {
    let _ = Quoted::parse_v6(payload);
    let Ok(packet) = Ipv6View::parse(payload) else {
        return;
    };
    let mut out = [0; ipv6::LEN];
    assert_eq!(
        packet.values().emit(packet.payload().len(), &mut out),
        ipv6::LEN
    );
    assert_eq!(out, packet.header());
    let Ok(found) = packet.upper() else { return };
    assert_eq!(
        found.offset + found.payload.len(),
        ipv6::LEN + packet.payload_len()
    );
    assert_eq!(payload[found.next_header_field], found.protocol);
    if let Some(problem) = found.problem {
        assert!((ipv6::LEN..found.offset).contains(&problem.pointer));
    }
    match found.fragment {
        None => upper(
            packet.src().into(),
            packet.dst().into(),
            found.protocol,
            found.payload,
        ),
        Some(place) => {
            let (offset, more, ident) = (place.offset, place.more, place.ident);
            let header = FragmentHeader {
                next_header: found.protocol,
                offset,
                more,
                ident,
            };
            let mut out = [0; ipv6::FRAGMENT_LEN];
            assert_eq!(header.emit(&mut out), ipv6::FRAGMENT_LEN);
            let walked = ipv6::walk(protocol::FRAGMENT, &out, ipv6::LEN, 6, false).unwrap();
            assert_eq!(walked.fragment, Some(place));
        }
    }
}

fn upper(src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) {
    let pseudo = |len: usize| Sum::pseudo(src, dst, protocol, len as u32);
    match (protocol, src, dst) {
        (protocol::TCP, ..) => tcp(pseudo(payload.len()), payload),
        (protocol::UDP, ..) => udp(pseudo, payload),
        (protocol::ICMP, IpAddr::V4(_), _) => icmpv4(payload),
        (protocol::ICMPV6, IpAddr::V6(src), IpAddr::V6(dst)) => icmpv6(&src, &dst, payload),
        _ => {}
    }
}

fn udp(pseudo: impl Fn(usize) -> Sum, payload: &[u8]) {
    let Ok(datagram) = UdpView::parse(payload) else {
        return;
    };
    let pseudo = pseudo(datagram.length());
    assert_eq!(udp::LEN + datagram.payload().len(), datagram.length());
    let mut out = [0; udp::LEN];
    let sum = pseudo.plus(Sum::of(datagram.payload()));
    assert_eq!(
        datagram
            .values()
            .emit(datagram.payload().len(), sum, &mut out),
        udp::LEN
    );
    if datagram.checksum() != 0 && datagram.checksum_ok(pseudo) {
        assert_eq!(out, payload[..udp::LEN]);
    }
    let whole = [&out, datagram.payload()].concat();
    let again = UdpView::parse(&whole).unwrap();
    assert!(again.checksum() != 0 && again.checksum_ok(pseudo));
}

fn tcp(pseudo: Sum, payload: &[u8]) {
    let Ok(segment) = TcpView::parse(payload) else {
        return;
    };
    assert_eq!(
        segment.header_len() + segment.payload().len(),
        payload.len()
    );
    assert_eq!(segment.segment(), payload);
    assert_eq!(segment.sum(), Sum::of(payload));
    assert!(segment.seq_len() as usize - segment.payload().len() <= 2);
    check_options(segment.options_bytes());
    let options = segment.options();
    if options_len(&options) > TCP_OPTIONS_LEN_MAX {
        return;
    }
    // Reserved bits and the options' layout are lost, so that values are compared and not bytes.
    let mut out = [0xa5; tcp::HEADER_LEN_MAX];
    let len = segment.values().emit(&options, &mut out);
    let sum = pseudo.plus(segment.sum());
    tcp::fill_checksum(&mut out[..len], sum);
    let mut summed = [0x5a; tcp::HEADER_LEN_MAX];
    assert_eq!(
        segment
            .values()
            .emit_with_checksum(&options, sum, &mut summed),
        len
    );
    assert_eq!(out[..len], summed[..len]);
    let again = TcpView::parse(&out[..len]).unwrap();
    assert_eq!(again.values(), segment.values());
    assert_eq!(
        again.options(),
        TcpOptions {
            malformed: false,
            ..options
        }
    );
    assert!(again.checksum_ok(sum));
}

fn icmpv4(payload: &[u8]) {
    let Ok(view) = Icmpv4View::parse(payload) else {
        return;
    };
    let message = view.message();
    let _ = (view.quoted(), Quoted::parse_v4(view.body()));
    let mut out = vec![0xa5; message.message_len()];
    assert_eq!(message.emit(&mut out), out.len());
    let again = Icmpv4View::parse(&out).unwrap();
    assert!(again.checksum_ok());
    assert_eq!(again.message(), message);
    assert_eq!((again.kind(), again.code()), (view.kind(), view.code()));
}

fn icmpv6(src: &Ipv6Addr, dst: &Ipv6Addr, payload: &[u8]) {
    let Ok(view) = Icmpv6View::parse(payload) else {
        return;
    };
    let _ = (
        view.checksum_ok(src, dst),
        view.quoted(),
        Quoted::parse_v6(view.body()),
    );
    let Ok(message) = view.message() else { return };
    same_again(src, dst, message);
    ndp(payload);
}

fn same_again(src: &Ipv6Addr, dst: &Ipv6Addr, message: Icmpv6<'_>) {
    let mut out = vec![0xa5; message.message_len()];
    assert_eq!(message.emit(src, dst, &mut out), out.len());
    let again = Icmpv6View::parse(&out).unwrap();
    assert!(again.checksum_ok(src, dst));
    assert_eq!(again.message(), Ok(message));
}

/// A neighbour discovery message: whichever parser takes it, the values survive being emitted;
/// options never overrun the message.
pub fn ndp(data: &[u8]) {
    let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
    let parsed = [
        NeighborSolicitation::parse(data).map(Icmpv6::NeighborSolicitation),
        NeighborAdvertisement::parse(data).map(Icmpv6::NeighborAdvertisement),
        RouterSolicitation::parse(data).map(Icmpv6::RouterSolicitation),
        RouterAdvertisement::parse(data).map(Icmpv6::RouterAdvertisement),
    ];
    let taken = parsed.iter().flatten().count();
    assert!(taken <= 1, "a message has one type: {parsed:?}");
    for message in parsed.into_iter().flatten() {
        assert!(message.message_len() <= data.len());
        same_again(&src, &dst, message);
    }
    let options: Vec<_> = NdpOptions::new(data).collect();
    let read: usize = options
        .iter()
        .flatten()
        .map(|option| option.data.len() + 2)
        .sum();
    let all_good = options.iter().all(Result::is_ok);
    assert!(if all_good {
        read == data.len()
    } else {
        read < data.len()
    });
}

/// The begin of a TLS connection, or of a QUIC datagram, as the first byte says: all accessors; cut anywhere, nothing else is read.
pub fn hello(data: &[u8]) {
    match data.split_first() {
        Some((0, bytes)) => tls(bytes),
        Some((more, bytes)) => quic(bytes, bytes.len() + usize::from(more - 1)),
        None => {}
    }
}

fn tls(bytes: &[u8]) {
    let Ok(record) = RecordView::parse(bytes) else {
        return;
    };
    assert!(record.fragment().len() <= record.length());
    assert_eq!(record.is_whole(), bytes.len() >= 5 + record.length());
    let _ = record.alert();
    let Ok(hello) = HelloView::parse(record.fragment()) else {
        return;
    };
    let all = Hello::of(&hello);
    let step = record.fragment().len() / 64 + 1;
    for len in (0..record.fragment().len()).step_by(step) {
        let Ok(part) = HelloView::parse(&record.fragment()[..len]) else {
            continue;
        };
        assert_eq!(part.kind(), hello.kind());
        assert!(!part.is_whole() || hello.is_whole());
        let part = Hello::of(&part);
        assert!(all.suites.starts_with(&part.suites));
        assert!(all.extensions.starts_with(&part.extensions));
        assert!(part.server_name.is_none() || part.server_name == all.server_name);
        assert!(part.protocols.is_empty() || part.protocols == all.protocols);
    }
}

/// What a hello says.
struct Hello<'a> {
    suites: Vec<u16>,
    extensions: Vec<(u16, &'a [u8])>,
    server_name: Option<&'a [u8]>,
    protocols: Vec<&'a [u8]>,
}

impl<'a> Hello<'a> {
    fn of(hello: &HelloView<'a>) -> Self {
        let extensions = hello.extensions();
        assert!(
            extensions
                .client_versions()
                .all(|version| version >> 8 == 3)
        );
        let _ = (hello.version(), extensions.server_version());
        Self {
            suites: hello.cipher_suites().collect(),
            server_name: extensions.server_name(),
            protocols: extensions.protocols().collect(),
            extensions: extensions.collect(),
        }
    }
}

/// A datagram that may have been longer before it was cut.
fn quic(bytes: &[u8], length: usize) {
    let (mut rest, mut length) = (bytes, length);
    while let Ok(packet) = LongHeaderView::parse_greased(rest, length) {
        let is_greased = packet.version() != 0 && rest[0] & 0x40 == 0;
        assert_eq!(LongHeaderView::parse(rest, length).is_err(), is_greased);
        let next = packet.next();
        assert!(next.len() < rest.len(), "a header has five bytes at least");
        let ids = packet.destination_id().len() + packet.source_id().len();
        assert!(ids <= 40 && ids <= rest.len());
        let negotiates = packet.packet_type() == PacketType::VersionNegotiation;
        assert_eq!(negotiates, packet.version() == 0);
        assert!(ids + packet.token().len() < rest.len());
        if let Some(protected) = packet.protected() {
            assert_eq!(protected.packet.len(), rest.len() - next.len());
            assert!(protected.number_at <= protected.packet.len());
        }
        length -= rest.len() - next.len();
        rest = next;
    }
}

/// TCP options: the parser agrees with a slow and plain one, and options made of the same bytes
/// survive being emitted.
pub fn tcp_options(data: &[u8]) {
    check_options(data);
    let options = make_options(data);
    let len = options_len(&options);
    assert_eq!(len % 4, 0);
    if len > TCP_OPTIONS_LEN_MAX {
        return;
    }
    let mut out = [0xa5; TCP_OPTIONS_LEN_MAX];
    assert_eq!(options.emit(&mut out), len);
    assert!(out[len..].iter().all(|byte| *byte == 0xa5));
    assert_eq!(TcpOptions::parse(&out[..len]), options);
}

/// Any options, chosen by the first bytes.
fn make_options(data: &[u8]) -> TcpOptions {
    let mut bytes = data.iter().copied().chain(std::iter::repeat(0));
    let mut byte = || bytes.next().unwrap_or_default();
    let present = byte();
    let mut word = || u32::from_be_bytes([byte(), byte(), byte(), byte()]);
    let mut options = TcpOptions::NONE;
    options.mss = (present & 1 != 0).then(|| word() as u16);
    options.window_scale = (present & 2 != 0).then(|| (word() % 15) as u8);
    options.sack_permitted = present & 4 != 0;
    if present & 8 != 0 {
        options.timestamps = Some(Timestamps {
            value: word(),
            echo: word(),
        });
    }
    for _ in 0..present >> 5 & 3 {
        options.sack.push(SeqNumber(word()), SeqNumber(word()));
    }
    if present & 128 != 0 {
        let cookie: Vec<u8> = (0..word() % 18).map(|_| word() as u8).collect();
        options.fast_open = FastOpenCookie::new(&cookie);
    }
    options
}

fn check_options(data: &[u8]) {
    assert_eq!(TcpOptions::parse(data), options_by_index(data));
    let raw: usize = RawOptions::new(data)
        .flatten()
        .map(|option| option.data.len() + 2)
        .sum();
    assert!(raw <= data.len());
}

/// The meaning of TCP options, written as the RFCs say it: a cursor, and one case after another.
fn options_by_index(data: &[u8]) -> TcpOptions {
    let mut found = TcpOptions::NONE;
    let mut at = 0;
    let word = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
    while at < data.len() && data[at] != 0 {
        if data[at] == 1 {
            at += 1;
            continue;
        }
        if at + 1 == data.len() || data[at + 1] < 2 || at + usize::from(data[at + 1]) > data.len() {
            found.malformed = true;
            break;
        }
        let (kind, len) = (data[at], usize::from(data[at + 1]));
        if kind == 2 && len == 4 {
            found.mss = Some((word(at) & 0xffff) as u16);
        } else if kind == 3 && len == 3 {
            found.window_scale = Some(if data[at + 2] > 14 { 14 } else { data[at + 2] });
        } else if kind == 4 && len == 2 {
            found.sack_permitted = true;
        } else if kind == 5 && (len == 10 || len == 18 || len == 26 || len == 34) {
            found.sack = SackBlocks::NONE;
            for block in (at + 2..at + len).step_by(8) {
                found
                    .sack
                    .push(SeqNumber(word(block)), SeqNumber(word(block + 4)));
            }
        } else if kind == 8 && len == 10 {
            found.timestamps = Some(Timestamps {
                value: word(at + 2),
                echo: word(at + 6),
            });
        } else if kind == 34 && (len == 2 || (6..=18).contains(&len) && len % 2 == 0) {
            found.fast_open = FastOpenCookie::new(&data[at + 2..at + len]);
        } else if [2, 3, 4, 5, 8, 34].contains(&kind) {
            found.malformed = true;
        }
        at += len;
    }
    found
}

/// Checksums: the sum is that of the plain definition, however the bytes are cut into runs; a part
/// can be taken away; an incremental update is as good as summing again.
pub fn checksum(data: &[u8]) {
    let [cuts @ .., _, _] = data else { return };
    let cuts = &cuts[..cuts.len().min(6)];
    let bytes = &data[cuts.len()..];
    let whole = Sum::of(bytes);
    assert_eq!(whole.value(), sum_by_word(bytes));
    check_runs(bytes, cuts, whole);
    for cut in cuts {
        let cut = usize::from(*cut) % bytes.len();
        check_part(bytes, cut, whole);
        check_update(bytes, cut);
    }
}

/// RFC 1071 §1, to the letter.
fn sum_by_word(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn check_runs(bytes: &[u8], cuts: &[u8], whole: Sum) {
    let (mut sum, mut len, mut rest) = (Sum::ZERO, 0, bytes);
    for cut in cuts {
        let (run, after) = rest.split_at(usize::from(*cut).min(rest.len()));
        sum = sum.followed_by(len, Sum::of(run));
        (len, rest) = (len + run.len(), after);
    }
    assert_eq!(sum.followed_by(len, Sum::of(rest)), whole);
}

fn check_part(bytes: &[u8], cut: usize, whole: Sum) {
    let (first, second) = bytes.split_at(cut);
    let (first, second) = (Sum::of(first), Sum::of(second));
    let placed = if cut.is_multiple_of(2) {
        second
    } else {
        second.swapped()
    };
    assert!(same(whole.minus(first), placed));
    assert!(same(whole.minus(placed), first));
    assert_eq!(Sum::from_value(whole.value()), whole);
    assert_eq!(second.swapped().swapped(), second);
}

fn check_update(bytes: &[u8], cut: usize) {
    let at = cut & !1;
    let mut changed = bytes.to_vec();
    let before = Sum::of(bytes).finish();
    if let Some(place) = changed.get_mut(at..at + 2) {
        let old = u16::from_be_bytes([place[0], place[1]]);
        let new = old.rotate_left(3) ^ bytes[0] as u16;
        place.copy_from_slice(&new.to_be_bytes());
        let updated = Sum::from_value(!checksum::update16(before, old, new));
        assert!(same(updated, Sum::of(&changed)));
    }
}

/// Equal, where the two zeros count as one. Only bytes that are all zero have the positive zero.
fn same(a: Sum, b: Sum) -> bool {
    a == b || a.value() == !b.value() && (a.value() == 0 || b.value() == 0)
}
