//! Plays a script against a stack, on a clock that jumps from one event to the next.
//!
//! Arrivals and commands cost no time. What leaves is asked for as late as possible: when a line
//! expects something to leave, or before time passes; so lines of one moment are one turn of a
//! program's loop. Whatever leaves must be expected, at its time and in its order.

mod commands;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_inet::tcp::{ConnectionId, EventSet, ListenerId};
use exos_inet::{Config, Instant, Neighbors, RxChecksum, Stack};
use exos_wire::Mac;

use super::flow::Flow;
use super::options;
use super::parse::{At, Command, IcmpSpec, Script, What};
use super::segment::{ACK, Spec};
use super::value::Value;
use super::wire::{self, Raw};

/// Addresses of the stack and of its peer.
const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]];

/// How far from its time something may leave, in seconds: timers have a grain of a millisecond.
const TOLERANCE: f64 = 0.002;

/// How far, as a share of the script's time, where that is more: each timer of a row may be late.
const TOLERANCE_SHARE: f64 = 0.01;

/// Wakings without progress that are too many: nothing here wakes more often than once a
/// millisecond, and no script is longer than some hours.
const WAKINGS_MAX: usize = 1_000_000;

/// A line that was not fulfilled.
pub struct Failure {
    pub line: usize,
    pub what: String,
    /// What came and went until then.
    pub log: Vec<String>,
}

/// A stack, its peer in the script's hand, and what was said.
pub struct Player {
    pub stack: Stack,
    pub setup: super::parse::Setup,
    pub now: Instant,
    start: Instant,
    addresses: [IpAddr; 2],
    pub flows: Vec<Flow>,
    pub listener: Option<ListenerId>,
    outbox: VecDeque<(Instant, usize, Raw)>,
    log: Vec<String>,
}

impl Player {
    fn new(script: &Script, ipv6: bool, start: Instant) -> Self {
        let setup = script.setup.clone();
        let addresses = ADDRESSES[usize::from(ipv6)].map(|a| a.parse().expect("an address"));
        let mtu = setup.get("mtu").unwrap_or(1500) as usize;
        let mut config = Config::new(Mac(wire::MAC_OURS), mtu);
        config.addresses = vec![(addresses[0], 24)];
        config.neighbors = Neighbors::External;
        options::configure(&mut config, &setup);
        let seed = setup.get("seed").unwrap_or(42) as u64;
        let mut stack = Stack::new(config, seed, start).expect("an address of its own");
        stack.set_neighbor(start, addresses[1], Mac(wire::MAC_PEER));
        Self {
            stack,
            setup,
            now: start,
            start,
            addresses,
            flows: Vec::new(),
            listener: None,
            outbox: VecDeque::new(),
            log: Vec::new(),
        }
    }

    /// Seconds since the script began.
    pub fn seconds(&self, at: Instant) -> f64 {
        (at - self.start).as_micros() as f64 / 1e6
    }

    fn instant(&self, seconds: f64) -> Instant {
        self.start + Duration::from_micros((seconds * 1e6).round() as u64)
    }

    fn note(&mut self, at: Instant, sign: &str, text: &str) {
        self.log
            .push(format!("{:>9.4}  {sign} {text}", self.seconds(at)));
    }

    /// The connection of that number, made when it is first spoken of.
    pub fn flow(&mut self, number: usize, active: bool) -> &mut Flow {
        let at = match self.flows.iter().position(|f| f.number == number) {
            Some(at) => at,
            None => {
                let [us, peer] = self.addresses;
                let isn = self.setup.get("isn");
                self.flows.push(Flow::new(number, us, peer, active, isn));
                self.flows.len() - 1
            }
        };
        &mut self.flows[at]
    }

    pub fn id(&mut self, number: usize) -> Result<ConnectionId, String> {
        self.flow(number, false).id.ok_or_else(|| {
            format!("connection #{number} is not open (its program has not heard of it)")
        })
    }

    // The stack's turn.

    /// What the stack has to tell goes to the connections that it is about.
    pub fn poll_events(&mut self) {
        while let Some(event) = self.stack.poll_event() {
            let Some(connection) = self.stack.tcp.connection(event.connection) else {
                continue;
            };
            let (local, remote) = (connection.flow().local(), connection.flow().remote());
            let Some(flow) = self
                .flows
                .iter_mut()
                .find(|f| f.local == local && f.remote == remote)
            else {
                continue;
            };
            flow.id = Some(event.connection);
            flow.heard = flow.heard.with(event.set);
            if event.set.contains(EventSet::CLOSED) {
                flow.closed = Some(event.reason);
                flow.leftover = self.stack.tcp.readable(event.connection).to_vec();
            }
        }
    }

    /// Take from the stack all that it has to send now.
    fn transmit(&mut self) -> Result<(), String> {
        self.poll_events();
        loop {
            self.drain()?;
            // The neighbour cache verifies in time; scripts are about what lies above it.
            let Some(ip) = self.stack.poll_unresolved() else {
                return Ok(());
            };
            self.stack.set_neighbor(self.now, ip, Mac(wire::MAC_PEER));
        }
    }

    fn drain(&mut self) -> Result<(), String> {
        while let Some(out) = self.stack.poll_transmit(self.now) {
            let frame = [&[out.head], out.body.parts()].concat().concat();
            let (src, dst, raw) = wire::read_frame(&frame)?;
            let local = SocketAddr::new(src, raw.src_port);
            let remote = SocketAddr::new(dst, raw.dst_port);
            let flow = self
                .flows
                .iter_mut()
                .find(|f| f.local == local && f.remote == remote)
                .ok_or_else(|| {
                    format!("a segment from {local} to {remote}, of no connection here")
                })?;
            flow.observe(&raw);
            let (number, text) = (flow.number, flow.text(&raw));
            self.note(self.now, ">", &text);
            self.outbox.push_back((self.now, number, raw));
        }
        Ok(())
    }

    /// Let time pass until `at`, or with `stop` until something leaves.
    fn advance(&mut self, at: Instant, stop: bool) -> Result<(), String> {
        self.transmit()?;
        for _ in 0..WAKINGS_MAX {
            if stop && !self.outbox.is_empty() {
                return Ok(());
            }
            let next = self.stack.poll_timeout(self.now).filter(|&next| next <= at);
            let Some(next) = next else {
                self.now = self.now.max(at);
                self.stack.handle_timeout(self.now);
                self.poll_events();
                return Ok(());
            };
            self.now = next
                .max(self.now + Duration::from_micros(100))
                .min(at.max(self.now));
            self.stack.handle_timeout(self.now);
            if self.now >= at {
                self.poll_events();
                return Ok(());
            }
            self.transmit()?;
        }
        Err("the stack wants to be woken again and again, for nothing".into())
    }

    fn nothing_left(&self) -> Result<(), String> {
        let Some((at, number, raw)) = self.outbox.front() else {
            return Ok(());
        };
        let flow = self.flows.iter().find(|f| f.number == *number);
        let text = flow.map_or_else(String::new, |f| f.text(raw));
        Err(format!("unexpected at {:.4}: > {text}", self.seconds(*at)))
    }

    /// A moment at which something happens: time passes, and nothing unexpected may leave.
    fn at(&mut self, at: Instant) -> Result<(), String> {
        if at > self.now {
            self.advance(at, false)?;
        }
        self.nothing_left()
    }

    // Lines.

    fn arrives(&mut self, spec: &Spec, at: Instant) -> Result<(), String> {
        self.flow(spec.flow, false);
        for n in 0..spec.repeat {
            let at = at + Duration::from_secs_f64(spec.every * n as f64);
            if n == 0 {
                self.at(at)?;
            } else if at > self.now {
                self.advance(at, false)?;
            }
            let one = moved(spec, n);
            let flow = self.flow(spec.flow, false);
            let raw = flow.arriving(&one);
            let frame =
                wire::segment_frame(flow.remote.ip(), flow.local.ip(), &raw, spec.bad_checksum);
            self.stack
                .handle_frame(self.now, &frame, RxChecksum::Unknown);
        }
        self.poll_events();
        Ok(())
    }

    fn icmp(&mut self, icmp: &IcmpSpec) -> Result<(), String> {
        let flow = self.flow(icmp.flow, false);
        let quoted = Raw {
            src_port: flow.local.port(),
            dst_port: flow.remote.port(),
            seq: flow.ours_at(icmp.seq),
            flags: ACK,
            payload: vec![0; 1000],
            ..Raw::default()
        };
        let (us, peer) = (flow.local.ip(), flow.remote.ip());
        let frame = wire::icmp_frame(us, peer, &quoted, &icmp.kind, icmp.mtu)?;
        self.stack
            .handle_frame(self.now, &frame, RxChecksum::Unknown);
        self.poll_events();
        Ok(())
    }

    fn leaves(&mut self, spec: &Spec, at: Instant, tolerance: f64) -> Result<(), String> {
        for n in 0..spec.repeat {
            let at = at + Duration::from_secs_f64(spec.every * n as f64);
            let latest = at + Duration::from_secs_f64(tolerance);
            self.transmit()?;
            if self.outbox.is_empty() {
                self.advance(latest, true)?;
            }
            if self.outbox.is_empty() {
                self.transmit()?;
            }
            let nth = if spec.repeat > 1 {
                format!(" ({} of {})", n + 1, spec.repeat)
            } else {
                String::new()
            };
            let Some((left, number, raw)) = self.outbox.pop_front() else {
                return Err(format!(
                    "nothing left until {:.4}{nth}",
                    self.seconds(latest)
                ));
            };
            let one = moved(spec, n);
            let late = self.seconds(left) - self.seconds(at);
            let flow = self.flow(number, false);
            let mut found = flow.differences(&one, &raw);
            if number != spec.flow {
                found.push(format!("it is of connection #{number}"));
            }
            if late.abs() > tolerance + 1e-9 {
                found.push(format!(
                    "it left {:.4} s {}",
                    late.abs(),
                    if late > 0.0 { "late" } else { "early" }
                ));
            }
            if !found.is_empty() {
                let text = flow.text(&raw);
                let at = self.seconds(left);
                return Err(format!(
                    "left at {at:.4}: > {text}{nth}\n  {}",
                    found.join("\n  ")
                ));
            }
        }
        Ok(())
    }

    /// Take an event out of what was heard; false when it was not.
    pub fn claim(&mut self, number: usize, wanted: EventSet) -> bool {
        let flow = self.flow(number, false);
        let heard = flow.heard.contains(wanted);
        flow.heard = options::without(flow.heard, wanted);
        heard
    }
}

/// The nth repetition of a segment.
fn moved(spec: &Spec, n: usize) -> Spec {
    let mut one = spec.clone();
    if let Value::Is(seq) = spec.seq {
        let step = spec.step.unwrap_or(spec.seq_len());
        one.seq = Value::Is(seq + n as i64 * step);
    }
    one
}

/// The moment at which a script starts. Our sequence numbers follow from a clock of 4 µs, so a
/// script that wants a certain one (`with our-isn N`) begins when it is due.
fn beginning(script: &Script, ipv6: bool) -> Instant {
    let early = Instant::from_millis(1);
    let Some(wanted) = script.setup.get("our-isn") else {
        return early;
    };
    let mut player = Player::new(script, ipv6, early);
    let active = script.steps.iter().any(|s| {
        matches!(
            s.what,
            What::Command(Command::Connect { .. } | Command::Handshake { active: true, .. })
        )
    });
    player.flow(1, active);
    if active {
        let _ = player.run(&Command::Connect {
            flow: 1,
            fails: None,
        });
    } else {
        let _ = player.run(&Command::Listen { fails: None });
        let syn = Spec::parse(&mut super::segment::Words::new("S seq 0", ipv6), true);
        let _ = player.arrives(&syn.expect("a SYN"), early);
    }
    let _ = player.transmit();
    let now = player.flow(1, active).ours.unwrap_or(0);
    let ticks = (wanted as u32).wrapping_sub(now);
    early + Duration::from_micros(4 * u64::from(ticks))
}

/// Play a script over one family.
pub fn play(script: &Script, ipv6: bool) -> Result<(), Failure> {
    let mut player = Player::new(script, ipv6, beginning(script, ipv6));
    let mut at = player.start;
    for step in &script.steps {
        let tolerance;
        (at, tolerance) = match step.at {
            At::Then => (at, None),
            At::Absolute(seconds, tolerance) => (player.instant(seconds), tolerance),
            At::Later(seconds, tolerance) => (at + Duration::from_secs_f64(seconds), tolerance),
        };
        let usual = TOLERANCE.max(TOLERANCE_SHARE * player.seconds(at));
        let result = player.step(&step.what, at, tolerance.unwrap_or(usual));
        at = at.max(player.now);
        if let Err(what) = result {
            return Err(Failure {
                line: step.line,
                what,
                log: player.log,
            });
        }
    }
    let end = player.transmit().and_then(|()| player.end());
    end.map_err(|what| Failure {
        line: script.steps.last().map_or(script.line, |s| s.line),
        what: format!("at the end of the script: {what}"),
        log: player.log,
    })
}

impl Player {
    fn step(&mut self, what: &What, at: Instant, tolerance: f64) -> Result<(), String> {
        match what {
            What::Leaves(spec) => return self.leaves(spec, at, tolerance),
            What::Silence => {
                self.at(at)?;
                self.transmit()?;
                return self.nothing_left();
            }
            What::Anything => {
                self.advance(at.max(self.now), false)?;
                self.transmit()?;
                self.outbox.clear();
                return Ok(());
            }
            What::Arrives(spec) => return self.logged_arrival(spec, at),
            _ => {}
        }
        self.at(at)?;
        match what {
            What::Icmp(icmp) => {
                self.note(at, "<", &format!("icmp {} seq {}", icmp.kind, icmp.seq));
                self.icmp(icmp)
            }
            What::Command(command) => {
                self.command(command)?;
                self.poll_events();
                Ok(())
            }
            What::Expect(list) => list.iter().try_for_each(|expect| self.expect(expect)),
            What::Leaves(_) | What::Silence | What::Anything | What::Arrives(_) => Ok(()),
        }
    }

    fn logged_arrival(&mut self, spec: &Spec, at: Instant) -> Result<(), String> {
        self.at(at)?;
        let flow = self.flow(spec.flow, false);
        let raw = flow.arriving(spec);
        let mut text = format!("{} seq {}", super::segment::flags_text(raw.flags), spec.seq);
        if let Some(ack) = spec.ack {
            text += &format!(" ack {ack}");
        }
        text += &format!(" win {} len {}", raw.window, raw.payload.len());
        if spec.repeat > 1 {
            text += &format!(" x{}", spec.repeat);
        }
        self.note(at, "<", &text);
        self.arrives(spec, at)
    }

    /// Nothing unexpected is left over.
    fn end(&mut self) -> Result<(), String> {
        self.nothing_left()?;
        let ended = |f: &&Flow| f.heard.contains(EventSet::CLOSED);
        match self.flows.iter().find(ended) {
            Some(flow) => Err(format!(
                "connection #{} is over ({:?}), which the script does not expect: `= closed ..`",
                flow.number, flow.closed
            )),
            None => Ok(()),
        }
    }
}
