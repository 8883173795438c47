//! What is wrong with a list of pipes, or with a message for it.

use std::fmt;

/// Why pipes cannot be put together, or not be used as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipeError {
    /// There are more than a list may have.
    TooMany(usize),
    /// The operand of the pipe at this place is wider than its words.
    WideOperand(usize),
    /// The message's length is no multiple of the bytes of a word which the pipe at this place turns round.
    PartialWord {
        /// The place in the list.
        pipe: usize,
        /// The message's bytes.
        length: usize,
    },
    /// The destination has another length than the message.
    Lengths(usize, usize),
    /// The part before ended within a word of the list's largest gauge; nothing can follow.
    Ended,
    /// The words of the pipe at this place must come in their order, so parts cannot be joined afterwards.
    InOrder(usize),
    /// These registers, or this state, are of another list.
    OtherList,
    /// No memory for the machine code; the number of the system's error.
    Memory(i32),
}

impl fmt::Display for PipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(count) => write!(
                f,
                "{count} pipes are too many for one loop: {} at most; use two lists",
                crate::passes::PIPES_MAX
            ),
            Self::WideOperand(pipe) => {
                write!(f, "pipe {pipe}: its operand is wider than its words")
            }
            Self::PartialWord { pipe, length } => write!(
                f,
                "pipe {pipe} turns words round, and {length} bytes are no whole number of them"
            ),
            Self::Lengths(from, to) => {
                write!(f, "{from} bytes do not fill a destination of {to}")
            }
            Self::Ended => write!(
                f,
                "the part before ended within a word: only the last part of a message may"
            ),
            Self::InOrder(pipe) => write!(
                f,
                "pipe {pipe} needs the words in their order: pass the parts one after the other with one state"
            ),
            Self::OtherList => write!(f, "the registers are of another list of pipes"),
            Self::Memory(number) => {
                let error = std::io::Error::from_raw_os_error(*number);
                write!(f, "no memory for the machine code of the pipes: {error}")
            }
        }
    }
}

impl std::error::Error for PipeError {}
