//! A handler as a tree: what it remembers, and what it does with a message.
//!
//! Values are 64-bit words without sign, whose arithmetic wraps. A *place* is a word or a row of the handler's memory that is known to
//! exist: pointing at one is the only step that can find that it does not, and using it cannot fail.

use crate::table::SLOT;

/// Code of a program that runs where a message of its own arrives.
///
/// Anyone may put one together, with a [`Builder`](crate::Builder), by hand or by [parsing](crate::parse). Only what [`check`](crate::check) has accepted runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// What it is called: a letter, then letters, digits and `_`.
    pub name: String,
    /// Its memory, which the program shares.
    pub regions: Vec<Region>,
    /// Its variables.
    pub variables: Vec<Variable>,
    /// What is done with each message.
    pub body: Block,
}

/// Of handlers that were checked.
impl Handler {
    /// The region that a place is in.
    pub(crate) fn region_of(&self, place: VariableId) -> usize {
        match self.variables[usize::from(place.0)].kind {
            VariableKind::Place(region) => usize::from(region),
            VariableKind::Word => unreachable!("checked: a place"),
        }
    }

    /// Bytes of a row.
    pub(crate) fn row_len(&self, row: VariableId) -> u32 {
        match self.regions[self.region_of(row)].kind {
            RegionKind::Rows(bytes) => bytes,
            RegionKind::Words | RegionKind::Table(_) => unreachable!("checked: a row"),
        }
    }
}

/// Memory of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its name, which no other has: a letter, then letters, digits and `_`.
    pub name: String,
    /// What it is made of.
    pub kind: RegionKind,
    /// How many words, rows, or slots of a table.
    pub count: u32,
}

/// What a region is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// Words, changed one at a time and each as a whole. What is written to them is an effect.
    Words,
    /// Rows where parts of messages land, each of this number of bytes, a multiple of 8. Nobody is told of what lands: what a row
    /// holds counts when a word says so.
    Rows(u32),
    /// Keys of up to this number of bytes, a multiple of 8, each with a word: slots for them, a power of two and 8 at least. Only the
    /// program writes it ([`Table`](crate::Table)).
    Table(u32),
}

/// A variable, by its place in [`Handler::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VariableId(pub u8);

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, which no other has: a letter, then letters, digits and `_`.
    pub name: String,
    /// What it holds.
    pub kind: VariableKind,
}

/// What a variable holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// A word.
    Word,
    /// A place in the region with this number.
    Place(u8),
}

/// Statements, one after the other.
pub type Block = Vec<Statement>;

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Gives the message up if it is shorter.
    Need(u16),
    /// A variable becomes a word.
    Set(VariableId, Expression),
    /// A variable becomes a place of its region; the message is given up if there is none with this number.
    Point(VariableId, Expression),
    /// A variable becomes the word that a table has under a part of the message. The message is given up if the table has none, or is
    /// changing there, or the message ends before.
    Find(Find),
    /// A word of memory is changed; another variable may keep what it was before.
    Update(Update),
    /// Bytes of the message go to the beginning of a row, through pipes. The message is given up if it has fewer, or the row has, or they
    /// are not whole words of a pipe.
    Take(Take),
    /// One block or the other.
    If(Condition, Block, Block),
    /// A block this number of times, with a count from 0 on in a variable.
    Repeat(VariableId, u16, Block),
    /// Leaves the innermost repetition.
    Break,
    /// The message goes to the program whole, as it came. Nothing has had an effect.
    GiveUp,
    /// The message was dealt with; nobody sees it.
    Done,
    /// The message was dealt with, and this goes back to its sender.
    Reply(Reply),
}

/// A look-up in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    /// What becomes the word.
    pub word: VariableId,
    /// The table, by its place in [`Handler::regions`].
    pub table: u8,
    /// The key's first byte in the message.
    pub from: Expression,
    /// Bytes of the key.
    pub length: Expression,
}

/// A change of a word of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The place.
    pub place: VariableId,
    /// How.
    pub change: Change,
    /// What keeps the word from before.
    pub before: Option<VariableId>,
}

/// A copy of bytes to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    /// The row.
    pub row: VariableId,
    /// The first byte of the message.
    pub from: Expression,
    /// How many bytes.
    pub length: Expression,
    /// What is done to them on their way, in this order.
    pub pipes: Vec<Pipe>,
    /// What becomes of the pipes' registers, in their order.
    pub registers: Vec<VariableId>,
}

/// What is done to bytes that go to a row. Words are numbers in the network's order, of 1, 2, 4 or 8 bytes. A pipe either changes each, or has
/// a register, which begins with a word: so it goes on where it ended with an earlier message, if memory has kept that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// The bytes of each word are turned round; it has 2, 4 or 8.
    Swap(u8),
    /// Bits that are in this change in each word; as many low bits count.
    Xor(u8, Expression),
    /// Bits of each word that are in this, too, stay.
    And(u8, Expression),
    /// Bits that are in this are set in each word.
    Or(u8, Expression),
    /// Its register becomes the ones' complement sum of itself and all words of 16 bits (RFC 1071), not inverted; an odd byte at the end is
    /// followed by zero.
    Checksum(Expression),
    /// Its register becomes the sum of itself and all words, modulo 2^64.
    Sum(u8, Expression),
    /// Its register becomes the FNV-1a hash of 64 bits of all words, from its value on: of single bytes the usual one, if it begins with
    /// FNV's offset.
    Hash(u8, Expression),
}

/// FNV's prime for 64 bits.
pub(crate) const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// A change of a word of memory, in one step: nobody sees half of it, and none is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It becomes this.
    Store(Expression),
    /// This is added.
    Add(Expression),
    /// Bits that are here, too, stay.
    And(Expression),
    /// Bits that are here are set.
    Or(Expression),
    /// Bits that are here change.
    Xor(Expression),
    /// If it is the first, it becomes the second.
    CompareSwap(Expression, Expression),
}

/// What goes back: the message, cut or made longer by zeros, with parts of it written over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its length in bytes.
    pub length: Expression,
    /// The longest that it may be; if [`length`](Self::length) comes to more, the message is given up.
    pub most: u16,
    /// What is written, in this order.
    pub parts: Vec<Part>,
}

/// A part of a reply. All values are computed before the first is written. The message is given up if the reply is too short for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A number.
    Number {
        /// Its form.
        format: Format,
        /// The first byte.
        at: u16,
        /// Its value, of which as many low bits are written as there is room for.
        value: Expression,
    },
    /// The beginning of a row.
    Row {
        /// The first byte of the reply.
        at: u16,
        /// The row.
        row: VariableId,
        /// How many bytes, no more than the row has.
        length: Expression,
    },
}

impl Part {
    /// Whether the datagram's sum can follow when this is written: a number in whole half words, or of one byte.
    pub(crate) fn can_follow(&self) -> bool {
        matches!(self, Self::Number { format, at, .. } if at % 2 == 0 || format.bytes == 1)
    }
}

/// How a number lies in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// Bytes: 1, 2, 4 or 8.
    pub bytes: u8,
    /// The low byte first. The network's order is the other.
    pub little_endian: bool,
}

/// A byte.
pub const U8: Format = Format::new(1, false);
/// 16 bits in the network's order.
pub const BE16: Format = Format::new(2, false);
/// 32 bits in the network's order.
pub const BE32: Format = Format::new(4, false);
/// 64 bits in the network's order.
pub const BE64: Format = Format::new(8, false);
/// 16 bits, the low byte first.
pub const LE16: Format = Format::new(2, true);
/// 32 bits, the low byte first.
pub const LE32: Format = Format::new(4, true);
/// 64 bits, the low byte first.
pub const LE64: Format = Format::new(8, true);

/// A word that is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// This one.
    Constant(u64),
    /// What a variable holds.
    Variable(VariableId),
    /// Bytes of the message.
    Length,
    /// A number in the message, from this byte on. At a constant byte it must be known to be there ([`Statement::Need`]); else the
    /// message is given up where it ends before.
    Number(Format, Box<Expression>),
    /// The word at a place.
    Word(VariableId),
    /// Two words make one.
    Binary(Operator, Box<Expression>, Box<Expression>),
}

/// How two words make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The sum.
    Add,
    /// The difference.
    Subtract,
    /// The product.
    Multiply,
    /// The quotient; of zero, zero.
    Divide,
    /// The rest; of zero, what was divided.
    Remainder,
    /// Bits of both.
    And,
    /// Bits of either.
    Or,
    /// Bits of one of the two.
    Xor,
    /// Shifted up, by the low 6 bits of the second.
    ShiftLeft,
    /// Shifted down, by the low 6 bits of the second.
    ShiftRight,
}

/// What decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Two words compared.
    Compare(Comparison, Expression, Expression),
    /// Both hold; the second is looked at only if the first does.
    Both(Box<Condition>, Box<Condition>),
    /// One holds; the second is looked at only if the first does not.
    Either(Box<Condition>, Box<Condition>),
}

/// How two words are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// They are one number.
    Equal,
    /// They are not.
    NotEqual,
    /// The first is less.
    Less,
    /// The first is not more.
    LessOrEqual,
    /// The first is more.
    Greater,
    /// The first is not less.
    GreaterOrEqual,
}

impl Pipe {
    /// Bytes of a word, of which the message has to have whole ones.
    pub fn gauge(&self) -> u8 {
        match self {
            Self::Swap(bytes)
            | Self::Xor(bytes, _)
            | Self::And(bytes, _)
            | Self::Or(bytes, _)
            | Self::Sum(bytes, _)
            | Self::Hash(bytes, _) => *bytes,
            Self::Checksum(_) => 1,
        }
    }

    /// The word that it is made with, or that its register begins with.
    pub fn word(&self) -> Option<&Expression> {
        match self {
            Self::Swap(_) => None,
            Self::Xor(_, word)
            | Self::And(_, word)
            | Self::Or(_, word)
            | Self::Checksum(word)
            | Self::Sum(_, word)
            | Self::Hash(_, word) => Some(word),
        }
    }

    /// Whether it has a register. What has none changes the message.
    pub fn has_register(&self) -> bool {
        matches!(self, Self::Checksum(_) | Self::Sum(..) | Self::Hash(..))
    }

    /// The places in a list of those that have registers.
    pub(crate) fn with_registers(pipes: &[Self]) -> impl Iterator<Item = usize> {
        let numbered = pipes.iter().enumerate();
        numbered.filter_map(|(number, pipe)| pipe.has_register().then_some(number))
    }

    /// The largest of the gauges.
    pub(crate) fn widest(pipes: &[Self]) -> u8 {
        pipes.iter().map(Self::gauge).max().unwrap_or(1)
    }
}

impl Reply {
    /// Whether it is as long as the message, however long that is.
    pub fn is_whole(&self) -> bool {
        self.length == Expression::Length && self.most == crate::limits::MESSAGE_MAX
    }
}

impl Change {
    /// The words that it is made with, in the order in which they are computed.
    pub fn words(&self) -> impl Iterator<Item = &Expression> {
        let (first, second) = match self {
            Self::Store(value)
            | Self::Add(value)
            | Self::And(value)
            | Self::Or(value)
            | Self::Xor(value) => (value, None),
            Self::CompareSwap(expected, new) => (expected, Some(new)),
        };
        std::iter::once(first).chain(second)
    }
}

impl Expression {
    /// Its value, if it is always the same.
    pub fn constant(&self) -> Option<u64> {
        match self {
            Self::Constant(value) => Some(*value),
            _ => None,
        }
    }
}

/// Whether what is behind a block can be reached through it. In one that the check has accepted that is for its last statement to say.
pub(crate) fn goes_on(block: &Block) -> bool {
    match block.last() {
        Some(Statement::Break | Statement::GiveUp | Statement::Done | Statement::Reply(_)) => false,
        Some(Statement::If(_, yes, no)) => goes_on(yes) || goes_on(no),
        Some(Statement::Repeat(_, _, body)) => goes_on(body) || breaks(body),
        _ => true,
    }
}

/// Whether a repetition's body leaves it.
fn breaks(body: &Block) -> bool {
    body.iter().any(|statement| match statement {
        Statement::Break => true,
        Statement::If(_, yes, no) => breaks(yes) || breaks(no),
        _ => false,
    })
}

impl Region {
    /// Bytes that a word, a row or a slot takes.
    pub fn stride(&self) -> u32 {
        match self.kind {
            RegionKind::Words => 8,
            RegionKind::Rows(bytes) => bytes,
            RegionKind::Table(key) => SLOT + key,
        }
    }
}

impl Operator {
    /// What it makes of two words (RFC 9669 §4.1 for division by zero and shifts).
    pub const fn apply(self, a: u64, b: u64) -> u64 {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Subtract => a.wrapping_sub(b),
            Self::Multiply => a.wrapping_mul(b),
            Self::Divide => match a.checked_div(b) {
                Some(quotient) => quotient,
                None => 0,
            },
            Self::Remainder => match a.checked_rem(b) {
                Some(rest) => rest,
                None => a,
            },
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::ShiftLeft => a << (b & 63),
            Self::ShiftRight => a >> (b & 63),
        }
    }
}

impl Comparison {
    /// Whether it holds of two words.
    pub const fn holds(self, a: u64, b: u64) -> bool {
        match self {
            Self::Equal => a == b,
            Self::NotEqual => a != b,
            Self::Less => a < b,
            Self::LessOrEqual => a <= b,
            Self::Greater => a > b,
            Self::GreaterOrEqual => a >= b,
        }
    }
}

impl Format {
    const fn new(bytes: u8, little_endian: bool) -> Self {
        Self {
            bytes,
            little_endian,
        }
    }

    /// The number that these bytes are; there are [`bytes`](Self::bytes) of them.
    pub fn read(self, from: &[u8]) -> u64 {
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        match self.little_endian {
            true => from.iter().rev().fold(0, add),
            false => from.iter().fold(0, add),
        }
    }

    /// Writes a number.
    pub fn write(self, to: &mut [u8], value: u64) {
        let bytes = usize::from(self.bytes);
        match self.little_endian {
            true => to.copy_from_slice(&value.to_le_bytes()[..bytes]),
            false => to.copy_from_slice(&value.to_be_bytes()[8 - bytes..]),
        }
    }
}
