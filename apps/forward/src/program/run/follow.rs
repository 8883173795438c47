//! What is done with names whose addresses have changed, and with a file that waits for its names.

use exos::Error;

use super::program::Program;
use super::reload;
use crate::program::cores::table::{Shared, Table};
use crate::service::Changes;
use crate::settings::names::News;
use crate::settings::setup::listens;

impl Program {
    /// Hears of names. Servers that a name stands for no longer get nothing new, and keep their flows; others come. What was
    /// changed over the control socket stays so.
    pub(super) fn follow_names(&mut self, shared: &Shared) {
        let Some(news) = self.names.take(&self.core.links.stacks()) else {
            return;
        };
        for told in news {
            match told {
                News::Good(text) => exos_program::info!("exos forward: {text}"),
                News::Bad(text) => exos_program::warn!("exos forward: {text}"),
            }
        }
        match self.names.take_pending() {
            Some(pending) => {
                let changed = pending.and_then(|wanted| self.become_wanted(shared, wanted));
                reload::tell(changed.map(|changes| reload::in_words(&changes)));
            }
            None => self.put_in_force(shared),
        }
    }

    fn put_in_force(&mut self, shared: &Shared) {
        match self.change(shared, Self::change_addresses) {
            Ok(changes) if changes != Changes::default() => {
                let Changes { added, removed, .. } = changes;
                exos_program::info!(
                    "exos forward: servers by their names: {added} added, {removed} removed"
                );
                self.names.refused = None;
            }
            Ok(_) => self.names.refused = None,
            Err(error) => {
                let text = error.to_string();
                if self.names.refused.as_ref() != Some(&text) {
                    exos_program::warn!("exos forward: keeps the servers that it has: {text}");
                }
                self.names.refused = Some(text);
            }
        }
    }

    fn change_addresses(&mut self, table: &mut Table) -> Result<Changes, Error> {
        let wanted = self.names.filled(&self.wanted_links)?;
        let listens = listens(&wanted.services, &self.core.links.stacks())?;
        if listens == self.names.in_force {
            return Ok(Changes::default());
        }
        let services = table.forwarder.services_mut();
        let after = services.with_difference(&self.names.in_force, &listens);
        let changes = services.become_these(&after)?;
        services.set_names(self.names.known().by_address());
        self.names.in_force = listens;
        Ok(changes)
    }
}
