//! The loop: visitors that ask one request after the other, or at a given rate, and slow readers beside them.

use super::beside::Beside;
use super::frames::Wire;
use super::settings::Visit;
use super::visited::Visited;
use super::visitors::{Counts, Visitors};
use crate::stage::calls::CallClock;
use crate::stage::helper::{Helper, say_ready};
use crate::stage::session::now_ns;
use exos_host::Result;
use exos_wire::Mac;
use std::time::Duration;

/// What is not measured at the beginning: connections are made, the server's caches are warm by then.
const WARMUP_NS: u64 = 300_000_000;
/// What is not measured with slow readers, who need longer until they have filled their windows.
const SLOW_WARMUP_NS: u64 = 2_000_000_000;
/// Frames of a burst that are sent without a rest, and the rest.
const PART: usize = 128;
const PART_REST: Duration = Duration::from_micros(50);

impl Helper for Visit {
    const NAME: &'static str = "visit";
    type Measured = Visited;

    fn run(self) -> Result<Visited> {
        visit(&self)
    }
}

fn visit(args: &Visit) -> Result<Visited> {
    let mut beside = Beside::open(args)?;
    let wire = Wire::open(Mac(args.mac), args.to, args.queues)?;
    beside.as_mut().map_or(Ok(()), Beside::await_go)?;
    let mut client = Client::new(args, wire)?;
    let (mut last, mut worked, mut measuring) = (now_ns(), true, false);
    loop {
        let now = now_ns();
        if !worked {
            client.visitors.counts.idle_ns += now - last;
        }
        last = now;
        if !measuring && now >= client.times.begin {
            client.restart(now);
            say_ready()?;
            measuring = true;
        }
        if client.is_over(now) {
            return client.finish();
        }
        worked = client.turn(now)?;
        if let Some(beside) = &mut beside {
            worked |= beside.turn()?;
        }
    }
}

/// Visitors, and what they send by.
struct Client {
    visitors: Visitors,
    wire: Wire,
    calls: CallClock,
    times: Times,
    /// Between bursts.
    pause: Option<Duration>,
}

impl Client {
    fn new(args: &Visit, wire: Wire) -> Result<Self> {
        let now = now_ns();
        Ok(Self {
            visitors: Visitors::new(args, now),
            wire,
            calls: CallClock::new()?,
            times: Times::new(args, now),
            pause: args.pause_ms.map(Duration::from_millis),
        })
    }

    /// Begins to count.
    fn restart(&mut self, now: u64) {
        self.visitors.counts = Counts::new(now);
        self.calls.restart();
    }

    fn is_over(&self, now: u64) -> bool {
        now >= self.times.end && self.visitors.is_over(now, self.times.end)
    }

    /// Takes in what has come, and sends what is to be sent; whether there was something to do.
    fn turn(&mut self, now: u64) -> Result<bool> {
        let visitors = &mut self.visitors;
        let got = self
            .wire
            .receive(|tuple, segment| visitors.handle(tuple, segment, now));
        visitors.acknowledge(if got == 0 { 1 } else { 2 });
        visitors.pass(now, now < self.times.end);
        let worked = got > 0 || !visitors.out.is_empty();
        if self.pause.is_some() && got > 0 {
            return Ok(true); // First all that has come.
        }
        if worked || self.pause.is_some() {
            self.send(now, self.pause.is_some())?;
        }
        self.pause.into_iter().for_each(std::thread::sleep);
        Ok(worked)
    }

    /// Sends what is to be sent, and gives memory of what was received back. In bursts it rests between parts: a veth keeps 256
    /// frames that nobody has taken in, and who takes them in, a soft interrupt, may wait for this core.
    fn send(&mut self, now: u64, is_burst: bool) -> Result<()> {
        let (visitors, wire) = (&mut self.visitors, &mut self.wire);
        let hands_over = !visitors.out.is_empty();
        for (sent, (group, reply)) in visitors.out.drain(..).enumerate() {
            if is_burst && sent > 0 && sent % PART == 0 {
                wire.flush()?;
                std::thread::sleep(PART_REST);
            }
            let request = &visitors.groups[group].request;
            wire.send(&reply, request, (now / 1_000_000) as u32);
        }
        match hands_over {
            true => self.calls.time(|| wire.flush()),
            false => wire.flush(),
        }
    }

    /// What was seen; connections that are open are closed by resets.
    fn finish(mut self) -> Result<Visited> {
        let calls = self.calls.restart();
        let visited = self.visitors.visited(self.times.end, &self.wire, calls);
        self.visitors.abort();
        self.send(now_ns(), self.pause.is_some())?;
        Ok(visited)
    }
}

struct Times {
    begin: u64,
    end: u64,
}

impl Times {
    fn new(args: &Visit, now: u64) -> Self {
        let warmup = if args.slow > 0 {
            SLOW_WARMUP_NS
        } else {
            WARMUP_NS
        };
        let begin = now + warmup;
        let end = begin + (args.seconds * 1e9) as u64;
        Self { begin, end }
    }
}
