//! Slots in the order in which they began what they are at, for deadlines that are all equally far: the first is due
//! first. A doubly linked list by numbers, so that any may leave, at no cost that grows.

/// Nobody.
const NONE: u32 = u32::MAX;

/// A slot's place in the list that it is in.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    before: u32,
    after: u32,
}

impl Default for Links {
    fn default() -> Self {
        let (before, after) = (NONE, NONE);
        Self { before, after }
    }
}

/// What has links.
pub trait Linked {
    /// Them.
    fn links(&mut self) -> &mut Links;
}

/// A list.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    first: u32,
    last: u32,
}

impl Default for Order {
    fn default() -> Self {
        let (first, last) = (NONE, NONE);
        Self { first, last }
    }
}

impl Order {
    /// Who has been in it longest.
    pub fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// This slot, which is in no list, is the last now.
    pub fn push<T: Linked>(&mut self, slots: &mut [T], slot: u32) {
        let before = std::mem::replace(&mut self.last, slot);
        *slots[slot as usize].links() = Links {
            before,
            after: NONE,
        };
        match before {
            NONE => self.first = slot,
            before => slots[before as usize].links().after = slot,
        }
    }

    /// This slot, which is in this list, leaves it.
    pub fn remove<T: Linked>(&mut self, slots: &mut [T], slot: u32) {
        let Links { before, after } = std::mem::take(slots[slot as usize].links());
        match before {
            NONE => self.first = after,
            before => slots[before as usize].links().after = after,
        }
        match after {
            NONE => self.last = before,
            after => slots[after as usize].links().before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_testing::Random;

    impl Linked for Links {
        fn links(&mut self) -> &mut Links {
            self
        }
    }

    #[test]
    fn is_a_queue_that_any_may_leave() {
        let mut random = Random(1);
        let mut slots = [Links::default(); 20];
        let mut order = Order::default();
        let mut model: Vec<u32> = Vec::new();
        for _ in 0..10_000 {
            let slot = random.below(20) as u32;
            if let Some(at) = model.iter().position(|&s| s == slot) {
                model.remove(at);
                order.remove(&mut slots, slot);
            } else {
                model.push(slot);
                order.push(&mut slots, slot);
            }
            assert_eq!(order.first(), model.first().copied());
        }
        while let Some(first) = order.first() {
            assert_eq!(first, model.remove(0));
            order.remove(&mut slots, first);
        }
        assert!(model.is_empty());
    }
}
