//! A program's own congestion control: the whole interface, used by a stack.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::tcp::congestion::{Ack, Algorithm, Congested, CongestionControl};
use exos_inet::tcp::{ListenOptions, Options};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::Mac;

/// Never more than two segments in flight: stop and wait, nearly.
#[derive(Debug)]
struct Couple {
    mss: u32,
}

impl CongestionControl for Couple {
    fn name(&self) -> &'static str {
        "couple"
    }

    fn window(&self) -> u32 {
        2 * self.mss
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.mss = ack.mss;
    }

    fn on_congestion(&mut self, _: &Congested) {}

    fn undo(&mut self) {}

    fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
    }
}

fn stack(last: u8) -> Stack {
    let mut config = Config::new(Mac([2, 0, 0, 0, 0, last]), 1500);
    config.addresses = vec![(IpAddr::from([10, 0, 0, last]), 24)];
    Stack::new(config, u64::from(last), Instant::START).unwrap()
}

fn frames(stack: &mut Stack, now: Instant) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(t) = stack.poll_transmit(now) {
        frames.push([&[t.head], t.body.parts()].concat().concat());
    }
    frames
}

#[test]
fn a_program_brings_its_own() {
    let (mut client, mut server) = (stack(1), stack(2));
    let listen = ListenOptions::default();
    server.tcp.listen(None, 80, listen).unwrap();
    let options = Options {
        congestion: Algorithm::Custom("couple", |mss| Box::new(Couple { mss })),
        ..Options::default()
    };
    let to = SocketAddr::from(([10, 0, 0, 2], 80));
    let mut now = Instant::START;
    let id = client.tcp.connect(now, None, to, &options).unwrap();
    let data = Buffer::from(vec![7; 100_000]);
    assert!(client.tcp.send(id, data.into()));
    let (mut received, mut most) = (0, 0);
    for _ in 0..500 {
        now += Duration::from_millis(5);
        client.handle_timeout(now);
        server.handle_timeout(now);
        let sent = frames(&mut client, now);
        most = most.max(sent.iter().filter(|f| f.len() > 1000).count());
        for frame in sent {
            server.handle_frame(now, &frame, RxChecksum::Verified);
        }
        while let Some(event) = server.poll_event() {
            let unread = server.tcp.readable(event.connection).len();
            server.tcp.consume(event.connection, unread);
            received += unread;
        }
        for frame in frames(&mut server, now) {
            client.handle_frame(now, &frame, RxChecksum::Verified);
        }
    }
    assert_eq!((received, most), (100_000, 2));
    let info = client.tcp.connection(id).unwrap().info();
    assert_eq!(info.congestion, "couple");
}
