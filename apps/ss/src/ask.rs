//! Asks all programs at once, for they sleep at the same time.

use std::cmp::Ordering;
use std::rc::Rc;
use std::thread::sleep;
use std::time::Instant;

use exos::Error;
use exos::watch::{Askables, Question, Socket, askable};
use exos_program::text::plain;
use schemars::JsonSchema;
use serde::Serialize;

use crate::limits::{ANSWER_TIME, LOOK_EVERY, SOCKETS, SOCKETS_EACH};
use crate::users;

/// A program's stack, as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub program: String,
    pub pid: u32,
    pub interface: String,
}

/// A process that has a socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct User {
    /// Its name, as ps has it; of a program that speaks for itself that of its own choosing.
    pub(crate) program: String,
    /// Its number.
    pub(crate) pid: u32,
}

/// A socket, and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub owner: Rc<Owner>,
    pub socket: Socket,
    /// Who has it.
    pub users: Vec<User>,
}

impl Row {
    /// By program, then listeners first, then by port and peer.
    pub fn order(&self, other: &Self) -> Ordering {
        let key = |row: &Self| {
            let socket = &row.socket;
            let connects = socket.peer.is_some();
            (row.owner.pid, connects, socket.port, socket.peer)
        };
        key(self).cmp(&key(other))
    }
}

/// What programs have said.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub rows: Vec<Row>,
    /// Those that have not said all, by name.
    pub silent: Vec<String>,
    /// There are others, or others may be: it was said why.
    pub is_cut: bool,
}

/// The sockets of the process `only`, or of all that may be asked.
pub(crate) fn all(only: Option<u32>) -> Found {
    let mut asked = askable(only);
    // It may have sockets of another's, who speaks for it.
    let is_others = only.is_some() && asked.stacks.is_empty();
    if is_others {
        asked = askable(None);
    }
    let mut found = ask_all(asked);
    users::find(&mut found.rows);
    if is_others {
        let is_its = |row: &Row| row.users.iter().any(|user| Some(user.pid) == only);
        found.rows.retain(is_its);
    }
    found
}

fn ask_all(askable: Askables) -> Found {
    let mut found = Found::default();
    for error in &askable.left_out {
        found.cut(error);
    }
    let questions = askable
        .stacks
        .into_iter()
        .map(|one| (one.ask(), Vec::new()));
    let mut questions: Vec<_> = questions.collect();
    let end = Instant::now() + ANSWER_TIME;
    let mut room = SOCKETS;
    while !questions.is_empty() && room > 0 && Instant::now() < end {
        round(&mut questions, &mut room, |(question, sockets)| {
            let before = sockets.len();
            let answer = question.poll(sockets);
            let told = sockets.len() - before;
            (take(answer, question, sockets, &mut found), told)
        });
        if !questions.is_empty() {
            sleep(LOOK_EVERY);
        }
    }
    for (question, sockets) in questions {
        found.has_more(&question, sockets);
    }
    found
}

impl Found {
    fn add(&mut self, owner: Owner, sockets: Vec<Socket>) {
        let owner = Rc::new(owner);
        let rows = sockets.into_iter().map(|socket| Row {
            owner: Rc::clone(&owner),
            users: Vec::new(),
            socket,
        });
        self.rows.extend(rows);
    }

    /// Some are not found: says why.
    fn cut(&mut self, why: &Error) {
        exos_program::warn!("exos ss: {}", plain(&why.to_string()));
        self.is_cut = true;
    }

    /// A program has not said all of its sockets.
    fn has_more(&mut self, question: &Question, sockets: Vec<Socket>) {
        let owner = owner(question);
        let name = format!("{} (process {})", owner.program, owner.pid);
        // It may have several stacks.
        if !self.silent.contains(&name) {
            self.silent.push(name);
        }
        self.add(owner, sockets);
    }
}

/// Asks each once, until there is no room for more sockets: `ask` says whether that one is done, and how many it has told. The others
/// stay.
fn round<T>(
    questions: &mut Vec<T>,
    room: &mut usize,
    mut ask: impl FnMut(&mut T) -> (bool, usize),
) {
    questions.retain_mut(|question| {
        if *room == 0 {
            return true;
        }
        let (is_done, told) = ask(question);
        *room = room.saturating_sub(told);
        !is_done
    });
}

/// Takes what a program has answered; true when it is not asked any more.
fn take(
    answer: Result<bool, Error>,
    question: &Question,
    sockets: &mut Vec<Socket>,
    found: &mut Found,
) -> bool {
    match answer {
        Ok(false) if sockets.len() <= SOCKETS_EACH => return false,
        Ok(false) => found.has_more(question, std::mem::take(sockets)),
        Ok(true) => found.add(owner(question), std::mem::take(sockets)),
        Err(error) => found.cut(&error),
    }
    true
}

fn owner(question: &Question) -> Owner {
    let of = question.of();
    Owner {
        program: users::quoted(&of.program),
        pid: of.pid,
        interface: plain(&of.interface),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_where_there_is_no_room() {
        let mut asked = 0;
        let mut room = 10_000;
        let mut questions = vec![(); 100];
        for _ in 0..2 {
            round(&mut questions, &mut room, |()| {
                asked += 1;
                (false, 4096)
            });
            assert_eq!((asked, room, questions.len()), (3, 0, 100));
        }
        room = 1;
        round(&mut questions, &mut room, |()| (true, 0));
        assert_eq!((room, questions.len()), (1, 0));
    }
}
