//! What one side of a connection sends: keys, numbers, and what waits for these.

use exos_tls::observer::{Level, PacketKeys, Side};
use exos_wire::SeqNumber;

use super::cuts::Cuts;
use super::http3::Http3;
use super::{Header, Shown, Told};
use crate::decrypt::stream::Stream;
use crate::limits::{CRYPTO_AHEAD_MAX, WAITING_BYTES_MAX, WAITING_COST};

/// How packets that wait for keys are looked at: what handshakes say comes first.
pub(super) const WAITING: [(Side, Level); 5] = [
    (Side::Client, Level::Early),
    (Side::Server, Level::Handshake),
    (Side::Client, Level::Handshake),
    (Side::Server, Level::Traffic),
    (Side::Client, Level::Traffic),
];

/// A packet as it came.
#[derive(Clone, Debug)]
pub(super) struct Packet<B> {
    pub(super) side: Side,
    pub(super) header: Header,
    pub(super) bytes: B,
    pub(super) number_at: usize,
    /// Bytes of other packets before it in its datagram.
    pub(super) before: usize,
}

impl Packet<&[u8]> {
    /// As much of it as these bytes, to be kept.
    pub(super) fn kept(&self, bytes: &[u8]) -> Packet<Vec<u8>> {
        Packet {
            side: self.side,
            header: self.header.clone(),
            bytes: bytes.to_vec(),
            number_at: self.number_at,
            before: self.before,
        }
    }
}

impl Packet<Vec<u8>> {
    /// To be looked at.
    pub(super) fn view(&self) -> Packet<&[u8]> {
        Packet {
            side: self.side,
            header: self.header.clone(),
            bytes: &self.bytes,
            number_at: self.number_at,
            before: self.before,
        }
    }
}

/// What one side sends at a level.
#[derive(Debug, Default)]
pub(super) struct AtLevel {
    pub(super) keys: Option<Box<PacketKeys>>,
    /// Packets that wait for these.
    pub(super) waiting: Vec<Packet<Vec<u8>>>,
    pub(super) waiting_held: usize,
    /// There were more than are kept: no other waits.
    pub(super) is_full: bool,
}

impl AtLevel {
    /// Keeps a packet until its key comes; true when there was room. When there is not, that is said.
    pub(super) fn wait(&mut self, packet: Packet<Vec<u8>>, shown: &mut Shown) -> bool {
        if self.is_full {
            return false;
        }
        self.waiting_held += packet.bytes.len() + WAITING_COST;
        if self.waiting_held > WAITING_BYTES_MAX {
            (self.waiting, self.waiting_held) = (Vec::new(), 0);
            self.is_full = true;
            let note = "not decrypted: the log has no key for it";
            shown.tell(Told::Note(note.to_owned()));
            return false;
        }
        self.waiting.push(packet);
        true
    }
}

/// One side.
#[derive(Debug)]
pub(super) struct Half {
    pub(super) levels: [AtLevel; Level::ALL],
    /// The largest packet number of each space.
    pub(super) largest: [Option<u64>; Level::SPACES],
    pub(super) crypto: [Stream; Level::SPACES],
    pub(super) http3: Option<Box<Http3>>,
    /// How its datagrams have been cut.
    pub(super) cuts: Cuts,
}

impl Half {
    pub(super) fn new() -> Self {
        Self {
            levels: Default::default(),
            largest: [None; Level::SPACES],
            crypto: [(); Level::SPACES]
                .map(|()| Stream::with_ahead(SeqNumber(0), CRYPTO_AHEAD_MAX)),
            http3: None,
            cuts: Cuts::new(),
        }
    }

    /// Bytes that it keeps beside itself.
    pub(super) fn held(&self) -> usize {
        let crypto = self.crypto.iter().map(Stream::held).sum::<usize>();
        let levels = self.levels.iter();
        let levels = levels.map(|it| it.waiting_held + it.keys.as_ref().map_or(0, |it| it.held()));
        crypto + levels.sum::<usize>() + self.http3.as_ref().map_or(0, |it| it.held())
    }
}
