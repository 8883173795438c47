//! The beginning of a session, by rustls, until both sides have finished and its keys are ours.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{CommonState, Error, ExtractedSecrets};
use rustls_pki_types::ServerName;

use crate::TlsError;
use crate::limits::HANDSHAKE_LEN_MAX;
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
    /// The peer has ended its side already.
    is_peer_closed: bool,
}

/// A handshake that is over.
pub(crate) struct Done {
    pub(crate) secrets: ExtractedSecrets,
    pub(crate) kernel: Kernel,
    pub(crate) about: About,
    /// What was received behind it.
    pub(crate) rest: Vec<u8>,
    /// The peer has ended its side already.
    pub(crate) is_peer_closed: bool,
}

/// What one step of rustls came to.
enum Step {
    Again,
    /// Nothing happens before more is received.
    Waits,
    /// Application data may go both ways.
    Stands,
    PeerClosed,
}

impl Handshake {
    pub(crate) fn server(config: Arc<rustls::ServerConfig>) -> Result<Handshake, TlsError> {
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Handshake::of(Side::Server(connection)))
    }

    /// Begins at once: [`go_on`](Handshake::go_on) gives what is to be sent.
    pub(crate) fn client(
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Handshake, TlsError> {
        let connection = UnbufferedClientConnection::new(config, name)?;
        Ok(Handshake::of(Side::Client(connection)))
    }

    fn of(side: Side) -> Handshake {
        Handshake {
            side,
            incoming: Vec::new(),
            has_begun: false,
            is_peer_closed: false,
        }
    }

    /// Takes what was received, and goes on as far as it can: messages for the peer are appended to `out`, early plaintext to
    /// `plain`. Gives all that there is when it is over.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<bool, TlsError> {
        if !self.has_begun && !bytes.is_empty() {
            self.has_begun = true;
            looks_like_tls(bytes)?;
        }
        if self.incoming.len() + bytes.len() > HANDSHAKE_LEN_MAX {
            return Err(TlsError::TooLong);
        }
        self.incoming.extend_from_slice(bytes);
        self.go_on(plain, out)
    }

    /// Goes on without anything received; true when it is over.
    pub(crate) fn go_on(
        &mut self,
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<bool, TlsError> {
        let mut failed = None;
        loop {
            if failed.is_some() {
                // Nothing is looked at any more: what follows is the alert.
                self.incoming.clear();
            }
            let (discard, step) = self.side.step(&mut self.incoming, plain, out);
            self.incoming.drain(..discard);
            match step {
                Ok(Step::Again) => {}
                Ok(Step::PeerClosed) => self.is_peer_closed = true,
                Ok(Step::Waits) => return failed.map_or(Ok(false), Err),
                Ok(Step::Stands) => return failed.map_or(Ok(!self.is_handshaking()), Err),
                Err(error) if failed.is_none() => failed = Some(TlsError::from(error)),
                Err(error) => return Err(failed.unwrap_or(TlsError::from(error))),
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
            rest: self.incoming,
            is_peer_closed: self.is_peer_closed,
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

    fn step(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> (usize, Result<Step, Error>) {
        match self {
            Side::Server(connection) => step(connection.process_tls_records(incoming), plain, out),
            Side::Client(connection) => step(connection.process_tls_records(incoming), plain, out),
        }
    }
}

/// Does what rustls asks for; gives how much of what was received it has done with.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> (usize, Result<Step, Error>) {
    let mut discard = status.discard;
    let state = match status.state {
        Ok(state) => state,
        Err(error) => return (discard, Err(error)),
    };
    let step = match state {
        ConnectionState::ReadTraffic(mut records) => {
            while let Some(record) = records.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                    Err(error) => return (discard, Err(error)),
                }
            }
            Step::Again
        }
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
        ConnectionState::PeerClosed => Step::PeerClosed,
        _ => Step::Waits,
    };
    (discard, Ok(step))
}

/// The first byte of TLS is a handshake record's type.
fn looks_like_tls(bytes: &[u8]) -> Result<(), TlsError> {
    match bytes[0] {
        22 => Ok(()),
        first => Err(TlsError::NotTls {
            is_http: first.is_ascii_alphabetic(),
        }),
    }
}
