//! What the first core hands to the others: by what they load, an interface's queue or the kernel's sockets.

use std::sync::mpsc::Sender;

use exos::Core;

/// By what a core loads.
pub(super) enum Carrier {
    /// A queue of the interface.
    Queue(Box<Core>),
    /// The kernel's sockets.
    Sockets,
}

/// The cores but the first, which wait for that by which they load. When this is dropped, those that have not got it end.
pub(super) struct Others(pub(super) Vec<Sender<Carrier>>);

impl Others {
    /// There is one core.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// Gives them queues.
    pub(super) fn start(self, queues: Vec<Core>) {
        for (other, queue) in self.0.iter().zip(queues) {
            // A thread that is not there any more says so elsewhere.
            let _ = other.send(Carrier::Queue(Box::new(queue)));
        }
    }

    /// Has them load over sockets.
    pub(super) fn start_on_sockets(self) {
        for other in self.0 {
            let _ = other.send(Carrier::Sockets);
        }
    }
}
