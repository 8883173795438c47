//! What programs ask, and what is answered.
//!
//! Each request is looked at in this order: is it in place here (has a slot), does policy allow it, does the ledger. Only
//! then is anything changed, and the packet path is told before the program is.
//!
//! Nothing asks whether Hello came before, or was refused. It tells a newcomer early that versions differ, and protects
//! nothing: every request is checked by itself, and a program of another version that holds a slot comes back by it.

use std::net::IpAddr;

use exos_xok::message::{Answer, PortWish, Refusal, Request, VERSION};

use super::Daemon;
use super::answers::{AnswerWithFds, Answered, Refused, RequestId, plain, refuse};
use super::attachment::Change;
use super::grants::Wish;
use super::slots::Wanted;
use super::taps::Wanted as TapWanted;
use crate::clock::now;
use crate::interface::Interface;
use crate::ledger::SlotId;
use crate::policy::Who;
use crate::server::ConnectionId;

/// Whether the answer passes descriptors, which take places in the daemon's table while it waits to be read.
fn is_answered_with_descriptors(request: &Request) -> bool {
    use Request::{AnswerRequests, Attach, Bypass, Download, Hello, Status, Tap};
    matches!(
        request,
        Hello { .. }
            | Attach { .. }
            | Bypass
            | Download { .. }
            | AnswerRequests(_)
            | Status
            | Tap { .. }
    )
}

impl Daemon {
    /// Does what a program asks, and answers: at once, or when what takes long is done.
    pub(super) fn handle(&mut self, id: ConnectionId, tag: u32, request: Request) {
        let request_id = RequestId {
            connection: id,
            tag,
        };
        self.server.hold(id);
        let answered = self.answer(request_id, request);
        if let Some(answered) = answered.transpose() {
            self.reply(request_id, answered);
        }
    }

    /// Answers a request, and hears the program again.
    pub(super) fn reply(&mut self, request_id: RequestId, answered: Answered) {
        let (answer, fds) = answered.unwrap_or_else(|refused| {
            *self.refusals.entry(refused.code.into()).or_default() += 1;
            let Refused { code, text } = refused;
            (Answer::Refused { code, text }, Vec::new())
        });
        let granted = matches!(
            answer,
            Answer::Granted { .. } | Answer::GrantedFilter { .. } | Answer::Done
        );
        let attached = matches!(answer, Answer::Attached { .. });
        let id = request_id.connection;
        self.server.resume(id);
        self.server.say(id, answer.encode(request_id.tag), fds);
        match self.slot_of(id) {
            Some(slot) if granted => self.write_slot(slot),
            Some(slot) if attached => self.remind(slot),
            _ => {}
        }
    }

    /// Does what is asked. `None` when it is answered later.
    fn answer(
        &mut self,
        request_id: RequestId,
        request: Request,
    ) -> Result<Option<AnswerWithFds>, Refused> {
        let id = request_id.connection;
        let (who, pid) = self.asker(id, &request)?;
        let later = |()| None;
        let answered = match request {
            Request::Attach {
                interface,
                mode,
                chunks,
                program,
            } => {
                let wanted = Wanted {
                    interface,
                    mode,
                    chunks,
                    program,
                };
                return self.attach(request_id, &who, pid, wanted);
            }
            Request::ClaimFilter { filter } => {
                return self.claim_filter(request_id, &who, filter).map(later);
            }
            Request::Release { grant } if self.is_filter(self.slot(id)?, grant) => {
                let slot = self.slot(id)?;
                self.change_filters(slot, Change::Release(Some(request_id), vec![grant]));
                return Ok(None);
            }
            Request::Bypass => return self.lend_bypass(request_id).map(later),
            Request::Download {
                port,
                memory,
                handler,
            } => {
                let wanted = (port, memory, handler);
                return self.download(request_id, &who, wanted).map(later);
            }
            Request::AnswerRequests(answering) => {
                return self.answer_requests(request_id, &who, answering).map(later);
            }
            Request::Tap {
                interface,
                filter,
                snap,
                all,
            } => {
                let wanted = TapWanted {
                    interface,
                    filter,
                    snap,
                    all,
                };
                return self.tap(request_id, &who, wanted).map(later);
            }
            Request::Hello { version } => self.hello(version),
            Request::Reattach { token } => self.reattach(id, (&who, pid), &token),
            Request::Claim {
                protocol,
                local,
                port,
                remote,
            } => {
                let wish = Wish {
                    protocol,
                    local,
                    port,
                    remote,
                };
                self.claim(self.slot(id)?, &who, &wish)
            }
            Request::ClaimDivided {
                protocol,
                local,
                port,
            } => {
                let wish = Wish {
                    protocol,
                    local,
                    port: PortWish::Number(port),
                    remote: None,
                };
                self.claim_divided(self.slot(id)?, &who, &wish)
            }
            Request::Retire { grant } => self.retire(self.slot(id)?, grant),
            Request::Narrow {
                grant,
                remote,
                port,
            } => self.narrow(self.slot(id)?, grant, remote, port),
            Request::AwaitSuccessor { grant, ms } => {
                self.await_successor(self.slot(id)?, grant, ms)
            }
            Request::Release { grant } => self.release(self.slot(id)?, grant),
            Request::Share { grant } => self.share(self.slot(id)?, grant),
            Request::Withdraw { grant } => self.withdraw(self.slot(id)?, grant),
            Request::Import { ticket } => self.import(self.slot(id)?, &ticket),
            Request::Resolve { ip } => self.resolve(self.slot(id)?, ip),
            Request::RemoveHandler { port } => self.remove_handler(self.slot(id)?, port),
            Request::Status => self.status(&who),
            Request::StepAside => self.step_aside(&who),
            Request::Untap { tap } => self.untap(id, tap),
            Request::TimeWait { grant, entries } => {
                self.keep_time_wait(self.slot(id)?, grant, &entries)
            }
        };
        answered.map(Some)
    }

    /// Who asks for this, and by which process, where it may be answered on its connection now.
    fn asker(&self, id: ConnectionId, request: &Request) -> Result<(Who, u32), Refused> {
        let connection = self.server.connection(id);
        let connection = connection.filter(|connection| !connection.has_hung_up());
        let connection = connection.ok_or_else(|| refuse(Refusal::NotFound, "gone"))?;
        if connection.is_behind() && is_answered_with_descriptors(request) {
            let text = "read the answers that wait before asking for what descriptors come with";
            return Err(refuse(Refusal::Limit, text));
        }
        Ok((connection.who(), connection.peer.pid))
    }

    fn status(&mut self, who: &Who) -> Answered {
        let (bytes, fd) = self.lend_report()?;
        let asker = self.report_asker(who).to_string();
        Ok((Answer::Report { bytes, asker }, vec![fd.into()]))
    }

    fn step_aside(&mut self, who: &Who) -> Answered {
        if who.uid != rustix::process::geteuid().as_raw() {
            let text = "only the user that the daemon runs as may replace it";
            return Err(refuse(Refusal::NotAllowed, text));
        }
        self.replaced = true;
        plain(Answer::Done)
    }

    fn hello(&mut self, version: u16) -> Answered {
        if version != VERSION {
            let text = format!(
                "this daemon speaks version {VERSION} and the program {version}; use programs and a daemon of one version"
            );
            return Err(refuse(Refusal::Version, text));
        }
        // What the host has said until now, and nothing is asked: it may have many routes.
        self.serve_host(now())?;
        let info = |i: &Interface| i.info(self.host.gateways(i.link.index));
        let welcome = Answer::Welcome {
            version: VERSION,
            pid: std::process::id(),
            interfaces: self.interfaces.iter().map(info).collect(),
        };
        Ok((welcome, vec![self.tables.descriptor()]))
    }

    /// Finds a neighbour for a slot.
    fn resolve(&mut self, slot: SlotId, ip: IpAddr) -> Answered {
        let now = now();
        let owner = self.owner(slot);
        let user = (owner.standing, owner.who.uid);
        self.resolves.count(user, now)?;
        let index = self.attachments[&slot].interface;
        let (netlink, tables) = (&self.netlink, &mut self.tables);
        if let Some(interface) = self.interfaces.iter_mut().find(|i| i.link.index == index)
            && let Some(known) = interface.resolve(netlink, now, ip)?
        {
            tables.set_neighbour(&known);
        }
        plain(Answer::Done)
    }
}
