//! rustls, a step at a time: whatever it wants to be done is done, until it waits for more.

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, WriteTraffic};
use rustls::{CommonState, Error};

use super::early::{EXPANSION, Early};
use crate::TlsError;
use crate::limits::{EXPANSION_MAX, HEADER_LEN, PLAIN_LEN_MAX};

/// rustls' connection.
pub(super) enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// What one step of rustls came to.
pub(super) enum Step {
    Again,
    /// Nothing happens before more is received.
    Waits,
}

impl Side {
    pub(super) fn common(&self) -> &CommonState {
        match self {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }

    /// Does what rustls asks for; gives how much of what was received it has done with.
    pub(super) fn step(
        &mut self,
        incoming: &mut [u8],
        early: &mut Early,
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> (usize, Result<Step, Error>) {
        match self {
            Side::Server(connection) => {
                let status = connection.process_tls_records(incoming);
                let mut discard = status.discard;
                let step = status.state.map(|state| match state {
                    ConnectionState::ReadEarlyData(mut data) => {
                        while let Some(Ok(record)) = data.next_record() {
                            discard += record.discard;
                            plain.extend_from_slice(record.payload);
                        }
                        (early.is_announced, early.is_taken) = (true, true);
                        Step::Again
                    }
                    ConnectionState::WriteTraffic(_) => {
                        early.may_send = early.is_taken;
                        Step::Waits
                    }
                    state => do_as_asked(state, out),
                });
                (discard, step)
            }
            Side::Client(connection) => {
                let status = connection.process_tls_records(incoming);
                let step = status.state.map(|state| match state {
                    ConnectionState::TransmitTlsData(mut sent) => {
                        early.may_send = sent.may_encrypt_early_data().is_some();
                        match early.may_send {
                            // Its state stays this one for as long as it may be used.
                            true => Step::Waits,
                            false => {
                                sent.done();
                                Step::Again
                            }
                        }
                    }
                    ConnectionState::EncodeTlsData(message) => {
                        let begin = out.len();
                        encode(message, out);
                        early.note_end(&out[begin..]);
                        Step::Again
                    }
                    state => do_as_asked(state, out),
                });
                (status.discard, step)
            }
        }
    }

    /// Appends records of plaintext that may be sent already.
    pub(super) fn seal(
        &mut self,
        incoming: &mut [u8],
        early: &mut Early,
        plain: Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        match self {
            Side::Server(connection) => {
                let state = connection.process_tls_records(incoming).state?;
                let ConnectionState::WriteTraffic(mut traffic) = state else {
                    return Err(TlsError::Over);
                };
                let mut parts = plain.chunks(PLAIN_LEN_MAX);
                parts.try_for_each(|part| seal_part(&mut traffic, part, out))
            }
            Side::Client(connection) => {
                early.give(plain);
                let state = connection.process_tls_records(incoming).state?;
                let ConnectionState::TransmitTlsData(mut sent) = state else {
                    return Ok(()); // It goes when the handshake is over.
                };
                let Some(mut encrypter) = sent.may_encrypt_early_data() else {
                    return Ok(());
                };
                while !early.waiting().is_empty() {
                    let waiting = early.waiting();
                    let part = &waiting[..waiting.len().min(PLAIN_LEN_MAX)];
                    let begin = out.len();
                    out.resize(begin + part.len() + HEADER_LEN + EXPANSION_MAX, 0);
                    let written = encrypter.encrypt(part, &mut out[begin..]).unwrap_or(0);
                    out.truncate(begin + written);
                    match plain_len(&out[begin..]) {
                        0 => break, // The server takes no more.
                        len => early.leaves(len),
                    }
                }
                Ok(())
            }
        }
    }
}

fn seal_part<Data>(
    traffic: &mut WriteTraffic<'_, Data>,
    part: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), TlsError> {
    let begin = out.len();
    out.resize(begin + part.len() + HEADER_LEN + EXPANSION_MAX, 0);
    let written = traffic.encrypt(part, &mut out[begin..]);
    out.truncate(begin + written.as_ref().map_or(0, |written| *written));
    written.map(|_| ()).map_err(|_| TlsError::Exhausted)
}

/// Bytes of plaintext in whole records of TLS 1.3.
fn plain_len(mut records: &[u8]) -> usize {
    let mut len = 0;
    while let Some(&[_, _, _, high, low]) = records.first_chunk() {
        let record_len = usize::from(u16::from_be_bytes([high, low]));
        len += record_len.saturating_sub(EXPANSION);
        records = records.get(HEADER_LEN + record_len..).unwrap_or_default();
    }
    len
}

/// What either side is asked for.
fn do_as_asked<Data>(state: ConnectionState<'_, '_, Data>, out: &mut Vec<u8>) -> Step {
    match state {
        ConnectionState::EncodeTlsData(message) => {
            encode(message, out);
            Step::Again
        }
        ConnectionState::TransmitTlsData(sent) => {
            sent.done();
            Step::Again
        }
        // Its end, too. It does not come to other data than early data, of which it sees no record.
        _ => Step::Waits,
    }
}

fn encode<Data>(mut message: EncodeTlsData<'_, Data>, out: &mut Vec<u8>) {
    let begin = out.len();
    if let Err(EncodeError::InsufficientSize(need)) = message.encode(&mut []) {
        out.resize(begin + need.required_size, 0);
    }
    let written = message.encode(&mut out[begin..]).unwrap_or(0);
    out.truncate(begin + written);
}
