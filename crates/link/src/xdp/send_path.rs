//! The paths by which frames can leave, and what a person says of them.

/// How frames leave an interface that copies them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransmitChoice {
    /// Few at once by the transmit ring, many by what has cost less lately: the ring, or a system call that sends a batch.
    #[default]
    Cheaper,
    /// By the ring.
    Ring,
    /// In batches, where that is to be had, even a lone frame: by a program that the kernel runs for each of them, ours in
    /// live frame mode ([`exos_filter::transmit`]), or, on a link that is lent, the daemon's
    /// ([`exos_filter::gate::batch`]).
    Batches,
    /// As live frames, where they are to be had, even a lone frame; on a link that is lent by the daemon's program for them
    /// ([`exos_filter::gate::live`]).
    LiveFrames,
}

/// A path for a batch to leave by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendPath {
    /// Descriptors in the transmit ring.
    Ring,
    /// A call of the daemon's program, on socket buffers ([`super::checked`]).
    Batch,
    /// A call that sends live frames ([`super::live`]).
    Live,
}
