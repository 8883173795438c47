//! Handlers drawn at random, most of which the check accepts, and messages for them.

use exos_ash::code::{
    Block, Change, Comparison, Condition, Expression, Find, Format, Handler, Operator, Part, Pipe,
    Region, RegionKind, Reply, Statement, Take, Update, Variable, VariableId, VariableKind,
};
use exos_ash::limits::MESSAGE_MAX;
use exos_ash::{Checked, check};
use exos_testing::Random;

/// Variables: four words, two places in the words, two rows.
const WORDS: std::ops::Range<usize> = 0..4;
const PLACES: std::ops::Range<usize> = 4..6;
const ROWS: std::ops::Range<usize> = 6..8;
const COUNTERS: std::ops::Range<usize> = 8..10;
const ROW_BYTES: u32 = 40;
const KEY_MAX: u32 = 24;
const SLOTS: u32 = 32;

/// One that may run. What the check refuses is drawn again.
pub fn handler(random: &mut Random) -> Checked {
    loop {
        let drawn = Draw {
            random: &mut *random,
            loops: 0,
        }
        .handler();
        if let Ok(checked) = check(drawn) {
            return checked;
        }
    }
}

/// A key that a drawn handler may look for.
pub fn key(random: &mut Random) -> Vec<u8> {
    let most = [2, 5, KEY_MAX as usize][random.below(3)];
    let len = 1 + random.below(most);
    (0..len).map(|_| small_byte(random)).collect()
}

fn small_byte(random: &mut Random) -> u8 {
    [0, 0, 0, 1, 2, 3, 8][random.below(7)]
}

/// Short numbers, so that places are hit and conditions come out either way.
pub fn message(random: &mut Random) -> Vec<u8> {
    let len = [
        0, 1, 7, 8, 16, 23, 24, 40, 63, 64, 65, 200, 555, 1015, 1400, 1472,
    ];
    let len = len[random.below(len.len())];
    let small = random.one_in(2);
    let mut byte = || match small {
        true => small_byte(random),
        false => random.byte(),
    };
    (0..len).map(|_| byte()).collect()
}

struct Draw<'a> {
    random: &'a mut Random,
    loops: usize,
}

impl Draw<'_> {
    fn handler(&mut self) -> Handler {
        let region = |name: &str, kind, count| Region {
            name: name.into(),
            kind,
            count,
        };
        let kind = |number: usize| match number {
            n if PLACES.contains(&n) => VariableKind::Place(0),
            n if ROWS.contains(&n) => VariableKind::Place(1),
            _ => VariableKind::Word,
        };
        let variable = |number| Variable {
            name: format!("v{number}"),
            kind: kind(number),
        };
        let mut body = vec![Statement::Need(self.one_of(&[0, 0, 8, 24]))];
        for number in WORDS {
            body.push(Statement::Set(
                VariableId(number as u8),
                Expression::Constant(number as u64),
            ));
        }
        for number in PLACES.chain(ROWS) {
            body.push(Statement::Point(VariableId(number as u8), self.index()));
        }
        body.extend(self.block(0));
        body.push(self.verdict());
        Handler {
            name: "drawn".into(),
            regions: vec![
                region("cells", RegionKind::Words, 8),
                region("lines", RegionKind::Rows(ROW_BYTES), 5),
                region("keys", RegionKind::Table(KEY_MAX), SLOTS),
            ],
            variables: (0..COUNTERS.end).map(variable).collect(),
            body,
        }
    }

    fn block(&mut self, depth: usize) -> Block {
        let count = self.random.below(4);
        (0..count).map(|_| self.statement(depth)).collect()
    }

    fn statement(&mut self, depth: usize) -> Statement {
        match self.random.below(if depth < 3 { 13 } else { 8 }) {
            0 => Statement::Need(self.one_of(&[1, 4, 20, 64])),
            1 | 2 => Statement::Set(self.variable(WORDS), self.expression(0)),
            3 => Statement::Point(self.variable(PLACES.start..ROWS.end), self.index()),
            4 => self.take(),
            5 | 6 => self.change(),
            7 => Statement::Find(Find {
                word: self.variable(WORDS),
                table: 2,
                from: self.index(),
                length: self.index(),
            }),
            8..11 => Statement::If(
                self.condition(0),
                self.ending(depth + 1),
                self.ending(depth + 1),
            ),
            _ => self.repeat(depth),
        }
    }

    /// A block that may have an end of its own.
    fn ending(&mut self, depth: usize) -> Block {
        let mut block = self.block(depth);
        match self.random.below(6) {
            0 => block.push(self.verdict()),
            1 if self.loops > 0 => block.push(Statement::Break),
            _ => {}
        }
        block
    }

    fn repeat(&mut self, depth: usize) -> Statement {
        if self.loops == COUNTERS.len() {
            return Statement::Set(self.variable(WORDS), self.expression(0));
        }
        let counter = VariableId((COUNTERS.start + self.loops) as u8);
        self.loops += 1;
        let body = self.ending(depth + 1);
        self.loops -= 1;
        Statement::Repeat(counter, self.one_of(&[1, 2, 5]), body)
    }

    fn take(&mut self) -> Statement {
        let count = [0, 1, 2, 3, 8][self.random.below(5)];
        let pipes: Vec<_> = (0..count).map(|_| self.pipe()).collect();
        let registers = pipes.iter().filter(|pipe| pipe.has_register()).count();
        let first = self.random.below(WORDS.len());
        let nth = |number| VariableId((WORDS.start + (first + number) % WORDS.len()) as u8);
        let (row, from) = (self.variable(ROWS), self.index_or(9));
        // Whole words, mostly.
        let length = match self.index_or(140) {
            Expression::Constant(length) => Expression::Constant(length & !7),
            length => {
                let words = self.one_of(&[!7, !3, u64::MAX]);
                let [length, words] = [length, Expression::Constant(words)].map(Box::new);
                Expression::Binary(Operator::And, length, words)
            }
        };
        Statement::Take(Take {
            row,
            from,
            length,
            pipes,
            registers: (0..registers).map(nth).collect(),
        })
    }

    fn pipe(&mut self) -> Pipe {
        let (bytes, word) = (self.one_of(&[1, 2, 4, 8]), self.expression(1));
        match self.random.below(7) {
            0 => Pipe::Checksum(word),
            1 => Pipe::Swap(self.one_of(&[2, 4, 8])),
            2 => Pipe::Xor(bytes, word),
            3 => Pipe::And(bytes, word),
            4 => Pipe::Or(bytes, word),
            5 => Pipe::Sum(bytes, word),
            _ => Pipe::Hash(bytes, word),
        }
    }

    fn change(&mut self) -> Statement {
        let change = match self.random.below(6) {
            0 => Change::Store(self.expression(0)),
            1 => Change::Add(self.expression(0)),
            2 => Change::And(self.expression(0)),
            3 => Change::Or(self.expression(0)),
            4 => Change::Xor(self.expression(0)),
            _ => Change::CompareSwap(self.expression(1), self.expression(0)),
        };
        let before = self.random.one_in(2).then(|| self.variable(WORDS));
        Statement::Update(Update {
            place: self.variable(PLACES),
            change,
            before,
        })
    }

    fn verdict(&mut self) -> Statement {
        match self.random.below(6) {
            0 => Statement::GiveUp,
            1 | 2 => Statement::Done,
            _ => Statement::Reply(self.reply()),
        }
    }

    fn reply(&mut self) -> Reply {
        let mut most = self.one_of(&[0, 8, 24, 100, 1400]);
        let length = match self.random.below(4) {
            0 => self.expression(1),
            1 => {
                most = self.one_of(&[most, MESSAGE_MAX]);
                Expression::Length
            }
            _ => Expression::Constant(most.into()),
        };
        let count = self.random.below(4);
        let parts = (0..count).map(|_| self.part()).collect();
        Reply {
            length,
            most,
            parts,
        }
    }

    fn part(&mut self) -> Part {
        let at = self.one_of(&[0, 1, 8, 16, 60]);
        match self.random.one_in(3) {
            true => Part::Row {
                at,
                row: self.variable(ROWS),
                length: self.index(),
            },
            false => Part::Number {
                format: self.format(),
                at,
                value: self.expression(0),
            },
        }
    }

    fn condition(&mut self, depth: usize) -> Condition {
        const ALL: [Comparison; 6] = [
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
        ];
        match self.random.below(if depth < 3 { 4 } else { 2 }) {
            2 => Condition::Both(
                Box::new(self.condition(depth + 1)),
                Box::new(self.condition(depth + 1)),
            ),
            3 => Condition::Either(
                Box::new(self.condition(depth + 1)),
                Box::new(self.condition(depth + 1)),
            ),
            _ => Condition::Compare(self.one_of(&ALL), self.expression(1), self.expression(1)),
        }
    }

    fn expression(&mut self, depth: usize) -> Expression {
        const ALL: [Operator; 10] = [
            Operator::Add,
            Operator::Subtract,
            Operator::Multiply,
            Operator::Divide,
            Operator::Remainder,
            Operator::And,
            Operator::Or,
            Operator::Xor,
            Operator::ShiftLeft,
            Operator::ShiftRight,
        ];
        match self.random.below(if depth < 4 { 12 } else { 8 }) {
            0 => {
                Expression::Constant(self.one_of(&[0, 1, 3, 7, 40, 0xffff_ffff, u64::MAX, 1 << 40]))
            }
            1 => Expression::Constant(self.random.below(6) as u64),
            2 | 3 => Expression::Variable(self.variable(WORDS)),
            4 => Expression::Length,
            5 => Expression::Word(self.variable(PLACES)),
            6 => Expression::Number(
                self.format(),
                Box::new(Expression::Constant(self.random.below(24) as u64)),
            ),
            7 => Expression::Number(
                self.format(),
                Box::new(Expression::Variable(self.variable(WORDS))),
            ),
            8 => Expression::Number(self.format(), Box::new(self.expression(depth + 1))),
            _ => {
                let operator = self.one_of(&ALL);
                let (a, b) = (self.expression(depth + 1), self.expression(depth + 1));
                Expression::Binary(operator, Box::new(a), Box::new(b))
            }
        }
    }

    /// Of a place that there is, mostly.
    /// At times a number below this.
    fn index_or(&mut self, below: usize) -> Expression {
        match self.random.one_in(2) {
            true => Expression::Constant(self.random.below(below) as u64),
            false => self.index(),
        }
    }

    fn index(&mut self) -> Expression {
        let any = self.expression(1);
        let many = Box::new(Expression::Constant(self.one_of(&[3, 5, 6, 1000])));
        Expression::Binary(Operator::Remainder, Box::new(any), many)
    }

    fn format(&mut self) -> Format {
        let bytes = self.one_of(&[1, 2, 4, 8]);
        Format {
            bytes,
            little_endian: bytes > 1 && self.random.one_in(3),
        }
    }

    fn variable(&mut self, range: std::ops::Range<usize>) -> VariableId {
        VariableId((range.start + self.random.below(range.len())) as u8)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.below(all.len())]
    }
}
