//! The frames, and what each says.
//!
//! ```text
//!  Ethernet (14) | is an answer (1) | answers (2) | answer length (2) | number of the question (4) | padding
//! ```

use crate::stage::link::EXPERIMENT;
use crate::stage::xdp;
use exos_filter::Program;
use exos_filter::ebpf::{Emit as _, Size};
use exos_filter::handler::arithmetic::expect_half;
use exos_wire::ethernet;
use serde::{Deserialize, Serialize};

pub(super) const FRAME_LEN_MAX: usize = 1514;
pub(super) const FRAME_LEN_MIN: usize = 60;

/// One question, the frames that answer it, and the acknowledgements among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    pub ask_len: usize,
    pub answers: u16,
    pub answer_len: usize,
    /// A short frame goes back after this many answers; 0: none.
    pub note_every: u16,
}

impl Round {
    /// A frame there, and one of the same length back.
    pub const fn of_equals(len: usize) -> Self {
        Self {
            ask_len: len,
            answers: 1,
            answer_len: len,
            note_every: 0,
        }
    }

    /// Frames have lengths that a wire carries, and there is an answer.
    pub fn is_possible(&self) -> bool {
        let lengths = FRAME_LEN_MIN..=FRAME_LEN_MAX;
        let all = [self.ask_len, self.answer_len];
        all.iter().all(|len| lengths.contains(len)) && self.answers > 0
    }
}

/// The part of a frame after Ethernet that means something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub is_answer: bool,
    /// How many frames answer it; of an acknowledgement, which nobody answers, none.
    pub answers: u16,
    pub answer_len: u16,
    pub number: u32,
}

impl Header {
    pub const LEN: usize = 9;

    pub fn read(frame: &[u8]) -> Option<Self> {
        let bytes = frame.get(ethernet::LEN..)?.first_chunk::<{ Self::LEN }>()?;
        Some(Self {
            is_answer: bytes[0] != 0,
            answers: u16::from_be_bytes([bytes[1], bytes[2]]),
            answer_len: u16::from_be_bytes([bytes[3], bytes[4]]),
            number: u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]),
        })
    }

    /// Something that can be answered.
    pub fn is_question(&self) -> bool {
        let lengths = FRAME_LEN_MIN..=FRAME_LEN_MAX;
        !self.is_answer && self.answers > 0 && lengths.contains(&self.answer_len.into())
    }

    pub fn write(&self, bytes: &mut [u8]) {
        bytes[0] = self.is_answer.into();
        bytes[1..3].copy_from_slice(&self.answers.to_be_bytes());
        bytes[3..5].copy_from_slice(&self.answer_len.to_be_bytes());
        bytes[5..Self::LEN].copy_from_slice(&self.number.to_be_bytes());
    }
}

/// A program of XDP that sends each question back as its answer, and passes everything else.
pub(super) fn reflector() -> Program {
    xdp::answering(ethernet::LEN + Header::LEN, |asm, frame, pass| {
        expect_half(asm, frame, 12, EXPERIMENT, pass);
        xdp::turn_around(asm, frame);
        asm.store_imm(Size::Byte, frame, ethernet::LEN as i16, 1);
    })
}
