//! Asks all programs at once, for they sleep at the same time.

use std::cmp::Ordering;
use std::rc::Rc;
use std::thread::sleep;
use std::time::Instant;

use exos::watch::{Question, Socket, askable};

use crate::limits::{ANSWER_TIME, LOOK_EVERY, SOCKETS};

/// A program's stack, as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub program: String,
    pub pid: u32,
    pub interface: String,
}

/// A socket, and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub owner: Rc<Owner>,
    pub socket: Socket,
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
}

/// The sockets of the process `only`, or of all that may be asked.
pub(crate) fn all(only: Option<u32>) -> Found {
    let mut found = Found::default();
    let questions = askable(only).into_iter().map(|one| (one.ask(), Vec::new()));
    let mut questions: Vec<_> = questions.collect();
    let end = Instant::now() + ANSWER_TIME;
    while !questions.is_empty() && Instant::now() < end {
        questions.retain_mut(|(question, sockets)| !take(question, sockets, &mut found));
        if !questions.is_empty() {
            sleep(LOOK_EVERY);
        }
    }
    for (question, _) in &questions {
        let owner = owner(question);
        let name = format!("{} (process {})", owner.program, owner.pid);
        // It may have several stacks.
        if !found.silent.contains(&name) {
            found.silent.push(name);
        }
    }
    found
}

/// Takes what a program has answered; true when it has nothing more to say.
fn take(question: &mut Question, sockets: &mut Vec<Socket>, found: &mut Found) -> bool {
    let is_over = match question.poll(sockets) {
        Ok(is_over) => is_over,
        Err(error) => {
            exos_program::warn!("exos ss: {}", plain(&error.to_string()));
            true
        }
    };
    let is_over = is_over || sockets.len() > SOCKETS;
    if is_over {
        let owner = Rc::new(owner(question));
        let rows = sockets.drain(..).map(|socket| Row {
            owner: Rc::clone(&owner),
            socket,
        });
        found.rows.extend(rows);
    }
    is_over
}

fn owner(question: &Question) -> Owner {
    let of = question.of();
    Owner {
        program: plain(&of.program),
        pid: of.pid,
        interface: plain(&of.interface),
    }
}

/// Text of somebody else's choosing, without what a terminal would obey, or what ends a word.
fn plain(text: &str) -> String {
    let plain = |c: char| if c.is_control() || c == '"' { '?' } else { c };
    text.chars().map(plain).collect()
}
