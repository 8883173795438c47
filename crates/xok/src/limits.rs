//! Every bound of what the two sides say, with its reason.

/// Bytes of one message. A datagram of this size passes a Unix socket with its default buffer (208 KiB) thrice,
/// and nothing that belongs into a message is longer: reports go as descriptors.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Descriptors with one message: of `Bypass`, the program, the array of frames, the queue, the array of programs, the program of
/// live frames with the count of those that the interface drops, and the array that frames arrive in.
pub const MESSAGE_DESCRIPTORS_MAX: usize = 7;

/// Bytes before a live frame: the kernel takes no more metadata than these in any version.
pub const LIVE_BYTES_MAX: usize = 32;

/// Bytes of an interface's name: the kernel's `IFNAMSIZ` without its terminator.
pub const INTERFACE_NAME_BYTES_MAX: usize = 15;

/// Bytes of a program's name as it is shown to others: that of the kernel's task names (`TASK_COMM_LEN`).
pub const PROGRAM_NAME_BYTES_MAX: usize = 16;

/// Bytes of a sentence for people: the reason of a refusal or of a revocation.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Bytes of what a report says of the one that asks for it: for each interface a sentence, each byte of which may be two in
/// JSON, and names and numbers (a name of control characters is 90 bytes in JSON, all else some 70).
pub const ASKER_BYTES_MAX: usize = INTERFACES_MAX * (2 * TEXT_BYTES_MAX + 256);

/// Bytes of a filter's text: what `exos_filter` takes.
pub const FILTER_BYTES_MAX: usize = 4096;

/// Bytes of a handler's text: what is left of a message beside its other fields.
pub const HANDLER_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 256;

/// Bytes of a token or ticket: 128 random bits cannot be guessed.
pub const SECRET_BYTES: usize = 16;

/// Interfaces of one daemon: a machine has a handful, and all of them are described in one message.
pub const INTERFACES_MAX: usize = 16;

/// Addresses of one interface that the tables list.
pub const ADDRESSES_MAX: usize = 64;

/// Gateways of one interface that the tables list.
pub const GATEWAYS_MAX: usize = 8;

/// Grants that an attached slot is told of: as many as fit into a message, at some 50 bytes each.
pub const ATTACHED_GRANTS_MAX: usize = 1000;

/// Bytes of the TIME-WAIT entries of one message: what is left beside the message's other fields.
pub const TIME_WAIT_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 256;

/// Slots of one daemon: programs attached at the same time, a thousand and some, the daemon's own (0) and the one that is
/// nobody's included. The kernel side keeps arrays of this size, and the shared tables 512 bytes for each.
pub const SLOTS_MAX: usize = 1024;

/// How long a successor may be awaited, in milliseconds. One that is started again is there in a second or two, on a
/// busy machine in some more. Beyond that peers had better be told that nobody is there than wait on.
pub const SUCCESSOR_MS_MAX: u32 = 10_000;

/// Addresses in the shared tables, of all interfaces.
pub const TABLE_ADDRESSES: usize = 256;

/// Neighbours in the shared tables: four times as many as the kernel keeps by default (`gc_thresh3`, 1,024), so that those
/// find a place each among [`TABLE_NEIGHBOUR_PROBES`]. 256 KiB.
pub const TABLE_NEIGHBOURS: usize = 4096;

/// How many places a neighbour may stand at, counted from the one its address points to: a reader looks at 32
/// records of 64 bytes, two pages at worst.
pub const TABLE_NEIGHBOUR_PROBES: usize = 32;

/// Routes in the shared tables. A host has a default route and those of its interfaces; a router is not served.
pub const TABLE_ROUTES: usize = 128;

/// Grants in the shared tables: the reach of the issue is 10,000 exact ones.
pub const TABLE_GRANTS: usize = 16 * 1024;

/// Counters of one slot in the shared tables.
pub const TABLE_COUNTERS: usize = 48;

/// How often a reader tries a record that is being written before it gives up: a write takes some hundred
/// nanoseconds, so this only ends when the writer died in the middle of it.
pub const READ_ATTEMPTS: usize = 1000;
