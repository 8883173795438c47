//! What happens to an application's requests.

/// A request, among all that an application has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId {
    pub(super) link: u64,
    pub(super) number: u32,
}

impl RequestId {
    /// Its numbers: of its link, and on that.
    pub fn to_parts(self) -> (u64, u32) {
        (self.link, self.number)
    }

    /// The request with these numbers. If there is none, it is one that was left.
    pub fn from_parts((link, number): (u64, u32)) -> Self {
        Self { link, number }
    }
}

/// What happens to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// It has come.
    Request(RequestId),
    /// More of its body has.
    Body(RequestId),
    /// All of its content that there was has gone, and its answer has not ended: there is room for more.
    Room(RequestId),
    /// Nobody wants its answer any more, or it was refused, as all requests hold more memory than they may.
    Left(RequestId),
}
