//! The exchanges that are under way, and what of them is lost: without I/O.
//!
//! Questions have numbers, one after the other, and are answered in the order in which they were asked, each with all its frames
//! before the next. So a question is lost when an answer comes to a later one before all of its own have come, and is asked again
//! at once. What comes for a question that was taken to be lost counts for nothing.

use super::frame::{FRAME_LEN_MIN, Header, Round};
use std::collections::VecDeque;
use std::ops::Sub;

/// How many exchanges came to their end, and what went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counted {
    pub done: u64,
    /// Questions of which an answer did not come.
    pub lost: u64,
    /// Times that everything was begun again.
    pub restarts: u64,
}

impl Sub for Counted {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            done: self.done - before.done,
            lost: self.lost - before.lost,
            restarts: self.restarts - before.restarts,
        }
    }
}

/// A question that was asked.
#[derive(Clone, Copy, Debug)]
struct Question {
    /// Its round in its exchange.
    round: usize,
    /// Answers that have come.
    answers: u16,
}

/// All that are under way.
pub(super) struct UnderWay {
    rounds: Vec<Round>,
    questions: VecDeque<Question>,
    /// The number of the first of them.
    oldest: u32,
    /// Frames to be sent, with their lengths.
    pub out: VecDeque<(Header, usize)>,
    counted: Counted,
}

impl UnderWay {
    /// This many rounds under way at once, each at its beginning.
    pub fn new(rounds: Vec<Round>, at_once: u32) -> Self {
        assert!(rounds.iter().all(Round::is_possible));
        let mut all = Self {
            rounds,
            questions: VecDeque::new(),
            oldest: 0,
            out: VecDeque::new(),
            counted: Counted::default(),
        };
        (0..at_once).for_each(|_| all.ask(0));
        all
    }

    pub fn counted(&self) -> Counted {
        self.counted
    }

    fn ask(&mut self, round: usize) {
        let number = self.oldest.wrapping_add(self.questions.len() as u32);
        self.questions.push_back(Question { round, answers: 0 });
        let Round {
            ask_len,
            answers,
            answer_len,
            ..
        } = self.rounds[round];
        let question = Header {
            is_answer: false,
            answers,
            answer_len: answer_len as u16,
            number,
        };
        self.out.push_back((question, ask_len));
    }

    /// Takes the oldest away, and asks it again.
    fn lose(&mut self) {
        if let Some(question) = self.next() {
            self.counted.lost += 1;
            self.ask(question.round);
        }
    }

    fn next(&mut self) -> Option<Question> {
        let question = self.questions.pop_front();
        self.oldest = self.oldest.wrapping_add(question.is_some().into());
        question
    }

    /// Takes everything for lost.
    pub fn restart(&mut self) {
        self.counted.restarts += 1;
        self.out.clear();
        (0..self.questions.len()).for_each(|_| self.lose());
    }

    /// Takes in an answer.
    pub fn handle(&mut self, header: Header) {
        let before = header.number.wrapping_sub(self.oldest);
        if !header.is_answer || before as usize >= self.questions.len() {
            return;
        }
        (0..before).for_each(|_| self.lose());
        let question = &mut self.questions[0];
        question.answers += 1;
        let Question { round, answers } = *question;
        let Round {
            answers: all,
            note_every,
            ..
        } = self.rounds[round];
        if answers < all {
            if note_every > 0 && answers.is_multiple_of(note_every) {
                let answers = 0;
                let is_answer = false;
                let note = Header {
                    is_answer,
                    answers,
                    ..header
                };
                self.out.push_back((note, FRAME_LEN_MIN));
            }
            return;
        }
        self.next();
        let next = (round + 1) % self.rounds.len();
        self.counted.done += u64::from(next == 0);
        self.ask(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rounds: one frame each way, then three answers with a note after the second.
    fn two() -> UnderWay {
        let document = Round {
            ask_len: 100,
            answers: 3,
            answer_len: 1514,
            note_every: 2,
        };
        UnderWay::new(vec![Round::of_equals(60), document], 2)
    }

    /// What is sent: how many answers it asks for, its number and its length.
    fn sent(all: &mut UnderWay) -> Vec<(u16, u32, usize)> {
        let sent = all.out.drain(..);
        sent.map(|(h, len)| (h.answers, h.number, len)).collect()
    }

    fn answer(all: &mut UnderWay, number: u32) {
        all.handle(Header {
            is_answer: true,
            answers: 1,
            answer_len: 60,
            number,
        });
    }

    #[test]
    fn an_exchange_is_done_when_its_last_round_is_answered() {
        let mut all = two();
        assert_eq!(sent(&mut all), [(1, 0, 60), (1, 1, 60)]);
        answer(&mut all, 0);
        answer(&mut all, 1);
        assert_eq!(sent(&mut all), [(3, 2, 100), (3, 3, 100)]);
        (0..2).for_each(|_| answer(&mut all, 2));
        assert_eq!(sent(&mut all), [(0, 2, 60)], "an acknowledgement");
        assert_eq!(all.counted().done, 0);
        answer(&mut all, 2);
        assert_eq!(sent(&mut all), [(1, 4, 60)]);
        assert_eq!((all.counted().done, all.counted().lost), (1, 0));
    }

    #[test]
    fn questions_before_one_that_was_answered_are_asked_again() {
        let mut all = two();
        answer(&mut all, 0);
        sent(&mut all);
        // 1 is lost, and the second answer of 2.
        (0..2).for_each(|_| answer(&mut all, 2));
        assert_eq!(sent(&mut all), [(1, 3, 60), (0, 2, 60)]);
        answer(&mut all, 3);
        assert_eq!(sent(&mut all), [(3, 4, 100), (3, 5, 100)]);
        assert_eq!(all.counted().lost, 2);
        // Both had been taken to be lost.
        (1..3).for_each(|number| answer(&mut all, number));
        assert!(sent(&mut all).is_empty());
        assert_eq!(all.counted().done, 0);
    }

    #[test]
    fn nothing_of_before_counts_after_everything_was_begun_again() {
        let mut all = two();
        all.oldest = u32::MAX;
        all.restart();
        assert_eq!(sent(&mut all), [(1, 1, 60), (1, 2, 60)]);
        answer(&mut all, 0);
        answer(&mut all, u32::MAX);
        assert!(sent(&mut all).is_empty());
        let all = all.counted();
        assert_eq!((all.lost, all.restarts), (2, 1));
    }
}
