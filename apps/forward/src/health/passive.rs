//! What is concluded from the connections that a server is given: one that answers none of them rests for a while.
//!
//! A connection fails when the server resets it before it stands, or when the client has to send its SYN again because nobody
//! has answered the first one; any that is answered shows that the server is there, and all failures before it are forgotten,
//! and those of connections that were asked for before. So who floods a server with SYNs, whatever is wrong with them, does it
//! no harm here as long as it answers anybody.

use std::time::Duration;

use crate::flow::Tick;

/// When a server rests, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// After this many connections in a row that failed,
    pub failures: u32,
    /// if they began within this,
    pub window: Duration,
    /// for so long.
    pub rest: Duration,
}

/// What is known of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    failures: u32,
    since: Tick,
    /// When a connection was last answered.
    answered: Option<Tick>,
    /// It rests until then.
    pub rests_until: Option<Tick>,
}

impl Record {
    /// A connection was answered.
    pub fn answered(&mut self, now: Tick) {
        (self.failures, self.answered) = (0, Some(now));
    }

    /// A connection that was asked for at `asked` failed. True when the server is to rest.
    pub fn failed(&mut self, asked: Tick, now: Tick, rule: &Rule) -> bool {
        if self.answered.is_some_and(|answered| answered >= asked) {
            return false;
        }
        if self.failures == 0 || now.saturating_sub(self.since) > secs(rule.window) {
            (self.failures, self.since) = (0, now);
        }
        self.failures += 1;
        self.failures >= rule.failures && self.rests_until.is_none()
    }

    /// It rests. After that one more failure is enough.
    pub fn rest(&mut self, now: Tick, rule: &Rule) {
        self.failures = rule.failures - 1;
        let until = now.saturating_add(secs(rule.rest).max(1));
        (self.since, self.rests_until) = (until, Some(until));
    }

    /// True when it has rested for long enough.
    pub fn wakes(&mut self, now: Tick) -> bool {
        let wakes = self.rests_until.is_some_and(|until| until <= now);
        if wakes {
            self.rests_until = None;
        }
        wakes
    }
}

fn secs(time: Duration) -> Tick {
    time.as_secs() as Tick
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        failures: 3,
        window: Duration::from_secs(10),
        rest: Duration::from_secs(20),
    };

    #[test]
    fn three_in_a_row_within_the_window() {
        let mut record = Record::default();
        assert!(!record.failed(100, 100, &RULE) && !record.failed(101, 101, &RULE));
        record.answered(101);
        assert!(!record.failed(102, 102, &RULE) && !record.failed(103, 103, &RULE));
        // These two are too long ago by now.
        assert!(!record.failed(113, 113, &RULE) && !record.failed(114, 114, &RULE));
        assert!(record.failed(115, 115, &RULE));
    }

    #[test]
    fn after_a_rest_one_more_is_enough_and_an_answer_forgives() {
        let mut record = Record::default();
        record.rest(100, &RULE);
        assert!(!record.failed(105, 105, &RULE), "it rests already");
        assert!(!record.wakes(119));
        assert!(record.wakes(120) && !record.wakes(121));
        assert!(record.failed(122, 122, &RULE));
        record.answered(122);
        assert!(!record.failed(123, 123, &RULE));
    }

    /// Connections that nobody answers, while others are answered, are their clients' own doing.
    #[test]
    fn who_answers_others_is_there() {
        let mut record = Record::default();
        record.answered(101);
        assert!((0..100).all(|_| !record.failed(100, 103, &RULE)));
        assert!((0..100).all(|_| !record.failed(101, 103, &RULE)));
        assert!(!record.failed(102, 104, &RULE) && !record.failed(102, 104, &RULE));
        assert!(record.failed(102, 104, &RULE));
    }
}
