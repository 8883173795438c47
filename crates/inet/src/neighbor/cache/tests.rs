//! The neighbour cache: its table of transitions, stories, and invariants under any sequence of
//! events.

use super::*;
use crate::limits::{
    NEIGHBOR_BYTES_MAX, NEIGHBOR_FRAME_OVERHEAD, NEIGHBOR_FRAMES_MIN, NEIGHBORS_BYTES_MAX,
    NEIGHBORS_MAX,
};
use crate::time::Duration;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const MAC_A: Mac = Mac([2, 0, 0, 0, 0, 0xa]);
const MAC_B: Mac = Mac([2, 0, 0, 0, 0, 0xb]);
const REPLY: Evidence = Evidence::Solicited { overriding: true };
const GRATUITOUS: Evidence = Evidence::Unsolicited { overriding: true };

fn ip(n: u32) -> IpAddr {
    // Every third one IPv6, so that no test is about one family.
    if n.is_multiple_of(3) {
        Ipv6Addr::from_bits(0xfd10 << 112 | u128::from(n)).into()
    } else {
        Ipv4Addr::from_bits(0x0a00_0000 | n).into()
    }
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn frame(tag: u8) -> Vec<u8> {
    [[0; 6].as_slice(), &[tag; 58]].concat()
}

fn solicits(cache: &mut NeighborCache, now: Instant) -> Vec<Solicit> {
    std::iter::from_fn(|| cache.poll_solicit(now)).collect()
}

/// Run the clock to `end`; when which solicitations left.
fn run(cache: &mut NeighborCache, end: u64) -> Vec<(u64, Option<Mac>)> {
    let mut sent = Vec::new();
    while let Some(due) = cache.poll_timeout().filter(|&due| due <= at(end)) {
        cache.handle_timeout(due);
        sent.extend(
            solicits(cache, due)
                .iter()
                .map(|s| (due.millis(), s.unicast_to)),
        );
    }
    sent
}

/// A reachable neighbour with MAC_A, at 0 ms.
fn resolved() -> NeighborCache {
    let mut cache = NeighborCache::new(1);
    assert_eq!(cache.lookup(at(0), ip(1)), Lookup::Pending);
    assert_eq!(
        solicits(&mut cache, at(0)),
        [Solicit {
            ip: ip(1),
            unicast_to: None
        }]
    );
    cache.handle_answer(at(0), ip(1), MAC_A, REPLY);
    cache
}

fn state(cache: &NeighborCache, ip: IpAddr) -> Option<State> {
    cache.iter().find(|e| e.0 == ip).map(|e| e.1)
}

const STATES: [State; 6] = [
    State::Incomplete,
    State::Reachable,
    State::Stale,
    State::Delay,
    State::Probe,
    State::Failed,
];

fn events() -> Vec<(&'static str, Event)> {
    let heard = |evidence, same| Event::Heard { evidence, same };
    let solicited = |overriding| Evidence::Solicited { overriding };
    let unsolicited = |overriding| Evidence::Unsolicited { overriding };
    vec![
        ("used", Event::Used),
        ("confirmed", Event::Confirmed),
        ("suspected", Event::Suspected),
        ("timeout", Event::Timeout { exhausted: false }),
        ("timeout, last", Event::Timeout { exhausted: true }),
        ("request same", heard(Evidence::Request, true)),
        ("request other", heard(Evidence::Request, false)),
        ("solicited O same", heard(solicited(true), true)),
        ("solicited O other", heard(solicited(true), false)),
        ("solicited - same", heard(solicited(false), true)),
        ("solicited - other", heard(solicited(false), false)),
        ("unsolicited O same", heard(unsolicited(true), true)),
        ("unsolicited O other", heard(unsolicited(true), false)),
        ("unsolicited - same", heard(unsolicited(false), true)),
        ("unsolicited - other", heard(unsolicited(false), false)),
    ]
}

/// Every (state, event), as a person reads it; a dot is "nothing changes".
#[test]
fn transitions() {
    let mut text = String::new();
    for (name, event) in events() {
        text += &format!("{name:<20}");
        for state in STATES {
            let (next, action) = state.on(event);
            let cell = match (next == state, action) {
                (true, Action::Nothing) => ".".into(),
                (false, Action::Nothing) => format!("{next:?}"),
                (_, Action::Remove) => "remove".into(),
                (_, Action::GiveUp) => format!("{next:?}+give up"),
                (_, Action::Record) => format!("{next:?}+record"),
                (_, Action::Solicit) => format!("{next:?}+solicit"),
            };
            text += &format!(" {cell:<18}");
        }
        text = text.trim_end().to_owned() + "\n";
    }
    assert_eq!(text.trim(), TRANSITIONS.trim(), "\n{text}");
}

// Incomplete, Reachable, Stale, Delay, Probe, Failed.
const TRANSITIONS: &str = "
used                 .                  .                  Delay              .                  .                  .
confirmed            .                  .                  Reachable          Reachable          Reachable          .
suspected            .                  Stale              .                  .                  .                  .
timeout              Incomplete+solicit Stale              .                  Probe+solicit      Probe+solicit      remove
timeout, last        Failed+give up     Stale              .                  Probe+solicit      remove             remove
request same         Stale+record       .                  .                  .                  .                  Stale+record
request other        Stale+record       Stale+record       Stale+record       Stale+record       Stale+record       Stale+record
solicited O same     Reachable+record   Reachable+record   Reachable+record   Reachable+record   Reachable+record   Reachable+record
solicited O other    Reachable+record   Reachable+record   Reachable+record   Reachable+record   Reachable+record   Reachable+record
solicited - same     Reachable+record   Reachable+record   Reachable+record   Reachable+record   Reachable+record   Reachable+record
solicited - other    Reachable+record   Stale              .                  .                  .                  Reachable+record
unsolicited O same   Stale+record       .                  .                  .                  .                  Stale+record
unsolicited O other  Stale+record       Stale+record       Stale+record       Stale+record       Stale+record       Stale+record
unsolicited - same   Stale+record       .                  .                  .                  .                  Stale+record
unsolicited - other  Stale+record       Stale              .                  .                  .                  Stale+record
";

#[test]
fn resolves_and_returns_what_waited() {
    let mut cache = NeighborCache::new(1);
    assert_eq!(cache.lookup(at(0), ip(1)), Lookup::Pending);
    for tag in 0..6 {
        cache.queue(ip(1), frame(tag));
    }
    let generation = cache.generation();
    let sent = cache.handle_answer(at(5), ip(1), MAC_A, REPLY);
    assert!(sent.iter().all(|f| f[..6] == MAC_A.0));
    let tags: Vec<_> = sent.iter().map(|f| f[6]).collect();
    assert_eq!(tags, [0, 1, 2, 3, 4, 5]);
    assert_eq!(cache.lookup(at(5), ip(1)), Lookup::Known(MAC_A));
    assert_ne!(cache.generation(), generation);
    cache.queue(ip(1), frame(0));
    assert_eq!(
        cache.counters().frames_unexpected,
        1,
        "a known neighbour holds no frames"
    );
}

/// A neighbour keeps a burst, all of them together no more than they may, and each the latest four in any case.
#[test]
fn what_waits_is_bounded_in_bytes_and_the_oldest_goes() {
    const FRAME: usize = 1500;
    let cost = FRAME + NEIGHBOR_FRAME_OVERHEAD;
    let fit = NEIGHBOR_BYTES_MAX / cost;
    let mut cache = NeighborCache::new(1);
    let queue = |cache: &mut NeighborCache, n, frames: usize| {
        cache.lookup(at(0), ip(n));
        for tag in 0..frames {
            let mut frame = vec![0; FRAME];
            frame[6] = tag as u8;
            cache.queue(ip(n), frame);
            check(cache);
        }
    };
    queue(&mut cache, 1, fit);
    assert_eq!(cache.counters().frames_overflowed, 0);
    queue(&mut cache, 1, 3);
    assert_eq!(cache.counters().frames_overflowed, 3);
    let neighbours = (NEIGHBORS_BYTES_MAX / (fit * cost)) as u32;
    for n in 2..=neighbours {
        queue(&mut cache, n, fit);
    }
    assert_eq!(cache.counters().frames_overflowed, 3);
    // No room is left but what each may have in any case.
    let left = (NEIGHBORS_BYTES_MAX - cache.waiting) / cost;
    queue(&mut cache, 100, left + 10);
    let kept = left.max(NEIGHBOR_FRAMES_MIN) as u64;
    assert_eq!(
        cache.counters().frames_overflowed,
        3 + (left as u64 + 10 - kept)
    );
    queue(&mut cache, 101, 10);
    assert_eq!(
        cache.counters().frames_overflowed,
        3 + (left as u64 + 10 - kept) + 6
    );
    let sent = cache.handle_answer(at(5), ip(101), MAC_A, REPLY);
    let tags: Vec<_> = sent.iter().map(|f| f[6]).collect();
    assert_eq!(tags, [6, 7, 8, 9], "the oldest went");
    // What has left makes room.
    assert_eq!(cache.handle_answer(at(5), ip(1), MAC_A, REPLY).len(), fit);
    queue(&mut cache, 102, fit - NEIGHBOR_FRAMES_MIN);
    assert_eq!(
        cache.counters().frames_overflowed,
        3 + (left as u64 + 10 - kept) + 6
    );
    check(&cache);
}

/// RFC 4861 §7.2.2: three solicitations a second apart, then failure, and a pause.
#[test]
fn asks_three_times_then_fails_and_holds() {
    let mut cache = NeighborCache::new(1);
    cache.lookup(at(0), ip(1));
    cache.queue(ip(1), frame(7));
    assert_eq!(solicits(&mut cache, at(0)).len(), 1);
    assert_eq!(run(&mut cache, 3_000), [(1_000, None), (2_000, None)]);
    assert_eq!(cache.poll_failed(), Some((ip(1), vec![frame(7)])));
    assert_eq!(cache.poll_failed(), None);
    assert_eq!(cache.lookup(at(3_500), ip(1)), Lookup::Unreachable);
    assert_eq!(run(&mut cache, 6_000), []);
    assert_eq!(cache.lookup(at(6_000), ip(1)), Lookup::Pending);
}

/// A neighbour that was absent and then speaks to us is believed at once.
#[test]
fn a_request_ends_the_hold() {
    let mut cache = NeighborCache::new(1);
    cache.lookup(at(0), ip(1));
    run(&mut cache, 3_000);
    cache.handle_answer(at(3_100), ip(1), MAC_B, Evidence::Request);
    assert_eq!(cache.lookup(at(3_100), ip(1)), Lookup::Known(MAC_B));
}

/// Reachable 30 s, stale until used, 5 s of delay, three unicast probes, gone.
#[test]
fn unused_goes_stale_and_used_is_probed() {
    let mut cache = resolved();
    let generation = cache.generation();
    assert_eq!(run(&mut cache, 40_000), []);
    assert_eq!(state(&cache, ip(1)), Some(State::Stale));
    assert_ne!(cache.generation(), generation, "keepers ask again");
    assert_eq!(cache.lookup(at(40_000), ip(1)), Lookup::Known(MAC_A));
    let probes = [
        (45_000, Some(MAC_A)),
        (46_000, Some(MAC_A)),
        (47_000, Some(MAC_A)),
    ];
    assert_eq!(run(&mut cache, 60_000), probes);
    assert_eq!(cache.len(), 0);
    assert_eq!(cache.lookup(at(60_000), ip(1)), Lookup::Pending);
}

#[test]
fn an_answered_probe_or_a_confirmation_makes_reachable() {
    let mut cache = resolved();
    run(&mut cache, 40_000);
    cache.lookup(at(40_000), ip(1));
    run(&mut cache, 45_000);
    cache.handle_answer(
        at(45_100),
        ip(1),
        MAC_A,
        Evidence::Solicited { overriding: false },
    );
    assert_eq!(state(&cache, ip(1)), Some(State::Reachable));
    // Confirmed every 20 s by the upper layer, it is never asked again.
    for s in 1..10 {
        assert_eq!(run(&mut cache, 45_100 + s * 20_000), []);
        cache.confirm(at(45_100 + s * 20_000), ip(1));
        assert_eq!(state(&cache, ip(1)), Some(State::Reachable));
    }
    cache.suspect(at(226_000), ip(1));
    assert_eq!(state(&cache, ip(1)), Some(State::Stale));
}

#[test]
fn the_unused_stays_without_a_timer_and_is_verified_when_used() {
    let mut cache = resolved();
    assert_eq!(run(&mut cache, 30_000), []);
    assert_eq!(state(&cache, ip(1)), Some(State::Stale));
    assert_eq!(cache.poll_timeout(), None);
    let day = 86_400_000;
    assert_eq!(run(&mut cache, day), []);
    // Used at once, for 5 s by trust; then it is asked alone, and used meanwhile.
    assert_eq!(cache.lookup(at(day), ip(1)), Lookup::Known(MAC_A));
    assert_eq!(run(&mut cache, day + 4_999), []);
    assert_eq!(run(&mut cache, day + 5_000), [(day + 5_000, Some(MAC_A))]);
    assert_eq!(cache.lookup(at(day + 5_000), ip(1)), Lookup::Known(MAC_A));
    cache.handle_answer(at(day + 5_001), ip(1), MAC_A, REPLY);
    assert_eq!(state(&cache, ip(1)), Some(State::Reachable));
}

/// What makes, changes or leaves an entry, by evidence.
#[test]
fn who_may_write() {
    let no_override = Evidence::Unsolicited { overriding: false };
    // (evidence, makes an entry of nothing, MAC afterwards where MAC_A was reachable, state then)
    let table = [
        (Evidence::Request, true, MAC_B, State::Stale),
        (REPLY, false, MAC_B, State::Reachable),
        (GRATUITOUS, false, MAC_B, State::Stale),
        (no_override, false, MAC_A, State::Stale),
        (
            Evidence::Solicited { overriding: false },
            false,
            MAC_A,
            State::Stale,
        ),
    ];
    for (evidence, makes, mac, then) in table {
        let mut empty = NeighborCache::new(1);
        empty.handle_answer(at(0), ip(1), MAC_B, evidence);
        assert_eq!(empty.len(), usize::from(makes), "{evidence:?}");
        let mut cache = resolved();
        let generation = cache.generation();
        cache.handle_answer(at(1), ip(1), MAC_B, evidence);
        assert_ne!(cache.generation(), generation, "{evidence:?}");
        assert_eq!(state(&cache, ip(1)), Some(then), "{evidence:?}");
        assert_eq!(
            cache.lookup(at(1), ip(1)),
            Lookup::Known(mac),
            "{evidence:?}"
        );
    }
}

#[test]
fn hearing_the_same_again_moves_nothing() {
    for evidence in [Evidence::Request, REPLY, GRATUITOUS] {
        let mut cache = resolved();
        let generation = cache.generation();
        cache.handle_answer(at(1), ip(1), MAC_A, evidence);
        assert_eq!(cache.generation(), generation);
        assert_eq!(state(&cache, ip(1)), Some(State::Reachable));
    }
}

#[test]
fn group_and_zero_macs_are_not_believed() {
    for bad in [Mac::BROADCAST, Mac::ZERO, Mac([1, 0, 0x5e, 0, 0, 1])] {
        let mut cache = NeighborCache::new(1);
        cache.lookup(at(0), ip(1));
        cache.handle_answer(at(0), ip(1), bad, REPLY);
        assert_eq!(cache.lookup(at(0), ip(1)), Lookup::Pending);
        assert_eq!(cache.counters().bad_mac, 1);
    }
}

/// Unresolved first, then stale; strangers never push out what is in use.
#[test]
fn a_full_table_evicts_the_least_useful() {
    let mut cache = resolved();
    for n in 0..NEIGHBORS_MAX as u32 - 2 {
        cache.learn(at(1), ip(1000 + n), MAC_A);
    }
    assert_eq!(cache.lookup(at(1), ip(2)), Lookup::Pending);
    assert_eq!(cache.len(), NEIGHBORS_MAX);
    assert_eq!(cache.lookup(at(2), ip(3)), Lookup::Pending);
    assert_eq!(state(&cache, ip(2)), None, "the unresolved went");
    cache.handle_answer(at(3), ip(4), MAC_B, Evidence::Request);
    assert_eq!(state(&cache, ip(3)), None, "the unresolved went");
    cache.handle_answer(at(3), ip(5), MAC_B, Evidence::Request);
    assert_eq!(
        (state(&cache, ip(4)), state(&cache, ip(5))),
        (None, Some(State::Stale))
    );
    cache.confirm(at(4), ip(5));
    cache.handle_answer(at(5), ip(6), MAC_B, Evidence::Request);
    assert_eq!(
        state(&cache, ip(6)),
        None,
        "no stranger pushes out the reachable"
    );
    assert_eq!(cache.counters().table_full, 1);
    assert_eq!(
        cache.lookup(at(6), ip(6)),
        Lookup::Pending,
        "but our own need does"
    );
    assert_eq!(state(&cache, ip(1)), None, "the oldest reachable");
    assert_eq!(cache.len(), NEIGHBORS_MAX);
}

#[test]
fn an_external_source_is_asked_and_answers() {
    let mut cache = NeighborCache::external(1);
    assert_eq!(cache.lookup(at(0), ip(1)), Lookup::Pending);
    cache.queue(ip(1), frame(1));
    assert_eq!(cache.poll_solicit(at(0)), None, "nothing on the link");
    assert_eq!(
        (cache.poll_unresolved(), cache.poll_unresolved()),
        (Some(ip(1)), None)
    );
    assert_eq!(cache.learn(at(1), ip(1), MAC_A).len(), 1);
    assert_eq!(cache.lookup(at(1), ip(1)), Lookup::Known(MAC_A));
    cache.learn(at(1), ip(2), MAC_B);
    assert_eq!(
        cache.lookup(at(1), ip(2)),
        Lookup::Known(MAC_B),
        "learnt unasked"
    );
    // Stale and used: the host is asked to verify.
    run(&mut cache, 31_000);
    cache.lookup(at(31_000), ip(1));
    run(&mut cache, 36_000);
    assert_eq!(cache.poll_unresolved(), Some(ip(1)));
}

fn check(cache: &NeighborCache) {
    cache.table.check();
    let doubted = cache.table.iter().filter(|e| e.state().is_in_doubt());
    assert_eq!(cache.verifying as usize, doubted.count());
    let mut waiting = 0;
    for entry in cache.table.iter() {
        let (frames, cost) = entry.frames.check();
        waiting += cost;
        assert!(frames == 0 || entry.state() == State::Incomplete);
        assert!(entry.solicits <= SOLICITS_MAX);
        assert_eq!(entry.asking, cache.wanted.contains(&entry.ip()));
        assert!(
            entry
                .deadline
                .is_none_or(|d| cache.deadline_min.is_some_and(|min| min <= d))
        );
        assert!(!entry.state().has_mac() || entry.mac.is_unicast() && entry.mac != Mac::ZERO);
    }
    assert_eq!(cache.waiting, waiting);
    assert!(
        waiting
            <= NEIGHBORS_BYTES_MAX
                + NEIGHBORS_MAX * NEIGHBOR_FRAMES_MIN * (1518 + NEIGHBOR_FRAME_OVERHEAD)
    );
}

#[derive(Clone, Debug)]
enum Op {
    Lookup,
    Queue,
    Hear(Evidence, bool),
    Confirm,
    Suspect,
    Wait(u64),
    Drain,
}

fn op() -> impl Strategy<Value = Op> {
    let evidence = prop_oneof![
        Just(Evidence::Request),
        any::<bool>().prop_map(|overriding| Evidence::Solicited { overriding }),
        any::<bool>().prop_map(|overriding| Evidence::Unsolicited { overriding }),
    ];
    prop_oneof![
        4 => Just(Op::Lookup),
        4 => Just(Op::Queue),
        3 => (evidence, any::<bool>()).prop_map(|(e, b)| Op::Hear(e, b)),
        1 => Just(Op::Confirm),
        1 => Just(Op::Suspect),
        3 => (0u64..8_000).prop_map(Op::Wait),
        2 => Just(Op::Drain),
    ]
}

proptest! {
    /// Whatever happens, the invariants hold, every frame is accounted for, and no deadline is in
    /// the past after it was handled.
    #[test]
    fn invariants_hold(ops in prop::collection::vec((op(), 0u32..8), 0..200)) {
        let mut cache = NeighborCache::new(9);
        let mut now = at(0);
        let (mut given, mut back) = (0u64, 0u64);
        for (op, n) in ops {
            match op {
                Op::Lookup => { cache.lookup(now, ip(n)); }
                Op::Queue => { given += 1; cache.queue(ip(n), frame(0)); }
                Op::Hear(evidence, b) => {
                    let mac = if b { MAC_A } else { MAC_B };
                    back += cache.handle_answer(now, ip(n), mac, evidence).len() as u64;
                }
                Op::Confirm => cache.confirm(now, ip(n)),
                Op::Suspect => cache.suspect(now, ip(n)),
                Op::Wait(millis) => {
                    now += Duration::from_millis(millis);
                    cache.handle_timeout(now);
                    prop_assert!(cache.poll_timeout().is_none_or(|at| at > now));
                }
                Op::Drain => {
                    solicits(&mut cache, now);
                    while cache.poll_failed().is_some() {}
                }
            }
            check(&cache);
        }
        let held: usize = cache.table.iter().map(|e| e.frames.check().0).sum();
        let c = cache.counters();
        let dropped = c.frames_overflowed + c.frames_unresolved + c.frames_unexpected;
        prop_assert_eq!(given, back + dropped + held as u64);
    }
}
