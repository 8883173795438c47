//! What a program and the service say to each other.
//!
//! The program connects to a Unix socket of packets, over which the service makes it the consumer of a pipe. In the other direction of the socket
//! it asks, by four words of 64 bits: what, the number by which it calls a file, where, how much; a descriptor comes with the question that opens
//! a file. Answers come by the pipe, in order: four words (status and number, bytes that follow, length of the file, nothing), and the bytes.

use exos_replacement::PolicyName;
use std::mem::size_of;

/// Words of a request and of the head of an answer, which fits into a slot of the pipe.
pub const WORDS: usize = 4;
/// Bytes of the name of a share.
pub const NAME_LEN_MAX: usize = 24;
pub(crate) const MESSAGE_LEN: usize = WORDS * size_of::<u64>();
const _: () = assert!(MESSAGE_LEN <= exos_iolite::limits::INLINE_LEN_MAX);

/// What a program asks for. Any bytes can come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// The file whose descriptor comes with this is called so.
    Open {
        /// By what it is called.
        file: u32,
    },
    /// Bytes of a file, at least one if there are any from there on.
    Read {
        /// Which.
        file: u32,
        /// Where.
        offset: u64,
        /// At most how many.
        len: u64,
    },
    /// The file is not used any more. Not answered.
    Close {
        /// Which.
        file: u32,
    },
    /// How the cache is used.
    Statistics,
    /// The program has one share with those of its user that say this name. Asked before anything else.
    Share {
        /// The name, zeros behind it.
        name: [u8; NAME_LEN_MAX],
    },
    /// What the program brings in is replaced by a policy of its own, in its share of the memory. Asked before anything is read, and behind the
    /// name of its share.
    Policy {
        /// Which.
        policy: PolicyName,
    },
}

pub(crate) fn words(bytes: &[u8; MESSAGE_LEN]) -> [u64; WORDS] {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|n| u64::from_le_bytes(words[n]))
}

pub(crate) fn bytes(words: [u64; WORDS]) -> [u8; MESSAGE_LEN] {
    let mut bytes = [0; MESSAGE_LEN];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    bytes
}

impl Request {
    /// A request as it goes over the socket.
    pub fn words(self) -> [u64; WORDS] {
        match self {
            Self::Open { file } => [1, file.into(), 0, 0],
            Self::Read { file, offset, len } => [2, file.into(), offset, len],
            Self::Close { file } => [3, file.into(), 0, 0],
            Self::Statistics => [4, 0, 0, 0],
            Self::Share { name } => {
                let (words, _) = name.as_chunks::<8>();
                let [one, two, three] = std::array::from_fn(|n| u64::from_le_bytes(words[n]));
                [5, one, two, three]
            }
            Self::Policy { policy } => {
                let place = PolicyName::ALL.iter().position(|known| *known == policy);
                [6, place.expect("all are there") as u64, 0, 0]
            }
        }
    }

    /// What these words ask for, if anything.
    pub fn parse(words: [u64; WORDS]) -> Option<Self> {
        if let [5, rest @ ..] = words {
            let mut name = [0; NAME_LEN_MAX];
            for (to, word) in name.as_chunks_mut::<8>().0.iter_mut().zip(rest) {
                *to = word.to_le_bytes();
            }
            return (name[0] != 0).then_some(Self::Share { name });
        }
        let file = u32::try_from(words[1]).ok()?;
        Some(match words {
            [1, _, 0, 0] => Self::Open { file },
            [2, _, offset, len] => Self::Read { file, offset, len },
            [3, _, 0, 0] => Self::Close { file },
            [4, 0, 0, 0] => Self::Statistics,
            [6, place, 0, 0] => Self::Policy {
                policy: *PolicyName::ALL.get(usize::try_from(place).ok()?)?,
            },
            _ => return None,
        })
    }
}

/// How it went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// As asked.
    Done,
    /// The file was changed a moment ago: ask again in one.
    Unsettled,
    /// Somebody has the file open for writing.
    Writing,
    /// It is not a file that is kept: a device, of a file system whose times do not tell of all changes, or not open for reading.
    Unsuitable,
    /// It is of another version than it was when it was opened, or changed while it was read, again and again.
    Changed,
    /// It cannot be read: the disk, or no buffer is left.
    Unreadable,
    /// The program has as many files open as it may.
    TooMany,
    /// Not every user may read it, and several share the cache.
    Private,
    /// The program, or its user, keeps as much of the memory as it may.
    Share,
}

impl Status {
    const ALL: [Self; 9] = [
        Self::Done,
        Self::Unsettled,
        Self::Writing,
        Self::Unsuitable,
        Self::Changed,
        Self::Unreadable,
        Self::TooMany,
        Self::Private,
        Self::Share,
    ];

    /// What a person is told.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Done => "it is there",
            Self::Unsettled => "it is being changed",
            Self::Writing => "somebody has it open for writing",
            Self::Unsuitable => "it is no file that the cache keeps",
            Self::Changed => "it has changed",
            Self::Unreadable => "the cache cannot read it now",
            Self::TooMany => "too many files are open",
            Self::Private => "not every user may read it, as what users share has to be",
            Self::Share => "this program, or its user, keeps as much of the cache as it may",
        }
    }
}

/// The head of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub status: Status,
    pub file: u32,
    /// Bytes that follow.
    pub len: u64,
    /// The length of the file.
    pub file_len: u64,
}

impl Answer {
    pub fn words(self) -> [u64; WORDS] {
        let place = Status::ALL.iter().position(|known| *known == self.status);
        let status = place.expect("all are there") as u64;
        [status, self.file.into(), self.len, self.file_len]
    }

    pub fn parse(words: [u64; WORDS]) -> Option<Self> {
        let place = usize::try_from(words[0]).ok()?;
        Some(Self {
            status: *Status::ALL.get(place)?,
            file: u32::try_from(words[1]).ok()?,
            len: words[2],
            file_len: words[3],
        })
    }
}

/// How the cache is used: what is now, and what was since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Bytes of memory that may be used.
    pub memory: u64,
    /// Bytes of buffers that extents take.
    pub held: u64,
    /// Programs that are connected.
    pub programs: u64,
    /// Extents that were there when they were asked for.
    pub hits: u64,
    /// Extents that were read.
    pub misses: u64,
    /// Bytes that were passed by reference.
    pub passed_bytes: u64,
    /// Bytes that were read from files.
    pub read_bytes: u64,
    /// Extents that had to go for others.
    pub evictions: u64,
    /// Extents that were looked at when one had to go, and of which others had all.
    pub pinned: u64,
    /// Reads of files that had changed meanwhile, or since they were opened.
    pub changed: u64,
    /// Files that were not taken: changed a moment ago, open for writing, of no suitable kind, or private where several users share.
    pub refused: u64,
    /// Extents that could not be read.
    pub failed: u64,
    /// Programs that were turned away, being too many or another user's.
    pub turned_away: u64,
    /// Programs that broke the rules.
    pub faults: u64,
    /// Answers that were not given, since the program that asked, or its user, keeps as much as it may.
    pub over_share: u64,
    /// Bytes that the program that asks this may keep.
    pub share: u64,
    /// Bytes that it keeps, or has under way to it.
    pub share_held: u64,
}

impl Statistics {
    /// How many numbers there are.
    pub(crate) const COUNT: usize = 17;

    /// Their numbers, by name.
    pub fn by_name(&self) -> [(&'static str, u64); Self::COUNT] {
        [
            ("memory_bytes", self.memory),
            ("held_bytes", self.held),
            ("programs", self.programs),
            ("hits", self.hits),
            ("misses", self.misses),
            ("passed_bytes", self.passed_bytes),
            ("read_bytes", self.read_bytes),
            ("evictions", self.evictions),
            ("pinned", self.pinned),
            ("changed", self.changed),
            ("refused", self.refused),
            ("failed", self.failed),
            ("turned_away", self.turned_away),
            ("faults", self.faults),
            ("over_share", self.over_share),
            ("share_bytes", self.share),
            ("share_held_bytes", self.share_held),
        ]
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let numbers = self.by_name().into_iter();
        numbers
            .flat_map(|(_, number)| number.to_le_bytes())
            .collect()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        let words: [[u8; 8]; Self::COUNT] = words.try_into().ok()?;
        let n = words.map(u64::from_le_bytes);
        Some(Self {
            memory: n[0],
            held: n[1],
            programs: n[2],
            hits: n[3],
            misses: n[4],
            passed_bytes: n[5],
            read_bytes: n[6],
            evictions: n[7],
            pinned: n[8],
            changed: n[9],
            refused: n[10],
            failed: n[11],
            turned_away: n[12],
            faults: n[13],
            over_share: n[14],
            share: n[15],
            share_held: n[16],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let (file, offset, len) = (7, 1 << 40, 99);
        for request in [
            Request::Open { file },
            Request::Read { file, offset, len },
            Request::Close { file },
            Request::Statistics,
            Request::Share { name: [7; 24] },
            Request::Policy {
                policy: PolicyName::GreedyDualSize,
            },
        ] {
            assert_eq!(
                Request::parse(words(&bytes(request.words()))),
                Some(request)
            );
        }
        for status in Status::ALL {
            let answer = Answer {
                status,
                file,
                len,
                file_len: offset,
            };
            assert_eq!(Answer::parse(words(&bytes(answer.words()))), Some(answer));
        }
        let numbers: Vec<u8> = (1..=Statistics::COUNT as u64)
            .flat_map(u64::to_le_bytes)
            .collect();
        let statistics = Statistics::parse(&numbers).expect("one number for each");
        assert_eq!(statistics.to_bytes(), numbers);
        assert_eq!(Statistics::parse(&numbers[1..]), None);
    }

    #[test]
    fn what_asks_for_nothing_is_nothing() {
        for words in [
            [0; 4],
            [5, 0, 1, 1],
            [6, 3, 0, 0],
            [7, 0, 0, 0],
            [1, 1 << 32, 0, 0],
            [1, 0, 1, 0],
            [4, 1, 0, 0],
            [u64::MAX; 4],
        ] {
            assert_eq!(Request::parse(words), None, "{words:?}");
        }
        assert_eq!(Answer::parse([9, 0, 0, 0]), None);
        assert_eq!(Answer::parse([0, 1 << 32, 0, 0]), None);
    }
}
