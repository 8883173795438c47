//! What travels of a connection from stack to stack: the one list of its fields, and what must hold of them.
//!
//! The list says the order of the bytes too (`handover`: the whole form). A field that is added to
//! [`Connection`] must be put into it, or among those that stay; the compiler asks for that. Anyone who changes
//! what is written raises `codec::VERSION`.

use core::ops::Range;
use std::net::IpAddr;

use crate::tcp::congestion::algorithm::{Algorithm, Congestion};
use crate::tcp::connection::Connection;
use crate::tcp::shared::memory::Memory;
use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::tcp::values::ecn::EcnMode;
use crate::tcp::values::event::EventSet;
use crate::tcp::values::flow::Flow;
use crate::tcp::values::ip::IpFields;
use crate::tcp::values::local::Local;
use crate::tcp::values::state::State;
use crate::time::Instant;

type Done = Result<(), HandoverError>;

/// The algorithm of a name, for those that this library does not have.
pub(in crate::tcp) type ByName<'a> = &'a dyn Fn(&str) -> Option<Algorithm>;

impl Connection {
    /// Walk all that travels. Gives where the received bytes stand.
    pub(in crate::tcp) fn travel(
        &mut self,
        wire: &mut Wire<'_>,
        memory: &mut Memory,
        algorithms: ByName<'_>,
    ) -> Result<Range<usize>, HandoverError> {
        travel!(wire, self => Connection {
            flow: flow,
            state: state,
            token: u64,
            events: events,
            active: flag,
            ecn_mode: ecn_mode,
            ip: ip_fields,
        } by_hand {
            sender, receiver, liveness,
        } stay {
            // Of the end, and the old stack's own.
            reason, listener, path, taken_on,
        });
        let mut agreed = sender.agreed();
        agreed.travel(wire)?;
        sender.agree(agreed);
        receiver.travel(wire)?;
        sender.travel(wire)?;
        liveness.travel(wire)?;
        let mut full = sender.full_mss();
        wire.u16(&mut full)?;
        if wire.reads() {
            sender.stands(state.awaits_ack_of_fin(), full, wire.now());
        }
        let mss = sender.mss().into();
        wire.congestion(sender.congestion_mut(), mss, algorithms)?;
        receiver.travel_queue(wire, memory)
    }

    /// It leaves its stack: only the end of FIN-WAIT-2 is kept; what else may be due follows from the wishes.
    pub(in crate::tcp) fn leave(&mut self) {
        if self.state != State::FinWait2 {
            self.liveness.disarm();
        }
    }

    /// Go on in a stack whose link has this to offer: it may be narrower.
    pub(in crate::tcp) fn resume(&mut self, now: Instant, local: Local) {
        self.sender.resume(now, local.mss);
        self.leave();
        self.receiver.resume();
        let retries = self.sender.rtt().retries();
        self.liveness.resume(now, retries > 0);
        self.liveness.rearm(self.state, retries);
    }

    /// What the code relies on. It holds of every connection that stands, whatever its peer has done: a connection
    /// that is taken out can be put in.
    pub(in crate::tcp) fn check_fields(&self) -> Done {
        check_flow(&self.flow)?;
        let (sender, receiver) = (&self.sender, &self.receiver);
        sender.check().map_err(HandoverError::Impossible)?;
        receiver.check().map_err(HandoverError::Impossible)?;
        let finishing = sender.queue().is_finishing() == self.state.has_finished();
        check(finishing, "finishing")?;
        let empty = self.state != State::FinWait2 || sender.queue().bytes().is_empty();
        check(empty, "send")?;
        let scales = sender.window().scale() + receiver.window().scale() > 0;
        check(sender.agreed().scaling || !scales, "window scale")?;
        let announced = receiver.mss_announced();
        check(announced >= sender.mss(), "mss")?;
        check(sender.full_mss() <= announced, "full mss")
    }
}

impl Wire<'_> {
    fn flow(&mut self, value: &mut Flow) -> Done {
        let mut bytes = value.to_bytes();
        self.raw(&mut bytes)?;
        *value = Flow::from_bytes(bytes);
        Ok(())
    }

    /// Only what stands has a number.
    fn state(&mut self, value: &mut State) -> Done {
        const STATES: [State; 6] = [
            State::Established,
            State::FinWait1,
            State::FinWait2,
            State::CloseWait,
            State::Closing,
            State::LastAck,
        ];
        let at = STATES.iter().position(|s| s == value).unwrap_or(0);
        let mut number = at as u8;
        self.u8(&mut number)?;
        let state = STATES.get(usize::from(number)).copied();
        *value = state.ok_or(HandoverError::Impossible("state"))?;
        Ok(())
    }

    fn events(&mut self, value: &mut EventSet) -> Done {
        let mut bits = value.bits();
        self.u8(&mut bits)?;
        let set = EventSet::from_bits(bits);
        *value = set.ok_or(HandoverError::Impossible("events"))?;
        Ok(())
    }

    fn ecn_mode(&mut self, value: &mut EcnMode) -> Done {
        let mut number = match value {
            EcnMode::Off => 0,
            EcnMode::Accept => 1,
            EcnMode::Request => 2,
        };
        self.u8(&mut number)?;
        *value = match number {
            0 => EcnMode::Off,
            1 => EcnMode::Accept,
            2 => EcnMode::Request,
            _ => return Err(HandoverError::Impossible("ecn_mode")),
        };
        Ok(())
    }

    fn ip_fields(&mut self, value: &mut IpFields) -> Done {
        let IpFields { hop_limit, dscp } = value;
        self.u8(hop_limit)?;
        // Whatever the program said, this many bits of it are sent.
        let mut sent = *dscp & 63;
        self.u8(&mut sent)?;
        *dscp = sent;
        check(sent < 64, "dscp")
    }

    /// A name and four numbers of the algorithm's own.
    fn congestion(&mut self, value: &mut Congestion, mss: u32, algorithms: ByName<'_>) -> Done {
        let (name, mut saved) = (value.get().name(), value.get().save());
        let at = self.block(name.as_bytes())?;
        for number in &mut saved {
            self.u64(number)?;
        }
        if self.reads() {
            let name = String::from_utf8_lossy(self.read_at(at));
            let algorithm = Algorithm::by_name(&name).or_else(|| algorithms(&name));
            let Some(algorithm) = algorithm else {
                return Err(HandoverError::UnknownCongestion(name.into_owned()));
            };
            *value = Congestion::new(algorithm, mss);
            value.get_mut().restore(saved, mss);
        }
        Ok(())
    }
}

fn check(holds: bool, field: &'static str) -> Done {
    if holds {
        Ok(())
    } else {
        Err(HandoverError::Impossible(field))
    }
}

/// One host speaks to another of its family (RFC 9293 §3.9.2.3).
fn check_flow(flow: &Flow) -> Done {
    let (local, remote) = (flow.local(), flow.remote());
    check(local.is_ipv4() == remote.is_ipv4(), "flow")?;
    for end in [local, remote] {
        let ip = end.ip();
        let host = !ip.is_multicast() && !ip.is_unspecified() && ip != IpAddr::from([255; 4]);
        check(host && end.port() != 0, "flow")?;
    }
    check(local != remote, "flow")
}
