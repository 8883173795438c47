//! Every bound of the daemon, with its reason.

use std::time::Duration;

use exos_filter::gate::limits::{GENERALS_MAX, GROUPS_MAX, SLOTS, TAPS_MAX};
use exos_xok::limits::{SLOTS_MAX, TABLE_GRANTS};

use crate::pool::{Pool, Standing};

/// Connections. Each costs two descriptors and a few hundred bytes; a slot needs one, and lookers-on (`exos top`,
/// `exos dump`) some more: of each standing there are as many as programs, and 64 for them. Whom a rule names finds more left
/// than by those who are only members of a group, and the daemon's own user always finds 64.
pub const CONNECTIONS: Pool = Pool::new([64, 832, 1216, 1280]);

/// Connections of one user: its programs, and some lookers-on.
pub const CONNECTIONS_PER_USER_MAX: usize = 64;

/// Connections of one user beside those of the programs that policy allows it, where these are more than the usual bound.
pub const CONNECTIONS_BESIDE: usize = CONNECTIONS_PER_USER_MAX - PROGRAMS_PER_USER;

/// Connections of one user whom no rule names: four such users fill what they share.
pub const CONNECTIONS_UNNAMED_MAX: usize = 16;

/// How long a connection that holds nothing is left alone when others wait to be let in: longer than a program takes to
/// attach, and a look at a report.
pub const SLOTLESS_TIME: Duration = Duration::from_secs(5);

/// Programs: of those whom no rule names as many as of three users, who have connections left then; and for the daemon's
/// own user one user's are kept. The slots are numbered; number 0 is the daemon's own, and the last one nobody's.
pub const PROGRAMS: Pool = Pool::new([48, 768, SLOTS_MAX - 2 - PROGRAMS_PER_USER, SLOTS_MAX - 2]);

// The gate has a place for each row of the tables, and the last one is nobody's in both.
const _: () = assert!(SLOTS as usize == SLOTS_MAX);

/// The slot that is always empty: what leads there is dropped in silence, because a successor is awaited.
pub const NOBODY: u32 = SLOTS_MAX as u32 - 1;

/// Packet memory in bytes of all users together whom no rule names: as much as of four users.
pub const MEMORY_UNNAMED: u64 = 4 * MEMORY_PER_USER;

/// Programs of one user at the same time, unless policy says otherwise.
pub const PROGRAMS_PER_USER: usize = 16;

/// Packet memory of one user in bytes, unless policy says otherwise: eight programs of the usual size.
pub const MEMORY_PER_USER: u64 = 64 << 20;

/// Grants of one user: the reach is 10,000 exact ones.
pub const GRANTS_PER_USER_MAX: usize = 12_000;

/// Identifiers of echo requests of one user, on all addresses. Where an address is the host's, too, the host's own echo
/// requests of these identifiers may be lost.
pub const ECHOES_PER_USER_MAX: usize = 32;

/// Identifiers of echo requests: with all of them taken the host loses one in 256 of its own, at most.
pub const ECHOES: Pool = Pool::new([64, 128, 192, 256]);

/// Grants: all are as many as the shared tables hold. Beside all that those whom no rule names can have, one user can have
/// all of theirs; each better standing finds some left.
pub const GRANTS: Pool = Pool::new([2048, 14_336, 16_128, TABLE_GRANTS]);

/// Ports that several programs share, on one interface.
pub const DIVIDED: Pool = Pool::new([8, 32, 56, GROUPS_MAX as usize]);

/// Such ports of one user: two protocols of eight addresses.
pub const DIVIDED_PER_USER_MAX: usize = 16;

/// Programs that share one port.
pub const MEMBERS_MAX: usize = exos_filter::gate::group::MEMBERS_MAX;

/// Programs that have general filters, on one interface.
pub const FILTERING: Pool = Pool::new([2, 8, 14, GENERALS_MAX as usize]);

/// Dump clients.
pub const TAPS: Pool = Pool::new([2, 4, 6, TAPS_MAX as usize]);

/// Programs of one user that have general filters, on one interface, unless it is the user that the daemon runs as: one for
/// each of eight cores. Others named find some left.
pub const FILTERING_PER_USER_MAX: usize = 8;

/// General filters of one slot: they are one program, of as many alternatives as all of them have.
pub const FILTERS_PER_SLOT_MAX: usize = 8;

/// Filters that one user may ask for at once, to claim them or for copies: as many as a slot may have.
pub const FILTERS_AT_ONCE: u32 = FILTERS_PER_SLOT_MAX as u32;

/// How often one user may ask for a filter after that.
pub const FILTER_EVERY: Duration = Duration::from_secs(1);

/// The part of the time of the thread that compiles and verifies filters that one user may have. What theirs took longer than
/// this part of [`FILTER_EVERY`] counts as more of them.
pub const FILTER_TIME_PART: u32 = 5;

/// As many filters' time as the parts of one that was asked for (cores that join a handler's memory) may take of a user's beyond what there
/// is at once: the next filter is so to be had after 9 s, and the library asks for it for 10 (`exos::limits::BUSY_TIME`).
pub const FILTERS_OWED: u32 = 8;

/// Different words of a packet that the filters of one program test. The verifier's time is quadratic in them: 32 take it 60
/// to 90 ms for each program on this project's virtual machine, 64 take 270, 250 more than a second. A host and a port with
/// all their alternatives are ten.
pub const FILTER_WORDS_MAX: usize = 32;

/// Instructions of one program with filters: 512 values of one word in each family are some 4,000, and the gate's own check
/// of what is sent is in it.
pub const FILTER_INSNS_MAX: usize = 8192;

/// Steps that a program's handlers may take in a second, unless policy says otherwise: a step is about a nanosecond, so a tenth of
/// a core. Some hundreds of thousands of short messages, or some thousands of the longest handlers (`docs/internals/handlers.md`).
pub const HANDLER_STEPS_PER_SEC: u64 = 100_000_000;

/// Fewer steps in a second a policy does not say: the bucket is looked at four thousand times a second, and would get none.
pub const HANDLER_STEPS_MIN: u64 = 10_000;

/// What part of a second's steps may be taken at once: 10 ms' worth.
pub const HANDLER_BURST: u64 = 100;

/// Steps of one comparison of a claim with a filter of another's: less than a millisecond. What cannot be told apart in
/// that is refused.
pub const COMPARISON_STEPS_MAX: usize = 4096;

/// Ports tried for one request when general filters of others lie near.
pub const PORTS_BESIDE_FILTERS: usize = 64;

/// Tickets that one slot has given and nobody has presented yet.
pub const TICKETS_PER_SLOT_MAX: usize = 64;

/// How long a ticket is good: it travels to a process that waits for it.
pub const TICKET_LIFE: Duration = Duration::from_secs(60);

/// How long a released port is not given again unasked: TIME-WAIT of the connections that it had (2 MSL of 30 s, as
/// Linux has it).
pub const PORT_REST: Duration = Duration::from_secs(60);

/// Ports remembered as used lately. When there are more in a minute the oldest are forgotten early.
pub const PORTS_RESTING_MAX: usize = 16_384;

/// Ports that the daemon chooses from: Linux's own range for the purpose.
pub const EPHEMERAL_PORTS: std::ops::RangeInclusive<u16> = 32_768..=60_999;

/// Ports tried for one request because the host has the first ones: some of its connections lie side by side.
pub const EPHEMERAL_ATTEMPTS: usize = 32;

/// The first port that everybody may have who may have any: those below are the system's (IANA's "system ports").
pub const UNPRIVILEGED_PORT: u16 = 1024;

/// Answers that wait for a program to read them. More, and it is cut off: it asks without listening.
pub const ANSWERS_WAITING_MAX: usize = 64;

/// Connections that may wait to be let in: as many as the kernel allows by default (`net.core.somaxconn`), so that those of
/// one user do not fill it before a turn of the daemon has emptied it.
pub const NEWCOMERS_WAITING_MAX: i32 = 4096;

/// How long newcomers are let in, or turned away, before everybody else has a turn: each takes 10 to 50 µs, so some dozens.
/// Without anything else to do that is most of the daemon's time, and the queue is emptied about as fast as one process can
/// fill it; it never takes more from those who are connected.
pub const NEWCOMERS_TIME: Duration = Duration::from_millis(1);

/// How long newcomers wait when the daemon has no descriptors left: somebody may go meanwhile. No longer than between
/// two looks at the counters, for which the loop wakes up anyway.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(400);

/// Programs of one user that may attach at once, unless policy allows them more programs: then as many as these.
pub const ATTACHES_AT_ONCE: u32 = PROGRAMS_PER_USER as u32;

/// How often one user may attach after that: making a place takes some 50 ms in which nobody is served, so this is a fifth of the
/// time at most. What may come before at once takes as long as it takes: with a thousand programs most of a minute, in turns
/// between which others are heard.
pub const ATTACH_EVERY: Duration = Duration::from_millis(250);

/// Programs that may attach at once of all users whom no rule names, and of all whom rules name by a group: as many as they
/// may have. After that they attach together as often as one user may.
pub const ATTACHES_OF_MANY: [u32; 2] = [
    PROGRAMS.most(Standing::Unnamed) as u32,
    PROGRAMS.most(Standing::Member) as u32,
];

/// Filters that they may ask for at once, likewise: as many as the programs may have that they may have with filters.
pub const FILTERS_OF_MANY: [u32; 2] = [
    (FILTERING.most(Standing::Unnamed) * FILTERS_PER_SLOT_MAX) as u32,
    (FILTERING.most(Standing::Member) * FILTERS_PER_SLOT_MAX) as u32,
];

/// Messages of one user that are heard before the others have their turn: a grant takes some 20 µs, so this is a third of a
/// millisecond.
pub const MESSAGES_PER_TURN: usize = 16;

/// How long one user's turn may last before its last message is heard: what takes longer than a turn of grants (a place
/// for a program, programs for the kernel to verify) is a turn of its own.
pub const TURN_TIME: Duration = Duration::from_millis(1);

/// How long the turn of all users whom no rule names may last before the last of them begins theirs, and of all whom rules
/// name by a group: as many grants as of a dozen users, or one thing that takes long. Each may be one person.
pub const STANDING_TURN_TIME: Duration = Duration::from_millis(4);

/// How long a connection may be silent before its first message: longer than a program takes to say hello, shorter
/// than is worth holding connections for.
pub const HELLO_TIME: Duration = Duration::from_secs(5);

/// How long a program that is adopted has to take its slot up again.
pub const REATTACH_TIME: Duration = Duration::from_secs(5);

/// Slots' pairs that are deleted by one call: some 50 ms in which nobody on this host changes an interface. One alone takes 20.
pub const PAIRS_DELETED_AT_ONCE: usize = 64;

/// So few slots that have gone a newcomer waits for, and has the number of one of them: as long as a place takes to be made.
pub const WAITED_FOR: usize = 4;

/// Threads that let go of slots' places and memory: each slot waits for the kernel's grace period four times.
pub const LETTING_GO: usize = 16;

/// How long a daemon waits for one that has stepped aside to be gone: it ends at once, on a machine with time for it.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// When something is tried again for which the kernel had no descriptor or no memory left: no sooner than newcomers are.
pub const AGAIN_AFTER: Duration = ACCEPT_PAUSE;

/// When a slot's place that could not be taken away again and again is tried again at the latest: each try asks the kernel for
/// all there is of the slot.
pub const REMOVED_AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);

/// How long a program has to give back what is revoked.
pub const REVOKE_TIME: Duration = Duration::from_secs(2);

/// Chunks of a program's memory when it does not ask: 4 MiB, or 8 at chunks of 4 KiB.
pub const CHUNKS_DEFAULT: u32 = 2048;

/// When to ask again for a queue that was given back: the kernel has it some 30 ms after its last holder has gone.
pub const QUEUE_RETRY: Duration = Duration::from_millis(30);

/// How long programs are told to ask again, which a machine under load may need. Then somebody keeps the queue.
pub const QUEUE_WAIT: Duration = Duration::from_secs(1);

/// Bytes of a policy file: a page per user would be a lot.
pub const POLICY_BYTES_MAX: u64 = 1 << 20;

/// Groups of a user in the state file that no rule of the policy is for: more than an ordinary user has.
pub const GROUPS_SAVED: usize = 64;

/// Bytes of the state file that are written down at the end of each turn that passes something on: some dozens of grants.
pub const SAVE_AT_ONCE_BYTES: usize = 4096;

/// How fast more is written. With thousands of grants it takes several ms, at some 100 MB/s; so this is a tenth of the
/// daemon's time.
pub const SAVE_BYTES_PER_SECOND: u64 = 10_000_000;

/// How often counters are copied into the shared tables: what a person watching takes for now.
pub const COUNTERS_EVERY: Duration = Duration::from_millis(500);

/// Neighbours that the programs of one user may ask for in a second: each can cost a broadcast.
pub const RESOLVES_PER_SECOND: usize = 256;

/// Neighbours that programs of all users may ask for in a second: more than a /22 has, and of 100 Mbit/s less than a
/// fiftieth.
pub const RESOLVES: Pool = Pool::new([512, 1024, 2048, 4096]);

/// How often the report is made again, at most: who watches takes it for now, and all who ask meanwhile get the same.
pub const REPORT_EVERY: Duration = Duration::from_millis(100);

/// The part of the daemon's time that making reports may take: with thousands of grants one takes several ms.
pub const REPORT_TIME_PART: u32 = 10;

/// Reports that can be read at the same time: anyone who asks has a second and a half to read theirs. Their memory is bounded by
/// this, no matter who keeps descriptors of how many.
pub const REPORTS_MAX: usize = 16;

/// Bytes of the ring of copied packets of one dump client: some 5,000 full packets, or 80,000 acknowledgements, which is
/// a fraction of a second at full speed for the client to be late.
pub const TAP_RING_BYTES: u32 = 8 << 20;

/// Dump clients of one user at the same time, of the eight that a gate has place for.
pub const TAPS_PER_USER_MAX: usize = 2;

/// Connections in TIME-WAIT that programs have left with the daemon: 64 bytes each, so 4 MiB in all. When there are more,
/// those that come are not taken, and their peers are answered with resets as if nobody had been there.
pub const TIME_WAITS: Pool = Pool::new([8192, 32_768, 57_344, 65_536]);

/// Such connections of one user.
pub const TIME_WAIT_PER_USER_MAX: usize = 16_384;

/// How long one stays at most: 2 MSL of 30 s, as Linux has it.
pub const TIME_WAIT_LIFE: Duration = Duration::from_secs(60);
