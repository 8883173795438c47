//! What is heard of an answer, in the language that its application speaks.

use exos_inet::tcp::Reason;

use super::application::Address;
use super::proxy::answer::{Answer, Question, Taken};
use super::reply::{Reply, ReplyError};

/// An answer that comes.
#[derive(Debug)]
pub enum Hearing {
    /// Over FastCGI, or over shared buffers.
    Application(Reply),
    /// Over HTTP.
    Upstream(Answer),
}

impl Hearing {
    /// What is said from there.
    pub fn of(address: &Address, question: Question) -> Hearing {
        match address {
            Address::Fastcgi(_) | Address::Shared(_) => Hearing::Application(Reply::default()),
            Address::Http(_) | Address::Https(..) => Hearing::Upstream(Answer::to(question)),
        }
    }

    /// Takes bytes of a connection until the answer is whole. Its content is appended to `content`. `is_set` says which fields a
    /// rule sets instead.
    ///
    /// # Errors
    ///
    /// It is no answer.
    pub fn take(
        &mut self,
        bytes: &[u8],
        is_set: impl Fn(&str) -> bool,
        content: &mut Vec<u8>,
    ) -> Result<Taken, ReplyError> {
        match self {
            Hearing::Application(reply) => {
                let (count, head) = reply.take(bytes, is_set, content)?;
                Ok(Taken {
                    count,
                    head,
                    ..Taken::default()
                })
            }
            Hearing::Upstream(answer) => {
                let taken = answer.take(bytes, is_set, content);
                taken.map_err(ReplyError::Answer)
            }
        }
    }

    /// Takes what a part of an answer over shared buffers says beside its head and its content.
    pub fn take_part(&mut self, said: &[u8], is_last: bool) {
        // HTTP goes over connections alone.
        if let Hearing::Application(reply) = self {
            reply.take_part(said, is_last);
        }
    }

    /// The connection has ended for this reason: true when that ends the answer, as it should.
    pub fn ends_with(&mut self, reason: Reason) -> bool {
        match self {
            Hearing::Application(_) => false,
            Hearing::Upstream(answer) => answer.ends_with(reason),
        }
    }

    /// It is whole.
    pub fn is_over(&self) -> bool {
        match self {
            Hearing::Application(reply) => reply.is_over(),
            Hearing::Upstream(answer) => answer.is_over(),
        }
    }

    /// It is whole, and another may follow on its connection.
    pub fn may_be_followed(&self) -> bool {
        match self {
            Hearing::Application(reply) => reply.is_at_a_record(),
            Hearing::Upstream(answer) => answer.may_be_followed(),
        }
    }

    /// Its head has come, and is of HTTP/1.0.
    pub fn is_old(&self) -> bool {
        match self {
            Hearing::Application(_) => false,
            Hearing::Upstream(answer) => answer.is_old(),
        }
    }

    /// No byte has come.
    pub fn is_fresh(&self) -> bool {
        match self {
            Hearing::Application(reply) => reply.is_fresh(),
            Hearing::Upstream(answer) => answer.is_fresh(),
        }
    }

    /// What an application has said to the operator since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        match self {
            Hearing::Application(reply) => reply.take_warnings(),
            Hearing::Upstream(_) => Vec::new(),
        }
    }
}
