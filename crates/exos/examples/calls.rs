//! Calls on TCP connections to port 4000, dealt with by a handler of two layers before this program hears of them: the one below numbers the calls
//! of all clients, the one above says what is called. The handler adds to counters; what else is called this program answers itself, in
//! its place among the others.
//!
//! A call is its length (2 bytes, which do not count), its number, the next of all (4), what is called (1) and a number (8); an answer is likewise.
//! `cargo build -p exos --example calls`, then `sudo target/debug/examples/calls eth0 192.0.2.7/24` with a free address of the interface's
//! network.

use exos::inet::Framing;
use exos::inet::limits::HANDLED_REPLY_BYTES_MAX;
use exos::inet::tcp::{ConnectionId, EventSet, ListenOptions, State};
use exos::signals::Signals;
use exos::{Addresses, Buffer, Downloaded, Exos, Interface, Stack, ash};

type Error = Box<dyn std::error::Error>;

const PORT: u16 = 4000;
const FRAMING: Framing = Framing::Length {
    at: 0,
    bytes: 2,
    more: 2,
};

const HANDLER: &str = "
    handler calls {
        layer session 6 {
            words number[1];

            next = &number[0];
            if be32(2) != *next { give up; }    // repeated, or out of order: this program's
            commit { add(next, 1); }
        }
        layer call 1 {
            what = u8(0);
            if what != 1 { give up; }
            reply { u8(0) = 0x81; }
        }
        words sum[1];

        need 8;
        all = &sum[0];
        before = add(all, be64(0));
        reply length { be64(0) = before; }
    }";

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let (Some(interface), Some(address)) = (arguments.next(), arguments.next()) else {
        return Err("calls INTERFACE ADDRESS/LENGTH".into());
    };
    let ours = Addresses::new([address.parse()?])?;
    let mut exos = Exos::attach(Interface::new(interface, ours))?;
    let signals = Signals::catch()?;
    let _calls = listen(&mut exos)?;
    while !signals.stop_requested() {
        turn(&mut exos)?;
        exos.wait(None, &[signals.fd()])?;
    }
    Ok(())
}

/// Has calls dealt with on connections that come from now on.
pub fn listen(exos: &mut Exos) -> Result<Downloaded, Error> {
    let options = ListenOptions::default();
    exos.stack.tcp.listen(None, PORT, options)?;
    Ok(exos.download_for_streams(ash::parse(HANDLER)?, PORT, FRAMING)?)
}

/// Takes in what has come, and answers what the handler gave up. Gives how many calls those were.
pub fn turn(exos: &mut Exos) -> Result<u32, Error> {
    let mut answered = 0;
    exos.receive();
    while let Some(event) = exos.stack.poll_event() {
        let id = event.connection;
        // Where there was no room for an answer there may be now.
        let is_ours = match event.set.contains(EventSet::ACKNOWLEDGED) {
            true => exos.stack.resume_handling(id),
            false => event.set.contains(EventSet::READABLE),
        };
        if is_ours {
            answered += answer(&mut exos.stack, id);
        }
        finish_after_peer(&mut exos.stack, id);
    }
    exos.send()?;
    Ok(answered)
}

/// The first call of what has come, if that is a whole one.
fn whole_call(readable: &[u8]) -> Option<&[u8]> {
    let length = readable.first_chunk()?;
    readable.get(..2 + usize::from(u16::from_be_bytes(*length)))
}

/// Until the handler deals with calls again, what has come is no whole one, or the peer leaves more answers than the handler would
/// give it unacknowledged: a peer that takes none must not fill this program's memory.
fn answer(stack: &mut Stack, id: ConnectionId) -> u32 {
    let mut answered = 0;
    let takes_answers = |stack: &Stack| {
        let connection = stack.tcp.connection(id);
        connection.is_some_and(|c| c.unacknowledged() <= HANDLED_REPLY_BYTES_MAX)
    };
    while takes_answers(stack) {
        let Some(call) = whole_call(stack.tcp.readable(id)) else {
            break;
        };
        let mut answer = call.to_vec();
        if let Some(what) = answer.get_mut(6) {
            *what = 0xff;
        }
        stack.tcp.consume(id, answer.len());
        stack.tcp.send(id, Buffer::from(answer).whole());
        answered += 1;
        if !stack.resume_handling(id) {
            break;
        }
    }
    answered
}

/// Where the peer has finished, and all of its calls are answered.
fn finish_after_peer(stack: &mut Stack, id: ConnectionId) {
    let connection = stack.tcp.connection(id);
    let has_finished = connection.is_some_and(|c| c.state() == State::CloseWait);
    if has_finished && whole_call(stack.tcp.readable(id)).is_none() {
        stack.tcp.finish(id);
    }
}
