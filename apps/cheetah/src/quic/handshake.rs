//! What the handshake of a connection of QUIC has come to.

use exos_tls::About;
use quinn_proto::Connection;
use quinn_proto::crypto::rustls::HandshakeData;
use rustls::pki_types::CertificateDer;

/// What may be told of it. QUIC does not tell the suite.
pub(super) fn told(quic: &Connection) -> About {
    let session = quic.crypto_session();
    let data = session.handshake_data();
    let data = data.and_then(|data| data.downcast::<HandshakeData>().ok());
    let shown = session.peer_identity();
    let shown = shown.and_then(|shown| shown.downcast::<Vec<CertificateDer<'static>>>().ok());
    let name = data.and_then(|data| data.server_name);
    About::of_quic(name, shown.as_ref().and_then(|chain| chain.first()))
}
