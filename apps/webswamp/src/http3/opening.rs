//! What connections begin with, and why those fail that do not come to stand.

use std::sync::Arc;

use exos_inet::tcp::Reason;
use exos_quic::quinn_proto::crypto::rustls::QuicClientConfig;
use exos_quic::quinn_proto::{
    ClientConfig, ConnectionError, MtuDiscoveryConfig, TransportConfig, TransportErrorCode, VarInt,
};
use exos_tls::TlsError;
use exos_tls::client::{Client, Way, alert};
use exos_tls::policy::initial_suite_of_quic;
use rand_distr::Distribution as _;
use rand_distr::StandardUniform;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng as _;

use crate::limits::{QUIC_SERVER_STREAMS_MAX, QUIC_UPLOAD_LEN_MAX, WINDOW};
use crate::secured::Shares;

/// What the connections of a core begin with.
pub(super) struct Opening {
    full: ClientConfig,
    resuming: ClientConfig,
    early: ClientConfig,
    /// The parts of all handshakes that are not to be full ones.
    shares: Shares,
    random: Pcg64Mcg,
}

impl Opening {
    /// As this client has it. Where datagrams may be found to be longer than all paths take, it is said how long at most.
    ///
    /// # Errors
    ///
    /// It cannot speak TLS 1.3, without which there is no QUIC.
    pub(super) fn new(
        client: &Client,
        datagram_max: Option<u16>,
        (shares, seed): (Shares, u64),
    ) -> Result<Self, exos::Error> {
        let transport = Arc::new(transport(datagram_max));
        let offered = client.config(Way::Full);
        let mut offered = offered.crypto_provider().cipher_suites.iter();
        if offered.all(|suite| suite.tls13().is_none()) {
            return Err(unfit("none of TLS 1.3 is offered"));
        }
        let config = |way| {
            let crypto =
                QuicClientConfig::with_initial(client.config(way), initial_suite_of_quic());
            let crypto = crypto.map_err(unfit)?;
            let mut config = ClientConfig::new(Arc::new(crypto));
            config.transport_config(transport.clone());
            Ok::<_, exos::Error>(config)
        };
        Ok(Self {
            full: config(Way::Full)?,
            resuming: config(Way::Resumed)?,
            early: config(Way::Early)?,
            shares,
            random: Pcg64Mcg::seed_from_u64(seed),
        })
    }

    /// What the next one begins with.
    pub(super) fn next(&mut self) -> ClientConfig {
        let unit: f64 = StandardUniform.sample(&mut self.random);
        match self.shares.way(unit) {
            Way::Full => self.full.clone(),
            Way::Resumed => self.resuming.clone(),
            Way::Early => self.early.clone(),
        }
    }
}

fn unfit(why: impl std::fmt::Display) -> exos::Error {
    exos::Error::new(format!(
        "HTTP/3 cannot be spoken with these suites of TLS: {why}"
    ))
}

fn transport(datagram_max: Option<u16>) -> TransportConfig {
    let mut transport = TransportConfig::default();
    if let Some(most) = datagram_max {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(most);
        transport.mtu_discovery_config(Some(discovery));
    }
    transport
        // Servers open none of these (RFC 9114 §6.1).
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(QUIC_SERVER_STREAMS_MAX))
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(QUIC_UPLOAD_LEN_MAX)
        // Requests have deadlines; a client that thinks may do so for long.
        .max_idle_timeout(None)
        .datagram_receive_buffer_size(None);
    transport
}

/// Why a connection is over.
pub(super) enum End {
    /// TLS was not agreed upon.
    Unsecured(TlsError),
    /// It is over like one of TCP.
    Over(Reason),
}

/// Why one is over that had come to stand, or not; a certificate was refused, if one was.
pub(super) fn end(error: &ConnectionError, has_stood: bool, refusal: Option<TlsError>) -> End {
    let unsecured = |code: TransportErrorCode| {
        // RFC 9001 §4.8: the codes of alerts.
        let number = u64::from(code).checked_sub(0x100)?;
        let number = u8::try_from(number).ok()?;
        Some(refusal.clone().unwrap_or_else(|| alert(number)))
    };
    let reason = match error {
        ConnectionError::TransportError(error) if !has_stood => match unsecured(error.code) {
            Some(error) => return End::Unsecured(error),
            None => Reason::Reset,
        },
        ConnectionError::ConnectionClosed(close) if !has_stood => {
            match unsecured(close.error_code) {
                Some(error) => return End::Unsecured(error),
                None if close.error_code == TransportErrorCode::CONNECTION_REFUSED => {
                    Reason::Refused
                }
                None => Reason::Reset,
            }
        }
        ConnectionError::TimedOut => Reason::TimedOut,
        // With which code the server has closed it is told apart.
        ConnectionError::LocallyClosed | ConnectionError::ApplicationClosed(_) => Reason::Done,
        ConnectionError::ConnectionClosed(close)
            if close.error_code == TransportErrorCode::NO_ERROR =>
        {
            Reason::Done
        }
        ConnectionError::VersionMismatch
        | ConnectionError::TransportError(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::Reset
        | ConnectionError::CidsExhausted => Reason::Reset,
    };
    End::Over(reason)
}
