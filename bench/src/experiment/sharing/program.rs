//! The programs that share the interface: each a process of its own without privilege, with a part that the daemon
//! lends. The same on the device itself, where what sharing costs is to be compared, and to send from the other side.
//!
//! A program says `ready` on a line of its own when it has what it needs, and what it measured as a line of JSON.

use super::frames::{Frame, HEADERS_LEN};
use super::options::{Grants, ProgramArgs, ProgramRole, Way};
use super::ping;
use crate::report::median;
use crate::stage::link::{flush, open_text};
use crate::stage::{now_ns, print_measured};
use exos::via::Via;
use exos_host::{Error, Result, error::Context as _};
use exos_link::{Link, RX_BATCH};
use exos_wire::Mac;
use exos_xok::Protocol;
use exos_xok::message::{Mode, PortWish};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Does as the command line says.
pub fn program(args: &ProgramArgs) -> Result<ExitCode> {
    match args.role {
        ProgramRole::Send => print_measured(&send(args)?),
        ProgramRole::Receive => print_measured(&receive(args)?),
        ProgramRole::Idle => idle(args)?,
        ProgramRole::Claim => print_measured(&claim(args)?),
        ProgramRole::Hold => hold(args)?,
        ProgramRole::Ping => ping::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn say_ready() -> Result<()> {
    let mut out = std::io::stdout();
    let said = writeln!(out, "ready").and_then(|()| out.flush());
    said.context(|| "cannot say that it is ready")
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Where packets come from and go to.
struct Attached {
    link: Link,
    /// The daemon's part, as long as it is held.
    via: Option<Via>,
}

impl ProgramArgs {
    fn from(&self) -> Result<SocketAddr> {
        self.from.ok_or(Error::new("this program needs --from"))
    }

    fn via(&self) -> Result<(Via, Link)> {
        let socket = self.xokd.as_deref();
        let socket = socket.ok_or(Error::new("this program needs --xokd"))?;
        let (via, link) = Via::open(socket, None, Mode::Shared, "bench")?;
        Ok((via, Link::from(link)))
    }

    /// Our part with our port, or the device with what comes for it.
    fn attach(&self) -> Result<Attached> {
        let from = self.from()?;
        if self.xokd.is_some() {
            let (mut via, link) = self.via()?;
            claim_port(&mut via, from)?;
            let via = Some(via);
            return Ok(Attached { link, via });
        }
        let filter = format!("tcp dst port {} and dst host {}", from.port(), from.ip());
        let link = open_text(&filter)?;
        Ok(Attached { link, via: None })
    }
}

fn claim_port(via: &mut Via, from: SocketAddr) -> Result<()> {
    let port = PortWish::Number(from.port());
    via.claim(Protocol::Tcp, from.ip(), port, None)?;
    Ok(())
}

/// Frames for one receiver.
struct Flow {
    frame: Frame,
    /// Bits a second; `None` for as many as go.
    rate: Option<u64>,
    sent: u64,
    /// Frames that were due too long ago.
    missed: u64,
}

/// A sender that was kept from sending for longer than this does not make up for all of it.
const MAKE_UP: Duration = Duration::from_millis(20);

impl Flow {
    /// How many frames are due after so long.
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

fn flows(args: &ProgramArgs, mac: Mac) -> Result<Vec<Flow>> {
    let from = args.from()?;
    let macs = (
        mac,
        args.mac.ok_or(Error::new("frames need --mac to go to"))?,
    );
    let flow = |to: SocketAddr, rate: Option<u64>| -> Result<Flow> {
        let frame = match args.way {
            Way::Ring => Frame::segment(macs, from, to, args.bytes)?,
            Way::Packet => Frame::super_packet(macs, from, to)?,
        };
        Ok(Flow {
            frame,
            rate,
            sent: 0,
            missed: 0,
        })
    };
    let to = [(args.also_to, args.also_rate), (args.to, args.rate)];
    let flows = to
        .into_iter()
        .filter_map(|(to, rate)| Some(flow(to?, rate)));
    flows.collect()
}

/// How long a sender with nothing due sleeps.
const PACE: Duration = Duration::from_micros(50);

/// What a sender did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sent {
    /// Frames that were handed to the kernel.
    pub frames: u64,
    /// Processor time that it took, soft interrupts that ran meanwhile included.
    pub cpu_seconds: f64,
}

/// Set by SIGTERM.
fn stop_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, stop.clone())
        .context(|| "cannot watch for signals")?;
    Ok(stop)
}

/// Sends until it is ended.
fn send(args: &ProgramArgs) -> Result<Sent> {
    let stop = stop_signal()?;
    let mut attached = args.attach()?;
    let mut flows = flows(args, attached.link.mac())?;
    say_ready()?;
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    while !stop.load(Ordering::Relaxed) {
        let mut any = false;
        for flow in &mut flows {
            // Half of the room, so that who has a schedule finds some in the next turn.
            let room = (attached.link.room() as u64)
                .div_ceil(2)
                .min(u64::from(RX_BATCH));
            let room = if args.way == Way::Packet { 1 } else { room };
            for _ in 0..flow.due(begin.elapsed()).min(room) {
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
        cpu_seconds: cpu_seconds() - cpu,
    })
}

/// Sends a frame with the time in it. Its checksum is not that of the time: nobody looks.
fn send_one(link: &mut Link, flow: &mut Flow) -> bool {
    let at = HEADERS_LEN..HEADERS_LEN + 8;
    flow.frame.bytes[at].copy_from_slice(&now_ns().to_ne_bytes());
    let (head, body) = flow.frame.parts();
    let sent = link.transmit(head, &[body], flow.frame.meta);
    flow.sent += u64::from(sent);
    sent
}

/// What a receiver saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Received {
    /// Frames.
    pub frames: u64,
    /// From being handed over to being seen: the median.
    pub delay_p50_us: f64,
    /// The 99th percentile.
    pub delay_p99_us: f64,
    /// The longest.
    pub delay_max_us: f64,
}

/// Delays that are remembered: what a receiver sees in some seconds. Later ones are only counted.
const DELAYS_MAX: usize = 1 << 20;

/// Counts until it is ended.
fn receive(args: &ProgramArgs) -> Result<Received> {
    let stop = stop_signal()?;
    let mut attached = args.attach()?;
    let mut delays = Vec::with_capacity(DELAYS_MAX);
    let mut frames = 0;
    say_ready()?;
    while !stop.load(Ordering::Relaxed) {
        let now = now_ns();
        let got = attached.link.receive(|frame, _| {
            let sent = frame.get(HEADERS_LEN..).and_then(|data| data.first_chunk());
            let sent = sent.map_or(now, |bytes| u64::from_ne_bytes(*bytes));
            if delays.len() < DELAYS_MAX {
                delays.push(now.saturating_sub(sent));
            }
        });
        frames += got as u64;
        flush(&mut attached.link)?;
    }
    drop(attached.via);
    delays.sort_unstable();
    let us = |part: f64| {
        let at = (delays.len() as f64 * part) as usize;
        let last = delays.len().saturating_sub(1);
        delays
            .get(at.min(last))
            .map_or(0.0, |ns| *ns as f64 / 1000.0)
    };
    Ok(Received {
        frames,
        delay_p50_us: us(0.5),
        delay_p99_us: us(0.99),
        delay_max_us: us(1.0),
    })
}

/// Holds its part until it is ended.
fn idle(args: &ProgramArgs) -> Result<()> {
    let _attached = args.attach()?;
    say_ready()?;
    loop {
        std::thread::park();
    }
}

/// Holds many exact grants until it is ended: the first is the port of `--from`, or its connection with `--to`.
fn hold(args: &ProgramArgs) -> Result<()> {
    let from = args.from()?;
    let (mut via, _link) = args.via()?;
    for number in 0..args.count {
        let (port, remote) = match args.grants {
            Grants::Ports => (from.port() + number as u16, None),
            Grants::Connections if number == 0 => (from.port(), args.to),
            Grants::Connections => (from.port(), Some(peer(number))),
        };
        let port = PortWish::Number(port);
        via.claim(Protocol::Tcp, from.ip(), port, remote)?;
    }
    say_ready()?;
    loop {
        std::thread::park();
    }
}

/// One of many peers, with an address of the range for benchmarks (RFC 2544).
fn peer(number: u32) -> SocketAddr {
    ([198, 18, (number >> 8) as u8, number as u8], 50_000).into()
}

/// What anyone who claims saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Claimed {
    /// From asking to the answer: the median.
    pub answer_p50_us: f64,
    /// From asking to the first packet that was delivered by the grant: the median.
    pub effect_p50_us: f64,
    /// The longest.
    pub effect_max_us: f64,
}

/// A packet that has not come by then does not come.
const DELIVERY_TIME: Duration = Duration::from_secs(1);

/// Claims ports one after the other, and has a packet sent to each by another part of ours.
fn claim(args: &ProgramArgs) -> Result<Claimed> {
    let from = args.from()?;
    let mut sender = args.attach()?;
    let (mut via, mut link) = args.via()?;
    let macs = (sender.link.mac(), sender.link.mac());
    let (mut answers, mut effects) = (Vec::new(), Vec::new());
    say_ready()?;
    for number in 1..=args.count {
        let to = SocketAddr::new(from.ip(), from.port() + number as u16);
        let frame = Frame::segment(macs, from, to, HEADERS_LEN + 8)?;
        let asked = Instant::now();
        claim_port(&mut via, to)?;
        answers.push(asked.elapsed().as_secs_f64() * 1e6);
        let (head, body) = frame.parts();
        sender.link.transmit(head, &[body], frame.meta);
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
        effect_max_us: effects.iter().copied().fold(0.0, f64::max),
        effect_p50_us: median(effects),
    })
}
