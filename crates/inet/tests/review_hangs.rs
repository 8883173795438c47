//! Connections that must not hang or outgrow their bounds: two stacks back to back, and one stack
//! against segments made by hand.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::Mac;

const ADDRESSES: [&str; 2] = ["10.0.0.1", "10.0.0.2"];

/// Two stacks and a wire that keeps what `keep` refuses.
struct Pair {
    stacks: [Stack; 2],
    now: Instant,
}

impl Pair {
    fn new() -> Self {
        let stack = |n: usize| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), 1500);
            config.addresses = vec![(ADDRESSES[n].parse::<IpAddr>().unwrap(), 24)];
            Stack::new(config, 42 + n as u64, Instant::from_millis(1)).unwrap()
        };
        Self {
            stacks: [stack(0), stack(1)],
            now: Instant::from_millis(1),
        }
    }

    fn frames_of(&mut self, n: usize) -> Vec<Vec<u8>> {
        self.stacks[n].handle_timeout(self.now);
        let mut frames = Vec::new();
        while let Some(t) = self.stacks[n].poll_transmit(self.now) {
            let mut frame = t.head.to_vec();
            t.body
                .parts()
                .iter()
                .for_each(|p| frame.extend_from_slice(p));
            frames.push(frame);
        }
        frames
    }

    /// Carry frames to and fro until there are none.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut moved = false;
            for n in 0..2 {
                for frame in self.frames_of(n) {
                    moved = true;
                    self.stacks[1 - n].handle_frame(self.now, &frame, RxChecksum::Unknown);
                }
            }
            if !moved {
                return;
            }
            self.now += Duration::from_micros(50);
        }
        panic!("frames go to and fro without end");
    }

    /// Let `time` pass in steps of a millisecond.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.settle();
            self.now += Duration::from_millis(1);
        }
        self.settle();
    }

    /// A connection from the first to the second stack.
    fn connect(&mut self, options: &Options) -> (ConnectionId, ConnectionId) {
        let listen = ListenOptions {
            connection: options.clone(),
            ..ListenOptions::default()
        };
        let server = SocketAddr::new(ADDRESSES[1].parse().unwrap(), 80);
        self.stacks[1].tcp.listen(None, 80, listen).unwrap();
        let client = self.stacks[0]
            .tcp_connect(self.now, None, server, options)
            .unwrap();
        self.settle();
        let accepted = self.stacks[1].poll_event().unwrap();
        assert!(accepted.set.contains(EventSet::ACCEPTED));
        (client, accepted.connection)
    }

    fn events(&mut self, n: usize) -> EventSet {
        let mut all = EventSet::NONE;
        while let Some(event) = self.stacks[n].poll_event() {
            all = all.with(event.set);
        }
        all
    }
}

/// The window closes exactly behind the last byte, and opens before the first probe is due: the FIN
/// that went into the closed window was thrown away, and must be sent again.
#[test]
fn a_fin_sent_into_a_closed_window_arrives_when_it_opens() {
    let mut pair = Pair::new();
    let options = Options {
        receive_buffer_bytes: 20_000,
        ..Options::default()
    };
    let (client, server) = pair.connect(&options);
    pair.stacks[0]
        .tcp
        .send(client, Buffer::from(vec![7; 20_000]).into());
    pair.run(Duration::from_millis(2000));
    assert_eq!(pair.stacks[1].tcp.readable(server).len(), 20_000);
    pair.events(1);
    pair.stacks[0].tcp.finish(client);
    pair.settle();
    pair.stacks[1].tcp.consume(server, 20_000);
    pair.run(Duration::from_millis(5000));
    assert!(
        pair.events(1).contains(EventSet::FINISHED),
        "the FIN was lost for ever"
    );
}

/// A connection that keeps asking and answering needs a handful of timer entries, however long it
/// lives.
#[test]
fn timer_entries_do_not_pile_up() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect(&Options::default());
    // Both sides send a little, all the time, and nobody waits for anybody.
    for n in 0..3000u32 {
        let from = (n % 2) as usize;
        let id = [client, server][from];
        let piece = Buffer::from(vec![n as u8; 100]);
        pair.stacks[from].tcp.send(id, piece.into());
        // Data in flight for a while, and an acknowledgement that waits.
        for frame in pair.frames_of(from) {
            pair.stacks[1 - from].handle_frame(pair.now, &frame, RxChecksum::Unknown);
        }
        pair.now += Duration::from_millis(u64::from(7 + n % 45));
        for (n, id) in [(0, client), (1, server)] {
            let unread = pair.stacks[n].tcp.readable(id).len();
            pair.stacks[n].tcp.consume(id, unread);
            pair.events(n);
        }
        for n in 0..2 {
            for frame in pair.frames_of(n) {
                pair.stacks[1 - n].handle_frame(pair.now, &frame, RxChecksum::Unknown);
            }
        }
    }
    for n in 0..2 {
        let entries = pair.stacks[n].tcp.timer_entries();
        assert!(entries < 10, "{entries} timer entries of one connection");
    }
}
