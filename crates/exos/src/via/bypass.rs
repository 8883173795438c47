//! The ways past the link's virtual interface that a daemon lends: to send many frames at once, and to receive into memory.

use exos_link::{CheckedParts, LiveParts, TransmitChoice, XdpLink};
use exos_xok::message::{Answer, Request};

use super::control::{AskError, Control, bad};
use exos_host::Error;

/// Asks for them, and does without when the daemon has none: all frames can take the interface.
pub(super) fn ask(control: &mut Control, link: &mut XdpLink) -> Result<(), Error> {
    let (answer, fds) = match control.ask(&Request::Bypass) {
        Ok(answered) => answered,
        Err(AskError::Refused(..)) => return Ok(()),
        Err(failed) => return Err(failed.into()),
    };
    let Answer::Bypass {
        places,
        interface,
        live: metadata,
    } = answer
    else {
        return Err(bad("no ways past the interface"));
    };
    let mut fds = fds.into_iter();
    let [program, frames, queue, again] = std::array::from_fn(|_| fds.next());
    let (Some(program), Some(frames), Some(queue), Some(again)) = (program, frames, queue, again)
    else {
        return Err(bad("ways past the interface without their parts"));
    };
    let mut live = None;
    if !metadata.is_empty() {
        let (Some(program), Some(dropped)) = (fds.next(), fds.next()) else {
            return Err(bad("live frames without their parts"));
        };
        live = Some(LiveParts {
            program,
            metadata,
            dropped,
        });
    }
    let arrivals = fds.next();
    let parts = CheckedParts {
        program,
        frames,
        queue,
        again,
        places,
        interface,
        live,
    };
    // Memory that cannot be mapped is not missed: the ring needs none of it.
    let _ = link.send_checked(parts, TransmitChoice::Cheaper);
    if let Some(arrivals) = arrivals {
        let _ = link.receive_past_interface(&arrivals);
    }
    Ok(())
}
