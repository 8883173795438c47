//! Statements.

use super::{Parsed, Parser};
use crate::code::{
    Block, Change, Expression, Find, Part, Pipe, Statement, Take, Update, VariableId, VariableKind,
};
use crate::text::error::{Place, TextError};
use crate::text::lexer::Token;
use crate::text::words::format_named;

/// Changes that are written as calls, with one value.
type OfOne = fn(Expression) -> Change;
const CHANGES: [(&str, OfOne); 5] = [
    ("swap", Change::Store),
    ("add", Change::Add),
    ("and", Change::And),
    ("or", Change::Or),
    ("xor", Change::Xor),
];

/// Pipes that are written as a word's bytes and what they are made with, and whether that must be said: what a register begins with is
/// zero where nothing else is.
type OfWords = fn(u8, Expression) -> Pipe;
const PIPES: [(&str, OfWords, bool); 5] = [
    ("xor", Pipe::Xor, true),
    ("and", Pipe::And, true),
    ("or", Pipe::Or, true),
    ("sum", Pipe::Sum, false),
    ("hash", Pipe::Hash, false),
];
const NOTHING: Expression = Expression::Constant(0);

impl Parser<'_> {
    /// Statements to a closing brace.
    pub(super) fn statements(&mut self) -> Parsed<Block> {
        let mut block = Block::new();
        while !self.take("}") {
            self.add_statement(&mut block)?;
        }
        Ok(block)
    }

    pub(super) fn add_statement(&mut self, block: &mut Block) -> Parsed<()> {
        match self.peek() {
            Token::End => return Err(self.wrong("`}` is missing")),
            Token::Word("reply" | "done") => self.add_commits(block)?,
            _ => {}
        }
        self.statements.push(self.place());
        block.push(self.within(Self::statement)?);
        Ok(())
    }

    fn block(&mut self) -> Parsed<Block> {
        self.expect("{")?;
        self.statements()
    }

    fn statement(&mut self) -> Parsed<Statement> {
        if self.take("*") {
            return self.store();
        }
        let Token::Word(word) = self.peek() else {
            return Err(self.wrong("a statement is expected here"));
        };
        let block_like = match word {
            "if" => Some(self.branches()?),
            "for" => Some(self.repeat()?),
            "reply" => Some(self.reply()?),
            _ => None,
        };
        if let Some(statement) = block_like {
            return Ok(statement);
        }
        let statement = match word {
            "need" => {
                self.next += 1;
                let bytes = self.number("how many bytes")?;
                Statement::Need(self.layers.byte(bytes))
            }
            "break" => self.only(Statement::Break),
            "done" => self.only(Statement::Done),
            "give" => {
                self.next += 1;
                self.expect_word("up")?;
                Statement::GiveUp
            }
            "take" => self.take_row(Vec::new())?,
            _ => match self.change(None)? {
                Some(change) => change,
                None => self.assignment()?,
            },
        };
        self.expect(";")?;
        Ok(statement)
    }

    fn only(&mut self, statement: Statement) -> Statement {
        self.next += 1;
        statement
    }

    fn store(&mut self) -> Parsed<Statement> {
        let place = self.known()?;
        self.expect("=")?;
        let change = Change::Store(self.word()?);
        self.expect(";")?;
        Ok(Statement::Update(Update {
            place,
            change,
            before: None,
        }))
    }

    /// `else` stands before a block or another `if`.
    fn branches(&mut self) -> Parsed<Statement> {
        self.next += 1;
        let condition = self.condition()?;
        let yes = self.block()?;
        let no = match self.take_word("else") {
            true if matches!(self.peek(), Token::Word("if")) => {
                self.statements.push(self.place());
                vec![self.within(Self::branches)?]
            }
            true => self.block()?,
            false => Block::new(),
        };
        Ok(Statement::If(condition, yes, no))
    }

    fn repeat(&mut self) -> Parsed<Statement> {
        self.next += 1;
        let place = self.place();
        let name = self.name()?;
        let counter = self.variable(name, VariableKind::Word, place)?;
        self.expect_word("in")?;
        match self.number::<u64>("0")? {
            0 => self.expect("..")?,
            _ => return Err(self.wrong("repetitions count from 0")),
        }
        let times = self.number("how many times")?;
        Ok(Statement::Repeat(counter, times, self.block()?))
    }

    fn take_row(&mut self, registers: Vec<VariableId>) -> Parsed<Statement> {
        self.next += 1;
        self.expect("(")?;
        let row = self.known()?;
        let (from, length) = self.bytes_to_close()?;
        let mut pipes = Vec::new();
        if self.take_word("through") {
            pipes.push(self.pipe()?);
            while self.take(",") {
                pipes.push(self.pipe()?);
            }
        }
        Ok(Statement::Take(Take {
            row,
            from,
            length,
            pipes,
            registers,
        }))
    }

    fn pipe(&mut self) -> Parsed<Pipe> {
        if self.take_word("checksum") {
            let begin = match self.take("(") {
                true => self.last_word()?,
                false => NOTHING,
            };
            return Ok(Pipe::Checksum(begin));
        }
        let Token::Word(word) = self.peek() else {
            return Err(self.no_pipe());
        };
        let of_words = PIPES.iter().find(|(name, ..)| *name == word);
        if of_words.is_none() && word != "swap" {
            return Err(self.no_pipe());
        }
        self.next += 1;
        self.expect("(")?;
        let bytes = self.number("how many bytes a word has")?;
        let (of, is_said) = match of_words {
            Some((_, of, is_said)) => (of, *is_said),
            None => {
                self.expect(")")?;
                return Ok(Pipe::Swap(bytes));
            }
        };
        if !is_said && self.take(")") {
            return Ok(of(bytes, NOTHING));
        }
        self.expect(",")?;
        Ok(of(bytes, self.last_word()?))
    }

    fn no_pipe(&self) -> TextError {
        self.wrong(
            "a pipe is `swap(4)`, `xor(4, key)`, `and(4, mask)`, `or(4, bits)`, `checksum`, `sum(4)` or `hash(4)`",
        )
    }

    fn last_word(&mut self) -> Parsed<Expression> {
        let word = self.word()?;
        self.expect(")")?;
        Ok(word)
    }

    /// A change that is written as a call, if one stands here.
    fn change(&mut self, before: Option<VariableId>) -> Parsed<Option<Statement>> {
        let Token::Word(word) = self.peek() else {
            return Ok(None);
        };
        let of_one = CHANGES.iter().find(|(name, _)| *name == word);
        if of_one.is_none() && word != "compare_swap" {
            return Ok(None);
        }
        self.next += 1;
        self.expect("(")?;
        let place = self.known()?;
        self.expect(",")?;
        let value = self.word()?;
        let change = match of_one {
            Some((_, of)) => of(value),
            None => {
                self.expect(",")?;
                Change::CompareSwap(value, self.word()?)
            }
        };
        self.expect(")")?;
        Ok(Some(Statement::Update(Update {
            place,
            change,
            before,
        })))
    }

    fn assignment(&mut self) -> Parsed<Statement> {
        let place = self.place();
        let name = self.name()?;
        if self.take(",") {
            return self.take_registers(name, place);
        }
        self.expect("=")?;
        if self.take("&") {
            return self.point(name, place);
        }
        if let Token::Word(word) = self.peek()
            && (word == "compare_swap" || CHANGES.iter().any(|(known, _)| *known == word))
        {
            let before = self.variable(name, VariableKind::Word, place)?;
            let change = self.change(Some(before))?;
            return change.ok_or_else(|| self.wrong("a change is expected here"));
        }
        if self.take_word("find") {
            return self.find(name, place);
        }
        if matches!(self.peek(), Token::Word("take")) {
            let register = self.variable(name, VariableKind::Word, place)?;
            return self.take_row(vec![register]);
        }
        // The value first: it may not be made of the variable that begins here.
        let value = self.word()?;
        let variable = self.variable(name, VariableKind::Word, place)?;
        Ok(Statement::Set(variable, value))
    }

    /// Several variables, of which the first has been read.
    fn take_registers(&mut self, first: &str, place: Place) -> Parsed<Statement> {
        let mut registers = vec![self.variable(first, VariableKind::Word, place)?];
        loop {
            let place = self.place();
            let name = self.name()?;
            registers.push(self.variable(name, VariableKind::Word, place)?);
            if !self.take(",") {
                break;
            }
        }
        self.expect("=")?;
        match self.peek() {
            Token::Word("take") => self.take_row(registers),
            _ => Err(self.wrong("several variables are what `take` keeps: `a, b = take(r, 0, 8) through checksum, sum(4);`")),
        }
    }

    fn point(&mut self, name: &str, place: Place) -> Parsed<Statement> {
        let number = self.known_region()?;
        self.expect("[")?;
        let index = self.word()?;
        self.expect("]")?;
        let variable = self.variable(name, VariableKind::Place(number), place)?;
        Ok(Statement::Point(variable, index))
    }

    fn find(&mut self, name: &str, place: Place) -> Parsed<Statement> {
        self.expect("(")?;
        let table = self.known_region()?;
        let (from, length) = self.bytes_to_close()?;
        Ok(Statement::Find(Find {
            word: self.variable(name, VariableKind::Word, place)?,
            table,
            from,
            length,
        }))
    }

    /// Which bytes of the message, as the last words of a call.
    fn bytes_to_close(&mut self) -> Parsed<(Expression, Expression)> {
        self.expect(",")?;
        let from = self.word()?;
        self.expect(",")?;
        Ok((self.layers.computed_byte(from), self.last_word()?))
    }

    fn known_region(&mut self) -> Parsed<u8> {
        let place = self.place();
        let region = self.name()?;
        let regions = &self.handler.regions;
        let is_known = |name: &str| regions.iter().any(|known| known.name == name);
        let full = self.layers.full_name(region, is_known);
        match regions.iter().position(|known| known.name == full) {
            Some(number) => Ok(number as u8),
            None => Err(TextError::at(place, format!("there is no region {region}"))),
        }
    }

    /// A reply without parts ends with a semicolon.
    fn reply(&mut self) -> Parsed<Statement> {
        self.next += 1;
        let length = self.word()?;
        let place = self.place();
        let most = match self.take_word("up") {
            true => {
                self.expect_word("to")?;
                Some(self.number("how many bytes at most")?)
            }
            false => None,
        };
        let mut parts = Vec::new();
        if !self.take(";") {
            self.expect("{")?;
            while !self.take("}") {
                parts.push(self.part()?);
            }
        }
        let reply = self.layers.reply(length, most, parts);
        let no_limit = "a length that is computed has a limit: `up to 100`";
        let reply = reply.ok_or_else(|| TextError::at(place, no_limit.into()))?;
        Ok(Statement::Reply(reply))
    }

    pub(super) fn part(&mut self) -> Parsed<Part> {
        let Token::Word(word) = self.peek() else {
            return Err(self.wrong("a part of the reply is expected here"));
        };
        let format = format_named(word);
        if format.is_none() && word != "row" {
            return Err(
                self.wrong("a part is a number, as `be32(0) = 1;`, or a row, as `row(0, r, 8);`")
            );
        }
        self.next += 1;
        self.expect("(")?;
        let at = self.number("the first byte")?;
        let at = self.layers.byte(at);
        let part = match format {
            Some(format) => {
                self.expect(")")?;
                self.expect("=")?;
                let value = self.word()?;
                Part::Number { format, at, value }
            }
            None => {
                self.expect(",")?;
                let row = self.known()?;
                self.expect(",")?;
                let length = self.last_word()?;
                Part::Row { at, row, length }
            }
        };
        self.expect(";")?;
        Ok(part)
    }
}
