//! The limits of HTTP/2 connections, each with its reason.

/// The longest payload of a frame that we take: the least that every peer has to take (RFC 9113 §4.2), and what fits a
/// receive buffer whole.
pub const FRAME_LEN_MAX: usize = 16_384;

/// Bytes of a frame's header (§4.1).
pub const FRAME_HEAD_LEN: usize = 9;

/// The longest frame: what carries a connection has to give as much in one piece.
pub const WHOLE_FRAME_LEN_MAX: usize = FRAME_HEAD_LEN + FRAME_LEN_MAX;

/// Streams that a client may have open at once: what RFC 9113 §6.5.2 advises at least is 100, and nginx allows 128.
pub const STREAMS_MAX: u32 = 128;

/// What a peer may have sent on a stream and nobody has consumed: as much as an HTTP/1.1 connection may.
pub const STREAM_WINDOW: u32 = 64 * 1024;

/// What it may have sent on all streams of a connection together. Sixteen bodies that nobody reads take all of it, so that others wait for
/// them to come to their ends; a connection costs as much at most. Tunnels, which need not come to any, are to be let wait beside it
/// ([`consume_of_connection`](crate::connection::Connection::consume_of_connection)): each within its stream's window, as on a connection of its own.
pub const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// What both windows are before anything is said (§6.9.2).
pub const DEFAULT_WINDOW: u32 = 65_535;

/// The largest window that there is (§6.9.1).
pub const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The table of header compression that a peer may use: what it may before anything is said (§6.5.2). A connection costs as much.
pub const HEADER_TABLE_LEN: usize = 4096;

/// The table that we fill for a peer, which may allow less: what there is before anything is said. With what finds its entries, and blocks
/// and fields that are remembered, a connection costs three times as much at most, and a browser that allows 64 KiB no more.
pub const SENT_TABLE_LEN: usize = 4096;

/// Fields that were sent and not kept are remembered by 4 bytes each, to be kept when they are sent again: those of some twenty
/// documents, which have three each that no other has.
pub const SEEN_FIELDS: usize = 64;

/// Blocks that name entries are remembered with what they were made of, for a client that asks for the same documents in turn.
pub const SHORT_BLOCKS: usize = 4;

/// Up to this length: those of documents take some hundred bytes.
pub const SHORT_BLOCK_LEN: usize = 512;

/// Compressed fields of one message, over all its frames: twice of what they may come to when they are not compressed. Beyond it
/// nothing is kept, and the connection ends.
pub const HEADER_BLOCK_LEN_MAX: usize = 2 * FIELDS_LEN_MAX;

/// What the fields of a message may come to, each with 32 bytes more (RFC 7541 §4.1): as long as the head of a request of
/// HTTP/1.1, and 64 fields. Beyond it they are counted and not kept.
pub const FIELDS_LEN_MAX: usize = 16 * 1024 + 64 * 32;

/// What the fields of one block may come to at all: with more, a table's entries are named over and over to cost us time, and the
/// connection ends.
pub const BOMB_LEN: usize = 4 * FIELDS_LEN_MAX;

/// Frames that may continue one header block: the longest block in frames of a kilobyte.
pub const CONTINUATIONS_MAX: u8 = 36;

/// Changes of the table's size in one block: a peer needs two at most (RFC 7541 §4.2).
pub const TABLE_RESIZES_MAX: u8 = 2;

/// Fields that were decoded are kept for a request that is the same to the byte, up to this length of all. Those of browsers
/// take a kilobyte.
pub const KEPT_FIELDS_LEN: usize = 2048;

/// Bytes of a body that are thrown away behind a response, before the stream is reset: what is under way when it is sent. Some clients do
/// not look at a response that is followed by a reset at once.
pub const SURPLUS_LEN_MAX: u32 = 64 * 1024;

/// Streams that we have reset are remembered, for frames that were under way: as many as there may be, and those
/// that a client has opened before it knew of that.
pub const RESET_REMEMBERED: usize = STREAMS_MAX as usize + RESETS.0 as usize;

/// Priorities of streams that are not open yet (RFC 9218 §7.1) are remembered: browsers send one or two ahead.
pub const EARLY_PRIORITIES_MAX: usize = 8;

/// Streams that a client gives up, in a row and in each second: who scrolls through a page of pictures gives up some dozens, and
/// an attack (CVE-2023-44487) thousands.
pub const RESETS: (u32, u32) = (256, 64);

/// Settings in a row and in each second: a peer sends them once or twice.
pub const SETTINGS: (u32, u32) = (32, 4);

/// Pings in a row and in each second: who measures a path sends one for each window.
pub const PINGS: (u32, u32) = (256, 32);

/// Frames that bring nothing, in a row and in each second: data without bytes, frames of unknown types, header blocks that go on
/// without bytes.
pub const EMPTY_FRAMES: (u32, u32) = (256, 32);

/// Changes of priorities, in a row and in each second: browsers send one or two for each stream.
pub const PRIORITIES: (u32, u32) = (1024, 256);

/// Changes of windows in a row and in each second that bring little: beyond these, a window grows by this much at least for each.
pub const SMALL_WINDOWS: (u32, u32) = (4096, 2048);

/// What is little for such a change: less than a segment.
pub const SMALL_WINDOW_LEN: u32 = 1024;

/// Faults of single streams, in a row and in each second: each costs a frame.
pub const STREAM_FAULTS: (u32, u32) = (256, 64);
