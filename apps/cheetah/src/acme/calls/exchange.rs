//! One request on one connection: TLS and HTTP/1.1 as a state machine. It performs nothing.
//!
//! | stage | what comes is | then |
//! |---|---|---|
//! | tunnel | the answer of a proxy to CONNECT (RFC 9110 §9.3.6) | the session begins |
//! | session | records of TLS | the request goes when the session stands, and its answer comes inside |
//!
//! An answer is whole when HTTP says so. The end of a connection is the end of an answer only where the session has ended before: anybody
//! on the way can end a connection (RFC 8446 §6.1).

use exos_inet::tcp::Reason;
use exos_tls::client::{Way, told};
use exos_tls::{Session, TlsError};

use super::{Answered, Call, CallError};
use crate::applications::head::Head;
use crate::applications::proxy::answer::{Answer, AnswerError, Question};
use crate::limits::ACME_ANSWER_LEN_MAX;

/// A request that is under way.
pub(super) struct Exchange {
    call: Call,
    /// What a proxy says before the session begins.
    tunnel: Option<Answer>,
    session: Option<Session>,
    has_asked: bool,
    answer: Answer,
    head: Option<Head>,
    body: Vec<u8>,
}

impl Exchange {
    /// Begins on a connection that stands; appends what is to be sent first.
    ///
    /// # Errors
    ///
    /// TLS cannot be spoken.
    pub(super) fn begin(call: Call, out: &mut Vec<u8>) -> Result<Exchange, CallError> {
        let asks_head = call.asks_head;
        let question = |asks_head| Question {
            asks_head,
            ..Question::default()
        };
        let mut exchange = Exchange {
            tunnel: None,
            session: None,
            has_asked: false,
            answer: Answer::to(question(asks_head)),
            head: None,
            body: Vec::new(),
            call,
        };
        match &exchange.call.proxy {
            Some(proxy) => {
                // What follows its head is not its content, as of one to HEAD.
                exchange.tunnel = Some(Answer::to(question(true)));
                out.extend(proxy.words(&exchange.call.host, exchange.call.port));
            }
            None => exchange.begin_session(out)?,
        }
        Ok(exchange)
    }

    fn begin_session(&mut self, out: &mut Vec<u8>) -> Result<(), CallError> {
        let begun = self.call.client.begin(Way::Resumed);
        let mut session = begun.map_err(|e| self.no_session(&e))?;
        let sent = session.receive(&[], out);
        sent.map_err(|e| self.no_session(&e))?;
        self.session = Some(session);
        Ok(())
    }

    /// Takes all of what has come, and appends what is to be sent.
    ///
    /// # Errors
    ///
    /// There will be no answer.
    pub(super) fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, CallError> {
        let mut at = self.receive_tunnel(bytes, out)?;
        loop {
            let Some(session) = &mut self.session else {
                return Ok(at);
            };
            let received = session.receive(&bytes[at..], out);
            let taken = match received {
                Ok(taken) => taken,
                Err(error) => return Err(self.no_session(&error)),
            };
            at += taken;
            if !self.has_asked && session.is_established() {
                self.has_asked = true;
                if let Err(error) = session.seal(&[&self.call.words], out) {
                    return Err(self.no_session(&error));
                }
            }
            let has_more = self.hear()?;
            if self.is_whole() {
                self.close(out);
                return Ok(bytes.len());
            }
            if taken == 0 && !has_more {
                return Ok(at);
            }
        }
    }

    /// What a proxy says, where there is one: how many bytes of it.
    fn receive_tunnel(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, CallError> {
        let Some(tunnel) = &mut self.tunnel else {
            return Ok(0);
        };
        let taken = tunnel.take(bytes, |_| false, &mut Vec::new());
        let taken = taken.map_err(|error| self.no_tunnel(&error.to_string()))?;
        match taken.head {
            None => Ok(taken.count),
            Some(head) if (200..300).contains(&head.code) => {
                self.tunnel = None;
                self.begin_session(out)?;
                Ok(taken.count)
            }
            Some(head) => Err(self.no_tunnel(&format!("it answers {} {}", head.code, head.reason))),
        }
    }

    /// Takes what has come inside the session; true when there was something.
    fn hear(&mut self) -> Result<bool, CallError> {
        let Some(session) = &mut self.session else {
            return Ok(false);
        };
        let readable = session.readable();
        let count = readable.len();
        let taken = self.answer.take(readable, |_| false, &mut self.body);
        session.consume(count);
        let failed = |error: AnswerError| CallError::Failed(error.to_string());
        self.head = self.head.take().or(taken.map_err(failed)?.head);
        if self.body.len() as u64 > ACME_ANSWER_LEN_MAX {
            let long = format!("its answer is longer than {ACME_ANSWER_LEN_MAX} bytes");
            return Err(CallError::Failed(long));
        }
        if session.is_peer_closed() && self.answer.ends_with(Reason::Done) {
            return Ok(false);
        }
        Ok(count > 0)
    }

    /// The connection has ended, `how` in words.
    ///
    /// # Errors
    ///
    /// Before the answer was whole.
    pub(super) fn end(&self, how: &str) -> Result<(), CallError> {
        match self.is_whole() {
            true => Ok(()),
            false => Err(CallError::Failed(format!(
                "{} {how} before the answer was whole",
                self.call.host
            ))),
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if let Some(session) = &mut self.session {
            session.close(out);
        }
    }

    /// The answer is there.
    pub(super) fn is_whole(&self) -> bool {
        self.head.is_some() && self.answer.is_over()
    }

    /// The answer, once it [is there](Exchange::is_whole).
    pub(super) fn take_answer(&mut self) -> Option<Answered> {
        let head = if self.is_whole() {
            self.head.take()?
        } else {
            return None;
        };
        let body = std::mem::take(&mut self.body);
        Some(Answered { head, body })
    }

    fn no_session(&self, error: &TlsError) -> CallError {
        CallError::Failed(told(error, &self.call.host).what)
    }

    fn no_tunnel(&self, why: &str) -> CallError {
        let proxy = self.call.proxy.as_ref();
        let name = proxy.map_or("", |proxy| &*proxy.host);
        CallError::Failed(format!(
            "the proxy {name} (HTTPS_PROXY) does not lead to {}: {why}",
            self.call.host
        ))
    }
}

#[cfg(test)]
#[path = "exchange/tests.rs"]
mod tests;
