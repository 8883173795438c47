//! Another configuration while it runs: the file read again, and what it says put in force.

use exos::Error;

use super::program::Program;
use crate::forwarder::Forwarder;
use crate::health::Rule;
use crate::program::checking::Checking;
use crate::program::cores::table::{Shared, Table};
use crate::program::lent;
use crate::service::Changes;
use crate::settings::setup::{check, listens};
use crate::settings::wanted::Wanted;

impl Program {
    /// Reads the file again: what it says takes the place of what was, or nothing changes. The file is short, so packets wait for
    /// it some 7 microseconds for each server. Where it has names that are not known, that happens when they are resolved.
    pub(super) fn reload(&mut self, shared: &Shared) -> Result<String, Error> {
        if self.args.config.is_none() {
            return Err(Error::new("there is no file to read again")
                .mend("start the forwarder with --config FILE"));
        }
        self.names.pend(self.args.wanted()?);
        let said = match self.names.take_pending() {
            Some(wanted) => self
                .become_wanted(shared, wanted?)
                .map(|changes| in_words(&changes)),
            None => {
                Ok("read its file again, and follows it when the names in it are resolved".into())
            }
        };
        // Those that are known too: that they have moved may be why somebody asks.
        self.names.ask()?;
        said
    }

    /// Reads the file again because a signal asks for it, and tells a person what has become of that.
    pub(super) fn reload_and_tell(&mut self, shared: &Shared) {
        tell(self.reload(shared));
    }

    /// Does what is wanted now, with the addresses of its names that are known.
    pub(super) fn become_wanted(
        &mut self,
        shared: &Shared,
        wanted: Wanted,
    ) -> Result<Changes, Error> {
        self.change(shared, |program, table| program.put_wanted(table, wanted))
    }

    fn put_wanted(&mut self, table: &mut Table, mut wanted: Wanted) -> Result<Changes, Error> {
        // Links, cores, the table and the sockets are what they were at the start.
        wanted.links.clone_from(&self.wanted_links);
        let links = &mut self.core.links;
        let is_lent = links.first_mut().via().is_some();
        check(&wanted, table.kernel.is_some(), is_lent)?;
        if is_lent {
            lent::claim(links, &wanted)?;
            if table.keeper.is_some() {
                lent::await_successor(links)?;
            }
        }
        let filled = self.names.known().filled(&wanted)?;
        let listens = listens(&filled.services, &self.core.links.stacks())?;
        let rule = wanted.health.rule()?;
        let services = table.forwarder.services_mut();
        let changes = services.become_these(&listens)?;
        self.names.set_written(wanted, listens);
        services.set_names(self.names.known().by_address());
        set_rules(&mut table.forwarder, &filled);
        self.set_checks(table, rule);
        Ok(changes)
    }

    /// Checks by this rule from now on; what is known of servers stays, unless nobody is asked any more.
    fn set_checks(&mut self, table: &mut Table, rule: Option<Rule>) {
        if self.checks.as_ref().map(Checking::rule) == rule.as_ref() {
            return;
        }
        if let Some(mut checks) = self.checks.take() {
            checks.stop(&mut self.core.links);
        }
        if rule.is_none() {
            table.forwarder.services_mut().forget_checks();
        }
        let links = self.core.links.all().len();
        self.checks = rule.map(|rule| Checking::new(rule, links));
    }
}

/// How flows begin, and which servers are to have none.
pub(super) fn set_rules(forwarder: &mut Forwarder, wanted: &Wanted) {
    forwarder.set_no_server(wanted.no_server);
    let services = forwarder.services_mut();
    services.set_affinity(wanted.affinity);
    services.set_passive(wanted.health.passive());
    services.set_balance(wanted.balance);
}

/// Tells a person what has become of a reload.
pub(super) fn tell(said: Result<String, Error>) {
    match said {
        Ok(said) => exos_program::info!("exos forward: {said}"),
        Err(error) => exos_program::warn!("exos forward: goes on as before: {error}"),
    }
}

/// What a person is told of a reload.
pub(super) fn in_words(changes: &Changes) -> String {
    let Changes {
        added,
        removed,
        weighed,
    } = changes;
    format!("read its file again: {added} added, {removed} removed, {weighed} with another weight")
}
