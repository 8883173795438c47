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

/// In the place of a socket's number: a descriptor of the library's own.
pub const OWN: u32 = u32::MAX;

/// The level of `setsockopt` by which a program asks for something (`ask`). No level of the kernel's.
pub const ASK_LEVEL: i32 = 0x4558_4f53;

/// What is asked for: `setsockopt(descriptor, ASK_LEVEL, what, value, 0)`.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[repr(i32)]
pub enum Ask {
    /// The process takes this part of the memory for itself.
    Register = 1,
    /// The descriptor is what to write to when the watcher of this number sleeps.
    Watch = 2,
    /// The socket of this number is to be shared no more, and the descriptor to be a Unix socket in its place.
    Unshare = 3,
    /// What TCP knows of the socket whose number stands in place of the descriptor (`struct tcp_info`, its first 104 bytes), to be
    /// written at the address.
    Info = 4,
    /// The descriptor, a socket of the kernel's for datagrams that has no port, is to be a shared one. `EPROTOTYPE` where it is none of
    /// those, `EINVAL` where it has a port.
    Datagrams = 5,
    /// The socket for datagrams whose number stands in place of the descriptor is to have a port.
    Port = 6,
    /// Whether datagrams can be sent from the address ([`Address`](super::Address)'s bytes) at this place.
    Source = 7,
    /// Nothing: the process says that it may not have the address space for the memory, and so goes by intercepted calls.
    NoRoom = 8,
}

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
        ];
        all.into_iter().find(|ask| *ask as i32 == number)
    }
}
