//! Text of a layer, [joined](crate::layers) with the rest as it is read.

use super::{Parsed, Parser};
use crate::code::{Block, Statement};
use crate::limits::TEXT_MAX;
use crate::text::error::{Place, TextError};
use crate::text::lexer::Token;

impl Parser<'_> {
    /// Behind `layer`: its name, its header's length, and its block, which is added to the handler's.
    pub(super) fn layer(&mut self, block: &mut Block) -> Parsed<()> {
        let place = self.place();
        let name = self.name()?;
        if name.contains('_') {
            return Err(TextError::at(place, "a layer's name has no `_`".into()));
        }
        let bytes = self.number("how many bytes its header has")?;
        self.expect("{")?;
        let end = self.layers.begin(name, bytes);
        self.regions()?;
        self.statements.push(place);
        block.push(Statement::Need(end));
        let mut places = Vec::new();
        let mut tokens = 0;
        while !self.take("}") {
            let begin = self.next;
            if self.take_word("commit") {
                places.extend(self.commit()?);
            } else if self.is_header() {
                self.header()?;
            } else {
                self.add_statement(block)?;
                continue;
            }
            tokens += self.next - begin;
        }
        self.layers.end();
        self.added.tokens += tokens;
        self.added.places.extend(places);
        Ok(())
    }

    /// Where its statements stand.
    fn commit(&mut self) -> Parsed<Vec<Place>> {
        let begin = self.statements.len();
        self.expect("{")?;
        self.layers.begin_commit();
        let statements = self.statements()?;
        self.layers.end_commit(statements);
        Ok(self.statements.split_off(begin))
    }

    /// Whether a reply without a length stands here.
    fn is_header(&self) -> bool {
        let next = self.tokens.get(self.next + 1).map(|(token, _)| *token);
        self.peek() == Token::Word("reply") && next == Some(Token::Sign("{"))
    }

    /// What the layer's header is in replies.
    fn header(&mut self) -> Parsed<()> {
        self.next += 2;
        while !self.take("}") {
            let place = self.place();
            let part = self.part()?;
            let added = self.layers.add_header(part);
            added.map_err(|what| TextError::at(place, what.into()))?;
        }
        Ok(())
    }

    /// What layers below do before the verdict that stands here. All that is added is no more than the longest text would be.
    pub(super) fn add_commits(&mut self, block: &mut Block) -> Parsed<()> {
        if self.layers.is_in_commit() {
            return Err(self.wrong("a commit ends no message; have it be done before"));
        }
        self.added.total += self.added.tokens;
        if self.added.total > TEXT_MAX {
            return Err(self.wrong("what the layers do before each verdict makes the handler too long; have fewer verdicts, or smaller layers"));
        }
        block.extend(self.layers.commits().iter().cloned());
        self.statements.extend(&self.added.places);
        Ok(())
    }
}
