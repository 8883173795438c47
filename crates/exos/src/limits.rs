//! Every bound of this crate's dealings with the daemon, with its reason.

use std::time::Duration;

/// How long the daemon may take to answer what a program waits for. It answers within a millisecond,
/// an attachment within some tens (an interface is made); a machine under load takes longer.
pub const ANSWER_TIME: Duration = Duration::from_secs(5);

/// How long it may take for a program that begins. A place takes the daemon some 60 ms to make, and each of a thousand programs
/// that are started together waits for its turn.
pub const BEGINNING_TIME: Duration = Duration::from_mins(2);

/// How long the daemon is asked for what it is too busy for: it lets each user attach some four times a second, and have
/// one filter, or the first one 9 s after many cores have joined a handler's memory.
pub const BUSY_TIME: Duration = Duration::from_secs(10);

/// The pause before such an attempt is repeated.
pub const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// The pauses between attempts to connect while the daemon's queue of newcomers is full, each twice the last.
pub const CONNECT_PAUSES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_millis(50);

/// How often a daemon that has gone is looked for. A restarted one keeps slots for 5 s, so that one
/// is found with much to spare, and looking costs two system calls.
pub const RETRY_EVERY: Duration = Duration::from_millis(100);

/// How long a daemon that was found again may take to greet us before it is looked for again.
pub const GREETING_TIME: Duration = Duration::from_secs(2);

/// How often a busy loop looks for what the daemon says: a system call a turn would cost more than
/// it is worth. A loop that sleeps is woken at once.
pub const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How often all of the shared tables are read when they change all the time: what we wait for is
/// looked up by itself, the rest may be a little old.
pub const READ_EVERY: Duration = Duration::from_millis(100);

/// The sleep while a neighbour's address is awaited: the tables have no descriptor of their own.
pub const NEIGHBOUR_SLEEP: Duration = Duration::from_millis(5);

/// Neighbours that are awaited at the same time; a stack asks for more again.
pub const AWAITED_MAX: usize = 256;

/// Messages taken in one look, so that a daemon that talks all the time does not stop the program.
pub const MESSAGES_AT_ONCE: usize = 64;

/// How long before its deadline a grant that is taken back is given back: its connections' peers are sent resets
/// then, of which a busy loop sends tens of thousands in this time.
pub const GIVE_BACK_MARGIN: Duration = Duration::from_millis(400);

/// Connections that are reset in one look: as many frames as two turns send.
pub const RESETS_AT_ONCE: usize = 256;

/// Messages of connections in TIME-WAIT that are left with the daemon under one grant: some 75,000
/// connections, a second's worth of a busy server's, in a tenth of a second.
pub const TIME_WAIT_MESSAGES_MAX: usize = 64;

/// What a socket takes to be sent before it is acknowledged, at least: Linux's default for what is not yet in flight is 128 KiB
/// too (net.ipv4.tcp_notsent_lowat aside).
pub const SEND_BUFFER_LEAST: usize = 128 << 10;

/// And at most, on paths that hold much: the bound of Linux's own tuning (the last number of net.ipv4.tcp_wmem).
pub const SEND_BUFFER_MOST: usize = 4 << 20;

/// A write of more goes in pieces: what a buffer holds is kept until all of it is acknowledged.
pub const WRITE_PIECE: usize = 64 << 10;

/// Connections that wait to be accepted, as in `std::net`.
pub const ACCEPT_QUEUE: usize = 4096;

/// How long the end of a program waits for what was written to be acknowledged: several retransmissions at Linux's least timeout.
pub const LINGER: Duration = Duration::from_secs(2);

/// Ports lent by a daemon for connections to peers, kept for the next to them.
pub const LENT_PORTS_IDLE: usize = 256;

/// The bytes of a connection that is handed to another process, at most: its queues and a few hundred more. A queue that holds
/// more refers to a document, which is sent before the connection is handed over.
pub const HANDED_OVER_BYTES_MAX: usize = 64 << 20;

/// How long the stack of a process that takes a connection is still until the other has let go of its packets: what it sent
/// earlier would be dropped by the daemon's gate, and sent again.
pub const LET_GO_STILL: Duration = Duration::from_millis(20);

/// How long a process that takes a connection waits for that at all. The other asks the daemon once in this time.
pub const LET_GO_TIME: Duration = Duration::from_secs(5);

/// How long the stack that has let go of a connection's packets says nothing about those that still come, which were under way.
/// Later ones say that the process that has the connection is no more.
pub const GONE_SILENCE: Duration = Duration::from_secs(1);

/// How many ports are tried for a listener that wants any.
pub const PORT_TRIES: usize = 64;

/// How often the system's files of names are looked at for changes.
pub const FILES_EVERY: Duration = Duration::from_secs(1);

/// A lookup that takes longer is told to a person who waits: a name server that is there answers within a second.
pub const NAMES_SLOW: Duration = Duration::from_secs(2);

/// Names that are looked up side by side over the kernel's sockets. Each has two queries, each with a descriptor: an eighth of
/// the usual 1,024.
pub const LOOKUPS_AT_ONCE: usize = 64;

/// Names whose address that answered is remembered.
pub const NAMES_REMEMBERED: usize = 1024;

/// Stacks of one process that are asked for their sockets: it has one for each core and link. Each takes a descriptor, of which a
/// process usually has 1024.
pub const STACKS_ASKED: usize = 64;

/// Ports whose datagrams the kernel has handlers of, as many as by the daemon. They stand one behind the other, and the kernel lets one program go
/// on in 33 others at most.
pub const HANDLED_PORTS_MAX: usize = exos_filter::gate::limits::HANDLERS_MAX;
