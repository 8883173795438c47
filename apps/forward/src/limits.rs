//! Every bound of the forwarder, with its reason.

use std::time::Duration;

/// Flows that are tracked unless told otherwise: a million, of which each takes 64 bytes, 16 to 32 of the index and 4 of its
/// server's ports.
pub const FLOWS_DEFAULT: u32 = 1 << 20;

/// Flows at most: 16 million, in 1.4 GB.
pub const FLOWS_MAX: u32 = 1 << 24;

/// Of all flows, this part at most may be on their way to be opened: what a flood of SYNs can take.
pub const OPENING_SHARE: u32 = 4;

/// A connection that has begun and was never answered, or whose client has not shown that it saw the answer: longer than
/// a client waits before its fifth SYN (31 s).
pub const OPENING_TIME: Duration = Duration::from_secs(60);

/// An established connection may be silent for so long: what RFC 5382 (REQ-5) asks of address translators, 2 h 4 min.
pub const ESTABLISHED_TIME: Duration = Duration::from_secs(2 * 3600 + 4 * 60);

/// Ports up to this one are those of known protocols (RFC 6335 §6).
pub const WELL_KNOWN_PORTS: u16 = 1023;

/// One question to a well-known port and its answer: twice what a resolver waits for one (RFC 4787, REQ-5a, lets flows to such
/// ports end before the two minutes of REQ-5). Of a server's 64,000 ports 6,400 a second can be given then.
pub const ANSWERED_TIME: Duration = Duration::from_secs(10);

/// Of all flows, this part at most may be datagrams: those of nobody may be answered, and a connection must not end for them.
pub const DATAGRAM_SHARE: u32 = 2;

/// How far a reset may be beyond what was last acknowledged of its sender, by client and by server: what may be under way.
/// Who guesses a client's needs 4,096 packets for one that is believed, and then the server's answer says that it was none
/// (RFC 5961 §3). A server may have more under way; to keep others from sending with its address is the network's business.
pub const RESET_WINDOWS: [u32; 2] = [1 << 20, 1 << 24];

/// A SYN that comes again after this many seconds, counted by their edges, has waited for one at least: a copy that the network
/// made has not.
pub const ASKED_AGAIN_AFTER: u32 = 2;

/// A SYN that comes again after this time is the client's own, where it is known exactly when it came: a client's first wait is
/// a second (RFC 6298 §2), and copies that the network makes come within its round trips.
pub const ASKED_AGAIN_TIME: Duration = Duration::from_millis(500);

/// How often a connection goes to another server because one refuses it: what is counted in two bits of a flow. With four servers that
/// refuse, the client is to know.
pub const REFUSALS_MAX: u8 = 3;

/// SYNs that are kept until their server answers: those of 4,000 connections a second to a server that takes a second. With what
/// is in them that is 1 MiB at most.
pub const SYNS_MAX: usize = 4096;

/// Bytes of a frame with a SYN: headers with all options, and a little that is sent with it (RFC 7413).
pub const SYN_LEN_MAX: usize = 256;

/// Datagrams both ways and then none: what RFC 4787 (REQ-5) asks for, five minutes.
pub const TALKING_TIME: Duration = Duration::from_secs(5 * 60);

/// What is left of a connection that both sides have closed, or one has reset: for segments that are sent again, as long
/// as Linux keeps TIME-WAIT.
pub const CLOSING_TIME: Duration = Duration::from_secs(60);

/// With the table full of established flows, one that was silent for less than this is not given up for a new one.
pub const EVICTABLE_AFTER: Duration = Duration::from_secs(60);

/// How far an acknowledgement may be beyond a server's SYN-ACK to prove that the client has seen it: what a server may send
/// before the client says anything more.
pub const PROOF_WINDOW: u32 = 1 << 20;

/// The first port that servers see us come from; those below have names.
pub const PORT_FIRST: u16 = 1024;

/// With all ports to a server in use, this many are looked at for one whose flow may be given up: each may be a read of memory
/// that is far away, of a tenth of a microsecond.
pub const PORTS_TRIED: usize = 128;

/// Packets in fragments of which the ends are remembered. At 1,500 packets a second each is remembered for a third of a
/// second, in which all fragments of a packet come unless they are lost.
pub const FRAGMENTED_MAX: usize = 512;

/// For so long at most: half of what a receiver waits for the rest of a packet (RFC 1122 §3.3.2 asks for 60 s).
pub const FRAGMENTED_TIME: Duration = Duration::from_secs(30);

/// Fragments that wait for the first of their packet: those of two of the largest packets.
pub const FRAGMENTS_HELD_MAX: usize = 128;

/// Bytes of their frames: this many of Ethernet's longest (1,514), and fewer where frames are longer.
pub const FRAGMENTS_HELD_LEN_MAX: usize = FRAGMENTS_HELD_MAX * 1514;

/// For so long at most. What overtakes on a way with several lines is some milliseconds ahead.
pub const FRAGMENTS_HELD_TIME: Duration = Duration::from_secs(1);

/// Servers behind one listener, with the small hashing table and with the large one. Beyond 16 alike the keys that move
/// beside those of a server that comes or goes would be more than a tenth of these in the small one; the large one is as
/// large as a processor's cache of the second level.
pub const SERVERS_PER_LISTENER_MAX: [usize; 2] = [16, 256];

/// Entries of the hashing table, primes: 128 KiB, or 2 MiB.
pub const TABLE_LENS: [usize; 2] = [65_537, 1_048_573];

/// The largest weight of a server.
pub const WEIGHT_MAX: u16 = 1000;

/// How long what a name server says is taken for true at most where nothing else is said: zones that are to be followed have their
/// records last no longer.
pub const RESOLVE_EVERY: &str = "30s";

/// How long a name that cannot be resolved is not asked for again: twice what a server has for its answer (resolv.conf(5)).
pub const RESOLVE_FAILED_EVERY: Duration = Duration::from_secs(10);

/// The shortest interval, also of records that are to last for less: what is asked more often is asked in vain.
pub const RESOLVE_EVERY_MIN: Duration = Duration::from_secs(1);

/// The longest name of a host: 253 characters and a dot at its end (RFC 1035 §2.3.4).
pub const HOST_NAME_LEN_MAX: usize = 254;

/// Listeners: each has a table.
pub const LISTENERS_MAX: usize = 256;

/// Servers behind all of them, each with 8 KiB of its own to know which ports are free.
pub const SERVERS_MAX: usize = 16_384;

/// Entries that are looked at in one turn while a hashing table is made beside the one in use: some 20 microseconds. The small
/// table takes some 200 such turns, the large one 4,000.
pub const ENTRIES_AT_ONCE: usize = 4096;

/// Places of flows that are looked at in one turn for those of a server that is removed at once: some 10 microseconds.
pub const FLOWS_AT_ONCE: usize = 1024;

/// Flows that are given up for their age in one turn, so that a table that ages at once does not stop the program.
pub const EXPIRED_AT_ONCE: usize = 256;

/// From this many flows on a batch of frames is read ahead: with fewer, the flows (64 bytes each) are in a cache of the second
/// level as it is usual (512 KiB), and looking ahead would only cost time.
pub const READ_AHEAD_FROM: u32 = 8192;

/// How long packets may be where nobody has said: Ethernet's.
pub const LINK_MTU: usize = 1500;

/// Hops of packets that begin with us: RFC 1700's default.
pub const TUNNEL_HOPS: u8 = 64;

/// Nobody says of a way to a server that it takes shorter packets than these, of IPv4 and of IPv6, headers around them
/// included: what every host takes (RFC 791), and what every link takes (RFC 8200 §5) with a header around it.
pub const PATH_MTU_MIN: [usize; 2] = [576, 1280 + exos_wire::ipv6::LEN];

/// For so long that is believed (RFC 1191 §6.3).
pub const PATH_MTU_TIME: Duration = Duration::from_secs(10 * 60);

/// Bytes of an error of ICMP at most, of IPv4 (RFC 1812 §4.3.2.3) and of IPv6 (RFC 4443 §2.4(c)).
pub const ICMP_ERROR_LEN_MAX: [usize; 2] = [576, 1280];

/// Programs on the control socket at once: people and scripts of its owner. Another takes the place of the one that was silent
/// for longest.
pub const ASKERS_MAX: usize = 8;

/// Programs that wait to be let in: between two looks at the socket.
pub const ASKERS_WAITING_MAX: i32 = 16;

/// Bytes of a request; the longest has some two hundred.
pub const REQUEST_LEN_MAX: usize = 4096;

/// How long a forwarder that was killed may take until the kernel has taken back all that it had: a second with a million flows, and several
/// where the machine is busy. One that is alive answers before.
pub const DYING_TIME: Duration = Duration::from_secs(15);

/// How often it is looked meanwhile whether it has.
pub const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// How long a forwarder may take to give up its place: it writes nothing and waits for nobody.
pub const HAND_OVER_TIME: Duration = Duration::from_secs(10);

/// Turns of a forwarder that hands over, after packets pass by it: what the rings hold is taken in by then.
pub const LAST_TURNS_MAX: u32 = 64;

/// Before each of them: a driver has brought what it had begun with by then.
pub const LAST_PAUSE: Duration = Duration::from_millis(1);

/// How long a server's neighbour may take to say where it is: three questions, a second each (RFC 4861), and a little.
pub const SEEK_TIME: Duration = Duration::from_secs(4);

/// How long a status waits for what other cores have counted: each says it in its next turn, and only one that is kept from running
/// takes longer than a few microseconds.
pub const COUNTED_WITHIN: Duration = Duration::from_millis(50);

/// How often the loop looks at the control socket while packets come: a person notices no delay, and it costs two system calls.
pub const CONTROL_EVERY: Duration = Duration::from_millis(1);

/// Ports of ours that checks of servers come from, and flows never do: as many checks of a server in a row before one is used
/// again.
pub const CHECK_PORTS: std::ops::Range<u16> = 65_472..65_535;

/// Bytes of a check's answer that are looked at: a page that says how a server is.
pub const CHECK_ANSWER_LEN_MAX: usize = 64 << 10;

/// What a server may send before a check has looked at it.
pub const CHECK_BUFFER_LEN: u32 = 32 << 10;

/// From one check of a server to the next at least: so that a thousand servers are asked 10,000 times a second at most.
pub const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Checks, or connections, in a row that may be asked for: more would be hours.
pub const CHECKS_IN_A_ROW_MAX: u32 = 1000;

/// This many connections in a row that fail to begin give a server a rest where nothing else is said. None of their clients sees a
/// failure while there is another server; and one failure alone may be a client's own.
pub const PASSIVE_DEFAULT: u32 = 3;

/// With joined sockets a server has so long to answer: it is asked four times in that (after 1, 3 and 7 s again).
pub const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Joined sockets of which one side has ended, and the other says nothing any more: half an hour, for who computes long before it
/// answers.
pub const HALF_CLOSED_TIME: Duration = Duration::from_secs(30 * 60);

/// Bytes that a call moves at most, more than most pipes hold; and after how many of one way of a connection others have their
/// turn.
pub const SPLICE_AT_ONCE: usize = 1 << 18;

/// Empty pipes that are kept: as many connections as have something to move between two looks at the clock, both ways.
pub const PIPES_SPARE_MAX: usize = 512;

/// Clients that are accepted one after the other before connections have their turn.
pub const ACCEPT_AT_ONCE: usize = 64;

/// No client is accepted for so long when there was no descriptor: until connections have ended.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The longest configuration file: as many services as there may be listeners, with as many servers each, is below this.
pub const CONFIG_LEN_MAX: u64 = 4 << 20;

/// Flows in the kernel are asked when they were last seen once in this time: a third of [`EVICTABLE_AFTER`], so that none
/// that says something is taken for a silent one.
pub const SWEEP_TIME: Duration = Duration::from_secs(20);

/// Places at which that is read at once: some 50 microseconds.
pub const SWEEP_STEP: u32 = 512;

/// How often it is looked whether what the kernel sends on by a veth still arrives.
pub const WAY_OUT_EVERY: Duration = Duration::from_secs(1);

/// How long nothing is tried after the kernel has refused a program for listeners that have come: all maps are made for it.
pub const FIT_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Neighbours that flows in the kernel go to: 8 bytes each. A network with more has a router.
pub const KERNEL_HOPS_MAX: u32 = 4096;

/// Pairs of a listener and a server that have flows in the kernel at once, of which it counts packets and bytes: 32 bytes each for
/// each processor.
pub const KERNEL_PAIRS_MAX: u32 = 1024;

/// After the last packet a forwarder that polls looks on for so long: whatever comes ten times a second and more is not kept
/// waiting by a sleep, and a forwarder without traffic takes no processor.
pub const LOOK_ON_TIME: Duration = Duration::from_millis(100);
