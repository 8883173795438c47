//! What anyone who asks for a report would get if they attached now, and why: `exos doctor` shows it.

use serde_json::{Value, json};

use super::Daemon;
use super::answers::{Refused, refuse};
use crate::interface::Interface;
use crate::policy::{Mode, Who};
use exos_xok::limits::TEXT_BYTES_MAX;
use exos_xok::message::Refusal;

/// What a program that does not ask for a mode is attached by.
struct Terms {
    mode: Mode,
    queue: Option<u32>,
    why: String,
}

impl Daemon {
    /// The part of the report that is about anyone who asks. `exos_program::status` describes it.
    pub(super) fn report_asker(&self, who: &Who) -> Value {
        let interfaces = self.interfaces.iter().map(|interface| {
            let terms = self.terms(interface, who);
            let (mode, queue, why) = match terms {
                Ok(terms) => (Some(terms.mode.name()), terms.queue, terms.why),
                Err(refused) => (None, None, refused.text),
            };
            let why = sentence(&why);
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

/// A text as it goes into a message, where it is neither cut again nor grows to more than twice its length: see
/// [`exos_xok::limits::ASKER_BYTES_MAX`].
fn sentence(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut text: String = text.chars().map(plain).collect();
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_xok::limits::{ASKER_BYTES_MAX, INTERFACE_NAME_BYTES_MAX, INTERFACES_MAX};

    #[test]
    fn the_longest_that_is_said_of_an_asker_fits() {
        // A name may have control characters, each of which becomes six bytes.
        let name = "\u{1}".repeat(INTERFACE_NAME_BYTES_MAX);
        let why = sentence(&"\"".repeat(5000));
        assert_eq!(json!(why).to_string().len(), 2 * TEXT_BYTES_MAX + 2);
        let terms = json!({"interface": name, "mode": "shared", "queue": u32::MAX, "why": why});
        let all = json!({"uid": u32::MAX, "interfaces": vec![terms; INTERFACES_MAX]}).to_string();
        assert!(all.len() <= ASKER_BYTES_MAX, "{} bytes", all.len());
    }

    #[test]
    fn a_sentence_is_one_line_and_ends_between_characters() {
        assert_eq!(sentence("two\nlines\u{7f}\u{9b}"), "two lines  ");
        let long = sentence(&format!("x{}", "ß".repeat(5000)));
        assert_eq!(long.len(), TEXT_BYTES_MAX - 1);
    }
}
