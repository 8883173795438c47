//! Servers that are named by a host's name: which addresses a name stands for, now and later.
//!
//! Names are resolved once at the start, and then by a thread of their own ([`Follower`]), since name servers may take their
//! time: the loop never waits for them, and applies between two packets what has changed. A name that cannot be resolved for a
//! while keeps the addresses that it had.
//!
//! They are asked over the kernel's sockets: names have to be known before links are opened, and links may lead to nobody but
//! clients and servers.

mod follower;
mod known;

use std::os::fd::BorrowedFd;
use std::path::Path;

use exos::names::{Config, Families, Family, HostNames};
use exos::{Error, Instant, clock};
use exos_inet::Stack;
use exos_program::names::{no_address, of_system, tell_slow};

use crate::limits::RESOLVE_FAILED_EVERY;
use crate::service::Listen;
use crate::settings::links::Links;
use crate::settings::setup::source;
use crate::settings::wanted::Wanted;
use follower::{Follower, ResolveRequest, Resolved};
pub use known::{Answer, Known, News};

/// Resolves names at the start: those of this host's file, and what its name servers say.
///
/// # Errors
///
/// The host does not say how it looks names up.
pub fn resolve_first(wanted: &Wanted) -> Result<(Vec<Answer>, HostNames), Error> {
    let mut host = of_system()?;
    let names: Vec<String> = wanted.names().map(str::to_owned).collect();
    let slow = |config: &Config| tell_slow("forward", config);
    let resolved = resolve(&mut host, &names, &wanted.families(), slow);
    Ok((resolved.answers, host))
}

/// What these names stand for, and until when. That nobody knows of others than these families does not matter.
fn resolve(
    host: &mut HostNames,
    names: &[String],
    families: &[Family],
    slow: impl FnOnce(&Config),
) -> Resolved {
    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut found = host.lookup_all(&texts, Families::Both, slow);
    for found in &mut found {
        let matters = |(family, _): &(Family, _)| families.contains(family);
        found.failed = found.failed.take().filter(matters);
    }
    let again = clock::now() + RESOLVE_FAILED_EVERY;
    let until = found.iter().flat_map(|found| {
        let is_whole = found.addresses.is_ok() && found.failed.is_none();
        [found.until, (!is_whole).then_some(again)]
    });
    let until: Option<Instant> = until.flatten().min();
    let said = |error| no_address(&error).what;
    let answers = names.iter().zip(found).map(|(name, found)| Answer {
        name: name.clone(),
        addresses: found.addresses.map_err(said),
        failed: found.failed.map(|(family, error)| (family, said(error))),
        left_out: None,
    });
    Resolved {
        answers: answers.collect(),
        until,
    }
}

/// The names of a forwarder that runs.
pub struct Names {
    /// What is in force, with names as they are written.
    written: Wanted,
    known: Known,
    /// What resolves them, until the thread has it.
    host: Option<HostNames>,
    follower: Option<Follower>,
    /// What a file says that was read again, until its new names are resolved.
    pending: Option<Wanted>,
    /// What is listened to, with the addresses that are in force.
    pub in_force: Vec<Listen>,
    /// Why the addresses that are known are not in force; said once.
    pub refused: Option<String>,
}

impl Names {
    /// Resolves all names of what is wanted.
    ///
    /// # Errors
    ///
    /// One cannot be resolved: which, and where it is written.
    pub fn resolve(wanted: &Wanted, file: Option<&Path>) -> Result<Self, Error> {
        let mut known = Known::default();
        let (answers, host) = resolve_first(wanted)?;
        for answer in answers {
            known.note(answer);
        }
        let names = Self {
            written: wanted.clone(),
            known,
            host: Some(host),
            follower: None,
            pending: None,
            in_force: Vec::new(),
            refused: None,
        };
        match names.known.first_unknown(wanted) {
            Some(named) => Err(names.known.unresolved(named, file)),
            None => Ok(names),
        }
    }

    /// What names stand for.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Has the names resolved again and again from now on, as anyone who this process is now.
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub fn follow(&mut self) -> Result<(), Error> {
        if self.follower.is_none() && self.asked().is_of_any() {
            let mut host = self.host.take().map_or_else(of_system, Ok)?;
            let follower = Follower::start(self.asked(), move |asked, again| {
                if again {
                    host.forget();
                }
                resolve(&mut host, &asked.names, &asked.families, |_| ())
            });
            let follower = follower.map_err(|e| Error::io("cannot follow servers' names", e))?;
            self.follower = Some(follower);
        }
        Ok(())
    }

    fn asked(&self) -> ResolveRequest {
        let all = [Some(&self.written), self.pending.as_ref()];
        let names = all.into_iter().flatten().flat_map(Wanted::names);
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names.dedup();
        let last = self.pending.as_ref().unwrap_or(&self.written);
        ResolveRequest {
            names,
            families: last.families(),
            every: last.resolve,
        }
    }

    /// Has this wait until all of its names are known.
    pub fn pend(&mut self, wanted: Wanted) {
        self.known.forget_failures();
        self.pending = Some(wanted);
    }

    /// Has all names resolved at once.
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub fn ask(&mut self) -> Result<(), Error> {
        self.follow()?;
        let asked = self.asked();
        if let Some(follower) = &mut self.follower {
            follower.ask(asked);
        }
        Ok(())
    }

    /// What waited for its names, when all of them are known; or why it cannot be.
    pub fn take_pending(&mut self) -> Option<Result<Wanted, Error>> {
        let pending = self.pending.as_ref()?;
        match self.known.first_unknown(pending) {
            None => {}
            Some(named) if self.known.why_not(&named.name).is_some() => {
                let error = self.known.unresolved(named, None);
                self.pending = None;
                return Some(Err(error));
            }
            Some(_) => return None,
        }
        let pending = self.pending.take()?;
        Some(Ok(pending))
    }

    /// What is in force now, as it is written.
    pub fn set_written(&mut self, wanted: Wanted, in_force: Vec<Listen>) {
        self.known.keep(&wanted);
        (self.written, self.in_force, self.refused) = (wanted, in_force, None);
    }

    /// What was written, with the addresses that are known now, on these links.
    ///
    /// # Errors
    ///
    /// A name has no address of a family that is listened for.
    pub fn filled(&self, links: &Links) -> Result<Wanted, Error> {
        let mut filled = self.known.filled(&self.written)?;
        filled.links.clone_from(links);
        Ok(filled)
    }

    /// What is new of names, when the thread has said something. Addresses to which these stacks do not lead are left out: one
    /// answer does not keep others from being followed.
    pub fn take(&mut self, stacks: &[&Stack]) -> Option<Vec<News>> {
        let answers = self.follower.as_mut()?.take()?;
        let unfit = |ip, reach| match stacks {
            [] => None,
            stacks => source(stacks, ip, reach).err().map(|error| error.what),
        };
        let services = &self.written.services;
        let answers = answers.into_iter().map(|a| a.fitting(services, unfit));
        let news = answers.filter_map(|a| self.known.note(a));
        Some(news.collect())
    }

    /// What becomes readable when there is something to take.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.follower.as_ref().map(Follower::fd)
    }
}
