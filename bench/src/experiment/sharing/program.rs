//! The programs that share the interface: each a process of its own without privilege, with a part that the daemon
//! lends. The same on the device itself, where what sharing costs is to be compared, and to send from the other side.

use super::frames::{Frame, HEADERS_LEN};
use crate::report::{median, percentile};
use crate::stage::cpu;
use crate::stage::daemon::Daemon;
use crate::stage::echo::{connect, round_trip};
use crate::stage::helper::{Helper, say_ready};
use crate::stage::link::{flush, open_text};
use crate::stage::now_ns;
use crate::stage::process::Interrupt;
use exos::via::Via;
use exos_host::{Error, Result, error::Context as _};
use exos_link::{Link, RX_BATCH};
use exos_wire::Mac;
use exos_xok::Protocol;
use exos_xok::message::{Mode, PortWish};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Until this process is ended.
fn hold_on() -> Result<()> {
    say_ready()?;
    loop {
        std::thread::park();
    }
}

/// A program's own address and port, and who lends them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Own {
    from: SocketAddrV4,
    /// The daemon's socket; without it the device itself.
    xokd: Option<PathBuf>,
}

/// Where packets come from and go to.
struct Attached {
    link: Link,
    /// The daemon's part, as long as it is held.
    via: Option<Via>,
}

impl Own {
    pub fn of(daemon: Option<&Daemon<'_>>, address: Ipv4Addr, port: u16) -> Self {
        Self {
            from: SocketAddrV4::new(address, port),
            xokd: daemon.map(|daemon| daemon.socket().into()),
        }
    }

    fn via(&self) -> Result<(Via, Link)> {
        let socket = self.xokd.as_deref();
        let socket = socket.ok_or(Error::new("this program needs a daemon"))?;
        let (via, link) = Via::open(socket, None, Mode::Shared, "bench")?;
        Ok((via, Link::from(link)))
    }

    /// Our part with our port, or the device with what comes for it.
    fn attach(&self) -> Result<Attached> {
        if self.xokd.is_some() {
            let (mut via, link) = self.via()?;
            claim_port(&mut via, self.from)?;
            let via = Some(via);
            return Ok(Attached { link, via });
        }
        let (ip, port) = (self.from.ip(), self.from.port());
        let link = open_text(&format!("tcp dst port {port} and dst host {ip}"))?;
        Ok(Attached { link, via: None })
    }
}

fn claim_port(via: &mut Via, from: SocketAddrV4) -> Result<()> {
    let port = PortWish::Number(from.port());
    via.claim(Protocol::Tcp, (*from.ip()).into(), port, None)?;
    Ok(())
}

/// Sends TCP segments that belong to no connection, until it is ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Send {
    pub own: Own,
    pub flows: Vec<FlowSettings>,
    /// Link address that frames go to.
    pub mac: [u8; 6],
    /// Bytes of a frame.
    pub bytes: usize,
    /// Frames are handed to the kernel as super-packets, through the packet socket; else one by one, on the ring.
    pub super_packets: bool,
}

/// What goes to one receiver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FlowSettings {
    to: SocketAddrV4,
    /// Bits a second; without it as many as go.
    rate: Option<u64>,
}

impl FlowSettings {
    pub fn of(to: SocketAddrV4, rate: Option<f64>) -> Self {
        let rate = rate.map(|rate| rate as u64);
        Self { to, rate }
    }
}

/// What a sender did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Frames that were handed to the kernel.
    pub frames: u64,
    /// Processor time that it took, soft interrupts that ran meanwhile included.
    pub cpu_ns: u64,
}

/// Frames for one receiver.
struct Flow {
    frame: Frame,
    rate: Option<u64>,
    sent: u64,
    /// Frames that were due too long ago.
    missed: u64,
}

/// A sender that was kept from sending for longer than this does not make up for all of it.
const MAKE_UP: Duration = Duration::from_millis(20);

impl Flow {
    /// How many frames are due after this long.
    fn due(&mut self, passed: Duration) -> u64 {
        let Some(rate) = self.rate else {
            return u64::MAX;
        };
        let per_sec = rate as f64 / (self.frame.bytes.len() as f64 * 8.0);
        let due = (per_sec * passed.as_secs_f64()) as u64;
        let due = due.saturating_sub(self.sent + self.missed);
        let most = (per_sec * MAKE_UP.as_secs_f64()) as u64 + 1;
        self.missed += due.saturating_sub(most);
        due.min(most)
    }
}

/// How long a sender with nothing due sleeps.
const PACE: Duration = Duration::from_micros(50);

impl Send {
    fn flows(&self, mac: Mac) -> Result<Vec<Flow>> {
        let (macs, from) = ((mac, Mac(self.mac)), self.own.from);
        let flow = |settings: &FlowSettings| -> Result<Flow> {
            let frame = match self.super_packets {
                false => Frame::segment(macs, from, settings.to, self.bytes)?,
                true => Frame::super_packet(macs, from, settings.to),
            };
            Ok(Flow {
                frame,
                rate: settings.rate,
                sent: 0,
                missed: 0,
            })
        };
        self.flows.iter().map(flow).collect()
    }
}

impl Helper for Send {
    const NAME: &'static str = "send";
    type Measured = Sent;

    fn run(self) -> Result<Sent> {
        let end = Interrupt::on_signals()?;
        let mut attached = self.own.attach()?;
        let mut flows = self.flows(attached.link.mac())?;
        say_ready()?;
        let (begin, cpu) = (Instant::now(), cpu::own_ns());
        while end.check().is_ok() {
            let mut any = false;
            for flow in &mut flows {
                // Half of the room, so that who has a schedule finds some in the next turn.
                let room = (attached.link.room() as u64).div_ceil(2);
                let most = if self.super_packets {
                    1
                } else {
                    RX_BATCH.into()
                };
                for _ in 0..flow.due(begin.elapsed()).min(room.min(most)) {
                    any |= send_one(&mut attached.link, flow);
                }
            }
            flush(&mut attached.link)?;
            if !any {
                std::thread::sleep(PACE);
            }
        }
        Ok(Sent {
            frames: flows.iter().map(|flow| flow.sent).sum(),
            cpu_ns: cpu::own_ns() - cpu,
        })
    }
}

/// Sends a frame with the time in it. Its checksum is not that of the time: nobody looks.
fn send_one(link: &mut Link, flow: &mut Flow) -> bool {
    let at = HEADERS_LEN..HEADERS_LEN + 8;
    flow.frame.bytes[at].copy_from_slice(&now_ns().to_ne_bytes());
    let sent = flow.frame.send(link);
    flow.sent += u64::from(sent);
    sent
}

/// Counts what comes, and how long it was under way, until it is ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Receive(pub Own);

/// What a receiver saw: from being handed over to being seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Received {
    /// The 99th percentile.
    pub delay_p99_us: f64,
    /// The longest.
    pub delay_max_us: f64,
}

/// Delays that are remembered: what a receiver sees in some seconds.
const DELAYS_MAX: usize = 1 << 20;

impl Helper for Receive {
    const NAME: &'static str = "receive";
    type Measured = Received;

    fn run(self) -> Result<Received> {
        let end = Interrupt::on_signals()?;
        let mut attached = self.0.attach()?;
        let mut delays = Vec::with_capacity(DELAYS_MAX);
        say_ready()?;
        while end.check().is_ok() {
            let now = now_ns();
            attached.link.receive(|frame, _| {
                let sent = frame.get(HEADERS_LEN..).and_then(|data| data.first_chunk());
                let sent = sent.map_or(now, |bytes| u64::from_ne_bytes(*bytes));
                if delays.len() < DELAYS_MAX {
                    delays.push(now.saturating_sub(sent) as f64 / 1000.0);
                }
            });
            flush(&mut attached.link)?;
        }
        drop(attached.via);
        Ok(Received {
            delay_p99_us: percentile(&mut delays, 0.99),
            delay_max_us: percentile(&mut delays, 1.0),
        })
    }
}

/// Holds as many exact grants as asked for, until it is ended: the first is its port, or the connection from there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub own: Own,
    pub count: u32,
    /// They are connections of the port, the first to this peer; else ports.
    pub connections_to: Option<SocketAddrV4>,
}

impl Hold {
    /// Its port alone.
    pub fn one(own: Own) -> Self {
        Self {
            own,
            count: 1,
            connections_to: None,
        }
    }
}

impl Helper for Hold {
    const NAME: &'static str = "hold";
    type Measured = ();

    fn run(self) -> Result<()> {
        let (mut via, _link) = self.own.via()?;
        let first = self.own.from;
        for number in 0..self.count {
            let (port, remote) = match self.connections_to {
                None => (first.port() + number as u16, None),
                Some(peer) if number == 0 => (first.port(), Some(peer.into())),
                Some(_) => (first.port(), Some(peer(number))),
            };
            let port = PortWish::Number(port);
            via.claim(Protocol::Tcp, (*first.ip()).into(), port, remote)?;
        }
        hold_on()
    }
}

/// One of many peers, with an address of the range for benchmarks (RFC 2544).
fn peer(number: u32) -> SocketAddr {
    ([198, 18, (number >> 8) as u8, number as u8], 50_000).into()
}

/// Claims port after port, and has a packet sent to each by another part of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub own: Own,
    pub count: u32,
}

/// What a program that claims saw.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Claimed {
    /// From asking to the answer: the median.
    pub answer_p50_us: f64,
    /// From asking to the first packet that was delivered by the grant: the median.
    pub effect_p50_us: f64,
    /// The longest.
    pub effect_max_us: f64,
}

/// A packet that has not come by then does not come.
const DELIVERY_TIME: Duration = Duration::from_secs(1);

impl Helper for Claim {
    const NAME: &'static str = "claim";
    type Measured = Claimed;

    fn run(self) -> Result<Claimed> {
        let from = self.own.from;
        let mut sender = self.own.attach()?;
        let (mut via, mut link) = self.own.via()?;
        let macs = (sender.link.mac(), sender.link.mac());
        let (mut answers, mut effects) = (Vec::new(), Vec::new());
        say_ready()?;
        for number in 1..=self.count {
            let to = SocketAddrV4::new(*from.ip(), from.port() + number as u16);
            let frame = Frame::segment(macs, from, to, HEADERS_LEN + 8)?;
            let asked = Instant::now();
            claim_port(&mut via, to)?;
            answers.push(asked.elapsed().as_secs_f64() * 1e6);
            frame.send(&mut sender.link);
            flush(&mut sender.link)?;
            while link.receive(|_, _| {}) == 0 {
                if asked.elapsed() > DELIVERY_TIME {
                    return Err(Error::new(format!("nothing came by the grant of {to}")));
                }
            }
            effects.push(asked.elapsed().as_secs_f64() * 1e6);
            flush(&mut link)?;
            while sender.link.receive(|_, _| {}) > 0 {}
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Claimed {
            answer_p50_us: median(answers),
            effect_max_us: percentile(&mut effects, 1.0),
            effect_p50_us: median(effects),
        })
    }
}

/// Makes one round trip after the other on Linux's sockets, and notes how long each took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ping {
    pub to: SocketAddr,
    pub seconds: f64,
}

/// What it saw.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pinged {
    /// The time of round trips: the median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
}

/// Between two requests: far less than anybody can do, so that what is seen is the way and not the server.
const PING_EVERY: Duration = Duration::from_micros(500);

impl Helper for Ping {
    const NAME: &'static str = "ping";
    type Measured = Pinged;

    fn run(self) -> Result<Pinged> {
        let what = || format!("no round trip to {}", self.to);
        let mut stream = connect(self.to).context(what)?;
        say_ready()?;
        let (mut times, begin) = (Vec::new(), Instant::now());
        while begin.elapsed().as_secs_f64() < self.seconds {
            let asked = Instant::now();
            round_trip(&mut stream).context(what)?;
            times.push(asked.elapsed().as_secs_f64() * 1e6);
            std::thread::sleep(PING_EVERY);
        }
        Ok(Pinged {
            p50_us: percentile(&mut times, 0.5),
            p99_us: percentile(&mut times, 0.99),
        })
    }
}
