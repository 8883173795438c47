//! Of the orders under way one speaks with the authority at a time.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard};

use crate::acme::state::lock;

/// That an order may do something, which one may at a time.
pub(in crate::acme) struct Turn<'a> {
    turns: &'a Mutex<()>,
    held: Cell<Option<MutexGuard<'a, ()>>>,
}

impl<'a> Turn<'a> {
    /// Waits for it.
    pub(in crate::acme) fn of(turns: &'a Mutex<()>) -> Self {
        Self {
            turns,
            held: Cell::new(Some(lock(turns))),
        }
    }

    /// Waits for another program, while others may do something.
    pub(in crate::acme) fn aside<R>(&self, wait: impl FnOnce() -> R) -> R {
        drop(self.held.take());
        let waited = wait();
        self.held.set(Some(lock(self.turns)));
        waited
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// While one waits for its program, another does something; and none while one does.
    #[test]
    fn one_has_its_turn_while_another_waits() {
        let turns = Mutex::new(());
        let turn = Turn::of(&turns);
        assert!(turns.try_lock().is_err());
        std::thread::scope(|threads| {
            let (say, hear) = channel();
            let turns = &turns;
            let other = threads.spawn(move || {
                let _turn = Turn::of(turns);
                say.send(()).unwrap();
            });
            turn.aside(|| hear.recv().unwrap());
            other.join().unwrap();
        });
        assert!(turns.try_lock().is_err(), "it has it again");
        drop(turn);
        assert!(turns.try_lock().is_ok());
    }
}
