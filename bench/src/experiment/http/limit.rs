//! The packet limit of the link: exchanges of the frames of a visit, with nothing done to them.
//!
//! A visit with a connection of its own is three rounds: SYN and SYN-ACK, request and answer, FIN and its
//! acknowledgement; on a connection that stands it is the second alone. An answer that takes several frames is
//! acknowledged at every second one, as TCP does. A server that hands the kernel several segments at once may exceed
//! this limit, which is one of single frames.

use super::packets::{Exchanged, Round};
use super::{Connection, Room, Size};
use crate::report::median;
use exos_host::Result;
use exos_lab::{Lab, Side};
use serde::Serialize;

/// Ethernet, IPv4, TCP with timestamps.
const HEADERS_LEN: usize = 14 + 20 + 32;
/// The same of a SYN, with its options.
const SYN_LEN: usize = HEADERS_LEN + 8;
/// Data of a full segment.
const SEGMENT_LEN: usize = 1448;
/// Our client's request, and the head of an answer: the shortest of those measured.
const REQUEST_LEN: usize = 64;
const HEAD_LEN: usize = 230;

/// Frames that the rings hold: more under way would be lost.
const FRAMES: u32 = 1800;

/// The rounds of a visit.
fn rounds(connection: Connection, size: Size) -> Vec<Round> {
    let bytes = HEAD_LEN + size.bytes() as usize;
    let answers = bytes.div_ceil(SEGMENT_LEN);
    let request = Round {
        ask_len: HEADERS_LEN + REQUEST_LEN,
        answers: answers as u16,
        // Of about the same length each.
        answer_len: HEADERS_LEN + bytes.div_ceil(answers),
        note_every: if answers > 1 { 2 } else { 0 },
    };
    let short = |len| Round {
        ask_len: len,
        answers: 1,
        answer_len: len,
        note_every: 0,
    };
    match connection {
        Connection::Persistent => vec![request],
        Connection::New => vec![short(SYN_LEN), request, short(HEADERS_LEN)],
    }
}

/// How many visits a second the link carries at most, with frames that nobody looks at.
#[derive(Clone, Debug, Serialize)]
pub struct LimitCase {
    /// The frames of this kind of visit.
    pub connection: Connection,
    /// The size of the document in bytes.
    pub size_bytes: u64,
    /// Visits a second: median over the runs.
    pub per_sec: f64,
    /// Each run.
    pub runs: Vec<f64>,
}

impl LimitCase {
    /// Of the runs, where there was one.
    pub(super) fn of(connection: Connection, size: Size, runs: Vec<f64>) -> Option<Self> {
        (!runs.is_empty()).then(|| Self {
            connection,
            size_bytes: size.bytes(),
            per_sec: median(runs.clone()),
            runs,
        })
    }
}

/// Visits a second that the link could carry.
pub(crate) fn measure(room: &Room, lab: &Lab, connection: Connection, size: Size) -> Result<f64> {
    let text = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let answering = room.packets(lab, Side::A, &text(&["answer"]))?;
    let rounds = rounds(connection, size);
    let longest = rounds.iter().map(|round| round.answers).max();
    let fit = (FRAMES / u32::from(longest.unwrap_or(1))).max(1);
    let at_a_time = room.connections.min(fit).to_string();
    let mut arguments = text(&["exchange", "--connections", &at_a_time]);
    for round in rounds {
        arguments.extend(text(&["--rounds", &round.to_string()]));
    }
    let asking = room.packets(lab, Side::B, &arguments)?;
    let exchanged: Exchanged = room.measured(asking, room.seconds.into())?;
    answering.stop()?;
    if exchanged.restarts > 1 {
        room.note(format!(
            "frames were lost in the measurement of the link's limit ({connection}, {size}), which is higher"
        ));
    }
    Ok(exchanged.per_sec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_visit() {
        let text = |connection, bytes| -> Vec<String> {
            let rounds = rounds(connection, Size::of_bytes(bytes));
            // What is written is what is read.
            let read = |text: &String| text.parse::<Round>().expect("frames that exist");
            let texts: Vec<String> = rounds.iter().map(Round::to_string).collect();
            assert_eq!(texts.iter().map(read).collect::<Vec<_>>(), rounds);
            texts
        };
        assert_eq!(text(Connection::Persistent, 100), ["130,1,396,0"]);
        assert_eq!(
            text(Connection::New, 0),
            ["74,1,74,0", "130,1,296,0", "66,1,66,0"]
        );
        let large = text(Connection::Persistent, 1 << 20);
        assert_eq!(large, ["130,725,1513,2"]);
    }
}
