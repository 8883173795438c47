//! Memory that frames of a shared interface arrive in: an array that the device's program writes and one slot's holder maps,
//! so that a frame needs neither the slot's virtual interface nor the ring behind that.
//!
//! ```text
//! value 0:      put | by interface            words of 64 bits, each in a cache line of its own
//! values 1..:   state | frame                 place N mod PLACES of the Nth frame
//! ```
//!
//! Several processors may put frames at the same time. Each takes a number by advancing `put`, writes the frame to that
//! number's place, and says so in the place's state; the holder takes them in order, and empties the states.
//!
//! **By interface.** While this word is not 0 frames take the other way, through the slot's interface, which wakes those who
//! sleep and has more room. The holder sets it before it sleeps, and the device's program when a place is not empty or a frame is
//! too long for one. The holder sets it back when both ways are empty: frames of one sender stay in order, but for those that
//! are under way to the interface at that moment.
//!
//! The program looks at the word again when the frame is there: a holder that has gone to sleep meanwhile may not have
//! seen it. It takes such a frame back ([`TAKEN_BACK`]), unless the holder has got it after all.
//!
//! Nobody but the holder is harmed by what the holder writes here: all that the program believes is which of the places it
//! writes to next.

/// Frames that there are places for: a power of two. As many as a virtual interface keeps for its other end (256), twice.
pub const PLACES: u32 = 512;

/// Bytes of each value.
pub const VALUE_LEN: usize = 2048;

/// Values of the array: that of the two words, and the places.
pub const VALUES: u32 = 1 + PLACES;

/// Where in value 0 the number of frames put so far is, modulo 2^64.
pub const PUT: usize = 0;

/// Where in value 0 it says whether frames take the other way.
pub const BY_INTERFACE: usize = 64;

/// Where in a place the frame begins; before it is the state.
pub const FRAME: usize = 16;

/// The longest frame, in bytes.
pub const FRAME_LEN_MAX: usize = VALUE_LEN - FRAME;

/// The state of a place that waits for a frame.
pub const EMPTY: u64 = 0;

/// The state of a place whose frame went the other way: the holder passes over it.
pub const TAKEN_BACK: u64 = 2;

/// Value 0 to begin with: frames take the interface until the holder says otherwise.
pub const fn beginning() -> [u8; VALUE_LEN] {
    let mut value = [0; VALUE_LEN];
    let word = 1_u64.to_ne_bytes();
    let mut at = 0;
    while at < word.len() {
        value[BY_INTERFACE + at] = word[at];
        at += 1;
    }
    value
}

/// How far left of the state's lowest bit, which says that a frame is there, its length stands.
pub const LEN_SHIFT: u32 = 2;

/// The length of the frame that is in a place with this state; None where there is none.
#[inline]
pub const fn frame_len(state: u64) -> Option<usize> {
    let len = (state >> LEN_SHIFT) as usize;
    if state & 1 == 1 && len <= FRAME_LEN_MAX {
        Some(len)
    } else {
        None
    }
}
