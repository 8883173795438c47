//! What is asked over UDP and what an answer is to, by numbers.
//!
//! A message begins with a number, with which its answer begins, too. A message that is under way has one of two numbers: it changes when
//! the message is taken for lost and sent again, so that an answer that was only late is not taken for that to the next. The first question
//! has a number that no message has: it is sent until there is an answer, and the answers to all that were sent may come at any time.

use super::server::PORT;
use exos::{Buffer, Slice};
use exos_host::{Error, Result};
use serde::{Deserialize, Serialize};

/// What is asked. The bytes of the number are overwritten.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Where.
    pub port: u16,
    /// Asked until there is an answer, before all others.
    pub first: Vec<u8>,
    pub message: Vec<u8>,
    /// Bytes of the number.
    pub number_len: usize,
    /// What stands behind the number in each answer but the first; where it is given, others are errors.
    pub answer: Option<Vec<u8>>,
}

impl Question {
    /// One more for a counter, in a message of this length.
    pub fn increment(length: u16) -> Self {
        let mut message = vec![0; length.max(12).into()];
        message[11] = 1;
        Self {
            port: PORT,
            first: message.clone(),
            message,
            number_len: 4,
            answer: None,
        }
    }

    /// These bytes with this number.
    fn numbered(&self, bytes: &[u8], number: usize) -> Slice {
        let (len, mut bytes) = (self.number_len, bytes.to_vec());
        let number = number.to_be_bytes();
        bytes[..len].copy_from_slice(&number[number.len() - len..]);
        Buffer::from(bytes).into()
    }
}

/// The messages that are under way.
pub(super) struct Asked {
    number_len: usize,
    answer: Option<Vec<u8>>,
    first: Slice,
    /// Each by its number, made once: the client is to be as cheap as can be.
    by_number: Vec<Slice>,
    /// The number of each message that is under way.
    numbers: Vec<usize>,
}

impl Asked {
    pub fn new(question: &Question, under_way: u32) -> Self {
        let under_way = under_way as usize;
        let message = |number| question.numbered(&question.message, number);
        Self {
            number_len: question.number_len,
            answer: question.answer.clone(),
            first: question.numbered(&question.first, 2 * under_way),
            by_number: (0..2 * under_way).map(message).collect(),
            numbers: (0..under_way).collect(),
        }
    }

    pub fn first(&self) -> Slice {
        self.first.clone()
    }

    pub fn message(&self, at: usize) -> Slice {
        self.by_number[self.numbers[at]].clone()
    }

    /// A message is taken for lost: what answers it from now on does not count.
    pub fn lost(&mut self, at: usize) {
        let under_way = self.numbers.len();
        self.numbers[at] = (self.numbers[at] + under_way) % (2 * under_way);
    }

    pub fn answers_first(&self, answer: &[u8]) -> bool {
        self.split(answer)
            .is_some_and(|(number, _)| number == self.by_number.len())
    }

    /// Which message this answers; `None` for what answers the first question, or comes after a message was taken for lost.
    pub fn answered(&self, answer: &[u8]) -> Result<Option<usize>> {
        let Some((number, rest)) = self.split(answer) else {
            return Ok(None);
        };
        let at = number % self.numbers.len();
        if self.numbers[at] != number {
            return Ok(None);
        }
        if self.answer.as_ref().is_some_and(|answer| answer != rest) {
            let rest = String::from_utf8_lossy(rest);
            return Err(Error::new(format!("a wrong answer: {rest:?}")));
        }
        Ok(Some(at))
    }

    fn split<'a>(&self, answer: &'a [u8]) -> Option<(usize, &'a [u8])> {
        let (number, rest) = answer.split_at_checked(self.number_len)?;
        let number = number.iter();
        Some((
            number.fold(0, |all, byte| all << 8 | usize::from(*byte)),
            rest,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value is stored first, and then got by two messages at a time.
    fn asked() -> Asked {
        let question = Question {
            first: b"??set".to_vec(),
            message: b"??get".to_vec(),
            number_len: 2,
            answer: Some(b"value".to_vec()),
            ..Question::increment(12)
        };
        Asked::new(&question, 2)
    }

    /// What a server answers to this message.
    fn answer(message: &Slice) -> Vec<u8> {
        let (number, what) = message.as_bytes().split_at(2);
        let value: &[u8] = if what == b"set" { b"stored" } else { b"value" };
        [number, value].concat()
    }

    #[test]
    fn answers_to_the_first_question_may_come_at_any_time() {
        let mut asked = asked();
        let first = answer(&asked.first());
        assert!(asked.answers_first(&first));
        for _ in 0..3 {
            assert_eq!(asked.answered(&first).expect("it is late, not wrong"), None);
            asked.lost(0);
            asked.lost(1);
        }
    }

    #[test]
    fn a_message_that_is_sent_again_has_one_answer() {
        let mut asked = asked();
        for at in [0, 1] {
            let early = answer(&asked.message(at));
            assert!(!asked.answers_first(&early));
            assert_eq!(asked.answered(&early).expect("right"), Some(at));
            asked.lost(at);
            let again = answer(&asked.message(at));
            assert_eq!(asked.answered(&early).expect("right"), None);
            assert_eq!(asked.answered(&again).expect("right"), Some(at));
        }
    }

    #[test]
    fn another_answer_is_an_error() {
        let asked = asked();
        let mut other = answer(&asked.message(0));
        other.push(b'!');
        assert!(asked.answered(&other).is_err());
        assert_eq!(asked.answered(b"?").expect("too short to be one"), None);
    }
}
