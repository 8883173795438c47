//! The walk over IPv6 extension headers: each kind, their order, what must be discarded, bounds.

use exos_wire::WireError;
use exos_wire::ipv6::{
    self, Answer, Fragment, FragmentHeader, Ipv6Header, Ipv6View, Problem, Upper,
};
use exos_wire::limits::EXTENSION_HEADERS_MAX;
use exos_wire::protocol::{
    AUTHENTICATION, DESTINATION_OPTIONS, ESP, FRAGMENT, HOP_BY_HOP, NO_NEXT_HEADER, ROUTING, TCP,
    UDP,
};

/// A packet of the given extension headers, whose first byte is patched to chain them.
fn packet(extensions: &[(u8, &[u8])], last: u8, payload: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let kinds = extensions.iter().map(|(kind, _)| *kind).chain([last]);
    for ((_, header), next) in extensions.iter().zip(kinds.clone().skip(1)) {
        body.push(next);
        body.extend(&header[1..]);
    }
    body.extend(payload);
    let header = Ipv6Header {
        src: "fd10::1".parse().unwrap(),
        dst: "fd10::2".parse().unwrap(),
        next_header: kinds.clone().next().unwrap(),
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
    };
    let mut packet = vec![0; ipv6::LEN];
    header.emit(body.len(), &mut packet);
    packet.extend(body);
    packet
}

fn upper(packet: &[u8]) -> Result<Upper<'_>, WireError> {
    Ipv6View::parse(packet).unwrap().upper()
}

const PAD_N: [u8; 8] = [0, 0, 1, 4, 0, 0, 0, 0];
const PAYLOAD: &[u8] = b"the payload";

#[test]
fn no_extension() {
    let packet = packet(&[], UDP, PAYLOAD);
    let expected = Upper {
        protocol: UDP,
        payload: PAYLOAD,
        offset: 40,
        fragment: None,
        next_header_field: 6,
        problem: None,
    };
    assert_eq!(upper(&packet), Ok(expected));
}

/// RFC 8200 §4.1's whole recommended order, all taken.
#[test]
fn every_kind_in_the_recommended_order() {
    let authentication = [[0, 4, 0, 0, 0, 0, 0, 0], [0; 8], [0; 8]].concat();
    let routing = [0, 2, 0, 0, 0, 0, 0, 0];
    let routing = [&routing[..], &[0; 16]].concat();
    let packet = packet(
        &[
            (HOP_BY_HOP, &PAD_N),
            (DESTINATION_OPTIONS, &PAD_N),
            (ROUTING, &routing),
            (FRAGMENT, &[0; 8]),
            (AUTHENTICATION, &authentication),
            (DESTINATION_OPTIONS, &PAD_N),
        ],
        TCP,
        PAYLOAD,
    );
    let found = upper(&packet).unwrap();
    assert_eq!((found.protocol, found.payload), (TCP, PAYLOAD));
    assert_eq!(found.offset, packet.len() - PAYLOAD.len());
    assert_eq!(found.next_header_field, found.offset - 8);
    assert_eq!((found.fragment, found.problem), (None, None));
}

/// RFC 8200 §4.1: hop-by-hop options elsewhere than first are an unrecognized next header.
#[test]
fn hop_by_hop_must_be_first() {
    let packet = packet(
        &[(DESTINATION_OPTIONS, &PAD_N), (HOP_BY_HOP, &PAD_N)],
        UDP,
        PAYLOAD,
    );
    let found = upper(&packet).unwrap();
    assert_eq!((found.protocol, found.next_header_field), (HOP_BY_HOP, 40));
    let fragmentable = ipv6::walk(HOP_BY_HOP, &PAD_N, 40, 6, false).unwrap();
    assert_eq!(
        (fragmentable.protocol, fragmentable.payload),
        (HOP_BY_HOP, &PAD_N[..])
    );
}

#[test]
fn what_is_not_read_ends_the_walk() {
    for kind in [ESP, NO_NEXT_HEADER, 253, 135] {
        let packet = packet(&[(HOP_BY_HOP, &PAD_N)], kind, PAYLOAD);
        let found = upper(&packet).unwrap();
        assert_eq!(
            (found.protocol, found.payload, found.offset),
            (kind, PAYLOAD, 48)
        );
    }
}

#[test]
fn fragments_end_the_walk() {
    for (offset, more) in [(0, true), (1448, true), (1448, false), (0xfff8, true)] {
        let mut header = [0; 8];
        FragmentHeader {
            next_header: 0,
            offset,
            more,
            ident: 0xdead_beef,
        }
        .emit(&mut header);
        // The fragmentable part begins with another extension header, which is left alone.
        let packet = packet(&[(FRAGMENT, &header)], DESTINATION_OPTIONS, &PAD_N);
        let found = upper(&packet).unwrap();
        assert_eq!(
            found.fragment,
            Some(Fragment {
                offset,
                more,
                ident: 0xdead_beef
            })
        );
        assert_eq!(
            (found.protocol, found.payload),
            (DESTINATION_OPTIONS, &PAD_N[..])
        );
    }
}

/// RFC 6946 §4: a fragment header that carries the whole packet is no fragment.
#[test]
fn atomic_fragments_are_whole() {
    let mut header = [0; 8];
    FragmentHeader {
        next_header: 0,
        offset: 0,
        more: false,
        ident: 7,
    }
    .emit(&mut header);
    let packet = packet(
        &[(FRAGMENT, &header), (DESTINATION_OPTIONS, &PAD_N)],
        UDP,
        PAYLOAD,
    );
    let found = upper(&packet).unwrap();
    assert_eq!(
        (found.protocol, found.payload, found.fragment),
        (UDP, PAYLOAD, None)
    );
}

/// RFC 8200 §4.2: the two highest bits of an unknown option say what to do.
#[test]
fn unknown_options() {
    let table = [
        (0x1e, None),
        (0x5e, Some(Answer::Never)),
        (0x9e, Some(Answer::Always)),
        (0xde, Some(Answer::UnlessMulticast)),
    ];
    for (kind, answer) in table {
        let header = [0, 1, 0, 1, 1, 0, kind, 2, 0, 0, 1, 4, 0, 0, 0, 0];
        let packet = packet(&[(DESTINATION_OPTIONS, &header)], UDP, PAYLOAD);
        let problem = answer.map(|answer| Problem {
            code: 2,
            pointer: 46,
            answer,
        });
        assert_eq!(upper(&packet).unwrap().problem, problem, "{kind:#x}");
    }
}

/// The first problem is the one that is reported.
#[test]
fn first_problem_counts() {
    let (never, always) = ([0, 0, 0x40, 4, 0, 0, 0, 0], [0, 0, 0x80, 4, 0, 0, 0, 0]);
    let packet = packet(
        &[(HOP_BY_HOP, &never), (DESTINATION_OPTIONS, &always)],
        UDP,
        PAYLOAD,
    );
    let expected = Problem {
        code: 2,
        pointer: 42,
        answer: Answer::Never,
    };
    assert_eq!(upper(&packet).unwrap().problem, Some(expected));
}

/// RFC 8200 §4.4: no routing type is known to us, so hops that are left are an error at the type.
#[test]
fn routing_with_hops_left() {
    for left in [0, 1, 255] {
        let header = [0, 0, 3, left, 0, 0, 0, 0];
        let packet = packet(&[(HOP_BY_HOP, &PAD_N), (ROUTING, &header)], UDP, PAYLOAD);
        let problem = Problem {
            code: 0,
            pointer: 50,
            answer: Answer::Always,
        };
        assert_eq!(
            upper(&packet).unwrap().problem,
            (left != 0).then_some(problem)
        );
    }
}

#[test]
fn bad_option_lengths() {
    for header in [
        [0, 0, 1, 5, 0, 0, 0, 0],
        [0, 0, 1, 3, 0, 0, 0, 1],
        [0, 0, 0x1e, 255, 0, 0, 0, 0],
    ] {
        let packet = packet(&[(HOP_BY_HOP, &header)], UDP, PAYLOAD);
        assert_eq!(
            upper(&packet).unwrap_err().name(),
            "bad_option",
            "{header:?}"
        );
    }
}

#[test]
fn headers_beyond_the_end() {
    let long = [0, 9, 1, 4, 0, 0, 0, 0];
    for kind in [HOP_BY_HOP, DESTINATION_OPTIONS, ROUTING, AUTHENTICATION] {
        let cut = packet(&[(kind, &long)], UDP, PAYLOAD);
        assert_eq!(upper(&cut).unwrap_err().name(), "truncated");
        let shorter = packet(&[], kind, &[0; 7]);
        assert_eq!(upper(&shorter).unwrap_err().name(), "truncated");
    }
    let cut = packet(&[], FRAGMENT, &[0; 7]);
    assert_eq!(upper(&cut).unwrap_err().name(), "truncated");
}

#[test]
fn number_of_headers_is_bounded() {
    let headers = vec![(DESTINATION_OPTIONS, &PAD_N[..]); EXTENSION_HEADERS_MAX + 1];
    let most = packet(&headers[1..], UDP, PAYLOAD);
    assert_eq!(upper(&most).unwrap().protocol, UDP);
    let more = packet(&headers, UDP, PAYLOAD);
    assert_eq!(
        upper(&more),
        Err(WireError::TooManyHeaders {
            max: EXTENSION_HEADERS_MAX
        })
    );
}

#[test]
fn link_padding_is_left_out() {
    let mut padded = packet(&[], UDP, PAYLOAD);
    padded.extend([0xee; 9]);
    assert_eq!(Ipv6View::parse(&padded).unwrap().payload(), PAYLOAD);
}
