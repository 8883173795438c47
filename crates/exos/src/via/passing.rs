//! Connections that go from one program of the daemon to another: the grant of the four-tuple goes with them, by a ticket.
//! It is narrower than any other that covers their packets, so these follow it.

use exos_host::error::{Error, ErrorKind};
use exos_inet::tcp::Flow;
use exos_xok::Protocol;
use exos_xok::message::{Answer, GrantId, Request, Secret};

use super::control;
use super::lease::{State, Via};
use super::leave::covers;
use crate::clock;

impl Via {
    /// Offers the packets of a connection to the program that presents the ticket. They come here until the grant is released.
    ///
    /// # Errors
    ///
    /// No grant covers the connection; the daemon refuses, as it does for a port that several programs share, or is not there.
    pub(crate) fn offer(&mut self, flow: &Flow) -> Result<(GrantId, Secret), Error> {
        let (grant, is_new) = self.grant_of(flow)?;
        let refused = match self.ask(&Request::Share { grant }) {
            Ok(Answer::Ticket(ticket)) => return Ok((grant, ticket)),
            Ok(_) => control::bad("no ticket"),
            Err(error) => error.into(),
        };
        if is_new {
            let _ = self.release(grant);
        }
        Err(refused)
    }

    /// The connection was not taken: who has presented its ticket holds the grant no more, nor is the ticket of use. A daemon that
    /// is away does so when the connection is offered again.
    pub(crate) fn withdraw(&mut self, grant: GrantId) {
        let _ = self.ask(&Request::Withdraw { grant });
    }

    /// The grant of this connection alone, and whether it was made now.
    fn grant_of(&mut self, flow: &Flow) -> Result<(GrantId, bool), Error> {
        let covering = self.grants_kept().filter(|(_, claim)| covers(claim, flow));
        let mut wider = None;
        for (grant, claim) in covering {
            if claim.remote.is_some() {
                return Ok((*grant, false));
            }
            // Of all protocols of an address no part can be one connection.
            if claim.protocol == Protocol::Tcp {
                wider.get_or_insert(*grant);
            }
        }
        let grant = wider.ok_or_else(|| {
            Error::new(format!(
                "the daemon lends no TCP port that {} is of",
                flow.local()
            ))
            .mend("hand over connections of a port that is claimed, by a listener or by connecting")
            .of_kind(ErrorKind::Unsupported)
        })?;
        let narrow = Request::Narrow {
            grant,
            remote: flow.remote().into(),
            port: flow.local().port(),
        };
        let (grant, _) = self.ask_for_grant(&narrow)?;
        Ok((grant, true))
    }

    /// Takes the packets of a connection that another program offers. They come once that one has released them.
    ///
    /// # Errors
    ///
    /// The ticket is for something else; the daemon refuses, or is not there.
    pub(crate) fn take(&mut self, flow: &Flow, ticket: Secret) -> Result<GrantId, Error> {
        let (grant, claim) = self.ask_for_grant(&Request::Import { ticket })?;
        if claim.remote.is_some() && covers(&claim, flow) {
            return Ok(grant);
        }
        let _ = self.release(grant);
        Err(Error::new(format!(
            "the ticket is for {claim}, which is not the connection"
        ))
        .mend("send each connection with the ticket that was written for it")
        .of_kind(ErrorKind::Invalid))
    }

    /// Gives a grant back; false while the daemon is away, and it is to be said again. What a daemon refuses is not ours, and
    /// one that has not answered hears it still.
    pub(crate) fn says_release(&mut self, grant: GrantId) -> bool {
        if self.release(grant).is_err() {
            // Whether it is away shows when it is listened to.
            self.listen(clock::now());
        }
        matches!(self.state, State::There(_))
    }
}
