//! Pipes: the compiled loop against the passes, which are their meaning, and both against other sums and hashes.

use exos_pipes::{Gauge, List, Loop, Pipe, PipeError, State};
use exos_testing::Random;

const GAUGES: [Gauge; 4] = [Gauge::One, Gauge::Two, Gauge::Four, Gauge::Eight];

fn list(random: &mut Random) -> List {
    let count = random.below(9);
    List::new((0..count).map(|_| pipe(random)).collect()).unwrap()
}

fn pipe(random: &mut Random) -> Pipe {
    let gauge = random.pick(&GAUGES);
    let word = random.next() >> (64 - 8 * gauge.bytes());
    match random.below(9) {
        0 | 1 => Pipe::Checksum,
        2 | 3 => Pipe::Sum(gauge),
        4 => Pipe::Hash(gauge),
        5 => Pipe::Swap(gauge),
        6 => Pipe::Xor(gauge, word),
        7 => Pipe::And(gauge, word),
        _ => Pipe::Or(gauge, word),
    }
}

/// Lengths about the loops' strides; at times one that ends within a word.
fn length(random: &mut Random) -> usize {
    let words = [0, 1, 7, 8, 9, 15, 16, 17, 40, 187][random.below(10)];
    words * 8 + [0, 0, 0, 4, 2, 1 + random.below(7)][random.below(6)]
}

/// Parts of a message at any alignment, copied and in place, are what the passes make of them; so are errors.
#[test]
fn a_loop_is_its_passes() {
    let mut random = Random(0x9195);
    for _ in 0..150 {
        let compiled = Loop::compile(list(&mut random)).unwrap();
        let list = compiled.list();
        let mut states = [(); 3].map(|()| list.state());
        for _ in 0..4 {
            parts_agree(&mut random, &compiled, &mut states);
        }
    }
}

fn parts_agree(random: &mut Random, compiled: &Loop, states: &mut [State; 3]) {
    let (length, skew) = (length(random), [random.below(16), random.below(16)]);
    let message = random.bytes(skew[0] + length);
    let message = &message[skew[0]..];
    let [meant, copied, changed] = states;

    let mut expected = message.to_vec();
    let result = compiled.list().passes(&mut expected, meant);

    let mut to = vec![0xa5; skew[1] + length + 8];
    let into = &mut to[skew[1]..skew[1] + length];
    assert_eq!(compiled.copy(message, into, copied), result);
    if result.is_ok() {
        assert_eq!(into, expected, "{:?}", compiled.list());
    }
    let outside = to[..skew[1]].iter().chain(&to[skew[1] + length..]);
    assert!(
        outside.copied().all(|byte| byte == 0xa5),
        "it keeps to its bytes"
    );

    let mut place = [&vec![0xa5; skew[1]], message].concat();
    assert_eq!(compiled.in_place(&mut place[skew[1]..], changed), result);
    assert_eq!(place[skew[1]..], expected);
    assert_eq!(
        (&*copied, &*changed),
        (&*meant, &*meant),
        "{:?}",
        compiled.list()
    );
}

/// However a message is split at words, the registers come to what they are for the whole.
#[test]
fn parts_make_the_whole() {
    let mut random = Random(0x5eed);
    for _ in 0..200 {
        let compiled = Loop::compile(list(&mut random)).unwrap();
        let message = random.bytes(8 * random.clone().below(80));
        let mut whole = compiled.list().state();
        compiled
            .list()
            .passes(&mut message.clone(), &mut whole)
            .unwrap();

        let mut state = compiled.list().state();
        let mut rest = &message[..];
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(8 * (1 + random.below(rest.len() / 8)));
            compiled
                .copy(part, &mut vec![0; part.len()], &mut state)
                .unwrap();
            state = compiled.list().resume(state.registers()).unwrap();
            rest = behind;
        }
        assert_eq!(state.registers(), whole.registers());
        joins(&mut random, &compiled, &message, &whole);
    }
}

fn joins(random: &mut Random, compiled: &Loop, message: &[u8], whole: &State) {
    let list = compiled.list();
    let (first, second) = message.split_at(8 * random.below(message.len() / 8 + 1));
    let states = [second, first].map(|part| {
        let mut state = list.state();
        compiled.in_place(&mut part.to_vec(), &mut state).unwrap();
        state
    });
    let ordered = list.pipes().iter().position(|pipe| !pipe.commutative());
    match (list.join(&states[1], &states[0]), ordered) {
        (Ok(joined), None) => assert_eq!(joined.registers(), whole.registers()),
        (result, Some(pipe)) => assert_eq!(result, Err(PipeError::InOrder(pipe))),
        (Err(error), None) => panic!("{error}"),
    }
}

/// The example of RFC 1071, section 3: the sum of 00 01 f2 03 f4 f5 f6 f7 is ddf2.
#[test]
fn sums_and_hashes_are_the_usual_ones() {
    let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    let pipes = vec![
        Pipe::Checksum,
        Pipe::Sum(Gauge::One),
        Pipe::Hash(Gauge::One),
    ];
    let compiled = Loop::compile(List::new(pipes).unwrap()).unwrap();
    // FNV-1a begins with its offset; that of "foobar" is 85944171f73967e8 (draft-eastlake-fnv, appendix C).
    let mut state = compiled
        .list()
        .resume(&[0, 0, 0xcbf2_9ce4_8422_2325])
        .unwrap();
    compiled
        .in_place(&mut b"foobar".to_vec(), &mut state)
        .unwrap();
    assert_eq!(state.register(2), Some(0x8594_4171_f739_67e8));

    let mut state = compiled.list().state();
    compiled
        .in_place(&mut example.to_vec(), &mut state)
        .unwrap();
    assert_eq!(state.register(0), Some(0xddf2));
    assert_eq!(
        state.register(1),
        Some(example.iter().map(|&byte| u64::from(byte)).sum())
    );
}

/// What cannot be composed or passed says which pipe it is.
#[test]
fn errors_name_the_pipe() {
    let wide = List::new(vec![Pipe::Checksum, Pipe::Xor(Gauge::One, 256)]);
    assert_eq!(wide, Err(PipeError::WideOperand(1)));
    let many = List::new(vec![Pipe::Checksum; 9]);
    assert_eq!(many, Err(PipeError::TooMany(9)));

    let list = List::new(vec![Pipe::Sum(Gauge::Two), Pipe::Swap(Gauge::Four)]).unwrap();
    let compiled = Loop::compile(list).unwrap();
    let mut state = compiled.list().state();
    let partial = PipeError::PartialWord { pipe: 1, length: 6 };
    assert_eq!(compiled.in_place(&mut [0; 6], &mut state), Err(partial));
    let lengths = compiled.copy(&[0; 8], &mut [0; 4], &mut state);
    assert_eq!(lengths, Err(PipeError::Lengths(8, 4)));
    assert_eq!(compiled.list().resume(&[0]), Err(PipeError::OtherList));

    let sum = List::new(vec![Pipe::Checksum]).unwrap();
    let mut odd = sum.state();
    sum.passes(&mut [1, 2, 3], &mut odd).unwrap();
    assert_eq!(sum.passes(&mut [4], &mut odd), Err(PipeError::Ended));
    assert_eq!(sum.join(&odd, &sum.state()), Err(PipeError::Ended));
}
