//! A handler written out.

use std::fmt::{self, Display, Formatter, Write as _};

use super::words::{COMPARISONS, format_name, name_of, sign};
use crate::code::{
    Block, Change, Condition, Expression, Handler, Part, Pipe, RegionKind, Reply, Statement, Take,
    Update, VariableId, VariableKind,
};

impl Display for Handler {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "handler {} {{", self.name)?;
        for region in &self.regions {
            let (name, count) = (&region.name, region.count);
            match region.kind {
                RegionKind::Words => writeln!(f, "    words {name}[{count}];")?,
                RegionKind::Rows(bytes) => writeln!(f, "    rows {name}[{count}] of {bytes};")?,
                RegionKind::Table(key) => writeln!(f, "    table {name}[{count}] of {key};")?,
            }
        }
        if !self.regions.is_empty() {
            f.write_char('\n')?;
        }
        Writer {
            names: Names(self),
            f,
        }
        .block(&self.body, 1)?;
        f.write_str("}\n")
    }
}

struct Writer<'a, 'b> {
    names: Names<'a>,
    f: &'a mut Formatter<'b>,
}

impl Writer<'_, '_> {
    fn block(&mut self, block: &Block, depth: usize) -> fmt::Result {
        for statement in block {
            write!(self.f, "{:1$}", "", 4 * depth)?;
            self.statement(statement, depth)?;
            self.f.write_char('\n')?;
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement, depth: usize) -> fmt::Result {
        let names = self.names;
        match statement {
            Statement::Need(bytes) => write!(self.f, "need {bytes};"),
            Statement::Set(variable, value) => {
                let name = names.name(*variable);
                write!(self.f, "{name} = {};", names.word(value))
            }
            Statement::Point(variable, index) => {
                let (name, region) = (names.name(*variable), names.region(*variable));
                write!(self.f, "{name} = &{region}[{}];", names.word(index))
            }
            Statement::Find(find) => {
                let table = &names.0.regions[usize::from(find.table)].name;
                let (from, length) = (names.word(&find.from), names.word(&find.length));
                let word = names.name(find.word);
                write!(self.f, "{word} = find({table}, {from}, {length});")
            }
            Statement::Update(update) => self.change(update),
            Statement::Take(take) => self.take(take),
            Statement::If(condition, yes, no) => self.branches(condition, yes, no, depth),
            Statement::Repeat(counter, times, body) => {
                writeln!(self.f, "for {} in 0..{times} {{", names.name(*counter))?;
                self.block(body, depth + 1)?;
                write!(self.f, "{:1$}}}", "", 4 * depth)
            }
            Statement::Break => self.f.write_str("break;"),
            Statement::GiveUp => self.f.write_str("give up;"),
            Statement::Done => self.f.write_str("done;"),
            Statement::Reply(reply) => self.reply(reply, depth),
        }
    }

    fn branches(&mut self, when: &Condition, yes: &Block, no: &Block, depth: usize) -> fmt::Result {
        let names = self.names;
        writeln!(self.f, "if {} {{", names.condition(when))?;
        self.block(yes, depth + 1)?;
        if !no.is_empty() {
            writeln!(self.f, "{:1$}}} else {{", "", 4 * depth)?;
            self.block(no, depth + 1)?;
        }
        write!(self.f, "{:1$}}}", "", 4 * depth)
    }

    fn take(&mut self, take: &Take) -> fmt::Result {
        let names = self.names;
        if !take.registers.is_empty() {
            let kept = take.registers.iter().map(|kept| names.name(*kept));
            write!(self.f, "{} = ", kept.collect::<Vec<_>>().join(", "))?;
        }
        let (from, length) = (names.word(&take.from), names.word(&take.length));
        write!(self.f, "take({}, {from}, {length})", names.name(take.row))?;
        for (number, pipe) in take.pipes.iter().enumerate() {
            let before = if number == 0 { " through " } else { ", " };
            write!(self.f, "{before}{}", names.pipe(pipe))?;
        }
        self.f.write_char(';')
    }

    fn change(&mut self, update: &Update) -> fmt::Result {
        let (names, before) = (self.names, update.before);
        if let Some(before) = before {
            write!(self.f, "{} = ", names.name(before))?;
        }
        let place = names.name(update.place);
        let (call, value) = match &update.change {
            Change::Store(value) if before.is_none() => {
                return write!(self.f, "*{place} = {};", names.word(value));
            }
            Change::Store(value) => ("swap", value),
            Change::Add(value) => ("add", value),
            Change::And(value) => ("and", value),
            Change::Or(value) => ("or", value),
            Change::Xor(value) => ("xor", value),
            Change::CompareSwap(expected, new) => {
                let (expected, new) = (names.word(expected), names.word(new));
                return write!(self.f, "compare_swap({place}, {expected}, {new});");
            }
        };
        write!(self.f, "{call}({place}, {});", names.word(value))
    }

    fn reply(&mut self, reply: &Reply, depth: usize) -> fmt::Result {
        let names = self.names;
        write!(self.f, "reply {}", names.word(&reply.length))?;
        if reply.length.constant() != Some(u64::from(reply.most)) && !reply.is_whole() {
            write!(self.f, " up to {}", reply.most)?;
        }
        if reply.parts.is_empty() {
            return self.f.write_char(';');
        }
        self.f.write_str(" {\n")?;
        for part in &reply.parts {
            write!(self.f, "{:1$}", "", 4 * depth + 4)?;
            match part {
                Part::Number { format, at, value } => {
                    let form = format_name(*format);
                    writeln!(self.f, "{form}({at}) = {};", names.word(value))?;
                }
                Part::Row { at, row, length } => {
                    let row = names.name(*row);
                    writeln!(self.f, "row({at}, {row}, {});", names.word(length))?;
                }
            }
        }
        write!(self.f, "{:1$}}}", "", 4 * depth)
    }
}

/// How what is in a handler is written.
#[derive(Clone, Copy)]
struct Names<'a>(&'a Handler);

impl<'a> Names<'a> {
    fn condition(self, condition: &Condition) -> String {
        match condition {
            Condition::Compare(how, a, b) => {
                format!(
                    "{} {} {}",
                    self.word(a),
                    name_of(&COMPARISONS, *how),
                    self.word(b)
                )
            }
            Condition::Both(a, b) => format!("({}) && ({})", self.condition(a), self.condition(b)),
            Condition::Either(a, b) => {
                format!("({}) || ({})", self.condition(a), self.condition(b))
            }
        }
    }

    fn pipe(self, pipe: &Pipe) -> String {
        let (name, bytes, word) = match pipe {
            Pipe::Swap(bytes) => return format!("swap({bytes})"),
            Pipe::Checksum(Expression::Constant(0)) => return "checksum".to_owned(),
            Pipe::Checksum(begin) => return format!("checksum({})", self.word(begin)),
            Pipe::Sum(bytes, Expression::Constant(0)) => return format!("sum({bytes})"),
            Pipe::Hash(bytes, Expression::Constant(0)) => return format!("hash({bytes})"),
            Pipe::Xor(bytes, word) => ("xor", bytes, word),
            Pipe::And(bytes, word) => ("and", bytes, word),
            Pipe::Or(bytes, word) => ("or", bytes, word),
            Pipe::Sum(bytes, word) => ("sum", bytes, word),
            Pipe::Hash(bytes, word) => ("hash", bytes, word),
        };
        format!("{name}({bytes}, {})", self.word(word))
    }

    fn word(self, expression: &Expression) -> String {
        match expression {
            Expression::Constant(value) => value.to_string(),
            Expression::Variable(variable) => self.name(*variable).to_owned(),
            Expression::Length => "length".to_owned(),
            Expression::Number(format, at) => {
                format!("{}({})", format_name(*format), self.word(at))
            }
            Expression::Word(place) => format!("*{}", self.name(*place)),
            Expression::Binary(operator, a, b) => {
                format!("({} {} {})", self.word(a), sign(*operator), self.word(b))
            }
        }
    }

    fn name(self, variable: VariableId) -> &'a str {
        let known = self.0.variables.get(usize::from(variable.0));
        known.map_or("?", |variable| &variable.name)
    }

    fn region(self, variable: VariableId) -> &'a str {
        let known = self.0.variables.get(usize::from(variable.0));
        let region = match known.map(|variable| variable.kind) {
            Some(VariableKind::Place(region)) => self.0.regions.get(usize::from(region)),
            _ => None,
        };
        region.map_or("?", |region| &region.name)
    }
}
