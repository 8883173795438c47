//! Every message survives its bytes; nothing else does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use exos_wire::Mac;
use exos_wire::tcp::cookie::{Recipe, SynAck};
use proptest::collection::vec;
use proptest::prelude::*;
use strum::VariantArray as _;

use super::*;
use crate::bytes::DecodeError;
use crate::claim::{Claim, Endpoint, Protocol};
use crate::limits::SECRET_BYTES;

fn ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(|b| IpAddr::V4(Ipv4Addr::from(b))),
        any::<[u8; 16]>().prop_map(|b| IpAddr::V6(Ipv6Addr::from(b))),
    ]
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    (ip(), any::<u16>()).prop_map(|(ip, port)| Endpoint { ip, port })
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop::sample::select(Protocol::ALL.to_vec())
}

fn secret() -> impl Strategy<Value = Secret> {
    any::<[u8; SECRET_BYTES]>().prop_map(Secret)
}

fn claim() -> impl Strategy<Value = Claim> {
    let last = 1..255_u8;
    (any::<u32>(), last, 1..=u16::MAX, any::<bool>()).prop_map(|(interface, last, port, far)| {
        Claim {
            interface,
            protocol: Protocol::Tcp,
            local: IpAddr::from([192, 0, 2, last]),
            port,
            remote: far.then(|| Endpoint {
                ip: IpAddr::from([198, 51, 100, last]),
                port,
            }),
        }
    })
}

fn port_wish() -> impl Strategy<Value = PortWish> {
    prop_oneof![
        Just(PortWish::All),
        Just(PortWish::Ephemeral),
        (1..=u16::MAX).prop_map(PortWish::Number),
    ]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(Mode::Auto),
        Just(Mode::Shared),
        any::<Option<u32>>().prop_map(Mode::Direct)
    ]
}

fn syn_ack() -> impl Strategy<Value = SynAck> {
    any::<(u16, u16, u8, u8, u8)>().prop_map(|(mss, window, scale, hop_limit, class)| SynAck {
        mss,
        window,
        scale,
        hop_limit,
        class,
    })
}

fn answering() -> impl Strategy<Value = Answering> {
    let recipe = (
        any::<(u16, [u64; 2], u32, u32, u32)>(),
        syn_ack(),
        syn_ack(),
    );
    let recipe = recipe.prop_map(
        |((port, key, cookie_salt, sequence_salt, epoch_us), v4, v6)| Recipe {
            port,
            key,
            cookie_salt,
            sequence_salt,
            epoch_us,
            v4,
            v6,
        },
    );
    let numbers = any::<(u64, u32, u16, Option<u32>, bool, bool)>();
    let cores = any::<(u16, u16, Option<[u8; 16]>)>();
    (recipe, numbers, cores).prop_map(|(recipe, numbers, (cores, core, memory_of))| {
        let (key, requests, response_max, peer_connections, reports, http) = numbers;
        Answering {
            recipe,
            key,
            requests,
            response_max,
            peer_connections,
            reports,
            http,
            cores,
            core,
            memory_of: memory_of.map(Secret),
        }
    })
}

fn request() -> impl Strategy<Value = Request> {
    let option = prop::option::of::<BoxedStrategy<Endpoint>>;
    prop_oneof![
        any::<u16>().prop_map(|version| Request::Hello { version }),
        ("[a-z0-9]{0,15}", mode(), any::<u32>(), "[ -~]{0,16}").prop_map(
            |(interface, mode, chunks, program)| Request::Attach {
                interface,
                mode,
                chunks,
                program
            }
        ),
        secret().prop_map(|token| Request::Reattach { token }),
        (
            protocol(),
            prop::option::of(ip()),
            port_wish(),
            option(endpoint().boxed())
        )
            .prop_map(|(protocol, local, port, remote)| Request::Claim {
                protocol,
                local,
                port,
                remote
            }),
        (protocol(), prop::option::of(ip()), any::<u16>()).prop_map(|(protocol, local, port)| {
            Request::ClaimDivided {
                protocol,
                local,
                port,
            }
        }),
        any::<u32>().prop_map(|grant| Request::Retire { grant }),
        (any::<u32>(), endpoint(), any::<u16>()).prop_map(|(grant, remote, port)| {
            Request::Narrow {
                grant,
                remote,
                port,
            }
        }),
        any::<u32>().prop_map(|grant| Request::Release { grant }),
        any::<u32>().prop_map(|grant| Request::Share { grant }),
        any::<u32>().prop_map(|grant| Request::Withdraw { grant }),
        secret().prop_map(|ticket| Request::Import { ticket }),
        ip().prop_map(|ip| Request::Resolve { ip }),
        (any::<u32>(), vec(any::<u8>(), 0..200))
            .prop_map(|(grant, entries)| Request::TimeWait { grant, entries }),
        ("[a-z]{0,15}", "[ -~]{0,80}", any::<u32>(), any::<bool>()).prop_map(
            |(interface, filter, snap, all)| Request::Tap {
                interface,
                filter,
                snap,
                all
            }
        ),
        any::<u32>().prop_map(|tap| Request::Untap { tap }),
        Just(Request::Status),
        Just(Request::StepAside),
        "[ -~]{0,80}".prop_map(|filter| Request::ClaimFilter { filter }),
        any::<(u32, u32)>().prop_map(|(grant, ms)| Request::AwaitSuccessor { grant, ms }),
        (any::<(u16, u32)>(), "[ -~]{0,80}").prop_map(|((port, memory), handler)| {
            Request::Download {
                port,
                memory,
                handler,
            }
        }),
        any::<Option<u16>>().prop_map(|port| Request::RemoveHandler { port }),
        answering().prop_map(Request::AnswerRequests),
    ]
}

fn facts() -> impl Strategy<Value = Facts> {
    (any::<u32>(), any::<bool>(), any::<[u8; 32]>()).prop_map(|(interface, direct, half)| Facts {
        interface,
        direct,
        link: std::array::from_fn(|i| half[i % 32]),
    })
}

fn interface() -> impl Strategy<Value = InterfaceInfo> {
    let address =
        (ip(), any::<u8>(), any::<bool>()).prop_map(|(ip, prefix, ours_alone)| LocalAddress {
            ip,
            prefix,
            ours_alone,
        });
    (
        "[a-z0-9]{1,15}",
        any::<(u32, [u8; 6], u32)>(),
        vec(address, 0..4),
        vec(ip(), 0..3),
    )
        .prop_map(
            |(name, (index, mac, mtu), addresses, gateways)| InterfaceInfo {
                name,
                index,
                mac: Mac(mac),
                mtu,
                addresses,
                gateways,
            },
        )
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        (any::<u16>(), any::<u32>(), vec(interface(), 0..3)).prop_map(
            |(version, pid, interfaces)| Answer::Welcome {
                version,
                pid,
                interfaces
            }
        ),
        (
            any::<u32>(),
            secret(),
            facts(),
            vec((any::<u32>(), claim()), 0..4)
        )
            .prop_map(|(slot, token, facts, grants)| Answer::Attached {
                slot,
                token,
                facts,
                grants
            }),
        (any::<u32>(), claim()).prop_map(|(grant, claim)| Answer::Granted { grant, claim }),
        Just(Answer::Done),
        secret().prop_map(Answer::Ticket),
        any::<u32>().prop_map(|tap| Answer::Tapped { tap }),
        (any::<u32>(), "[ -~äß€]{0,300}")
            .prop_map(|(bytes, asker)| Answer::Report { bytes, asker }),
        any::<u32>().prop_map(|grant| Answer::GrantedFilter { grant }),
        (
            prop::sample::select(Refusal::VARIANTS.to_vec()),
            "[ -~äß€]{0,300}"
        )
            .prop_map(|(code, text)| Answer::Refused { code, text }),
    ]
}

fn notice() -> impl Strategy<Value = Notice> {
    let what = prop_oneof![
        Just(Revoked::Slot),
        any::<u32>().prop_map(Revoked::Grant),
        any::<u64>().prop_map(Revoked::Rate),
    ];
    let farewell = prop_oneof![
        Just(Farewell::Restarting),
        Just(Farewell::Stopping),
        Just(Farewell::Full),
        Just(Farewell::Revoked),
    ];
    prop_oneof![
        (what, any::<u32>(), "[ -~]{0,80}").prop_map(|(what, deadline_ms, reason)| {
            Notice::Revoke {
                what,
                deadline_ms,
                reason,
            }
        }),
        any::<u64>().prop_map(|generation| Notice::Changed { generation }),
        farewell.prop_map(Notice::Goodbye),
    ]
}

fn from_daemon() -> impl Strategy<Value = FromDaemon> {
    prop_oneof![
        (any::<u32>(), answer()).prop_map(|(tag, answer)| FromDaemon::Answer(tag, answer)),
        notice().prop_map(FromDaemon::Notice),
    ]
}

proptest! {
    #[test]
    fn requests_survive_and_their_beginnings_do_not(request in request(), tag: u32) {
        let bytes = request.encode(tag);
        prop_assert!(bytes.len() <= crate::limits::MESSAGE_BYTES_MAX);
        prop_assert_eq!(Request::decode(&bytes), Ok((tag, request)));
        for end in 0..bytes.len() {
            prop_assert_eq!(Request::decode(&bytes[..end]), Err(DecodeError::Truncated));
        }
        let mut longer = bytes;
        longer.push(0);
        prop_assert_eq!(Request::decode(&longer), Err(DecodeError::Trailing(1)));
    }

    #[test]
    fn what_the_daemon_says_survives_too(said in from_daemon()) {
        let bytes = said.encode();
        prop_assert_eq!(FromDaemon::decode(&bytes), Ok(said));
        for end in 0..bytes.len() {
            prop_assert_eq!(FromDaemon::decode(&bytes[..end]), Err(DecodeError::Truncated));
        }
        let mut longer = bytes;
        longer.push(0);
        prop_assert_eq!(FromDaemon::decode(&longer), Err(DecodeError::Trailing(1)));
    }

    #[test]
    fn any_bytes_are_refused_or_mean_one_message(bytes in vec(any::<u8>(), 0..120)) {
        if let Ok((tag, request)) = Request::decode(&bytes) {
            prop_assert_eq!(request.encode(tag), bytes.clone());
        }
        if let Ok(said) = FromDaemon::decode(&bytes) {
            prop_assert_eq!(said.encode(), bytes);
        }
    }
}

#[test]
fn the_largest_messages_fit() {
    let full = InterfaceInfo {
        name: "x".repeat(15),
        index: 1,
        mac: Mac([1; 6]),
        mtu: 9000,
        addresses: vec![
            LocalAddress {
                ip: IpAddr::V6(Ipv6Addr::LOCALHOST),
                prefix: 64,
                ours_alone: true
            };
            crate::limits::ADDRESSES_MAX
        ],
        gateways: vec![IpAddr::V6(Ipv6Addr::LOCALHOST); crate::limits::GATEWAYS_MAX],
    };
    let welcome = Answer::Welcome {
        version: VERSION,
        pid: 1,
        interfaces: vec![full; crate::limits::INTERFACES_MAX],
    };
    assert!(welcome.encode(1).len() <= crate::limits::MESSAGE_BYTES_MAX);
    let far = Endpoint {
        ip: IpAddr::V6(Ipv6Addr::LOCALHOST),
        port: 9,
    };
    let connection = Claim {
        interface: 1,
        protocol: Protocol::Tcp,
        local: IpAddr::V6(Ipv6Addr::LOCALHOST),
        port: 80,
        remote: Some(far),
    };
    let attached = Answer::Attached {
        slot: 1,
        token: Secret([1; SECRET_BYTES]),
        facts: Facts {
            interface: 1,
            direct: false,
            link: [1; LINK_BYTES],
        },
        grants: vec![(1, connection); crate::limits::ATTACHED_GRANTS_MAX],
    };
    assert!(attached.encode(1).len() <= crate::limits::MESSAGE_BYTES_MAX);
    let entries = vec![0; crate::limits::TIME_WAIT_BYTES_MAX];
    let time_wait = Request::TimeWait { grant: 1, entries };
    assert!(time_wait.encode(1).len() <= crate::limits::MESSAGE_BYTES_MAX);
}

#[test]
fn texts_are_cut_and_cleaned_where_they_are_written() {
    let refused = Answer::Refused {
        code: Refusal::System,
        text: format!("a\tb\n{}", "ß".repeat(1000)),
    };
    let Ok(FromDaemon::Answer(7, Answer::Refused { text, .. })) =
        FromDaemon::decode(&refused.encode(7))
    else {
        panic!("it is a refusal");
    };
    assert!(text.starts_with("a b ß") && text.len() <= crate::limits::TEXT_BYTES_MAX);
}

#[test]
fn control_characters_do_not_reach_a_terminal() {
    let mut bytes = Answer::Refused {
        code: Refusal::System,
        text: "x".to_owned(),
    }
    .encode(1);
    *bytes.last_mut().expect("it has a text") = 0x1b;
    assert_eq!(
        FromDaemon::decode(&bytes),
        Err(DecodeError::BadField("text"))
    );
}
