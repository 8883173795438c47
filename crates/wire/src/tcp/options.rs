//! TCP options.
//!
//! ```text
//!  kind 0 end of list        RFC 9293 §3.2     kind 5  SACK, 1 to 4 blocks         RFC 2018 §3
//!  kind 1 no operation       RFC 9293 §3.2     kind 8  timestamps                  RFC 7323 §3.2
//!  kind 2 maximum segment    RFC 9293 §3.7.1   kind 28 user timeout (not read)     RFC 5482 §3
//!  kind 3 window scale       RFC 7323 §2.2     kind 34 fast open cookie            RFC 7413 §2
//!  kind 4 SACK permitted     RFC 2018 §2       others are skipped by their length
//! ```
//!
//! [`TcpOptions::parse`] is total: a list that cannot be read further ends there, and an option of
//! a wrong length is skipped; both set [`TcpOptions::malformed`] so that it can be counted. Of an
//! option that comes twice, the later one counts, as in Linux. [`RawOptions`] shows every option
//! as it stands, for those who print packets.

use std::fmt;

use crate::bytes::{be32, head_mut, put, put32};
use crate::limits::{
    FAST_OPEN_COOKIE_LEN_MAX, SACK_BLOCKS_MAX, TCP_OPTIONS_LEN_MAX, WINDOW_SHIFT_MAX,
};
use crate::{SeqNumber, Sum};

/// Kind: end of the list.
pub const END: u8 = 0;
/// Kind: no operation.
pub const NOP: u8 = 1;
/// Kind: maximum segment size.
pub const MSS: u8 = 2;
/// Kind: window scale.
pub const WINDOW_SCALE: u8 = 3;
/// Kind: SACK permitted.
pub const SACK_PERMITTED: u8 = 4;
/// Kind: SACK.
pub const SACK: u8 = 5;
/// Kind: timestamps.
pub const TIMESTAMPS: u8 = 8;
/// Kind: user timeout, which [`TcpOptions`] leaves alone.
pub const USER_TIMEOUT: u8 = 28;
/// Kind: fast open cookie.
pub const FAST_OPEN: u8 = 34;

/// Bytes of the timestamps as everybody sends them: two no-operations before.
const ALIGNED_TIMESTAMPS_LEN: usize = 12;

/// Bytes of the options of Linux's SYNs, and of ours: MSS, SACK permitted, timestamps, window scale.
const LINUX_SYN_LEN: usize = 20;

/// The timestamps option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timestamps {
    /// The sender's clock (TSval).
    pub value: u32,
    /// What it echoes (TSecr); of meaning only with the ACK flag.
    pub echo: u32,
}

/// The blocks of a SACK option: received ranges, from the first number up to but not including the
/// second.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SackBlocks {
    blocks: [(SeqNumber, SeqNumber); SACK_BLOCKS_MAX],
    len: u8,
}

impl SackBlocks {
    /// No blocks: no option.
    pub const NONE: Self = Self {
        blocks: [(SeqNumber(0), SeqNumber(0)); SACK_BLOCKS_MAX],
        len: 0,
    };

    /// Adds a block; false when there is no room, and then it is left out.
    #[inline]
    pub fn push(&mut self, left: SeqNumber, right: SeqNumber) -> bool {
        match self.blocks.get_mut(usize::from(self.len)) {
            None => false,
            Some(block) => {
                *block = (left, right);
                self.len += 1;
                true
            }
        }
    }

    /// The blocks, in the order of the option.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[(SeqNumber, SeqNumber)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// The blocks, in the order of the option.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (SeqNumber, SeqNumber)> + '_ {
        self.as_slice().iter().copied()
    }

    /// How many there are.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True when there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// The cookie of a fast open option; empty in a request for one.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FastOpenCookie {
    bytes: [u8; FAST_OPEN_COOKIE_LEN_MAX],
    len: u8,
}

impl FastOpenCookie {
    /// Asks for a cookie.
    pub const REQUEST: Self = Self {
        bytes: [0; FAST_OPEN_COOKIE_LEN_MAX],
        len: 0,
    };

    /// A cookie of an allowed length: none, or an even number from 4 to 16 (RFC 7413 §2).
    #[must_use]
    pub fn new(cookie: &[u8]) -> Option<Self> {
        let len = cookie.len();
        if len != 0 && (!len.is_multiple_of(2) || len < 4) {
            return None;
        }
        let mut bytes = [0; FAST_OPEN_COOKIE_LEN_MAX];
        bytes.get_mut(..len)?.copy_from_slice(cookie);
        Some(Self {
            bytes,
            len: len as u8,
        })
    }

    /// The cookie's bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for FastOpenCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The options of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpOptions {
    /// Maximum segment size, without headers. As sent: may be zero.
    pub mss: Option<u16>,
    /// Window shift. Larger ones than 14 are read as 14 (RFC 7323 §2.3), so that it can be
    /// shifted by.
    pub window_scale: Option<u8>,
    /// The sender can take SACK options.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgements.
    pub sack: SackBlocks,
    /// Fast open cookie, or request for one.
    pub fast_open: Option<FastOpenCookie>,
    /// Something could not be read. Not sent.
    pub malformed: bool,
}

impl TcpOptions {
    /// No options.
    pub const NONE: Self = Self {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: SackBlocks::NONE,
        fast_open: None,
        malformed: false,
    };

    /// Timestamps and nothing else: what most segments of a connection carry.
    #[inline]
    #[must_use]
    pub const fn with_timestamps(value: u32, echo: u32) -> Self {
        Self {
            timestamps: Some(Timestamps { value, echo }),
            ..Self::NONE
        }
    }

    /// Reads the bytes between a fixed header and its payload.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        // RFC 7323 appendix A: the recommended layout, by far the most frequent one.
        if let Ok(aligned) = <&[u8; ALIGNED_TIMESTAMPS_LEN]>::try_from(bytes)
            && be32::<0, _>(aligned) == u32::from_be_bytes([NOP, NOP, TIMESTAMPS, 10])
        {
            return Self::with_timestamps(be32::<4, _>(aligned), be32::<8, _>(aligned));
        }
        if let Ok(syn) = <&[u8; LINUX_SYN_LEN]>::try_from(bytes)
            && let Some(options) = Self::parse_syn(syn)
        {
            return options;
        }
        if bytes.is_empty() {
            Self::NONE
        } else {
            Self::parse_any(bytes)
        }
    }

    /// The options of a SYN as Linux and we lay them out; `None` for any other layout.
    #[inline]
    fn parse_syn(bytes: &[u8; LINUX_SYN_LEN]) -> Option<Self> {
        let (mss, scale) = (be32::<0, _>(bytes), be32::<16, _>(bytes));
        let usual = mss >> 16 == u32::from(MSS) << 8 | 4
            && be32::<4, _>(bytes) == u32::from_be_bytes([SACK_PERMITTED, 2, TIMESTAMPS, 10])
            && scale >> 8 == u32::from_be_bytes([0, NOP, WINDOW_SCALE, 3]);
        usual.then(|| Self {
            mss: Some(mss as u16),
            sack_permitted: true,
            window_scale: Some((scale as u8).min(WINDOW_SHIFT_MAX)),
            ..Self::with_timestamps(be32::<8, _>(bytes), be32::<12, _>(bytes))
        })
    }

    fn parse_any(bytes: &[u8]) -> Self {
        let mut found = Self::NONE;
        for option in RawOptions::new(bytes) {
            found.malformed |= !option.is_ok_and(|option| found.take(option));
        }
        found
    }

    /// Takes one option over; false when its length is wrong.
    fn take(&mut self, option: RawOption<'_>) -> bool {
        match (option.kind, option.data) {
            (MSS, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(WINDOW_SHIFT_MAX)),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (SACK, data) => return self.take_sack(data),
            (TIMESTAMPS, data) => match <&[u8; 8]>::try_from(data) {
                Err(_) => return false,
                Ok(data) => {
                    let (value, echo) = (be32::<0, _>(data), be32::<4, _>(data));
                    self.timestamps = Some(Timestamps { value, echo });
                }
            },
            (FAST_OPEN, data) => match FastOpenCookie::new(data) {
                None => return false,
                Some(cookie) => self.fast_open = Some(cookie),
            },
            (MSS | WINDOW_SCALE | SACK_PERMITTED, _) => return false,
            // RFC 9293 §3.1, MUST-6: others are ignored.
            _ => {}
        }
        true
    }

    fn take_sack(&mut self, data: &[u8]) -> bool {
        let (blocks, rest) = data.as_chunks::<8>();
        let mut sack = SackBlocks::NONE;
        let fit = blocks
            .iter()
            .all(|b| sack.push(SeqNumber(be32::<0, _>(b)), SeqNumber(be32::<4, _>(b))));
        let good = fit && rest.is_empty() && !sack.is_empty();
        if good {
            self.sack = sack;
        }
        good
    }

    /// Writes the options, padded to whole words, and returns how many bytes that took.
    ///
    /// Order and alignment are those of Linux, which every middlebox has seen: no-operations before
    /// an option as RFC 7323 appendix A and RFC 2018 §3 show, and SACK-permitted in the place of
    /// those before timestamps.
    ///
    /// # Panics
    /// When they take more than `out` or more than 40 bytes.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let len = options_len(self);
        assert!(
            len <= TCP_OPTIONS_LEN_MAX,
            "{len} bytes of TCP options do not fit: {self:?}"
        );
        let rest = self.emit_timestamps(self.emit_mss(out));
        // Of the segments that are neither SYN nor report a loss, this is all.
        if len > ALIGNED_TIMESTAMPS_LEN || self.timestamps.is_none() {
            self.emit_others(rest);
        }
        len
    }

    /// The sum of `written`, which [`Self::emit`] wrote. The frequent case is made of the values:
    /// reading back in wider words what was just written would wait for the writes.
    #[inline]
    pub(crate) fn sum(&self, written: &[u8]) -> Sum {
        match self.timestamps {
            Some(Timestamps { value, echo }) if written.len() == ALIGNED_TIMESTAMPS_LEN => {
                let lead = u32::from_be_bytes(self.timestamps_lead());
                Sum::from_wide(u64::from(lead) + u64::from(value) + u64::from(echo))
            }
            _ => Sum::of(written),
        }
    }

    #[inline]
    const fn timestamps_lead(&self) -> [u8; 4] {
        let [a, b] = if self.sack_permitted {
            [SACK_PERMITTED, 2]
        } else {
            [NOP, NOP]
        };
        [a, b, TIMESTAMPS, 10]
    }

    #[inline]
    fn emit_mss<'o>(&self, out: &'o mut [u8]) -> &'o mut [u8] {
        let Some(mss) = self.mss else { return out };
        let (option, rest) = head_mut::<4>(out, "tcp mss");
        let [a, b] = mss.to_be_bytes();
        *option = [MSS, 4, a, b];
        rest
    }

    #[inline]
    fn emit_timestamps<'o>(&self, out: &'o mut [u8]) -> &'o mut [u8] {
        let Some(Timestamps { value, echo }) = self.timestamps else {
            return out;
        };
        let (option, rest) = head_mut::<ALIGNED_TIMESTAMPS_LEN>(out, "tcp timestamps");
        let lead = if self.sack_permitted {
            [SACK_PERMITTED, 2]
        } else {
            [NOP, NOP]
        };
        put::<0, 2, _>(option, lead);
        put::<2, 2, _>(option, [TIMESTAMPS, 10]);
        put32::<4, _>(option, value);
        put32::<8, _>(option, echo);
        rest
    }

    fn emit_others(&self, mut out: &mut [u8]) {
        let mut word = |bytes: [u8; 4]| {
            let (option, rest) = head_mut::<4>(std::mem::take(&mut out), "tcp options");
            *option = bytes;
            out = rest;
        };
        if self.sack_permitted && self.timestamps.is_none() {
            word([NOP, NOP, SACK_PERMITTED, 2]);
        }
        if let Some(shift) = self.window_scale {
            word([NOP, WINDOW_SCALE, 3, shift]);
        }
        if !self.sack.is_empty() {
            word([NOP, NOP, SACK, 2 + 8 * self.sack.len]);
        }
        for (left, right) in self.sack.iter() {
            word(left.0.to_be_bytes());
            word(right.0.to_be_bytes());
        }
        if let Some(cookie) = self.fast_open {
            emit_fast_open(&cookie, out);
        }
    }
}

/// The only option whose length is not a multiple of four with its no-operations: it comes last,
/// and the list ends behind it.
fn emit_fast_open(cookie: &FastOpenCookie, out: &mut [u8]) {
    let (start, rest) = head_mut::<2>(out, "tcp fast open");
    *start = [FAST_OPEN, 2 + cookie.len];
    let len = usize::from(cookie.len);
    let (data, padding) = rest[..fast_open_len(cookie) - 2].split_at_mut(len);
    data.copy_from_slice(cookie.as_slice());
    padding.fill(END);
}

const fn fast_open_len(cookie: &FastOpenCookie) -> usize {
    (2 + cookie.len as usize).next_multiple_of(4)
}

/// Bytes that [`TcpOptions::emit`] writes: a multiple of four. More than 40 cannot be sent: three
/// SACK blocks at most fit beside timestamps, and a cookie of 16 bytes does not fit into a SYN with
/// everything else.
#[inline]
#[must_use]
pub const fn options_len(options: &TcpOptions) -> usize {
    let mut len = 0;
    if options.timestamps.is_some() {
        len += ALIGNED_TIMESTAMPS_LEN;
    }
    if options.sack_permitted && options.timestamps.is_none() {
        len += 4;
    }
    if options.mss.is_some() {
        len += 4;
    }
    if options.window_scale.is_some() {
        len += 4;
    }
    if !options.sack.is_empty() {
        len += 4 + 8 * options.sack.len();
    }
    if let Some(cookie) = &options.fast_open {
        len += fast_open_len(cookie);
    }
    len
}

/// One option as it stands, other than padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawOption<'a> {
    /// The option's kind.
    pub kind: u8,
    /// What follows kind and length.
    pub data: &'a [u8],
}

/// The options of a segment as they stand. Ends after the first that cannot be read.
#[derive(Clone, Debug)]
pub struct RawOptions<'a> {
    rest: &'a [u8],
}

impl<'a> RawOptions<'a> {
    /// Reads the bytes between a fixed header and its payload.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

/// A kind whose length is impossible or beyond the header's end (RFC 9293 §3.1, MUST-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOption {
    /// The option's kind.
    pub kind: u8,
}

impl<'a> Iterator for RawOptions<'a> {
    type Item = Result<RawOption<'a>, BadOption>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = std::mem::take(&mut self.rest);
        while let [NOP, after @ ..] = rest {
            rest = after;
        }
        let (kind, length, after) = match *rest {
            [] | [END, ..] => return None,
            [kind] => return Some(Err(BadOption { kind })),
            [kind, length, ref after @ ..] => (kind, length, after),
        };
        let data_len = usize::from(length).checked_sub(2);
        match data_len.and_then(|len| after.split_at_checked(len)) {
            None => Some(Err(BadOption { kind })),
            Some((data, after)) => {
                self.rest = after;
                Some(Ok(RawOption { kind, data }))
            }
        }
    }
}
