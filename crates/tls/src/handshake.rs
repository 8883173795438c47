//! The beginning of a session, by rustls, until both sides have finished and its keys are ours.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{CommonState, Error, ExtractedSecrets};
use rustls_pki_types::ServerName;

use crate::TlsError;
use crate::limits::{EXPANSION_12_MAX, HANDSHAKE_LEN_MAX, HEADER_LEN, PLAIN_LEN_MAX};
use crate::session::About;

/// What is left of rustls' connection: it makes the next keys, and takes a client's tickets.
pub(crate) enum Kernel {
    Server(KernelConnection<ServerConnectionData>),
    Client(KernelConnection<ClientConnectionData>),
}

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// A handshake under way.
pub(crate) struct Handshake {
    side: Side,
    /// What was received and rustls has not done with: it decrypts in place.
    incoming: Vec<u8>,
    /// Something was received.
    has_begun: bool,
}

/// A handshake that is over.
pub(crate) struct Done {
    pub(crate) secrets: ExtractedSecrets,
    pub(crate) kernel: Kernel,
    pub(crate) about: About,
}

/// What one step of rustls came to.
enum Step {
    Again,
    /// Nothing happens before more is received.
    Waits,
    /// Application data may go both ways.
    Stands,
}

/// Of a configuration whose sessions cannot come to stand here.
fn unfit() -> TlsError {
    let why = "a configuration needs enable_secret_extraction, and no early data";
    TlsError::Handshake(Error::General(why.to_owned()))
}

impl Handshake {
    pub(crate) fn server(config: Arc<rustls::ServerConfig>) -> Result<Handshake, TlsError> {
        // Early data would come before its keys are ours.
        if !config.enable_secret_extraction || config.max_early_data_size > 0 {
            return Err(unfit());
        }
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Handshake::of(Side::Server(connection)))
    }

    pub(crate) fn client(
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Handshake, TlsError> {
        if !config.enable_secret_extraction || config.enable_early_data {
            return Err(unfit());
        }
        let connection = UnbufferedClientConnection::new(config, name)?;
        Ok(Handshake::of(Side::Client(connection)))
    }

    fn of(side: Side) -> Handshake {
        Handshake {
            side,
            incoming: Vec::new(),
            has_begun: false,
        }
    }

    /// Takes whole records one by one, until it is over: those behind are not its own. Messages for the peer are appended to
    /// `out`. Gives how much it has taken, and whether it is over.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, bool), TlsError> {
        if matches!(self.side, Side::Server(_)) && !self.has_begun && !bytes.is_empty() {
            looks_like_tls(bytes)?;
        }
        // A client begins without anything received.
        if matches!(self.side, Side::Client(_)) && !self.has_begun {
            self.go_on(out)?;
        }
        self.has_begun |= !bytes.is_empty() || matches!(self.side, Side::Client(_));
        let mut taken = 0;
        while let Some(len) = unchecked_record_len(&bytes[taken..]) {
            if self.incoming.len() + len > HANDSHAKE_LEN_MAX {
                return Err(TlsError::TooLong);
            }
            self.incoming.extend_from_slice(&bytes[taken..taken + len]);
            taken += len;
            if self.go_on(out)? {
                return Ok((taken, true));
            }
        }
        Ok((taken, false))
    }

    /// Has rustls go on as far as it can; true when it is over.
    fn go_on(&mut self, out: &mut Vec<u8>) -> Result<bool, TlsError> {
        loop {
            let (discard, step) = self.side.step(&mut self.incoming, out);
            match step {
                Ok(Step::Again) => {}
                Ok(Step::Waits) => {
                    self.incoming.drain(..discard);
                    return Ok(false);
                }
                Ok(Step::Stands) => {
                    self.incoming.drain(..discard);
                    return Ok(!self.is_handshaking());
                }
                Err(error) => {
                    self.take_alerts(out);
                    return Err(error.into());
                }
            }
            self.incoming.drain(..discard);
        }
    }

    /// Takes what rustls has queued to tell the peer why it has failed. What was received it must not look at again.
    fn take_alerts(&mut self, out: &mut Vec<u8>) {
        while self.side.common().wants_write() {
            if self.side.step(&mut self.incoming, out).1.is_err() {
                return;
            }
        }
    }

    fn is_handshaking(&self) -> bool {
        self.side.common().is_handshaking()
    }

    /// Takes out what it has come to.
    pub(crate) fn finish(self) -> Result<Done, TlsError> {
        let about = About::of(self.side.common());
        let (secrets, kernel) = match self.side {
            Side::Server(connection) => {
                let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
                (secrets, Kernel::Server(kernel))
            }
            Side::Client(connection) => {
                let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
                (secrets, Kernel::Client(kernel))
            }
        };
        Ok(Done {
            secrets,
            kernel,
            about,
        })
    }
}

impl Side {
    fn common(&self) -> &CommonState {
        match self {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }

    fn step(&mut self, incoming: &mut [u8], out: &mut Vec<u8>) -> (usize, Result<Step, Error>) {
        match self {
            Side::Server(connection) => step(connection.process_tls_records(incoming), out),
            Side::Client(connection) => step(connection.process_tls_records(incoming), out),
        }
    }
}

/// Does what rustls asks for; gives how much of what was received it has done with.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Vec<u8>,
) -> (usize, Result<Step, Error>) {
    let state = match status.state {
        Ok(state) => state,
        Err(error) => return (status.discard, Err(error)),
    };
    let step = match state {
        ConnectionState::EncodeTlsData(mut message) => {
            let begin = out.len();
            if let Err(EncodeError::InsufficientSize(need)) = message.encode(&mut []) {
                out.resize(begin + need.required_size, 0);
            }
            let written = message.encode(&mut out[begin..]).unwrap_or(0);
            out.truncate(begin + written);
            Step::Again
        }
        ConnectionState::TransmitTlsData(sent) => {
            sent.done();
            Step::Again
        }
        ConnectionState::WriteTraffic(_) => Step::Stands,
        ConnectionState::BlockedHandshake => Step::Waits,
        // Application data comes behind the handshake, where it is not rustls' any more.
        _ => return (status.discard, Err(Error::HandshakeNotComplete)),
    };
    (status.discard, Ok(step))
}

/// The length of the record that bytes begin with, if it is whole. One that is longer than any counts as its header alone:
/// rustls knows what is wrong with it.
fn unchecked_record_len(bytes: &[u8]) -> Option<usize> {
    let (&[_, _, _, high, low], _) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let len = usize::from(u16::from_be_bytes([high, low]));
    match len > PLAIN_LEN_MAX + EXPANSION_12_MAX {
        true => Some(HEADER_LEN),
        false => Some(HEADER_LEN + len).filter(|len| *len <= bytes.len()),
    }
}

/// The first byte of TLS is a handshake record's type, or an alert's.
fn looks_like_tls(bytes: &[u8]) -> Result<(), TlsError> {
    match bytes[0] {
        21 | 22 => Ok(()),
        first => Err(TlsError::NotTls {
            is_http: first.is_ascii_alphabetic(),
        }),
    }
}
