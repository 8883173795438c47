//! What the program does with a live connection.

use exos_buf::Buffer;
use exos_inet::tcp::{ConnectionId, DetachedConnection};

use super::{OUR_STREAM, REPORTS_MAX, SENT_MAX, Script, THEIR_STREAM, World, content};

impl World {
    pub(super) fn program(&mut self, script: &mut Script<'_>) {
        let Some(id) = self.id else { return };
        let (what, count) = (script.byte(), script.len());
        match what % 16 {
            0..=5 => self.send(id, count),
            6..=11 => {
                let ready = self.stack.tcp.readable(id).len();
                self.take(
                    id,
                    if what & 64 == 64 {
                        ready
                    } else {
                        ready.min(count)
                    },
                );
            }
            12 => self.stack.tcp.acknowledge_now(id),
            13 => self.stack.tcp.finish(id),
            14 if count % 4 == 0 => self.stack.tcp.abort(id),
            15 => self.move_on(id),
            _ => {}
        }
    }

    /// Out of the stack and in again, as bytes.
    pub(super) fn move_on(&mut self, id: ConnectionId) {
        let Some(taken) = self.stack.tcp.take_out(self.now, id) else {
            return;
        };
        let again = DetachedConnection::decode(&taken.encode()).expect("what a stack wrote");
        let put = self.stack.tcp.put_in(self.now, again);
        self.id = Some(put.expect("its place is free"));
        // It acknowledges, and tells again of what it holds beyond gaps.
        self.came += REPORTS_MAX;
    }

    pub(super) fn send(&mut self, id: ConnectionId, count: usize) {
        let count = count * 8;
        if self.sent + count > SENT_MAX {
            return;
        }
        let at = self.sent as u32;
        let bytes: Vec<u8> = (0..count as u32)
            .map(|n| content(OUR_STREAM, at + n))
            .collect();
        if self.stack.tcp.send(id, Buffer::from(bytes).into()) {
            self.sent += count;
        }
    }

    pub(super) fn take(&mut self, id: ConnectionId, count: usize) {
        for (n, &byte) in self.stack.tcp.readable(id)[..count].iter().enumerate() {
            let at = self.read.wrapping_add(n as u32);
            assert_eq!(
                byte,
                content(THEIR_STREAM, at),
                "byte {at} of the stream is wrong"
            );
        }
        self.stack.tcp.consume(id, count);
        self.read += count as u32;
    }
}
