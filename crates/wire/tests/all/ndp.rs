//! Neighbour discovery: messages of the wire, what makes one invalid, options that are not ours.

use std::net::Ipv6Addr;

use exos_wire::icmpv6::{Icmpv6, Icmpv6View};
use exos_wire::limits::RA_PREFIXES_MAX;
use exos_wire::ndp::{
    NdpOptions, NeighborAdvertisement, NeighborSolicitation, PrefixInformation,
    RouterAdvertisement, RouterSolicitation,
};
use exos_wire::{Mac, WireError};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// A source link-layer address option of [`MAC`].
const SOURCE_MAC: [u8; 8] = [1, 1, 2, 0, 0, 0, 0, 1];

fn target() -> Ipv6Addr {
    "fd10::2".parse().unwrap()
}

/// Type, code, no checksum, four bytes, a target.
fn neighbor_message(kind: u8, code: u8, flags: u8, options: &[u8]) -> Vec<u8> {
    [
        &[kind, code, 0, 0, flags, 0, 0, 0],
        &target().octets()[..],
        options,
    ]
    .concat()
}

fn prefix(text: &str, prefix_len: u8) -> PrefixInformation {
    PrefixInformation {
        prefix: text.parse().unwrap(),
        prefix_len,
        on_link: true,
        autonomous: true,
        valid_secs: 86_400,
        preferred_secs: u32::MAX,
    }
}

fn emitted(message: &RouterAdvertisement) -> Vec<u8> {
    let mut out = vec![0xa5; message.message_len()];
    message.emit(&target(), &target(), &mut out);
    out
}

#[test]
fn solicitation_with_and_without_address() {
    let message = neighbor_message(135, 0, 0, &SOURCE_MAC);
    let with = NeighborSolicitation {
        target: target(),
        source_mac: Some(MAC),
    };
    assert_eq!(NeighborSolicitation::parse(&message), Ok(with));
    let without = NeighborSolicitation {
        target: target(),
        source_mac: None,
    };
    assert_eq!(NeighborSolicitation::parse(&message[..24]), Ok(without));
    assert_eq!((with.message_len(), without.message_len()), (32, 24));
}

#[test]
fn advertisement_flags() {
    for flags in 0..8u8 {
        let message = neighbor_message(136, 0, flags << 5, &[2, 1, 2, 0, 0, 0, 0, 1]);
        let expected = NeighborAdvertisement {
            target: target(),
            router: flags & 4 != 0,
            solicited: flags & 2 != 0,
            override_: flags & 1 != 0,
            target_mac: Some(MAC),
        };
        assert_eq!(NeighborAdvertisement::parse(&message), Ok(expected));
        let mut out = [0xa5; 32];
        assert_eq!(expected.emit(&target(), &target(), &mut out), 32);
        assert_eq!((&out[..2], &out[4..]), (&message[..2], &message[4..]));
    }
}

/// RFC 4861 §7.1.1: each of the checks that the message alone allows.
#[test]
fn invalid_solicitations() {
    let bad_code = neighbor_message(135, 1, 0, &SOURCE_MAC);
    let bad_type = neighbor_message(136, 0, 0, &SOURCE_MAC);
    let mut multicast = neighbor_message(135, 0, 0, &[]);
    multicast[8] = 0xff;
    let zero_option = neighbor_message(135, 0, 0, &[14, 0, 0, 0, 0, 0, 0, 0]);
    let bad_after_good = neighbor_message(135, 0, 0, &[&SOURCE_MAC[..], &[1, 0]].concat());
    let overrun = neighbor_message(135, 0, 0, &[1, 2, 2, 0, 0, 0, 0, 1]);
    let lone_byte = neighbor_message(135, 0, 0, &[1]);
    let table = [
        (bad_code, "bad_field"),
        (bad_type, "bad_field"),
        (multicast, "bad_field"),
        (zero_option, "bad_option"),
        (bad_after_good, "bad_option"),
        (overrun, "bad_option"),
        (lone_byte, "bad_option"),
        (vec![135; 23], "truncated"),
    ];
    for (message, reason) in table {
        let error = NeighborSolicitation::parse(&message).unwrap_err();
        assert_eq!(
            (error.layer(), error.name()),
            ("ndp", reason),
            "{message:?}"
        );
    }
}

#[test]
fn options_of_others_are_skipped() {
    let nonce = [14, 1, 1, 2, 3, 4, 5, 6];
    let infiniband = [[1, 3, 0, 0, 0, 0, 0, 0], [0; 8], [0; 8]].concat();
    let options = [
        &nonce[..],
        &infiniband,
        &SOURCE_MAC,
        &[1, 1, 9, 9, 9, 9, 9, 9],
    ]
    .concat();
    let message = neighbor_message(135, 0, 0, &options);
    // An address of another length is not ours; of two, the first counts.
    assert_eq!(
        NeighborSolicitation::parse(&message).unwrap().source_mac,
        Some(MAC)
    );
}

#[test]
fn router_solicitation() {
    let message = [&[133, 0, 0, 0, 0, 0, 0, 0][..], &SOURCE_MAC].concat();
    let parsed = RouterSolicitation::parse(&message).unwrap();
    assert_eq!(
        parsed,
        RouterSolicitation {
            source_mac: Some(MAC)
        }
    );
}

#[test]
fn router_advertisement_with_everything() {
    let mut message = RouterAdvertisement {
        hop_limit: 64,
        managed: true,
        other_config: false,
        lifetime_secs: 1800,
        reachable_ms: 30_000,
        retrans_ms: 1000,
        source_mac: Some(MAC),
        mtu: Some(1400),
        ..RouterAdvertisement::default()
    };
    message.prefixes.push(prefix("fd77::", 64));
    message.prefixes.push(prefix("2001:db8:8000::", 33));
    let bytes = emitted(&message);
    assert_eq!(bytes.len(), 16 + 8 + 8 + 2 * 32);
    assert_eq!(RouterAdvertisement::parse(&bytes), Ok(message));
    let view = Icmpv6View::parse(&bytes).unwrap();
    assert!(view.checksum_ok(&target(), &target()));
    assert_eq!(view.message(), Ok(Icmpv6::RouterAdvertisement(message)));
}

/// RFC 4861 §4.6.2: bits beyond the prefix length are ignored by the receiver.
#[test]
fn prefixes_are_masked() {
    for (len, expected) in [(0, "::"), (1, "8000::"), (64, "fd77::"), (128, "fd77::1")] {
        let mut message = RouterAdvertisement::default();
        message.prefixes.push(prefix("fd77::1", len));
        let parsed = RouterAdvertisement::parse(&emitted(&message)).unwrap();
        let [found] = parsed.prefixes.as_slice() else {
            panic!("one prefix")
        };
        assert_eq!(
            (found.prefix, found.prefix_len),
            (expected.parse().unwrap(), len)
        );
    }
    let mut too_long = RouterAdvertisement::default();
    too_long.prefixes.push(prefix("fd77::1", 129));
    assert!(
        RouterAdvertisement::parse(&emitted(&too_long))
            .unwrap()
            .prefixes
            .as_slice()
            .is_empty()
    );
}

/// RFC 4861 §4: reserved bits are ignored by the receiver.
#[test]
fn reserved_bits_are_ignored() {
    let mut message = RouterAdvertisement::default();
    let plain = PrefixInformation {
        on_link: false,
        autonomous: false,
        ..prefix("fd77::", 64)
    };
    message.prefixes.push(plain);
    let mut bytes = emitted(&message);
    bytes[5] |= 0x3f;
    bytes[16 + 3] |= 0x3f;
    assert_eq!(RouterAdvertisement::parse(&bytes), Ok(message));
    let advertisement = NeighborAdvertisement::parse(&neighbor_message(136, 0, 0x1f, &[])).unwrap();
    let NeighborAdvertisement {
        router,
        solicited,
        override_,
        ..
    } = advertisement;
    assert_eq!((router, solicited, override_), (false, false, false));
}

#[test]
fn prefixes_are_bounded() {
    let mut message = RouterAdvertisement::default();
    for _ in 0..RA_PREFIXES_MAX {
        assert!(message.prefixes.push(prefix("fd77::", 64)));
    }
    assert!(!message.prefixes.push(prefix("fd78::", 64)));
    let one_more = [emitted(&message), emitted(&message)[16..48].to_vec()].concat();
    assert_eq!(RouterAdvertisement::parse(&one_more), Ok(message));
}

#[test]
fn option_iterator_ends_at_the_first_bad_one() {
    let bytes = [&SOURCE_MAC[..], &[5, 0, 0, 0, 0, 0, 0, 0], &SOURCE_MAC].concat();
    let options: Vec<_> = NdpOptions::new(&bytes).collect();
    assert_eq!(options.len(), 2);
    assert_eq!(options[0].unwrap().data, &SOURCE_MAC[2..]);
    assert_eq!(
        options[1],
        Err(WireError::BadOption {
            layer: "ndp",
            kind: 5
        })
    );
}
