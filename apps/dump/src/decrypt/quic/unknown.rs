//! Packets of connections that are not known: which are shown, and why they are not decrypted.

use exos_tls::observer::Side;
use exos_wire::quic::{LongHeaderView, PacketType};

use super::half::Packet;
use super::names::Id;
use super::{CUT, Datagram, Header, Quic, Told};
use crate::decrypt::Ends;
use crate::decrypt::keys::Keys;

impl Quic {
    /// Shows a packet with a long header of a connection that is not known. What may belong to one that begins with a later packet waits.
    pub(super) fn unknown_long(
        &mut self,
        header: Header,
        view: &LongHeaderView<'_>,
        path: Ends,
        keys: &Keys,
    ) {
        let to = Id::new(view.destination_id());
        let is_quic = view.version() == 0 || self.paths.has_long(path);
        match (view.packet_type(), view.protected(), to) {
            (PacketType::Retry | PacketType::VersionNegotiation, ..) => {
                self.shown.begin(header, None);
            }
            (PacketType::ZeroRtt, Some(protected), Some(to)) if keys.are_given() => {
                let packet = Packet {
                    side: Side::Client,
                    header: header.clone(),
                    bytes: protected.packet.to_vec(),
                    number_at: protected.number_at,
                    before: 0,
                };
                let is_first = self.early.keep((path.0, to), packet);
                if !is_quic {
                    return;
                }
                self.shown.begin(header, None);
                if is_first {
                    let note = "its Initial packet has not come";
                    self.shown.tell(Told::Note(note.to_owned()));
                }
            }
            _ if !is_quic => {}
            (_, protected, _) => {
                self.shown.begin(header, None);
                self.tell_why(path, protected.is_none(), keys);
            }
        }
    }

    /// Shows what may be a packet with a short header, of a connection that is not known.
    pub(super) fn unknown_short(&mut self, datagram: &Datagram<'_>, is_cut: bool, keys: &Keys) {
        if self.shown.packets.is_empty()
            && let Some(certainty) = self.paths.judge_short(datagram)
        {
            self.shown.begin(Header::short(&[]), None);
            self.shown.certainty = certainty;
            self.tell_why((datagram.from, datagram.to), is_cut, keys);
        }
    }

    /// Says once between two ends why a packet is not decrypted whose connection is not known.
    fn tell_why(&mut self, path: Ends, is_cut: bool, keys: &Keys) {
        let known = self.paths.between(path);
        if !keys.are_given() || std::mem::replace(&mut known.was_told, true) {
            return;
        }
        let has_forgotten = self.connections.forgotten() > 0;
        let note = match (known.has_first, has_forgotten) {
            _ if is_cut => CUT,
            (false, false) => "not decrypted: begun before the capture",
            (false, true) => "not decrypted: begun before the capture, or forgotten",
            (true, false) => "not decrypted: its connection ID is not known",
            (true, true) => "not decrypted: forgotten, or its connection ID is not known",
        };
        self.shown.tell(Told::Note(note.to_owned()));
    }
}
