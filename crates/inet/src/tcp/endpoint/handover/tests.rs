//! Connections that are in a corner; others in their usual work are moved in
//! the simulator (`sim/tests/all/handover.rs`).

use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, TcpOptions};

use super::*;
use crate::counters::Counters;
use crate::tcp::opening::listeners::ListenOptions;
use crate::tcp::values::ecn::Ecn;
use crate::tcp::values::ip::IpFields;
use crate::tcp::values::options::Options;
use crate::tcp::values::segment::Segment;

#[test]
fn a_detached_connection_may_cross_threads() {
    fn is_send<T: Send>() {}
    is_send::<DetachedConnection>();
}

/// A server's connections whose peer is this test: what comes and when is its choice.
struct Bench {
    tcp: Tcp,
    counters: Counters,
    id: ConnectionId,
    /// What the peer sends next.
    seq: SeqNumber,
    /// What it acknowledges.
    ack: SeqNumber,
}

const NOW: Instant = Instant::from_millis(1);
const LINK: Local = Local { mss: 1460 };

fn flow() -> Flow {
    let (local, remote) = ("10.0.0.1:80", "10.0.0.2:4000");
    Flow::new(local.parse().unwrap(), remote.parse().unwrap())
}

impl Bench {
    fn new(connection: Options) -> Self {
        let mut tcp = Tcp::new(NOW, 7, 10);
        let options = ListenOptions {
            connection,
            ..ListenOptions::default()
        };
        tcp.listen(None, 80, options).expect("a free port");
        let mut bench = Self {
            tcp,
            counters: Counters::default(),
            id: ConnectionId::default(),
            seq: SeqNumber(1000),
            ack: SeqNumber(0),
        };
        let options = TcpOptions {
            window_scale: Some(7),
            ..TcpOptions::NONE
        };
        bench.come(0, TcpFlags::SYN, options, &[]);
        bench.seq += 1;
        let id = bench.tcp.poll_output(NOW, 0, 1).expect("a SYN-ACK");
        (bench.id, bench.ack) = (id, bench.tcp.outgoing().seq + 1);
        bench.data(0, &[]);
        bench
    }

    fn come(&mut self, beyond: u32, flags: TcpFlags, options: TcpOptions, payload: &[u8]) {
        let seg = Segment {
            seq: self.seq + beyond,
            ack: self.ack,
            flags,
            window: 1000,
            options,
            ecn: Ecn::NotEct,
            payload,
        };
        self.tcp
            .handle_segment(NOW, flow(), &seg, LINK, &mut self.counters);
        self.answer();
    }

    /// Bytes, this many beyond the next that are expected.
    fn data(&mut self, beyond: u32, payload: &[u8]) {
        self.come(beyond, TcpFlags::ACK, TcpOptions::NONE, payload);
        if beyond == 0 {
            self.seq += payload.len() as u32;
        }
        self.tcp.acknowledge_now(self.id);
        self.answer();
    }

    fn answer(&mut self) {
        while self.ack != SeqNumber(0) && self.tcp.poll_output(NOW, 0, 1).is_some() {
            let out = self.tcp.outgoing();
            let fin = u32::from(out.flags.0 & TcpFlags::FIN.0 != 0);
            self.ack = self.ack.max(out.seq + fin);
        }
    }

    /// How far the window reaches.
    fn window(&self) -> u32 {
        let c = self.tcp.connection(self.id).expect("it stands");
        c.receiver.window_left()
    }

    /// Taken out, by bytes, and in again.
    fn moved(&mut self) -> Option<ConnectionId> {
        let bytes = self.tcp.take_out(NOW, self.id)?.encode();
        let detached = DetachedConnection::decode(&bytes).expect("what a stack wrote");
        Some(
            self.tcp
                .go_on_with(NOW, detached, LINK)
                .expect("room for it"),
        )
    }
}

/// A window that closes may close over what waits beyond a gap: the peer can have it so, by a byte more than the
/// buffer holds.
#[test]
fn what_waits_beyond_a_closed_window_moves_too() {
    let connection = Options {
        receive_buffer_bytes: 600_000,
        receive_buffer_max_bytes: 0,
        ..Options::default()
    };
    let mut bench = Bench::new(connection);
    // Rounding moves the edge beyond the buffer, up to one step of the scale, 16 bytes.
    while bench.window() > 16 {
        let part = bench.window().min(50_000 + 16) - 16;
        bench.data(0, &vec![1; part as usize]);
    }
    while bench.tcp.readable(bench.id).len() < 600_000 {
        bench.data(0, &[1]);
    }
    assert_eq!(bench.window(), 16);
    bench.data(5, &[1; 8]);
    bench.data(0, &[1]);
    let c = bench.tcp.connection(bench.id).expect("it stands");
    assert_eq!(
        (bench.window(), c.receiver.queue().beyond_gaps()),
        (0, (8, 1))
    );
    let id = bench.moved().expect("it stands");
    let c = bench.tcp.connection(id).expect("it goes on");
    assert_eq!(c.receiver.queue().beyond_gaps(), (8, 1));
}

/// What the program has skipped is skipped in the new stack too, also what waits beyond a gap.
#[test]
fn what_is_skipped_moves_too() {
    let mut bench = Bench::new(Options::default());
    bench.data(0, &[1; 100]);
    assert_eq!(bench.tcp.skip(bench.id, 1000), 900);
    bench.data(800, &[2; 200]);
    let id = bench.moved().expect("it stands");
    let c = bench.tcp.connection(id).expect("it goes on");
    assert_eq!(
        (c.skipping(), c.receiver.queue().beyond_gaps()),
        (900, (200, 1))
    );
    bench.data(0, &[3; 800]);
    assert_eq!(bench.tcp.readable(id), [2; 100]);
    let c = bench.tcp.connection(id).expect("it goes on");
    assert_eq!(c.skipping(), 0);
}

/// Nobody has heard yet that it is over; but its place is in the table of TIME-WAIT, which moves by itself.
#[test]
fn a_connection_that_is_over_is_not_taken_out() {
    let mut bench = Bench::new(Options::default());
    bench.tcp.finish(bench.id);
    bench.answer();
    bench.come(
        0,
        TcpFlags(TcpFlags::FIN.0 | TcpFlags::ACK.0),
        TcpOptions::NONE,
        &[],
    );
    assert_eq!(bench.tcp.time_wait_connections(), 1);
    assert!(bench.moved().is_none());
}

/// Silent, until it is known that the packets go elsewhere.
#[test]
fn what_comes_of_one_that_was_taken_out_is_nobodys_at_last() {
    let mut bench = Bench::new(Options::default());
    bench.tcp.take_out(NOW, bench.id).expect("it stands");
    let silent = |bench: &Bench| bench.counters.drop_tcp_handed_over;
    bench.come(0, TcpFlags::ACK, TcpOptions::NONE, &[1]);
    assert_eq!(silent(&bench), 1);
    assert!(bench.tcp.replies.is_empty());
    bench.tcp.forget_taken_out(&flow());
    bench.come(0, TcpFlags::ACK, TcpOptions::NONE, &[1]);
    assert_eq!(silent(&bench), 1);
    assert!(!bench.tcp.replies.is_empty(), "a reset");
}

/// Only six bits of it are sent, whatever the program said.
#[test]
fn a_code_point_with_too_many_bits_moves_as_it_is_sent() {
    let mut bench = Bench::new(Options::default());
    let ip = IpFields {
        dscp: 0xff,
        ..IpFields::default()
    };
    bench.tcp.set_ip_fields(bench.id, ip);
    let id = bench.moved().expect("it stands");
    let moved = bench.tcp.connection(id).expect("it goes on").ip;
    assert_eq!(moved.traffic_class(0), ip.traffic_class(0));
}
