//! What both sides have agreed on, besides where things lie.

/// What the other side does.
pub const AWAKE: u32 = 0;
/// It looks again within [`NAP_MICROSECONDS`], or when the bell rings.
pub const NAPS: u32 = 1;
/// It looks again when the bell rings.
pub const SLEEPS: u32 = 2;
/// Those that it has woken do what they were woken for, and it looks again when all of them wait
/// ([`gathers`](super::Shared::gathers)), or a moment later.
pub const GATHERS: u32 = 3;
/// How long what a program has written may wait while it computes on.
pub const NAP_MICROSECONDS: u64 = 100;

/// The environment variable that says where the memory is: `PID:MEMORY:BELL`, descriptors of that process; where calls are to be printed
/// `PID:MEMORY:BELL:PIPE`, for their lines.
pub const VARIABLE: &str = "EXOS_RUN";

/// A descriptor of a shared socket stands for its number alone: it is a copy of a counter (eventfd(2)) of this value. Which socket it is
/// the process's part of the memory says.
pub const MARK: u32 = 0xe805_0000;

/// The fourth argument of a system call that the library makes for the program: others cannot do with a shared socket.
pub const MARKED: u64 = 0x4558_4f53_6d61_726b;

/// As above, of a call on a shared socket for datagrams.
pub const MARKED_DATAGRAMS: u64 = MARKED + 1;

/// What the library says, by the fifth argument of its `connect`, of a socket of TCP that nothing was done to since its program made it:
/// the other side need not look at it.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Untouched {
    /// The part of the memory that the process has.
    pub part: u32,
    /// It is for IPv6.
    pub is_v6: bool,
    /// Calls do not wait.
    pub nonblocking: bool,
    /// Its descriptor is closed when the process becomes another program.
    pub close_on_exec: bool,
}

impl Untouched {
    /// The argument: the part above four bits, of which the lowest says that it is one of these at all.
    pub fn word(self) -> u64 {
        let bit = |is_on: bool, at: u32| u64::from(is_on) << at;
        let bits = bit(self.is_v6, 1) | bit(self.nonblocking, 2) | bit(self.close_on_exec, 3);
        u64::from(self.part) << 4 | bits | 1
    }

    /// What an argument says; `None` where it says nothing.
    pub fn of(word: u64) -> Option<Self> {
        let is = |at: u32| word >> at & 1 != 0;
        let part = u32::try_from(word >> 4).ok().filter(|_| is(0))?;
        Some(Self {
            part,
            is_v6: is(1),
            nonblocking: is(2),
            close_on_exec: is(3),
        })
    }
}

/// In the place of a socket's number: a descriptor of the library's own.
pub const OWN: u32 = u32::MAX;

/// The level of `setsockopt` by which a program asks for something (`ask`). No level of the kernel's.
pub const ASK_LEVEL: i32 = 0x4558_4f53;

/// What is asked for: `setsockopt(descriptor, ASK_LEVEL, what, value, 0)`.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[repr(i32)]
pub enum Ask {
    /// The process takes this part of the memory for itself. Its number is the answer.
    Register = 1,
    /// The descriptor is what to write to when the watcher of this number sleeps.
    Watch = 2,
    /// The socket of this number is to be shared no more, and the descriptor to be a Unix socket in its place.
    Unshare = 3,
    /// What TCP knows of the socket whose number stands in place of the descriptor (`struct tcp_info`, its first 104 bytes), to be
    /// written at the address. `EBADF` where the caller has no such socket.
    Info = 4,
    /// The descriptor, a socket of the kernel's for datagrams that has no port, is to be a shared one. `EPROTOTYPE` where it is none of
    /// those, `EINVAL` where it has a port, `ENOPROTOOPT` where no more can be shared, or none of that descriptor's number.
    Datagrams = 5,
    /// The socket for datagrams whose number stands in place of the descriptor is to have a port. `EBADF` as above.
    Port = 6,
    /// Whether datagrams can be sent from the address ([`Address`](super::Address)'s bytes) at this place.
    Source = 7,
    /// Nothing: the process says that it may not have the address space for the memory, and so goes by intercepted calls.
    NoRoom = 8,
    /// The addresses of the stack, [`ADDRESSES_MAX`] at most, each in 32 bytes at this place: in the kernel's form in 28, and how many
    /// bits of it are its network's. How many they are is the answer.
    Addresses = 9,
}

/// How many addresses of the stack programs are told of: more than a host usually has.
pub const ADDRESSES_MAX: usize = 64;

impl Ask {
    /// By its number.
    pub fn of(number: i32) -> Option<Self> {
        let all = [
            Self::Register,
            Self::Watch,
            Self::Unshare,
            Self::Info,
            Self::Datagrams,
            Self::Port,
            Self::Source,
            Self::NoRoom,
            Self::Addresses,
        ];
        all.into_iter().find(|ask| *ask as i32 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_socket_is_understood() {
        for bits in 0..8 {
            let said = Untouched {
                part: 1000 + bits,
                is_v6: bits & 1 != 0,
                nonblocking: bits & 2 != 0,
                close_on_exec: bits & 4 != 0,
            };
            assert_eq!(Untouched::of(said.word()), Some(said));
        }
        assert_eq!(Untouched::of(0), None);
        assert_eq!(Untouched::of(u64::MAX), None, "no part has that number");
    }
}
