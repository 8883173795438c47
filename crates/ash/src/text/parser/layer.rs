//! Layers of a handler: each has a header of the message, the next what stands behind it. They are joined as they are read, so that what
//! is checked, counted and run is one handler without layers.
//!
//! - A byte of a layer is counted from its header on, and so is `length`; a header that is not there gives the message up.
//! - Names that begin in a layer are its own: `next` of `layer session` is `session_next` to all others.
//! - What a layer does when the message has been dealt with (`commit`), and what its header is in a reply (`reply` without a length), go to
//!   each `reply` and `done` of those above it, the lowest layer's first. A `commit` has no verdict itself: it would have those below once more.

use super::{Parsed, Parser, TextError};
use crate::code::{Block, Expression, Operator, Part, Statement};
use crate::limits::TEXT_MAX;
use crate::text::lexer::{Place, Token};

/// Where the parser is among the layers, and what those below have to add.
#[derive(Default)]
pub(super) struct Layers<'a> {
    /// The layer that is being read.
    name: Option<&'a str>,
    /// What it does before verdicts is being read: no variable begins there, for it would begin at each of them.
    in_commit: bool,
    /// Bytes of the headers of those below.
    below: u16,
    commits: Commits,
    headers: Vec<Part>,
    /// Words and signs of commits and headers of those below, and how many were added to verdicts so far.
    tokens: usize,
    added: usize,
}

/// What is done before a verdict, and where each of these statements, and of those within them, stands.
#[derive(Clone, Default)]
struct Commits {
    statements: Block,
    places: Vec<Place>,
}

impl Commits {
    fn extend(&mut self, more: Self) {
        self.statements.extend(more.statements);
        self.places.extend(more.places);
    }
}

impl Layers<'_> {
    /// What a name of the layer is called in the whole handler, where some are known.
    pub(super) fn full_name(&self, name: &str, is_known: impl Fn(&str) -> bool) -> String {
        match self.name.map(|layer| format!("{layer}_{name}")) {
            Some(own) if is_known(&own) || !is_known(name) => own,
            _ => name.to_owned(),
        }
    }

    /// Whether a variable may begin here.
    pub(super) const fn takes_variables(&self) -> bool {
        !self.in_commit
    }

    /// The byte of the message that is this one of the layer.
    pub(super) fn byte(&self, at: u16) -> u16 {
        self.below.saturating_add(at)
    }

    /// As [`byte`](Self::byte), of one that is computed.
    pub(super) fn computed_byte(&self, at: Expression) -> Expression {
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
    pub(super) fn length(&self) -> Expression {
        let length = Expression::Length;
        match self.below {
            0 => length,
            below => {
                let below = Box::new(Expression::Constant(below.into()));
                Expression::Binary(Operator::Subtract, Box::new(length), below)
            }
        }
    }

    /// What those below have a reply begin with.
    pub(super) fn headers(&self) -> Vec<Part> {
        self.headers.clone()
    }
}

impl<'a> Parser<'a> {
    /// Behind `layer`: its name, its header's length, and its block, which is added to the handler's.
    pub(super) fn layer(&mut self, block: &mut Block) -> Parsed<()> {
        let place = self.place();
        let name = self.name()?;
        if name.contains('_') {
            return Err(TextError::at(place, "a layer's name has no `_`".into()));
        }
        let bytes = self.number("how many bytes its header has")?;
        self.expect("{")?;
        self.layers.name = Some(name);
        self.regions()?;
        let end = self.layers.byte(bytes);
        self.statements.push(place);
        block.push(Statement::Need(end));
        let (mut commits, mut header) = (Commits::default(), Vec::new());
        let mut tokens = 0;
        while !self.take("}") {
            let begin = self.next;
            if self.take_word("commit") {
                commits.extend(self.commit()?);
            } else if self.is_header() {
                header.extend(self.header(end)?);
            } else {
                self.add_statement(block)?;
                continue;
            }
            tokens += self.next - begin;
        }
        let layers = &mut self.layers;
        layers.tokens += tokens;
        layers.name = None;
        layers.below = end;
        layers.commits.extend(commits);
        layers.headers.extend(header);
        Ok(())
    }

    fn commit(&mut self) -> Parsed<Commits> {
        let begin = self.statements.len();
        self.expect("{")?;
        self.layers.in_commit = true;
        let statements = self.statements()?;
        self.layers.in_commit = false;
        let places = self.statements.split_off(begin);
        Ok(Commits { statements, places })
    }

    /// Whether a reply without a length stands here.
    fn is_header(&self) -> bool {
        let next = self.tokens.get(self.next + 1).map(|(token, _)| *token);
        self.peek() == Token::Word("reply") && next == Some(Token::Sign("{"))
    }

    /// What the layer's header, which ends with this byte of the message, is in replies.
    fn header(&mut self, end: u16) -> Parsed<Vec<Part>> {
        self.next += 2;
        let mut parts = Vec::new();
        while !self.take("}") {
            let place = self.place();
            let part = self.part()?;
            let is_within = matches!(&part, Part::Number { format, at, .. }
                if u32::from(*at) + u32::from(format.bytes) <= u32::from(end));
            if !is_within {
                let what = "a header in a reply is made of numbers within it";
                return Err(TextError::at(place, what.into()));
            }
            parts.push(part);
        }
        Ok(parts)
    }

    /// What layers below do before the verdict that stands here. All that is added is no more than the longest text would be.
    pub(super) fn add_commits(&mut self, block: &mut Block) -> Parsed<()> {
        if self.layers.in_commit {
            return Err(self.wrong("a commit ends no message; have it be done before"));
        }
        self.layers.added += self.layers.tokens;
        if self.layers.added > TEXT_MAX {
            return Err(self.wrong("what the layers do before each verdict makes the handler too long; have fewer verdicts, or smaller layers"));
        }
        let commits = &self.layers.commits;
        block.extend(commits.statements.iter().cloned());
        self.statements.extend(&commits.places);
        Ok(())
    }
}
