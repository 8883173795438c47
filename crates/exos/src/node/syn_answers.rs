//! A handler that answers a listener's SYNs in the kernel, and whether its answers arrive ([`crate::handlers`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use exos_inet::Instant;
use exos_inet::tcp::ListenerId;

/// How often it is looked whether answers arrive, as long as none is known to.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks after the first answers. A client asks again after 1 s and after 3 s: the second time it is heard.
const LOOKS: u32 = 2;

/// What the cores of an interface know of its handler together.
#[derive(Debug, Default)]
pub(crate) struct OnInterface {
    /// SYN cookies that were accepted.
    accepted: AtomicU64,
    /// There is no handler any more.
    has_ended: AtomicBool,
}

/// The handler of a listener's SYNs.
pub(crate) struct SynAnswers {
    listener: ListenerId,
    on_interface: Arc<OnInterface>,
    /// SYN cookies that the stack has accepted, which are among those of the interface.
    accepted: u64,
    /// On the first core of an interface that leads to a kernel of this machine, as long as no answer is known to have arrived there.
    unproven: Option<Unproven>,
}

struct Unproven {
    next_look: Instant,
    looks_left: u32,
}

impl SynAnswers {
    /// Answers that are known to arrive, or that another core watches. This number of SYN cookies was accepted until now.
    pub(crate) fn new(listener: ListenerId, on_interface: Arc<OnInterface>, accepted: u64) -> Self {
        Self {
            listener,
            on_interface,
            accepted,
            unproven: None,
        }
    }

    /// It is watched from now on whether they arrive.
    pub(crate) fn watch(&mut self, now: Instant) {
        self.unproven = Some(Unproven {
            next_look: now + LOOK_EVERY,
            looks_left: LOOKS,
        });
    }

    /// Whose SYNs are answered.
    pub(crate) fn listener(&self) -> ListenerId {
        self.listener
    }

    /// Whether a core of the interface has taken the handler away.
    pub(crate) fn have_ended(&self) -> bool {
        self.on_interface.has_ended.load(Relaxed)
    }

    /// The interface has no handler any more.
    pub(crate) fn end(&self) {
        self.on_interface.has_ended.store(true, Relaxed);
    }

    /// Looks now and then whether SYN cookies have been accepted, of which the stack has this number by now, and SYNs answered. True when
    /// nobody came back who was.
    pub(crate) fn are_lost(
        &mut self,
        now: Instant,
        accepted: u64,
        answered: impl FnOnce() -> u64,
    ) -> bool {
        let all = &self.on_interface.accepted;
        if accepted != self.accepted {
            all.fetch_add(accepted - self.accepted, Relaxed);
            self.accepted = accepted;
        }
        let Some(unproven) = self.unproven.as_mut().filter(|u| u.next_look <= now) else {
            return false;
        };
        unproven.next_look = now + LOOK_EVERY;
        if all.load(Relaxed) > 0 {
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

#[cfg(test)]
mod tests {
    use exos_inet::tcp::ListenOptions;
    use exos_inet::{Config, Stack};
    use exos_wire::Mac;

    use super::*;

    /// The cores of an interface: the first watches.
    fn cores() -> [SynAnswers; 2] {
        let mut stack = Stack::new(Config::new(Mac([2; 6]), 1500), 7, Instant::START).unwrap();
        let listener = stack.tcp.listen(None, 80, ListenOptions::default());
        let (listener, on_interface) = (listener.unwrap(), Arc::<OnInterface>::default());
        let mut cores = [10, 20].map(|n| SynAnswers::new(listener, on_interface.clone(), n));
        cores[0].watch(Instant::START);
        cores
    }

    fn secs(count: u64) -> Instant {
        Instant::START + Duration::from_secs(count)
    }

    #[test]
    fn a_client_of_any_core_shows_that_answers_arrive() {
        let [mut first, mut other] = cores();
        assert!(!first.are_lost(secs(1), 10, || 1));
        assert!(!other.are_lost(secs(1), 21, || 1));
        for secs in (2..9).map(secs) {
            assert!(!first.are_lost(secs, 10, || 9));
        }
    }

    #[test]
    fn they_are_lost_where_nobody_comes_to_any_core() {
        let [mut first, mut other] = cores();
        assert!(!first.are_lost(secs(1), 10, || 0), "nobody was answered");
        assert!(!first.are_lost(secs(2), 10, || 1));
        assert!(!other.are_lost(secs(3), 20, || 1));
        assert!(first.are_lost(secs(3), 10, || 1));
        first.end();
        assert!(other.have_ended());
    }
}
