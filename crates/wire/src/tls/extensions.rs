//! Extensions of a hello (RFC 8446 §4.2): which server a client means, which protocols are spoken above TLS, which versions.
//!
//! ```text
//!  0      2        4
//!  | kind | length | data, and so on
//! ```
//!
//! An extension that is not all there is left out, and so is what is no extension.

use crate::cursor::Cursor;

/// The server's name (RFC 6066 §3).
const SERVER_NAME: u16 = 0;
/// Protocols above TLS (RFC 7301).
const ALPN: u16 = 16;
/// Versions (RFC 8446 §4.2.1).
const SUPPORTED_VERSIONS: u16 = 43;
/// Data comes before the handshake is over (RFC 8446 §4.2.10).
const EARLY_DATA: u16 = 42;
/// The only type of name there is.
const HOST_NAME: u8 = 0;

/// Extensions: an iterator over kind and data of each.
#[derive(Clone, Debug)]
pub struct Extensions<'a>(Cursor<'a>);

impl<'a> Extensions<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(Cursor::new(bytes, bytes.len(), "tls"))
    }

    /// Those of EncryptedExtensions (RFC 8446 §4.3.1), from the begin of the message's body on.
    #[must_use]
    pub fn encrypted(body: &'a [u8]) -> Self {
        Self::new(u16_vector(body).unwrap_or_default())
    }

    /// A client sends early data, or a server takes it.
    #[must_use]
    pub fn has_early_data(&self) -> bool {
        self.of(EARLY_DATA).is_some()
    }

    fn of(&self, kind: u16) -> Option<&'a [u8]> {
        self.clone()
            .find(|(it, _)| *it == kind)
            .map(|(_, data)| data)
    }

    /// The host that a client names: bytes of anybody's choice. A server's answer has none.
    #[must_use]
    pub fn server_name(&self) -> Option<&'a [u8]> {
        let list = u16_vector(self.of(SERVER_NAME)?)?;
        let (&HOST_NAME, name) = list.split_first()? else {
            return None;
        };
        u16_vector(name)
    }

    /// The protocols of ALPN: those that a client speaks, or the one that a server chose (before TLS 1.3; then it is encrypted).
    pub fn protocols(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let list = self.of(ALPN).and_then(u16_vector).unwrap_or_default();
        let mut names = Cursor::new(list, list.len(), "tls");
        std::iter::from_fn(move || names.vector_u8().ok().filter(|name| !name.is_empty()))
    }

    /// The versions that a client speaks, without those that mean nothing (RFC 8701).
    pub fn client_versions(&self) -> impl Iterator<Item = u16> + use<'a> {
        let data = self.of(SUPPORTED_VERSIONS).unwrap_or_default();
        let list = data
            .split_first()
            .and_then(|(len, list)| list.get(..usize::from(*len)));
        let (versions, _) = list.unwrap_or_default().as_chunks();
        let versions = versions.iter().map(|version| u16::from_be_bytes(*version));
        versions.filter(|version| version >> 8 == 3)
    }

    /// The version that a server chose, where it says so here.
    #[must_use]
    pub fn server_version(&self) -> Option<u16> {
        let version: [u8; 2] = self.of(SUPPORTED_VERSIONS)?.try_into().ok()?;
        Some(u16::from_be_bytes(version))
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let kind = self.0.array::<2>().ok()?;
        let data = self.0.vector_u16().ok()?;
        Some((u16::from_be_bytes(*kind), data))
    }
}

/// A vector that is behind its length, all of it.
fn u16_vector(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}
