//! SYN cookies (RFC 4987 §3.6): a half-open connection kept by the peer instead of by us.
//!
//! The sequence number of a SYN-ACK says everything that is needed to make the connection when it
//! comes back acknowledged, and proves that it was we who sent it;
//! how it lies there is in [`exos_wire::tcp::cookie`].
//!
//! - The epoch counts [`SYN_COOKIE_EPOCH`]s modulo 32; a cookie is good in its own and the next. The
//!   hash covers the whole epoch, so that each has its own secret in effect.
//! - The hash covers the four-tuple, the peer's initial sequence number, the MSS's index and the
//!   bits in the timestamp: none of them can be changed by who brings it back.
//! - Window scale, SACK and ECN survive with timestamps, as in Linux. The timestamp is the
//!   latest one with these bits that is not ahead of the clock, so the connection's own follow it.
//! - Without timestamps those of Windows do ([`SCALED`]): for that the table of MSSs has one less.
//!
//! **Forgery.** Eight indices in two epochs make 16 of 2^32 acknowledgement numbers good for a blind
//! sender: one guess in 2^28 opens a connection, from an address of their choosing, while a listener
//! hands out cookies and for two epochs after (always, where somebody [else](crate::tcp::endpoint) answers SYNs). **Replay.** Anyone who has received a SYN-ACK may bring
//! its cookie again until it ends, and so open the same connection again after it was closed; a
//! TIME-WAIT entry stands in the way where it is us who finished first. Both as with Linux's.

use exos_wire::SeqNumber;
use exos_wire::tcp::cookie::{
    ECN_BIT, EPOCH_SHIFT, HASH_MASK, MSS_SHIFT, MSS_TABLE, NO_SCALE, SACK_BIT, SCALE_BITS, SCALED,
    SCALED_BY, SCALED_MSS, TIMESTAMP_BITS,
};
use exos_wire::tcp::{TcpOptions, Timestamps};

use crate::limits::SYN_COOKIE_EPOCH;
use crate::siphash::SipKey;
use crate::tcp::values::flow::Flow;
use crate::tcp::values::segment::Segment;
use crate::time::Instant;

/// Salt of the hash, apart from those of `Tcp`.
pub(in crate::tcp) const SALT_COOKIE: u32 = 16;

/// A cookie is good in its own epoch and the next.
const EPOCHS_GOOD: u32 = 2;

/// What a cookie keeps of a SYN.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(in crate::tcp) struct Kept {
    /// The options, as if the SYN had had just these.
    pub options: TcpOptions,
    /// It offered explicit congestion notification (RFC 3168 §6.1.1).
    pub ecn: bool,
}

impl Kept {
    /// What will be left of a SYN with these options.
    pub fn of(options: &TcpOptions, ecn: bool, mss_default: u16) -> Self {
        let mss = options.mss.unwrap_or(mss_default);
        let is_scaled = options.window_scale == Some(SCALED_BY) && options.sack_permitted;
        let index = match options.timestamps {
            Some(_) => mss_index(mss),
            None if is_scaled && mss >= SCALED_MSS => SCALED,
            None => mss_index(mss).min(SCALED - 1),
        };
        Self::from_parts(index, bits(options, ecn), options.timestamps)
    }

    /// The sequence number of the SYN-ACK that answers a SYN at `their_seq`.
    pub fn sequence(
        &self,
        key: &SipKey,
        now: Instant,
        flow: &Flow,
        their_seq: SeqNumber,
    ) -> SeqNumber {
        let index = self.index();
        let epoch = epoch(now);
        let hash = hash(key, flow, epoch, their_seq, index, self.bits());
        SeqNumber((epoch as u32) << EPOCH_SHIFT | (index as u32) << MSS_SHIFT | hash)
    }

    /// The timestamp of the SYN-ACK, when the clock of timestamps shows `clock`.
    pub fn timestamp(&self, clock: u32) -> u32 {
        let bits = self.bits().expect("only a SYN with timestamps gets one");
        let value = clock & !TIMESTAMP_BITS | bits;
        if bits > clock & TIMESTAMP_BITS {
            value.wrapping_sub(TIMESTAMP_BITS + 1)
        } else {
            value
        }
    }

    fn bits(&self) -> Option<u32> {
        bits(&self.options, self.ecn)
    }

    fn index(&self) -> usize {
        match (self.options.timestamps, self.options.window_scale) {
            (None, Some(_)) => SCALED,
            _ => mss_index(self.options.mss.expect("a cookie keeps an MSS")),
        }
    }

    /// What the SYN said whose SYN-ACK `seg` acknowledges; `None` when that was no cookie of ours, or
    /// too long ago, or when `seg` is not the first segment after the handshake.
    pub fn redeem(key: &SipKey, now: Instant, flow: &Flow, seg: &Segment<'_>) -> Option<Self> {
        let age = epochs_since(now, seg);
        if age >= EPOCHS_GOOD {
            return None;
        }
        let cookie = (seg.ack - 1).0;
        let index = (cookie >> MSS_SHIFT & 7) as usize;
        let issued = epoch(now).checked_sub(u64::from(age))?;
        let bits = bits_of(seg);
        if hash(key, flow, issued, seg.seq - 1, index, bits) != cookie & HASH_MASK {
            return None;
        }
        let timestamps = seg.options.timestamps;
        Some(Self::from_parts(index, bits, timestamps))
    }

    /// Whether `seg` acknowledges a number in which the epoch of a good cookie stands. It does where `seg` follows one that brings
    /// a cookie back; of the other segments that belong to no connection it does in one of 16.
    pub fn may_follow(now: Instant, seg: &Segment<'_>) -> bool {
        epochs_since(now, seg) < EPOCHS_GOOD
    }

    /// What a cookie with this index of an MSS says, and these bits of a timestamp; `timestamps` are those of the segment that
    /// brings it back, where it has any.
    pub fn from_parts(index: usize, bits: Option<u32>, timestamps: Option<Timestamps>) -> Self {
        if bits.is_none() && index & 7 == SCALED {
            let options = TcpOptions {
                mss: Some(SCALED_MSS),
                window_scale: Some(SCALED_BY),
                sack_permitted: true,
                ..TcpOptions::NONE
            };
            return Self {
                options,
                ecn: false,
            };
        }
        let scale = bits.map(|b| b & SCALE_BITS).filter(|&s| s != NO_SCALE);
        let has = |bit| bits.is_some_and(|b| b & bit != 0);
        Self {
            options: TcpOptions {
                mss: Some(MSS_TABLE[index & 7]),
                window_scale: scale.map(|s| s as u8),
                sack_permitted: has(SACK_BIT),
                timestamps,
                ..TcpOptions::NONE
            },
            ecn: has(ECN_BIT),
        }
    }
}

/// What a timestamp of ours keeps of a SYN that had one.
fn bits(options: &TcpOptions, ecn: bool) -> Option<u32> {
    options.timestamps?;
    let scale = options.window_scale.map_or(NO_SCALE, u32::from);
    let sack = if options.sack_permitted { SACK_BIT } else { 0 };
    Some(scale | sack | if ecn { ECN_BIT } else { 0 })
}

/// The bits that a timestamp of ours brings back.
fn bits_of(seg: &Segment<'_>) -> Option<u32> {
    let timestamps = seg.options.timestamps;
    timestamps.map(|Timestamps { echo, .. }| echo & TIMESTAMP_BITS)
}

/// How many epochs ago the one was that stands in what a segment acknowledges, 31 at most.
fn epochs_since(now: Instant, seg: &Segment<'_>) -> u32 {
    (epoch(now) as u32).wrapping_sub((seg.ack - 1).0 >> EPOCH_SHIFT) & 31
}

fn epoch(now: Instant) -> u64 {
    now.micros() / SYN_COOKIE_EPOCH.as_micros() as u64
}

/// The greatest entry that is not above `mss`; the least for what is below all.
fn mss_index(mss: u16) -> usize {
    MSS_TABLE
        .iter()
        .rposition(|&entry| entry <= mss)
        .unwrap_or(0)
}

fn hash(
    key: &SipKey,
    flow: &Flow,
    epoch: u64,
    their_seq: SeqNumber,
    index: usize,
    bits: Option<u32>,
) -> u32 {
    // Six bits, and a seventh for "no timestamps".
    let said = u64::from(bits.unwrap_or(TIMESTAMP_BITS + 1)) | (index as u64) << 8;
    let words = [epoch, u64::from(their_seq.0) << 32 | said];
    flow.hash_with(key, SALT_COOKIE, words) as u32 & HASH_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::values::ecn::Ecn;
    use crate::time::Duration;
    use exos_wire::tcp::TcpFlags;
    use proptest::prelude::*;

    fn flow(port: u16) -> Flow {
        Flow::new(
            "10.0.0.1:80".parse().unwrap(),
            std::net::SocketAddr::new("10.0.0.2".parse().unwrap(), port),
        )
    }

    fn ack(seq: u32, ack: SeqNumber, timestamps: Option<Timestamps>) -> Segment<'static> {
        Segment {
            seq: SeqNumber(seq),
            ack,
            flags: TcpFlags::ACK,
            window: 100,
            options: TcpOptions {
                timestamps,
                ..TcpOptions::NONE
            },
            ecn: Ecn::NotEct,
            payload: &[],
        }
    }

    fn syn_options(mss: Option<u16>, scale: Option<u8>, sack: bool, ts: bool) -> TcpOptions {
        TcpOptions {
            mss,
            window_scale: scale,
            sack_permitted: sack,
            timestamps: ts.then_some(Timestamps { value: 77, echo: 0 }),
            ..TcpOptions::NONE
        }
    }

    proptest! {
        /// Whatever a SYN said comes back, as far as a cookie can keep it.
        #[test]
        fn what_is_kept_comes_back(
            mss in proptest::option::of(0u16..),
            scale in proptest::option::of(prop_oneof![0u8..=14, Just(SCALED_BY)]),
            (sack, ts, ecn) in any::<(bool, bool, bool)>(),
            (clock, start, seq) in any::<(u32, u32, u32)>(),
            later in 0u64..64_000,
        ) {
            let key = SipKey::from_seed(5);
            let now = Instant::from_millis(u64::from(start));
            let kept = Kept::of(&syn_options(mss, scale, sack, ts), ecn, 536);
            let as_windows = scale == Some(SCALED_BY) && sack && mss.is_some_and(|mss| mss >= SCALED_MSS);
            prop_assert_eq!(kept.options.window_scale, scale.filter(|_| ts || as_windows));
            prop_assert_eq!(kept.options.sack_permitted, sack && (ts || as_windows));
            let iss = kept.sequence(&key, now, &flow(9), SeqNumber(seq));
            let echoed = ts.then(|| {
                let value = kept.timestamp(clock);
                assert!(clock.wrapping_sub(value) <= TIMESTAMP_BITS + 1, "never ahead of the clock");
                Timestamps { value: 78, echo: value }
            });
            let answer = ack(seq.wrapping_add(1), iss + 1, echoed);
            let then = now + Duration::from_millis(later);
            let redeemed = Kept::redeem(&key, then, &flow(9), &answer).expect("within its time");
            let mut expected = kept;
            expected.options.timestamps = echoed;
            prop_assert_eq!(redeemed, expected);
        }
    }

    /// Any other four-tuple, number, option or time makes it worthless.
    #[test]
    fn nothing_about_a_cookie_can_be_changed() {
        let key = SipKey::from_seed(5);
        let start = Instant::START + SYN_COOKIE_EPOCH.saturating_mul(1000);
        let kept = Kept::of(&syn_options(Some(1460), Some(7), true, true), false, 536);
        let iss = kept.sequence(&key, start, &flow(9), SeqNumber(1000));
        let ts = Timestamps {
            value: 5,
            echo: kept.timestamp(123_456),
        };
        let good = ack(1001, iss + 1, Some(ts));
        let redeem = |at, port, seg: &Segment<'_>| Kept::redeem(&key, at, &flow(port), seg);
        assert!(redeem(start, 9, &good).is_some());
        let last = start + (SYN_COOKIE_EPOCH.saturating_mul(2) - Duration::from_millis(1));
        assert!(redeem(last, 9, &good).is_some());
        let late = last + Duration::from_millis(1);
        assert!(redeem(late, 9, &good).is_none());
        // What comes behind it, as what comes with it: after its time both are of no connection.
        let behind = ack(2461, iss + 1, Some(ts));
        for (at, may) in [(start, true), (last, true), (late, false)] {
            assert!(redeem(at, 9, &behind).is_none());
            assert_eq!(Kept::may_follow(at, &behind), may);
        }
        // The count of epochs has come round: the hash has not.
        let round = start + SYN_COOKIE_EPOCH.saturating_mul(32);
        assert!(redeem(round, 9, &good).is_none());
        assert!(redeem(start, 10, &good).is_none());
        for bit in 0..32 {
            let other = SeqNumber((iss + 1).0 ^ 1 << bit);
            assert!(redeem(start, 9, &ack(1001, other, Some(ts))).is_none());
            assert!(redeem(start, 9, &ack(1001 ^ 1 << bit, iss + 1, Some(ts))).is_none());
            let echo = ts.echo ^ 1 << bit;
            let changed = redeem(
                start,
                9,
                &ack(1001, iss + 1, Some(Timestamps { echo, ..ts })),
            );
            assert_eq!(changed.is_some(), bit >= 6, "bit {bit} of the timestamp");
        }
        assert!(redeem(start, 9, &ack(1001, iss + 1, None)).is_none());
        assert!(Kept::redeem(&SipKey::from_seed(6), start, &flow(9), &good).is_none());
    }

    #[test]
    fn the_mss_is_never_raised_but_for_a_silly_one() {
        for mss in [48u16, 49, 535, 536, 1219, 1460, 1500, 8939, 65_535] {
            assert!(MSS_TABLE[mss_index(mss)] <= mss, "{mss}");
        }
        assert_eq!((mss_index(0), mss_index(1460), mss_index(9000)), (0, 6, 7));
    }
}
