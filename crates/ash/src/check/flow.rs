//! Every way through a handler, followed at once: what has a value, how long the message is known to be, whether anything has had
//! an effect. Where ways join, what holds on all of them holds.

mod pipes;
mod words;

use super::bounds::most;
use super::error::CheckError;
use super::known::{Known, join};
use crate::code::{
    Block, Expression, Find, Handler, Part, RegionKind, Reply, Statement, Take, Update, VariableId,
    VariableKind,
};
use crate::limits::{LOOK_UPS_MAX, MESSAGE_MAX, NESTING_MAX, PARTS_MAX, REPEAT_MAX, REPLY_MAX};

/// Follows all ways of a handler.
pub(super) fn follow(handler: &Handler) -> Result<(), CheckError> {
    let mut flow = Flow {
        handler,
        statement: 0,
        loops: Vec::new(),
        counting: Vec::new(),
        nesting: 0,
        look_ups: 0,
    };
    let end = flow.block(&handler.body, Some(Known::default()));
    let failed = |what| CheckError {
        statement: flow.statement.checked_sub(1),
        what,
    };
    match end {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(CheckError {
            statement: None,
            what: "a way through the handler ends without a verdict; end it with `give up`, `done` or `reply`".into(),
        }),
        Err(what) => Err(failed(what)),
    }
}

struct Flow<'a> {
    handler: &'a Handler,
    /// Statements that were begun.
    statement: usize,
    /// What is known behind each repetition that is open, by its breaks so far.
    loops: Vec<Option<Known>>,
    /// What counts each repetition that is open, and how often it repeats.
    counting: Vec<(VariableId, u16)>,
    nesting: usize,
    /// Look-ups in tables so far.
    look_ups: usize,
}

type Checked<T> = Result<T, String>;

impl Flow<'_> {
    fn block(&mut self, block: &Block, mut known: Option<Known>) -> Checked<Option<Known>> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(format!(
                "at most {NESTING_MAX} blocks stand within one another"
            ));
        }
        for statement in block {
            self.statement += 1;
            let before = known.ok_or("nothing leads here; take it out")?;
            known = self.statement(statement, before)?;
        }
        self.nesting -= 1;
        Ok(known)
    }

    fn statement(&mut self, statement: &Statement, mut known: Known) -> Checked<Option<Known>> {
        match statement {
            Statement::Need(bytes) => {
                if *bytes > MESSAGE_MAX {
                    return Err(format!("no message has more than {MESSAGE_MAX} bytes"));
                }
                if *bytes > known.length {
                    may_give_up(known, "`need`")?;
                    known.length = *bytes;
                }
            }
            Statement::Set(variable, value) => {
                self.word(value, known)?;
                self.assign(*variable, &mut known)?;
            }
            Statement::Point(variable, index) => self.point(*variable, index, &mut known)?,
            Statement::Find(find) => {
                self.look_up(find, known)?;
                self.assign(find.word, &mut known)?;
            }
            Statement::Update(update) => {
                self.change(update, known)?;
                if let Some(before) = update.before {
                    self.assign(before, &mut known)?;
                }
                known.effect = true;
            }
            Statement::Take(take) => {
                self.take(take, known)?;
                for register in &take.registers {
                    self.assign(*register, &mut known)?;
                }
            }
            Statement::If(condition, yes, no) => {
                self.condition(condition, known)?;
                let yes = self.block(yes, Some(known))?;
                return Ok(join(yes, self.block(no, Some(known))?));
            }
            Statement::Repeat(counter, times, body) => {
                return self.repeat(*counter, *times, body, known);
            }
            Statement::Break => {
                let out = self.loops.last_mut();
                let out = out.ok_or("`break` leaves a repetition, and there is none")?;
                *out = join(*out, Some(known));
                return Ok(None);
            }
            Statement::GiveUp => {
                may_give_up(known, "`give up`")?;
                return Ok(None);
            }
            Statement::Done => return Ok(None),
            Statement::Reply(reply) => {
                self.reply(reply, known)?;
                return Ok(None);
            }
        }
        Ok(Some(known))
    }

    fn point(&self, variable: VariableId, index: &Expression, known: &mut Known) -> Checked<()> {
        self.word(index, *known)?;
        let region = &self.handler.regions[self.region(variable)?];
        if matches!(region.kind, RegionKind::Table(_)) {
            return Err("a table is looked up with `find`".into());
        }
        if most(index, &self.counting) >= u64::from(region.count) {
            may_give_up(*known, "a place that may not exist")?;
        }
        known.assigned |= 1 << variable.0;
        Ok(())
    }

    fn take(&self, take: &Take, known: Known) -> Checked<()> {
        let (from, length) = (&take.from, &take.length);
        self.word(from, known)?;
        self.word(length, known)?;
        let room = self.row(take.row, known)?;
        let is_whole = self.pipes(take, known)?;
        let is_there = known.always_has(from, length) && is_whole;
        if !is_there || most(length, &[]) > u64::from(room) {
            may_give_up(known, "`take`")?;
        }
        Ok(())
    }

    /// The body is followed a second time with what the first left behind, if that is another thing.
    fn repeat(
        &mut self,
        counter: VariableId,
        times: u16,
        body: &Block,
        mut known: Known,
    ) -> Checked<Option<Known>> {
        if times == 0 || times > REPEAT_MAX {
            return Err(format!("a block is repeated 1 to {REPEAT_MAX} times"));
        }
        self.assign(counter, &mut known)?;
        self.counting.push((counter, times));
        self.loops.push(None);
        let first = self.statement;
        let mut behind = self.block(body, Some(known))?;
        if let Some(again) = behind.map(|again| known.join(again))
            && again != known
        {
            self.statement = first;
            behind = self.block(body, Some(again))?;
        }
        let broken = self.loops.pop().flatten();
        self.counting.pop();
        // The count is the repetition's own.
        let through = behind.map(|behind| Known {
            assigned: behind.assigned & !(1 << counter.0),
            ..behind
        });
        Ok(join(through, broken))
    }

    fn look_up(&mut self, find: &Find, known: Known) -> Checked<()> {
        let region = self.handler.regions.get(usize::from(find.table));
        if !region.is_some_and(|region| matches!(region.kind, RegionKind::Table(_))) {
            return Err("`find` looks into a table".into());
        }
        self.look_ups += 1;
        if self.look_ups > LOOK_UPS_MAX || !self.counting.is_empty() {
            return Err(format!(
                "a handler has at most {LOOK_UPS_MAX} look-ups, none in a repetition"
            ));
        }
        may_give_up(known, "`find`")?;
        self.word(&find.from, known)?;
        self.word(&find.length, known)
    }

    fn change(&self, update: &Update, known: Known) -> Checked<()> {
        let place = update.place;
        let region = self.region(place)?;
        self.assigned(place, known)?;
        if self.handler.regions[region].kind != RegionKind::Words {
            return Err(format!("{} is a row; words are changed", self.name(place)));
        }
        let mut words = update.change.words();
        words.try_for_each(|word| self.word(word, known))
    }

    fn reply(&self, reply: &Reply, known: Known) -> Checked<()> {
        let is_whole = reply.is_whole();
        if reply.most > REPLY_MAX && !is_whole {
            return Err(format!("a reply has at most {REPLY_MAX} bytes"));
        }
        if reply.parts.len() > PARTS_MAX {
            return Err(format!("a reply has at most {PARTS_MAX} parts"));
        }
        self.word(&reply.length, known)?;
        let fixed = match reply.length.constant() {
            Some(length) if length > u64::from(reply.most) => {
                return Err("the reply is longer than it says".into());
            }
            Some(length) => Some(length),
            None if is_whole => Some(u64::from(known.length)),
            None => {
                may_give_up(known, "a reply of a length that is computed")?;
                None
            }
        };
        for part in &reply.parts {
            let end = self.part(part, known)?;
            match (end, fixed) {
                (Some(end), _) if end > u64::from(reply.most) => {
                    return Err(format!("the reply has no byte {}", end - 1));
                }
                (Some(end), Some(length)) if end > length && is_whole => {
                    return Err(format!(
                        "the reply may be shorter; say `need {end};` before"
                    ));
                }
                (Some(end), Some(length)) if end > length => {
                    return Err(format!("the reply has no byte {}", end - 1));
                }
                (None, _) => may_give_up(known, "a row of a length that is computed")?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Where a part ends, if that is known.
    fn part(&self, part: &Part, known: Known) -> Checked<Option<u64>> {
        match part {
            Part::Number { format, at, value } => {
                self.format(*format)?;
                self.word(value, known)?;
                Ok(Some(u64::from(*at) + u64::from(format.bytes)))
            }
            Part::Row { at, row, length } => {
                self.word(length, known)?;
                let bytes = self.row(*row, known)?;
                let Some(length) = length.constant() else {
                    return Ok(None);
                };
                if length > u64::from(bytes) {
                    return Err(format!("{} has {bytes} bytes", self.name(*row)));
                }
                Ok(Some(u64::from(*at) + length))
            }
        }
    }

    fn assign(&self, variable: VariableId, known: &mut Known) -> Checked<()> {
        let name = || self.name(variable);
        match self.kind(variable)? {
            VariableKind::Place(_) => Err(format!("{} is a place, not a word", name())),
            VariableKind::Word
                if self
                    .counting
                    .iter()
                    .any(|(counter, _)| *counter == variable) =>
            {
                Err(format!("{} counts a repetition here", name()))
            }
            VariableKind::Word => {
                known.assigned |= 1 << variable.0;
                Ok(())
            }
        }
    }

    fn assigned(&self, variable: VariableId, known: Known) -> Checked<()> {
        match known.assigned & 1 << variable.0 {
            0 => Err(format!(
                "{} has no value on every way here",
                self.name(variable)
            )),
            _ => Ok(()),
        }
    }

    /// The region that a variable's places are in.
    fn region(&self, variable: VariableId) -> Checked<usize> {
        match self.kind(variable)? {
            VariableKind::Place(region) => Ok(usize::from(region)),
            VariableKind::Word => Err(format!("{} is a word, not a place", self.name(variable))),
        }
    }

    /// Bytes of the row that a variable names.
    fn row(&self, variable: VariableId, known: Known) -> Checked<u32> {
        let region = self.region(variable)?;
        self.assigned(variable, known)?;
        match self.handler.regions[region].kind {
            RegionKind::Rows(bytes) => Ok(bytes),
            RegionKind::Words | RegionKind::Table(_) => {
                Err(format!("{} is a word, not a row", self.name(variable)))
            }
        }
    }

    fn kind(&self, variable: VariableId) -> Checked<VariableKind> {
        let known = self.handler.variables.get(usize::from(variable.0));
        known
            .map(|variable| variable.kind)
            .ok_or_else(|| format!("there is no variable {}", variable.0))
    }

    fn name(&self, variable: VariableId) -> &str {
        &self.handler.variables[usize::from(variable.0)].name
    }
}

fn may_give_up(known: Known, what: &str) -> Checked<()> {
    match known.effect {
        false => Ok(()),
        true => Err(format!(
            "{what} may give the message up, and memory has been changed before; do it before the first change"
        )),
    }
}
