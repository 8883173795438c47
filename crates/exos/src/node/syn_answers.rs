//! A handler that answers a listener's SYNs in the kernel, and whether its answers arrive ([`crate::handlers`]).

use std::time::Duration;

use exos_inet::Instant;
use exos_inet::tcp::ListenerId;

/// How often it is looked whether answers arrive, as long as none is known to.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks after the first answers. A client asks again after 1 s and after 3 s: the second time it is heard.
const LOOKS: u32 = 2;

/// The handler of a listener's SYNs.
pub(crate) struct SynAnswers {
    listener: ListenerId,
    /// On an interface that leads to a kernel of this machine, as long as no answer is known to have arrived there.
    unproven: Option<Unproven>,
}

struct Unproven {
    accepted_before: u64,
    next_look: Instant,
    looks_left: u32,
}

impl SynAnswers {
    /// Answers that are known to arrive.
    pub(crate) fn new(listener: ListenerId) -> Self {
        let unproven = None;
        Self { listener, unproven }
    }

    /// It is watched from now on whether they arrive. This number of SYN cookies was accepted until now.
    pub(crate) fn watch(&mut self, now: Instant, accepted: u64) {
        self.unproven = Some(Unproven {
            accepted_before: accepted,
            next_look: now + LOOK_EVERY,
            looks_left: LOOKS,
        });
    }

    /// Whose SYNs are answered.
    pub(crate) fn listener(&self) -> ListenerId {
        self.listener
    }

    /// Looks now and then whether SYN cookies have been accepted, and SYNs answered. True when nobody came back who was.
    pub(crate) fn are_lost(
        &mut self,
        now: Instant,
        accepted: impl FnOnce() -> u64,
        answered: impl FnOnce() -> u64,
    ) -> bool {
        let Some(unproven) = self.unproven.as_mut().filter(|u| u.next_look <= now) else {
            return false;
        };
        unproven.next_look = now + LOOK_EVERY;
        if accepted() > unproven.accepted_before {
            self.unproven = None;
            return false;
        }
        if answered() == 0 {
            return false;
        }
        unproven.looks_left -= 1;
        unproven.looks_left == 0
    }
}
