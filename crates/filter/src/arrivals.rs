//! Memory that frames of a shared interface arrive in: an array that the device's program writes and one slot's holder maps,
//! so that a frame needs neither the slot's virtual interface nor the ring behind that.
//!
//! ```text
//! value 0:      put | by interface | redirected    words of 64 bits, each in a cache line of its own
//! values 1..:   state | frame                      place N mod PLACES of frame N
//! ```
//!
//! Several processors may put frames at the same time. Each takes a number by advancing `put`, writes the frame to that
//! number's place, and says so in the place's state; the holder takes them in order, and empties the places. A state
//! names the round that it is of, N / PLACES: a place that is written to, and has no frame yet, is not empty for the next round.
//!
//! **By interface.** While this word is not 0 frames take the other way, through the slot's interface, which wakes those who
//! sleep and has more room; `redirected` counts them. The holder sets the word before it sleeps. The device's program sets it when
//! a place is not empty, when a frame is too long for one, and when other processors take the numbers away before it again
//! and again. The holder sets it back when it has taken what is here, and as many frames by its ring as were redirected: so
//! frames stay in order.
//!
//! The program looks at the word again when the frame is there: a holder that has gone to sleep meanwhile may not have
//! seen it. It takes such a frame back ([`State::taken_back`]), unless the holder has got it after all.
//!
//! Nobody but the holder is harmed by what the holder writes here: all that the program believes is which of the places it
//! writes to next.

/// Frames that there are places for: a power of two. As many as a virtual interface keeps for its other end (256), twice.
pub const PLACES: u32 = 1 << PLACES_SHIFT;

/// [`PLACES`] as a power of two.
pub const PLACES_SHIFT: u32 = 9;

/// Bytes of each value.
pub const VALUE_LEN: usize = 2048;

/// Values of the array: that of the words, and the places.
pub const VALUES: u32 = 1 + PLACES;

/// Where in value 0 the number of frames put so far is, modulo 2^64.
pub const PUT: usize = 0;

/// Where in value 0 it says whether frames take the other way.
pub const BY_INTERFACE: usize = 64;

/// Where in value 0 the number of frames that took it is, modulo 2^64.
pub const REDIRECTED: usize = 128;

/// Where in a place the frame begins; before it is the state.
pub const FRAME: usize = 16;

/// The longest frame, in bytes.
pub const FRAME_LEN_MAX: usize = VALUE_LEN - FRAME;

/// How far left of a state's lowest bit, which says that a frame is there, its length stands.
pub const LEN_SHIFT: u32 = 2;

/// Set in the state of a place whose frame went the other way: the holder passes over it.
pub const TAKEN_BACK: u64 = 2;

/// How far left in a state the round stands, of which it has 32 bits.
pub const ROUND_SHIFT: u32 = 32;

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

/// The state of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(pub u64);

impl State {
    /// Of the place of this number, when it waits for the frame.
    pub const fn empty(number: u64) -> Self {
        Self((number >> PLACES_SHIFT) << ROUND_SHIFT)
    }

    /// Of the place of this number, when its frame is there.
    pub const fn there(number: u64, len: usize) -> Self {
        Self(Self::empty(number).0 | (len as u64) << LEN_SHIFT | 1)
    }

    /// Of the place of this number, when its frame went the other way.
    pub const fn taken_back(number: u64) -> Self {
        Self(Self::empty(number).0 | TAKEN_BACK)
    }

    /// The length of the frame that is in the place of this number, if there is one.
    #[inline]
    pub const fn frame_len(self, number: u64) -> Option<usize> {
        let low = self.0 & ((1 << ROUND_SHIFT) - 1);
        let len = (low >> LEN_SHIFT) as usize;
        let of_round = self.0 ^ low == Self::empty(number).0;
        if of_round && low & 3 == 1 && len <= FRAME_LEN_MAX {
            Some(len)
        } else {
            None
        }
    }
}
