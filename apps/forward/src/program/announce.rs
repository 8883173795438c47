//! Says on standard output that a forwarder listens.

use crate::settings::written::ListenAddress;

/// Tells a person, and anyone who waits for it, that it runs.
pub(crate) fn announce(listen: &[ListenAddress]) {
    for place in listen {
        let transport = place.transport.name();
        exos_program::say!("{transport}:{}", place.at);
    }
}
