//! The thread that verifies passwords, each of which takes long, and tells the loops when it has: by the queues by which they hear
//! of documents, and so in the same order. It also reads files of passwords again when they have changed.
//!
//! It is there only where a site has users. Passwords beyond a number are not waited for, nor those of one client beyond a
//! smaller one: who guesses does not keep others from logging in.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use exos_host::affinity;

use super::change::Change;
use super::queue::{Outlet, say_to_all};
use super::tree::Tree;
use crate::limits::{PASSWORD_FILE_TIME, PASSWORDS_OF_PEER, PASSWORDS_QUEUED};
use crate::site::path::SitePath;
use crate::site::rules::access::client_of;
use crate::site::rules::access::peer::Peer;
use crate::site::settings::Settings;

/// Where passwords are handed over: the thread ends when this is dropped.
#[derive(Debug)]
pub(super) struct Passwords {
    sender: Option<SyncSender<(usize, SitePath)>>,
    waiting: Waiting,
}

/// How many wait of each client.
type Waiting = Arc<Mutex<HashMap<Peer, usize>>>;

impl Passwords {
    /// Verifies for the sites of these trees, on any of these cores.
    pub(super) fn start(
        trees: &[Tree],
        cores: &[usize],
        outlets: &[Outlet],
    ) -> io::Result<Passwords> {
        let waiting = Waiting::default();
        let sites = trees
            .iter()
            .map(|tree| (tree.site(), tree.settings().clone()));
        let sites: Vec<_> = sites
            .filter(|(_, settings)| settings.access.users().next().is_some())
            .collect();
        let mut sender = None;
        if !sites.is_empty() {
            let (asked, wanted) = sync_channel(PASSWORDS_QUEUED);
            sender = Some(asked);
            let mut work = Work {
                sites,
                outlets: outlets.to_vec(),
                waiting: waiting.clone(),
            };
            affinity::spawn("passwords", cores, move || work.run(&wanted))?;
        }
        Ok(Passwords { sender, waiting })
    }

    /// Has a password verified; false when too many wait.
    pub(super) fn ask(&self, site: usize, wanted: SitePath) -> bool {
        let (Some(sender), Some(peer)) = (&self.sender, client_of(&wanted)) else {
            return false;
        };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let its = waiting.get(&peer).copied().unwrap_or(0);
        let is_taken = its < PASSWORDS_OF_PEER && sender.try_send((site, wanted)).is_ok();
        if is_taken {
            waiting.insert(peer, its + 1);
        }
        is_taken
    }
}

struct Work {
    sites: Vec<(usize, Arc<Settings>)>,
    outlets: Vec<Outlet>,
    waiting: Waiting,
}

impl Work {
    /// Until nobody can ask any more.
    fn run(&mut self, wanted: &Receiver<(usize, SitePath)>) {
        let mut due = Instant::now() + PASSWORD_FILE_TIME;
        loop {
            match wanted.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok((site, wanted)) => self.verify(site, wanted),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= due {
                self.follow();
                due = Instant::now() + PASSWORD_FILE_TIME;
            }
        }
    }

    fn verify(&mut self, site: usize, wanted: SitePath) {
        if let Some((_, settings)) = self.sites.iter().find(|(number, _)| *number == site) {
            settings.access.verify(&wanted);
        }
        if let Some(peer) = client_of(&wanted) {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            match waiting.get_mut(&peer) {
                Some(its) if *its > 1 => *its -= 1,
                _ => drop(waiting.remove(&peer)),
            }
        }
        say_to_all(&self.outlets, (site, Change::Verified(wanted)));
    }

    fn follow(&self) {
        let users = self.sites.iter().flat_map(|(_, site)| site.access.users());
        for e in users.filter_map(|users| users.follow().err()) {
            exos_program::warn!("exos serve: {e}; who had a password before has it still");
        }
    }
}
