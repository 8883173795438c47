//! What happens to an application's requests.

/// A request, among all that an application has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId {
    pub(super) link: u64,
    pub(super) key: Key,
}

/// A request, among those of a link. A server's number stands for another request some time after one was left; with the link's own count of
/// requests it does not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    /// The server's.
    pub number: u32,
    /// How many requests came before.
    pub serial: u32,
}

impl RequestId {
    /// Its numbers: of its link, and two on that.
    pub fn to_parts(self) -> (u64, u32, u32) {
        (self.link, self.key.number, self.key.serial)
    }

    /// The request with these numbers. If there is none, it is one that was left.
    pub fn from_parts((link, number, serial): (u64, u32, u32)) -> Self {
        let key = Key { number, serial };
        Self { link, key }
    }
}

/// What happens to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// It has come.
    Request(RequestId),
    /// More of its body has.
    Body(RequestId),
    /// All of its content that there was has gone, and its answer has not ended: there is room for more. Or buffers are free again that it
    /// was said to [wait](super::Application::await_buffers) for.
    Room(RequestId),
    /// Nobody wants its answer any more, or it was refused, as all requests hold more memory than they may. It is told once at most, also of one
    /// whose answer has ended and has not gone.
    Left(RequestId),
}
