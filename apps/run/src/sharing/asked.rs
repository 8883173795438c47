//! What programs ask for by way of the library, and what becomes of their sockets when they become other programs.

use std::iter::successors;
use std::net::{IpAddr, SocketAddr};
use std::{fs, io};

use exos::net::TcpStream;
use exos_host::affinity::runs_where_we_do;
use exos_host::intercept::{self, Call};
use exos_preload::memory::{ADDRESSES_MAX, Ask, DESCRIPTORS};
use procfs::process::{LimitValue, Process};
use rustix::net::AddressFamily;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::addresses::address_of;
use super::engine::Sharing;
use super::entry::{Entry, Kind};
use super::processes::shared_descriptor;
use crate::answer::{Answer, fails};
use crate::context::Context;
use crate::target::{ADDRESS_LEN, Descriptor, read_address, tcp_info, write};
use crate::trace::say;
use crate::unix::UnixSockets;

impl Sharing {
    /// A program asks us for something by way of the library.
    pub fn asked(
        &mut self,
        cx: &Context,
        unix: &mut UnixSockets,
        call: &Call,
    ) -> io::Result<Answer> {
        let (fd, value) = (call.args[0] as i32, call.args[3]);
        // Where it is a number: nothing has the last.
        let number = u32::try_from(value).unwrap_or(u32::MAX);
        match Ask::of(call.args[2] as i32) {
            Some(Ask::Register) => {
                let pid = intercept::process_of(call.thread)?;
                if self.processes.register(&cx.poll, pid, number)? {
                    self.process_ended(pid);
                }
                if self.gathering.has_one_core() && !runs_where_we_do(pid) {
                    self.gathering.has_another_core();
                }
                self.sockets.marks.forget(number);
                self.touched.forget(number);
                return Ok(Answer::Value(pid.into()));
            }
            Some(Ask::Watch) => {
                let pid = intercept::process_of(call.thread)?;
                if self.processes.part_of(pid).is_none() {
                    return fails(libc::EPERM);
                }
                let waker = intercept::descriptor(call.thread, fd)?;
                self.sockets.news.watch(number, waker, pid)?;
            }
            Some(Ask::Unshare) => {
                // Otherwise it has been before, for another of the program's threads.
                if let Some(close_on_exec) = shared_descriptor(call.thread, fd)?
                    && self.is_callers(call, Some(fd), number)?
                {
                    self.sockets
                        .unshare(cx, unix, (call, fd, close_on_exec), number)?;
                }
            }
            // Its number stands in place of a descriptor.
            Some(Ask::Info | Ask::Port) if !self.is_callers(call, None, fd as u32)? => {
                return fails(libc::EBADF);
            }
            Some(Ask::Info) => {
                let entry = self.sockets.table.get(fd as u32);
                let info = entry.and_then(Entry::stream).and_then(TcpStream::info);
                let listens = matches!(entry.map(|entry| &entry.kind), Some(Kind::Listening(_)));
                write(&cx.calls, call, value, &tcp_info(info.as_ref(), listens))?;
            }
            Some(Ask::Datagrams) => return self.asked_for_datagrams(cx, call, fd),
            Some(Ask::Port) => self.sockets.bind_for_use(cx, fd as u32)?,
            Some(Ask::Source) => {
                let from = read_address(&cx.calls, call, value, ADDRESS_LEN as u64)?;
                let is_ours = |ip: IpAddr| ip.is_loopback() || cx.has_address(ip);
                if !from.is_some_and(|from| is_ours(from.ip())) {
                    return fails(libc::EINVAL);
                }
            }
            Some(Ask::NoRoom) => self.say_no_room(call),
            // The interface is not there.
            Some(Ask::Addresses) if is_in_another_network(call.thread) => {}
            Some(Ask::Addresses) => {
                let all = cx.net.with(|exos| {
                    let all = exos.stack.addresses().iter();
                    let records = all.filter_map(|ours| record_of(ours.addr, ours.len));
                    records.take(ADDRESSES_MAX).collect::<Vec<_>>()
                });
                write(&cx.calls, call, value, all.as_flattened())?;
                return Ok(Answer::Value(all.len() as i64));
            }
            None => return fails(libc::ENOPROTOOPT),
        }
        Ok(Answer::Value(0))
    }

    /// A socket for datagrams is to be shared.
    fn asked_for_datagrams(&mut self, cx: &Context, call: &Call, fd: i32) -> io::Result<Answer> {
        let descriptor = Descriptor::of(call, fd)?;
        // These two hold as long as the socket, and are not asked for again.
        let Some(family) = descriptor.udp_family() else {
            return fails(libc::EPROTOTYPE);
        };
        if descriptor.is_bound() {
            return fails(libc::EINVAL);
        }
        // The table of a process has no place for larger numbers.
        let has_place = usize::try_from(fd).is_ok_and(|fd| fd < DESCRIPTORS);
        let Some(part) = self.part_asking(call).filter(|_| has_place) else {
            return fails(libc::ENOPROTOOPT);
        };
        self.sockets
            .share_datagrams(cx, (call, part), &descriptor, family)?;
        Ok(Answer::Value(0))
    }

    /// What a process becomes does without the memory, and has the limits of address space that the program has said.
    fn lower_limits(&self, pid: u32, part: u32) {
        if !self.memory.has_raised_limits(part) {
            return;
        }
        let number = |limit: LimitValue| match limit {
            LimitValue::Unlimited => u64::MAX,
            LimitValue::Value(limit) => limit,
        };
        let pid = pid.cast_signed();
        let (Some(of), Ok(limits)) = (
            Pid::from_raw(pid),
            Process::new(pid).and_then(|process| process.limits()),
        ) else {
            return;
        };
        let limit = limits.max_address_space;
        let kernels = [limit.soft_limit, limit.hard_limit].map(number);
        let said = self.memory.shown_limits(part, kernels);
        let [current, maximum] = said.map(|limit| (limit != u64::MAX).then_some(limit));
        if said != kernels {
            // One whose rights are others keeps them.
            let _ = prlimit(Some(of), Resource::As, Rlimit { current, maximum });
        }
    }

    /// Says once that a process shares no sockets, which may have less address space than they need.
    fn say_no_room(&mut self, call: &Call) {
        if !std::mem::replace(&mut self.has_said_no_room, true) {
            let process = intercept::process_of(call.thread).unwrap_or(call.thread);
            say(format_args!(
                "exos run: process {process} may not have the address space for shared sockets (RLIMIT_AS): it goes by intercepted calls, and its UDP stays the kernel's"
            ));
        }
    }

    /// Whether a shared socket is the caller's: this descriptor of its is it still, for another thread may have closed it and opened
    /// another; or any is, where none is said. A child that has no part (vfork(2)) has its parent's sockets: copies of that one's counter,
    /// where any process can make another of its value.
    fn is_callers(&self, call: &Call, fd: Option<i32>, number: u32) -> io::Result<bool> {
        if let Some(part) = self.part_calling(call) {
            return Ok(match fd {
                Some(fd) => self.memory.assigned(part, fd) == Some(number),
                None => self.of_part(part, number).next().is_some(),
            });
        }
        let pid = intercept::process_of(call.thread)?;
        let parents = successors(Some(pid), |pid| intercept::parent_of(*pid).ok());
        let known = |pid| Some((pid, self.processes.part_of(pid)?));
        let Some((parent, part)) = parents.skip(1).find_map(known) else {
            return Ok(false);
        };
        let Some(of_parent) = self.of_part(part, number).next() else {
            return Ok(false);
        };
        let counter = counter_of(parent, of_parent)?;
        let is_it = |fd| counter_of(call.thread, fd).ok() == Some(counter);
        Ok(match fd {
            Some(fd) => is_it(fd),
            None => self.of_part(part, number).any(is_it),
        })
    }

    /// The descriptors of a process that are this socket.
    fn of_part(&self, part: u32, number: u32) -> impl Iterator<Item = i32> {
        let all = self.memory.descriptors(part);
        all.filter_map(move |(fd, other)| (other == number).then_some(fd))
    }

    /// A process is about to become another program, which may know nothing of shared sockets: those that it keeps are Unix sockets
    /// from now on. It may be one that we do not know, whose descriptors are its parent's (vfork(2)).
    pub fn becomes_another(
        &mut self,
        cx: &Context,
        unix: &mut UnixSockets,
        call: &Call,
    ) -> io::Result<Answer> {
        // What is not known of it the kernel finds out.
        let _ = self.library.offer(&cx.calls, call);
        if self.processes.are_none() {
            return Ok(Answer::Pass);
        }
        let pid = intercept::process_of(call.thread)?;
        let own = self.processes.part_of(pid);
        let of_parent = || self.processes.part_of(intercept::parent_of(pid).ok()?);
        let Some(part) = own.or_else(of_parent) else {
            return Ok(Answer::Pass);
        };
        self.lower_limits(pid, part);
        if self.is_empty() {
            return Ok(Answer::Pass);
        }
        let is_kept = |&(fd, number): &(i32, u32)| {
            // One that another thread has closed meanwhile is not.
            let close_on_exec = shared_descriptor(call.thread, fd).ok().flatten();
            let is_callers = || self.is_callers(call, Some(fd), number).unwrap_or(false);
            close_on_exec == Some(false) && (own.is_some() || is_callers())
        };
        let kept: Vec<_> = self.memory.descriptors(part).filter(is_kept).collect();
        for (fd, number) in kept {
            self.sockets.unshare(cx, unix, (call, fd, false), number)?;
        }
        self.processes.becomes_another(pid);
        Ok(Answer::Pass)
    }
}

/// Which counter (eventfd(2)) a descriptor is: copies of it have its number, and no other has.
///
/// # Errors
///
/// There is no such descriptor, or it is no counter.
fn counter_of(thread: u32, fd: i32) -> io::Result<u64> {
    let info = intercept::text_of(&format!("/proc/{thread}/fdinfo/{fd}"))?;
    let number = info
        .lines()
        .find_map(|line| line.strip_prefix("eventfd-id:"));
    let number = number.and_then(|number| number.trim().parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Whether a thread's network is another than ours (network_namespaces(7)); not where the kernel does not say.
fn is_in_another_network(thread: u32) -> bool {
    let network_of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    matches!((network_of("thread-self"), network_of(&thread.to_string())), (Ok(ours), Ok(its)) if ours != its)
}

/// What programs are told of an address of the stack's ([`Ask::Addresses`]); nothing of one that means something only with an interface.
fn record_of(ip: IpAddr, prefix: u8) -> Option<[u8; 32]> {
    let family = match ip {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => return None,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let mut record = [0; 32];
    record[..28].copy_from_slice(&address_of(SocketAddr::new(ip, 0), family).bytes);
    record[28] = prefix;
    Some(record)
}
