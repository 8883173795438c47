//! Alarms of objects that live in slots: one in the wheel for each slot, no matter who lives there.
//!
//! A [`Wheel`] keeps an entry until its time has come, also that of an object which is gone. For objects that come and
//! go faster than their deadlines, as a server's connections do, that is memory for all of the last seconds instead of
//! for those that there are. Here a slot's next object goes on with the entry that the last one has left:
//!
//! ```text
//!   slot 5   |--- A ---|  |- B -|     |------ C ------ ...
//!   entry    armed for A's deadline ─────────> comes up: C looks at its own, and arms for that
//! ```
//!
//! What comes up is a slot. Its owner looks who lives there now, and whether it is time for it; if not, it arms again.
//! A slot that was armed for later, and then for earlier, has both entries until the later one passes: at most as many
//! as the shortest wait goes into the longest.

use crate::tcp::timers::wheel::Wheel;
use crate::time::Instant;

/// Deadlines of the objects in slots that are numbered from 0.
pub struct Alarms {
    wheel: Wheel<u32>,
    /// By slot, its earliest entry in the wheel.
    armed: Vec<Instant>,
}

impl Alarms {
    /// None, from `now` on.
    pub fn new(now: Instant) -> Self {
        Self {
            wheel: Wheel::new(now),
            armed: Vec::new(),
        }
    }

    /// Lets a slot come up at `at` at the latest; nothing, when it will.
    #[inline]
    pub fn arm(&mut self, at: Instant, slot: u32) {
        let place = slot as usize;
        if place >= self.armed.len() {
            self.armed.resize(place + 1, Instant::NEVER);
        }
        if at < self.armed[place] {
            self.armed[place] = at;
            self.wheel.arm(at, slot);
        }
    }

    /// When to call `expire` next; may be early for deadlines far away, never late.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    /// Moves the slots whose time has come by `now` into `due`, each once. None of them is armed any more.
    pub fn expire(&mut self, now: Instant, due: &mut Vec<u32>) {
        let before = due.len();
        self.wheel.expire(now, due);
        let mut kept = before;
        for i in before..due.len() {
            let slot = due[i];
            let armed = &mut self.armed[slot as usize];
            // Else an earlier entry has come up for it, and the slot is armed for later or not at all.
            if *armed <= now {
                *armed = Instant::NEVER;
                due[kept] = slot;
                kept += 1;
            }
        }
        due.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;
    use proptest::prelude::*;

    fn due(alarms: &mut Alarms, now: Instant) -> Vec<u32> {
        let mut due = Vec::new();
        alarms.expire(now, &mut due);
        due.sort_unstable();
        due
    }

    /// Clients that come and go by the thousand while none has waited long: memory is that of those that are there.
    #[test]
    fn objects_that_come_and_go_take_one_entry_for_each_slot() {
        const WAIT: Duration = Duration::from_secs(30);
        let mut alarms = Alarms::new(Instant::START);
        for n in 0..1_000_000u64 {
            let now = Instant::from_micros(100 * n);
            alarms.arm(now + WAIT, (n % 64) as u32);
            for slot in due(&mut alarms, now) {
                alarms.arm(now + WAIT, slot);
            }
            assert!(alarms.wheel.len() <= 64);
        }
        assert_eq!(alarms.wheel.len(), 64);
    }

    #[test]
    fn what_is_armed_for_earlier_comes_up_then_and_once() {
        let at = Instant::from_millis;
        let mut alarms = Alarms::new(Instant::START);
        alarms.arm(at(500), 3);
        alarms.arm(at(20), 3);
        alarms.arm(at(20), 3);
        alarms.arm(at(300), 3);
        assert_eq!(due(&mut alarms, at(19)), []);
        assert_eq!(due(&mut alarms, at(20)), [3]);
        assert_eq!(due(&mut alarms, at(400)), [], "it is not armed any more");
        alarms.arm(at(600), 3);
        assert_eq!(
            due(&mut alarms, at(599)),
            [],
            "the first entry is not the one that is waited for"
        );
        assert_eq!(due(&mut alarms, at(600)), [3]);
        assert!(alarms.wheel.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arm { slot: u32, millis: u64 },
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0u32..5, 0u64..5_000).prop_map(|(slot, millis)| Step::Arm { slot, millis }),
            1 => (1u64..2_000).prop_map(Step::Pass),
        ]
    }

    proptest! {
        /// Against the earliest deadline of each slot: it comes up when that is over, and not before.
        #[test]
        fn agrees_with_the_earliest_of_each_slot(steps in prop::collection::vec(step(), 1..200)) {
            let mut alarms = Alarms::new(Instant::START);
            let mut model = [None; 5];
            let mut now = 0;
            for step in steps {
                match step {
                    Step::Arm { slot, millis } => {
                        // The current tick was looked at: what is due now comes up with the next one.
                        let at = now + millis.max(1);
                        alarms.arm(Instant::from_millis(at), slot);
                        let earliest = &mut model[slot as usize];
                        *earliest = Some(earliest.map_or(at, |e: u64| e.min(at)));
                    }
                    Step::Pass(millis) => {
                        now += millis;
                        let is_over = |at: &Option<u64>| at.is_some_and(|at| at <= now);
                        let expected: Vec<u32> = (0..5).filter(|&slot| is_over(&model[slot as usize])).collect();
                        prop_assert_eq!(due(&mut alarms, Instant::from_millis(now)), expected);
                        model.iter_mut().filter(|at| is_over(at)).for_each(|at| *at = None);
                    }
                }
                if let Some(earliest) = model.iter().flatten().min() {
                    let next = alarms.next_deadline().expect("a slot is armed");
                    prop_assert!(next.millis() <= *earliest, "woken late");
                }
            }
        }
    }
}
