//! What the kernel says of options that nobody has set, and that change nothing here (linux/in.h, in6.h, tcp.h, asm/socket.h).

use crate::system::*;

/// What `getsockopt` says.
#[derive(Copy, Clone)]
pub enum Said {
    Number(i32),
    /// Nothing, of no length.
    Nothing,
    Fails(i32),
}

use Said::{Fails, Nothing, Number};

/// Of an option of a socket for datagrams or a connection, for IPv6 or IPv4. One that is not here is none.
pub fn said_by_default((level, option): (i32, i32), is_datagrams: bool, is_v6: bool) -> Said {
    match level {
        SOL_SOCKET => of_sockets(option, is_datagrams),
        IPPROTO_TCP => of_tcp(option),
        IPPROTO_IP => of_ipv4(option, is_datagrams, is_v6),
        IPPROTO_IPV6 if is_v6 => of_ipv6(option, is_datagrams),
        IPPROTO_IPV6 => Fails(EOPNOTSUPP),
        _ => Fails(ENOPROTOOPT),
    }
}

fn of_sockets(option: i32, is_datagrams: bool) -> Said {
    match option {
        // SO_PASSCRED, SO_PASSSEC, SO_PASSRIGHTS or what stands there: of Unix sockets.
        16 | 34 | 76 => Fails(EOPNOTSUPP),
        // SO_MAX_PACING_RATE.
        47 => Number(-1),
        // SO_BPF_EXTENSIONS.
        48 => Number(64),
        // SO_PEERGROUPS.
        59 => Fails(ENODATA),
        // SO_BINDTOIFINDEX's neighbours: SO_PREFER_BUSY_POLL and on.
        71 => Fails(EINVAL),
        74 if is_datagrams => Fails(EOPNOTSUPP),
        74 => Number(1),
        77 => Fails(ENODATA),
        1..=21 | 25 | 26 | 28..=31 | 35..=49 | 53 | 55..=57 | 59..=67 | 69 | 72..=75 | 82 | 83 => {
            Number(0)
        }
        _ => Fails(ENOPROTOOPT),
    }
}

fn of_tcp(option: i32) -> Said {
    match option {
        // TCP_SYNCNT, TCP_LINGER2, TCP_QUICKACK.
        7 => Number(6),
        8 => Number(60),
        12 => Number(1),
        // TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ, TCP_REPAIR_WINDOW: of sockets under repair.
        20 | 21 | 29 => Fails(EINVAL),
        // TCP_ULP, TCP_FASTOPEN_KEY.
        31 | 33 => Nothing,
        1..=13 | 16..=19 | 23..=28 | 30 | 34..=37 | 43 => Number(0),
        _ => Fails(ENOPROTOOPT),
    }
}

fn of_ipv4(option: i32, is_datagrams: bool, is_v6: bool) -> Said {
    match option {
        IP_OPTIONS => Nothing,
        // IP_PKTOPTIONS.
        9 if !is_datagrams => Nothing,
        // IP_MTU_DISCOVER, IP_MULTICAST_TTL, IP_MULTICAST_LOOP, IP_MULTICAST_ALL.
        10 | 33 | 34 => Number(1),
        49 => Number((!is_v6).into()),
        1..=8 | 11..=26 | 32 | 41 | 48 | 50..=52 => Number(0),
        _ => Fails(ENOPROTOOPT),
    }
}

fn of_ipv6(option: i32, is_datagrams: bool) -> Said {
    match option {
        // IPV6_2292PKTOPTIONS.
        6 if !is_datagrams => Nothing,
        // IPV6_MULTICAST_HOPS, IPV6_MULTICAST_LOOP, IPV6_MTU_DISCOVER, IPV6_MULTICAST_ALL, IPV6_AUTOFLOWLABEL.
        18 | 19 | 23 | 29 | 70 => Number(1),
        // Options that are of messages alone, and of sockets that are transparent to groups.
        32 | 48 | 64 | 65 | 68 | 69 => Fails(EINVAL),
        80 if !is_datagrams => Fails(EINVAL),
        // IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_DSTOPTS: there are none.
        54 | 55 | 57 => Nothing,
        // IPV6_ADDR_PREFERENCES: a temporary address, and none that has moved.
        72 => Number(0x500),
        1..=5
        | 8
        | 11
        | 16
        | 17
        | 22
        | 24..=26
        | 30
        | 31
        | 33
        | 34
        | 49
        | 51
        | 53
        | 56
        | 58..=62
        | 66
        | 67
        | 73..=78 => Number(0),
        _ => Fails(ENOPROTOOPT),
    }
}
