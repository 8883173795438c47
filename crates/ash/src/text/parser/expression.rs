//! Words that are computed, and what decides.

use super::{Parsed, Parser};
use crate::check::Budget;
use crate::code::{Condition, Expression};
use crate::text::error::{Place, TextError};
use crate::text::lexer::Token;
use crate::text::words::{COMPARISONS, OPERATORS, format_named, named};

/// What stands between parentheses may be either.
enum Either {
    Word(Expression),
    Condition(Condition),
}

impl Parser<'_> {
    /// A word.
    pub(super) fn word(&mut self) -> Parsed<Expression> {
        self.budget = Budget::WHOLE;
        self.inner_word()
    }

    /// A word within another, or within a condition.
    fn inner_word(&mut self) -> Parsed<Expression> {
        let place = self.place();
        let found = self.operators(0)?;
        word_of(found, place)
    }

    /// A condition.
    pub(super) fn condition(&mut self) -> Parsed<Condition> {
        self.budget = Budget::WHOLE;
        let place = self.place();
        let found = self.either()?;
        condition_of(found, place)
    }

    fn either(&mut self) -> Parsed<Either> {
        let place = self.place();
        let mut found = self.both()?;
        while self.take("||") {
            self.spend(Budget::spend_link)?;
            let first = Box::new(condition_of(found, place)?);
            let place = self.place();
            let second = condition_of(self.both()?, place)?;
            found = Either::Condition(Condition::Either(first, Box::new(second)));
        }
        Ok(found)
    }

    fn both(&mut self) -> Parsed<Either> {
        let place = self.place();
        let mut found = self.comparison()?;
        while self.take("&&") {
            self.spend(Budget::spend_link)?;
            let first = Box::new(condition_of(found, place)?);
            let place = self.place();
            let second = condition_of(self.comparison()?, place)?;
            found = Either::Condition(Condition::Both(first, Box::new(second)));
        }
        Ok(found)
    }

    fn comparison(&mut self) -> Parsed<Either> {
        let place = self.place();
        let found = self.operators(0)?;
        let Token::Sign(sign) = self.peek() else {
            return Ok(found);
        };
        let Some(how) = named(&COMPARISONS, sign) else {
            return Ok(found);
        };
        self.next += 1;
        let first = word_of(found, place)?;
        Ok(Either::Condition(Condition::Compare(
            how,
            first,
            self.inner_word()?,
        )))
    }

    /// Operators that bind as those of `group` or more, from the left.
    fn operators(&mut self, group: usize) -> Parsed<Either> {
        let Some(signs) = OPERATORS.get(group) else {
            return self.within(Self::single);
        };
        let place = self.place();
        let mut found = self.operators(group + 1)?;
        while let Token::Sign(sign) = self.peek()
            && let Some(operator) = named(signs, sign)
        {
            self.next += 1;
            self.spend(|budget| budget.spend_operators(1))?;
            let first = Box::new(word_of(found, place)?);
            let place = self.place();
            let second = Box::new(word_of(self.operators(group + 1)?, place)?);
            found = Either::Word(Expression::Binary(operator, first, second));
        }
        Ok(found)
    }

    fn spend(&mut self, how: impl Fn(&mut Budget) -> Result<(), &'static str>) -> Parsed<()> {
        how(&mut self.budget).map_err(|what| self.wrong(what))
    }

    fn single(&mut self) -> Parsed<Either> {
        if self.take("(") {
            let inner = self.either()?;
            self.expect(")")?;
            return Ok(inner);
        }
        let word = match self.peek() {
            Token::Number(number) => {
                self.next += 1;
                Expression::Constant(number)
            }
            Token::Sign("*") => {
                self.next += 1;
                Expression::Word(self.known()?)
            }
            Token::Word("length") => {
                self.next += 1;
                self.layers.length()
            }
            Token::Word(name) => match format_named(name) {
                Some(format) => {
                    self.next += 1;
                    self.expect("(")?;
                    let at = self.inner_word()?;
                    self.expect(")")?;
                    Expression::Number(format, Box::new(self.layers.computed_byte(at)))
                }
                None => Expression::Variable(self.known()?),
            },
            _ => {
                return Err(self
                    .wrong("a word is expected here: a number, a variable, `be32(0)`, `length`"));
            }
        };
        Ok(Either::Word(word))
    }
}

fn word_of(found: Either, place: Place) -> Parsed<Expression> {
    match found {
        Either::Word(word) => Ok(word),
        Either::Condition(_) => Err(TextError::at(
            place,
            "a word is expected here, not a comparison".into(),
        )),
    }
}

fn condition_of(found: Either, place: Place) -> Parsed<Condition> {
    match found {
        Either::Condition(condition) => Ok(condition),
        Either::Word(_) => Err(TextError::at(
            place,
            "a comparison is expected here, as `length > 4`".into(),
        )),
    }
}
