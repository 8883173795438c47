//! Measurements: numbers of 32 bits in the network's order, masked with a key, come over a connection, and are unmasked, added up and
//! turned into this machine's order while they are copied out of the packets; the checksum is of what came.
//!
//! `cargo build --release -p exos --example samples`, then `sudo target/release/examples/samples 305419896`, which prints its address;
//! `head -c 1000000000 /dev/zero | nc -N ADDRESS 9000`. With `passes` as second argument each of these is done in a pass of its own.

use std::env::args;
use std::io::{self, Read as _};
use std::time::Instant;

use exos::OwnPair;
use exos::net::{Net, TcpListener, TcpStream};
use exos::pipes::{Gauge, List, Loop, Pipe};

type Error = Box<dyn std::error::Error>;

/// What came.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Numbers.
    pub count: u64,
    /// All of them together.
    pub sum: u64,
    /// The Internet checksum's sum of the bytes on their way.
    pub checksum: u16,
}

fn main() -> Result<(), Error> {
    let key = args()
        .nth(1)
        .ok_or("usage: samples KEY [passes]")?
        .parse()?;
    let net = Net::attach(OwnPair::new())?;
    let listener = TcpListener::bind(&net, "[::]:9000")?;
    net.with(|exos| {
        for address in exos.stack.addresses() {
            println!("{}", address.addr);
        }
    });
    let receive = match args().nth(2) {
        Some(_) => in_passes,
        None => through_pipes,
    };
    loop {
        let (stream, _) = listener.accept()?;
        let begin = Instant::now();
        let samples = receive(&stream, key, &mut |_| ())?;
        println!("{samples:?} in {:?}", begin.elapsed());
    }
}

/// Receives numbers until the peer has finished, and gives them to `take` as they come, in memory that is used again.
pub fn through_pipes(
    stream: &TcpStream,
    key: u32,
    take: &mut dyn FnMut(&[u8]),
) -> Result<Samples, Error> {
    let pipes = Loop::compile(List::new(vec![
        Pipe::Checksum,
        Pipe::Xor(Gauge::Four, key.into()),
        Pipe::Sum(Gauge::Four),
        Pipe::Swap(Gauge::Four),
    ])?)?;
    let (mut state, mut into, mut bytes) = (pipes.list().state(), vec![0; 1 << 16], 0);
    loop {
        let count = stream.read_through(&pipes, &mut state, &mut into)?;
        if count == 0 {
            break;
        }
        take(&into[..count]);
        bytes += count as u64;
    }
    let [checksum, _, sum, _] = *state.registers() else {
        unreachable!("a register for each pipe");
    };
    Ok(Samples {
        count: bytes / 4,
        sum,
        checksum: checksum as u16,
    })
}

/// As [`through_pipes`], with a copy and then a pass for each.
pub fn in_passes(
    mut stream: &TcpStream,
    key: u32,
    take: &mut dyn FnMut(&[u8]),
) -> Result<Samples, Error> {
    let (mut samples, mut into, mut have) = (Samples::default(), vec![0; 1 << 16], 0);
    let mut sum_of_all = exos::wire::Sum::ZERO;
    loop {
        let more = stream.read(&mut into[have..])?;
        have += more;
        let whole = have - have % 4;
        let (words, _) = into[..whole].as_chunks_mut::<4>();
        sum_of_all = sum_of_all.plus(exos::wire::Sum::of(words.as_flattened()));
        for word in &mut *words {
            *word = (u32::from_be_bytes(*word) ^ key).to_be_bytes();
        }
        samples.count += words.len() as u64;
        samples.sum += words
            .iter()
            .map(|word| u64::from(u32::from_be_bytes(*word)))
            .sum::<u64>();
        words.iter_mut().for_each(|word| word.reverse());
        take(&into[..whole]);
        into.copy_within(whole..have, 0);
        have -= whole;
        if more == 0 {
            break;
        }
    }
    samples.checksum = sum_of_all.value();
    match have {
        0 => Ok(samples),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the end is within a number").into()),
    }
}
