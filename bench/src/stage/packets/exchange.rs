//! The same frames without any protocol: what the link itself can exchange, one core on each side.
//!
//! Anyone who visits asks in frames that say how they are to be answered, and the other side does so, without a look at
//! anything else. An exchange is some rounds one after the other, as a visit is; this many of them are under way as there
//! are connections. There are no sums, no states of connections, no documents: nothing that serves documents over the
//! link with these frames can be faster.
//!
//! ```text
//!  Ethernet (14) | kind (1) | generation (1) | answers (2) | answer length (2) | number of the exchange (4) | padding
//! ```

use crate::stage::helper::{Helper, say_ready};
use crate::stage::link::{EXPERIMENT, LinkWay, WARMUP, flush, open_by};
use crate::stage::session::{Stage, mac_of, now_ns};
use exos_host::Result;
use exos_lab::{Lab, Side};
use exos_link::{Link, TxMeta};
use exos_wire::Mac;
use exos_wire::ethernet::{self, EthernetHeader};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

const FRAME_LEN_MAX: usize = 1514;
const FRAME_LEN_MIN: usize = 60;

/// How long nothing comes before what is under way is taken to be lost, and begun again: longer than a process waits for
/// its turn on a core that others use too.
const LOST_AFTER_NS: u64 = 100_000_000;
/// Batches taken in before anything is sent.
const BATCHES: usize = 8;

/// A question to be answered.
const ASK: u8 = 0;
/// An answer.
const ANSWER: u8 = 1;
/// An acknowledgement, which nobody answers.
const NOTE: u8 = 2;

/// One question, the frames that answer it, and the acknowledgements among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    pub ask_len: usize,
    pub answers: u16,
    pub answer_len: usize,
    /// A short frame goes back after this many answers; 0: none.
    pub note_every: u16,
}

impl Round {
    /// Frames have lengths that a wire carries, and there is an answer.
    pub fn is_possible(&self) -> bool {
        let lengths = FRAME_LEN_MIN..=FRAME_LEN_MAX;
        [self.ask_len, self.answer_len]
            .iter()
            .all(|len| lengths.contains(len))
            && self.answers > 0
    }
}

/// Exchanges to be measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Exchange {
    pub seconds: f64,
    /// How many are under way at a time.
    pub connections: u32,
    /// What each consists of.
    pub rounds: Vec<Round>,
}

/// The side that asks, which measures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ask {
    way: LinkWay,
    mac: [u8; 6],
    exchange: Exchange,
}

/// The side that answers, until it is ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    way: LinkWay,
    mac: [u8; 6],
}

impl Exchange {
    /// Measures it between the sides of a lab, which both send in this way: side b asks.
    pub fn measure(self, stage: &Stage, lab: &Lab, way: LinkWay) -> Result<Exchanged> {
        let side = |side| lab.command(side, &stage.helpers);
        let mac = mac_of(lab, Side::B)?.0;
        let answering = stage.help(side(Side::A)?, stage.cores[0], &Answer { way, mac })?;
        let (mac, seconds) = (mac_of(lab, Side::A)?.0, self.seconds);
        let ask = Ask {
            way,
            mac,
            exchange: self,
        };
        let asking = stage.help(side(Side::B)?, stage.cores[1], &ask)?;
        let exchanged = asking.measured(stage, seconds)?;
        answering.stop()?;
        Ok(exchanged)
    }
}

/// What was exchanged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Exchanged {
    pub per_sec: f64,
    /// Times that everything under way was begun again, because nothing came.
    pub restarts: u64,
}

/// The part of a frame after Ethernet that means something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Header {
    kind: u8,
    generation: u8,
    answers: u16,
    answer_len: u16,
    number: u32,
}

impl Header {
    const LEN: usize = 10;

    fn read(frame: &[u8]) -> Option<Self> {
        let bytes = frame.get(ethernet::LEN..)?.first_chunk::<{ Self::LEN }>()?;
        Some(Self {
            kind: bytes[0],
            generation: bytes[1],
            answers: u16::from_be_bytes([bytes[2], bytes[3]]),
            answer_len: u16::from_be_bytes([bytes[4], bytes[5]]),
            number: u32::from_be_bytes([bytes[6], bytes[7], bytes[8], bytes[9]]),
        })
    }

    /// Something that can be answered.
    fn is_question(&self) -> bool {
        let lengths = FRAME_LEN_MIN..=FRAME_LEN_MAX;
        self.kind == ASK && self.answers > 0 && lengths.contains(&self.answer_len.into())
    }

    fn write(&self) -> [u8; Self::LEN] {
        let mut bytes = [self.kind, self.generation, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&self.answers.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.answer_len.to_be_bytes());
        bytes[6..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }
}

/// Sends frames of any length.
struct Sender {
    link: Link,
    head: [u8; ethernet::LEN + Header::LEN],
}

static PADDING: [u8; FRAME_LEN_MAX] = [0xff; FRAME_LEN_MAX];

impl Sender {
    fn open(way: LinkWay, mac: [u8; 6]) -> Result<Self> {
        let link = Link::from(open_by(way)?);
        let mut head = [0; ethernet::LEN + Header::LEN];
        let header = EthernetHeader {
            dst: Mac(mac),
            src: link.mac(),
            vlan: None,
            ethertype: EXPERIMENT,
        };
        header.emit(&mut head);
        Ok(Self { link, head })
    }

    /// False when there is no room.
    fn send(&mut self, header: &Header, len: usize) -> bool {
        self.head[ethernet::LEN..].copy_from_slice(&header.write());
        let padding = &PADDING[..len - self.head.len()];
        self.link
            .transmit(&self.head, &[padding], TxMeta::default())
    }

    fn receive(&mut self, mut take: impl FnMut(Header)) -> usize {
        let mut count = 0;
        for _ in 0..BATCHES {
            let batch = self.link.receive(|frame, _| {
                if let Some(header) = Header::read(frame) {
                    take(header);
                }
            });
            count += batch;
            if batch < exos_link::RX_BATCH as usize {
                break;
            }
        }
        count
    }
}

impl Helper for Answer {
    const NAME: &'static str = "answer";
    type Measured = ();

    fn run(self) -> Result<()> {
        answer(Sender::open(self.way, self.mac)?)
    }
}

impl Helper for Ask {
    const NAME: &'static str = "exchange";
    type Measured = Exchanged;

    fn run(self) -> Result<Exchanged> {
        exchange(Sender::open(self.way, self.mac)?, self.exchange)
    }
}

fn answer(mut sender: Sender) -> Result<()> {
    say_ready()?;
    let mut asked: VecDeque<Header> = VecDeque::new();
    loop {
        let got = sender.receive(|header| {
            if header.is_question() {
                asked.push_back(header);
            }
        });
        let mut sent = false;
        while let Some(header) = asked.front_mut() {
            let kind = ANSWER;
            let answer = Header { kind, ..*header };
            if !sender.send(&answer, header.answer_len.into()) {
                break;
            }
            sent = true;
            header.answers -= 1;
            if header.answers == 0 {
                asked.pop_front();
            }
        }
        if got > 0 || sent {
            flush(&mut sender.link)?;
        }
    }
}

/// One exchange under way.
#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    round: usize,
    /// Answers that have come in this round.
    answers: u16,
}

fn exchange(mut sender: Sender, settings: Exchange) -> Result<Exchanged> {
    assert!(settings.rounds.iter().all(Round::is_possible));
    let begin = now_ns() + WARMUP.as_nanos() as u64;
    let end = begin + (settings.seconds * 1e9) as u64;
    let mut all = Exchanges::new(settings);
    let (mut heard, mut done_before) = (now_ns(), None);
    loop {
        let now = now_ns();
        if now >= begin && done_before.is_none() {
            done_before = Some((all.done, now));
            say_ready()?;
        }
        if now >= end {
            break;
        }
        if sender.receive(|header| all.handle(header)) > 0 {
            heard = now;
        } else if now - heard > LOST_AFTER_NS {
            all.restart();
            heard = now;
        }
        while let Some((header, len)) = all.out.front()
            && sender.send(header, *len)
        {
            all.out.pop_front();
        }
        flush(&mut sender.link)?;
    }
    let (before, since) = done_before.expect("the end is after the beginning");
    Ok(Exchanged {
        per_sec: (all.done - before) as f64 * 1e9 / (now_ns() - since) as f64,
        restarts: all.restarts,
    })
}

/// All that are under way.
struct Exchanges {
    rounds: Vec<Round>,
    under_way: Vec<UnderWay>,
    generation: u8,
    out: VecDeque<(Header, usize)>,
    done: u64,
    restarts: u64,
}

impl Exchanges {
    fn new(settings: Exchange) -> Self {
        let mut all = Self {
            rounds: settings.rounds,
            under_way: vec![UnderWay::default(); settings.connections as usize],
            generation: 0,
            out: VecDeque::new(),
            done: 0,
            restarts: 0,
        };
        all.begin();
        all
    }

    fn begin(&mut self) {
        self.out.clear();
        for number in 0..self.under_way.len() as u32 {
            self.under_way[number as usize] = UnderWay::default();
            self.ask(number);
        }
    }

    /// Begins everything again; what is still under way is of another generation.
    fn restart(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.restarts += 1;
        self.begin();
    }

    fn ask(&mut self, number: u32) {
        let round = self.rounds[self.under_way[number as usize].round];
        self.out
            .push_back((self.header(ASK, number, round), round.ask_len));
    }

    fn header(&self, kind: u8, number: u32, round: Round) -> Header {
        Header {
            kind,
            generation: self.generation,
            answers: round.answers,
            answer_len: round.answer_len as u16,
            number,
        }
    }

    fn handle(&mut self, header: Header) {
        let number = header.number;
        let ours = header.kind == ANSWER && header.generation == self.generation;
        let Some(exchange) = self.under_way.get_mut(number as usize).filter(|_| ours) else {
            return;
        };
        let round = self.rounds[exchange.round];
        exchange.answers += 1;
        if exchange.answers < round.answers {
            if round.note_every > 0 && exchange.answers.is_multiple_of(round.note_every) {
                let note = self.header(NOTE, number, round);
                self.out.push_back((note, FRAME_LEN_MIN));
            }
            return;
        }
        exchange.answers = 0;
        exchange.round = (exchange.round + 1) % self.rounds.len();
        self.done += u64::from(exchange.round == 0);
        self.ask(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn round(ask_len: usize, answers: u16, answer_len: usize, note_every: u16) -> Round {
        Round {
            ask_len,
            answers,
            answer_len,
            note_every,
        }
    }

    #[test]
    fn rounds_that_a_wire_carries() {
        assert!(round(100, 3, 1514, 2).is_possible());
        for round in [
            round(59, 1, 60, 0),
            round(100, 1, 1515, 0),
            round(100, 0, 100, 0),
        ] {
            assert!(!round.is_possible(), "{round:?}");
        }
    }

    /// Two rounds: one frame each way, then three answers with a note after the second.
    #[test]
    fn an_exchange_is_done_when_its_last_round_is_answered() {
        let mut all = Exchanges {
            rounds: vec![round(60, 1, 60, 0), round(100, 3, 1514, 2)],
            under_way: vec![UnderWay::default(); 2],
            generation: 0,
            out: VecDeque::new(),
            done: 0,
            restarts: 0,
        };
        all.begin();
        let sent = |all: &mut Exchanges| -> Vec<(u8, u32, usize)> {
            let sent = all.out.drain(..);
            sent.map(|(h, len)| (h.kind, h.number, len)).collect()
        };
        assert_eq!(sent(&mut all), [(ASK, 0, 60), (ASK, 1, 60)]);
        let answer = |all: &mut Exchanges| {
            let header = all.header(ANSWER, 1, all.rounds[0]);
            all.handle(Header::read(&[&[0; 14][..], &header.write()].concat()).expect("whole"));
        };
        answer(&mut all);
        assert_eq!(sent(&mut all), [(ASK, 1, 100)]);
        (0..2).for_each(|_| answer(&mut all));
        assert_eq!((sent(&mut all), all.done), (vec![(NOTE, 1, 60)], 0));
        answer(&mut all);
        assert_eq!((sent(&mut all), all.done), (vec![(ASK, 1, 60)], 1));
        // Of the first of them an answer comes after everything was begun again: it counts for nothing.
        let late = all.header(ANSWER, 0, all.rounds[0]);
        all.restart();
        assert_eq!(sent(&mut all).len(), 2);
        all.handle(late);
        assert!(sent(&mut all).is_empty());
    }
}
