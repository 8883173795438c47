//! A host: a stack, and the programs that use it.
//!
//! Each turn of a host does what the runtime's loop does: frames in, time, events and what the
//! programs do about them, frames out. (Time before events, so that a turn leaves no news.)
//! Commands that a test gives between turns take effect at the simulation's present moment; their
//! frames leave when it goes on.

use crate::nic;
use crate::program::{Endpoint, Plan, Reading, Then, pattern};
use exos_buf::Buffer;
use exos_inet::Instant;
use exos_inet::stack::{Config, EchoReply, RxChecksum, Stack};
use exos_inet::tcp::{
    ConnectionId, DetachedConnection, EventSet, Info, ListenOptions, Options, Reason,
};
use std::net::{IpAddr, SocketAddr};

/// A connection of one host, also after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conn(usize);

/// A stack with its programs.
pub struct Host {
    /// Its name in traces.
    pub name: &'static str,
    /// The stack, for what a test does by hand.
    pub stack: Stack,
    /// Every connection that the programs have had.
    pub endpoints: Vec<Endpoint>,
    /// Answers to pings.
    pub echo_replies: Vec<EchoReply>,
    pub(crate) now: Instant,
    address: IpAddr,
    listening: Vec<(u16, Plan)>,
}

impl Host {
    pub(crate) fn new(
        name: &'static str,
        config: Config,
        address: IpAddr,
        seed: u64,
        now: Instant,
    ) -> Host {
        let stack = Stack::new(config, seed, now).expect("the simulator's own addresses are sound");
        let (endpoints, echo_replies, listening) = Default::default();
        Host {
            name,
            stack,
            endpoints,
            echo_replies,
            now,
            address,
            listening,
        }
    }

    /// Its address.
    pub fn ip(&self) -> IpAddr {
        self.address
    }

    /// Where it listens: its address with the first port given to [`Self::listen`], or port 80.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.listening.first().map_or(80, |l| l.0))
    }

    /// Take connections to `port` and do as `plan` says with each.
    pub fn listen(&mut self, port: u16, plan: Plan) {
        self.listen_with(port, plan, ListenOptions::default());
    }

    /// Take connections to `port` with these options and do as `plan` says with each.
    pub fn listen_with(&mut self, port: u16, plan: Plan, options: ListenOptions) {
        self.stack
            .tcp
            .listen(None, port, options)
            .expect("a test listens once on a port");
        self.listening.push((port, plan));
    }

    /// Open a connection to be driven by the test.
    pub fn connect(&mut self, to: SocketAddr) -> Conn {
        self.connect_with(to, Plan::MANUAL, &Options::default())
    }

    /// Open a connection from a port of the test's choosing.
    pub fn connect_from(&mut self, port: u16, to: SocketAddr, plan: Plan) -> Conn {
        let from = Some(SocketAddr::new(self.address, port));
        let id = self
            .stack
            .tcp
            .connect(self.now, from, to, &Options::default());
        self.adopt(id.expect("a route and a free port"), plan, true)
    }

    /// Open a connection and do as `plan` says.
    pub fn connect_with(&mut self, to: SocketAddr, plan: Plan, options: &Options) -> Conn {
        let id = self
            .stack
            .tcp
            .connect(self.now, None, to, options)
            .expect("a route and a port");
        self.adopt(id, plan, true)
    }

    fn adopt(&mut self, id: ConnectionId, plan: Plan, active: bool) -> Conn {
        self.endpoints
            .push(Endpoint::new(id, plan, active, self.now));
        // Zero is the word of a connection that nobody has seen.
        self.stack.tcp.set_token(id, self.endpoints.len() as u64);
        Conn(self.endpoints.len() - 1)
    }

    /// The connection that was opened or accepted as the `n`th here.
    pub fn nth(&self, n: usize) -> Conn {
        assert!(
            n < self.endpoints.len(),
            "{} has had {} connections",
            self.name,
            self.endpoints.len()
        );
        Conn(n)
    }

    /// A connection's side of the story.
    pub fn endpoint(&self, conn: Conn) -> &Endpoint {
        &self.endpoints[conn.0]
    }

    /// Take a connection out of the stack. Its program waits until it is put in again.
    pub fn take_out(&mut self, conn: Conn) -> DetachedConnection {
        let id = self.id(conn);
        let taken = self.stack.tcp.take_out(self.now, id);
        taken.expect("a connection that stands")
    }

    /// Put a connection into the stack, which may be another one than before.
    pub fn put_in(&mut self, conn: Conn, detached: DetachedConnection) {
        let put = self.stack.tcp.put_in(self.now, detached);
        self.endpoints[conn.0].id = put.expect("room for it");
    }

    /// A second stack with the same addresses, which has met the same neighbours. Its frames go nowhere
    /// until it takes the place of `stack`.
    pub fn twin(&self, seed: u64) -> Stack {
        let config = self.stack.config().clone();
        let mut twin = Stack::new(config, seed, self.now).expect("addresses that were sound");
        while twin.poll_transmit(self.now).is_some() {}
        for (ip, _, mac) in self.stack.neighbors().iter() {
            if let Some(mac) = mac {
                twin.set_neighbor(self.now, ip, mac);
            }
        }
        twin
    }

    /// What the stack calls a connection, for commands that a test gives by hand.
    pub fn id(&self, conn: Conn) -> ConnectionId {
        self.endpoints[conn.0].id
    }

    /// The stack's picture of a connection; `None` when it is over.
    pub fn info(&self, conn: Conn) -> Option<Info> {
        self.stack
            .tcp
            .connection(self.endpoints[conn.0].id)
            .map(|c| c.info())
    }

    /// True once it stands, also afterwards.
    pub fn is_established(&self, conn: Conn) -> bool {
        self.endpoints[conn.0].established
    }

    /// Why it is over; `None` while it is not.
    pub fn closed(&self, conn: Conn) -> Option<Reason> {
        self.endpoints[conn.0].closed
    }

    /// Send bytes of the test's own.
    pub fn send(&mut self, conn: Conn, bytes: &[u8]) {
        let slice = Buffer::from(bytes.to_vec()).slice(0..bytes.len());
        assert!(
            self.stack.tcp.send(self.endpoints[conn.0].id, slice),
            "the connection takes no data"
        );
    }

    /// Send `count` more bytes of the pattern.
    pub fn send_pattern(&mut self, conn: Conn, count: usize) {
        self.endpoints[conn.0].plan.send += count;
        self.act(conn.0);
    }

    /// Nothing more will be sent.
    pub fn finish(&mut self, conn: Conn) {
        self.stack.tcp.finish(self.endpoints[conn.0].id);
        self.endpoints[conn.0].finished = true;
    }

    /// Give a connection up.
    pub fn abort(&mut self, conn: Conn) {
        self.stack.tcp.abort(self.endpoints[conn.0].id);
    }

    /// Read otherwise from now on.
    pub fn set_reading(&mut self, conn: Conn, reading: Reading) {
        let endpoint = &mut self.endpoints[conn.0];
        endpoint.plan.reading = reading;
        endpoint.read_at = self.now;
        self.read(conn.0);
        self.act(conn.0);
    }

    /// Ask `to` for an echo.
    pub fn ping(&mut self, to: IpAddr, seq: u16, data: &[u8]) {
        assert!(self.stack.ping(self.now, to, 7, seq, data), "no route");
    }

    // What the simulation does with it.

    pub(crate) fn handle_frame(&mut self, frame: &[u8]) {
        self.stack
            .handle_frame(self.now, frame, RxChecksum::Unknown);
    }

    /// Time, events, programs; true when something happened.
    pub(crate) fn turn(&mut self) -> bool {
        let due = self
            .stack
            .poll_timeout(self.now)
            .is_some_and(|at| at <= self.now);
        if due {
            self.stack.handle_timeout(self.now);
        }
        let mut busy = false;
        while let Some(event) = self.stack.poll_event() {
            busy = true;
            let endpoint = match (event.token, event.set.contains(EventSet::ACCEPTED)) {
                (0, true) => self.accept(event.connection),
                // Over before it stood: no program has seen it.
                (0, false) => continue,
                (token, _) => token as usize - 1,
            };
            self.handle_event(endpoint, event.set, event.reason);
        }
        self.echo_replies
            .extend(std::iter::from_fn(|| self.stack.poll_echo_reply()));
        for endpoint in 0..self.endpoints.len() {
            if self.reads_slowly(endpoint).is_some_and(|at| at <= self.now) {
                busy = true;
                self.read(endpoint);
                self.act(endpoint);
            }
        }
        busy
    }

    /// The next frames to leave: several when the link cuts up what the stack gives.
    pub(crate) fn poll_frames(&mut self) -> Option<Vec<Vec<u8>>> {
        self.stack
            .poll_transmit(self.now)
            .map(|transmit| nic::frames(&transmit))
    }

    /// When the host wants its next turn.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let slow = (0..self.endpoints.len()).filter_map(|n| self.reads_slowly(n));
        slow.chain(self.stack.poll_timeout(self.now)).min()
    }

    fn accept(&mut self, id: ConnectionId) -> usize {
        let port = self
            .stack
            .tcp
            .connection(id)
            .expect("just accepted")
            .flow()
            .local()
            .port();
        let plan = self
            .listening
            .iter()
            .find(|l| l.0 == port)
            .expect("somebody listens")
            .1;
        self.adopt(id, plan, false).0
    }

    fn handle_event(&mut self, n: usize, set: EventSet, reason: Reason) {
        let endpoint = &mut self.endpoints[n];
        endpoint.established |=
            set.contains(EventSet::ACCEPTED) || set.contains(EventSet::CONNECTED);
        endpoint.saw_fin |= set.contains(EventSet::FINISHED);
        if set.contains(EventSet::READABLE) && endpoint.plan.reading == Reading::Promptly {
            self.read(n);
        }
        if set.contains(EventSet::CLOSED) {
            self.endpoints[n].closed = Some(reason);
            self.read(n);
        }
        self.act(n);
    }

    /// When a slow reader reads next.
    fn reads_slowly(&self, n: usize) -> Option<Instant> {
        let endpoint = &self.endpoints[n];
        let slow =
            matches!(endpoint.plan.reading, Reading::Slowly { .. }) && endpoint.closed.is_none();
        (slow && !self.stack.tcp.readable(endpoint.id).is_empty()).then_some(endpoint.read_at)
    }

    fn read(&mut self, n: usize) {
        let endpoint = &mut self.endpoints[n];
        let readable = self.stack.tcp.readable(endpoint.id);
        let count = match endpoint.plan.reading {
            // What is left of a connection that is over can be read now or never.
            _ if endpoint.closed.is_some() => readable.len(),
            Reading::Promptly => readable.len(),
            Reading::Never => 0,
            Reading::Slowly { bytes, every } => {
                endpoint.read_at = self.now + every;
                readable.len().min(bytes)
            }
        };
        endpoint.received.extend_from_slice(&readable[..count]);
        let drained = count == readable.len();
        endpoint.peer_finished = endpoint.saw_fin && drained;
        self.stack.tcp.consume(endpoint.id, count);
    }

    /// Do what the plan says is to be done now.
    fn act(&mut self, n: usize) {
        let drained = self.stack.tcp.readable(self.endpoints[n].id).is_empty();
        let endpoint = &mut self.endpoints[n];
        endpoint.peer_finished |= endpoint.saw_fin && drained;
        if !endpoint.established || endpoint.closed.is_some() {
            return;
        }
        self.send_what_is_due(n);
        let endpoint = &self.endpoints[n];
        if endpoint.finished || !endpoint.has_queued_all() {
            return;
        }
        let unacknowledged = self
            .stack
            .tcp
            .connection(endpoint.id)
            .map_or(0, |c| c.unacknowledged());
        match endpoint.plan.then {
            Then::Finish => self.finish(Conn(n)),
            Then::Abort if unacknowledged == 0 => self.abort(Conn(n)),
            Then::Stay | Then::Abort
                if endpoint.plan.finish_with_peer && endpoint.peer_finished =>
            {
                self.finish(Conn(n));
            }
            Then::Stay | Then::Abort => {}
        }
    }

    fn send_what_is_due(&mut self, n: usize) {
        let Host {
            stack, endpoints, ..
        } = self;
        let endpoint = &mut endpoints[n];
        if endpoint.plan.echo && endpoint.echoed < endpoint.received.len() {
            let bytes = endpoint.received[endpoint.echoed..].to_vec();
            endpoint.echoed = endpoint.received.len();
            let buffer = Buffer::from(bytes);
            stack.tcp.send(endpoint.id, buffer.slice(0..buffer.len()));
        }
        while endpoint.wants_to_send() > 0 {
            let unsent = stack
                .tcp
                .connection(endpoint.id)
                .map_or(0, |c| c.unacknowledged());
            if unsent >= QUEUED_MAX {
                break;
            }
            let count = endpoint.wants_to_send().min(endpoint.plan.slice_max);
            let bytes: Vec<_> = (endpoint.sent..endpoint.sent + count)
                .map(|o| pattern(endpoint.active, o))
                .collect();
            // The slice begins at an odd place of its buffer, so that checksums at odd offsets are
            // met too.
            let buffer = Buffer::from([&[0xa5], bytes.as_slice()].concat());
            if !stack.tcp.send(endpoint.id, buffer.slice(1..1 + count)) {
                break;
            }
            endpoint.sent += count;
        }
    }
}

/// Bytes that a program hands over before the peer has acknowledged some: more than any window of
/// the tests.
const QUEUED_MAX: usize = 1 << 20;
