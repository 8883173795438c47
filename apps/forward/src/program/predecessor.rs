//! The forwarder before us, which gives up its place when we are ready to take it.
//!
//! It is asked at its control socket, as late as can be: all that can be had before is there. It gives up the interface, then the file of
//! kept flows, then the sockets, and the end of our connection says that all of that has happened.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use exos::Error;
use exos_program::control;

use crate::limits::HAND_OVER_TIME;
use crate::program::control::{Kind, Request};

/// A forwarder that is alive.
pub struct Predecessor {
    stream: BufReader<UnixStream>,
}

impl Predecessor {
    /// The one that listens at this socket; `None` where nobody does.
    ///
    /// # Errors
    ///
    /// Its socket may not be opened.
    pub fn find(path: &Path) -> Result<Option<Self>, Error> {
        match UnixStream::connect(path) {
            Ok(stream) => Ok(Some(Self {
                stream: BufReader::new(stream),
            })),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => Ok(None),
                _ => Err(
                    Error::io(format!("cannot take over at {}", path.display()), error)
                        .mend("be the user of the forwarder that is there"),
                ),
            },
        }
    }

    /// Has it give up all that it has. One that dies meanwhile has done so too.
    ///
    /// # Errors
    ///
    /// It does not.
    pub fn hand_over(mut self) -> Result<(), Error> {
        let said = match self.ask() {
            Ok(said) => said,
            Err(error) if is_end(error.kind()) => return Ok(()),
            Err(error) => {
                return Err(Error::io("the forwarder that is there does not end", error)
                    .mend("end it, and start this one without --take-over"));
            }
        };
        match control::answer(&said)? {
            Ok(_) => Ok(()),
            Err(error) => Err(error
                .mend("end the forwarder that is there, and start this one without --take-over")),
        }
    }

    /// Its answer, and then the end.
    fn ask(&mut self) -> std::io::Result<String> {
        let stream = self.stream.get_mut();
        stream.set_read_timeout(Some(HAND_OVER_TIME))?;
        stream.set_write_timeout(Some(HAND_OVER_TIME))?;
        let request = serde_json::to_string(&Request::of(Kind::HandOver))?;
        stream.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let is_refused = !matches!(control::answer(&line), Ok(Ok(_)));
        if !is_refused {
            match self.stream.read(&mut [0]) {
                Err(error) if !is_end(error.kind()) => return Err(error),
                _ => {}
            }
        }
        Ok(line)
    }
}

/// How a connection ends whose other end is gone.
fn is_end(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}
