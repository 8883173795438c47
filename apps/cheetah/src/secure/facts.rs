//! What may be told of a connection's TLS: in lines of the log, to applications, and to upstreams where a rule says so. It is one list for
//! all of them.
//!
//! All values are printable ASCII without quotes or line ends that a client could have put there: suites and versions have fixed names, a
//! server's name is letters, digits, dots, hyphens and underscores, and names in certificates are escaped (RFC 4514).

use std::borrow::Cow;

use exos_tls::About;

/// One of the things that may be told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fact {
    /// The version of TLS.
    Version,
    /// The cipher suite.
    Cipher,
    /// Whether the session went on from an earlier one; of a request that came before the handshake was over, that.
    Handshake,
    /// The host that the client has asked for while the session began.
    ServerName,
    /// Whether the client has shown a certificate. One that is not good ends the handshake.
    ClientVerify,
    /// Whose that is.
    ClientSubject,
    /// Who has signed it.
    ClientIssuer,
    /// Its number with that one.
    ClientSerial,
}

impl Fact {
    /// All of them.
    pub const ALL: [Fact; 8] = [
        Fact::Version,
        Fact::Cipher,
        Fact::Handshake,
        Fact::ServerName,
        Fact::ClientVerify,
        Fact::ClientSubject,
        Fact::ClientIssuer,
        Fact::ClientSerial,
    ];

    /// Its name in configurations and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Fact::Version => "tls_version",
            Fact::Cipher => "tls_cipher",
            Fact::Handshake => "tls_handshake",
            Fact::ServerName => "tls_server_name",
            Fact::ClientVerify => "client_verify",
            Fact::ClientSubject => "client_subject",
            Fact::ClientIssuer => "client_issuer",
            Fact::ClientSerial => "client_serial",
        }
    }

    /// Its name among the variables of applications: Apache's. Values are ours: Apache says `Resumed` and `Initial`, and names suites as
    /// OpenSSL does.
    pub fn variable(self) -> &'static str {
        match self {
            Fact::Version => "SSL_PROTOCOL",
            Fact::Cipher => "SSL_CIPHER",
            Fact::Handshake => "SSL_SESSION_RESUMED",
            Fact::ServerName => "SSL_TLS_SNI",
            Fact::ClientVerify => "SSL_CLIENT_VERIFY",
            Fact::ClientSubject => "SSL_CLIENT_S_DN",
            Fact::ClientIssuer => "SSL_CLIENT_I_DN",
            Fact::ClientSerial => "SSL_CLIENT_M_SERIAL",
        }
    }

    /// By its name in configurations.
    ///
    /// # Errors
    ///
    /// It is none: which there are.
    pub fn parse(text: &str) -> Result<Fact, String> {
        let found = Fact::ALL.into_iter().find(|fact| fact.name() == text);
        found.ok_or_else(|| {
            let names = Fact::ALL.map(|fact| format!("{:?}", fact.name()));
            format!(
                "{text:?} is nothing that is known of a connection; write one of {}",
                names.join(", ")
            )
        })
    }

    /// What there is to tell of the session by which a request came, which `is_early` where that was before the end of the handshake; nothing
    /// where it is not known.
    pub fn value(self, about: &About, is_early: bool) -> Option<Cow<'_, str>> {
        let peer = about.peer.as_deref();
        let value: Cow<'_, str> = match self {
            Fact::Version => about.version_name().into(),
            Fact::Cipher => about.suite_name().into(),
            Fact::Handshake if is_early => "early".into(),
            Fact::Handshake if about.is_resumed => "resumed".into(),
            Fact::Handshake => "full".into(),
            Fact::ServerName => about.server_name.as_deref()?.into(),
            Fact::ClientVerify if peer.is_some() => "SUCCESS".into(),
            Fact::ClientVerify => "NONE".into(),
            Fact::ClientSubject => (&*peer?.subject).into(),
            Fact::ClientIssuer => (&*peer?.issuer).into(),
            Fact::ClientSerial => (&*peer?.serial).into(),
        };
        (!value.is_empty()).then_some(value)
    }
}
