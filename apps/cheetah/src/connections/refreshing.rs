//! Requests of the server's own to upstreams: they are asked what clients were given stale, and what they answer is kept.

use std::collections::HashMap;

use exos_inet::Instant;

use super::shared::Shared;
use crate::applications::pool::{RefreshId, Refreshed};
use crate::applications::upload::Length;
use crate::caching::fetch::Heard;
use crate::http::{Asking, Use};

/// Those under way, and which of its addresses each is asked at.
pub(super) type Refreshing = HashMap<RefreshId, (Box<Asking>, usize)>;

impl Shared {
    /// Asks what is to be asked for nobody.
    pub(super) fn begin_refreshes(&mut self, now: Instant) {
        while let Some(asking) = self.server.poll_refresh() {
            self.begin_refresh(asking, now);
        }
    }

    /// Asks an upstream, if one can be asked. Those who find it stale next try again.
    fn begin_refresh(&mut self, asking: Box<Asking>, now: Instant) {
        let application = asking.asked.application.clone();
        let at = self.applications.choose(&application, 0, now);
        let at = at.unwrap_or_default();
        let address = &application.addresses[at];
        let Some(words) = asking.head_for(address, Length::NONE, false) else {
            return;
        };
        let (question, time) = (asking.question(), application.timeout);
        let begun = self
            .applications
            .refresh(address, words, question, time, now);
        if let Ok(id) = begun {
            self.refreshing.insert(id, (asking, at));
        }
    }

    /// Hears what upstreams have answered to that.
    pub(super) fn hear_refreshes(&mut self, now: Instant) {
        while let Some((id, news)) = self.applications.poll_refreshed() {
            let Some((mut asking, at)) = self.refreshing.remove(&id) else {
                continue;
            };
            if self.hear_refreshed(&mut asking, at, news, now) {
                self.refreshing.insert(id, (asking, at));
            } else {
                self.applications.end_refresh(id);
            }
        }
    }

    /// Takes a part of an answer; true when there is more to come of it that anybody wants.
    fn hear_refreshed(
        &mut self,
        asking: &mut Asking,
        at: usize,
        news: Refreshed,
        now: Instant,
    ) -> bool {
        let application = asking.asked.application.clone();
        let address = &application.addresses[at];
        let Refreshed::Part {
            head,
            content,
            is_over,
        } = news
        else {
            self.counters.upstream_failures += 1;
            if let Some(proxy) = &application.proxy {
                self.applications.rest(address, proxy.fail_time, now);
            }
            return false;
        };
        if let Some(mut head) = head {
            self.applications.end_rest(address);
            asking.lead_here(&mut head, address);
            if let Heard::Use(_) = self.server.hear_answer(asking, &head, now) {
                return false;
            }
        }
        let Use::Fetch(fetch) = &mut asking.keeps else {
            return false;
        };
        fetch.gather(&content, self.server.answers_mut(), now);
        if is_over {
            fetch.keep(self.server.answers_mut());
        }
        !is_over && fetch.is_gathering()
    }
}
