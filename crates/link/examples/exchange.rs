//! How many packets two AF_XDP links can exchange over a veth: the limit that
//! programs over such links are measured against.
//!
//! ```sh
//! cargo build --release -p exos-link --example exchange
//! target/release/examples/exchange [SECONDS]        # as root
//! ```
//!
//! It makes two namespaces joined by a veth, one thread and core for each end,
//! and removes them at the end. Both ends poll. `echo W` keeps W packets going
//! back and forth: every received one is answered by one. `flood` has one end
//! send as fast as it can and the other count. One line for each, in thousands
//! of packets per second of one direction; with `COUNTERS` in the environment,
//! those of both links too. It says something only on a machine that is idle
//! otherwise: a stall is a time in which nothing came for 10 ms.

use std::os::fd::AsFd as _;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use exos_filter::{Action, Filter, Rule};
use exos_host::netlink::VethEnd;
use exos_host::netns::NetNs;
use exos_host::{Error, affinity};
use exos_link::{Link, RX_BATCH, TransmitChoice, TxMeta, XdpConfig, XdpLink};

const INTERFACE: &str = "ve";

/// How long nothing arrives before packets are taken to be lost and sent again.
const LOST_AFTER: Duration = Duration::from_millis(10);

#[derive(Clone, Copy)]
enum Work {
    /// This many packets under way.
    Echo(usize),
    Flood,
}

#[derive(Clone, Copy)]
struct Run {
    work: Work,
    frame_len: usize,
    time: Duration,
}

/// What one end saw.
#[derive(Debug, Default)]
struct Seen {
    received: u64,
    sent: u64,
    stalls: u64,
    counters: Vec<(&'static str, u64)>,
}

/// Two namespaces, removed when dropped.
struct Namespaces([(NetNs, String); 2]);

impl Namespaces {
    fn new() -> Result<Self, Error> {
        let make = |side: &str| -> Result<_, Error> {
            let name = format!("exos-exchange-{}{side}", std::process::id());
            Ok((NetNs::create(&name)?, name))
        };
        let spaces = Self([make("a")?, make("b")?]);
        let [(a, _), (b, _)] = &spaces.0;
        let far = VethEnd {
            netns: Some(b.as_fd()),
            ..VethEnd::named(INTERFACE)
        };
        a.netlink()?
            .create_veth_pair(&VethEnd::named(INTERFACE), &far)?;
        for ns in [a, b] {
            // Nothing but our packets: the kernel would announce itself by IPv6.
            ns.set_sysctl("net/ipv6/conf/all/disable_ipv6", "1")?;
            let netlink = ns.netlink()?;
            netlink.set_up(netlink.link_by_name(INTERFACE)?.index, true)?;
        }
        Ok(spaces)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for (_, name) in &self.0 {
            if let Err(error) = NetNs::delete(name) {
                eprintln!("exchange: {error}");
            }
        }
    }
}

fn main() -> Result<(), Error> {
    let seconds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(2.0);
    let time = Duration::from_secs_f64(seconds);
    let spaces = Namespaces::new()?;
    for frame_len in [60, 1514] {
        for work in [1, 16, 64, 256]
            .map(Work::Echo)
            .into_iter()
            .chain([Work::Flood])
        {
            let run = Run {
                work,
                frame_len,
                time,
            };
            print(run, &both_ends(&spaces, run)?);
        }
    }
    Ok(())
}

fn both_ends(spaces: &Namespaces, run: Run) -> Result<[Seen; 2], Error> {
    let ready = Barrier::new(2);
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|end| {
            let (ns, ready) = (&spaces.0[end].0, &ready);
            scope.spawn(move || one_end(ns, end, run, ready))
        });
        let [a, b] = threads.map(|thread| thread.join().expect("an end does not panic"));
        Ok([a?, b?])
    })
}

/// Opens the link, waits for the other end, and works for the time given.
fn one_end(ns: &NetNs, end: usize, run: Run, ready: &Barrier) -> Result<Seen, Error> {
    let link = open(ns, end);
    // Also when it failed: the other end must not wait for ever.
    ready.wait();
    let mut link = Link::from(link?);
    let mut frame = vec![0xff; run.frame_len];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]); // for local experiments, IEEE 802
    let mut seen = Seen::default();
    match (run.work, end) {
        (Work::Echo(window), 0) => echo(&mut link, &frame, window, run.time, &mut seen),
        (Work::Echo(_), _) => echo(&mut link, &frame, 0, run.time, &mut seen),
        (Work::Flood, 0) => flood(&mut link, &frame, run.time, &mut seen),
        (Work::Flood, _) => count(&mut link, run.time, &mut seen),
    }
    seen.counters = link.counters();
    Ok(seen)
}

fn open(ns: &NetNs, end: usize) -> Result<XdpLink, Error> {
    affinity::pin(end)?;
    ns.enter()?;
    let rules = vec![Rule {
        filter: Filter::everything(),
        action: Action::RedirectToSocket,
    }];
    XdpLink::open(&XdpConfig {
        transmit: match std::env::var("BY").as_deref() {
            Ok("ring") => TransmitChoice::Ring,
            Ok("live") => TransmitChoice::LiveFrames,
            _ => TransmitChoice::Cheaper,
        },
        ..XdpConfig::new(INTERFACE, rules)
    })
}

/// Answers each packet by one; first sends a window, and again when all is lost.
fn echo(link: &mut Link, frame: &[u8], window: usize, time: Duration, seen: &mut Seen) {
    let mut owed = window;
    let mut received_before = 0;
    for_slices_of(time, |is_stalled| {
        if is_stalled && window > 0 && seen.received == received_before {
            owed = window;
            seen.stalls += 1;
        }
        received_before = if is_stalled {
            seen.received
        } else {
            received_before
        };
        let got = link.receive(|_, _| {});
        seen.received += got as u64;
        owed += got;
        seen.sent += send(link, frame, &mut owed);
    });
}

fn flood(link: &mut Link, frame: &[u8], time: Duration, seen: &mut Seen) {
    for_slices_of(time, |_| {
        let mut owed = link.room().min(RX_BATCH as usize);
        seen.sent += send(link, frame, &mut owed);
    });
}

fn count(link: &mut Link, time: Duration, seen: &mut Seen) {
    for_slices_of(time, |_| seen.received += link.receive(|_, _| {}) as u64);
}

/// Calls `turn` for so long, with true every [`LOST_AFTER`]. The clock is read
/// seldom: it would cost more than the turns that find nothing to do.
fn for_slices_of(time: Duration, mut turn: impl FnMut(bool)) {
    const TURNS_PER_CLOCK: u32 = 64;
    let begin = Instant::now();
    let mut slice_end = begin + LOST_AFTER;
    loop {
        let now = Instant::now();
        if now >= begin + time {
            return;
        }
        turn(now >= slice_end);
        if now >= slice_end {
            slice_end = now + LOST_AFTER;
        }
        (1..TURNS_PER_CLOCK).for_each(|_| turn(false));
    }
}

/// Sends what is owed as far as there is room.
fn send(link: &mut Link, frame: &[u8], owed: &mut usize) -> u64 {
    let (head, body) = frame.split_at(54);
    let before = *owed;
    while *owed > 0 && link.transmit(head, &[body], TxMeta::default()) {
        *owed -= 1;
    }
    if let Err(error) = link.flush() {
        panic!("the interface is ours and up: {error}");
    }
    (before - *owed) as u64
}

fn print(run: Run, seen: &[Seen; 2]) {
    let rate = |count: u64| count as f64 / run.time.as_secs_f64() / 1000.0;
    let what = match run.work {
        Work::Echo(window) => format!("echo {window}"),
        Work::Flood => "flood".to_owned(),
    };
    let [a, b] = seen;
    println!(
        "{what:<9} {:>5} B  {:>7.1} kpps there, {:>7.1} back, {} stalls",
        run.frame_len,
        rate(b.received),
        rate(a.received),
        a.stalls
    );
    let interesting = |c: &&(&'static str, u64)| c.1 > 0 && !c.0.ends_with("bytes");
    if std::env::var_os("COUNTERS").is_some() {
        for (end, seen) in ["a", "b"].iter().zip(seen) {
            println!(
                "    {end}: {:?}",
                seen.counters.iter().filter(interesting).collect::<Vec<_>>()
            );
        }
    }
}
