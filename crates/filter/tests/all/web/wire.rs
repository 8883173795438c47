//! Requests that come by a veth, in packets that have no room for their responses: answered by the second stage, from both kinds of
//! buffers. Needs the privilege to load programs and to make namespaces.
//!
//! ```text
//! client (packet socket) peer0 ==== wire0: XDP, tcx ingress
//! ```

use super::{ACK, Bench, Client, FIN, OURS, PSH, REQUEST};
use crate::gate::in_namespace;
use crate::gate::wire::Packets;

use exos_filter::Counter;
use exos_filter::handler::forward::WayOut;
use exos_filter::handler::web::SecondStage;
use exos_filter::handler::web::layout::RESPONSE_MAX;
use exos_filter::handler::{Handler as _, WebHandler};
use exos_host::bpf::{Link, Prog, TcxHook, TcxLink, XdpMode};
use exos_host::netlink::Netlink;
use exos_wire::Sum;

/// `struct virtio_net_hdr`: the segment's checksum is left to the device, which finds it at 16 from this byte on.
const fn unfinished(tcp: usize) -> [u8; 10] {
    [1, 0, 0, 0, 0, 0, tcp as u8, 0, 16, 0]
}

/// What is attached, and the client's end.
struct Wire {
    bench: Bench,
    client: Packets,
    second: Option<TcxLink>,
    _first: [Link; 2],
}

impl Wire {
    fn new(ipv6: bool) -> Self {
        let netlink = Netlink::new().unwrap();
        netlink.create_veth("wire0", "peer0").unwrap();
        let index = |name: &str| netlink.link_by_name(name).unwrap().index;
        let (device, peer) = (index("wire0"), index("peer0"));
        netlink.set_mac(device, OURS.0).unwrap();
        for index in [device, peer] {
            netlink.set_up(index, true).unwrap();
        }
        let second_stage = SecondStage {
            interface: device,
            mark: 0x0123_4567_89ab_cdef,
        };
        let bench = Bench::of(ipv6, WayOut::Redirect(device), Some(second_stage));
        let second = attach(&bench, &bench.handler, device);
        // What has room leaves by XDP, and arrives at a veth's end only where that has a program. r0 = XDP_PASS; exit
        let pass = Prog::load(&[0x0000_0002_0000_00b7, 0x95], "pass", false).unwrap();
        Self {
            second: Some(second),
            _first: [(device, &bench.prog), (peer, &pass)]
                .map(|(index, prog)| Link::attach_xdp(index, prog, XdpMode::Native).unwrap()),
            bench,
            client: Packets::open(peer).with_virtio_header(),
        }
    }

    fn counted(&self, counter: Counter) -> u64 {
        self.bench.counted(counter)
    }

    /// What is answered to a request, its checksum completed where that was left to a device; and whether by the second stage.
    fn ask(&self, client: &Client, is_unfinished: bool) -> (Vec<u8>, bool) {
        let before = self.counted(Counter::Lengthened);
        let mut frame = client.frame(ACK | PSH, REQUEST);
        let mut header = [0; 10];
        let (tcp, unfinished) = (client.tcp(), unfinished(client.tcp()));
        let checksum = tcp + 16..tcp + 18;
        if is_unfinished {
            header = unfinished;
            let sum = !client.pseudo(&frame).finish();
            frame[checksum.clone()].copy_from_slice(&sum.to_be_bytes());
        }
        self.client.send(&[&header[..], &frame].concat());
        let ethertype = [frame[12], frame[13]];
        // Not what the host says itself, of neighbours and groups.
        let protocol = 10 + if tcp == 54 { 20 } else { 23 };
        let is_answer = |frame: &[u8]| {
            frame[16..22] == OURS.0 && frame[22..24] == ethertype && frame[protocol] == 6
        };
        let mut answer = self.client.receive(is_answer).expect("an answer");
        let was_short = self.counted(Counter::Lengthened) > before;
        let header: Vec<u8> = answer.drain(..10).collect();
        assert_eq!(header == unfinished, is_unfinished && was_short);
        if header == unfinished {
            // The device sums from TCP's header on, the field with it.
            let sum = Sum::of(&answer[tcp..]).finish();
            answer[checksum].copy_from_slice(&sum.to_be_bytes());
        }
        (answer, was_short)
    }
}

/// Has a handler's second stage be there.
fn attach(bench: &Bench, handler: &WebHandler, device: u32) -> TcxLink {
    let code = handler.second_stage(bench.maps[2].raw_fd()).unwrap();
    let second =
        Prog::load_classifier(&code.words(), "web").unwrap_or_else(|e| panic!("{e}\n{}", e.log));
    TcxLink::attach(device, &second, TcxHook::Ingress).unwrap()
}

/// Each length, of both kinds, with timestamps and without, the second time to a request that came again.
#[test]
fn responses_of_any_length_are_answered_from_any_buffer() {
    let test = "responses_of_any_length_are_answered_from_any_buffer";
    for ipv6 in [false, true] {
        in_namespace(test, || answer_each_length(&Wire::new(ipv6)));
    }
}

fn answer_each_length(wire: &Wire) {
    let response: Vec<u8> = (0..RESPONSE_MAX).map(|n| (n * 7 + n / 256) as u8).collect();
    let short = [200, 201, 202, 203, 1021, 1022];
    let lengths = short.into_iter().chain(RESPONSE_MAX - 1..=RESPONSE_MAX);
    let mut were_short = [0; 2];
    for (number, len) in (0..).zip(lengths) {
        let closes = number % 2 == 1;
        wire.bench.enter(REQUEST, &response[..len], closes);
        for (kind, stamped) in [(0, false), (0, true), (1, false), (1, true)] {
            let port = 4000 + 4 * number + 2 * kind + u16::from(stamped);
            let client = Client::opened(&wire.bench, port, stamped);
            for _ in 0..2 {
                let (answer, was_short) = wire.ask(&client, kind == 1);
                were_short[usize::from(kind)] += u64::from(was_short);
                let got = client.reads(&answer);
                assert_eq!(got.data, response[..len]);
                assert_eq!(got.seq, client.ack);
                assert_eq!(got.ack, client.seq + REQUEST.len() as u32);
                assert_eq!(got.flags, ACK | PSH | if closes { FIN } else { 0 });
            }
        }
    }
    assert!(were_short.iter().all(|&times| times > 0), "{were_short:?}");
    assert_eq!(wire.counted(Counter::NotLengthened), 0);
}

/// Nothing of a packet that was to be made longer is the host's, or comes back, when the second stage is not there any more, or another
/// handler's is.
#[test]
fn without_the_second_stage_the_host_takes_nothing() {
    in_namespace("without_the_second_stage_the_host_takes_nothing", || {
        let mut wire = Wire::new(true);
        let response = [b'x'; RESPONSE_MAX];
        wire.bench.enter(REQUEST, &response, false);
        let client = Client::opened(&wire.bench, 4000, true);
        let netlink = Netlink::new().unwrap();
        let device = netlink.link_by_name("wire0").unwrap().index;
        let host = Packets::open(device);
        let others = WebHandler {
            second_stage: Some(SecondStage {
                interface: device,
                mark: 1,
            }),
            ..wire.bench.handler.clone()
        };
        for is_others in [false, true] {
            wire.second = None;
            wire.second = is_others.then(|| attach(&wire.bench, &others, device));
            wire.client
                .send(&[&[0; 10][..], &client.frame(ACK | PSH, REQUEST)].concat());
            let passed = host
                .receive(|frame| {
                    frame[6..12] == OURS.0 && frame[12..14] == [0x86, 0xdd] && frame[20] == 6
                })
                .expect("passed");
            assert_ne!(passed[..6], OURS.0, "it is another station's");
            assert!(passed.len() < response.len(), "without the response");
            assert_eq!(wire.counted(Counter::Lengthened), 0);
            assert_eq!(wire.counted(Counter::NotLengthened), 0);
        }
        // The client asks again, and is answered once it is there.
        wire.second = None;
        wire.second = Some(attach(&wire.bench, &wire.bench.handler, device));
        assert_eq!(client.reads(&wire.ask(&client, false).0).data, response);
    });
}
