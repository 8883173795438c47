//! What each call's arguments are (their manual pages, section 2).

use crate::trace::names::{
    ACCEPT_FLAGS, CONTROL_CHOICES, DESCRIPTOR_FLAGS, FAMILIES, FILE_CHOICES, HOW_CHOICES,
    MESSAGE_FLAGS, Names, REQUESTS,
};
use crate::trace::number as n;

/// What an argument is. Those that a call fills in are read as far as it has done so.
#[derive(Copy, Clone)]
pub enum Kind {
    Number,
    Size,
    Pointer,
    /// Of one of several names, and of several at once.
    Choice(Names),
    Flags(Names),
    /// A socket's kind, with flags.
    SocketType,
    /// An address, with how long it is behind it.
    Name,
    NameOut,
    /// How long what was filled in is.
    LengthOut,
    /// Bytes, with their number behind them; those that were read are as many as the result.
    Bytes,
    BytesOut,
    /// Stretches of memory, with their number behind them.
    Vector,
    VectorOut,
    Message,
    MessageOut,
    Messages,
    MessagesOut,
    Level,
    /// Of the level before it.
    OptionName,
    /// Of the option before it.
    OptionValue,
    OptionValueOut,
    Event,
    EventsOut,
    /// What is polled, with their number behind.
    Polled,
    /// One of the sets of select(2), as it was before.
    Set,
    Timespec,
    Timeval,
    Offset,
}

/// A call's name and its arguments.
pub fn shape(number: i64) -> Option<(&'static str, &'static [Kind])> {
    use Kind::*;
    Some(match number {
        n::SOCKET => ("socket", &[Choice(FAMILIES), SocketType, Number]),
        n::BIND => ("bind", &[Number, Name, Number]),
        n::CONNECT => ("connect", &[Number, Name, Number]),
        n::LISTEN => ("listen", &[Number, Number]),
        n::ACCEPT => ("accept", &[Number, NameOut, LengthOut]),
        n::ACCEPT4 => (
            "accept4",
            &[Number, NameOut, LengthOut, Flags(ACCEPT_FLAGS)],
        ),
        n::SHUTDOWN => ("shutdown", &[Number, Choice(HOW_CHOICES)]),
        n::GETSOCKNAME => ("getsockname", &[Number, NameOut, LengthOut]),
        n::GETPEERNAME => ("getpeername", &[Number, NameOut, LengthOut]),
        n::GETSOCKOPT => (
            "getsockopt",
            &[Number, Level, OptionName, OptionValueOut, LengthOut],
        ),
        n::SETSOCKOPT => (
            "setsockopt",
            &[Number, Level, OptionName, OptionValue, Number],
        ),
        n::READ => ("read", &[Number, BytesOut, Size]),
        n::WRITE => ("write", &[Number, Bytes, Size]),
        n::READV => ("readv", &[Number, VectorOut, Number]),
        n::WRITEV => ("writev", &[Number, Vector, Number]),
        n::PREADV2 => ("preadv2", &[Number, VectorOut, Number, Number, Number]),
        n::PWRITEV2 => ("pwritev2", &[Number, Vector, Number, Number, Number]),
        n::RECVFROM => (
            "recvfrom",
            &[
                Number,
                BytesOut,
                Size,
                Flags(MESSAGE_FLAGS),
                NameOut,
                LengthOut,
            ],
        ),
        n::SENDTO => (
            "sendto",
            &[Number, Bytes, Size, Flags(MESSAGE_FLAGS), Name, Number],
        ),
        n::RECVMSG => ("recvmsg", &[Number, MessageOut, Flags(MESSAGE_FLAGS)]),
        n::SENDMSG => ("sendmsg", &[Number, Message, Flags(MESSAGE_FLAGS)]),
        n::RECVMMSG => (
            "recvmmsg",
            &[Number, MessagesOut, Number, Flags(MESSAGE_FLAGS), Timespec],
        ),
        n::SENDMMSG => (
            "sendmmsg",
            &[Number, Messages, Number, Flags(MESSAGE_FLAGS)],
        ),
        n::SENDFILE => ("sendfile", &[Number, Number, Offset, Size]),
        n::SPLICE => ("splice", &[Number, Offset, Number, Offset, Size, Number]),
        n::CLOSE => ("close", &[Number]),
        n::DUP => ("dup", &[Number]),
        n::DUP2 => ("dup2", &[Number, Number]),
        n::DUP3 => ("dup3", &[Number, Number, Flags(DESCRIPTOR_FLAGS)]),
        n::FCNTL => ("fcntl", &[Number, Choice(FILE_CHOICES), Number]),
        n::IOCTL => ("ioctl", &[Number, Choice(REQUESTS), Offset]),
        n::EPOLL_CREATE => ("epoll_create", &[Number]),
        n::EPOLL_CREATE1 => ("epoll_create1", &[Flags(DESCRIPTOR_FLAGS)]),
        n::EPOLL_CTL => (
            "epoll_ctl",
            &[Number, Choice(CONTROL_CHOICES), Number, Event],
        ),
        n::EPOLL_WAIT => ("epoll_wait", &[Number, EventsOut, Number, Number]),
        n::EPOLL_PWAIT => ("epoll_pwait", &[Number, EventsOut, Number, Number, Pointer]),
        n::EPOLL_PWAIT2 => (
            "epoll_pwait2",
            &[Number, EventsOut, Number, Timespec, Pointer],
        ),
        n::POLL => ("poll", &[Polled, Number, Number]),
        n::PPOLL => ("ppoll", &[Polled, Number, Timespec, Pointer]),
        n::SELECT => ("select", &[Number, Set, Set, Set, Timeval]),
        n::PSELECT6 => ("pselect6", &[Number, Set, Set, Set, Timespec, Pointer]),
        n::IO_URING_SETUP => ("io_uring_setup", &[Number, Pointer]),
        _ => return None,
    })
}
