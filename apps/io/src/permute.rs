//! `exos io permute`: all orders of some words (*IO-Lite*, section 4.5: ten words of eight characters, 10! × 80 bytes).

use crate::cat::gone;
use crate::limits::WORDS_MAX;
use crate::options::PermuteArgs;
use crate::output::Output;
use exos_host::Result;
use std::process::ExitCode;

pub(crate) fn run(args: &PermuteArgs) -> Result<ExitCode> {
    let mut output = Output::new(&args.common);
    let (words, len) = (usize::from(args.words), usize::from(args.length));
    match write_all(words, len, &mut |text| output.write_bytes(text)) {
        Ok(()) => output.end().map(|()| ExitCode::SUCCESS).or_else(gone),
        Err(error) => gone(error),
    }
}

/// The orders as numbers go up, each in one piece.
fn write_all(words: usize, len: usize, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut order: [u8; WORDS_MAX] = std::array::from_fn(|n| n as u8);
    let order = &mut order[..words];
    let mut text = vec![b' '; words * len];
    let mut changed = 0;
    loop {
        for place in changed..words {
            let word = &mut text[place * len..(place + 1) * len];
            word[..len.max(2) - 1].fill(b'a' + order[place]);
        }
        write(&text)?;
        match next(order) {
            Some(place) => changed = place,
            None => return Ok(()),
        }
    }
}

/// Makes the next order; the first place that is another, nothing behind the last order.
fn next(order: &mut [u8]) -> Option<usize> {
    let place = (1..order.len())
        .rev()
        .find(|&at| order[at - 1] < order[at])?
        - 1;
    let larger = (place..order.len())
        .rev()
        .find(|&at| order[at] > order[place])?;
    order.swap(place, larger);
    order[place + 1..].reverse();
    Some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn all_orders_come_once() {
        for (words, orders) in [(1, 1), (2, 2), (5, 120)] {
            let mut all = HashSet::new();
            write_all(words, 3, &mut |text| {
                assert!(all.insert(text.to_vec()), "it came before");
                assert_eq!(text.len(), words * 3);
                assert!(
                    text.chunks(3)
                        .all(|word| word[0] == word[1] && word[2] == b' ')
                );
                Ok(())
            })
            .expect("nothing fails");
            assert_eq!(all.len(), orders);
        }
    }
}
