//! The packet limit of the link: exchanges of the frames of a visit, with nothing done to them, by the best of the ways that
//! the link has.
//!
//! A visit with a connection of its own is three rounds: SYN and SYN-ACK, request and answer, FIN and its
//! acknowledgement; on a connection that stands it is the second alone. An answer that takes several frames is
//! acknowledged at every second one, as TCP does. A server that hands the kernel several segments at once may exceed
//! this limit, which is one of single frames.

use super::args::ReceiveOn;
use super::stage::WebStage;
use crate::stage::calls::Bare;
use crate::stage::exchange::{Exchange, Round};
use crate::stage::link::{Best, LinkWay};
use crate::stage::request::{Connection, Size};
use exos_host::Result;
use exos_lab::Lab;

/// Ethernet, IPv4, TCP with timestamps.
const HEADERS_LEN: usize = 14 + 20 + 32;
/// Headers of a SYN, with its options.
const SYN_LEN: usize = HEADERS_LEN + 8;
/// Data of a full segment.
const SEGMENT_LEN: usize = 1448;
/// Our client's request, and the head of an answer: the shortest of those measured.
const REQUEST_LEN: usize = 64;
const HEAD_LEN: usize = 230;

/// Frames that the rings hold: more under way would be lost.
const FRAMES: u32 = 1800;

/// How long each way is measured at most: it is done before each run of a load, by several ways.
const SECONDS_MAX: f64 = 0.5;

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
    match connection {
        Connection::Persistent => vec![request],
        Connection::New => vec![
            Round::of_equals(SYN_LEN),
            request,
            Round::of_equals(HEADERS_LEN),
        ],
    }
}

/// Visits a second that the link could carry.
pub(crate) fn measure(
    stage: &WebStage,
    lab: &Lab,
    connection: Connection,
    size: Size,
) -> Result<Best> {
    let rounds = rounds(connection, size);
    let longest = rounds.iter().map(|round| round.answers).max();
    let fit = (FRAMES / u32::from(longest.unwrap_or(1))).max(1);
    let mut losing = Vec::new();
    let best = Best::of(lab, |way| {
        let exchange = Exchange {
            seconds: SECONDS_MAX.min(stage.seconds),
            at_once: stage.connections.min(fit),
            rounds: rounds.clone(),
        };
        let exchanged = exchange.measure(stage, lab, way)?;
        if exchanged.restarts > 1 {
            losing.push(way);
        }
        Ok(exchanged.per_sec)
    })?;
    if losing.contains(&best.way) {
        stage.note(format!(
            "frames were lost in the measurement of the link's limit ({connection}, {size}), which is higher"
        ));
    }
    Ok(best)
}

/// What the client's calls take that hand over the frames of a visit, with a program of XDP at the other end that sends each frame back at once. `None` where
/// an answer takes several frames, where ends receive on their own cores, or where the kernel does not tell, which is noted.
pub(crate) fn bare(
    stage: &WebStage,
    lab: &Lab,
    connection: Connection,
    size: Size,
) -> Result<Option<Bare>> {
    let rounds = rounds(connection, size);
    let is_told = stage.wire.receive_on == ReceiveOn::Sender;
    if !is_told || rounds.iter().any(|round| round.answers > 1) {
        return Ok(None);
    }
    let calls = |at_once| -> Result<_> {
        let exchange = Exchange {
            seconds: SECONDS_MAX.min(stage.seconds),
            at_once,
            rounds: rounds.clone(),
        };
        let exchanged = exchange.measure_reflected(stage, lab, LinkWay::Cheaper)?;
        exchanged.calls.note_untold(stage);
        Ok(exchanged.calls.per_request(exchanged.done))
    };
    // Two that differ, also where one connection is asked for.
    let many = stage.connections.clamp(2, FRAMES);
    let (many, one) = (calls(many)?, calls(1)?);
    Ok(many.zip(one).map(|(many, one)| Bare::of(many, one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_visit() {
        let of = |connection, bytes| -> Vec<(usize, u16, usize, u16)> {
            let rounds = rounds(connection, Size::of_bytes(bytes));
            assert!(rounds.iter().all(Round::is_possible));
            let numbers = |r: &Round| (r.ask_len, r.answers, r.answer_len, r.note_every);
            rounds.iter().map(numbers).collect()
        };
        assert_eq!(of(Connection::Persistent, 100), [(130, 1, 396, 0)]);
        assert_eq!(
            of(Connection::New, 0),
            [(74, 1, 74, 0), (130, 1, 296, 0), (66, 1, 66, 0)]
        );
        assert_eq!(of(Connection::Persistent, 1 << 20), [(130, 725, 1513, 2)]);
    }
}
