//! The way to send many frames at once that a daemon lends beside the link.

use exos_link::{CheckedParts, TransmitChoice, XdpLink};
use exos_xok::message::{Answer, Request};

use super::control::{AskError, Control, bad};
use exos_host::Error;

/// Asks for it, and does without when the daemon has none: the link's ring sends everything too.
pub(super) fn ask(control: &mut Control, link: &mut XdpLink) -> Result<(), Error> {
    let (answer, fds) = match control.ask(&Request::Batch) {
        Ok(answered) => answered,
        Err(AskError::Refused(..)) => return Ok(()),
        Err(failed) => return Err(failed.into()),
    };
    let Answer::Batch { places, interface } = answer else {
        return Err(bad("no way to send many frames"));
    };
    let Ok([program, frames, queue, again]) = <[_; 4]>::try_from(fds) else {
        return Err(bad("a way to send many frames without its parts"));
    };
    let parts = CheckedParts {
        program,
        frames,
        queue,
        again,
        places,
        interface,
    };
    // Memory that cannot be mapped is not missed: the ring needs none of it.
    let _ = link.send_checked(parts, TransmitChoice::Cheaper);
    Ok(())
}
