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
                    self.stacks[1 - n].handle_frame(self.now, &frame, RxChecksum::MaybePartial);
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
            .tcp
            .connect(self.now, None, server, options)
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
    let options = Options::with_receive_buffer(20_000);
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

/// The window field counts in steps of the scale. What rounding adds to it must not add up: a peer
/// that sends a little less than a step each time would never see the window close.
#[test]
fn rounding_does_not_carry_the_window_beyond_the_buffer() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect(&Options::default());
    let buffer = Options::default().receive_buffer_bytes as usize;
    let mut sent = 0;
    let mut send = |pair: &mut Pair, len: usize| {
        let piece = Buffer::from(vec![7; len]);
        assert!(pair.stacks[0].tcp.send(client, piece.into()));
        sent += len;
        // Longer than an acknowledgement is delayed, and shorter than a probe is.
        pair.run(Duration::from_millis(45));
        sent
    };
    for _ in 0..26 {
        send(&mut pair, 10_000);
    }
    let mut sent = 0;
    for _ in 0..400 {
        sent = send(&mut pair, 7);
        if pair.stacks[0].tcp.connection(client).unwrap().unsent() > 0 {
            break;
        }
    }
    let unread = pair.stacks[1].tcp.readable(server).len();
    assert!(
        unread <= buffer + 8,
        "{unread} bytes in a buffer of {buffer}"
    );
    assert!(
        unread >= buffer - 8,
        "the window closed at {unread} already"
    );
    // All of it arrives when there is room again.
    pair.stacks[1].tcp.consume(server, unread);
    pair.run(Duration::from_secs(3));
    let rest = pair.stacks[1].tcp.readable(server).len();
    assert_eq!(unread + rest, sent);
}

/// Without timestamps an acknowledgement of what was sent twice measures nothing (Karn): when the
/// round trip grows beyond the timeout, only a timeout that stays backed off until a new measurement
/// lets one come about.
#[test]
fn a_round_trip_that_grew_beyond_the_timeout_is_measured_again() {
    let mut pair = Pair::new();
    pair.stacks[1]
        .tcp
        .listen(None, 80, ListenOptions::default())
        .unwrap();
    let server = SocketAddr::new(ADDRESSES[1].parse().unwrap(), 80);
    let client = pair.stacks[0]
        .tcp
        .connect(pair.now, None, server, &Options::default())
        .unwrap();
    let mut wire: Vec<(Instant, usize, Vec<u8>)> = Vec::new();
    let mut sent = 0;
    for step in 0..60_000u64 {
        let delay = Duration::from_millis(if step < 1000 { 5 } else { 250 });
        if step > 1000 && step % 2 == 0 && sent < 400_000 {
            let piece = Buffer::from(vec![7; 1000]);
            pair.stacks[0].tcp.send(client, piece.into());
            sent += 1000;
        }
        for n in 0..2 {
            for mut frame in pair.frames_of(n) {
                without_timestamps(&mut frame);
                wire.push((pair.now + delay, 1 - n, frame));
            }
        }
        let (due, later) = wire.into_iter().partition(|(at, ..)| *at <= pair.now);
        wire = later;
        for (_, to, frame) in due {
            pair.stacks[to].handle_frame(pair.now, &frame, RxChecksum::Verified);
        }
        while let Some(event) = pair.stacks[1].poll_event() {
            let unread = pair.stacks[1].tcp.readable(event.connection).len();
            pair.stacks[1].tcp.consume(event.connection, unread);
        }
        pair.now += Duration::from_millis(1);
    }
    let connection = pair.stacks[0].tcp.connection(client).unwrap();
    assert_eq!(connection.unacknowledged(), 0);
    let timeouts = pair.stacks[0].counters().tcp_timeouts;
    assert!(timeouts <= 3, "{timeouts} timeouts, and nothing was lost");
}

/// Make the timestamps option of a SYN into padding.
fn without_timestamps(frame: &mut [u8]) {
    let is_syn = frame[12..14] == [8, 0] && frame[23] == 6 && frame[47] & 2 != 0;
    let option = frame.windows(2).skip(54).position(|w| w == [8, 10]);
    if let Some(at) = option.filter(|_| is_syn) {
        frame[54 + at..54 + at + 10].fill(1);
    }
}

/// The highest number that a repaired loss reached is old news 2 GiB later, not news of the future:
/// a loss is still repaired at the third duplicate.
#[test]
fn two_gigabytes_without_loss_do_not_disable_fast_retransmit() {
    let mut pair = Pair::new();
    for (n, stack) in pair.stacks.iter_mut().enumerate() {
        let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), 65_000);
        config.addresses = vec![(ADDRESSES[n].parse::<IpAddr>().unwrap(), 24)];
        config.offload.checksum = true;
        *stack = Stack::new(config, 42 + n as u64, Instant::from_millis(1)).unwrap();
    }
    let options = Options {
        receive_buffer_bytes: 4 << 20,
        sack: false,
        ..Options::default()
    };
    let (client, server) = pair.connect(&options);
    let piece = Buffer::from(vec![7; 1 << 20]);
    let (mut sent, mut lost) = (0u64, false);
    let end = (1 << 31) + (100 << 20);
    while sent < end
        || pair.stacks[0]
            .tcp
            .connection(client)
            .unwrap()
            .unacknowledged()
            > 0
    {
        if sent < end
            && pair.stacks[0]
                .tcp
                .connection(client)
                .unwrap()
                .unacknowledged()
                < 4 << 20
        {
            pair.stacks[0].tcp.send(client, piece.clone().into());
            sent += 1 << 20;
        }
        for n in 0..2 {
            for frame in pair.frames_of(n) {
                if n == 0 && sent > end - (50 << 20) && !lost {
                    lost = true;
                    continue;
                }
                pair.stacks[1 - n].handle_frame(pair.now, &frame, RxChecksum::Verified);
            }
        }
        let unread = pair.stacks[1].tcp.readable(server).len();
        pair.stacks[1].tcp.consume(server, unread);
        pair.events(1);
        pair.events(0);
        pair.now += Duration::from_micros(100);
    }
    let counters = pair.stacks[0].counters();
    assert_eq!(
        (counters.tcp_fast_retransmits, counters.tcp_timeouts),
        (1, 0)
    );
}

/// A window that the peer's keeps from being filled says nothing about the path, and does not grow beyond
/// twice of what was used (RFC 7661 §4.2); grown without bound it would in the end overflow.
#[test]
fn the_congestion_window_does_not_outgrow_what_the_peer_lets_us_use() {
    let mut pair = Pair::new();
    let buffer = 256 << 10;
    let (client, server) = pair.connect(&Options::with_receive_buffer(buffer));
    let piece = Buffer::from(vec![7; 1 << 20]);
    for _ in 0..20 {
        pair.stacks[0].tcp.send(client, piece.clone().into());
        while pair.stacks[0]
            .tcp
            .connection(client)
            .unwrap()
            .unacknowledged()
            > 0
        {
            pair.settle();
            let unread = pair.stacks[1].tcp.readable(server).len();
            pair.stacks[1].tcp.consume(server, unread);
            pair.now += Duration::from_millis(1);
        }
    }
    let window = pair.stacks[0]
        .tcp
        .connection(client)
        .unwrap()
        .info()
        .congestion_window;
    assert!(window <= 2 * buffer, "{window} over a window of {buffer}");
}

/// Sequence numbers tell two places apart only within 2 GiB.
#[test]
fn a_send_queue_takes_no_more_than_sequence_numbers_can_count() {
    let mut pair = Pair::new();
    let (client, _) = pair.connect(&Options::default());
    let piece = Buffer::from(vec![7; 1 << 20]);
    let taken = (0..3000)
        .take_while(|_| pair.stacks[0].tcp.send(client, piece.clone().into()))
        .count();
    assert!(taken <= 1024, "{taken} MiB in one queue");
    let connection = pair.stacks[0].tcp.connection(client).unwrap();
    assert_eq!(connection.unsent(), taken << 20);
}

/// The largest window that scaling can express is 1 GiB (RFC 7323 §2.3).
#[test]
fn an_absurdly_large_receive_buffer_works() {
    let mut pair = Pair::new();
    let options = Options::with_receive_buffer(u32::MAX);
    let (client, server) = pair.connect(&options);
    pair.stacks[0]
        .tcp
        .send(client, Buffer::from(vec![7; 1_000_000]).into());
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.stacks[1].tcp.readable(server).len(), 1_000_000);
}

/// A connection that takes the place of one in TIME-WAIT begins beyond its sequence numbers
/// (RFC 1122 §4.2.2.13), also when that one sent faster than the clock of initial numbers runs.
#[test]
fn sequence_numbers_go_on_beyond_those_of_a_connection_in_time_wait() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect(&Options::default());
    let source = pair.stacks[0]
        .tcp
        .connection(client)
        .unwrap()
        .flow()
        .local();
    pair.stacks[1]
        .tcp
        .send(server, Buffer::from(vec![7; 3_000_000]).into());
    pair.stacks[1].tcp.finish(server);
    let mut last = 0;
    for _ in 0..4000 {
        pair.now += Duration::from_micros(10);
        for frame in pair.frames_of(1) {
            let seq = u32::from_be_bytes(frame[38..42].try_into().unwrap());
            let data = frame.len() as u32 - 14 - 20 - u32::from(frame[46] >> 4) * 4;
            last = seq.wrapping_add(data);
            pair.stacks[0].handle_frame(pair.now, &frame, RxChecksum::MaybePartial);
        }
        let unread = pair.stacks[0].tcp.readable(client).len();
        pair.stacks[0].tcp.consume(client, unread);
        if pair.events(0).contains(EventSet::FINISHED) {
            pair.stacks[0].tcp.finish(client);
        }
        for frame in pair.frames_of(0) {
            pair.stacks[1].handle_frame(pair.now, &frame, RxChecksum::MaybePartial);
        }
    }
    pair.events(0);
    assert_eq!(pair.stacks[1].tcp.time_wait_connections(), 1);
    let to = SocketAddr::new(ADDRESSES[1].parse().unwrap(), 80);
    pair.now += Duration::from_millis(2);
    pair.stacks[0]
        .tcp
        .connect(pair.now, Some(source), to, &Options::default())
        .unwrap();
    for frame in pair.frames_of(0) {
        pair.stacks[1].handle_frame(pair.now, &frame, RxChecksum::MaybePartial);
    }
    let answers = pair.frames_of(1);
    let [answer] = &answers[..] else {
        panic!("{} answers to a SYN", answers.len());
    };
    assert_eq!(answer[47], 0x12, "a SYN-ACK");
    let first = u32::from_be_bytes(answer[38..42].try_into().unwrap());
    let ahead = first.wrapping_sub(last) as i32;
    assert!(
        ahead > 0,
        "the new numbers begin {} before the old ones end",
        -ahead
    );
}
