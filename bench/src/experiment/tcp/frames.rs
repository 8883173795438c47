//! Plain frames, without any stack: what the link itself can do.
//!
//! Full frames go one way, and a short one comes back for every second of them, as TCP's acknowledgements do. A window keeps the
//! sender from going faster than the receiver.

use crate::limits::CONNECT_TIMEOUT;
use crate::stage::helper::{Helper, say_ready};
use crate::stage::link::{LinkWay, WARMUP, flush, frame_to, open_by};
use exos_host::{Error, Result};
use exos_link::{Link, TxMeta};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A full-sized frame on a wire with an MTU of 1500.
const FRAME_LEN: usize = 1514;

/// Bytes of an acknowledgement with timestamps and its Ethernet header.
const ANSWER_LEN: usize = 66;

/// A receiver of TCP acknowledges this many segments at once (RFC 9293 §3.8.6.3).
const ANSWER_EVERY: u64 = 2;

/// Frames under way: a sender that goes on regardless keeps the receiver's core from taking what came.
const WINDOW: u64 = 512;

/// How long no answer comes before what is under way is taken to be lost.
const LOST_AFTER: Duration = Duration::from_millis(10);

/// Turns between two looks at the clock, which would cost more than a turn that finds nothing to do.
const TURNS_PER_CLOCK: u32 = 64;

/// Sends frames to a link address as fast as they are answered, until it is ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FrameSender {
    pub way: LinkWay,
    pub mac: [u8; 6],
}

/// Answers frames to a link address, and counts them from [`WARMUP`] after the first one on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FrameReceiver {
    pub way: LinkWay,
    pub mac: [u8; 6],
    pub seconds: f64,
}

impl Helper for FrameReceiver {
    const NAME: &'static str = "frame-receiver";
    /// Frames a second.
    type Measured = f64;

    fn run(self) -> Result<f64> {
        let mut link = Link::from(open_by(self.way)?);
        let answer = frame_to(&link, self.mac, ANSWER_LEN);
        say_ready()?;
        let first = Instant::now() + CONNECT_TIMEOUT;
        let (mut frames, mut answered) = (0, 0);
        while frames == 0 {
            frames = link.receive(|_, _| {}) as u64;
            if Instant::now() > first {
                return Err(Error::new("no frame came in time"));
            }
        }
        let begin = Instant::now() + WARMUP;
        let end = begin + Duration::from_secs_f64(self.seconds);
        let (mut now, mut before) = (Instant::now(), None);
        while now < end {
            for _ in 0..TURNS_PER_CLOCK {
                frames += link.receive(|_, _| {}) as u64;
                while frames - answered >= ANSWER_EVERY {
                    link.transmit(&answer, &[], TxMeta::default());
                    answered += ANSWER_EVERY;
                }
                flush(&mut link)?;
            }
            now = Instant::now();
            if now >= begin {
                before.get_or_insert((frames, now));
            }
        }
        let (before, since) = before.expect("the end is after the beginning");
        Ok((frames - before) as f64 / (now - since).as_secs_f64())
    }
}

impl Helper for FrameSender {
    const NAME: &'static str = "frame-sender";
    type Measured = ();

    fn run(self) -> Result<()> {
        let mut link = Link::from(open_by(self.way)?);
        let frame = frame_to(&link, self.mac, FRAME_LEN);
        let (head, body) = frame.split_at(54);
        say_ready()?;
        let (mut sent, mut confirmed, mut heard) = (0, 0, Instant::now());
        loop {
            for _ in 0..TURNS_PER_CLOCK {
                let answers = link.receive(|_, _| {}) as u64;
                confirmed = sent.min(confirmed + answers * ANSWER_EVERY);
                if answers > 0 {
                    heard = Instant::now();
                }
                while sent - confirmed < WINDOW && link.transmit(head, &[body], TxMeta::default()) {
                    sent += 1;
                }
                flush(&mut link)?;
            }
            if heard.elapsed() > LOST_AFTER {
                (confirmed, heard) = (sent, Instant::now());
            }
        }
    }
}
