//! `--replace`: asking the daemon that is running to go without taking anything down.

use std::path::Path;
use std::time::{Duration, Instant};

use exos_host::Error;
use exos_host::error::{Context as _, Result};
use exos_xok::Request;
use exos_xok::limits::MESSAGE_BYTES_MAX;
use exos_xok::message::{Answer, FromDaemon};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

/// How long the other one may take: it finishes its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks, and waits until it has gone. Nothing to do when nobody answers there.
pub(super) fn ask(path: &Path) -> Result<()> {
    let what = || format!("cannot ask the daemon at {} to go", path.display());
    let address = SocketAddrUnix::new(path).context(what)?;
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).context(what)?;
    if rustix::net::connect(&socket, &address).is_err() {
        return Ok(());
    }
    let timeout = Some(PATIENCE);
    let which = rustix::net::sockopt::Timeout::Recv;
    rustix::net::sockopt::set_socket_timeout(&socket, which, timeout).context(what)?;
    let request = Request::StepAside.encode(1);
    rustix::net::send(&socket, &request, SendFlags::NOSIGNAL).context(what)?;
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    let (len, _) = rustix::net::recv(&socket, &mut *buffer, RecvFlags::empty()).context(what)?;
    match FromDaemon::decode(&buffer[..len]) {
        Ok(FromDaemon::Answer(1, Answer::Done)) => {}
        Ok(FromDaemon::Answer(_, Answer::Refused { text, .. })) => {
            return Err(Error::new(format!("{}: {text}", what())));
        }
        _ => {
            return Err(
                Error::new(what()).mend("it is of another version: stop it, and start this one")
            );
        }
    }
    // It closes our connection when it goes, after its socket.
    let until = Instant::now() + PATIENCE;
    while rustix::net::recv(&socket, &mut *buffer, RecvFlags::empty()).is_ok_and(|(n, _)| n > 0) {
        if Instant::now() > until {
            return Err(Error::new(what()).mend("stop it by hand"));
        }
    }
    Ok(())
}
