//! Both directions: an end that keeps a number of frames under way, and one that sends each back.
//!
//! Frames carry a number. They stay in order, so that those before one that came and did not come themselves are lost, and
//! others are sent for them at once. Both ends poll and have a core each. An end takes in what is there, up to what a veth
//! takes at a time, before it sends: so batches come about, as they do in a program that has much to do.
//!
//! The asking end begins with [`WARMUP`], which does not count.

use super::flood::live_frames;
use super::way::Way;
use crate::limits::CONNECT_TIMEOUT;
use crate::stage::helper::{Helper, say_ready};
use crate::stage::link::{WARMUP, flush, frame_to, open_by};
use exos_host::{Error, Result};
use exos_link::{Link, RX_BATCH, TxMeta};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long nothing comes before all that is under way is taken to be lost: more than an end is kept from its core by others.
const LOST_AFTER: Duration = Duration::from_millis(20);

/// The answering end stops when nothing has come for so long.
const QUIET: Duration = Duration::from_secs(5);

/// Turns between two looks at the clock, which would cost more than a turn that finds nothing to do.
const TURNS_PER_CLOCK: u32 = 64;

/// Frames taken in before anything is sent: what a veth takes at a time.
const TAKEN_MAX: usize = 256;

/// Where in a frame its number is, and where it ends.
const NUMBER: usize = 14;
const HEAD_LEN: usize = NUMBER + 4;

/// Round trips that are timed one by one: those of ten seconds.
const TIMES_MAX: usize = 4 << 20;

/// Keeps frames under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Asker {
    pub way: Way,
    pub frame_len: usize,
    /// How many; a lone one is timed.
    pub under_way: u32,
    pub seconds: f64,
    pub mac: [u8; 6],
}

/// What came back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub round_trips: u64,
    pub seconds: f64,
    pub lost: u64,
    /// Part of all that was sent that left in live frame mode.
    pub live_share: f64,
    /// The time of a lone frame there and back: the median and the 99th percentile.
    pub p50_ns: u32,
    pub p99_ns: u32,
}

impl Asked {
    /// Round trips in a second.
    pub(super) fn per_sec(&self) -> f64 {
        self.round_trips as f64 / self.seconds
    }
}

/// Sends frames back until it is ended, or nothing comes any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answerer {
    pub way: Way,
    pub frame_len: usize,
    pub mac: [u8; 6],
}

/// An end of the wire.
struct End {
    link: Link,
    frame: Vec<u8>,
    sent: u64,
}

impl End {
    fn open(way: Way, mac: [u8; 6], frame_len: usize) -> Result<Self> {
        let choice = way.of_link();
        let choice = choice.ok_or_else(|| Error::new(format!("{way} has no link")))?;
        let link = Link::from(open_by(choice)?);
        let frame = frame_to(&link, mac, frame_len);
        Ok(Self {
            link,
            frame,
            sent: 0,
        })
    }

    /// Calls `take` with the number of each frame that is there.
    fn receive(&mut self, mut take: impl FnMut(u32)) {
        for _ in 0..TAKEN_MAX / RX_BATCH as usize {
            let frames = self.link.receive(|frame, _| {
                let number = frame.get(NUMBER..).and_then(|rest| rest.first_chunk());
                take(u32::from_ne_bytes(*number.unwrap_or(&[0; 4])));
            });
            if frames < RX_BATCH as usize {
                return;
            }
        }
    }

    /// Queues a frame with this number; false when there is no room.
    fn send(&mut self, number: u32) -> bool {
        self.frame[NUMBER..HEAD_LEN].copy_from_slice(&number.to_ne_bytes());
        let (head, body) = self.frame.split_at(HEAD_LEN);
        let queued = self.link.transmit(head, &[body], TxMeta::default());
        self.sent += u64::from(queued);
        queued
    }
}

/// Frames under way: those from `oldest` up to `next`.
#[derive(Default)]
struct UnderWay {
    oldest: u32,
    next: u32,
}

impl UnderWay {
    fn count(&self) -> u32 {
        self.next.wrapping_sub(self.oldest)
    }

    /// A frame came back; how many were lost before it. `None` for one that was taken to be lost.
    fn back(&mut self, number: u32) -> Option<u32> {
        let before = number.wrapping_sub(self.oldest);
        let is_under_way = before < self.count();
        is_under_way.then(|| {
            self.oldest = number.wrapping_add(1);
            before
        })
    }
}

impl Helper for Asker {
    const NAME: &'static str = "link-ask";
    type Measured = Asked;

    fn run(self) -> Result<Asked> {
        let mut end = End::open(self.way, self.mac, self.frame_len)?;
        say_ready()?;
        let mut under_way = UnderWay::default();
        self.ask(&mut end, &mut under_way, WARMUP)?;
        let mut asked = self.ask(
            &mut end,
            &mut under_way,
            Duration::from_secs_f64(self.seconds),
        )?;
        asked.live_share = live_frames(&end.link) as f64 / end.sent.max(1) as f64;
        Ok(asked)
    }
}

impl Asker {
    fn ask(&self, end: &mut End, under_way: &mut UnderWay, time: Duration) -> Result<Asked> {
        let is_lone = self.under_way == 1;
        let (mut round_trips, mut lost, mut times) = (0, 0, Vec::new());
        let begin = Instant::now();
        let (mut now, mut heard, mut asked) = (begin, begin, begin);
        while now - begin < time {
            let before = round_trips;
            for _ in 0..TURNS_PER_CLOCK {
                let before = round_trips;
                end.receive(|number| {
                    if let Some(gone) = under_way.back(number) {
                        lost += u64::from(gone);
                        round_trips += 1;
                    }
                });
                if is_lone && round_trips > before {
                    let came = Instant::now();
                    if times.len() < TIMES_MAX {
                        let time = (came - asked).as_nanos();
                        times.push(time.min(u128::from(u32::MAX)) as u32);
                    }
                    asked = came;
                }
                while under_way.count() < self.under_way && end.send(under_way.next) {
                    under_way.next = under_way.next.wrapping_add(1);
                }
                flush(&mut end.link)?;
            }
            now = Instant::now();
            if round_trips > before {
                heard = now;
            } else if now - heard > LOST_AFTER {
                lost += u64::from(under_way.count());
                under_way.oldest = under_way.next;
                (heard, asked) = (now, now);
            }
        }
        times.sort_unstable();
        let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or(0);
        Ok(Asked {
            round_trips,
            seconds: (now - begin).as_secs_f64(),
            lost,
            live_share: 0.0,
            p50_ns: at(50),
            p99_ns: at(99),
        })
    }
}

impl Helper for Answerer {
    const NAME: &'static str = "link-answer";
    type Measured = ();

    fn run(self) -> Result<()> {
        let mut end = End::open(self.way, self.mac, self.frame_len)?;
        let mut owed = VecDeque::new();
        say_ready()?;
        let mut last = Instant::now() + CONNECT_TIMEOUT;
        loop {
            let mut any = false;
            for _ in 0..TURNS_PER_CLOCK {
                // What does not leave is not added to: the asking end counts as lost what then finds no room.
                if owed.is_empty() {
                    end.receive(|number| owed.push_back(number));
                }
                any |= !owed.is_empty();
                while owed.front().is_some_and(|number| end.send(*number)) {
                    owed.pop_front();
                }
                flush(&mut end.link)?;
            }
            let now = Instant::now();
            if any {
                last = now;
            } else if now > last + QUIET {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_before_one_that_came_are_lost_and_late_ones_are_nothing() {
        let mut under_way = UnderWay {
            oldest: u32::MAX - 1,
            next: 3,
        };
        assert_eq!(under_way.count(), 5);
        assert_eq!(under_way.back(u32::MAX - 1), Some(0));
        assert_eq!(under_way.back(1), Some(2));
        assert_eq!((under_way.back(0), under_way.back(3)), (None, None));
        assert_eq!((under_way.back(2), under_way.count()), (Some(0), 0));
    }
}
