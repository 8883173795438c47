//! Handlers that the daemon has the kernel run for us.

use exos_filter::gate::Counter;
use exos_host::bpf::MappedArray;
use exos_xok::Protocol;
use exos_xok::limits::HANDLER_BYTES_MAX;
use exos_xok::message::{Answer, Answering, PortWish, Request};

use super::control::{AskError, bad};
use super::lease::Via;
use super::news::News;
use exos_host::error::{Error, ErrorKind};

impl Via {
    /// Has the daemon put a handler before a UDP port of ours, in place of the port's before. Returns its memory. Waits while the
    /// programs of our user have asked for too many.
    ///
    /// # Errors
    ///
    /// The daemon refuses, or is not there; the text is too long for a message; or the memory, of as many bytes, cannot be mapped.
    pub fn download(
        &mut self,
        port: u16,
        handler: String,
        bytes: usize,
    ) -> Result<MappedArray, Error> {
        if handler.len() > HANDLER_BYTES_MAX {
            let what = format!(
                "the handler has {} bytes of text; the daemon takes {HANDLER_BYTES_MAX}",
                handler.len()
            );
            return Err(Error::new(what).of_kind(ErrorKind::Invalid));
        }
        let memory = u32::try_from(bytes).unwrap_or(u32::MAX);
        let request = Request::Download {
            port,
            memory,
            handler,
        };
        self.ask_for_handler(&request, bytes)
    }

    /// Has the daemon have requests to a TCP port of ours answered in the kernel, in place of all handlers before. Returns the memory
    /// of that. Waits as [`download`](Self::download) does.
    ///
    /// # Errors
    ///
    /// The daemon refuses, or is not there; or the memory, of as many bytes, cannot be mapped.
    pub fn answer_requests(
        &mut self,
        answering: Answering,
        bytes: usize,
    ) -> Result<MappedArray, Error> {
        self.ask_for_handler(&Request::AnswerRequests(answering), bytes)
    }

    /// Segments that were dropped beyond the steps of our handlers, as the daemon wrote down twice a second; 0 of a daemon that has just come.
    pub(crate) fn handler_dropped(&self) -> u64 {
        let of_slot = self.shared.tables().slot(self.slot);
        of_slot.map_or(0, |of| of.counters[Counter::HandlerDropped as usize])
    }

    /// Has a person be told of that.
    pub(crate) fn tell_dropped(&mut self) {
        self.news.push_back(News::HandlerDropped);
    }

    fn ask_for_handler(&mut self, request: &Request, bytes: usize) -> Result<MappedArray, Error> {
        let nothing = || bad("no memory of a handler");
        let memory = match self.control()?.ask_while_busy(request) {
            Ok((Answer::Downloaded, mut fds)) => fds.pop().ok_or_else(nothing),
            Ok(_) => Err(nothing()),
            Err(refused @ AskError::Refused(..)) => return Err(refused.into()),
            Err(failed) => Err(failed.into()),
        };
        let memory = memory.and_then(|memory| MappedArray::adopt(memory, bytes));
        memory.inspect_err(|_| self.let_go_of(request))
    }

    /// Has the daemon take out what it may have put in force, of which we have nothing. Waits for no answer.
    fn let_go_of(&mut self, request: &Request) {
        let port = match request {
            Request::Download { port, .. } => Some(*port),
            _ => None,
        };
        if let Ok(control) = self.control() {
            let _ = control.send(&Request::RemoveHandler { port });
        }
    }

    /// Claims a UDP port at each of our addresses where it is not ours yet, for a handler.
    ///
    /// # Errors
    ///
    /// It is to be had at none.
    pub fn claim_for_handler(&mut self, port: u16) -> Result<(), Error> {
        let ours: Vec<_> = self.addresses.iter().map(|address| address.ip).collect();
        let (mut has, mut refused) = (false, None);
        for ip in ours {
            if self
                .grants
                .iter()
                .any(|(_, claim)| claim.has_port(Protocol::Udp, ip, port))
            {
                has = true;
                continue;
            }
            match self.claim(Protocol::Udp, ip, PortWish::Number(port), None) {
                Ok(_) => has = true,
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(refused) if !has => Err(refused.into()),
            _ => Ok(()),
        }
    }

    /// Has the datagrams of a port come here again, or all that handlers deal with.
    ///
    /// # Errors
    ///
    /// The daemon refuses, or is not there.
    pub fn remove_handler(&mut self, port: Option<u16>) -> Result<(), AskError> {
        self.ask(&Request::RemoveHandler { port }).map(drop)
    }
}
