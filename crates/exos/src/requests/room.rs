//! Room for connections, which the kernel's part and the stack have together ([`layout::ROOM`]).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use exos_filter::handler::web::layout;
use exos_inet::tcp::SharedRoom;

use super::memory::Memory;

/// In the memory that both have.
#[derive(Debug)]
pub(super) struct Room(Arc<Memory>);

impl Room {
    /// For a stack that has so many connections: these have it, also where that is more than there is.
    pub(super) fn new(memory: Arc<Memory>, open: usize) -> Self {
        memory.word(layout::ROOM).fetch_sub(open as u64, Relaxed);
        Self(memory)
    }
}

impl SharedRoom for Room {
    fn take(&self) -> bool {
        let one = |room: u64| (room as i64 > 0).then(|| room - 1);
        let word = self.0.word(layout::ROOM);
        word.fetch_update(Relaxed, Relaxed, one).is_ok()
    }

    fn give_back(&self, count: usize) {
        self.0.word(layout::ROOM).fetch_add(count as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the kernel's part has taken more than there was, for a moment, there is none.
    #[test]
    fn the_last_is_had_once() {
        let words = (0..=layout::ROOM / 8).map(|_| 0.into());
        let memory = Arc::new(Memory::Plain(words.collect()));
        memory.set(layout::ROOM, 3);
        let room = Room::new(memory, 1);
        assert_eq!([(); 3].map(|()| room.take()), [true, true, false]);
        room.give_back(1);
        room.0.word(layout::ROOM).fetch_sub(2, Relaxed);
        assert!(!room.take());
        room.give_back(2);
        assert!(room.take());
    }
}
