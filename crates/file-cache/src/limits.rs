//! The limits of this crate, each with its reason.

use std::time::Duration;

/// A buffer of the cache's pool. Files are shorter than one on most machines; larger ones would waste more behind their ends, and a
/// reference to each costs less than 1 % of looking at its bytes.
pub const BUFFER_LEN: usize = 16 << 10;

/// What is read, kept and replaced at once of a long file: some milliseconds of a slow disk, and enough that one more request is nothing.
pub const EXTENT_LEN: usize = 256 << 10;

/// What one answer carries at most: two of them fit into a pipe.
pub const ANSWER_LEN_MAX: usize = 384 << 10;

/// Slices in the pipe to a client: two answers, each with its head.
pub const SLOTS: usize = 64;

/// Buffers that a client may keep, if the memory is small: those of a full pipe, and as many that it looks at.
pub const SHARE_MIN: u32 = 2 * SLOTS as u32;

/// What a program may keep of the memory, and by default a user of several: a quarter, so that a few that keep all they can leave some to replace.
pub const SHARE_PART: u32 = 4;

/// The least memory: four clients that keep what they may.
pub const MEMORY_MIN: u64 = SHARE_MIN as u64 * SHARE_PART as u64 * BUFFER_LEN as u64;

/// The most memory: what a pool can have.
pub const MEMORY_MAX: u64 = exos_iolite::limits::POOL_LEN_MAX as u64 - (16 << 20);

/// Programs that are connected at once: each, and what it lets in, is a member of the pool.
pub const SESSIONS_MAX: usize = exos_iolite::limits::MEMBERS_MAX / 2 - 1;

/// What all users may keep together, where there are several: three of this many parts, so that one is left to replace.
pub const HOST_PARTS: u32 = 4;

/// Connections that one of several users may have at once: so three others have room.
pub const USER_SESSIONS_MAX: usize = SESSIONS_MAX / USER_SESSIONS_PART;

/// The part of all connections that one of several users may have.
pub(crate) const USER_SESSIONS_PART: usize = 4;

/// How long an answer waits until the program that it is for has let go of something, where its share is full, before the program is told so.
/// A program that looks at what it reads, and keeps none of it, lets go of it within that.
pub const SHARE_PATIENCE: Duration = Duration::from_secs(1);

/// Files that a program has open at once: each is a descriptor of the service.
pub const FILES_MAX: usize = 64;

/// A file that was changed this lately may be changed again without its times telling: they are those of the kernel's last tick, which are
/// 10 ms apart at most.
pub const SETTLED_AFTER: Duration = Duration::from_millis(20);

/// How often a file that changes while it is read is read again, before its reader is told.
pub const TRIES: u32 = 3;

/// Extents of which others had all when they were to go, of which this many are looked at again each time that one has to go: a look costs less
/// than a microsecond, and all have their turn.
pub const PARKED_LOOKS: usize = 64;

/// How long a client waits for an answer of the service, and for room to ask: it may be waiting for a disk.
pub const ANSWER_TIME: Duration = Duration::from_secs(10);

/// How long a program of several threads does not look for a service after there was none.
pub const RETRY_TIME: Duration = Duration::from_secs(5);

/// How long a thread of such a program waits for a file before it reads that by itself: a slow disk's time for a long one.
pub const LEND_TIME: Duration = Duration::from_secs(1);

/// How many times as long as the service took for a file, or to fail, it is not asked where that was [`LEND_TIME`] or longer: of a service that is
/// silent a tenth of the time is spent waiting at most.
pub const RETRY_PART: u32 = 9;

/// Memberships that are over and of which something is lent: each keeps a pool. With more no service is asked until one has nothing lent.
pub const RETIRED_MAX: usize = 4;

/// How long it keeps less than half of its share after the service had no room for more: others of its user may have given something up.
pub const SHARE_REST: Duration = Duration::from_secs(60);

/// How soon the service looks again whether a client that waits for room in its share can have it.
pub const STUCK_LOOK: Duration = Duration::from_millis(10);

/// Requests of one client that are answered before others have their turn.
pub const REQUESTS_AT_ONCE: usize = 8;

/// Connections that wait until they are taken, and that are taken in one turn.
pub const BACKLOG: i32 = 16;

/// Descriptors of one user that wait for their file system or device to be closed, each in a thread: programs that follow the rules have none.
pub const CLOSING_MAX: usize = 64;

/// Descriptors of one message: the kernel's `SCM_MAX_FD`.
pub(crate) const PASSED_MAX: usize = 253;

/// What the service has of a connection beside files: two of its socket, three of the pipe and its bells, three of the member and the one that it may let
/// in, and what is there only while it begins.
const SESSION_DESCRIPTORS: usize = 16;

/// Those of a message and others that are being closed, and what any process has.
const OTHER_DESCRIPTORS: usize = 2 * PASSED_MAX + 64;

/// All descriptors.
pub const DESCRIPTORS: usize = SESSIONS_MAX * (FILES_MAX + SESSION_DESCRIPTORS) + OTHER_DESCRIPTORS;

/// Files that a program can have open at once where the process may have fewer descriptors: a tool reads one after another.
const FILES_MIN: usize = 8;

/// The fewest descriptors: those of one connection.
pub const DESCRIPTORS_MIN: usize = FILES_MIN + SESSION_DESCRIPTORS + OTHER_DESCRIPTORS;

/// What there are descriptors for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// Connections.
    pub sessions: usize,
    /// Files of each.
    pub files: usize,
}

impl Room {
    /// All that there may be.
    #[cfg(test)]
    pub const ALL: Self = Self {
        sessions: SESSIONS_MAX,
        files: FILES_MAX,
    };

    /// As many connections as can be, and as many files as these can have; nothing where there is no room for one.
    pub fn of(descriptors: usize) -> Option<Self> {
        let left = descriptors.checked_sub(OTHER_DESCRIPTORS)?;
        let sessions = (left / (FILES_MIN + SESSION_DESCRIPTORS)).min(SESSIONS_MAX);
        let each = left.checked_div(sessions)?;
        Some(Self {
            sessions,
            files: (each - SESSION_DESCRIPTORS).min(FILES_MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_descriptors_are_fewer_connections_and_files() {
        assert_eq!(Room::of(DESCRIPTORS), Some(Room::ALL));
        assert_eq!(Room::of(usize::MAX), Some(Room::ALL));
        for descriptors in DESCRIPTORS_MIN..DESCRIPTORS {
            let room = Room::of(descriptors).expect("there is some");
            assert!(room.sessions > 0 && room.files >= FILES_MIN, "{room:?}");
            let all = room.sessions * (room.files + SESSION_DESCRIPTORS) + OTHER_DESCRIPTORS;
            assert!(all <= descriptors, "{room:?} of {descriptors}");
        }
        assert_eq!(Room::of(DESCRIPTORS_MIN - 1), None);
        assert_eq!(Room::of(0), None);
    }
}
