//! Frames between the ends of a wire without any protocol: what the link itself can exchange, one core on each side.
//!
//! One end asks in frames that say how they are to be answered, and the other does so, without a look at anything else. An
//! exchange is some rounds one after the other, and a number of exchanges are under way at a time. With the rounds of a visit
//! that is the limit of what can serve documents over the link; with one frame back for each it is a link's round trips; with
//! full frames that come for short ones it is what a stack of TCP can carry at most. There are no sums, no states of connections,
//! no documents: nothing that exchanges these frames over the link can be faster.
//!
//! Both ends poll. An end takes in what is there, up to what a veth takes at a time, before it sends: so batches come about, as
//! they do in a program that has much to do. The asking end begins with [`WARMUP`], which does not count.

mod frame;
mod under_way;

pub(crate) use frame::Round;

use super::calls::{CallClock, Calls};
use super::helper::{Helper, say_ready};
use super::link::{LinkWay, WARMUP, attach, flush, frame_to, live_frames, open_by};
use super::session::{Stage, mac_of, now_ns};
use exos_host::Result;
use exos_lab::{INTERFACE, Lab, Side};
use exos_link::{Link, RX_BATCH, TxMeta};
use exos_wire::ethernet;
use frame::{FRAME_LEN_MAX, Header};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use under_way::UnderWay;

/// How long nothing comes before all that is under way is taken to be lost: longer than a process waits for its turn on a core
/// that others use too.
const LOST_AFTER_NS: u64 = 50_000_000;

/// Frames taken in before anything is sent: what a veth takes at a time.
const TAKEN_MAX: usize = 256;

/// Times that are remembered of exchanges one at a time: those of ten seconds.
const TIMES_MAX: usize = 4 << 20;

/// Exchanges to be measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Exchange {
    pub seconds: f64,
    /// How many are under way at a time; of one at a time it is measured how long it takes.
    pub at_once: u32,
    /// What each consists of.
    pub rounds: Vec<Round>,
}

/// The end that asks, which measures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Asker {
    way: LinkWay,
    mac: [u8; 6],
    exchange: Exchange,
}

/// The end that answers, until it is ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answerer {
    way: LinkWay,
    mac: [u8; 6],
}

/// What was exchanged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Exchanged {
    pub per_sec: f64,
    /// How many that was.
    pub done: u64,
    /// Questions of which an answer did not come.
    pub lost: u64,
    /// Times that everything under way was begun again, because nothing came.
    pub restarts: u64,
    /// Part of what the asking end sent that left in live frame mode.
    pub live_share: f64,
    /// The asking end's calls that hand frames over.
    pub calls: Calls,
    /// How long each took, of one at a time: the median, and the 99th percentile.
    pub p50_ns: u32,
    pub p99_ns: u32,
}

impl Exchange {
    /// Measures it between the sides of a lab, which both send in this way: side b asks.
    pub fn measure(self, stage: &Stage, lab: &Lab, way: LinkWay) -> Result<Exchanged> {
        let mac = mac_of(lab, Side::B)?.0;
        let answering = stage.help_on(lab, Side::A, &Answerer { way, mac })?;
        let exchanged = self.ask(stage, lab, way)?;
        answering.stop()?;
        Ok(exchanged)
    }

    /// Measures it with nobody at the other end but a program of XDP that sends each frame back as an answer.
    pub fn measure_reflected(self, stage: &Stage, lab: &Lab, way: LinkWay) -> Result<Exchanged> {
        let reflecting = || attach(INTERFACE, "reflect", &frame::reflector());
        let _reflecting = lab.netns(Side::A).run(reflecting)??;
        self.ask(stage, lab, way)
    }

    fn ask(self, stage: &Stage, lab: &Lab, way: LinkWay) -> Result<Exchanged> {
        let (mac, seconds) = (mac_of(lab, Side::A)?.0, self.seconds);
        let asker = Asker {
            way,
            mac,
            exchange: self,
        };
        let asking = stage.help_on(lab, Side::B, &asker)?;
        asking.measured(stage, seconds)
    }
}

/// An end of the wire.
struct End {
    link: Link,
    /// The longest one.
    frame: Vec<u8>,
    sent: u64,
}

impl End {
    fn open(way: LinkWay, mac: [u8; 6]) -> Result<Self> {
        let link = Link::from(open_by(way)?);
        let frame = frame_to(&link, mac, FRAME_LEN_MAX);
        Ok(Self {
            link,
            frame,
            sent: 0,
        })
    }

    /// Queues a frame; false when there is no room.
    fn send(&mut self, header: &Header, len: usize) -> bool {
        let head = ethernet::LEN + Header::LEN;
        header.write(&mut self.frame[ethernet::LEN..head]);
        let (head, body) = self.frame[..len].split_at(head);
        let queued = self.link.transmit(head, &[body], TxMeta::default());
        self.sent += u64::from(queued);
        queued
    }

    /// Takes in what is there; true when there was something.
    fn receive(&mut self, mut take: impl FnMut(Header)) -> bool {
        let mut take = |frame: &[u8]| Header::read(frame).map(&mut take);
        let mut count = 0;
        loop {
            let batch = self.link.receive(|frame, _| {
                take(frame);
            });
            count += batch;
            if batch < RX_BATCH as usize || count >= TAKEN_MAX {
                return count > 0;
            }
        }
    }
}

impl Helper for Answerer {
    const NAME: &'static str = "answerer";
    type Measured = ();

    fn run(self) -> Result<()> {
        let mut end = End::open(self.way, self.mac)?;
        let mut asked: VecDeque<Header> = VecDeque::new();
        say_ready()?;
        loop {
            end.receive(|header| asked.extend(Some(header).filter(Header::is_question)));
            while let Some(header) = asked.front_mut() {
                let is_answer = true;
                let answer = Header {
                    is_answer,
                    ..*header
                };
                if !end.send(&answer, header.answer_len.into()) {
                    break;
                }
                header.answers -= 1;
                if header.answers == 0 {
                    asked.pop_front();
                }
            }
            flush(&mut end.link)?;
        }
    }
}

impl Helper for Asker {
    const NAME: &'static str = "asker";
    type Measured = Exchanged;

    fn run(self) -> Result<Exchanged> {
        let mut asking = Asking {
            end: End::open(self.way, self.mac)?,
            under_way: UnderWay::new(self.exchange.rounds, self.exchange.at_once),
            heard_ns: now_ns(),
            times_ns: (self.exchange.at_once == 1).then(Vec::new),
            calls: CallClock::new()?,
        };
        asking.until(now_ns() + WARMUP.as_nanos() as u64)?;
        asking.times_ns.iter_mut().for_each(Vec::clear);
        say_ready()?;
        let (before, since) = (asking.under_way.counted(), now_ns());
        asking.calls.restart();
        asking.until(since + (self.exchange.seconds * 1e9) as u64)?;
        let counted = asking.under_way.counted() - before;
        let calls = asking.calls.restart();
        let mut times = asking.times_ns.unwrap_or_default();
        times.sort_unstable();
        let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or(0);
        Ok(Exchanged {
            per_sec: counted.done as f64 * 1e9 / (now_ns() - since) as f64,
            done: counted.done,
            lost: counted.lost,
            restarts: counted.restarts,
            live_share: live_frames(&asking.end.link) as f64 / asking.end.sent.max(1) as f64,
            calls,
            p50_ns: at(50),
            p99_ns: at(99),
        })
    }
}

/// The asking end at work.
struct Asking {
    end: End,
    under_way: UnderWay,
    heard_ns: u64,
    /// How long each exchange took, where there is one at a time.
    times_ns: Option<Vec<u32>>,
    calls: CallClock,
}

impl Asking {
    fn until(&mut self, end_ns: u64) -> Result<()> {
        let mut asked_ns = now_ns();
        loop {
            let now = now_ns();
            if now >= end_ns {
                return Ok(());
            }
            let done = self.under_way.counted().done;
            if self.end.receive(|header| self.under_way.handle(header)) {
                self.heard_ns = now;
            } else if now - self.heard_ns > LOST_AFTER_NS {
                self.under_way.restart();
                (self.heard_ns, asked_ns) = (now, now);
            }
            if let Some(times) = &mut self.times_ns
                && self.under_way.counted().done > done
            {
                let came_ns = now_ns();
                if times.len() < TIMES_MAX {
                    times.push(u32::try_from(came_ns - asked_ns).unwrap_or(u32::MAX));
                }
                asked_ns = came_ns;
            }
            let sent = self.end.sent;
            while let Some((header, len)) = self.under_way.out.front()
                && self.end.send(header, *len)
            {
                self.under_way.out.pop_front();
            }
            if self.end.sent > sent {
                self.calls.time(|| flush(&mut self.end.link))?;
            } else {
                flush(&mut self.end.link)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_that_a_wire_carries() {
        let round = |ask_len, answers, answer_len| Round {
            ask_len,
            answers,
            answer_len,
            note_every: 0,
        };
        assert!(round(100, 3, 1514).is_possible() && Round::of_equals(60).is_possible());
        for round in [round(59, 1, 60), round(100, 1, 1515), round(100, 0, 100)] {
            assert!(!round.is_possible(), "{round:?}");
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header {
            is_answer: true,
            answers: 725,
            answer_len: 1513,
            number: 0x0102_0304,
        };
        let mut frame = [0xff; 60];
        header.write(&mut frame[ethernet::LEN..]);
        assert_eq!(Header::read(&frame), Some(header));
        assert!(!header.is_question() && Header::read(&frame[..20]).is_none());
    }
}
