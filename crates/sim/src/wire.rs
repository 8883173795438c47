//! A wire that loses, delays, reorders, duplicates and damages frames, all from one seed.
//!
//! The wire joins two or more ends, like a hub: what one end sends arrives at all others. Each
//! sending end has its own [`Conditions`]. [`Wire::send`] decides a frame's fate at once and says
//! it; what is not lost arrives later, in the order of ([`Wire::next_arrival`], order of sending).
//!
//! Rules:
//!
//! - Frames of one sender arrive in order, jitter or not, unless one is picked to be reordered.
//! - A frame is damaged within eight neighbouring bits, above the Ethernet header and in IP packets
//!   only. The Internet checksum finds every such error, so what a damaged frame tests is that
//!   checksums are looked at; Ethernet's own check, which guards ARP and MAC addresses, is not
//!   simulated.
//! - Scripted losses ([`Wire::drop_next`], [`Wire::drop_if`]) come before random ones.
//! - The fate of the nth frame depends on the seed, on n and on the conditions alone; each
//!   condition has its own place in the frame's numbers, so that changing one leaves what the
//!   others do as it was.

use crate::random::{Random, Seed};
use exos_inet::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bursts of loss by Gilbert's two-state model: a good state without and a bad state with loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Probability, per frame, of turning bad.
    pub enter: f64,
    /// Probability, per frame, of turning good again; its inverse is the mean burst length in
    /// frames.
    pub leave: f64,
    /// Probability of loss while bad.
    pub loss: f64,
}

impl Bursts {
    /// Never bad.
    const NONE: Bursts = Bursts {
        enter: 0.0,
        leave: 1.0,
        loss: 0.0,
    };
}

/// What one sending end's frames meet with. Probabilities are per frame, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Time on the way.
    pub latency: Duration,
    /// Up to this much more, uniformly.
    pub jitter: Duration,
    /// Independent loss.
    pub loss: f64,
    /// Loss in bursts, in addition.
    pub bursts: Option<Bursts>,
    /// Probability that a frame lets those behind it pass.
    pub reorder: f64,
    /// How long a reordered frame is held back.
    pub reorder_by: Duration,
    /// Probability of arriving twice.
    pub duplicate: f64,
    /// Probability of damage.
    pub corrupt: f64,
    /// Bits per second; `None`: no limit and no queue.
    pub rate: Option<u64>,
    /// Bytes that may wait for the wire when it has a rate.
    pub queue_bytes_max: usize,
}

impl Conditions {
    /// A perfect wire: immediate and lossless.
    pub const PERFECT: Conditions = Conditions {
        latency: Duration::ZERO,
        jitter: Duration::ZERO,
        loss: 0.0,
        bursts: None,
        reorder: 0.0,
        reorder_by: Duration::ZERO,
        duplicate: 0.0,
        corrupt: 0.0,
        rate: None,
        queue_bytes_max: usize::MAX,
    };

    /// Everything that can go wrong does, often: the worst wire that a transfer must survive.
    pub const WORST: Conditions = Conditions {
        latency: Duration::from_millis(20),
        jitter: Duration::from_millis(10),
        loss: 0.10,
        bursts: Some(Bursts {
            enter: 0.01,
            leave: 0.3,
            loss: 0.8,
        }),
        reorder: 0.10,
        reorder_by: Duration::from_millis(30),
        duplicate: 0.10,
        corrupt: 0.05,
        rate: Some(20_000_000),
        queue_bytes_max: 64 * 1024,
    };
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Arrives once, in order, whole.
    Delivered,
    /// Scripted or random loss.
    Dropped,
    /// No room before the wire.
    Overflowed,
    /// Arrives with wrong bits.
    Corrupted,
    /// Arrives twice.
    Duplicated,
    /// Arrives late, behind others.
    Reordered,
}

/// A frame that arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// The end that sent it.
    pub from: usize,
    /// The frame, as it arrives.
    pub frame: Vec<u8>,
}

/// A frame on its way; ordered by time, then by the order of sending.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    at: Instant,
    sequence: u64,
    from: usize,
    frame: Vec<u8>,
}

#[derive(Debug)]
struct Sender {
    conditions: Conditions,
    bad: bool,
    drop_next: u32,
    /// When the last frame in order arrives.
    last_arrival: Instant,
    /// When the wire has sent all that waits.
    busy_until: Instant,
}

type DropIf = Box<dyn FnMut(usize, &[u8]) -> bool>;

/// The wire between the ends of a simulation.
pub struct Wire {
    senders: Vec<Sender>,
    seed: Seed,
    /// Frames sent, lost ones included.
    sent: u64,
    /// Of the frame that is being sent.
    random: Random,
    flights: BinaryHeap<Reverse<Flight>>,
    sequence: u64,
    drop_next: u32,
    drop_if: Option<DropIf>,
}

impl Wire {
    /// A perfect wire with `ends` ends.
    pub fn new(seed: Seed, ends: usize) -> Wire {
        let sender = || Sender {
            conditions: Conditions::PERFECT,
            bad: false,
            drop_next: 0,
            last_arrival: Instant::START,
            busy_until: Instant::START,
        };
        Wire {
            senders: (0..ends).map(|_| sender()).collect(),
            seed,
            sent: 0,
            random: Random::new(seed, WIRE_LANE),
            flights: BinaryHeap::new(),
            sequence: 0,
            drop_next: 0,
            drop_if: None,
        }
    }

    /// Ends of the wire.
    pub fn ends(&self) -> usize {
        self.senders.len()
    }

    /// Conditions of every sender from now on.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        for sender in &mut self.senders {
            sender.conditions = conditions;
        }
    }

    /// Conditions of one sender, to be changed.
    pub fn conditions_mut(&mut self, from: usize) -> &mut Conditions {
        &mut self.senders[from].conditions
    }

    /// Lose the next `count` frames, no matter who sends them.
    pub fn drop_next(&mut self, count: u32) {
        self.drop_next += count;
    }

    /// Lose the next `count` frames that `from` sends.
    pub fn drop_next_from(&mut self, from: usize, count: u32) {
        self.senders[from].drop_next += count;
    }

    /// Lose every frame for which `lost(from, frame)` is true; replaces an earlier such rule.
    pub fn drop_if(&mut self, lost: impl FnMut(usize, &[u8]) -> bool + 'static) {
        self.drop_if = Some(Box::new(lost));
    }

    /// Take the rule of [`Self::drop_if`] back.
    pub fn drop_none(&mut self) {
        self.drop_if = None;
        self.drop_next = 0;
        self.senders.iter_mut().for_each(|s| s.drop_next = 0);
    }

    /// Put a frame on the wire.
    pub fn send(&mut self, now: Instant, from: usize, frame: Vec<u8>) -> Fate {
        // A generator for each frame: what happens to one is independent of how many numbers were
        // drawn for others.
        self.sent += 1;
        self.random = Random::new(self.seed, WIRE_LANE.wrapping_add(self.sent << 8));
        if self.is_scripted_loss(from, &frame) || self.is_random_loss(from) {
            return Fate::Dropped;
        }
        let Some(sent) = self.transmit(now, from, frame.len()) else {
            return Fate::Overflowed;
        };
        let conditions = self.senders[from].conditions;
        let mut fate = Fate::Delivered;
        let mut at = sent + conditions.latency + self.up_to(conditions.jitter);
        if self.random.chance(conditions.reorder) {
            fate = Fate::Reordered;
            at += conditions.reorder_by;
        } else {
            at = at.max(self.senders[from].last_arrival);
            self.senders[from].last_arrival = at;
        }
        let duplicate = self.random.chance(conditions.duplicate);
        if duplicate {
            fate = Fate::Duplicated;
            let later = at + self.up_to(conditions.latency);
            self.launch(later, from, frame.clone());
        }
        let mut frame = frame;
        if self.random.chance(conditions.corrupt) && self.damage(&mut frame) {
            fate = Fate::Corrupted;
        }
        self.launch(at, from, frame);
        fate
    }

    /// When the next frame arrives.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.flights.peek().map(|Reverse(flight)| flight.at)
    }

    /// The next frame that has arrived by `now`.
    pub fn poll_arrival(&mut self, now: Instant) -> Option<Arrival> {
        self.next_arrival().filter(|&at| at <= now)?;
        let Reverse(Flight {
            at, from, frame, ..
        }) = self.flights.pop()?;
        Some(Arrival { at, from, frame })
    }

    fn is_scripted_loss(&mut self, from: usize, frame: &[u8]) -> bool {
        let sender = &mut self.senders[from];
        for left in [&mut self.drop_next, &mut sender.drop_next] {
            if *left > 0 {
                *left -= 1;
                return true;
            }
        }
        self.drop_if.as_mut().is_some_and(|lost| lost(from, frame))
    }

    fn is_random_loss(&mut self, from: usize) -> bool {
        let Sender {
            conditions, bad, ..
        } = &mut self.senders[from];
        let bursts = conditions.bursts.unwrap_or(Bursts::NONE);
        let lost = self.random.chance(conditions.loss);
        let turn = if *bad { bursts.leave } else { bursts.enter };
        *bad ^= self.random.chance(turn);
        let lost_in_burst = self.random.chance(bursts.loss) && *bad;
        lost || lost_in_burst
    }

    /// When the frame's last bit has left; `None` when the queue has no room for it.
    fn transmit(&mut self, now: Instant, from: usize, len: usize) -> Option<Instant> {
        let Sender {
            conditions,
            busy_until,
            ..
        } = &mut self.senders[from];
        let Some(rate) = conditions.rate else {
            return Some(now);
        };
        let waiting_bits = (*busy_until - now).as_micros() * u128::from(rate) / 1_000_000;
        if waiting_bits / 8 + len as u128 > conditions.queue_bytes_max as u128 {
            return None;
        }
        let micros = len as u64 * 8 * 1_000_000 / rate;
        *busy_until = now.max(*busy_until) + Duration::from_micros(micros);
        Some(*busy_until)
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.random.below(most.as_micros() as u64 + 1))
    }

    fn launch(&mut self, at: Instant, from: usize, frame: Vec<u8>) {
        self.sequence += 1;
        self.flights.push(Reverse(Flight {
            at,
            sequence: self.sequence,
            from,
            frame,
        }));
    }

    /// Flip at least one of eight neighbouring bits; false when there is nothing that a checksum
    /// guards.
    fn damage(&mut self, frame: &mut [u8]) -> bool {
        const ETHERNET: usize = 14;
        let is_ip = matches!(frame.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd]));
        let at = self.random.next_u64();
        let pattern = (self.random.below(255) + 1) as u8;
        if !is_ip || frame.len() == ETHERNET {
            return false;
        }
        frame[ETHERNET + at as usize % (frame.len() - ETHERNET)] ^= pattern;
        true
    }
}

/// True for TCP segments (IPv4 without options, IPv6 without extension headers), for
/// [`Wire::drop_if`].
pub fn is_tcp(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([0x08, 0x00]) => frame.get(23) == Some(&6),
        Some([0x86, 0xdd]) => frame.get(20) == Some(&6),
        _ => false,
    }
}

/// Lane of the wire's random numbers (in the low byte, frames above it), apart from those of hosts
/// and programs.
const WIRE_LANE: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: usize = 20_000;

    fn frame(number: usize) -> Vec<u8> {
        let mut frame = vec![0; 64];
        frame[12] = 0x08;
        frame[20..28].copy_from_slice(&(number as u64).to_be_bytes());
        frame
    }

    fn number(frame: &[u8]) -> usize {
        u64::from_be_bytes(frame[20..28].try_into().unwrap()) as usize
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Send [`FRAMES`] frames, one per millisecond; their fates and what arrived.
    fn run(seed: u64, conditions: Conditions) -> (Vec<Fate>, Vec<Arrival>) {
        let mut wire = Wire::new(Seed(seed), 2);
        wire.set_conditions(conditions);
        let (mut fates, mut arrivals) = (Vec::new(), Vec::new());
        for i in 0..FRAMES {
            let now = Instant::from_millis(i as u64);
            fates.push(wire.send(now, 0, frame(i)));
            arrivals.extend(std::iter::from_fn(|| wire.poll_arrival(now)));
        }
        let end = Instant::from_millis(1_000_000_000);
        arrivals.extend(std::iter::from_fn(|| wire.poll_arrival(end)));
        (fates, arrivals)
    }

    fn count(fates: &[Fate], fate: Fate) -> usize {
        fates.iter().filter(|&&f| f == fate).count()
    }

    #[test]
    fn perfect_wire_delivers_all_in_order_at_once() {
        let (fates, arrivals) = run(1, Conditions::PERFECT);
        assert_eq!(count(&fates, Fate::Delivered), FRAMES);
        for (i, arrival) in arrivals.iter().enumerate() {
            assert_eq!((number(&arrival.frame), arrival.at.millis()), (i, i as u64));
        }
    }

    #[test]
    fn latency_and_jitter_keep_the_order() {
        let conditions = Conditions {
            latency: ms(10),
            jitter: ms(7),
            ..Conditions::PERFECT
        };
        let (_, arrivals) = run(2, conditions);
        assert_eq!(arrivals.len(), FRAMES);
        for (i, arrival) in arrivals.iter().enumerate() {
            assert_eq!(number(&arrival.frame), i);
            let after = arrival.at - Instant::from_millis(i as u64);
            assert!(after >= ms(10) && after <= ms(17), "{after:?}");
        }
    }

    #[test]
    fn loss_is_as_asked_and_repeats_with_the_seed() {
        let conditions = Conditions {
            loss: 0.1,
            ..Conditions::PERFECT
        };
        let (fates, arrivals) = run(3, conditions);
        let lost = count(&fates, Fate::Dropped);
        assert!((1_800..2_200).contains(&lost), "{lost}");
        assert_eq!(arrivals.len() + lost, FRAMES);
        assert_eq!(run(3, conditions), (fates.clone(), arrivals));
        assert_ne!(run(4, conditions).0, fates);
    }

    /// Mean burst length is 1 / leave, share of bad time enter / (enter + leave).
    #[test]
    fn bursts_are_as_long_as_asked() {
        let bursts = Some(Bursts {
            enter: 0.02,
            leave: 0.25,
            loss: 1.0,
        });
        let (fates, _) = run(
            5,
            Conditions {
                bursts,
                ..Conditions::PERFECT
            },
        );
        let lost = count(&fates, Fate::Dropped);
        let runs = fates
            .windows(2)
            .filter(|w| w[0] != Fate::Dropped && w[1] == Fate::Dropped)
            .count();
        let mean = lost as f64 / runs as f64;
        assert!((3.5..4.5).contains(&mean), "mean burst {mean}");
        assert!((1_200..1_800).contains(&lost), "{lost}");
    }

    #[test]
    fn reordered_frames_let_others_pass() {
        let conditions = Conditions {
            reorder: 0.05,
            reorder_by: ms(3),
            ..Conditions::PERFECT
        };
        let (fates, arrivals) = run(6, conditions);
        let overtaken = arrivals
            .windows(2)
            .filter(|w| number(&w[0].frame) > number(&w[1].frame))
            .count();
        let picked = count(&fates, Fate::Reordered);
        assert!((800..1_200).contains(&picked), "{picked}");
        assert!(overtaken > picked * 8 / 10, "{overtaken} of {picked}");
        assert_eq!(arrivals.len(), FRAMES);
    }

    #[test]
    fn duplicates_arrive_twice() {
        let (fates, arrivals) = run(
            7,
            Conditions {
                duplicate: 0.05,
                ..Conditions::PERFECT
            },
        );
        let twice = count(&fates, Fate::Duplicated);
        assert!((800..1_200).contains(&twice), "{twice}");
        assert_eq!(arrivals.len(), FRAMES + twice);
    }

    /// The Ethernet header stays whole, and frames that are not IP do.
    #[test]
    fn damage_is_where_checksums_look() {
        let (fates, arrivals) = run(
            8,
            Conditions {
                corrupt: 0.1,
                ..Conditions::PERFECT
            },
        );
        let damaged: Vec<_> = (0..FRAMES)
            .filter(|&i| arrivals[i].frame != frame(i))
            .collect();
        assert_eq!(damaged.len(), count(&fates, Fate::Corrupted));
        for i in damaged {
            assert_eq!(arrivals[i].frame[..14], frame(i)[..14]);
            let wrong = arrivals[i]
                .frame
                .iter()
                .zip(frame(i))
                .filter(|(a, b)| **a != *b)
                .count();
            assert_eq!(wrong, 1, "one byte");
        }
        let mut wire = Wire::new(Seed(8), 2);
        wire.set_conditions(Conditions {
            corrupt: 1.0,
            ..Conditions::PERFECT
        });
        let mut arp = frame(1);
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(wire.send(Instant::START, 0, arp.clone()), Fate::Delivered);
        assert_eq!(wire.poll_arrival(Instant::START).unwrap().frame, arp);
    }

    /// 64-byte frames at 64,000 bit/s take 8 ms each; with room for 640 bytes the eleventh does not
    /// fit.
    #[test]
    fn a_slow_wire_queues_and_overflows() {
        let mut wire = Wire::new(Seed(9), 2);
        *wire.conditions_mut(0) = Conditions {
            rate: Some(64_000),
            queue_bytes_max: 640,
            ..Conditions::PERFECT
        };
        let fates: Vec<_> = (0..12)
            .map(|i| wire.send(Instant::START, 0, frame(i)))
            .collect();
        assert_eq!(count(&fates, Fate::Delivered), 10);
        assert_eq!(&fates[10..], [Fate::Overflowed; 2]);
        let end = Instant::from_millis(1000);
        let times: Vec<_> = std::iter::from_fn(|| wire.poll_arrival(end))
            .map(|a| a.at.millis())
            .collect();
        assert_eq!(times, (1..=10).map(|i| i * 8).collect::<Vec<_>>());
        // The other direction has its own conditions.
        assert_eq!(wire.send(end, 1, frame(0)), Fate::Delivered);
        assert_eq!(wire.poll_arrival(end).unwrap().at, end);
    }

    #[test]
    fn scripts_come_before_chance() {
        let mut wire = Wire::new(Seed(10), 2);
        wire.drop_next(1);
        wire.drop_next_from(1, 1);
        let fates: Vec<_> = [0, 0, 1, 1]
            .map(|from| wire.send(Instant::START, from, frame(0)))
            .into();
        assert_eq!(
            fates,
            [
                Fate::Dropped,
                Fate::Delivered,
                Fate::Dropped,
                Fate::Delivered
            ]
        );
        wire.drop_if(|from, bytes| from == 0 && number(bytes) == 5);
        let fates: Vec<_> = [4, 5, 6]
            .map(|i| wire.send(Instant::START, 0, frame(i)))
            .into();
        assert_eq!(fates, [Fate::Delivered, Fate::Dropped, Fate::Delivered]);
        wire.drop_none();
        assert_eq!(wire.send(Instant::START, 0, frame(5)), Fate::Delivered);
    }
}
