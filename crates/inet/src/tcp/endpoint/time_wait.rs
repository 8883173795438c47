//! Segments of connections in TIME-WAIT.

use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

use crate::counters::Counters;
use crate::tcp::endpoint::ending::time_wait_ack;
use crate::tcp::endpoint::passive::Arrived;
use crate::tcp::endpoint::taking_on::BegunConnection;
use crate::tcp::endpoint::tcp::Tcp;
use crate::tcp::table::time_wait::Waiting;

/// A connection that uses the four-tuple again does not begin within this many bytes before the last one's end.
const LATE_BYTES: u32 = 1 << 20;

/// What has become of a segment, as far as TIME-WAIT is concerned.
pub(super) enum Waits {
    /// No such connection waits.
    No,
    /// It has been seen to.
    SeenTo,
    /// It opens a new connection in the place of the one that waited, whose last sequence number this is where the new one's
    /// must begin beyond it (RFC 1122 §4.2.2.13).
    Opens(Option<SeqNumber>),
}

impl Tcp {
    /// RFC 9293 §3.10.7.4 for TIME-WAIT. A new connection may take its place (RFC 6191 §2).
    pub(super) fn in_time_wait(&mut self, arrived: Arrived<'_>, counters: &mut Counters) -> Waits {
        let Arrived {
            now,
            flow,
            hash,
            seg,
            ..
        } = arrived;
        let Some(&waiting) = self.time_wait.get(hash, &flow) else {
            return Waits::No;
        };
        if seg.has(TcpFlags::RST) {
            // RFC 1337: a reset does not cut the wait short.
            counters.drop_tcp_out_of_window += 1;
            return Waits::SeenTo;
        }
        let opens = seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::ACK) && !seg.has(TcpFlags::FIN);
        if opens {
            let newer = match (waiting.ts_recent, seg.options.timestamps) {
                (Some(old), Some(new)) if new.value != old => {
                    (new.value.wrapping_sub(old) as i32) > 0
                }
                _ => seg.seq.gt(waiting.rcv_nxt),
            };
            if newer {
                counters.tcp_time_wait_reused += 1;
                self.time_wait.remove(hash, &flow);
                return Waits::Opens(Some(waiting.snd_nxt));
            }
        }
        let stamp = seg.options.timestamps.map(|stamps| stamps.value);
        if seg.ack != waiting.snd_nxt
            && !is_late(&waiting, seg.seq, stamp)
            && self.opens_anew(now, &flow, seg)
        {
            counters.tcp_time_wait_reused += 1;
            self.time_wait.remove(hash, &flow);
            return Waits::Opens(None);
        }
        let fin_again = seg.has(TcpFlags::FIN)
            && !seg.has(TcpFlags::SYN)
            && seg.seq + seg.len() == waiting.rcv_nxt;
        // Data that it repeats before its FIN says the same: our last acknowledgement was lost.
        let data_again =
            !seg.payload.is_empty() && seg.end().le(waiting.rcv_nxt) && seg.ack == waiting.snd_nxt;
        if fin_again || data_again {
            self.time_wait.restart(now, hash, &flow);
        } else if seg.is_empty() && seg.seq == waiting.rcv_nxt && !seg.has(TcpFlags::SYN) {
            // The last acknowledgement, or one again: nothing to say.
            return Waits::SeenTo;
        }
        let reply = time_wait_ack(now, &waiting);
        if fin_again {
            // Its last acknowledgement from us was lost.
            self.replies.push_due(reply, counters);
        } else {
            self.replies.push(reply, now, counters);
        }
        Waits::SeenTo
    }

    /// Makes room for a connection that others have begun. False where it began with what came late of the one that waits.
    pub(super) fn wait_is_over(
        &mut self,
        begun: &BegunConnection,
        hash: u32,
        counters: &mut Counters,
    ) -> bool {
        let Some(waiting) = self.time_wait.get(hash, &begun.flow) else {
            return true;
        };
        let stamp = begun.stamps.map(|(_, value)| value);
        if is_late(waiting, SeqNumber(begun.first), stamp) {
            return false;
        }
        counters.tcp_time_wait_reused += 1;
        self.time_wait.remove(hash, &begun.flow);
        true
    }
}

/// Whether a segment that brings a cookie back is rather what the connection itself began with: its data were received, as far as can be told
/// from numbers, and it is not newer than what came last. `stamp` is the segment's own timestamp.
fn is_late(waiting: &Waiting, seq: SeqNumber, stamp: Option<u32>) -> bool {
    let is_newer = match (waiting.ts_recent, stamp) {
        (Some(last), Some(stamp)) => (stamp.wrapping_sub(last) as i32) > 0,
        _ => false,
    };
    let before = waiting.rcv_nxt.0.wrapping_sub(seq.0);
    !is_newer && (1..LATE_BYTES).contains(&before)
}
