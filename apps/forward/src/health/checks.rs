//! When servers are checked, and what the checks say of them.
//!
//! A server is taken for well until it has failed. Checks begin at even distances, those of several servers spread over the
//! interval; one that is not over in time has failed. Polling order: [`Checks::poll_late`] until there is none, then
//! [`Checks::poll_begin`]; each of those that it names ends with [`Checks::ended`].

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use exos_inet::Instant;

use super::rule::Rule;

/// A server that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its place among the servers.
    pub server: u16,
    /// Where it is checked.
    pub end: SocketAddr,
    /// The address of ours that it sees.
    pub ours: IpAddr,
    /// Whether it is well.
    pub is_well: bool,
}

struct Checked {
    target: Target,
    /// When the next check begins.
    due: Instant,
    /// Until when the one under way has to be over.
    deadline: Option<Instant>,
    /// Checks in a row that said the opposite of what it is taken for.
    against: u32,
}

/// All servers that are checked. A turn in which nothing is due looks at none of them.
pub struct Checks {
    rule: Rule,
    /// By the server's place.
    all: HashMap<u16, Checked>,
    /// When the next check of each begins that has none under way.
    due: BTreeSet<(Instant, u16)>,
    /// Until when those under way have to be over.
    deadlines: BTreeSet<(Instant, u16)>,
}

impl Checks {
    /// Checks of nobody yet.
    pub fn new(rule: Rule) -> Self {
        Self {
            rule,
            all: HashMap::new(),
            due: BTreeSet::new(),
            deadlines: BTreeSet::new(),
        }
    }

    /// How servers are checked.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Checks these from now on. Those that were checked before stay in step; what each is taken for is what its target says.
    pub fn set_targets(&mut self, now: Instant, targets: &[Target]) {
        let mut before = std::mem::take(&mut self.all);
        let count = targets.len().max(1) as u32;
        for (n, &target) in (0..).zip(targets) {
            let known = before.remove(&target.server);
            let mut checked = known
                .filter(|c| c.target.end == target.end)
                .unwrap_or(Checked {
                    target,
                    due: now + self.rule.interval * n / count,
                    deadline: None,
                    against: 0,
                });
            if checked.target.is_well != target.is_well {
                checked.against = 0;
            }
            checked.target = target;
            self.all.insert(target.server, checked);
        }
        let entry = |(&server, checked): (&u16, &Checked)| (checked.deadline, checked.due, server);
        let entries: Vec<_> = self.all.iter().map(entry).collect();
        (self.due, self.deadlines) = Default::default();
        for (deadline, due, server) in entries {
            match deadline {
                Some(at) => self.deadlines.insert((at, server)),
                None => self.due.insert((due, server)),
            };
        }
    }

    /// A server whose check was not over in time: it has to be ended.
    pub fn poll_late(&self, now: Instant) -> Option<u16> {
        let (at, server) = *self.deadlines.first()?;
        (at <= now).then_some(server)
    }

    /// A server whose check begins now.
    pub fn poll_begin(&mut self, now: Instant) -> Option<Target> {
        let (_, server) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.due.pop_first();
        let checked = self.all.get_mut(&server).expect("it is checked");
        let deadline = now + self.rule.timeout;
        checked.deadline = Some(deadline);
        self.deadlines.insert((deadline, server));
        // In step with those before, unless nobody has looked for longer than that.
        let next = checked.due + self.rule.interval;
        checked.due = if next > now {
            next
        } else {
            now + self.rule.interval
        };
        Some(checked.target)
    }

    /// A check is over. What the server is from now on, if that is another than before.
    pub fn ended(&mut self, server: u16, has_passed: bool) -> Option<bool> {
        let checked = self.all.get_mut(&server)?;
        if let Some(deadline) = checked.deadline.take() {
            self.deadlines.remove(&(deadline, server));
            self.due.insert((checked.due, server));
        }
        if has_passed == checked.target.is_well {
            checked.against = 0;
            return None;
        }
        checked.against += 1;
        let enough = if has_passed {
            self.rule.rise
        } else {
            self.rule.fall
        };
        if checked.against < enough {
            return None;
        }
        (checked.against, checked.target.is_well) = (0, has_passed);
        Some(has_passed)
    }

    /// When something is due next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let first = |set: &BTreeSet<(Instant, u16)>| set.first().map(|(at, _)| *at);
        let both = [first(&self.due), first(&self.deadlines)];
        both.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Kind;
    use std::time::Duration;

    const START: Instant = Instant::from_millis(1_000_000);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn target(server: u16) -> Target {
        Target {
            server,
            end: SocketAddr::from(([10, 0, 0, 1], 80 + server)),
            ours: [10, 0, 0, 9].into(),
            is_well: true,
        }
    }

    fn checks(count: u16) -> Checks {
        let mut checks = Checks::new(Rule {
            kind: Kind::Tcp,
            port: None,
            interval: ms(1000),
            timeout: ms(300),
            rise: 2,
            fall: 3,
        });
        let targets: Vec<Target> = (0..count).map(target).collect();
        checks.set_targets(START, &targets);
        checks
    }

    /// What follows from checks that end so, one each second.
    fn after(checks: &mut Checks, passed: &[bool]) -> Vec<Option<bool>> {
        let end = |has_passed: &bool| {
            let now = checks.poll_timeout().unwrap();
            assert_eq!(checks.poll_begin(now).map(|t| t.server), Some(0));
            assert_eq!(checks.poll_begin(now), None, "one at a time");
            checks.ended(0, *has_passed)
        };
        passed.iter().map(end).collect()
    }

    #[test]
    fn three_failures_in_a_row_and_then_two_that_pass() {
        let mut checks = checks(1);
        let (no, yes) = (false, true);
        assert_eq!(
            after(&mut checks, &[yes, no, no, yes, no, no, no, no]),
            [None, None, None, None, None, None, Some(false), None]
        );
        assert_eq!(
            after(&mut checks, &[yes, no, yes, yes, yes]),
            [None, None, None, Some(true), None]
        );
    }

    #[test]
    fn checks_are_spread_and_in_step() {
        let mut checks = checks(4);
        let mut begun = Vec::new();
        for millis in 0..2000 {
            let now = START + ms(millis);
            while let Some(target) = checks.poll_begin(now) {
                begun.push((millis, target.server));
                checks.ended(target.server, true);
            }
        }
        let wanted = (0..8).map(|n| (n * 250, (n % 4) as u16));
        assert_eq!(begun, wanted.collect::<Vec<_>>());
    }

    #[test]
    fn a_check_that_is_not_over_in_time_has_failed() {
        let mut checks = checks(1);
        assert_eq!(checks.poll_begin(START), Some(target(0)));
        assert_eq!(checks.poll_timeout(), Some(START + ms(300)));
        assert_eq!(checks.poll_late(START + ms(299)), None);
        assert_eq!(checks.poll_late(START + ms(300)), Some(0));
        checks.ended(0, false);
        assert_eq!(checks.poll_timeout(), Some(START + ms(1000)));
        // Nobody looks for a minute: then one check is made, not sixty.
        let late = START + Duration::from_secs(60);
        assert!(checks.poll_begin(late).is_some());
        checks.ended(0, true);
        assert_eq!(checks.poll_timeout(), Some(late + ms(1000)));
    }

    #[test]
    fn servers_that_stay_are_what_they_were() {
        let mut checks = checks(2);
        for _ in 0..3 {
            checks.ended(1, false);
        }
        let not_well = Target {
            is_well: false,
            ..target(1)
        };
        checks.set_targets(START, &[not_well, target(5)]);
        assert_eq!(checks.ended(0, false), None, "of whom nothing is known");
        assert_eq!(checks.ended(1, true), None);
        assert_eq!(checks.ended(1, true), Some(true));
    }

    /// A server that has lost its place and got it again, or another's, is taken for what it is now.
    #[test]
    fn what_a_server_is_taken_for_is_not_what_it_was() {
        let mut checks = checks(1);
        assert_eq!((0..3).find_map(|_| checks.ended(0, false)), Some(false));
        checks.set_targets(START, &[target(0)]);
        assert_eq!((0..2).find_map(|_| checks.ended(0, false)), None);
        assert_eq!(checks.ended(0, false), Some(false), "it fails again");
    }

    /// A thousand servers, each once in an interval, whatever comes and goes meanwhile.
    #[test]
    fn many_servers_have_their_turns() {
        let mut checks = checks(1000);
        let mut begun = vec![0; 1000];
        for millis in 0..3000 {
            let now = START + ms(millis);
            if millis == 1500 {
                let targets: Vec<Target> = (0..1000).rev().map(target).collect();
                checks.set_targets(now, &targets);
            }
            while let Some(server) = checks.poll_late(now) {
                checks.ended(server, false);
            }
            while let Some(target) = checks.poll_begin(now) {
                begun[usize::from(target.server)] += 1;
                if target.server % 3 > 0 {
                    checks.ended(target.server, true);
                }
            }
            assert!(checks.poll_timeout().is_some_and(|at| at > now));
        }
        assert!(begun.iter().all(|n| *n == 3));
    }
}
