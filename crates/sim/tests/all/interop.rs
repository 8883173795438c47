//! Our stack and smoltcp's on one lossy wire: an echo of every byte, either of them opening the
//! connection.
//!
//! Two ends of one implementation can agree on a mistake. smoltcp is another reading of the same
//! RFCs, without selective acknowledgements and with its own timers.

use exos_buf::Buffer;
use exos_inet::stack::{Config as StackConfig, RxChecksum, Stack};
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options, Reason};
use exos_sim::prelude::{Conditions, Duration, Instant, Random, Seed, ms, pattern};
use exos_sim::wire::Wire;
use exos_wire::Mac;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};
use std::collections::VecDeque;
use std::net::IpAddr;

const THEIRS: usize = 0;
const OURS: usize = 1;

/// smoltcp's side of the wire: frames in, frames out.
#[derive(Default)]
struct Queues {
    arrived: VecDeque<Vec<u8>>,
    leaving: VecDeque<Vec<u8>>,
}

struct Arrived(Vec<u8>);

struct Leaving<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.push_back(frame);
        result
    }
}

impl Device for Queues {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        // smoltcp counts the Ethernet header.
        capabilities.max_transmission_unit = 1514;
        capabilities
    }

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Arrived, Leaving<'_>)> {
        let frame = self.arrived.pop_front()?;
        Some((Arrived(frame), Leaving(&mut self.leaving)))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Leaving<'_>> {
        Some(Leaving(&mut self.leaving))
    }
}

fn addresses(end: usize) -> [(IpAddr, u8); 2] {
    let last = end as u8 + 1;
    let v6 = std::net::Ipv6Addr::new(0xfd10, 0, 0, 0, 0, 0, 0, last.into());
    [([10, 10, 0, last].into(), 24), (v6.into(), 64)]
}

fn mac(end: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, end as u8 + 1])
}

/// Both hosts, the wire, and what the programs have done.
struct Net {
    wire: Wire,
    now: Instant,
    ours: Stack,
    our_connection: Option<ConnectionId>,
    our_received: Vec<u8>,
    our_end: Option<Reason>,
    theirs: Interface,
    queues: Queues,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    their_received: Vec<u8>,
    their_sent: usize,
    /// Bytes of the pattern that the side which opens the connection sends, to get them back.
    bytes: usize,
    we_open: bool,
}

impl Net {
    fn new(seed: Seed, bytes: usize, we_open: bool) -> Net {
        let mut queues = Queues::default();
        let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(mac(THEIRS).0)));
        config.random_seed = seed.0;
        let mut theirs = Interface::new(config, &mut queues, smoltcp::time::Instant::ZERO);
        theirs.update_ip_addrs(|list| {
            for (ip, len) in addresses(THEIRS) {
                list.push(IpCidr::new(ip.into(), len)).unwrap();
            }
        });
        let mut sockets = SocketSet::new(Vec::new());
        let buffer = || SocketBuffer::new(vec![0; 30_000]);
        let handle = sockets.add(Socket::new(buffer(), buffer()));
        let mut config = StackConfig::new(mac(OURS), 1500);
        config.addresses = addresses(OURS).to_vec();
        let ours = Stack::new(config, seed.0, Instant::START).unwrap();
        let mut wire = Wire::new(seed, 2);
        wire.set_conditions(conditions(seed));
        let (our_connection, our_end) = (None, None);
        let (our_received, their_received, their_sent) = (Vec::new(), Vec::new(), 0);
        Net {
            wire,
            now: Instant::START,
            ours,
            our_connection,
            our_received,
            our_end,
            theirs,
            queues,
            sockets,
            handle,
            their_received,
            their_sent,
            bytes,
            we_open,
        }
    }

    fn open(&mut self, ipv6: bool) {
        let address = |end: usize| addresses(end)[usize::from(ipv6)].0;
        let socket = self.sockets.get_mut::<Socket>(self.handle);
        if self.we_open {
            socket.listen(80).unwrap();
            let to = (address(THEIRS), 80).into();
            self.our_connection = Some(
                self.ours
                    .tcp
                    .connect(self.now, None, to, &Options::default())
                    .unwrap(),
            );
        } else {
            self.ours
                .tcp
                .listen(None, 80, ListenOptions::default())
                .unwrap();
            socket
                .connect(self.theirs.context(), (address(OURS), 80), 4000)
                .unwrap();
        }
    }

    /// Run until both programs have seen the end of the connection.
    fn run(&mut self, limit: Duration) {
        let end = self.now + limit;
        loop {
            self.settle();
            if self.our_end.is_some()
                && matches!(self.their_state(), State::Closed | State::TimeWait)
            {
                return;
            }
            let next = self.next_event().filter(|&at| at <= end);
            self.now = next
                .expect("both ends finish in time")
                .max(self.now + Duration::from_micros(1));
        }
    }

    fn their_state(&self) -> State {
        self.sockets.get::<Socket>(self.handle).state()
    }

    fn smol_now(&self) -> smoltcp::time::Instant {
        smoltcp::time::Instant::from_micros(self.now.micros() as i64)
    }

    fn next_event(&mut self) -> Option<Instant> {
        let delay = self.theirs.poll_delay(self.smol_now(), &self.sockets);
        let theirs = delay.map(|d| self.now + Duration::from_micros(d.total_micros()));
        let ours = self.ours.poll_timeout(self.now);
        [theirs, ours, self.wire.next_arrival()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Everything that happens at this moment.
    fn settle(&mut self) {
        loop {
            let mut busy = false;
            while let Some(arrival) = self.wire.poll_arrival(self.now) {
                busy = true;
                if arrival.from == THEIRS {
                    self.ours
                        .handle_frame(self.now, &arrival.frame, RxChecksum::Unknown);
                } else {
                    self.queues.arrived.push_back(arrival.frame);
                }
            }
            self.ours.handle_timeout(self.now);
            self.our_program();
            while let Some(transmit) = self.ours.poll_transmit(self.now) {
                busy = true;
                let frame = [&[transmit.head], transmit.body.parts()].concat().concat();
                self.wire.send(self.now, OURS, frame);
            }
            self.theirs
                .poll(self.smol_now(), &mut self.queues, &mut self.sockets);
            self.their_program();
            self.theirs
                .poll(self.smol_now(), &mut self.queues, &mut self.sockets);
            while let Some(frame) = self.queues.leaving.pop_front() {
                busy = true;
                self.wire.send(self.now, THEIRS, frame);
            }
            if !busy {
                return;
            }
        }
    }

    /// Ours: send the pattern or an echo, and finish.
    fn our_program(&mut self) {
        while let Some(event) = self.ours.poll_event() {
            let id = event.connection;
            if event.set.contains(EventSet::CONNECTED) {
                let bytes: Vec<_> = (0..self.bytes).map(|o| pattern(true, o)).collect();
                self.ours
                    .tcp
                    .send(id, Buffer::from(bytes).slice(0..self.bytes));
            }
            let readable = self.ours.tcp.readable(id).to_vec();
            self.ours.tcp.consume(id, readable.len());
            self.our_received.extend_from_slice(&readable);
            if !self.we_open && !readable.is_empty() {
                let len = readable.len();
                self.ours.tcp.send(id, Buffer::from(readable).slice(0..len));
            }
            let echoed = self.we_open && self.our_received.len() == self.bytes;
            if echoed || event.set.contains(EventSet::FINISHED) {
                self.ours.tcp.finish(id);
            }
            if event.set.contains(EventSet::CLOSED) {
                self.our_end = Some(event.reason);
            }
        }
    }

    /// The program on smoltcp's socket: it reads all, and echoes or sends `bytes`.
    fn their_program(&mut self) {
        let socket = self.sockets.get_mut::<Socket>(self.handle);
        while socket.can_recv() {
            let mut room = [0; 2000];
            let count = socket.recv_slice(&mut room).unwrap();
            self.their_received.extend_from_slice(&room[..count]);
        }
        let total = if self.we_open {
            self.their_received.len()
        } else {
            self.bytes
        };
        while socket.can_send() && self.their_sent < total {
            let until = total.min(self.their_sent + 2000);
            let bytes: Vec<_> = (self.their_sent..until).map(|o| pattern(true, o)).collect();
            self.their_sent += socket.send_slice(&bytes).unwrap();
        }
        let echoed = !self.we_open && self.their_received.len() == self.bytes;
        if echoed || (socket.state() == State::CloseWait && self.their_sent == total) {
            socket.close();
        }
    }
}

/// A wire drawn from the seed: a little of everything.
fn conditions(seed: Seed) -> Conditions {
    let mut random = Random::new(seed, 76);
    let mut some = |most: f64| if random.chance(0.5) { most } else { 0.0 };
    Conditions {
        latency: ms(2),
        jitter: ms(1),
        loss: some(0.03),
        reorder: some(0.05),
        reorder_by: ms(3),
        duplicate: some(0.05),
        corrupt: some(0.03),
        ..Conditions::PERFECT
    }
}

fn echo(we_open: bool) {
    for seed in 0..150 {
        let mut net = Net::new(Seed(seed), 40_000, we_open);
        net.open(seed % 2 == 1);
        net.run(Duration::from_secs(600));
        let echo = if we_open {
            &net.our_received
        } else {
            &net.their_received
        };
        assert_eq!(echo.len(), 40_000, "seed {seed}");
        assert!(
            echo.iter().enumerate().all(|(o, &b)| b == pattern(true, o)),
            "seed {seed}: wrong bytes"
        );
        assert_eq!(net.our_end, Some(Reason::Done), "seed {seed}");
    }
}

#[test]
fn smoltcp_opens() {
    echo(false);
}

#[test]
fn we_open() {
    echo(true);
}
