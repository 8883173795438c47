//! Peers that ask too much: each is ended by a fault of its own, after a bounded amount of work.

use exos_http2::Fault;
use exos_http2::frame::{flag, kind};

use crate::common::{GET, Server, Told, block, framed, request, setting, window};

/// What gives the frames of a flood, by their number.
type Next = Box<dyn FnMut(u32) -> Vec<u8>>;

/// Has a server take what `next` gives until it fails.
fn flood(mut next: impl FnMut(u32) -> Vec<u8>) -> (u32, Fault) {
    let mut server = Server::begun();
    server.receive(&request(1, false)).unwrap();
    for n in 0..100_000 {
        if let Err(fault) = server.receive(&next(n)) {
            assert_eq!(server.gone(), fault.code());
            return (n, fault);
        }
    }
    panic!("nobody ends it");
}

#[test]
fn floods_are_ended_by_their_names() {
    let reset = |n: u32| {
        let stream = 2 * n + 3;
        [
            request(stream, true),
            framed(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]),
        ]
        .concat()
    };
    let cases: [(Fault, u32, Next); 9] = [
        (Fault::ResetFlood, 256, Box::new(reset)),
        (Fault::SettingsFlood, 31, Box::new(|_| setting(4, 1000))),
        (
            Fault::PingFlood,
            256,
            Box::new(|_| framed(kind::PING, 0, 0, &[1; 8])),
        ),
        (
            Fault::EmptyFlood,
            256,
            Box::new(|_| framed(kind::DATA, 0, 1, b"")),
        ),
        (
            Fault::EmptyFlood,
            256,
            Box::new(|_| framed(99, 0, 1, b"what")),
        ),
        (
            Fault::PriorityFlood,
            1024,
            Box::new(|_| framed(kind::PRIORITY, 0, 1, &[0; 5])),
        ),
        (Fault::WindowFlood, 4096, Box::new(|_| window(0, 1))),
        (
            Fault::FaultFlood,
            256,
            Box::new(|n| framed(kind::HEADERS, 5, 2 * n + 3, b"\x82")),
        ),
        (
            Fault::EmptyFlood,
            256,
            Box::new(|_| framed(kind::GOAWAY, 0, 0, &[0; 8])),
        ),
    ];
    for (fault, count, next) in cases {
        assert_eq!(flood(next), (count, fault));
    }
}

/// What floods is what comes in a short time.
#[test]
fn time_gives_back() {
    let mut server = Server::begun();
    for second in 0..100 {
        server.connection.set_time(second);
        for _ in 0..32 {
            assert_eq!(
                server.receive(&framed(kind::PING, 0, 0, &[1; 8])),
                Ok(vec![])
            );
        }
    }
    assert_eq!(server.sent().len(), 3200);
}

/// CVE-2024-27316 and its kin: a header block that never ends.
#[test]
fn a_block_without_an_end_is_ended() {
    let begin = framed(kind::HEADERS, 0, 3, &block(&GET));
    let mut server = Server::begun();
    server.receive(&begin).unwrap();
    let more = framed(kind::CONTINUATION, 0, 3, b"");
    let results: Vec<_> = (0..1000).map(|_| server.receive(&more)).collect();
    assert!(results.contains(&Err(Fault::ContinuationFlood)));
    let mut server = Server::begun();
    server.receive(&begin).unwrap();
    let more = framed(kind::CONTINUATION, 0, 3, &[0; 16_000]);
    let fault = (0..10).find_map(|_| server.receive(&more).err());
    assert_eq!(fault, Some(Fault::HeaderBlockTooLong));
}

/// A table's entry that is named thousands of times comes to gigabytes: a few times are counted and not kept, more end the connection.
#[test]
fn a_bomb_of_fields_is_refused() {
    let flags = flag::END_HEADERS | flag::END_STREAM;
    let value = "v".repeat(3900);
    let mut long = block(&GET);
    exos_http2::hpack::encoder::push_kept(&mut long, b"x", value.as_bytes());
    long.extend(vec![0xbe; 5]);
    let mut server = Server::begun();
    let told = server.receive(&framed(kind::HEADERS, flags, 1, &long));
    assert_eq!(told, Ok(vec![Told::TooLong(1)]));
    // The table is what the client thinks: the next request names it.
    let named = [block(&GET), vec![0xbe]].concat();
    let told = server.receive(&framed(kind::HEADERS, flags, 3, &named));
    assert_eq!(told, Ok(vec![Told::Request(3, true)]));
    // Named over and over, and with each a copy of its name is entered.
    for (again, count) in [(&[0xbe][..], 10_000), (&[0x7e, 0], 5_000)] {
        let bomb = [block(&GET), again.repeat(count)].concat();
        let mut server = Server::begun();
        server
            .receive(&framed(kind::HEADERS, flags, 1, &long))
            .unwrap();
        let told = server.receive(&framed(kind::HEADERS, flags, 3, &bomb));
        assert_eq!(told, Err(Fault::HeaderBomb));
    }
}

/// Header blocks on a stream that was reset, and behind the end, cost as much as others.
#[test]
fn blocks_that_nobody_needs_are_counted() {
    let mut server = Server::begun();
    server.connection.finish_going(&mut server.out);
    let fault = (0..1000).find_map(|n| server.receive(&request(2 * n + 1, true)).err());
    assert_eq!(fault, Some(Fault::EmptyFlood));
    let fault = flood(|n| match n {
        0 => framed(kind::DATA, 0, 1, &[0; 4]),
        1 => request(1, false),
        _ => request(1, false),
    });
    assert_eq!(fault.1, Fault::EmptyFlood);
}
