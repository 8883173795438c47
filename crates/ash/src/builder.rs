//! Handlers built in Rust, where a program computes what they are made of; what is fixed reads better as [text](crate::parse).
//!
//! Each call of a [`Builder`] adds the statement of [`code`](crate::code) that it is named after. Words are [`Expression`]s: numbers,
//! variables, and what operators make of them.

mod word;

pub use word::Word;

use crate::check::{CheckError, Checked, check};
use crate::code::{
    Block, Change, Condition, Expression, Find, Format, Handler, Part, Pipe, Region, RegionKind,
    Statement, Take, Update, Variable, VariableId, VariableKind,
};
use crate::layers::Layers;

/// A region of words.
#[derive(Clone, Copy, Debug)]
pub struct Words(u8);

/// A region of rows.
#[derive(Clone, Copy, Debug)]
pub struct Rows(u8);

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct Keys(u8);

/// A word of memory that is known to exist.
#[derive(Clone, Copy, Debug)]
pub struct Place(VariableId);

/// A row of memory that is known to exist.
#[derive(Clone, Copy, Debug)]
pub struct Row(VariableId);

impl Place {
    /// The word that is there.
    pub fn word(self) -> Expression {
        Expression::Word(self.0)
    }
}

/// A handler that is being built.
///
/// ```
/// use exos_ash::code::{BE32, BE64, Change};
/// use exos_ash::{Builder, Word as _};
///
/// let mut h = Builder::new("counters");
/// let counters = h.words("counters", 1024);
/// h.need(12);
/// let counter = h.place("counter", counters, h.number(BE32, 0));
/// let before = h.change_from("before", counter, Change::Add(h.number(BE64, 4)));
/// h.when(before.at_least(1 << 40), |h| h.done());
/// h.reply(12, [h.put(BE64, 4, before)]);
/// assert!(h.check()?.steps() < 100);
/// # Ok::<(), exos_ash::CheckError>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    name: String,
    regions: Vec<Region>,
    variables: Vec<Variable>,
    /// What is being made, without the blocks that it stands in.
    block: Block,
    /// Blocks that it stands in.
    depth: usize,
    layers: Layers,
    /// What was done first that the checks of a whole handler do not see.
    wrong: Option<&'static str>,
}

impl Builder {
    /// A handler without memory that does nothing, not even end.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            regions: Vec::new(),
            variables: Vec::new(),
            block: Block::new(),
            depth: 0,
            layers: Layers::default(),
            wrong: None,
        }
    }

    /// What was built, if it may run.
    ///
    /// # Errors
    ///
    /// As of [`check`]; or a layer stands in another or in a block, its commit ends messages or has variables of its own, or its header in
    /// replies is not within it.
    pub fn check(self) -> Result<Checked, CheckError> {
        if let Some(what) = self.wrong {
            return Err(CheckError {
                statement: None,
                what: what.into(),
            });
        }
        check(Handler {
            name: self.name,
            regions: self.regions,
            variables: self.variables,
            body: self.block,
        })
    }

    // ---- memory ----

    /// `words NAME[COUNT]`.
    pub fn words(&mut self, name: &str, count: u32) -> Words {
        Words(self.region(name, RegionKind::Words, count))
    }

    /// `rows NAME[COUNT] of BYTES`.
    pub fn rows(&mut self, name: &str, count: u32, bytes: u32) -> Rows {
        Rows(self.region(name, RegionKind::Rows(bytes), count))
    }

    /// `table NAME[SLOTS] of KEY`: keys of up to `key` bytes.
    pub fn table(&mut self, name: &str, slots: u32, key: u32) -> Keys {
        Keys(self.region(name, RegionKind::Table(key), slots))
    }

    fn region(&mut self, name: &str, kind: RegionKind, count: u32) -> u8 {
        let name = self.layers.full_name(name, |_| false);
        self.regions.push(Region { name, kind, count });
        // Of too many the check says so.
        (self.regions.len() - 1) as u8
    }

    // ---- words of the message ----

    /// The number at a byte of the message, or of the layer's.
    pub fn number(&self, format: Format, at: impl Into<Expression>) -> Expression {
        let at = self.layers.computed_byte(at.into());
        Expression::Number(format, Box::new(at))
    }

    /// Bytes of the message, or of the layer's.
    pub fn length(&self) -> Expression {
        self.layers.length()
    }

    // ---- statements ----

    /// Gives the message up if it has fewer bytes.
    pub fn need(&mut self, bytes: u16) {
        let bytes = self.layers.byte(bytes);
        self.add(Statement::Need(bytes));
    }

    /// A variable begins with a value.
    pub fn begin(&mut self, name: &str, value: impl Into<Expression>) -> VariableId {
        let variable = self.variable(name, VariableKind::Word);
        self.set(variable, value);
        variable
    }

    /// A variable gets another value.
    pub fn set(&mut self, variable: VariableId, value: impl Into<Expression>) {
        self.add(Statement::Set(variable, value.into()));
    }

    /// A word of memory by its number; the message is given up where there is none.
    pub fn place(&mut self, name: &str, of: Words, number: impl Into<Expression>) -> Place {
        Place(self.point(name, of.0, number.into()))
    }

    /// A row of memory by its number; the message is given up where there is none.
    pub fn row(&mut self, name: &str, of: Rows, number: impl Into<Expression>) -> Row {
        Row(self.point(name, of.0, number.into()))
    }

    fn point(&mut self, name: &str, region: u8, number: Expression) -> VariableId {
        let variable = self.variable(name, VariableKind::Place(region));
        self.add(Statement::Point(variable, number));
        variable
    }

    /// The word that a table has under these bytes of the message; the message is given up where it has none.
    pub fn find(
        &mut self,
        name: &str,
        table: Keys,
        from: impl Into<Expression>,
        length: impl Into<Expression>,
    ) -> VariableId {
        let word = self.variable(name, VariableKind::Word);
        self.add(Statement::Find(Find {
            word,
            table: table.0,
            from: self.layers.computed_byte(from.into()),
            length: length.into(),
        }));
        word
    }

    /// Changes a word of memory.
    pub fn change(&mut self, place: Place, change: Change) {
        self.add(Statement::Update(Update {
            place: place.0,
            change,
            before: None,
        }));
    }

    /// Changes a word of memory; a variable begins with what it was before.
    pub fn change_from(&mut self, name: &str, place: Place, change: Change) -> VariableId {
        let before = self.variable(name, VariableKind::Word);
        self.add(Statement::Update(Update {
            place: place.0,
            change,
            before: Some(before),
        }));
        before
    }

    /// Copies bytes of the message to a row's beginning; the message is given up where it, or the row, has fewer.
    pub fn take(&mut self, row: Row, from: impl Into<Expression>, length: impl Into<Expression>) {
        self.take_through(row, from, length, []);
    }

    /// Likewise through pipes without registers; the message is given up where the bytes are not whole words, too.
    pub fn take_through(
        &mut self,
        row: Row,
        from: impl Into<Expression>,
        length: impl Into<Expression>,
        pipes: impl IntoIterator<Item = Pipe>,
    ) {
        self.take_registers([], row, from, length, pipes);
    }

    /// Likewise through pipes of which as many have registers as there are names; a variable begins with each, in the pipes' order.
    ///
    /// ```
    /// use exos_ash::Builder;
    /// use exos_ash::code::{Change, Pipe};
    ///
    /// let mut h = Builder::new("stream");
    /// let (lines, state) = (h.rows("lines", 1, 64), h.words("state", 1));
    /// h.need(64);
    /// let (line, hash) = (h.row("line", lines, 0), h.place("hash", state, 0));
    /// let pipes = [Pipe::Checksum(0.into()), Pipe::Hash(4, hash.word())];
    /// let [sum, next] = h.take_registers(["sum", "next"], line, 0, 64, pipes);
    /// h.change(hash, Change::Store(next.into()));
    /// h.reply(2, [h.put(exos_ash::code::BE16, 0, sum)]);
    /// h.check()?;
    /// # Ok::<(), exos_ash::CheckError>(())
    /// ```
    pub fn take_registers<const N: usize>(
        &mut self,
        names: [&str; N],
        row: Row,
        from: impl Into<Expression>,
        length: impl Into<Expression>,
        pipes: impl IntoIterator<Item = Pipe>,
    ) -> [VariableId; N] {
        let registers = names.map(|name| self.variable(name, VariableKind::Word));
        self.add(Statement::Take(Take {
            row: row.0,
            from: self.layers.computed_byte(from.into()),
            length: length.into(),
            pipes: pipes.into_iter().collect(),
            registers: registers.to_vec(),
        }));
        registers
    }

    /// What is done if a condition holds.
    pub fn when(&mut self, condition: Condition, yes: impl FnOnce(&mut Self)) {
        self.when_else(condition, yes, |_| ());
    }

    /// What is done if a condition holds, and if it does not.
    pub fn when_else(
        &mut self,
        condition: Condition,
        yes: impl FnOnce(&mut Self),
        no: impl FnOnce(&mut Self),
    ) {
        let (yes, no) = (self.inner(yes), self.inner(no));
        self.add(Statement::If(condition, yes, no));
    }

    /// What is done `times` times; a variable counts them from 0 on.
    pub fn repeat(&mut self, name: &str, times: u16, body: impl FnOnce(&mut Self, VariableId)) {
        let count = self.variable(name, VariableKind::Word);
        let body = self.inner(|builder| body(builder, count));
        self.add(Statement::Repeat(count, times, body));
    }

    /// Leaves the innermost repetition.
    pub fn leave(&mut self) {
        self.add(Statement::Break);
    }

    // ---- verdicts ----

    /// The message goes to the program.
    pub fn give_up(&mut self) {
        self.add(Statement::GiveUp);
    }

    /// The message was dealt with; nobody sees it.
    pub fn done(&mut self) {
        self.commit_all();
        self.add(Statement::Done);
    }

    /// A reply of this length, or of as many bytes as the message has ([`length`](Self::length)), with these parts.
    pub fn reply(&mut self, length: impl Into<Expression>, parts: impl IntoIterator<Item = Part>) {
        self.add_reply(length.into(), None, parts);
    }

    /// A reply of a length that is computed; the message is given up where that is more than `most`.
    pub fn reply_up_to(
        &mut self,
        length: impl Into<Expression>,
        most: u16,
        parts: impl IntoIterator<Item = Part>,
    ) {
        self.add_reply(length.into(), Some(most), parts);
    }

    fn add_reply(
        &mut self,
        length: Expression,
        most: Option<u16>,
        parts: impl IntoIterator<Item = Part>,
    ) {
        self.commit_all();
        match self.layers.reply(length, most, parts) {
            Some(reply) => self.add(Statement::Reply(reply)),
            None => self.note(Err("a length that is computed has a limit: `reply_up_to`")),
        }
    }

    /// A part of a reply: a number from this byte on.
    pub fn put(&self, format: Format, at: u16, value: impl Into<Expression>) -> Part {
        Part::Number {
            format,
            at: self.layers.byte(at),
            value: value.into(),
        }
    }

    /// A part of a reply: the beginning of a row, from this byte on.
    pub fn put_row(&self, at: u16, row: Row, length: impl Into<Expression>) -> Part {
        Part::Row {
            at: self.layers.byte(at),
            row: row.0,
            length: length.into(),
        }
    }

    // ---- layers ----

    /// A layer with a header of `bytes` bytes, below all that is added behind it. Names that
    /// begin in it are its own: `next` of `layer session` is `session_next`.
    pub fn layer(&mut self, name: &str, bytes: u16, layer: impl FnOnce(&mut Self)) {
        if self.layers.is_open() || self.depth > 0 {
            self.note(Err(
                "a layer stands behind another, not within it or a block",
            ));
        }
        let end = self.layers.begin(name, bytes);
        self.add(Statement::Need(end));
        layer(self);
        self.layers.end();
    }

    /// What the layer does before each [`reply`](Self::reply) and [`done`](Self::done) of those above it.
    pub fn commit(&mut self, commit: impl FnOnce(&mut Self)) {
        if !self.layers.is_open() || self.depth > 0 {
            self.note(Err("a commit is a layer's, and stands in no block of it"));
        }
        self.layers.begin_commit();
        let block = self.inner(commit);
        self.layers.end_commit(block);
    }

    /// What the layer's header is in the replies of those above it: numbers.
    pub fn header(&mut self, parts: impl IntoIterator<Item = Part>) {
        if self.depth > 0 {
            self.note(Err("a layer's header in replies stands in no block of it"));
        }
        for part in parts {
            let added = self.layers.add_header(part);
            self.note(added);
        }
    }

    /// What layers below do before a verdict.
    fn commit_all(&mut self) {
        if self.layers.is_in_commit() {
            self.note(Err("a commit ends no message; have it be done before"));
        }
        let commits = self.layers.commits().iter().cloned();
        self.block.extend(commits);
    }

    // ---- within ----

    /// The block that is made by this.
    fn inner(&mut self, make: impl FnOnce(&mut Self)) -> Block {
        let outer = std::mem::take(&mut self.block);
        self.depth += 1;
        make(self);
        self.depth -= 1;
        std::mem::replace(&mut self.block, outer)
    }

    fn variable(&mut self, name: &str, kind: VariableKind) -> VariableId {
        if self.layers.is_in_commit() {
            self.note(Err("a variable of a commit begins before it"));
        }
        let name = self.layers.full_name(name, |_| false);
        self.variables.push(Variable { name, kind });
        // Of too many the check says so.
        VariableId((self.variables.len() - 1) as u8)
    }

    fn add(&mut self, statement: Statement) {
        self.block.push(statement);
    }

    fn note(&mut self, result: Result<(), &'static str>) {
        self.wrong = self.wrong.or(result.err());
    }
}
