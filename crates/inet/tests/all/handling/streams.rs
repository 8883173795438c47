//! A handler of a connection's messages: what it is given, what leaves in which order, and what comes to the program.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use exos_buf::Buffer;
use exos_inet::limits::{HANDLED_BYTES_MAX, HANDLED_REPLY_BYTES_MAX};
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options};
use exos_inet::{Config, Framing, Handled, Instant, MessageHandler, RxChecksum, Stack};
use exos_testing::Random;
use exos_wire::Mac;

const PORT: u16 = 4000;
const ADDRESSES: [&str; 2] = ["10.0.0.1", "10.0.0.2"];
/// Two bytes say how many follow.
const FRAMING: Framing = Framing::Length {
    at: 0,
    bytes: 2,
    more: 2,
};

/// Gives up what has `u` behind its length, is done with what has `d`, and answers all else as it came. Keeps what it was given.
struct Echo(Rc<RefCell<Vec<u8>>>);

impl MessageHandler for Echo {
    fn handle(&mut self, message: &[u8], reply: &mut [u8; HANDLED_BYTES_MAX]) -> Handled {
        self.0.borrow_mut().extend_from_slice(message);
        match message.get(2) {
            Some(b'u') => Handled::GivenUp,
            Some(b'd') => Handled::Done,
            _ => {
                reply[..message.len()].copy_from_slice(message);
                Handled::Reply(message.len())
            }
        }
    }
}

/// A client and a server, and the connection between them as each has it.
struct Pair {
    stacks: [Stack; 2],
    ends: [ConnectionId; 2],
    now: Instant,
    given: Rc<RefCell<Vec<u8>>>,
    /// What the server has heard since it was asked last.
    heard: EventSet,
}

impl Pair {
    fn new() -> Self {
        let now = Instant::from_millis(1);
        let mut stacks = [0, 1].map(|n| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), 1500);
            config.addresses = vec![(ADDRESSES[n].parse::<IpAddr>().unwrap(), 24)];
            Stack::new(config, 7 + n as u64, now).unwrap()
        });
        let options = ListenOptions::default();
        stacks[1].tcp.listen(None, PORT, options).unwrap();
        let given = Rc::new(RefCell::new(Vec::new()));
        stacks[1].handle_streams(PORT, FRAMING, Box::new(Echo(given.clone())));
        let server = SocketAddr::new(ADDRESSES[1].parse().unwrap(), PORT);
        let client = stacks[0]
            .tcp
            .connect(now, None, server, &Options::default());
        let mut pair = Self {
            stacks,
            ends: [client.unwrap(); 2],
            now,
            given,
            heard: EventSet::NONE,
        };
        pair.settle();
        assert!(pair.heard().contains(EventSet::ACCEPTED));
        pair
    }

    /// Carries frames to and fro until there are none; the server asks for its news behind each.
    fn settle(&mut self) {
        loop {
            self.now += exos_inet::Duration::from_millis(50);
            let mut is_quiet = true;
            for (from, to) in [(0, 1), (1, 0)] {
                self.stacks[from].handle_timeout(self.now);
                while let Some(sent) = self.stacks[from].poll_transmit(self.now) {
                    let frame = [sent.head, &sent.body.parts().concat()].concat();
                    self.stacks[to].handle_frame(self.now, &frame, RxChecksum::Unknown);
                    self.hear();
                    is_quiet = false;
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    fn hear(&mut self) {
        while let Some(event) = self.stacks[1].poll_event() {
            self.ends[1] = event.connection;
            self.heard = self.heard.with(event.set);
        }
    }

    fn heard(&mut self) -> EventSet {
        std::mem::take(&mut self.heard)
    }

    fn send(&mut self, from: usize, bytes: &[u8]) {
        let bytes = Buffer::from(bytes.to_vec()).whole();
        assert!(self.stacks[from].tcp.send(self.ends[from], bytes));
    }

    /// All that has come to one of the two.
    fn read(&mut self, at: usize) -> Vec<u8> {
        let tcp = &mut self.stacks[at].tcp;
        let read = tcp.readable(self.ends[at]).to_vec();
        tcp.consume(self.ends[at], read.len());
        read
    }

    fn counted(&self) -> [u64; 3] {
        let counters = self.stacks[1].counters();
        [
            counters.handler_answered,
            counters.handler_done,
            counters.handler_gave_up,
        ]
    }
}

fn message(kind: u8, len: usize) -> Vec<u8> {
    let mut message = (len as u16).to_be_bytes().to_vec();
    message.resize(2 + len, kind);
    message
}

#[test]
fn what_is_dealt_with_the_program_does_not_hear_of() {
    let mut pair = Pair::new();
    pair.send(0, &message(b'a', 5));
    pair.settle();
    assert_eq!(pair.read(0), message(b'a', 5));
    // Several in one segment, one of them in two.
    let both = [message(b'd', 3), message(b'b', 1470), message(b'c', 0)].concat();
    pair.send(0, &both[..1000]);
    pair.settle();
    assert_eq!(pair.read(0), b"");
    pair.send(0, &both[1000..]);
    pair.settle();
    assert_eq!(pair.read(0), both[5..]);
    assert!(!pair.heard().contains(EventSet::READABLE));
    assert_eq!(pair.counted(), [3, 1, 0]);
}

#[test]
fn what_is_given_up_is_the_programs_with_all_that_follows_until_it_has_answered() {
    let mut pair = Pair::new();
    let all = [message(b'u', 4), message(b'b', 1), message(b'u', 2)].concat();
    pair.send(0, &all);
    pair.settle();
    assert!(pair.heard().contains(EventSet::READABLE));
    assert_eq!(pair.read(0), b"", "answers are in order");
    let (id, tcp) = (pair.ends[1], &mut pair.stacks[1].tcp);
    assert_eq!(tcp.readable(id), all);
    tcp.consume(id, 6);
    pair.send(1, b"mine");
    assert!(pair.stacks[1].resume_handling(id), "the next is given up");
    assert_eq!(pair.read(1), message(b'u', 2));
    assert!(!pair.stacks[1].resume_handling(id));
    assert!(!pair.stacks[1].resume_handling(id), "it is the handler's");
    pair.settle();
    assert_eq!(pair.read(0), [b"mine", &message(b'b', 1)[..]].concat());
    pair.send(0, &message(b'c', 9));
    pair.settle();
    assert_eq!(pair.read(0), message(b'c', 9));
    assert!(!pair.heard().contains(EventSet::READABLE));
    assert_eq!(pair.counted(), [2, 0, 2]);
}

#[test]
fn what_no_handler_is_given_is_the_programs() {
    // Longer than a handler sees; and a part of a message, with nothing behind it.
    let long = message(b'a', HANDLED_BYTES_MAX - 1);
    for (sent, finishes) in [(long, false), (message(b'a', 9)[..5].to_vec(), true)] {
        let mut pair = Pair::new();
        pair.send(0, &sent);
        pair.settle();
        assert_eq!(pair.heard().contains(EventSet::READABLE), !finishes);
        if finishes {
            pair.stacks[0].tcp.finish(pair.ends[0]);
            pair.settle();
            let both = EventSet::READABLE.with(EventSet::FINISHED);
            assert!(pair.heard().contains(both));
        }
        assert_eq!(pair.read(1), sent);
        assert!(pair.given.borrow().is_empty());
    }
}

#[test]
fn nothing_is_handled_that_could_not_be_answered() {
    let mut pair = Pair::new();
    let id = pair.ends[1];
    pair.stacks[1].tcp.finish(id);
    pair.send(0, &message(b'a', 1));
    pair.settle();
    assert_eq!(pair.read(1), message(b'a', 1));

    // A peer that asks and takes no answers.
    let mut pair = Pair::new();
    let long = message(b'a', 1400);
    for _ in 0..10_000 {
        pair.send(0, &long);
        pair.settle();
        if pair.heard().contains(EventSet::READABLE) {
            break;
        }
    }
    assert_eq!(pair.read(1), long);
    let waiting = unacknowledged(&pair);
    let most = HANDLED_REPLY_BYTES_MAX + HANDLED_BYTES_MAX;
    assert!(
        (HANDLED_REPLY_BYTES_MAX..=most).contains(&waiting),
        "{waiting}"
    );
}

#[test]
fn without_the_handler_all_comes_to_the_program() {
    let mut pair = Pair::new();
    pair.stacks[1].stop_handling_streams(PORT);
    pair.send(0, &message(b'a', 1));
    pair.settle();
    assert!(pair.heard().contains(EventSet::READABLE));
    assert_eq!(pair.read(1), message(b'a', 1));
    // Nor is a part kept back that came before.
    let mut pair = Pair::new();
    let whole = message(b'a', 9);
    pair.send(0, &whole[..5]);
    pair.settle();
    assert!(!pair.heard().contains(EventSet::READABLE));
    pair.stacks[1].stop_handling_streams(PORT);
    pair.hear();
    assert!(pair.heard().contains(EventSet::READABLE));
    assert_eq!(pair.read(1), whole[..5]);
}

#[test]
fn what_was_given_up_stays_so_when_another_handler_comes() {
    let mut pair = Pair::new();
    let both = [message(b'u', 4), message(b'b', 1)].concat();
    pair.send(0, &both);
    pair.settle();
    let echo = Echo(pair.given.clone());
    pair.stacks[1].handle_streams(PORT, FRAMING, Box::new(echo));
    pair.send(0, &message(b'c', 1));
    pair.settle();
    assert_eq!(pair.read(0), b"", "answers are in order");
    let id = pair.ends[1];
    pair.stacks[1].tcp.consume(id, 6);
    pair.send(1, b"mine");
    assert!(!pair.stacks[1].resume_handling(id));
    pair.settle();
    let answers = [b"mine", &message(b'b', 1)[..], &message(b'c', 1)].concat();
    assert_eq!(pair.read(0), answers);
}

#[test]
fn what_a_peer_left_of_a_message_is_told_behind_what_was_given_up() {
    let mut pair = Pair::new();
    let rest = &message(b'b', 9)[..5];
    pair.send(0, &[&message(b'u', 4), rest].concat());
    pair.stacks[0].tcp.finish(pair.ends[0]);
    pair.settle();
    let id = pair.ends[1];
    pair.stacks[1].tcp.consume(id, 6);
    assert!(pair.stacks[1].resume_handling(id));
    assert_eq!(pair.read(1), rest);
    assert!(!pair.stacks[1].resume_handling(id));
}

#[test]
fn connections_of_the_programs_own_are_not_handled() {
    let mut pair = Pair::new();
    let there = SocketAddr::new(ADDRESSES[0].parse().unwrap(), 80);
    pair.stacks[0]
        .tcp
        .listen(None, 80, ListenOptions::default())
        .unwrap();
    let from = SocketAddr::new(ADDRESSES[1].parse().unwrap(), PORT);
    let (now, options) = (pair.now, Options::default());
    let own = pair.stacks[1].tcp.connect(now, Some(from), there, &options);
    let own = own.unwrap();
    pair.settle();
    let accepted = loop {
        let event = pair.stacks[0].poll_event().expect("it is accepted");
        if event.set.contains(EventSet::ACCEPTED) {
            break event.connection;
        }
    };
    pair.ends = [accepted, own];
    pair.heard();
    pair.send(0, &message(b'a', 1));
    pair.settle();
    assert!(pair.heard().contains(EventSet::READABLE));
    assert_eq!(pair.read(1), message(b'a', 1));
}

/// Messages of any kind and length in segments of any length: each is answered once and in order, by the one or the other.
#[test]
fn drawn_messages_are_answered_once_and_in_order() {
    let mut random = Random(23);
    for _ in 0..40 {
        let mut pair = Pair::new();
        let messages: Vec<_> = (0..60)
            .map(|_| {
                let len = [0, 1, 7, 300, 1470, 1471, 4000][random.below(7)];
                message(b"abdu"[random.below(4)], len)
            })
            .collect();
        let all = messages.concat();
        let mut answered = Vec::new();
        let mut sent = 0;
        while sent < all.len() {
            let len = [1, 3, 100, 1448, 9000][random.below(5)].min(all.len() - sent);
            pair.send(0, &all[sent..sent + len]);
            sent += len;
            pair.settle();
            answer_what_was_given_up(&mut pair);
            pair.settle();
            answered.extend(pair.read(0));
        }
        let is_answered =
            |message: &&Vec<u8>| message.get(2) != Some(&b'd') || message.len() > 1472;
        let expected: Vec<_> = messages
            .iter()
            .filter(is_answered)
            .flatten()
            .copied()
            .collect();
        assert_eq!(answered.len(), expected.len());
        assert!(answered == expected);
        let counted = pair.counted();
        assert!(counted.iter().all(|count| *count > 0), "{counted:?}");
    }
}

/// The program answers, as the handler would, one message at a time, while the peer takes answers.
fn answer_what_was_given_up(pair: &mut Pair) {
    let id = pair.ends[1];
    let heard = pair.heard();
    // Where there was no room for an answer there may be now.
    let mut is_ours = match heard.contains(EventSet::ACKNOWLEDGED) {
        true => pair.stacks[1].resume_handling(id),
        false => heard.contains(EventSet::READABLE),
    };
    while is_ours && unacknowledged(pair) <= HANDLED_REPLY_BYTES_MAX {
        let readable = pair.stacks[1].tcp.readable(id);
        let Some(len) = readable.first_chunk() else {
            return;
        };
        let len = 2 + usize::from(u16::from_be_bytes(*len));
        let Some(message) = readable.get(..len).map(<[u8]>::to_vec) else {
            return;
        };
        pair.stacks[1].tcp.consume(id, len);
        pair.send(1, &message);
        is_ours = pair.stacks[1].resume_handling(id);
    }
}

fn unacknowledged(pair: &Pair) -> usize {
    let connection = pair.stacks[1].tcp.connection(pair.ends[1]);
    connection.unwrap().unacknowledged()
}

/// What nobody takes waits in no more than the handler's room, whichever of the two answers; and all is answered once it is taken.
#[test]
fn a_peer_that_takes_no_answers_is_asked_to_wait() {
    let mut pair = Pair::new();
    let all: Vec<_> = (0..800)
        .map(|n| message(if n % 3 == 0 { b'u' } else { b'a' }, 1400))
        .collect();
    let all = all.concat();
    pair.send(0, &all);
    let mut answered = Vec::new();
    let mut most = 0;
    for taken in [false, true] {
        let mut quiet = 0;
        while quiet < 3 {
            let before = (answered.len(), unacknowledged(&pair));
            pair.settle();
            answer_what_was_given_up(&mut pair);
            most = most.max(unacknowledged(&pair));
            if taken {
                answered.extend(pair.read(0));
            }
            let is_quiet = before == (answered.len(), unacknowledged(&pair));
            quiet = if is_quiet { quiet + 1 } else { 0 };
        }
    }
    assert!(most > HANDLED_REPLY_BYTES_MAX, "{most}");
    assert!(
        most <= HANDLED_REPLY_BYTES_MAX + HANDLED_BYTES_MAX,
        "{most}"
    );
    assert_eq!(answered.len(), all.len());
    assert!(answered == all);
}
