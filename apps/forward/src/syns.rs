//! SYNs that no server has answered yet: kept as they came, so that another server can be asked without waiting for the client.
//!
//! A flow's SYN has the place in here that follows from the flow's own; another flow may take it. So memory is bounded whatever
//! comes, nothing is searched, and nothing has to be removed: under a flood a flow may find its SYN gone, and its client sends it
//! again.

use exos_inet::Instant;

use crate::flow::{FlowId, Key};
use crate::limits::{SYN_LEN_MAX, SYNS_MAX};
use crate::packets::rewrite::Sums;

/// A SYN as it came.
#[derive(Clone, Debug)]
pub struct Syn {
    /// When it came.
    pub at: Instant,
    /// What is known of its checksum.
    pub sums: Sums,
    /// What a refusal of it acknowledges at least.
    pub next: u32,
    id: FlowId,
    key: Key,
    len: usize,
}

/// Those that are kept. All memory is taken with the first.
#[derive(Debug, Default)]
pub struct Syns {
    kept: Vec<Option<Syn>>,
    /// Their frames, [`SYN_LEN_MAX`] bytes for each.
    frames: Vec<u8>,
}

impl Syns {
    /// Keeps a flow's SYN in the place of the one before, and of another flow's. One that is too long is not kept.
    pub fn keep(
        &mut self,
        now: Instant,
        (id, key): (FlowId, Key),
        (frame, next): (&[u8], u32),
        sums: Sums,
    ) {
        if frame.len() > SYN_LEN_MAX {
            return;
        }
        if self.kept.is_empty() {
            self.kept.resize_with(SYNS_MAX, || None);
            self.frames = vec![0; SYNS_MAX * SYN_LEN_MAX];
        }
        self.kept[slot(id)] = Some(Syn {
            at: now,
            sums,
            next,
            id,
            key,
            len: frame.len(),
        });
        let begin = slot(id) * SYN_LEN_MAX;
        self.frames[begin..begin + frame.len()].copy_from_slice(frame);
    }

    /// A flow's SYN, if it is still there.
    pub fn get(&self, id: FlowId, key: &Key) -> Option<&Syn> {
        let syn = self.kept.get(slot(id))?.as_ref()?;
        (syn.id == id && syn.key == *key).then_some(syn)
    }

    /// It is answered.
    pub fn forget(&mut self, id: FlowId, key: &Key) {
        if self.get(id, key).is_some() {
            self.kept[slot(id)] = None;
        }
    }

    /// Takes it out, with a copy of its frame.
    pub fn take(&mut self, id: FlowId, key: &Key) -> Option<(Syn, Vec<u8>)> {
        self.get(id, key)?;
        let syn = self.kept[slot(id)].take()?;
        let begin = slot(id) * SYN_LEN_MAX;
        let frame = self.frames[begin..begin + syn.len].to_vec();
        Some((syn, frame))
    }
}

/// Where a flow's SYN is kept.
fn slot(id: FlowId) -> usize {
    id.place() % SYNS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    /// Each flow finds its own SYN or none, and what is kept is bounded.
    #[test]
    fn a_flow_finds_its_own_or_none() {
        let mut syns = Syns::default();
        let flow = |place: usize| {
            let client: SocketAddr = ([10, 0, 0, 1], place as u16).into();
            let client = client.into();
            (
                FlowId(place as u32),
                Key {
                    client,
                    listener: 0,
                },
            )
        };
        let now = Instant::from_millis(7);
        let all = 2 * SYNS_MAX;
        for place in 0..all {
            syns.keep(now, flow(place), (&[place as u8; 60], 1), Sums::Complete);
        }
        for place in 0..all {
            let (id, key) = flow(place);
            let found = syns.get(id, &key).is_some();
            assert_eq!(found, place >= SYNS_MAX);
        }
        // The flow's place has gone to another client.
        let ((id, _), (_, other)) = (flow(all - 1), flow(0));
        assert!(syns.get(id, &other).is_none());
        let (id, key) = flow(all - 1);
        let (_, frame) = syns.take(id, &key).unwrap();
        assert_eq!(frame, [(all - 1) as u8; 60]);
        assert!(syns.take(id, &key).is_none());
        syns.keep(now, (id, key), (&[0; SYN_LEN_MAX + 1], 1), Sums::Complete);
        assert!(syns.get(id, &key).is_none());
        // Only the flow's own is answered.
        syns.keep(now, (id, key), (&[0; 60], 1), Sums::Complete);
        syns.forget(id, &other);
        assert!(syns.get(id, &key).is_some());
        syns.forget(id, &key);
        assert!(syns.get(id, &key).is_none());
    }
}
