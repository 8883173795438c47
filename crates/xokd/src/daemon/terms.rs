//! What whoever asks for a report would get if he attached now, and why: `exos doctor` shows it.

use serde_json::{Value, json};

use super::Daemon;
use super::requests::{Refused, refuse};
use crate::interface::Interface;
use crate::policy::{Mode, Who};
use exos_xok::message::Refusal;

/// What a program that does not ask for a mode is attached by.
struct Terms {
    mode: Mode,
    queue: Option<u32>,
    why: String,
}

impl Daemon {
    /// The part of the report that is about whoever asks. Described in docs/json.md.
    pub(super) fn report_asker(&self, who: &Who) -> Value {
        let interfaces = self.interfaces.iter().map(|interface| {
            let terms = self.terms(interface, who);
            let (mode, queue, why) = match terms {
                Ok(terms) => (Some(terms.mode.name()), terms.queue, terms.why),
                Err(refused) => (None, None, refused.text),
            };
            json!({"interface": interface.link.name, "mode": mode, "queue": queue, "why": why})
        });
        json!({"uid": who.uid, "interfaces": interfaces.collect::<Vec<_>>()})
    }

    fn terms(&self, interface: &Interface, who: &Who) -> Result<Terms, Refused> {
        let (policy, name) = (&self.config.policy, &interface.link.name);
        let direct = policy
            .prefers_direct(who, name)
            .then(|| self.direct_terms(interface, who));
        let refusal = match direct {
            Some(Ok(terms)) => return Ok(terms),
            Some(Err(refusal)) => Some(refusal),
            None => None,
        };
        let rule = match (policy.attach(who, name, None), refusal) {
            (Ok(rule), None) => rule,
            (Ok(rule), Some(refusal)) => {
                self.check_bounds(who, rule, 0)?;
                return Ok(Terms {
                    mode: Mode::Shared,
                    queue: None,
                    why: format!("policy prefers direct, but {}", refusal.text),
                });
            }
            (Err(_), Some(refusal)) => return Err(refusal),
            (Err(error), None) => return Err(refuse(Refusal::NotAllowed, error)),
        };
        self.check_bounds(who, rule, 0)?;
        let asked = match self.queues(interface, who, None) {
            Ok(_) => "; a queue of the interface itself for who asks (--mode direct)",
            Err(_) => "",
        };
        Ok(Terms {
            mode: Mode::Shared,
            queue: None,
            why: format!("{}: {rule}{asked}", policy.origin(rule)),
        })
    }

    fn direct_terms(&self, interface: &Interface, who: &Who) -> Result<Terms, Refused> {
        let queue = self.queues(interface, who, None)?[0];
        let policy = &self.config.policy;
        let rule = policy.attach(who, &interface.link.name, Some(queue));
        let rule = rule.map_err(|e| refuse(Refusal::NotAllowed, e))?;
        self.check_bounds(who, rule, 0)?;
        Ok(Terms {
            mode: Mode::Direct,
            queue: Some(queue),
            why: format!("{}: {rule}, and queue {queue} is free", policy.origin(rule)),
        })
    }
}
