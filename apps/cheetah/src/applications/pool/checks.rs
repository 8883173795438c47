//! Whether upstreams are well, asked of them at intervals where a rule wants that (active health checks).
//!
//! One is asked for a path, over a connection of its own, and is well when it answers in time with a status below 400. So many failures in a row put it
//! out, a number of successes in again; an upstream that is out is asked by requests only where no other is left. Each loop asks by
//! itself, for it has connections of its own.
//!
//! | state | event | then |
//! |---|---|---|
//! | in | answer | in, no failures |
//! | in | failure | in, one failure more; out when they are enough |
//! | out | answer | out, one success more; in when they are enough |
//! | out | failure | out, no successes |

use std::collections::HashMap;

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;

use super::upstreams::Upstreams;
use crate::applications::application::{Address, Place};
use crate::applications::proxy::CheckRules;
use crate::applications::proxy::answer::{Answer, Question};

/// What is known of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Health {
    is_out: bool,
    /// Answers in a row that speak against that.
    count: u32,
}

impl Health {
    /// An answer, or none: true when the state is another now.
    pub(super) fn note(&mut self, is_well: bool, rules: &CheckRules) -> bool {
        let (is_against, enough) = match self.is_out {
            false => (!is_well, rules.fails),
            true => (is_well, rules.passes),
        };
        self.count = if is_against { self.count + 1 } else { 0 };
        let is_other = self.count >= enough;
        if is_other {
            *self = Health {
                is_out: !self.is_out,
                count: 0,
            };
        }
        is_other
    }
}

/// One that is asked.
#[derive(Debug)]
struct Checked {
    rules: CheckRules,
    health: Health,
    /// When it is asked next, or has to have answered.
    due: Instant,
    /// The connection on which it was asked, and what has come.
    asked: Option<(ConnectionId, Box<Answer>)>,
}

/// All that are asked by a loop.
#[derive(Debug, Default)]
pub(super) struct Checks {
    all: HashMap<Address, Checked>,
    /// Answers that were waited for, and those that did not come or were none that is good.
    pub(super) asked: u64,
    pub(super) failed: u64,
}

/// What has become of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turned {
    pub(super) address: Address,
    pub(super) is_out: bool,
}

impl Checks {
    /// These are asked from now on, and no others. Those that are known stay what they are.
    #[expect(
        clippy::mutable_key_type,
        reason = "an address is told apart by what never changes of it"
    )]
    pub(super) fn follow(
        &mut self,
        wanted: HashMap<Address, CheckRules>,
        upstreams: &mut Upstreams,
        now: Instant,
    ) {
        let gone = self
            .all
            .extract_if(|address, it| wanted.get(address) != Some(&it.rules));
        for (_, checked) in gone {
            if let Some((connection, _)) = checked.asked {
                upstreams.leave(connection);
            }
        }
        for (address, rules) in wanted {
            self.all.entry(address).or_insert(Checked {
                rules,
                health: Health::default(),
                due: now,
                asked: None,
            });
        }
    }

    /// An upstream is out.
    pub(super) fn is_out(&self, address: &Address) -> bool {
        self.all.get(address).is_some_and(|it| it.health.is_out)
    }

    /// How many are.
    pub(super) fn out(&self) -> usize {
        self.all.values().filter(|it| it.health.is_out).count()
    }

    /// When there is something to do, whatever happens.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.all.values().map(|it| it.due).min()
    }

    /// Asks those whose turn it is, and gives up what has not come in time. Gives those that are in or out now and were not.
    pub(super) fn turn(&mut self, upstreams: &mut Upstreams, now: Instant) -> Vec<Turned> {
        let mut turned = Vec::new();
        for (address, checked) in &mut self.all {
            if checked.due > now {
                continue;
            }
            if let Some((connection, _)) = checked.asked.take() {
                upstreams.leave(connection);
                let is_other = checked.end(false, now);
                self.failed += 1;
                turned.extend(is_other.then(|| checked.turned(address)));
                continue;
            }
            self.asked += 1;
            match upstreams.connect_check(address) {
                Ok(connection) => {
                    upstreams.send(connection, checked.rules.words(address));
                    let answer = Box::new(Answer::to(Question::default()));
                    checked.asked = Some((connection, answer));
                    checked.due = now + checked.rules.timeout;
                }
                Err(_) => {
                    self.failed += 1;
                    let is_other = checked.end(false, now);
                    turned.extend(is_other.then(|| checked.turned(address)));
                }
            }
        }
        turned
    }

    /// Something has come on a connection of a check, or it has ended.
    pub(super) fn hear(
        &mut self,
        connection: ConnectionId,
        upstreams: &mut Upstreams,
        now: Instant,
    ) -> Option<Turned> {
        let is_it = |it: &Checked| it.asked.as_ref().is_some_and(|(id, _)| *id == connection);
        let found = self.all.iter_mut().find(|(_, checked)| is_it(checked));
        let Some((address, checked)) = found else {
            upstreams.leave(connection);
            return None;
        };
        let (_, answer) = checked.asked.as_mut()?;
        let bytes = upstreams.readable(connection).to_vec();
        let taken = answer.take(&bytes, |_| false, &mut Vec::new());
        let verdict = match taken {
            Ok(taken) => match taken.head {
                Some(head) => Some(head.code < 400),
                None => upstreams.end_of(connection).map(|_| false),
            },
            Err(_) => Some(false),
        };
        upstreams.consume(connection, bytes.len());
        let is_well = verdict?;
        upstreams.leave(connection);
        checked.asked = None;
        self.failed += u64::from(!is_well);
        let is_other = checked.end(is_well, now);
        is_other.then(|| checked.turned(address))
    }
}

impl Checked {
    fn end(&mut self, is_well: bool, now: Instant) -> bool {
        self.due = now + self.rules.interval;
        self.health.note(is_well, &self.rules)
    }

    fn turned(&self, address: &Address) -> Turned {
        Turned {
            address: address.clone(),
            is_out: self.health.is_out,
        }
    }
}

impl CheckRules {
    /// The request.
    fn words(&self, address: &Address) -> Vec<u8> {
        let own = match (address, address.of_http()) {
            (Address::Https(_, with), _) => with.name().to_owned(),
            (_, Some(Place::Tcp(at))) => at.to_string(),
            _ => "localhost".to_owned(),
        };
        let host = self.host.as_ref().unwrap_or(&own);
        let path = &self.path;
        let words = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: exos-check\r\nConnection: close\r\n\r\n"
        );
        words.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rules(fails: u32, passes: u32) -> CheckRules {
        CheckRules {
            path: "/".to_owned(),
            host: None,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            fails,
            passes,
        }
    }

    /// Every state and event, for small numbers: it turns after that number in a row, and not before.
    #[test]
    fn an_upstream_turns_after_so_many_in_a_row() {
        for (fails, passes) in (1..4).flat_map(|fails| (1..4).map(move |passes| (fails, passes))) {
            let rules = rules(fails, passes);
            for is_out in [false, true] {
                let enough = if is_out { passes } else { fails };
                for count in 0..enough {
                    for is_well in [false, true] {
                        let mut health = Health { is_out, count };
                        let is_other = health.note(is_well, &rules);
                        let is_against = is_well == is_out;
                        assert_eq!(is_other, is_against && count + 1 == enough);
                        let wanted = match (is_other, is_against) {
                            (true, _) => (!is_out, 0),
                            (false, true) => (is_out, count + 1),
                            (false, false) => (is_out, 0),
                        };
                        assert_eq!((health.is_out, health.count), wanted);
                    }
                }
            }
        }
    }
}
