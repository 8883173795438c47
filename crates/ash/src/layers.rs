//! Layers of a handler: each has a header of the message, the next what stands behind it. They are joined as they are read or built, so that
//! what is checked, counted and run is one handler without layers.
//!
//! - A byte of a layer is counted from its header on, and so is the length; a header that is not there gives the message up.
//! - Names that begin in a layer are its own: `next` of `layer session` is `session_next` to all others.
//! - What a layer does when the message has been dealt with (its commit), and what its header is in a reply, go to each `reply` and `done` of
//!   those above it, the lowest layer's first. A commit has no verdict itself: it would have those below once more.

use crate::code::{Block, Expression, Operator, Part, Reply};
use crate::limits::MESSAGE_MAX;

/// Which layer is being made, and what those below it add.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    open: Option<Open>,
    /// What it does before verdicts is being made: no variable begins there, for it would begin at each of them.
    in_commit: bool,
    /// Bytes of the headers of those below.
    below: u16,
    commits: Block,
    headers: Vec<Part>,
}

/// A layer that is being made.
#[derive(Debug)]
struct Open {
    name: String,
    /// The byte of the message behind its header.
    end: u16,
    commits: Block,
    header: Vec<Part>,
}

impl Layers {
    /// A layer begins; returns the byte of the message behind its header.
    pub(crate) fn begin(&mut self, name: &str, bytes: u16) -> u16 {
        let end = self.byte(bytes);
        self.open = Some(Open {
            name: name.to_owned(),
            end,
            commits: Block::new(),
            header: Vec::new(),
        });
        end
    }

    /// It ends: what is made from here on is above it.
    pub(crate) fn end(&mut self) {
        if let Some(layer) = self.open.take() {
            self.below = layer.end;
            self.commits.extend(layer.commits);
            self.headers.extend(layer.header);
        }
    }

    /// Whether one is being made.
    pub(crate) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// What a name of the layer is called in the whole handler, where some are known.
    pub(crate) fn full_name(&self, name: &str, is_known: impl Fn(&str) -> bool) -> String {
        match self
            .open
            .as_ref()
            .map(|layer| format!("{}_{name}", layer.name))
        {
            Some(own) if is_known(&own) || !is_known(name) => own,
            _ => name.to_owned(),
        }
    }

    /// A layer's commit begins.
    pub(crate) fn begin_commit(&mut self) {
        self.in_commit = true;
    }

    /// It ends, and this is done by it.
    pub(crate) fn end_commit(&mut self, block: Block) {
        self.in_commit = false;
        if let Some(layer) = &mut self.open {
            layer.commits.extend(block);
        }
    }

    /// Whether a commit is being made.
    pub(crate) const fn is_in_commit(&self) -> bool {
        self.in_commit
    }

    /// A part of the open layer's header in replies.
    pub(crate) fn add_header(&mut self, part: Part) -> Result<(), &'static str> {
        match &mut self.open {
            Some(layer) if is_before(&part, layer.end) => layer.header.push(part),
            Some(_) => return Err("a header in a reply is made of numbers within it"),
            None => return Err("a layer has a header in replies; here is none"),
        }
        Ok(())
    }

    /// The byte of the message that is this one of the layer.
    pub(crate) fn byte(&self, at: u16) -> u16 {
        self.below.saturating_add(at)
    }

    /// As [`byte`](Self::byte), of one that is computed.
    pub(crate) fn computed_byte(&self, at: Expression) -> Expression {
        let below = u64::from(self.below);
        match at {
            _ if below == 0 => at,
            Expression::Constant(at) => Expression::Constant(at.saturating_add(below)),
            _ if at == self.length() => Expression::Length,
            _ => {
                let below = Box::new(Expression::Constant(below));
                Expression::Binary(Operator::Add, Box::new(at), below)
            }
        }
    }

    /// Bytes of the layer's message.
    pub(crate) fn length(&self) -> Expression {
        let length = Expression::Length;
        match self.below {
            0 => length,
            below => {
                let below = Box::new(Expression::Constant(below.into()));
                Expression::Binary(Operator::Subtract, Box::new(length), below)
            }
        }
    }

    /// What those below have done before a verdict.
    pub(crate) fn commits(&self) -> &Block {
        &self.commits
    }

    /// A reply of this length; where that is computed it has a limit, or is as long as the message.
    pub(crate) fn reply(
        &self,
        length: Expression,
        most: Option<u16>,
        parts: impl IntoIterator<Item = Part>,
    ) -> Option<Reply> {
        let length = self.computed_byte(length);
        let most = match (most, length.constant()) {
            (Some(most), _) => self.byte(most),
            (None, Some(length)) => u16::try_from(length).unwrap_or(u16::MAX),
            (None, None) if length == Expression::Length => MESSAGE_MAX,
            (None, None) => return None,
        };
        let parts = self.headers.iter().cloned().chain(parts).collect();
        Some(Reply {
            length,
            most,
            parts,
        })
    }
}

fn is_before(part: &Part, end: u16) -> bool {
    match part {
        Part::Number { format, at, .. } => {
            u32::from(*at) + u32::from(format.bytes) <= u32::from(end)
        }
        Part::Row { .. } => false,
    }
}
