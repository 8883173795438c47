//! What must hold of a live connection, and of what leaves.

use exos_inet::tcp::State;
use exos_wire::tcp::{TcpFlags, TcpView};

use super::{MEMORY_MAX, MTU, OUR_STREAM, World, address, content};
use crate::frames::segment_of;

impl World {
    pub(super) fn check(&mut self) {
        // Each segment that comes asks for one without data at most, a deadline too; commands may ask.
        let most = self.came + self.woken + 2;
        assert!(
            self.bare <= most,
            "{} bare segments for {most} reasons",
            self.bare
        );
        (self.came, self.woken, self.bare) = (0, 0, 0);
        assert!(self.stack.tcp.memory().used <= MEMORY_MAX);
        let Some(connection) = self.id.and_then(|id| self.stack.tcp.connection(id)) else {
            return;
        };
        let waits = connection.unacknowledged() > 0
            || matches!(
                connection.state(),
                State::SynSent
                    | State::SynReceived
                    | State::FinWait1
                    | State::FinWait2
                    | State::Closing
                    | State::LastAck
            );
        assert!(
            self.over || !waits || connection.next_deadline().is_some(),
            "waits without a deadline: {:?}",
            connection.info()
        );
    }

    /// A frame leaves: it is sound, and the peer learns from it.
    pub(super) fn leave(&mut self, frame: &[u8]) {
        assert!(frame.len() <= 14 + MTU, "larger than the MTU");
        let (us, peer) = (address(self.ipv6, 1), address(self.ipv6, 2));
        let tcp = segment_of(frame, us, peer);
        self.our_timestamp = tcp.options().timestamps.map_or(0, |t| t.value);
        if tcp.flags().contains(TcpFlags::RST) {
            return;
        }
        if tcp.flags().contains(TcpFlags::SYN) {
            self.learn_syn(&tcp);
        }
        self.check_data(&tcp);
        self.check_acknowledgement(&tcp);
        let silent = tcp.seq_len() == 0;
        self.bare += usize::from(silent);
    }

    pub(super) fn learn_syn(&mut self, tcp: &TcpView<'_>) {
        if self.ours.is_none() {
            self.ours = Some(tcp.seq());
            self.our_end = tcp.seq() + 1;
            self.acknowledged = tcp.seq();
            self.offered = tcp.seq() + 1;
            self.our_scale = tcp.options().window_scale.unwrap_or(0);
        }
        assert_eq!(Some(tcp.seq()), self.ours, "another SYN");
    }

    /// What we send is the program's, and within what the peer offered.
    pub(super) fn check_data(&mut self, tcp: &TcpView<'_>) {
        let ours = self.ours.expect("a SYN before all else");
        let place = (tcp.seq() - (ours + 1)) as u32;
        for (n, &byte) in tcp.payload().iter().enumerate() {
            let at = place.wrapping_add(n as u32);
            assert!((at as usize) < self.sent, "byte {at} of {}", self.sent);
            assert_eq!(
                byte,
                content(OUR_STREAM, at),
                "byte {at} that left is wrong"
            );
        }
        let data_end = tcp.seq() + tcp.payload().len() as u32;
        if !tcp.payload().is_empty() {
            let beyond = data_end - self.offered;
            assert!(beyond <= 1, "{beyond} bytes beyond the peer's window");
        }
        self.our_end = self.our_end.max(tcp.seq() + tcp.seq_len());
    }

    /// What we acknowledge and offer does not go back.
    pub(super) fn check_acknowledgement(&mut self, tcp: &TcpView<'_>) {
        if !tcp.flags().contains(TcpFlags::ACK) {
            return;
        }
        let back = self.expected.is_some_and(|before| tcp.ack().lt(before));
        assert!(!back, "an acknowledgement goes back");
        self.expected = Some(tcp.ack());
        let scaled = !tcp.flags().contains(TcpFlags::SYN) && self.peer.scale.is_some();
        let shift = if scaled { self.our_scale } else { 0 };
        let edge = tcp.ack() + (u32::from(tcp.window()) << shift);
        // What closes a connection in TIME-WAIT offers nothing.
        if self.over {
            return;
        }
        if let Some(before) = self.edge {
            let back = before - edge;
            assert!(
                back < 1 << self.our_scale,
                "the window's edge goes back by {back}"
            );
        }
        self.edge = Some(self.edge.map_or(edge, |before| before.max(edge)));
    }
}
