//! Who may connect, and the shares of the memory: each user has one, and in it each program.
//!
//! A user is what the kernel says of a connection (`SO_PEERCRED`), so nobody has another's share. Within a user nothing can be verified that means
//! more than a process: what executes it can be executed, copied or traced by all programs of that user, and a service without privilege cannot see
//! it of another's. So a program is a process, by its number at the moment it connected, however many connections it has; or all processes of a
//! user that say the same name. A user that makes up names, or processes, has as many shares within its own.

use crate::limits::{BUFFER_LEN, SESSIONS_MAX, SHARE_MIN, SHARE_PART, USER_SESSIONS_MAX};
use crate::protocol::NAME_LEN_MAX;
use exos_host::accounts;
use exos_host::peer::Peer;
use exos_host::units::parse_size;
use exos_iolite::Share;
use rustix::process::geteuid;
use std::collections::HashMap;
use std::str::FromStr;

/// A user who may connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// Which; any other where there is none.
    pub uid: Option<u32>,
    /// Bytes of the memory that all programs of this user may keep at once, if not as by default a quarter.
    pub memory: Option<u64>,
}

impl FromStr for User {
    type Err = String;

    /// `NAME`, `UID` or `all`, and `=SIZE` behind it.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, memory) = match text.split_once('=') {
            Some((name, memory)) => (name, Some(parse_size(memory)?)),
            None => (text, None),
        };
        let uid = match name {
            "all" => None,
            _ => Some(accounts::user(name).ok_or_else(|| format!("there is no user {name:?}"))?),
        };
        Ok(Self { uid, memory })
    }
}

/// Whose a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Owner {
    pub uid: u32,
    program: Program,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Program {
    Process(u32),
    Named([u8; NAME_LEN_MAX]),
}

impl Owner {
    pub fn of(peer: &Peer) -> Self {
        Self::of_process(peer.uid, peer.pid)
    }

    pub fn of_process(uid: u32, pid: u32) -> Self {
        Self {
            uid,
            program: Program::Process(pid),
        }
    }

    /// A program that says its name.
    pub fn named(self, name: [u8; NAME_LEN_MAX]) -> Self {
        Self {
            program: Program::Named(name),
            ..self
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Users {
    /// None: the user of this process, who may keep all.
    allowed: Vec<User>,
    buffers: u32,
    by_user: HashMap<u32, Share>,
    by_program: HashMap<Owner, Share>,
}

impl Users {
    pub fn new(allowed: Vec<User>, buffers: u32) -> Self {
        Self {
            allowed,
            buffers,
            by_user: HashMap::new(),
            by_program: HashMap::new(),
        }
    }

    /// Whether this is a service of several users.
    pub fn is_host(&self) -> bool {
        !self.allowed.is_empty()
    }

    /// What the pool lets each connection keep: what a program may.
    pub fn program_limit(&self) -> u32 {
        (self.buffers / SHARE_PART).max(SHARE_MIN)
    }

    /// Whether one more program of a user may connect, beside those that have.
    pub fn may_connect(&self, uid: u32, connected: impl Iterator<Item = Owner>) -> bool {
        let most = if self.is_host() {
            USER_SESSIONS_MAX
        } else {
            SESSIONS_MAX
        };
        self.limit(uid).is_some() && connected.filter(|owner| owner.uid == uid).count() < most
    }

    /// How many buffers a user may keep; none who may not connect. The one who runs the service may.
    fn limit(&self, uid: u32) -> Option<u32> {
        if !self.is_host() {
            return (uid == geteuid().as_raw()).then_some(self.buffers);
        }
        let named = self.allowed.iter().find(|user| user.uid == Some(uid));
        let user = named.or_else(|| self.allowed.iter().find(|user| user.uid.is_none()));
        let user = user.copied().or_else(|| {
            (uid == geteuid().as_raw()).then_some(User {
                uid: Some(uid),
                memory: None,
            })
        })?;
        let buffers = user.memory.map(|bytes| bytes / BUFFER_LEN as u64);
        let buffers = buffers.unwrap_or((self.buffers / SHARE_PART).into());
        Some(buffers.clamp(SHARE_MIN.into(), self.buffers.into()) as u32)
    }

    /// The share of a program. Shares of programs that are not `connected`, and keep nothing, are forgotten.
    pub fn share(&mut self, owner: Owner, connected: impl Fn(&Owner) -> bool) -> Share {
        self.by_program
            .retain(|owner, share| share.count() > 0 || connected(owner));
        let programs = &self.by_program;
        self.by_user.retain(|uid, share| {
            share.count() > 0 || programs.keys().any(|owner| owner.uid == *uid)
        });
        let limit = self.limit(owner.uid).unwrap_or_default();
        let program_limit = self.program_limit();
        let user = self.by_user.entry(owner.uid);
        let user = user.or_insert_with(|| Share::new(limit));
        let program = self.by_program.entry(owner);
        program.or_insert_with(|| user.part(program_limit)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_written_by_name_or_number_with_a_size() {
        let user = |uid, memory| Ok(User { uid, memory });
        assert_eq!("root".parse::<User>(), user(Some(0), None));
        assert_eq!("4711=64m".parse::<User>(), user(Some(4711), Some(64 << 20)));
        assert_eq!("all=1m".parse::<User>(), user(None, Some(1 << 20)));
        for (text, said) in [
            ("", "no user \"\""),
            ("nobody-is-so", "no user"),
            ("root=", "64kb"),
            ("root=much", "64kb"),
        ] {
            let error = text.parse::<User>().expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn one_user_alone_may_keep_all_and_nobody_else_connects() {
        let own = geteuid().as_raw();
        let users = Users::new(Vec::new(), 4000);
        assert!(users.may_connect(own, std::iter::empty()));
        assert!(!users.may_connect(own + 1, std::iter::empty()));
        assert_eq!(
            (users.limit(own), users.program_limit()),
            (Some(4000), 1000)
        );
    }

    #[test]
    fn users_have_shares_and_their_programs_parts_of_these() {
        let allowed = ["7=16m", "all"].map(|text| text.parse().expect("it is one"));
        let mut users = Users::new(allowed.to_vec(), 4000);
        assert_eq!((users.limit(7), users.limit(8)), (Some(1024), Some(1000)));
        let shares = [(7, 1), (7, 1), (7, 2), (8, 1)]
            .map(|(uid, pid)| users.share(Owner::of_process(uid, pid), |_| true));
        assert_eq!(shares.each_ref().map(Share::limit), [1000; 4]);
        assert_eq!(users.by_program.len(), 3);
        let named = Owner::of_process(7, 1).named([1; 24]);
        assert_eq!(named, Owner::of_process(7, 2).named([1; 24]));
        assert_ne!(named, Owner::of_process(8, 1).named([1; 24]));
        // They are forgotten with their connections.
        users.share(Owner::of_process(9, 1), |_| false);
        assert_eq!((users.by_program.len(), users.by_user.len()), (1, 1));
        let many = std::iter::repeat_n(Owner::of_process(7, 3), USER_SESSIONS_MAX);
        assert!(!users.may_connect(7, many.clone()) && users.may_connect(8, many));
    }
}
