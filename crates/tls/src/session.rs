//! One connection's TLS, from its first byte to its end.

use std::fmt;
use std::sync::Arc;

use rustls::{CipherSuite, CommonState, HandshakeKind, NamedGroup, ProtocolVersion};
use rustls_pki_types::{CertificateDer, ServerName};

use crate::TlsError;
use crate::certificate::{Holder, holder};
use crate::handshake::Handshake;
use crate::limits::UNREAD_LEN;
use crate::record::{Cipher, Version};
use crate::traffic::Traffic;

/// What a handshake has come to.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The version.
    pub version: Option<ProtocolVersion>,
    /// The suite.
    pub suite: Option<CipherSuite>,
    /// In which group keys were exchanged, if they were.
    pub group: Option<NamedGroup>,
    /// The protocol that both agreed on (ALPN).
    pub protocol: Option<Box<[u8]>>,
    /// It goes on from an earlier session.
    pub is_resumed: bool,
    /// Whether the server has taken what the client has sent before it was over, where that has announced some (RFC 8446 §4.2.10).
    pub early: Option<bool>,
    /// The host that a client has asked for (SNI); of a server's sessions alone.
    pub server_name: Option<Box<str>>,
    /// Whose certificate the peer has shown, of which somebody that is trusted says that it is good.
    pub peer: Option<Box<Holder>>,
}

impl About {
    pub(crate) fn of(common: &CommonState) -> About {
        let suite = common.negotiated_cipher_suite();
        let peer = common.peer_certificates().and_then(<[_]>::first);
        About {
            version: common.protocol_version(),
            suite: suite.map(|suite| suite.suite()),
            group: common.negotiated_key_exchange_group().map(|it| it.name()),
            protocol: common.alpn_protocol().map(Box::from),
            is_resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
            early: None,
            server_name: None,
            peer: peer.map(|own| Box::new(holder(own).unwrap_or_default())),
        }
    }

    /// Of a connection of QUIC, which has TLS 1.3: the host that its client has asked for, and the certificate that it has shown.
    pub fn of_quic(server_name: Option<String>, shown: Option<&CertificateDer<'_>>) -> About {
        About {
            version: Some(ProtocolVersion::TLSv1_3),
            server_name: server_name.map(Into::into),
            peer: shown.map(|own| Box::new(holder(own).unwrap_or_default())),
            ..About::default()
        }
    }

    /// The version as people write it.
    pub fn version_name(&self) -> &'static str {
        match self.version {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "",
        }
    }

    /// The suite as RFC 8446 and IANA write it.
    pub fn suite_name(&self) -> String {
        self.suite.map_or(String::new(), crate::policy::suite_name)
    }

    /// Version, suite and group, as `TLSv1.3 TLS_AES_128_GCM_SHA256 X25519`.
    pub fn agreed(&self) -> String {
        let group = self.group.map(crate::policy::group_name);
        let mut agreed = format!("{} {}", self.version_name(), self.suite_name());
        if let Some(group) = group {
            agreed.push(' ');
            agreed.push_str(&group);
        }
        agreed
    }
}

enum State {
    Handshake(Box<Handshake>),
    Traffic(Box<Traffic>),
    Over,
}

/// One connection's TLS. In which order its calls go says [the crate](crate).
pub struct Session {
    state: State,
    /// Plaintext, from `consumed` on.
    plain: Vec<u8>,
    consumed: usize,
    /// It takes no records while as much is not consumed.
    unread_max: usize,
    is_peer_closed: bool,
    about: Arc<About>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Handshake(_) => "handshake",
            State::Traffic(_) => "traffic",
            State::Over => "over",
        };
        let mut session = f.debug_struct("Session");
        session.field("state", &state).field("about", &self.about);
        session.finish_non_exhaustive()
    }
}

impl Session {
    /// A server's, which waits for a client's hello.
    ///
    /// # Errors
    ///
    /// The configuration is none that works.
    pub fn server(config: Arc<rustls::ServerConfig>) -> Result<Session, TlsError> {
        Ok(Session::of(Handshake::server(config)?))
    }

    /// A client's, for a server of this name. [`receive`](Session::receive) of nothing gives its hello.
    ///
    /// # Errors
    ///
    /// The configuration is none that works.
    pub fn client(
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Session, TlsError> {
        Ok(Session::of(Handshake::client(config, name)?))
    }

    fn of(handshake: Handshake) -> Session {
        Session {
            state: State::Handshake(Box::new(handshake)),
            plain: Vec::new(),
            consumed: 0,
            unread_max: UNREAD_LEN,
            is_peer_closed: false,
            about: Arc::default(),
        }
    }

    /// It has room for as much plaintext that is not consumed, in bytes, and a record more, instead of [`UNREAD_LEN`]: for who has to
    /// see that much in one piece, as a long head of a response.
    #[must_use]
    pub fn with_unread_max(mut self, unread_max: usize) -> Session {
        self.unread_max = unread_max;
        self
    }

    // What arrives.

    /// Takes in what was received, and appends to `out` what is to be sent at once. Gives how much it has taken: the rest is to be
    /// given again, with what comes behind it. It takes whole records, and none while [`UNREAD_LEN`] is not consumed, or what
    /// [`with_unread_max`](Session::with_unread_max) has put in its place: behind [`consume`](Session::consume) it may take more of what
    /// there is.
    ///
    /// # Errors
    ///
    /// The session is over, and what tells the peer is appended, if it can be told.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, TlsError> {
        self.compact();
        let received = self.take_in(bytes, out);
        if let Err(error) = &received {
            self.fail(error, out);
        }
        received
    }

    fn take_in(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, TlsError> {
        let mut taken = 0;
        if let State::Handshake(handshake) = &mut self.state {
            let (count, is_over) = handshake.receive(bytes, &mut self.plain, out)?;
            if !is_over {
                if handshake.may_send() && self.about.version.is_none() {
                    self.about = Arc::new(handshake.about());
                }
                return Ok(count);
            }
            taken = count;
            self.begin_traffic(out)?;
        }
        let State::Traffic(traffic) = &mut self.state else {
            return Err(TlsError::Over);
        };
        let len_max = self.consumed + self.unread_max;
        taken += traffic.receive(&bytes[taken..], &mut self.plain, len_max, out)?;
        self.is_peer_closed = traffic.is_peer_closed();
        Ok(taken)
    }

    /// The handshake is over: its keys are ours from now on.
    fn begin_traffic(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        let State::Handshake(handshake) = std::mem::replace(&mut self.state, State::Over) else {
            return Err(TlsError::Over);
        };
        let done = handshake.finish()?;
        let version = match done.about.version {
            Some(ProtocolVersion::TLSv1_3) => Version::V13,
            _ => Version::V12,
        };
        let tx = Cipher::new(version, done.secrets.tx)?;
        let rx = Cipher::new(version, done.secrets.rx)?;
        let mut traffic = Traffic::new(version, tx, rx, done.kernel);
        if !done.unsent.is_empty() && !done.is_cut {
            traffic.seal(&[&done.unsent], out)?;
        }
        self.state = State::Traffic(Box::new(traffic));
        self.about = Arc::new(done.about);
        match done.is_cut {
            true => Err(TlsError::Unexpected),
            false => Ok(()),
        }
    }

    /// Gives back what consumed plaintext takes, when that is more than what has to be moved for it.
    fn compact(&mut self) {
        if self.consumed > self.plain.len() / 2 {
            self.plain.drain(..self.consumed);
            self.consumed = 0;
        }
    }

    /// Plaintext that was not consumed.
    pub fn readable(&self) -> &[u8] {
        &self.plain[self.consumed..]
    }

    /// Takes this many bytes of it.
    pub fn consume(&mut self, count: usize) {
        self.consumed += count.min(self.plain.len() - self.consumed);
        if self.consumed == self.plain.len() {
            // An idle session has no buffer.
            (self.plain, self.consumed) = (Vec::new(), 0);
        }
    }

    // What leaves.

    /// Appends records of these pieces of plaintext, one behind another.
    ///
    /// # Errors
    ///
    /// Nothing may be sent yet, or our side has ended: nothing changes. Or its key is used up: it is over.
    pub fn seal(&mut self, pieces: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError> {
        let sealed = match &mut self.state {
            State::Traffic(traffic) => traffic.seal(pieces, out),
            State::Handshake(handshake) => handshake.seal(pieces, out),
            State::Over => Err(TlsError::Over),
        };
        if let Err(error) = &sealed {
            self.fail(error, out);
        }
        sealed
    }

    /// Appends what ends our side: nothing is sealed afterwards.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        match &mut self.state {
            State::Traffic(traffic) => traffic.close(out),
            State::Handshake(_) => self.state = State::Over,
            State::Over => {}
        }
    }

    fn fail(&mut self, error: &TlsError, out: &mut Vec<u8>) {
        if let TlsError::Over = error {
            return; // What was asked for too late or too early harms nothing.
        }
        if let (State::Traffic(traffic), Some(alert)) = (&mut self.state, error.alert()) {
            traffic.fail(alert, out);
        }
        self.state = State::Over;
    }

    // Getters.

    /// The handshake is over, and plaintext may go both ways.
    pub fn is_established(&self) -> bool {
        matches!(self.state, State::Traffic(_))
    }

    /// The handshake is under way.
    pub fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Handshake(_))
    }

    /// The handshake is under way, and plaintext may go already: with a client's hello, as early data, or to a client that has sent
    /// such, from which it may have come. Anybody can have sent it again that has seen it (RFC 8446 §8).
    pub fn is_early(&self) -> bool {
        matches!(&self.state, State::Handshake(handshake) if handshake.may_send())
    }

    /// It has failed, or was closed before its handshake was over.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// The peer has ended its side, and nobody else can have: no more plaintext comes. Where a connection ends and this is not
    /// so, it was cut off (RFC 8446 §6.1).
    pub fn is_peer_closed(&self) -> bool {
        self.is_peer_closed
    }

    /// What the handshake has come to.
    pub fn about(&self) -> &Arc<About> {
        &self.about
    }
}
