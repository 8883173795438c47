//! `--user`: the program gives up its privilege for good once its link is open, and does all that comes later as that user.
//!
//! What is opened for the program, the link and a port below 1024, takes privilege. What it reads and writes for others does not:
//! documents, the log, kept flows and the files of a reload are the user's to read or to write from the start, so that
//! nothing works at the start that fails later. A link that the daemon lends takes no privilege either: it is asked for as
//! that user, whom its policy then is about, also when the daemon was away.

use std::path::Path;

use exos::{Attachment, Core, Error, Exos, LinkKind};
use exos_host::accounts::Account;
use exos_host::bpf::{merging_of, turn_on_again};
use exos_host::privilege;

use crate::link::on;

/// The user of a program that is started as root.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct UserArgs {
    /// Give up root for this user once the link or socket is open; files are read and written as this user from the
    /// start
    #[arg(long, value_name = "NAME[:GROUP]")]
    pub user: Option<Account>,
}

impl UserArgs {
    /// This, and what a file says where this says nothing.
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        Self {
            user: self.user.or(file.user),
        }
    }

    /// Does this with the rights to files that the user has, where one is named: the program still has other things to open.
    ///
    /// # Errors
    ///
    /// The work's, or this process may not become that user.
    pub fn as_user<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        match &self.user {
            Some(account) => privilege::files_as(account, work)?,
            None => work(),
        }
    }

    /// Gives all privilege up before a link is opened that the daemon lends.
    ///
    /// # Errors
    ///
    /// This process may not become that user.
    pub fn give_up_for(&self, link: &LinkKind) -> Result<(), Error> {
        match link {
            LinkKind::Daemon(_) => self.give_up(),
            _ => Ok(()),
        }
    }

    /// Attaches, opens what takes privilege beside the link, and gives all privilege up.
    ///
    /// # Errors
    ///
    /// Any of that fails.
    pub fn attach<T>(
        &self,
        attachment: Attachment,
        open: impl FnOnce(&mut Exos) -> Result<T, Error>,
    ) -> Result<(Exos, T), Error> {
        self.give_up_for(&attachment.link)?;
        self.warn_of_merging(&attachment.link);
        let mut exos = Exos::attach(attachment)?;
        let opened = open(&mut exos)?;
        self.give_up()?;
        Ok((exos, opened))
    }

    /// Opens each of several interfaces for its cores, does with them what takes privilege beside that, and gives all privilege up.
    ///
    /// # Errors
    ///
    /// Any of that fails; it says at which interface.
    pub fn open_each<T>(
        &self,
        attachments: Vec<Attachment>,
        open: impl FnOnce(Vec<Vec<Core>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let open_one = |attachment: Attachment| {
            self.warn_of_merging(&attachment.link);
            let name = match &attachment.link {
                LinkKind::Interface(interface) => &interface.name,
                link => link.interface().unwrap_or("another link"),
            };
            let name = name.to_owned();
            Core::open(attachment).map_err(|e| on(&name, e))
        };
        let all = attachments.into_iter().map(open_one);
        let opened = open(all.collect::<Result<_, _>>()?)?;
        self.give_up()?;
        Ok(opened)
    }

    /// Gives all privilege up, where a user is named. To be called while there is one thread, or when all others have done it
    /// by [`give_up_here`](Self::give_up_here).
    ///
    /// # Errors
    ///
    /// This process may not become that user.
    pub fn give_up(&self) -> Result<(), Error> {
        let Some(account) = &self.user else {
            return Ok(());
        };
        // The user may look at the packets then, as at those of its other programs.
        exos::watch::give_to(account.uid, account.gid);
        privilege::give_up(account)?;
        privilege::check_threads(account)
    }

    /// Gives the privilege of the calling thread up, in a program of several threads.
    ///
    /// # Errors
    ///
    /// It may not become that user.
    pub fn give_up_here(&self) -> Result<(), Error> {
        self.user.as_ref().map_or(Ok(()), privilege::give_up)
    }

    /// Says what a program of the interface turns off that this user may not turn on again at the end. To be called before
    /// the link is opened.
    pub fn warn_of_merging(&self, link: &LinkKind) {
        let (Some(account), Some(interface)) = (&self.user, link.interface()) else {
            return;
        };
        let features = merging_of(interface);
        if !features.is_empty() {
            let (user, remedy) = (&account.name, turn_on_again(interface, &features));
            crate::warn!("{user} may not put {interface} back as it was at the end; {remedy} then");
        }
    }

    /// Says so when a file that a reload is to read is not for the user to read.
    pub fn warn_of_unreadable(&self, program: &str, file: &Path) {
        let read = self.as_user(|| {
            std::fs::File::open(file).map_err(|e| Error::io(file.display().to_string(), e))
        });
        if let (Some(account), Err(error)) = (&self.user, read) {
            crate::warn!(
                "exos {program}: SIGHUP will change nothing, for {} cannot read {}",
                account.name,
                error.sentence()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_comes_before_the_file() {
        let args = |text: &str| UserArgs {
            user: Some(text.parse().expect("numbers are known")),
        };
        assert_eq!(args("7:7").or(args("8:8")), args("7:7"));
        assert_eq!(UserArgs::default().or(args("8:8")), args("8:8"));
        let mut opened = false;
        let done = UserArgs::default().as_user(|| {
            opened = true;
            Ok(())
        });
        assert!(done.is_ok() && opened);
    }
}
