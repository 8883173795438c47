//! All requests of a loop's connections, by the identities that the server knows them by, which no connection of TCP has.

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;
use quinn_proto::{ConnectionHandle, StreamId};

use super::request::Request;
use crate::limits::{QUIC_SPARE_REQUESTS_MAX, REQUEST_TIME};

/// Set in the slot of each: transports have fewer connections.
const MARK: u32 = 1 << 30;

/// Whether it is one of these.
#[inline]
pub(crate) fn is_request(id: ConnectionId) -> bool {
    id.slot() & (MARK | 1 << 31) == MARK
}

/// All of them.
#[derive(Default)]
pub(super) struct Requests {
    slots: Vec<Option<Box<Request>>>,
    free: Vec<u32>,
    /// Some that are over, for others to begin in their memory.
    #[expect(clippy::vec_box, reason = "it is the box that is kept")]
    spare: Vec<Box<Request>>,
    /// How many there have been.
    count: u32,
}

impl Requests {
    /// Adds one, on a stream of a connection.
    pub(super) fn add(
        &mut self,
        link: ConnectionHandle,
        stream: StreamId,
        begun: Instant,
    ) -> ConnectionId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.count = self.count.wrapping_add(1);
        let id = ConnectionId::from_bits(u64::from(self.count) << 32 | u64::from(slot | MARK));
        self.slots[slot as usize] = Some(match self.spare.pop() {
            None => Box::new(Request::new(id, link, stream, begun)),
            Some(mut request) => {
                request.begin_again(id, link, stream, begun);
                request
            }
        });
        id
    }

    pub(super) fn find(&self, id: ConnectionId) -> Option<&Request> {
        let request = self.slots.get(place(id))?.as_deref();
        request.filter(|request| request.id == id)
    }

    pub(super) fn find_mut(&mut self, id: ConnectionId) -> Option<&mut Request> {
        let request = self.slots.get_mut(place(id))?.as_deref_mut();
        request.filter(|request| request.id == id)
    }

    /// Whether its head ought to have come.
    pub(super) fn is_late(&self, id: ConnectionId, now: Instant) -> bool {
        let request = self.find(id);
        request.is_some_and(|it| !it.is_known && now >= it.begun + REQUEST_TIME)
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Box<Request>> {
        self.find(id)?;
        self.free.push(place(id) as u32);
        self.slots[place(id)].take()
    }

    /// One that was removed is not needed any more.
    pub(super) fn put_away(&mut self, mut request: Box<Request>) {
        if self.spare.len() < QUIC_SPARE_REQUESTS_MAX {
            request.clear();
            self.spare.push(request);
        }
    }
}

fn place(id: ConnectionId) -> usize {
    (id.slot() & !MARK) as usize
}

#[cfg(test)]
mod tests {
    use exos_buf::Buffer;
    use exos_http3::frame::{self, kind};
    use exos_http3::heads::Heads;
    use exos_http3::qpack::encoder::section;
    use quinn_proto::{Dir, Side};

    use super::*;

    /// A request in the memory of one that is over has nothing of it, whatever that had come to; nor is it found by its identity.
    #[test]
    fn one_begins_with_nothing_of_another() {
        let get = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", "/"),
        ];
        let mut bytes = Vec::new();
        frame::push(&mut bytes, kind::HEADERS, &section(&get));
        frame::push(&mut bytes, kind::DATA, &[b'x'; 3000]);
        let (mut requests, mut heads) = (Requests::default(), Heads::default());
        let mut before = None;
        for number in 0..2 * bytes.len() {
            let stream = StreamId::new(Side::Client, Dir::Bi, number as u64);
            let id = requests.add(ConnectionHandle(0), stream, Instant::from_millis(1));
            assert!(before.is_none_or(|before| requests.find(before).is_none()));
            before = Some(id);
            let request = requests.find_mut(id).unwrap();
            assert!(request.received().is_empty() && request.stream == stream);
            assert!(!request.is_known && !request.has_ended && request.unacknowledged() == 0);
            let (part, is_end) = (&bytes[..number.min(bytes.len())], number >= bytes.len());
            request.receive(part, is_end, &mut heads).unwrap();
            if is_end {
                let text = request.received();
                assert!(text.starts_with(b"GET / HTTP/1.1\r\nhost: a\r\n"));
                assert!(text.ends_with(b"x\r\n0\r\n\r\n") && request.is_known);
            }
            request.send_head(&bytes, 7);
            request.send(Buffer::from(vec![0; 1 + number]).whole());
            let request = requests.remove(id).unwrap();
            requests.put_away(request);
            assert_eq!((requests.slots.len(), requests.spare.len()), (1, 1));
        }
    }
}
