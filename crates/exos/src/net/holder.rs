//! What the clones of a [`Net`](super::Net) have in common: the stack, until the last of them has gone or has it taken out.

use std::cell::{RefCell, RefMut};

use super::inner::Inner;
use crate::clock;
use crate::node::Exos;

pub(super) struct Holder(RefCell<Option<Inner>>);

impl Holder {
    pub fn new(inner: Inner) -> Self {
        Self(RefCell::new(Some(inner)))
    }

    pub fn borrow(&self) -> RefMut<'_, Inner> {
        RefMut::map(self.0.borrow_mut(), |inner| {
            inner.as_mut().expect("it is taken with the holder")
        })
    }

    /// The stack for itself. What connections are left are reset, and nobody hears of them.
    pub fn into_exos(self) -> Exos {
        let inner = self.0.take().expect("it is taken with the holder");
        let mut exos = inner.exos;
        let tcp = &mut exos.stack.tcp;
        for id in tcp.connections_where(|_| true) {
            tcp.abort(id);
        }
        while exos.stack.poll_event().is_some() {}
        exos
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Some(inner) = self.0.get_mut() {
            // Without an interface nothing more can be delivered.
            let linger = inner.linger;
            let _ = inner.deliver(clock::now() + linger);
            inner.exos.leave();
        }
    }
}
