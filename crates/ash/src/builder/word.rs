//! What operators and comparisons make of words.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Rem, Shl, Shr, Sub};

use crate::code::{Comparison, Condition, Expression, Operator, VariableId};

impl From<u64> for Expression {
    fn from(number: u64) -> Self {
        Self::Constant(number)
    }
}

impl From<VariableId> for Expression {
    fn from(variable: VariableId) -> Self {
        Self::Variable(variable)
    }
}

/// `word OPERATOR word`, as in the [text](crate::parse).
macro_rules! operators {
    ($($name:ident $method:ident $operator:ident;)*) => {$(
        impl<T: Into<Expression>> $name<T> for Expression {
            type Output = Expression;

            fn $method(self, other: T) -> Expression {
                Expression::Binary(Operator::$operator, Box::new(self), Box::new(other.into()))
            }
        }

        impl<T: Into<Expression>> $name<T> for VariableId {
            type Output = Expression;

            fn $method(self, other: T) -> Expression {
                $name::$method(Expression::from(self), other)
            }
        }
    )*};
}

operators! {
    Add add Add;
    Sub sub Subtract;
    Mul mul Multiply;
    Div div Divide;
    Rem rem Remainder;
    BitAnd bitand And;
    BitOr bitor Or;
    BitXor bitxor Xor;
    Shl shl ShiftLeft;
    Shr shr ShiftRight;
}

/// Comparisons of words.
pub trait Word: Into<Expression> {
    /// `self == other`.
    fn equals(self, other: impl Into<Expression>) -> Condition {
        compare(Comparison::Equal, self, other)
    }

    /// `self != other`.
    fn differs_from(self, other: impl Into<Expression>) -> Condition {
        compare(Comparison::NotEqual, self, other)
    }

    /// `self < other`.
    fn less_than(self, other: impl Into<Expression>) -> Condition {
        compare(Comparison::Less, self, other)
    }

    /// `self <= other`.
    fn at_most(self, other: impl Into<Expression>) -> Condition {
        compare(Comparison::LessOrEqual, self, other)
    }

    /// `self > other`.
    fn more_than(self, other: impl Into<Expression>) -> Condition {
        compare(Comparison::Greater, self, other)
    }

    /// `self >= other`.
    fn at_least(self, other: impl Into<Expression>) -> Condition {
        compare(Comparison::GreaterOrEqual, self, other)
    }
}

impl Word for Expression {}
impl Word for VariableId {}

fn compare(how: Comparison, a: impl Into<Expression>, b: impl Into<Expression>) -> Condition {
    Condition::Compare(how, a.into(), b.into())
}

impl Condition {
    /// `self && other`.
    pub fn and(self, other: Self) -> Self {
        Self::Both(Box::new(self), Box::new(other))
    }

    /// `self || other`.
    pub fn or(self, other: Self) -> Self {
        Self::Either(Box::new(self), Box::new(other))
    }
}
