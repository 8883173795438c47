//! The program's commands in a script: what it sends and reads, and whole handshakes.

use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::tcp::EventSet;

use super::Player;
use crate::runner::flow::content;
use crate::runner::parse::Command;
use crate::runner::segment::{ACK, ECE, Opt, SYN, Spec};
use crate::runner::value::Value;

impl Player {
    pub(super) fn command(&mut self, command: &Command) -> Result<(), String> {
        match command {
            Command::Handshake { spec, active, rtt } => self.handshake(spec, *active, *rtt),
            Command::Send {
                flow,
                bytes,
                refused,
            } => self.send(*flow, *bytes, *refused),
            Command::Read { flow, bytes } => self.read(*flow, *bytes),
            other => self.run(other),
        }
    }

    fn send(&mut self, number: usize, bytes: usize, refused: bool) -> Result<(), String> {
        let id = self.id(number)?;
        let flow = self.flow(number, false);
        let (stream, _) = flow.streams();
        let data: Vec<u8> = (0..bytes as i64)
            .map(|n| content(stream, flow.sent + n))
            .collect();
        let taken = self.stack.tcp.send(id, Buffer::from(data).into());
        match (taken, refused) {
            (true, false) => {
                self.flow(number, false).sent += bytes as i64;
                Ok(())
            }
            (false, true) => Ok(()),
            (true, true) => Err("the connection took the data".into()),
            (false, false) => Err("the connection took no data".into()),
        }
    }

    fn read(&mut self, number: usize, bytes: Option<usize>) -> Result<(), String> {
        let id = self.id(number)?;
        let over = self.flow(number, false).closed.is_some();
        let ready = if over {
            self.flow(number, false).leftover.clone()
        } else {
            self.stack.tcp.readable(id).to_vec()
        };
        let count = bytes.unwrap_or(ready.len());
        let Some(data) = ready.get(..count) else {
            return Err(format!("there are only {} bytes to read", ready.len()));
        };
        let flow = self.flow(number, false);
        let (_, stream) = flow.streams();
        let from = flow.read;
        if let Some(n) = (0..count).find(|&n| data[n] != content(stream, from + n as i64)) {
            return Err(format!(
                "byte {} of the stream is not what the peer sent",
                from + n as i64
            ));
        }
        flow.read += count as i64;
        if over {
            flow.leftover.drain(..count);
        } else {
            self.stack.tcp.consume(id, count);
        }
        Ok(())
    }

    /// A whole handshake, one round trip long on the side of the peer.
    fn handshake(&mut self, spec: &Spec, active: bool, rtt: f64) -> Result<(), String> {
        let number = spec.flow;
        self.flow(number, active);
        let later = self.now + Duration::from_secs_f64(rtt);
        let mut first = spec.clone();
        (first.seq, first.flags) = (Value::Is(0), SYN | spec.flags);
        if active {
            self.run(&Command::Connect {
                flow: number,
                fails: None,
            })?;
            self.one_left("SYN", SYN)?;
            self.advance(later, false)?;
            first.flags = SYN | ACK | (spec.flags & ECE);
            first.ack = Some(Value::Is(1));
            self.arrives(&first, self.now)?;
            self.one_left("ACK", ACK)?;
        } else {
            if self.listener.is_none() {
                self.run(&Command::Listen { fails: None })?;
            }
            self.arrives(&first, self.now)?;
            self.one_left("SYN-ACK", SYN | ACK)?;
            self.advance(later, false)?;
            let mut last = spec.clone();
            (last.seq, last.flags, last.ack) = (Value::Is(1), ACK, Some(Value::Is(1)));
            last.options = ack_options(&spec.options, rtt);
            self.arrives(&last, self.now)?;
        }
        let wanted = if active {
            EventSet::CONNECTED
        } else {
            EventSet::ACCEPTED
        };
        if self.claim(number, wanted) {
            Ok(())
        } else {
            Err("the handshake led to no connection".into())
        }
    }

    /// In a handshake that is not itself the subject: just this leaves.
    fn one_left(&mut self, name: &str, flags: u8) -> Result<(), String> {
        self.transmit()?;
        match self.outbox.pop_front() {
            Some((_, _, raw)) if raw.flags & 0x3f == flags => self.nothing_left(),
            Some(other) => {
                self.outbox.push_front(other);
                self.nothing_left()
                    .map_err(|e| format!("instead of the {name}, {e}"))
            }
            None => Err(format!("the {name} did not leave")),
        }
    }
}

/// The options of a handshake's last ACK: timestamps, if the SYN had them.
fn ack_options(options: &[Opt], rtt: f64) -> Vec<Opt> {
    options
        .iter()
        .filter_map(|option| match option {
            Opt::Timestamps(Value::Is(value), _) => Some(Opt::Timestamps(
                Value::Is(value + (rtt * 1e3) as i64),
                Value::Is(0),
            )),
            _ => None,
        })
        .collect()
}
