//! Words and conditions: made of what has a value, of bytes that are there, and no longer or deeper than they may be.

use super::super::budget::Budget;
use super::{Checked, Flow, Known, may_give_up};
use crate::code::{Condition, Expression, Format, RegionKind, VariableKind};
use crate::limits::{DEPTH_MAX, MESSAGE_MAX};

impl Flow<'_> {
    pub(super) fn condition(&self, condition: &Condition, known: Known) -> Checked<()> {
        let mut budget = Budget::WHOLE;
        self.part_of_condition(condition, known, &mut budget)
    }

    fn part_of_condition(
        &self,
        condition: &Condition,
        known: Known,
        budget: &mut Budget,
    ) -> Checked<()> {
        match condition {
            Condition::Compare(_, a, b) => {
                for word in [a, b] {
                    self.word(word, known)?;
                    budget.spend_operators(operators(word))?;
                }
                Ok(())
            }
            Condition::Both(a, b) | Condition::Either(a, b) => {
                budget.spend_link()?;
                self.part_of_condition(a, known, budget)?;
                self.part_of_condition(b, known, budget)
            }
        }
    }

    pub(super) fn word(&self, expression: &Expression, known: Known) -> Checked<()> {
        self.expression(expression, known, 0)
    }

    fn expression(&self, expression: &Expression, known: Known, depth: usize) -> Checked<()> {
        if depth > DEPTH_MAX {
            return Err(format!(
                "an expression has at most {DEPTH_MAX} operations within one another; use a variable"
            ));
        }
        match expression {
            Expression::Constant(_) | Expression::Length => Ok(()),
            Expression::Variable(variable) => match self.kind(*variable)? {
                VariableKind::Word => self.assigned(*variable, known),
                VariableKind::Place(_) => Err(format!(
                    "{0} is a place; the word there is *{0}",
                    self.name(*variable)
                )),
            },
            Expression::Word(place) => {
                let region = self.region(*place)?;
                if self.handler.regions[region].kind != RegionKind::Words {
                    return Err(format!("{} is a row, not a word", self.name(*place)));
                }
                self.assigned(*place, known)
            }
            Expression::Number(format, at) => {
                self.format(*format)?;
                self.number(*format, at, known)?;
                self.expression(at, known, depth + 1)
            }
            Expression::Binary(_, a, b) => {
                self.expression(a, known, depth + 1)?;
                self.expression(b, known, depth + 1)
            }
        }
    }

    fn number(&self, format: Format, at: &Expression, known: Known) -> Checked<()> {
        let Some(at) = at.constant() else {
            return may_give_up(known, "a number that may lie behind the message's end");
        };
        match at.saturating_add(u64::from(format.bytes)) {
            end if end <= u64::from(known.length) => Ok(()),
            end if end > u64::from(MESSAGE_MAX) => {
                Err(format!("no message has more than {MESSAGE_MAX} bytes"))
            }
            end => Err(format!(
                "the message may be shorter; say `need {end};` before"
            )),
        }
    }

    pub(super) fn format(&self, format: Format) -> Checked<()> {
        match format.bytes {
            1 | 2 | 4 | 8 => Ok(()),
            other => Err(format!("a number has 1, 2, 4 or 8 bytes, not {other}")),
        }
    }
}

/// Operators of a word.
fn operators(of: &Expression) -> usize {
    match of {
        Expression::Binary(_, a, b) => 1 + operators(a) + operators(b),
        Expression::Number(_, at) => operators(at),
        Expression::Constant(_) | Expression::Variable(_) => 0,
        Expression::Length | Expression::Word(_) => 0,
    }
}
