//! How handlers end.

/// How a handler ends: which program of the gate it goes on in, by its place in the map `outcomes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Outcome {
    /// The message is the program's, as it came.
    GaveUp = 0,
    /// The message was dealt with.
    Done = 1,
    /// So it was, and the frame is the reply, which leaves by `XDP_TX`.
    Transmitted = 2,
    /// Likewise, by a redirection to the device.
    Redirected = 3,
    /// It is the beginning of the reply: a program of the slot's own completes it in traffic control, and has it leave ([`ingress`](super::handling::ingress)).
    Announced = 4,
}

impl Outcome {
    /// All of them, in the order of their places.
    pub const ALL: [Self; OUTCOMES as usize] = [
        Self::GaveUp,
        Self::Done,
        Self::Transmitted,
        Self::Redirected,
        Self::Announced,
    ];
}

/// How many outcomes there are.
pub const OUTCOMES: u32 = 5;
