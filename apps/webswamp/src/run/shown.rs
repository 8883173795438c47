//! What is shown of a load on several cores: the sums of what they have seen, second by second.

use std::time::Duration;

use exos_inet::Instant;

use super::worker::{Seen, Worker};
use crate::report::{Live, Moment};
use crate::statistics::Second;

/// How long what other cores have seen is waited for, before it is looked for again: longer than a core that is not behind takes
/// to end its second, and too short to be seen.
const PATIENCE: Duration = Duration::from_millis(5);

/// Sums, up to now.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// Of all cores.
    seconds: Vec<Second>,
    /// How busy each core was at the last look.
    busy_before: Vec<Duration>,
    /// How busy the busiest of each look was, together.
    busy: Duration,
    /// Seconds of this core that others know.
    told: usize,
}

impl Shown {
    /// Shows what is over on all cores, where this is the first and there is something to be shown; tells it, where another is
    /// the first.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        mine: &Moment<'_>,
        worker: &Worker<'_>,
        live: &mut Live,
    ) {
        if live.due().is_some_and(|due| due <= now) {
            if worker.is_alone() {
                live.show(mine);
                return;
            }
            worker.show();
            match self.look(mine, worker) {
                Some(connections) => live.show(&Moment {
                    seconds: &self.seconds,
                    connections,
                    busy: self.busy,
                }),
                None => live.put_off(now + PATIENCE),
            }
        }
        if !worker.is_first() && worker.is_shown() && mine.seconds.len() > self.told {
            worker.tell(Seen {
                seconds: mine.seconds[self.told..].to_vec(),
                connections: mine.connections,
                busy: mine.busy,
            });
            self.told = mine.seconds.len();
        }
    }

    /// When a core that is not the first has something to tell, of a load that began then.
    pub(super) fn due(&self, start: Instant, worker: &Worker<'_>) -> Option<Instant> {
        let next = start + Duration::from_secs(self.told as u64 + 1);
        (!worker.is_first() && worker.is_shown()).then_some(next)
    }

    /// Adds up what is over on all cores, and gives how many connections they have; `None` where nothing more is.
    fn look(&mut self, mine: &Moment<'_>, worker: &Worker<'_>) -> Option<usize> {
        let mut over = mine.seconds.len() - self.seconds.len();
        worker.see_others(|seen| over = over.min(seen.seconds.len()));
        if over == 0 {
            return None;
        }
        let from = self.seconds.len();
        self.seconds
            .extend_from_slice(&mine.seconds[from..from + over]);
        let (mut connections, mut busy) = (mine.connections, vec![mine.busy]);
        worker.see_others(|seen| {
            let its = seen.seconds.drain(..over);
            for (all, second) in self.seconds[from..].iter_mut().zip(its) {
                all.add(&second);
            }
            connections += seen.connections;
            busy.push(seen.busy);
        });
        self.busy_before.resize(busy.len(), Duration::ZERO);
        let since = busy.iter().zip(&self.busy_before);
        let since = since.map(|(now, before)| now.saturating_sub(*before));
        self.busy += since.max().unwrap_or_default();
        self.busy_before = busy;
        Some(connections)
    }
}
