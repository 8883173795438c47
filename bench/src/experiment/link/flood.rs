//! One direction: an end that sends batch after batch as fast as it can, and one that counts what comes.
//!
//! Both poll, have a core each, and stop by themselves: the sender after its time, the receiver when nothing has come for a
//! while.

use super::socket;
use super::way::Way;
use crate::limits::CONNECT_TIMEOUT;
use crate::stage::cpu::OwnTime;
use crate::stage::helper::{Helper, say_ready};
use crate::stage::link::{LinkWay, flush, frame_to, live_frames, open_by};
use exos_host::{Error, Result, affinity};
use exos_link::{Link, TxMeta};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A receiver to which nothing has come for so long has seen all: a sender that has its core pauses for some milliseconds at
/// most, when other programs want that too.
const QUIET: Duration = Duration::from_millis(300);

/// A turn of the receiver that took longer was interrupted: 64 of the longest frames take some 50 µs.
const TURN_MAX: Duration = Duration::from_millis(1);

/// Turns between two looks at the clock of the sender, which would cost more than a lone frame.
const TURNS_PER_CLOCK: u32 = 16;

/// Sends batches of frames to a link address as fast as they leave.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sender {
    pub way: Way,
    pub frame_len: usize,
    pub batch: usize,
    pub seconds: f64,
    pub mac: [u8; 6],
}

/// What it sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub frames: u64,
    /// Of those in live frame mode.
    pub live_frames: u64,
    /// Time of its core.
    pub core_ns: u64,
}

/// Counts frames until none come any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Receiver {
    /// By a socket rather than a link.
    pub by_socket: bool,
}

/// What came.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Received {
    pub frames: u64,
    /// From the first to the last.
    pub seconds: f64,
    /// Time of its core in turns that found frames.
    pub core_ns: u64,
}

impl Helper for Sender {
    const NAME: &'static str = "link-sender";
    type Measured = Sent;

    fn run(self) -> Result<Sent> {
        let Some(way) = self.way.of_link() else {
            return socket::with_sender(self.frame_len, self.batch, |send| self.flood(send));
        };
        let mut link = Link::from(open_by(way)?);
        let frame = frame_to(&link, self.mac, self.frame_len);
        let sent = self.flood(&mut || {
            let full = |_: &usize| !link.transmit(&frame, &[], TxMeta::default());
            let queued = (0..self.batch).find(full).unwrap_or(self.batch);
            flush(&mut link)?;
            Ok(queued as u64)
        })?;
        let live_frames = live_frames(&link);
        Ok(Sent {
            live_frames,
            ..sent
        })
    }
}

impl Sender {
    fn flood(&self, send: &mut dyn FnMut() -> Result<u64>) -> Result<Sent> {
        let core = affinity::allowed()?.first().copied().unwrap_or(0);
        say_ready()?;
        let time = OwnTime::begin(core)?;
        let end = Instant::now() + Duration::from_secs_f64(self.seconds);
        let mut frames = 0;
        while Instant::now() < end {
            for _ in 0..TURNS_PER_CLOCK {
                frames += send()?;
            }
        }
        Ok(Sent {
            frames,
            live_frames: 0,
            core_ns: time.spent_ns(),
        })
    }
}

impl Helper for Receiver {
    const NAME: &'static str = "link-receiver";
    type Measured = Received;

    fn run(self) -> Result<Received> {
        if self.by_socket {
            let socket = socket::receiver()?;
            return count(|| socket::receive(&socket));
        }
        let mut link = Link::from(open_by(LinkWay::Cheaper)?);
        count(|| {
            let frames = link.receive(|_, _| {}) as u64;
            flush(&mut link)?;
            Ok(frames)
        })
    }
}

fn count(mut take: impl FnMut() -> Result<u64>) -> Result<Received> {
    say_ready()?;
    let mut received = Received::default();
    let mut now = Instant::now();
    let (mut first, mut last) = (None, now + CONNECT_TIMEOUT);
    loop {
        let frames = take()?;
        let before = std::mem::replace(&mut now, Instant::now());
        if frames > 0 {
            received.frames += frames;
            let took = now - before;
            received.core_ns += took.min(TURN_MAX).as_nanos() as u64;
            first.get_or_insert(before);
            last = now;
            continue;
        }
        match first {
            Some(first) if now - last > QUIET => {
                received.seconds = (last - first).as_secs_f64();
                return Ok(received);
            }
            None if now > last => return Err(Error::new("no frame came in time")),
            _ => {}
        }
    }
}
