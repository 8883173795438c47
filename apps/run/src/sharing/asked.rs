//! What programs ask for by way of the library, and the end of sharing a socket.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;
use std::time::Instant;

use exos::net::{Interest, Token, Trigger};
use exos_host::intercept::{self, Call};
use exos_preload::memory::{Ask, PROCESSES, options, state};
use rustix::net::{Shutdown, SocketType};

use super::datagrams::Datagrams;
use super::flowing::Flowing;
use super::socket::{Entry, Kind};
use super::{EXEC_TIMES, MARKED_COUNT, PROCESS};
use crate::calls::{Answer, fails};
use crate::datagrams::DatagramFlow;
use crate::flow::Flow;
use crate::sockets::{self, Connecting, Listening, pair};
use crate::supervise::Supervisor;
use crate::target::{Descriptor, tcp_info, write};

impl Supervisor {
    /// A program asks us for something by way of the library.
    pub fn asked(&mut self, call: &Call) -> io::Result<Answer> {
        let (fd, value) = (call.args[0] as i32, call.args[3]);
        let number = value as u32;
        let Some(sharing) = &mut self.sharing else {
            return fails(libc::ENOPROTOOPT);
        };
        match Ask::of(call.args[2] as i32) {
            Some(Ask::Register) => {
                let pid = intercept::process_of(call.thread)?;
                if number as usize >= PROCESSES
                    || sharing.memory.process(number).pid.load(Ordering::Acquire) != pid
                {
                    return fails(libc::EINVAL);
                }
                let end = intercept::process(pid)?;
                // It was another program before.
                if let Some((before, end)) = sharing.parts.remove(&pid) {
                    self.poll.deregister_fd(end.as_fd())?;
                    sharing.process_ended(pid, before);
                }
                let (token, readable) = (Token(PROCESS + number as usize), Interest::READABLE);
                self.poll
                    .register_fd(end.as_fd(), token, readable, Trigger::Level)?;
                sharing.parts.insert(pid, (number, end));
            }
            Some(Ask::Watch) => {
                let pid = intercept::process_of(call.thread)?;
                let place = sharing.wakers.get_mut(number as usize);
                let place = place.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
                *place = Some((intercept::descriptor(call.thread, fd)?, pid));
            }
            Some(Ask::Unshare) => {
                // Otherwise it has been before, for another of the program's threads.
                if let Some((MARKED_COUNT, close_on_exec)) = intercept::counter(call.thread, fd)? {
                    self.unshare(call, fd, number, close_on_exec)?;
                }
            }
            Some(Ask::Info) => {
                let entry = sharing.entries.get(fd as usize);
                let stream = entry.and_then(Option::as_ref).and_then(Entry::stream);
                let info = stream.and_then(|stream| stream.info());
                write(&self.calls, call, value, &tcp_info(info.as_ref()))?;
            }
            Some(Ask::Datagrams) => {
                let descriptor = Descriptor::of(call, fd)?;
                let (Some(family), Some(part)) = (descriptor.udp_family(), self.part_asking(call))
                else {
                    return fails(libc::ENOPROTOOPT);
                };
                if descriptor.is_bound() {
                    return fails(libc::EINVAL);
                }
                self.share_datagrams((call, part), descriptor, family)?;
            }
            Some(Ask::Port) => self.bind_for_use(fd as u32)?,
            Some(Ask::Mtu) => {
                let mtu = self.net.with(|exos| exos.stack.config().mtu);
                return Ok(Answer::Value(mtu as i64));
            }
            None => return fails(libc::ENOPROTOOPT),
        }
        Ok(Answer::Value(0))
    }

    /// A process is about to become another program, which may know nothing of shared sockets: those that it keeps are Unix sockets
    /// from now on. It may be one that we do not know, whose descriptors are its parent's (vfork(2)).
    pub fn becomes_another(&mut self, call: &Call) -> io::Result<Answer> {
        // What is not known of it the kernel finds out.
        let _ = self.offer_library(call);
        let Some(sharing) = self.sharing.as_ref().filter(|sharing| sharing.count > 0) else {
            return Ok(Answer::Pass);
        };
        let pid = intercept::process_of(call.thread)?;
        let part = sharing.parts.get(&pid);
        let part = part.or_else(|| sharing.parts.get(&intercept::parent_of(pid).ok()?));
        let Some(&(part, _)) = part else {
            return Ok(Answer::Pass);
        };
        let is_kept = |(fd, _): &(i32, u32)| {
            // One that another thread has closed meanwhile is not.
            let counter = intercept::counter(call.thread, *fd).ok().flatten();
            counter == Some((MARKED_COUNT, false))
        };
        let kept: Vec<_> = sharing.memory.descriptors(part).filter(is_kept).collect();
        for (fd, number) in kept {
            self.unshare(call, fd, number, false)?;
        }
        if let Some(sharing) = &mut self.sharing
            && sharing.parts.contains_key(&pid)
        {
            // And again, for those that take longer to become it.
            for time in EXEC_TIMES {
                sharing.become_another.push((Instant::now() + time, pid));
            }
        }
        Ok(Answer::Pass)
    }

    /// Puts a Unix socket in the place of a descriptor of a shared one, which is shared no more.
    fn unshare(
        &mut self,
        call: &Call,
        fd: i32,
        number: u32,
        close_on_exec: bool,
    ) -> io::Result<()> {
        let Some(sharing) = &mut self.sharing else {
            return Ok(());
        };
        let Some(Some(entry)) = sharing.entries.get_mut(number as usize) else {
            return Ok(());
        };
        if let Kind::Unshared(theirs) = &entry.kind {
            return self.calls.replace(call, fd, theirs.as_fd(), close_on_exec);
        }
        let nonblocking = sharing.memory.socket(number).has(options::NONBLOCK);
        if let Kind::Datagrams(datagrams) = &entry.kind
            && datagrams.socket.is_none()
        {
            // It was not used: it is what it was before.
            let before = datagrams.before.fd.try_clone()?;
            rustix::io::ioctl_fionbio(&before, nonblocking)?;
            self.calls
                .replace(call, fd, before.as_fd(), close_on_exec)?;
            entry.kind = Kind::Unshared(before);
            sharing.memory.socket(number).add(state::UNSHARED);
            sharing.tell_of(number, [true, true]);
            sharing.memory.work().set(number);
            return Ok(());
        }
        let is_datagrams = matches!(entry.kind, Kind::Datagrams(_));
        if is_datagrams {
            // What was written goes first.
            self.turn_of_shared(number);
        }
        let Some(Some(entry)) = self
            .sharing
            .as_mut()
            .map(|s| &mut s.entries[number as usize])
        else {
            return Ok(());
        };
        let (theirs, ours) = match is_datagrams {
            true => pair(SocketType::SEQPACKET, nonblocking)?,
            false => pair(SocketType::STREAM, nonblocking)?,
        };
        self.calls
            .replace(call, fd, theirs.as_fd(), close_on_exec)?;
        let kind = std::mem::replace(&mut entry.kind, Kind::Unshared(theirs.try_clone()?));
        let (family, mut local, peer) = (entry.family, entry.local, entry.peer);
        // Who uses its rings from now on sees that first, and who does now has its lock.
        let Some(sharing) = &self.sharing else {
            return Ok(());
        };
        let socket = sharing.memory.socket(number);
        socket.add(state::UNSHARED);
        for (bit, how) in [
            (state::NO_READS, Shutdown::Read),
            (state::NO_WRITES, Shutdown::Write),
        ] {
            if socket.is(bit) {
                rustix::net::shutdown(&theirs, how)?;
            }
        }
        let kind = self.unshared(number, kind, peer)?;
        if let Some(sharing) = &mut self.sharing {
            sharing.tell_of(number, [true, true]);
            // It may be that nobody of the library's refers to it.
            sharing.memory.work().set(number);
        }
        if is_datagrams
            && local.ip().is_unspecified()
            && let Some(source) = peer.and_then(|peer| self.source_for(peer.ip()))
        {
            local.set_ip(source);
        }
        let has_made = matches!(&kind, sockets::Kind::Listening(l) if !l.made.is_empty());
        let key = self.add(&theirs, ours, family, local, peer, kind)?;
        if has_made {
            self.sockets.all[key].say_readable();
        }
        self.turn(key);
        Ok(())
    }

    /// What a shared socket is, for one that goes by a Unix socket.
    fn unshared(
        &mut self,
        number: u32,
        kind: Kind,
        peer: Option<SocketAddr>,
    ) -> io::Result<sockets::Kind> {
        Ok(match kind {
            Kind::Listening(listening) => {
                self.poll.deregister(&listening.listener)?;
                sockets::Kind::Listening(Listening {
                    listener: listening.listener,
                    made: self.unshared_waiting(number),
                    backlog: listening.backlog,
                    waiting: VecDeque::new(),
                    user: listening.user,
                })
            }
            Kind::Datagrams(datagrams) => self.unshared_datagrams(number, datagrams, peer)?,
            Kind::Connecting(stream, waiting) => {
                self.poll.deregister(&stream)?;
                let filled = 0;
                sockets::Kind::Connecting(Connecting {
                    stream,
                    filled,
                    waiting,
                })
            }
            Kind::Flowing(flowing) => match self.flow_of(number, flowing) {
                Some(flow) => sockets::Kind::Flowing(flow),
                None => sockets::Kind::Failed,
            },
            Kind::Failed | Kind::Unshared(_) => sockets::Kind::Failed,
        })
    }

    /// A socket for datagrams, with what has come and was not read.
    fn unshared_datagrams(
        &mut self,
        number: u32,
        mut datagrams: Datagrams,
        peer: Option<SocketAddr>,
    ) -> io::Result<sockets::Kind> {
        let (Some(sharing), Some(socket)) = (&self.sharing, datagrams.socket.take()) else {
            return Ok(sockets::Kind::Failed);
        };
        self.poll.deregister(&socket)?;
        let shared = sharing.memory.socket(number);
        let _still = sharing.memory.lock_soon(&shared.reads);
        let unread = datagrams.unread(&sharing.memory, number);
        let flow = DatagramFlow::with(socket, peer, unread);
        Ok(sockets::Kind::Datagrams(flow))
    }

    /// The connections that wait in a listener's ring.
    fn unshared_waiting(&mut self, number: u32) -> VecDeque<(Flow, SocketAddr)> {
        let mut made = VecDeque::new();
        let Some(sharing) = &self.sharing else {
            return made;
        };
        let waiting = {
            let _still = sharing
                .memory
                .lock_soon(&sharing.memory.socket(number).reads);
            sharing.memory.inward(number).take(usize::MAX)
        };
        for taken in waiting.chunks_exact(4) {
            let taken = u32::from_ne_bytes(taken.try_into().expect("four"));
            let Some(sharing) = &mut self.sharing else {
                break;
            };
            let Some(Some(entry)) = sharing.entries.get_mut(taken as usize) else {
                continue;
            };
            // A program may have written other numbers there.
            if !entry.is_offered(&sharing.memory, taken) {
                continue;
            }
            let kind = std::mem::replace(&mut entry.kind, Kind::Failed);
            if let (Kind::Flowing(flowing), Some(peer)) = (kind, entry.peer)
                && let Some(flow) = self.flow_of(taken, flowing)
            {
                made.push_back((flow, peer));
            }
            if let Some(sharing) = &mut self.sharing {
                sharing.remove(taken);
            }
        }
        made
    }

    /// A shared connection, with what lies in its rings, to go by a Unix socket.
    fn flow_of(&mut self, number: u32, shared: Flowing) -> Option<Flow> {
        let sharing = self.sharing.as_mut()?;
        sharing.counters.moved.add(shared.moved);
        // It may be over, and out of the set.
        let _ = self.poll.deregister(&shared.stream);
        let memory = &sharing.memory;
        let socket = memory.socket(number);
        let _still = (
            memory.lock_soon(&socket.reads),
            memory.lock_soon(&socket.writes),
        );
        let mut rest = shared
            .rest
            .map_or_else(Vec::new, |rest| rest.as_bytes().to_vec());
        rest.extend(memory.outward(number).take(usize::MAX));
        let unread = memory.inward(number).take(usize::MAX);
        Some(Flow::with(shared.stream, rest, unread, shared.told_end))
    }
}
