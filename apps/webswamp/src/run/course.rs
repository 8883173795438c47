//! A core's part of the load under way, whatever carries it: when all is over, and until when the loop may sleep.

use std::time::Duration;

use exos::clock;
use exos_inet::Instant;

use crate::driver::replay::Extent;
use crate::engine::Engine;
use crate::report::{Effort, Generator, Live, Moment, OnCore, Results};
use crate::secured::Sessions;
use exos_program::Idle;

use super::shown::Shown;
use super::worker::Worker;

/// What a load that looks on sleeps through no part of: waking takes a tenth of a millisecond, and now and then, on a virtual
/// machine, a hundred times that.
const SLEEP_MIN: Duration = Duration::from_millis(20);

/// How long a loop sleeps at most that has nothing left to do, until the others wake it.
const OVER_SLEEP: Duration = Duration::from_secs(1);

/// A load that runs.
pub(super) struct Course<'a> {
    pub(super) engine: Engine,
    /// Those of TLS, where it is spoken.
    pub(super) sessions: Option<Sessions>,
    pub(super) worker: Worker<'a>,
    pub(super) start: Instant,
    /// Nothing begins from then on.
    pub(super) until: Instant,
    /// It is a rate until then, and not over before, though its last request may be.
    pub(super) lasts_until: Option<Instant>,
    pub(super) effort: Effort,
    /// What is done while there is nothing to do.
    pub(super) idle: Idle,
    /// Who makes the load; what became of it is added in the end.
    pub(super) generator: Generator,
    /// What is seen of it while it runs.
    pub(super) live: Live,
    pub(super) shown: Shown,
}

impl Course<'_> {
    /// A turn of the loop has ended: ends the load when its time is over, and says when the next turn is due; `None` when
    /// there is none, because all is done, here and on the other cores, or somebody has asked to stop.
    pub(super) fn due(&mut self, now: Instant) -> Option<Instant> {
        self.worker.clear_doorbell();
        // What was meant to begin before the end does, also when this turn is late.
        if now >= self.until && !self.engine.is_behind(now) {
            self.engine.end(now);
        }
        let may_end = self.lasts_until.is_none_or(|until| now >= until);
        let is_over = self.engine.is_over() && may_end && self.worker.is_over();
        if is_over || self.worker.stop_requested() {
            return None;
        }
        if self.worker.take_report_request() {
            self.live.ask();
        }
        self.show(now);
        let due = self
            .engine
            .poll_timeout()
            .into_iter()
            .chain(self.live.due())
            .chain(self.lasts_until.filter(|until| now < *until))
            .chain(self.shown.due(self.start, &self.worker));
        let end = (now < self.until).then_some(self.until);
        // What is under way has a deadline; who has nothing left to do waits for the others.
        Some(due.chain(end).min().unwrap_or(now + OVER_SLEEP))
    }

    /// The next turn is to come at once, though nothing is due before this moment.
    pub(super) fn looks_on(&self, now: Instant, due: Instant) -> bool {
        let is_near = self.engine.requests_under_way() > 0 || due < now + SLEEP_MIN;
        self.idle == Idle::Poll && is_near
    }

    fn show(&mut self, now: Instant) {
        let mine = Moment {
            seconds: self.engine.statistics.seconds.done(),
            connections: self.engine.connections(),
            busy: self.effort.busy,
        };
        self.shown.turn(now, &mine, &self.worker, &mut self.live);
    }

    /// A turn that moved something took so long.
    pub(super) fn was_busy(&mut self, since: Instant) {
        self.effort.busy += clock::now() - since;
    }

    /// The load is over; what is under way and all connections are to be given up.
    pub(super) fn stop(&mut self, now: Instant) {
        self.engine.end(now);
        self.engine.statistics.seconds.advance(now);
        self.effort.stop(now);
    }

    pub(super) fn results(self, counters: Vec<(String, u64)>) -> Results {
        self.live.finish();
        let begun = self.engine.statistics.seconds.begun();
        let responses = self.engine.statistics.responses;
        let busy_share = self.effort.busy_share();
        let processor_secs = self.effort.processor.as_secs_f64();
        let generator = Generator {
            responses,
            busy_share,
            processor_secs,
            log: self.generator.log.map(|log| Extent { begun, ..log }),
            cores: vec![OnCore {
                core: self.worker.place.core,
                interface: self.worker.place.interface.clone(),
                responses,
                busy_share,
                processor_secs,
            }],
            ..self.generator
        };
        Results::new(generator, &self.engine.statistics, counters)
    }
}
