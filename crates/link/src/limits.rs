//! Every bound of this crate, with its reason.

use std::time::Duration;

/// Frames handled per call of `receive`: enough to spread the cost of looking
/// at shared counters, few enough that what they left in the first-level cache
/// is still there when the answers are written.
pub const RX_BATCH: u32 = 64;

/// Frames that are taken in together although they are more than half of those under way: fewer are not worth a system call
/// for their answers.
pub const RX_BATCH_MIN: u32 = RX_BATCH / 2;

/// Frames of a ring that are taken in together at most: as many as the queue of a veth's other end has room for (256), which the
/// answers to them go through.
pub const RX_SHARE_MAX: u32 = 256;

/// How far ahead of the frame at hand those behind it are fetched into the cache: the processor that wrote them is another one, and
/// one frame is worked on for about as long as a line of memory takes to come from there.
pub const FETCH_AHEAD: u32 = 8;

/// Lines of a frame that are fetched: headers, and a short request behind them.
pub const FETCHED_LINES: usize = 3;

/// Bytes that a processor's caches keep together.
pub const CACHE_LINE_LEN: usize = 64;

/// Turns in a row without a frame after which redirected frames that have not come are taken for lost. If they come after all,
/// they only come out of order.
pub const EMPTY_TURNS: u32 = 1000;

/// Bytes of an Ethernet header without tag.
pub const ETHERNET_HEADER_LEN: usize = 14;

/// Bytes of an 802.1Q tag, which a frame may carry beyond the MTU.
pub const VLAN_TAG_LEN: usize = 4;

/// What a frame may be longer than the MTU.
pub const FRAME_OVERHEAD_LEN: usize = ETHERNET_HEADER_LEN + VLAN_TAG_LEN;

/// Longest frame that stands for several segments: an IPv4 packet's length
/// field allows 65,535 bytes; the Ethernet header comes on top.
pub const GSO_FRAME_LEN_MAX: usize = 65_535 + FRAME_OVERHEAD_LEN;

/// Smallest MTU that IPv4 knows (RFC 791).
pub const MTU_MIN: usize = 68;

/// The kernel leaves this many bytes free before a received frame, for XDP
/// programs that grow it (`XDP_PACKET_HEADROOM`).
pub const XDP_HEADROOM_LEN: usize = 256;

/// Sizes that a chunk of UMEM may have. The kernel takes 2,048 up to a page,
/// powers of two when aligned.
pub const CHUNK_SIZES: [u32; 2] = [2048, 4096];

/// The kernel with which AF_XDP learned packets that span several chunks
/// (`XDP_USE_SG`).
pub const MULTI_BUFFER_KERNEL: (u32, u32) = (6, 6);

/// From this kernel on the rings of a socket that is bound can be mapped. It came a little earlier; before, the program that
/// is lent a socket has to bind it itself.
pub const BOUND_MAPPING_KERNEL: (u32, u32) = (6, 5);

/// Largest MTU at which native XDP works with a packet in one buffer: a page
/// less 258 bytes before the packet, 320 of `skb_shared_info` after it, and the
/// Ethernet header with a tag, on veth and most drivers; some take a little less.
pub const NATIVE_MTU_MAX: usize = 3498;

/// Most chunks per sent packet: the kernel's `MAX_SKB_FRAGS` is 17 and the first
/// chunk becomes the linear part; one less than both to hold on any kernel.
pub const TX_CHUNKS_MAX: usize = 16;

/// Entries of the receive ring: at 450,000 packets per second, the most that a
/// veth was seen to deliver, 2,048 bridge an absence of our thread of 4.5 ms,
/// which is what the scheduler takes from it at worst under load.
pub const RX_RING_SIZE: u32 = 2048;

/// Entries of the transmit ring: 2,048 full frames are 3 MB, more than a
/// stack's window of data to send in one turn.
pub const TX_RING_SIZE: u32 = 2048;

/// Chunks of UMEM: one for every entry of both rings, 8 MiB of 2,048 bytes. So
/// a full transmit ring can never starve reception.
pub const CHUNKS: u32 = RX_RING_SIZE + TX_RING_SIZE;

/// Chunks of a link that a daemon makes for a program: a batch in each direction at least, or a
/// burst that one wake-up brings finds no room.
pub const OFFER_CHUNKS_MIN: u32 = 2 * RX_BATCH;

/// And at most: 128 MiB of 2,048 bytes. More is beyond what a queue of a card holds, and the kernel
/// pins every page.
pub const OFFER_CHUNKS_MAX: u32 = 1 << 16;

/// Sent chunks are collected from the completion ring when this many are out: a
/// batch as on the receiving side, and soon enough that they are still cached.
pub const COMPLETION_BATCH: u32 = 64;

/// Packets that one kick of the transmit ring may send in copy mode. The kernel
/// stops after 32 unless told otherwise (`XDP_MAX_TX_SKB_BUDGET`, since 6.17);
/// every stop costs another system call.
pub const TX_BUDGET: u32 = 512;

/// Kicks per flush. 32 packets each (see [`TX_BUDGET`]) drain the whole ring;
/// the double of that leaves room for some that send less.
pub const KICKS_MAX: u32 = 2 * TX_RING_SIZE / 32;

/// Bytes that may be on their way through the kernel (`SO_SNDBUF`). In copy mode
/// each packet becomes a socket buffer that counts some 2.3 KB; this lets a full
/// transmit ring through before the kernel says EAGAIN.
pub const SEND_BUFFER_LEN: i32 = 8 << 20;

/// How often an interface is asked, while many frames at once are redirected to it, whether it takes them: the other end of a
/// veth may lose its XDP program and its GRO at any time, and until the next question such frames are lost.
pub const LIVE_RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// And after a pause of this length: a client whose end the interface has may have gone, and another have come, which does not
/// take them. Longer than a turn lasts, and shorter than it takes to start a program.
pub const LIVE_PAUSE: Duration = Duration::from_millis(10);

/// Packets handled per busy poll, where that is asked for: the batch.
pub const BUSY_POLL_BUDGET: i32 = RX_BATCH as i32;

/// How long a busy poll may spin in the kernel, in microseconds: one batch.
pub const BUSY_POLL_US: i32 = 20;

/// How long to wait for a queue that another socket holds. The kernel releases
/// a queue some 30 ms after its last holder has gone, later on a busy machine: a
/// worker of its own does it, which has to wait for the lock of all network
/// configuration, and which has taken more than 4 s beside other work. This
/// bounds the wait when the holder has not gone.
pub const QUEUE_RELEASE_WAIT: Duration = Duration::from_secs(10);

/// How often to try meanwhile.
pub const QUEUE_RETRY_INTERVAL: Duration = Duration::from_millis(5);
const _: () = assert!(QUEUE_RETRY_INTERVAL.as_nanos() < QUEUE_RELEASE_WAIT.as_nanos());

/// How long the detachment of an XDP program that is going away may take: as
/// for the queue, the kernel does it some time after the last holder has gone.
pub const DETACH_WAIT: Duration = QUEUE_RELEASE_WAIT;

/// Queues for which an XSKMAP has room. It holds one pointer each; devices have
/// at most some hundreds.
pub const QUEUES_MAX: u32 = 1024;

/// Frames that may be under way between the two ends of a memory link in one
/// direction, unless told otherwise: as the rings of a real one.
pub const MEMORY_LINK_FRAMES: usize = RX_RING_SIZE as usize;

/// Longest MTU of a TAP device that we make: the receive buffer holds any frame
/// with segmentation offload anyway, and Ethernet's field ends there.
pub const TAP_MTU_MAX: usize = 65_521;

/// Pieces of a super-packet: the virtio-net header, the head, and the slices of a body.
pub const SUPER_PACKET_PIECES_MAX: usize = 34;

/// Bytes of super-packets that may be with the driver, by the kernel's accounting: a few full
/// windows. On a veth the other end takes them over at once; on a card they wait for its queue.
pub const SUPER_PACKET_BUFFER_LEN: i32 = 8 << 20;

/// Bytes of packets that may wait in a packet socket, by the kernel's accounting, which takes twice of this: some 450 packets of
/// 64 KiB, or 14,000 of an MTU of 1,500. What there is no room for is lost, and the windows of a few hundred connections fit.
pub const PACKET_RECEIVE_BUFFER_LEN: i32 = 16 << 20;

/// Turns in which packets of a protocol are not looked for, while those of others come and there were none of it: a system
/// call less in each of them.
pub const IDLE_PROTOCOL_TURNS: u32 = 8;
