//! Every bound of the gate, with its reason.

/// Slots of one interface: the daemon's own, 0, a thousand programs and some, and one that the daemon leaves empty. What the
/// tables have for each is some 600 bytes, and 384 for each processor, which counts by itself.
pub const SLOTS: u32 = 1024;

/// Handlers of one slot, of a port each. They are looked through for each datagram that comes to a slot that has any.
pub const HANDLERS_MAX: usize = 16;

/// Exact grants of one interface. 10,000 are what the daemon is measured with; connections that are handed to other
/// processes take one each. At some 100 bytes an entry this is 7 MB of kernel memory.
pub const FLOWS_MAX: u32 = 65_536;

/// Addresses with a meaning: those that are ours alone and those of the host. A machine has some tens.
pub const ADDRESSES_MAX: u32 = 1024;

/// Slots that alone have ports of an address, for TCP and UDP of each.
pub const OWNERS_MAX: u32 = 2 * ADDRESSES_MAX;

/// Ports that several slots hold together, each with 64 members at most (`super::group`): 83 KB of kernel memory. A server in
/// several processes has one for each of its addresses.
pub const GROUPS_MAX: u32 = 64;

/// Connections of these ports of which it is remembered which member has them, the one that was silent for longest forgotten
/// first: some 8 MB of kernel memory. One that is forgotten goes by its hash, as long as that leads to the same member.
pub const MEMBER_FLOWS_MAX: u32 = 65_536;

/// Packets whose fragments are under way, the oldest forgotten first. A sender has 65,536 identifiers for a pair of
/// addresses (RFC 6864 §5.2.2), but few in flight at once.
pub const FRAGMENTS_MAX: u32 = 8192;

/// Receive queues of the device that can belong to programs.
pub const QUEUES_MAX: u32 = 256;

/// Programs of general filters in a row, and thereby slots that have any. The kernel allows 33 tail calls for one
/// packet: 16 here, 8 copies, and room for who attaches the gate behind a dispatcher.
pub const GENERALS_MAX: u32 = 16;

/// Conjunctions of one slot's general filters: comparing those of all slots is quadratic in it, and a slot that needs
/// more wants an address of its own.
pub const GENERAL_CONJUNCTIONS_MAX: usize = 64;

/// Copies for dump clients at the same time.
pub const TAPS_MAX: u32 = 8;

/// The longest capture: longer frames than super-packets of 64 KiB and their Ethernet header do not exist here.
pub const SNAP_LEN_MAX: u32 = 65_550;

/// How old a bucket must be to be refilled, in nanoseconds. Shorter, and a slow rate's fractions of a byte are lost;
/// longer, and a fast sender waits in steps: 262 µs are 26 bytes at 100 kB/s and 32 KB at 1 Gbit/s.
pub const REFILL_NS_MIN: u64 = 1 << 18;

/// A bucket that was not looked at for longer, in nanoseconds: 134 ms, is refilled by the time in units of 2^[`PAUSE_SHIFT`] ns. Keeps elapsed
/// time × rate inside 64 bits up to [`RATE_MAX`].
pub const REFILL_NS_MAX: u64 = 1 << 27;
/// Of a pause's unit in nanoseconds, about a millisecond.
pub const PAUSE_SHIFT: u32 = 20;
/// Units in a second, rounded up: a pause earns no more than the rate.
pub const PAUSES_PER_SEC: u64 = 954;
/// Units that a pause earns for at most: 19 hours.
pub const PAUSES_MAX: u64 = 1 << 26;

/// How fast what a slot used beyond its guarantee is forgotten, in nanoseconds: 2.1 ms, 8 refills, a shift away from a
/// division. A slot that alone uses the whole of a link has used what passes in this time, which must be less than the
/// link's bucket holds (4 ms), or some of the link would be left unused.
pub const FADE_NS: u64 = 1 << FADE_SHIFT;

/// [`FADE_NS`] as a power of two.
pub const FADE_SHIFT: u32 = 21;

/// The greatest part of what others leave unused, in sixteenths: 64 times the smallest. What the link's bucket must
/// hold for dividing grows with it, and packets are no finer.
pub const PART_MAX: u64 = 16 * 64;

/// Bytes per second that a bucket can express: 1 Tbit/s.
pub const RATE_MAX: u64 = 125_000_000_000;

/// Bytes that each segment of a super-packet is charged with beside its data: Ethernet, IPv4, TCP without options.
pub const SEGMENT_HEADERS_LEN: i32 = 14 + 20 + 20;

/// The smallest segments that a super-packet may ask for: 64 KiB of them are 256 packets, made in one go by the kernel
/// while nobody else's are sent. Every IPv4 host takes 536 bytes (RFC 9293 §3.7.1).
pub const SEGMENT_SIZE_MIN: i32 = 256;

const _: () = assert!(REFILL_NS_MAX.checked_mul(RATE_MAX).is_some());
const _: () = assert!(PAUSES_MAX.checked_mul(RATE_MAX).is_some());
const _: () = assert!(PAUSES_PER_SEC << PAUSE_SHIFT >= 1_000_000_000);
const _: () = assert!(REFILL_NS_MIN * 8 == FADE_NS);
const _: () = assert!(1 + GENERALS_MAX + TAPS_MAX <= 33);

/// Frames that a slot may send at once beside its ring: several times what one run of the program takes, and 512 KiB of
/// chunks of 2,048 bytes.
pub const BATCH_PLACES: u32 = 256;
