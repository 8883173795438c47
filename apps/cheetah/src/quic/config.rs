//! What connections begin with: the certificates and the policy of HTTPS, with the protocol's name, and QUIC's windows.

use std::sync::Arc;

use exos::Error;
use exos_tls::policy::initial_suite_of_quic;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt};
use rustls::quic::{ServerConnection, Version};

use crate::limits::{
    QUIC_IDLE_TIME, QUIC_INCOMING_LEN, QUIC_INCOMING_MAX, QUIC_RECEIVE_WINDOW, QUIC_SEND_WINDOW,
    QUIC_STREAM_WINDOW, QUIC_STREAMS_MAX, QUIC_UNI_STREAMS_MAX,
};

/// What the next connection begins with, and of which configuration of HTTPS it was made.
pub(super) struct Current {
    made_of: Arc<rustls::ServerConfig>,
    config: Arc<ServerConfig>,
}

impl Current {
    /// Of HTTPS as it is now. Where datagrams may be found to be longer than all paths take, it is said how long at most.
    ///
    /// # Errors
    ///
    /// It has no TLS 1.3, without which there is no QUIC.
    pub(super) fn new(
        tls: Arc<rustls::ServerConfig>,
        datagram_max: Option<u16>,
    ) -> Result<Current, Error> {
        let mut own = (*tls).clone();
        own.alpn_protocols = vec![b"h3".to_vec()];
        if own.max_early_data_size > 0 {
            // RFC 9001 §4.6.1: how much of it comes is QUIC's to limit.
            own.max_early_data_size = u32::MAX;
        }
        let own = Arc::new(own);
        // What QUIC asks of it is found out here, and not by the first client.
        ServerConnection::new(own.clone(), Version::V1, Vec::new()).map_err(unfit)?;
        let crypto = QuicServerConfig::with_initial(own, initial_suite_of_quic());
        let crypto = crypto.map_err(unfit)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config
            .transport_config(Arc::new(transport(datagram_max)))
            .max_incoming(QUIC_INCOMING_MAX)
            .incoming_buffer_size(QUIC_INCOMING_LEN as u64)
            .incoming_buffer_size_total((QUIC_INCOMING_MAX * QUIC_INCOMING_LEN) as u64);
        Ok(Current {
            made_of: tls,
            config: Arc::new(config),
        })
    }

    /// Follows a reload. What QUIC cannot take (suites of TLS 1.2 alone) leaves it as it is, which is said once.
    pub(super) fn follow(&mut self, tls: Arc<rustls::ServerConfig>, datagram_max: Option<u16>) {
        if Arc::ptr_eq(&self.made_of, &tls) {
            return;
        }
        match Current::new(tls.clone(), datagram_max) {
            Ok(current) => *self = current,
            Err(error) => {
                exos_program::warn!(
                    "exos serve: HTTP/3 goes on with the certificates and suites of before: {error}"
                );
                self.made_of = tls;
            }
        }
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

fn unfit(why: impl std::fmt::Display) -> Error {
    Error::new(format!(
        "HTTP/3 cannot be spoken with these versions and suites of TLS: {why}"
    ))
    .mend("let TLS 1.3 and its suites in (minimum_version and suites of [tls]), or leave http3 out")
}

fn transport(datagram_max: Option<u16>) -> TransportConfig {
    let mut transport = TransportConfig::default();
    if let Some(most) = datagram_max {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(most);
        transport.mtu_discovery_config(Some(discovery));
    }
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(QUIC_STREAMS_MAX))
        .max_concurrent_uni_streams(VarInt::from_u32(QUIC_UNI_STREAMS_MAX))
        .stream_receive_window(VarInt::from_u32(QUIC_STREAM_WINDOW))
        .receive_window(VarInt::from_u32(QUIC_RECEIVE_WINDOW))
        .send_window(QUIC_SEND_WINDOW)
        .max_idle_timeout(IdleTimeout::try_from(QUIC_IDLE_TIME).ok())
        .datagram_receive_buffer_size(None);
    transport
}
