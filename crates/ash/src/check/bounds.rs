//! How much a word can come to, as far as its expression tells: so that a place may be known to exist before it is looked for.

use crate::code::{Expression, Format, Operator, VariableId};
use crate::limits::MESSAGE_MAX;

/// The most that a word can be. `counters` are the variables that count repetitions here, and how often each repeats.
pub(super) fn most(of: &Expression, counters: &[(VariableId, u16)]) -> u64 {
    match of {
        Expression::Constant(value) => *value,
        Expression::Length => MESSAGE_MAX.into(),
        Expression::Number(format, _) => largest(*format),
        Expression::Variable(variable) => {
            let mut counters = counters.iter();
            let counter = counters.find(|(counter, _)| counter == variable);
            counter.map_or(u64::MAX, |(_, times)| u64::from(*times) - 1)
        }
        Expression::Word(_) => u64::MAX,
        Expression::Binary(operator, a, b) => binary(
            *operator,
            most(a, counters),
            most(b, counters),
            b.constant(),
        ),
    }
}

/// `a` and `b` are the most that the two can be, `exactly` what the second always is.
fn binary(operator: Operator, a: u64, b: u64, exactly: Option<u64>) -> u64 {
    match (operator, exactly) {
        (Operator::And, _) => a.min(b),
        (Operator::Remainder, Some(by)) if by > 0 => a.min(by - 1),
        (Operator::Divide, Some(by)) => a.checked_div(by).unwrap_or(0),
        (Operator::ShiftRight, Some(by)) => a >> (by & 63),
        (Operator::ShiftRight | Operator::Divide | Operator::Remainder, _) => a,
        // What wraps may be anything: the largest word of all.
        (Operator::Add, _) => a.saturating_add(b),
        (Operator::Multiply, _) => a.saturating_mul(b),
        (Operator::Or | Operator::Xor, _) => match (a | b).checked_ilog2() {
            Some(bit) => u64::MAX >> (63 - bit),
            None => 0,
        },
        (Operator::Subtract | Operator::ShiftLeft, _) => u64::MAX,
    }
}

fn largest(format: Format) -> u64 {
    let bits = 8 * u32::from(format.bytes.clamp(1, 8));
    u64::MAX >> (64 - bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_comes_to_more_than_is_said() {
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
        let limits = [0, 1, 2, 3, 7, 8, 100, 255, 1 << 40, u64::MAX];
        let below =
            |limit: u64| [0, 1, limit / 2, limit.saturating_sub(1), limit].map(|v| v.min(limit));
        for operator in ALL {
            for (a, b) in limits.iter().flat_map(|a| limits.map(|b| (*a, b))) {
                let said = binary(operator, a, b, None);
                let exactly = binary(operator, a, b, Some(b));
                for x in below(a) {
                    assert!(
                        below(b).iter().all(|y| operator.apply(x, *y) <= said),
                        "{operator:?} {a} {b}"
                    );
                    assert!(operator.apply(x, b) <= exactly, "{operator:?} {x} {b}");
                }
            }
        }
    }
}
