//! A handler of datagrams: what it is given, what leaves, and what comes to sockets as if there were none.

mod streams;

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use exos_buf::Buffer;
use exos_inet::limits::HANDLED_BYTES_MAX;
use exos_inet::udp::UdpHandle;
use exos_inet::{Config, Handled, Instant, MessageHandler, RxChecksum, Stack};
use exos_wire::{Mac, Sum};

const NOW: Instant = Instant::from_millis(1);
const PORT: u16 = 4000;
const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]];

type Messages = Rc<RefCell<Vec<Vec<u8>>>>;
/// What came, and from where.
type Answer = (SocketAddr, Vec<u8>);

/// Gives up what begins with `u`, is done with what begins with `d`, and answers all else turned round, with one byte more where there is
/// room.
struct Turning(Messages);

impl MessageHandler for Turning {
    fn handle(&mut self, message: &[u8], reply: &mut [u8; HANDLED_BYTES_MAX]) -> Handled {
        self.0.borrow_mut().push(message.to_vec());
        match message.first() {
            Some(b'u') => Handled::GivenUp,
            Some(b'd') => Handled::Done,
            _ => {
                let answer = answer(message);
                reply[..answer.len()].copy_from_slice(&answer);
                Handled::Reply(answer.len())
            }
        }
    }
}

fn answer(message: &[u8]) -> Vec<u8> {
    let turned = message.iter().rev().copied();
    turned.chain([b'!']).take(HANDLED_BYTES_MAX).collect()
}

/// A client, and a server with a handler and a socket at its port.
struct Pair {
    stacks: [Stack; 2],
    client: UdpHandle,
    server: UdpHandle,
    messages: Messages,
}

impl Pair {
    fn new(client_port: u16) -> Self {
        let mut stacks = [0, 1].map(|n| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), 1500);
            let prefixes = ADDRESSES.iter().zip([24, 64]);
            config.addresses = prefixes
                .map(|(pair, len)| (pair[n].parse::<IpAddr>().unwrap(), len))
                .collect();
            Stack::new(config, 7 + n as u64, NOW).unwrap()
        });
        let client = stacks[0].udp.bind(None, client_port).unwrap();
        let server = stacks[1].udp.bind(None, PORT).unwrap();
        let messages = Messages::default();
        stacks[1].handle_datagrams(PORT, Box::new(Turning(messages.clone())));
        Self {
            stacks,
            client,
            server,
            messages,
        }
    }

    fn send(&mut self, to: &str, payload: &[u8]) {
        let to = SocketAddr::new(to.parse().unwrap(), PORT);
        let payload = Buffer::from(payload.to_vec()).whole();
        let sent = self.stacks[0].udp_send(NOW, self.client, None, to, payload);
        sent.unwrap();
    }

    /// Frames of a stack that wait to leave.
    fn frames(&mut self, of: usize) -> Vec<Vec<u8>> {
        self.stacks[of].handle_timeout(NOW);
        let next = || {
            let sent = self.stacks[of].poll_transmit(NOW)?;
            Some([sent.head, &sent.body.parts().concat()].concat())
        };
        std::iter::from_fn(next).collect()
    }

    /// Carries frames to and fro, those of the client changed on their way, until there are none.
    fn settle_with(&mut self, change: impl Fn(Vec<u8>) -> Vec<u8>) {
        loop {
            let [ours, theirs] = [0, 1].map(|n| self.frames(n));
            if ours.is_empty() && theirs.is_empty() {
                return;
            }
            for frame in ours {
                self.stacks[1].handle_frame(NOW, &change(frame), RxChecksum::Unknown);
            }
            for frame in theirs {
                self.stacks[0].handle_frame(NOW, &frame, RxChecksum::Unknown);
            }
        }
    }

    fn settle(&mut self) {
        self.settle_with(|frame| frame);
    }

    /// What came to the client, and from where; and to the server's socket.
    fn heard(&mut self) -> (Option<Answer>, Option<Vec<u8>>) {
        let client = self.stacks[0].udp.receive(self.client).unwrap();
        let server = self.stacks[1].udp.receive(self.server).unwrap();
        (
            client.map(|received| (received.from, received.payload)),
            server.map(|received| received.payload),
        )
    }
}

#[test]
fn answers_go_back_from_where_messages_came_to() {
    let mut pair = Pair::new(50_000);
    for [_, server] in ADDRESSES {
        let from = SocketAddr::new(server.parse().unwrap(), PORT);
        // The longest answer over IPv6 leaves in fragments.
        for len in [0, 1, 2, 63, 64, 1399, 1450, 1452] {
            let message = vec![len as u8; len];
            pair.send(server, &message);
            pair.settle();
            assert_eq!(
                pair.heard(),
                (Some((from, answer(&message))), None),
                "{len}"
            );
        }
    }
    pair.send("10.0.0.2", &[1; HANDLED_BYTES_MAX]);
    pair.settle();
    assert_eq!(pair.heard().0.unwrap().1, [1; HANDLED_BYTES_MAX]);
    let counters = pair.stacks[1].counters();
    assert_eq!((counters.handler_answered, counters.udp_received), (17, 0));
}

#[test]
fn what_is_given_up_comes_to_the_socket_and_what_is_done_does_not() {
    let mut pair = Pair::new(50_000);
    for message in [&b"unknown"[..], b"done"] {
        pair.send("10.0.0.2", message);
        pair.settle();
    }
    assert_eq!(pair.heard(), (None, Some(b"unknown".to_vec())));
    assert_eq!(pair.heard(), (None, None));
    let counters = pair.stacks[1].counters();
    let counted = [counters.handler_gave_up, counters.handler_done];
    assert_eq!(counted, [1, 1]);
    pair.stacks[1].stop_handling_datagrams(PORT);
    pair.send("10.0.0.2", b"done");
    pair.settle();
    assert_eq!(pair.heard(), (None, Some(b"done".to_vec())));
}

/// Four bytes of no operation behind the header, its length and checksum with them.
fn with_options(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[12..14] != [8, 0] {
        return frame;
    }
    frame.splice(34..34, [1; 4]);
    frame[14] = 0x46;
    frame[17] += 4;
    resum(&mut frame, 24);
    frame
}

/// A byte behind the datagram that the packet counts and the datagram does not.
fn with_more_behind(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[12..14] != [8, 0] {
        return frame;
    }
    frame.push(0);
    frame[17] += 1;
    resum(&mut frame, 20);
    frame
}

fn resum(frame: &mut [u8], len: usize) {
    frame[24..26].fill(0);
    let sum = Sum::of(&frame[14..14 + len]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn what_is_no_message_comes_to_the_socket() {
    type Change = fn(Vec<u8>) -> Vec<u8>;
    let as_it_is: Change = |frame| frame;
    let long = vec![7; 2000];
    for (port, to, message, change) in [
        (PORT, "10.0.0.2", &b"of a handler"[..], as_it_is),
        (50_000, "10.0.0.2", &long, as_it_is),
        (50_000, "10.0.0.255", b"to all", as_it_is),
        (50_000, "10.0.0.2", b"options", with_options),
        (50_000, "10.0.0.2", b"something behind", with_more_behind),
    ] {
        let mut pair = Pair::new(port);
        pair.send(to, message);
        pair.settle_with(change);
        assert_eq!(pair.heard(), (None, Some(message.to_vec())));
        assert!(pair.messages.borrow().is_empty(), "{message:?}");
    }
}

#[test]
fn what_is_damaged_or_of_ones_own_is_not_handled() {
    let mut pair = Pair::new(50_000);
    pair.send("10.0.0.2", b"damaged");
    pair.settle_with(|mut frame| {
        if frame[12..14] == [8, 0] {
            *frame.last_mut().unwrap() ^= 1;
        }
        frame
    });
    assert_eq!(pair.heard(), (None, None));
    assert_eq!(pair.stacks[1].counters().drop_udp_checksum, 1);
    let ours = pair.stacks[1].udp.bind(None, 50_001).unwrap();
    let to = SocketAddr::new("10.0.0.2".parse().unwrap(), PORT);
    let payload = Buffer::from(b"to ourselves".to_vec()).whole();
    pair.stacks[1]
        .udp_send(NOW, ours, None, to, payload)
        .unwrap();
    pair.settle();
    assert_eq!(pair.heard(), (None, Some(b"to ourselves".to_vec())));
    assert!(pair.messages.borrow().is_empty());
}
