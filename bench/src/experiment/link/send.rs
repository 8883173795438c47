//! `send`: one direction, an end that does nothing but send and one that does nothing but receive.

use super::args::Group;
use super::cell::{self, Cell, by_ring};
use super::flood::{Receiver, Sender};
use super::send_outcome::{Send, SendRun};
use super::session::Session;
use super::way::Way;
use super::{dpdk, iperf3, socket};
use crate::report::Section;
use crate::stage::mac_of;
use exos_host::Result;
use exos_lab::Side;

/// The ways that are compared, but for iperf3.
const SHOWN: [Way; 6] = [
    Way::Ring,
    Way::Live,
    Way::Cheaper,
    Way::Socket,
    Way::DpdkPacket,
    Way::DpdkXdp,
];

const NOTE: &str = "ns: time of either core for a frame; the sender's includes the kernel's delivery. live: left in live frame mode.";

/// The figure is without iperf3, whose frames are of a length of their own.
pub(super) fn section(cases: &[Send]) -> Section {
    let about = (
        "Frames that arrived, by those of the ring",
        "The numbers are frames a second.",
    );
    let label = |case: &Send| (case.frame_bytes, format!("{} at once", case.batch));
    let figure = by_ring(about, &SHOWN, cases, label, |r| r.frames_per_sec);
    Section::of("One direction", NOTE, cases).with_figures(figure)
}

/// iperf3's frames, which leave one by one.
pub(super) const IPERF3: Cell = Cell {
    group: Group::Send,
    frame_bytes: iperf3::DATA_LEN + socket::HEADERS_LEN,
    count: 1,
};

/// Measures cells by those ways that can do them.
pub(super) fn measure(session: &Session, cells: &[Cell]) -> Result<Vec<Send>> {
    let (iperf3, others): (Vec<Cell>, Vec<Cell>) = cells.iter().partition(|cell| **cell == IPERF3);
    let run = |cell, way| run(session, cell, way);
    let of = |cells: &[Cell], ways: &[Way]| cell::measure(session, cells, ways, run, Send::new);
    Ok([of(&others, &SHOWN)?, of(&iperf3, &[Way::Iperf3])?].concat())
}

fn run(session: &Session, cell: Cell, way: Way) -> Result<SendRun> {
    if way == Way::Iperf3 {
        return iperf3::run(session);
    }
    if matches!(way, Way::DpdkPacket | Way::DpdkXdp) {
        return dpdk::run(session, way, cell.frame_bytes, cell.count as usize);
    }
    let by_socket = way == Way::Socket;
    let receiver = session.helper(Side::B, &Receiver { by_socket })?;
    let sender = Sender {
        way,
        frame_len: cell.frame_bytes,
        batch: cell.count as usize,
        seconds: session.seconds,
        mac: mac_of(&session.lab, Side::B)?.0,
    };
    let sender = session.helper(Side::A, &sender)?;
    let sent = sender.measured(session, session.seconds)?;
    let received = receiver.measured(session, session.seconds)?;
    let (there, here) = (sent.frames.max(1) as f64, received.frames.max(1) as f64);
    Ok(SendRun {
        frames_per_sec: received.frames as f64 / received.seconds.max(f64::MIN_POSITIVE),
        sender_ns_per_frame: sent.core_ns as f64 / there,
        receiver_ns_per_frame: received.core_ns as f64 / here,
        lost_share: sent.frames.saturating_sub(received.frames) as f64 / there,
        live_share: sent.live_frames as f64 / there,
    })
}
