//! Checksums of what comes: wrong ones are dropped, each with its counter, unless they are not to be verified.

use std::net::{IpAddr, SocketAddr};

use exos_buf::Buffer;
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::Mac;

const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1", "10.0.0.2"], ["fd10::1", "fd10::2"]];
const PORT: u16 = 80;

/// Two stacks of a family, of which the second verifies or does not.
struct Pair {
    stacks: [Stack; 2],
    to: SocketAddr,
    now: Instant,
    accepted: Option<ConnectionId>,
}

impl Pair {
    fn new(family: [&str; 2], verify: bool) -> Self {
        let addresses = family.map(|text| text.parse::<IpAddr>().unwrap());
        let stack = |n: usize| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), 1500);
            config.addresses = vec![(addresses[n], 24)];
            config.verify_checksums = n == 0 || verify;
            Stack::new(config, n as u64, Instant::from_millis(1)).unwrap()
        };
        let mut stacks = [stack(0), stack(1)];
        let listen = ListenOptions::default();
        stacks[1].tcp.listen(None, PORT, listen).unwrap();
        Self {
            stacks,
            to: SocketAddr::new(addresses[1], PORT),
            now: Instant::from_millis(1),
            accepted: None,
        }
    }

    /// Carries frames until none are under way; what is for the second and has this mark loses a bit of it.
    fn carry(&mut self, mark: &[u8]) {
        loop {
            let mut carried = false;
            for n in 0..2 {
                while let Some(sent) = self.stacks[n].poll_transmit(self.now) {
                    let mut frame = [&[sent.head], sent.body.parts()].concat().concat();
                    let marked = frame.windows(mark.len()).position(|part| part == mark);
                    if let Some(at) = marked.filter(|_| n == 0) {
                        frame[at] ^= 1;
                    }
                    self.stacks[1 - n].handle_frame(self.now, &frame, RxChecksum::Unknown);
                    carried = true;
                }
            }
            while self.stacks[0].poll_event().is_some() {}
            while let Some(event) = self.stacks[1].poll_event() {
                if event.set.contains(EventSet::ACCEPTED) {
                    self.accepted = Some(event.connection);
                }
            }
            if !carried {
                return;
            }
        }
    }

    fn received(&self) -> &[u8] {
        let id = self.accepted.expect("the connection stands");
        self.stacks[1].tcp.readable(id)
    }
}

const MARK: &[u8] = b"a mark";
const DAMAGED: &[u8] = b"` mark";

#[test]
fn damaged_segments() {
    for (family, verify) in [(0, true), (0, false), (1, true), (1, false)] {
        let mut pair = Pair::new(ADDRESSES[family], verify);
        let options = Options::default();
        let id = pair.stacks[0]
            .tcp
            .connect(pair.now, None, pair.to, &options);
        pair.carry(MARK);
        pair.stacks[0]
            .tcp
            .send(id.unwrap(), Buffer::from(MARK).whole());
        pair.carry(MARK);
        let dropped = pair.stacks[1].counters().drop_tcp_checksum;
        if verify {
            assert_eq!((pair.received(), dropped), (&b""[..], 1), "{family}");
        } else {
            assert_eq!((pair.received(), dropped), (DAMAGED, 0), "{family}");
        }
    }
}

/// Whole ones, and those put together from fragments.
#[test]
fn damaged_datagrams() {
    for (family, verify, padding) in [
        (0, true, 0),
        (0, false, 0),
        (1, true, 0),
        (1, false, 0),
        (0, true, 2000),
        (0, false, 2000),
        (1, true, 2000),
        (1, false, 2000),
    ] {
        let mut pair = Pair::new(ADDRESSES[family], verify);
        let socket = pair.stacks[1].udp.bind(None, 53).unwrap();
        let from = pair.stacks[0].udp.bind(None, 0).unwrap();
        let text = [MARK, &vec![0; padding][..]].concat();
        let to = SocketAddr::new(pair.to.ip(), 53);
        pair.stacks[0]
            .udp_send(pair.now, from, None, to, Buffer::from(text).whole())
            .unwrap();
        pair.carry(MARK);
        let dropped = pair.stacks[1].counters().drop_udp_checksum;
        let came = pair.stacks[1].udp.receive(socket).unwrap();
        assert_eq!(
            (came.is_some(), dropped),
            (!verify, u64::from(verify)),
            "{family}, {padding}"
        );
    }
}
