//! Who may connect, and the shares of the memory: each user has one, and in it each program.
//!
//! A user is what the kernel says of a connection (`SO_PEERCRED`), so nobody has another's share. Within a user nothing can be verified that means
//! more than a process: what executes it can be executed, copied or traced by all programs of that user, and a service without privilege cannot see
//! it of another's. So a program is a process, by its number at the moment it connected, however many connections it has; or all processes of a
//! user that say the same name. A user that makes up names, or processes, has as many shares within its own.

use crate::limits::{BUFFER_LEN, HOST_PARTS, Room, SHARE_MIN, SHARE_PART, USER_SESSIONS_PART};
use crate::protocol::NAME_LEN_MAX;
use exos_host::accounts;
use exos_host::units::parse_size;
use exos_iolite::Share;
use rustix::process::geteuid;
use std::collections::HashMap;
use std::str::FromStr;

/// A user who may connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// Which; any other that has an account where there is none, and those that have none as one.
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
    uid: u32,
    /// In whose share.
    pub user: u32,
    program: Program,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Program {
    Process(u32),
    Named([u8; NAME_LEN_MAX]),
}

/// All users without an account are one user: a person has as many numbers as there are subordinate ones (subuid(5)). It is no number of a user.
const WITHOUT_ACCOUNT: u32 = u32::MAX;

impl Owner {
    #[cfg(test)]
    pub fn of_process(uid: u32, pid: u32) -> Self {
        Self {
            uid,
            user: uid,
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

/// What a connection has of the memory.
#[derive(Debug)]
pub(crate) struct Place {
    /// With all of its program.
    pub share: Share,
    /// A part of that, of its own.
    pub place: Share,
    /// How many buffers its user may keep.
    pub user_limit: u32,
    /// How many files it may have open.
    pub files_max: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Users {
    /// None: the user who runs this, who may keep all.
    allowed: Vec<User>,
    own: u32,
    buffers: u32,
    room: Room,
    /// What all may keep together.
    all: Share,
    by_user: HashMap<u32, Share>,
    by_program: HashMap<Owner, Share>,
    /// The parts of connections, each with its user, as long as something counts in them.
    places: Vec<(u32, Share)>,
}

impl Users {
    pub fn new(allowed: Vec<User>, buffers: u32, room: Room) -> Self {
        let all = match allowed.is_empty() {
            true => buffers,
            false => buffers / HOST_PARTS * (HOST_PARTS - 1),
        };
        Self {
            allowed,
            own: geteuid().as_raw(),
            buffers,
            room,
            all: Share::new(all),
            by_user: HashMap::new(),
            by_program: HashMap::new(),
            places: Vec::new(),
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

    /// Who a process is that connects; nobody who may not.
    pub fn owner(&self, uid: u32, pid: u32) -> Option<Owner> {
        let is_named = uid == self.own || self.allowed.iter().any(|user| user.uid == Some(uid));
        let is_any = || self.allowed.iter().any(|user| user.uid.is_none());
        let user = match self.is_host() {
            true if is_named => uid,
            true if is_any() && accounts::has_user(uid) => uid,
            true if is_any() => WITHOUT_ACCOUNT,
            false if uid == self.own => uid,
            _ => return None,
        };
        Some(Owner {
            uid,
            user,
            program: Program::Process(pid),
        })
    }

    /// Whether there is a place for one more connection of a user, beside those that it has, and those of which members are left in the pool.
    pub fn has_place(&mut self, user: u32) -> bool {
        let most = match self.is_host() {
            true => (self.room.sessions / USER_SESSIONS_PART).max(1),
            false => self.room.sessions,
        };
        self.places.retain(|(_, place)| place.is_used());
        let own = self.places.iter().filter(|(of, _)| *of == user);
        own.count() < most && self.places.len() < self.room.sessions
    }

    /// How many buffers a user who may connect may keep.
    fn limit(&self, user: u32) -> u32 {
        if !self.is_host() {
            return self.buffers;
        }
        let named = self.allowed.iter().find(|it| it.uid == Some(user));
        let any = || self.allowed.iter().find(|it| it.uid.is_none());
        let memory = named.or_else(any).and_then(|it| it.memory);
        let buffers = memory.map_or(u64::from(self.buffers / SHARE_PART), |bytes| {
            bytes / BUFFER_LEN as u64
        });
        buffers.clamp(SHARE_MIN.into(), self.buffers.into()) as u32
    }

    /// A place for a connection of a program. Shares in which nothing counts any more are forgotten.
    pub fn place(&mut self, owner: Owner) -> Place {
        self.places.retain(|(_, place)| place.is_used());
        self.by_program.retain(|_, share| share.is_used());
        self.by_user.retain(|_, share| share.is_used());
        let (limit, program_limit) = (self.limit(owner.user), self.program_limit());
        let user = self.by_user.entry(owner.user);
        let user = user.or_insert_with(|| self.all.part(limit));
        let program = self.by_program.entry(owner);
        let user_limit = user.limit();
        let share = program.or_insert_with(|| user.part(program_limit)).clone();
        let place = share.part(u32::MAX);
        self.places.push((owner.user, place.clone()));
        Place {
            share,
            place,
            user_limit,
            files_max: self.room.files,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::USER_SESSIONS_MAX;

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
        let users = Users::new(Vec::new(), 4000, Room::ALL);
        assert!(users.owner(own, 1).is_some() && users.owner(own + 1, 1).is_none());
        assert_eq!((users.limit(own), users.program_limit()), (4000, 1000));
    }

    #[test]
    fn users_have_shares_and_their_programs_parts_of_these() {
        let allowed = ["7=16m", "all"].map(|text| text.parse().expect("it is one"));
        let mut users = Users::new(allowed.to_vec(), 4000, Room::ALL);
        assert_eq!((users.limit(7), users.limit(8)), (1024, 1000));
        assert_eq!(users.all.limit(), 3000);
        let places = [(7, 1), (7, 1), (7, 2), (8, 1)]
            .map(|(uid, pid)| users.place(Owner::of_process(uid, pid)));
        let limits = places.each_ref().map(|place| place.place.limit());
        assert_eq!(limits, [1000; 4]);
        assert_eq!((users.by_program.len(), users.by_user.len()), (3, 2));
        let named = Owner::of_process(7, 1).named([1; 24]);
        assert_eq!(named, Owner::of_process(7, 2).named([1; 24]));
        assert_ne!(named, Owner::of_process(8, 1).named([1; 24]));
        // They are forgotten with what counts in them: the connection has ended, its member has not.
        let place = places.map(|place| place.place).into_iter().next();
        assert!(users.has_place(7));
        let _other = users.place(Owner::of_process(9, 1));
        assert_eq!((users.by_program.len(), users.by_user.len()), (2, 2));
        let more: Vec<_> = (1..USER_SESSIONS_MAX as u32)
            .map(|pid| users.place(Owner::of_process(7, pid)))
            .collect();
        assert!(!users.has_place(7) && users.has_place(8));
        drop(place);
        assert!(users.has_place(7));
        drop(more);
    }

    #[test]
    fn all_are_those_with_accounts_and_the_rest_as_one() {
        let all = Users::new(vec!["all".parse().expect("it is one")], 4000, Room::ALL);
        let user = |uid| all.owner(uid, 1).map(|owner| owner.user);
        // /etc/passwd has no users of these numbers.
        let (one, other) = (3_000_000_001, 3_000_000_002);
        assert_eq!(
            (user(one), user(other)),
            (Some(WITHOUT_ACCOUNT), Some(WITHOUT_ACCOUNT))
        );
        assert_eq!(user(0), Some(0));
        let named = Users::new(
            vec!["3000000001".parse().expect("it is one")],
            4000,
            Room::ALL,
        );
        assert_eq!(named.owner(one, 1).map(|owner| owner.user), Some(one));
        assert!(named.owner(other, 1).is_none());
    }
}
