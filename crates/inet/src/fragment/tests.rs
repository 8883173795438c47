//! Reassembly: hand-made cases by table, and any cutting in any order against the datagram itself.

use super::*;
use crate::time::Duration;
use proptest::prelude::*;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn key(n: u32) -> FragmentKey {
    let (src, dst) = match n % 2 {
        0 => ("10.0.0.2", "10.0.0.1"),
        _ => ("fd10::2", "fd10::1"),
    };
    FragmentKey {
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
        ident: n,
        protocol: 17,
    }
}

fn datagram(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// Bytes `start..end` of a datagram of `len`.
fn piece(n: u32, data: &[u8], start: usize, end: usize) -> Fragment<'_> {
    let (payload, more) = (&data[start..end], end < data.len());
    Fragment {
        key: key(n),
        offset: start,
        more,
        payload,
        protocol: 17,
        ecn: Ecn::NotEct,
        packet: b"the first packet",
    }
}

#[test]
fn any_order_gives_the_datagram() {
    let data = datagram(100);
    let cuts = [(0, 32), (32, 40), (40, 96), (96, 100)];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        for n in 0..2 {
            let mut reassembler = Reassembler::new();
            let given: Vec<_> = order
                .iter()
                .filter_map(|&i| reassembler.push(at(0), &piece(n, &data, cuts[i].0, cuts[i].1)))
                .collect();
            assert_eq!(given.len(), 1, "{order:?}");
            assert_eq!(given[0].payload, data);
            assert_eq!(
                (given[0].protocol, given[0].quote.as_slice()),
                (17, &b"the first packet"[..])
            );
            assert!(reassembler.is_empty() && reassembler.bytes() == 0);
        }
    }
}

/// RFC 3168 §5.3, for each pair of fields in either order: a mark is neither lost nor given to a transport
/// that did not ask for it.
#[test]
fn marks_of_pieces_are_marks_of_the_datagram() {
    use Ecn::{Ce, Ect0, Ect1, NotEct};
    let table = [
        (NotEct, NotEct, Some(NotEct)),
        (NotEct, Ect0, Some(NotEct)),
        (NotEct, Ect1, Some(NotEct)),
        (NotEct, Ce, None),
        (Ect0, Ect0, Some(Ect0)),
        (Ect0, Ect1, Some(Ect0)),
        (Ect0, Ce, Some(Ce)),
        (Ect1, Ect1, Some(Ect1)),
        (Ect1, Ce, Some(Ce)),
        (Ce, Ce, Some(Ce)),
    ];
    let data = datagram(24);
    for (a, b, expected) in table {
        for (n, first, second) in [(0, a, b), (0, b, a), (1, a, b), (1, b, a)] {
            let mut reassembler = Reassembler::new();
            // A third piece, of the first one's kind: what was heard is not forgotten.
            for (start, ecn) in [(0, first), (8, second)] {
                let piece = piece(n, &data, start, start + 8);
                let none = reassembler.push(at(0), &Fragment { ecn, ..piece });
                assert_eq!(none, None);
            }
            let last = piece(n, &data, 16, 24);
            let given = reassembler.push(at(0), &Fragment { ecn: first, ..last });
            assert_eq!(given.map(|d| d.ecn), expected, "{first:?}, {second:?}");
            let mixed = u64::from(expected.is_none());
            assert_eq!(reassembler.counters().mixed_ecn, mixed);
        }
    }
}

/// A datagram that is one whole fragment keeps its mark.
#[test]
fn an_atomic_fragment_keeps_its_mark() {
    let data = datagram(24);
    let whole = Fragment {
        ecn: Ecn::Ce,
        ..piece(1, &data, 0, 24)
    };
    let given = Reassembler::new().push(at(0), &whole);
    assert_eq!(given.map(|d| d.ecn), Some(Ecn::Ce));
}

#[test]
fn datagrams_do_not_mix() {
    let (a, b) = (datagram(64), datagram(80));
    let mut reassembler = Reassembler::new();
    assert_eq!(reassembler.push(at(0), &piece(1, &a, 0, 32)), None);
    assert_eq!(reassembler.push(at(0), &piece(3, &b, 32, 80)), None);
    assert_eq!(
        reassembler
            .push(at(0), &piece(1, &a, 32, 64))
            .unwrap()
            .payload,
        a
    );
    assert_eq!(
        reassembler
            .push(at(0), &piece(3, &b, 0, 32))
            .unwrap()
            .payload,
        b
    );
}

/// RFC 5722, RFC 8200 §4.5: each of these condemns the datagram, and what comes after is dropped.
#[test]
fn overlaps_condemn() {
    let data = datagram(96);
    let longer = datagram(104);
    // (name, first, second)
    let table: [(&str, Fragment<'_>, Fragment<'_>); 7] = [
        (
            "tail over head",
            piece(0, &data, 0, 40),
            piece(0, &data, 32, 64),
        ),
        (
            "head over tail",
            piece(0, &data, 32, 64),
            piece(0, &data, 0, 40),
        ),
        ("inside", piece(0, &data, 0, 64), piece(0, &data, 16, 32)),
        ("around", piece(0, &data, 16, 32), piece(0, &data, 0, 64)),
        (
            "same place, longer",
            piece(0, &data, 0, 32),
            piece(0, &data, 0, 40),
        ),
        (
            "two ends",
            piece(0, &data, 64, 96),
            piece(0, &longer, 96, 104),
        ),
        (
            "end before data",
            piece(0, &longer, 80, 96),
            piece(0, &data[..40], 32, 40),
        ),
    ];
    for (name, first, second) in table {
        let mut reassembler = Reassembler::new();
        assert_eq!(reassembler.push(at(0), &first), None, "{name}");
        assert_eq!(reassembler.push(at(0), &second), None, "{name}");
        assert_eq!(reassembler.counters().overlaps, 1, "{name}");
        assert_eq!(reassembler.bytes(), 0, "{name}");
        for start in (0..96).step_by(8) {
            assert_eq!(
                reassembler.push(at(1), &piece(0, &data, start, start + 8)),
                None,
                "{name}"
            );
        }
        assert_eq!(reassembler.counters().condemned, 12, "{name}");
        // When its time is over nothing is said, and the identification is free again.
        reassembler.handle_timeout(at(30_000));
        assert_eq!(reassembler.poll_expired(), None, "{name}");
        assert!(reassembler.is_empty(), "{name}");
    }
}

#[test]
fn same_place_other_bytes_is_an_overlap_and_same_bytes_a_duplicate() {
    let (data, mut other) = (datagram(64), datagram(64));
    other[3] ^= 1;
    let mut reassembler = Reassembler::new();
    reassembler.push(at(0), &piece(0, &data, 0, 32));
    reassembler.push(at(0), &piece(0, &data, 0, 32));
    assert_eq!(reassembler.counters().duplicates, 1);
    assert_eq!(
        reassembler
            .push(at(0), &piece(0, &data, 32, 64))
            .unwrap()
            .payload,
        data
    );
    reassembler.push(at(0), &piece(0, &data, 0, 32));
    reassembler.push(at(0), &piece(0, &other, 0, 32));
    assert_eq!(reassembler.counters().overlaps, 1);
}

#[test]
fn unsound_pieces_are_dropped_by_name() {
    let data = datagram(64);
    let mut reassembler = Reassembler::new();
    let empty = Fragment {
        payload: &[],
        ..piece(0, &data, 0, 32)
    };
    let odd = Fragment {
        payload: &data[..31],
        ..piece(0, &data, 0, 32)
    };
    for bad in [empty, odd] {
        assert_eq!(reassembler.push(at(0), &bad), None);
    }
    assert_eq!(reassembler.counters().bad_length, 2);
    for (n, offset) in [(0, 65_512), (1, 65_528)] {
        let beyond = Fragment {
            offset,
            more: false,
            payload: &data[..8],
            ..piece(n, &data, 0, 8)
        };
        assert_eq!(reassembler.push(at(0), &beyond), None);
    }
    assert_eq!(reassembler.counters().oversized, 2);
    assert!(reassembler.is_empty());
}

/// RFC 6946: not put beside the fragments that an attacker sent with its identification.
#[test]
fn an_atomic_fragment_passes_alone() {
    let data = datagram(64);
    let mut reassembler = Reassembler::new();
    reassembler.push(at(0), &piece(1, &data, 0, 32));
    assert_eq!(
        reassembler
            .push(at(0), &piece(1, &data, 0, 64))
            .unwrap()
            .payload,
        data
    );
    assert_eq!(reassembler.len(), 1);
}

/// RFC 8200 §4.5: 60 s, and time exceeded only if the first fragment is there. IPv4: 30 s.
#[test]
fn time_runs_out() {
    let data = datagram(64);
    let mut reassembler = Reassembler::new();
    reassembler.push(at(0), &piece(0, &data, 0, 32));
    reassembler.push(at(0), &piece(1, &data, 0, 32));
    reassembler.push(at(0), &piece(3, &data, 32, 64));
    assert_eq!(reassembler.poll_timeout(), Some(at(30_000)));
    reassembler.handle_timeout(at(29_999));
    assert_eq!(reassembler.len(), 3);
    reassembler.handle_timeout(at(30_000));
    assert_eq!(
        reassembler.poll_expired(),
        Some(b"the first packet".to_vec())
    );
    assert_eq!(reassembler.poll_timeout(), Some(at(60_000)));
    reassembler.handle_timeout(at(60_000));
    assert_eq!(
        reassembler.poll_expired(),
        Some(b"the first packet".to_vec())
    );
    assert_eq!(
        reassembler.poll_expired(),
        None,
        "without the first fragment nobody is told"
    );
    assert_eq!(
        (reassembler.counters().timeouts, reassembler.poll_timeout()),
        (3, None)
    );
}

#[test]
fn floods_are_bounded() {
    let data = vec![1; 65_504];
    let mut reassembler = Reassembler::new();
    // One source, many datagrams.
    for n in 0..1000 {
        reassembler.push(at(0), &piece(2 * n, &data, 0, 1480));
    }
    assert_eq!(reassembler.len(), REASSEMBLY_PER_SOURCE_MAX);
    // Many sources.
    for n in 0..1000 {
        let src = IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0b00_0000 + n));
        let fragment = piece(0, &data, 0, 40_000);
        reassembler.push(
            at(0),
            &Fragment {
                key: FragmentKey { src, ..key(0) },
                ..fragment
            },
        );
        assert!(reassembler.bytes() <= REASSEMBLY_BYTES_MAX);
        assert!(reassembler.len() <= REASSEMBLY_DATAGRAMS_MAX);
    }
    // One datagram in very many pieces.
    let mut reassembler = Reassembler::new();
    for start in (0..16_000).step_by(16) {
        reassembler.push(at(0), &piece(0, &data, start, start + 8));
    }
    assert_eq!(
        (reassembler.counters().scattered, reassembler.bytes()),
        (1, 0)
    );
}

proptest! {
    /// Any cutting, any order, duplicates and strangers between: the datagram comes out once,
    /// whole.
    #[test]
    fn reassembles_what_was_cut(
        len in 9usize..4000,
        mtu in 8usize..600,
        order in any::<u64>(),
        duplicates in any::<bool>(),
        v6 in any::<bool>(),
    ) {
        let data = datagram(len);
        prop_assume!(len.div_ceil(mtu & !7) <= REASSEMBLY_PIECES_MAX && len > mtu & !7);
        let mut pieces: Vec<_> = cuts(len, mtu).map(|(o, l, _)| piece(u32::from(v6), &data, o, o + l)).collect();
        if duplicates {
            pieces.extend(pieces.clone());
        }
        let mut random = crate::siphash::Random::new(order);
        for i in (1..pieces.len()).rev() {
            pieces.swap(i, (random.next_u64() % (i as u64 + 1)) as usize);
        }
        let mut reassembler = Reassembler::new();
        let stranger = piece(2 + u32::from(v6), &data, 0, 8);
        let mut out = Vec::new();
        for p in &pieces {
            out.extend(reassembler.push(at(0), p));
            prop_assert_eq!(reassembler.push(at(0), &stranger), None);
        }
        prop_assert!(!out.is_empty());
        prop_assert!(out.iter().all(|d| d.payload == data));
        prop_assert_eq!(out.len(), 1 + usize::from(out.len() > 1));
    }

    /// Random pieces of random datagrams: bounds hold, and what comes out is what those bytes say.
    #[test]
    fn never_more_than_allowed(pieces in prop::collection::vec((0u32..6, 0usize..40, 1usize..12, any::<bool>()), 0..300)) {
        let data = datagram(8 * 64);
        let mut reassembler = Reassembler::new();
        let mut now = at(0);
        for (n, start, len, more) in pieces {
            let (start, end) = (start * 8, (start + len) * 8);
            let fragment = Fragment { more, ..piece(n, &data, start, end) };
            if let Some(d) = reassembler.push(now, &fragment) {
                prop_assert_eq!(&d.payload[..], &data[..d.payload.len()]);
            }
            now += Duration::from_millis(700);
            reassembler.handle_timeout(now);
            let cost: usize = reassembler.entries.iter().map(|e| e.cost()).sum();
            prop_assert_eq!(cost, reassembler.bytes());
            prop_assert!(reassembler.poll_timeout().is_none_or(|t| t > now));
        }
    }
}

/// What is cut by us is put together by us, through the parsers.
#[test]
fn our_own_fragments_come_together() {
    use exos_wire::ipv4::Ipv4View;
    use exos_wire::ipv6::Ipv6View;
    let data = datagram(5000);
    let header = Ipv4Header {
        src: "10.0.0.2".parse().unwrap(),
        dst: "10.0.0.1".parse().unwrap(),
        protocol: 17,
        ttl: 64,
        tos: 0,
        ident: 77,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
    };
    let mut reassembler = Reassembler::new();
    let mut out = Vec::new();
    for packet in cut_v4(&header, &data, 1500) {
        assert!(packet.len() <= 1500);
        let view = Ipv4View::parse(&packet).unwrap();
        assert!(view.header_checksum_ok() && view.is_fragment());
        let key = FragmentKey {
            ident: view.ident().into(),
            ..key(0)
        };
        let (offset, more) = (view.fragment_offset(), view.more_fragments());
        let fragment = Fragment {
            key,
            offset,
            more,
            payload: view.payload(),
            protocol: 17,
            ecn: Ecn::NotEct,
            packet: &packet,
        };
        out.extend(reassembler.push(at(0), &fragment));
    }
    let header = Ipv6Header {
        src: "fd10::2".parse().unwrap(),
        dst: "fd10::1".parse().unwrap(),
        next_header: 17,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
    };
    for packet in cut_v6(&header, 0xdead_beef, &data, 1280) {
        assert!(packet.len() <= 1280);
        let upper = Ipv6View::parse(&packet).unwrap().upper().unwrap();
        let cut = upper.fragment.unwrap();
        let key = FragmentKey {
            ident: cut.ident,
            ..key(1)
        };
        let (payload, protocol) = (upper.payload, upper.protocol);
        let fragment = Fragment {
            key,
            offset: cut.offset,
            more: cut.more,
            payload,
            protocol,
            ecn: Ecn::NotEct,
            packet: &packet,
        };
        out.extend(reassembler.push(at(0), &fragment));
    }
    assert_eq!(out.len(), 2);
    assert!(out.iter().all(|d| d.payload == data && d.protocol == 17));
}

/// A first fragment has the whole header of its transport but for options (RFC 1858 §3), and over IPv6 all before it (RFC 7112 §5).
#[test]
fn first_fragments_have_their_headers() {
    let data = datagram(64);
    let (v4, v6) = (key(2), key(1));
    // Options for the destination, 8 bytes, then TCP, and 16, of which the first fragment may not have all.
    let [short, long] = [[6, 0, 1, 4, 0, 0, 0, 0], [6, 1, 1, 12, 0, 0, 0, 0]];
    for (key, protocol, begin, first, wanted) in [
        (v4, 6, None, 16, false),
        (v4, 6, None, 24, true),
        (v4, 17, None, 8, true),
        (v4, 1, None, 8, true),
        (v4, 99, None, 8, true),
        (v6, 6, None, 16, false),
        (v6, 6, None, 24, true),
        (v6, 58, None, 8, true),
        (v6, 60, Some(short), 24, false),
        (v6, 60, Some(short), 32, true),
        (v6, 60, Some(long), 8, false),
        (v6, 60, Some(long), 40, true),
    ] {
        let mut data = data.clone();
        if let Some(begin) = begin {
            data[..16].fill(0);
            data[..8].copy_from_slice(&begin);
        }
        let mut reassembler = Reassembler::new();
        let mut given = [(0, first), (first, 64)].map(|(start, end)| {
            let fragment = Fragment {
                key,
                protocol,
                ..piece(1, &data, start, end)
            };
            reassembler.push(at(0), &fragment)
        });
        let what = format!("{key:?}, protocol {protocol}, {begin:?}, {first}");
        assert_eq!(given[1].take().is_some(), wanted, "{what}");
        assert_eq!(
            reassembler.counters().headless,
            u64::from(!wanted),
            "{what}"
        );
    }
}
