//! Giving back what the daemon asks for, in time.
//!
//! A grant that is asked for is ours until its deadline, and its connections go on until shortly before. Then
//! their peers are sent resets, while we still may send; what waits in TIME-WAIT is left with the daemon; and the
//! grant is given back. What the program has of other grants is not touched.

use std::time::Duration;

use exos_inet::{Instant, Stack};
use exos_xok::Claim;
use exos_xok::message::{GrantId, Request, Revoked};

use super::ending::Ending;
use super::lease::{State, Via};
use super::leave::covers;
use super::news::{Lost, News};
use crate::limits::{GIVE_BACK_MARGIN, RESETS_AT_ONCE};

impl Via {
    /// The daemon asks for something, and takes it after `within`.
    pub(super) fn handle_revoke(
        &mut self,
        now: Instant,
        what: Revoked,
        within: Duration,
        reason: String,
    ) {
        let what = match what {
            Revoked::Slot => Lost::Link,
            Revoked::Rate(rate) => Lost::Rate(rate),
            Revoked::Grant(grant) => {
                let held = self.grants.iter().find(|(id, _)| *id == grant);
                let Some((_, claim)) = held.copied() else {
                    return; // It has been given back meanwhile.
                };
                let margin = GIVE_BACK_MARGIN.min(within / 2);
                self.ending.push(Ending {
                    grant,
                    claim,
                    reset_at: now + (within - margin),
                    release_at: now + (within - margin / 2),
                    connections: None,
                });
                Lost::Grant(claim)
            }
        };
        self.news.push_back(News::Revoked {
            what,
            within,
            reason,
        });
    }

    /// What is ours and stays so: all grants but those that are asked for.
    pub fn grants_kept(&self) -> impl Iterator<Item = &(GrantId, Claim)> {
        let ends = |grant: GrantId| self.ending.iter().any(|e| e.grant == grant);
        self.grants.iter().filter(move |(id, _)| !ends(*id))
    }

    /// When [`give_back`](Self::give_back) has something to do.
    pub(super) fn next_ending(&self) -> Option<Instant> {
        self.ending.iter().map(Ending::next).min()
    }

    /// Resets what must end now, and gives back what has ended.
    pub(super) fn give_back(&mut self, now: Instant, stack: &mut Stack) {
        let mut ending = std::mem::take(&mut self.ending);
        for e in ending.iter_mut().filter(|e| e.reset_at <= now) {
            let left = e.connections.get_or_insert_with(|| {
                let kept = self.grants.iter().filter(|(id, _)| *id != e.grant);
                let kept: Vec<Claim> = kept.map(|(_, claim)| *claim).collect();
                let lost =
                    |flow: &_| covers(&e.claim, flow) && !kept.iter().any(|c| covers(c, flow));
                stack.tcp.connections_where(lost)
            });
            for id in left.drain(left.len().saturating_sub(RESETS_AT_ONCE)..) {
                stack.tcp.abort(id);
            }
        }
        let over = |e: &mut Ending| {
            e.release_at <= now && e.connections.as_ref().is_some_and(Vec::is_empty)
        };
        for e in ending.extract_if(.., over) {
            self.leave_under(now, stack, e.grant, &e.claim);
            if let State::There(control) = &mut self.state {
                // When it cannot be said the daemon takes it by itself.
                let _ = control.send(&Request::Release { grant: e.grant });
            }
            self.grants.retain(|(id, _)| *id != e.grant);
        }
        self.ending = ending;
    }
}
