//! Receiving through [pipes](crate::pipes): what is to be done to each byte is done in the pass that copies the bytes from where they came
//! into the program's memory.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use exos_pipes::{Loop, PipeError, State};

use super::datagrams::UdpSocket;
use super::stream::TcpStream;

impl TcpStream {
    /// As `read`, through pipes: `state` is the stream's, from its beginning on. Only whole words of the list's largest gauge are taken,
    /// except at the stream's end; what has come of the next word waits for the rest of it, although the stream is readable.
    ///
    /// # Errors
    ///
    /// As `read`; `InvalidInput` for memory without room for such a word, or a state of another list; `InvalidData` for a stream that ends
    /// within a word that is to be turned round.
    pub fn read_through(
        &self,
        pipes: &Loop,
        state: &mut State,
        into: &mut [u8],
    ) -> io::Result<usize> {
        let word = pipes.list().widest();
        if (1..word).contains(&into.len()) {
            let why = format!("these pipes want room for {word} bytes at least");
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        self.read_least(word, |bytes| {
            let count = match bytes.len().min(into.len()) {
                rest if rest < word => rest,
                count => count - count % word,
            };
            match pipes.copy(&bytes[..count], &mut into[..count], state) {
                Ok(()) => (count, Ok(count)),
                Err(error) => (0, Err(refused(error))),
            }
        })?
    }
}

impl UdpSocket {
    /// As [`recv_from`](Self::recv_from), through pipes: `state` is that of a message of one or several datagrams, in the order in which
    /// they come.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive); `InvalidInput` for a state of another list; `InvalidData` for a datagram that ends within a word that
    /// is to be turned round, or comes behind one that ended within a word. The datagram is dropped then.
    pub fn recv_through(
        &self,
        pipes: &Loop,
        state: &mut State,
        into: &mut [u8],
    ) -> io::Result<(usize, SocketAddr)> {
        let datagram = self.receive()?;
        let count = datagram.payload.len().min(into.len());
        let passed = pipes.copy(&datagram.payload[..count], &mut into[..count], state);
        passed.map_err(refused)?;
        Ok((count, datagram.from))
    }
}

/// What pipes say of the program's mistakes, and of the sender's.
fn refused(error: PipeError) -> io::Error {
    let kind = match error {
        PipeError::PartialWord { .. } | PipeError::Ended => ErrorKind::InvalidData,
        _ => ErrorKind::InvalidInput,
    };
    io::Error::new(kind, error)
}
