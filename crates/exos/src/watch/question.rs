//! The asker's side: which stacks of programs there are, and their sockets.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use exos_host::Error;
use exos_host::user_memory::{self, FoundMemory, UserMemory};

use super::layout::{has_ended, whose};
use super::sockets::{MAGIC, MEMORY_WORDS, NAME, SOCKETS, Socket, head, socket_words};
use crate::limits::STACKS_ASKED;

/// The byte whose lock the asker has: one asks at a time.
const ASKER: u64 = 0;

/// A stack of a program, whose sockets may be asked for.
#[derive(Debug)]
pub struct Askable {
    memory: UserMemory,
    /// Its process.
    pub pid: u32,
    /// The program's name, of its own choosing.
    pub program: String,
    /// The interface's name, in the program's network namespace.
    pub interface: String,
}

/// What may be asked.
#[derive(Debug, Default)]
pub struct Askables {
    /// The stacks, those of a process together.
    pub stacks: Vec<Askable>,
    /// Why others are not among them: a process has more than are asked, or this one has no descriptor or memory left.
    pub left_out: Vec<Error>,
}

/// All that this process may ask, of the process `only` or of all.
pub fn askable(only: Option<u32>) -> Askables {
    let mut all = Askables::default();
    let found = user_memory::find(NAME, only);
    for process in found.chunk_by(|one, next| one.pid == next.pid) {
        if let Err(error) = all.add(process) {
            let mend = "let it have more descriptors (ulimit -n), or ask one process (--pid)";
            all.left_out.push(error.mend(mend));
            break;
        }
    }
    all
}

impl Askables {
    /// Opens what was found of one process.
    fn add(&mut self, process: &[FoundMemory]) -> Result<(), Error> {
        for found in process.iter().take(STACKS_ASKED) {
            if let Some(memory) = opened(UserMemory::open(&found.path, MEMORY_WORDS))? {
                self.stacks.extend(Askable::new(memory, found.pid));
            }
        }
        if process.len() > STACKS_ASKED {
            let (pid, count) = (process[0].pid, process.len());
            let what = format!(
                "process {pid} has {count} stacks, of which {STACKS_ASKED} are asked for their sockets"
            );
            self.left_out.push(Error::new(what));
        }
        Ok(())
    }
}

/// Nothing of what has just ended, is of another version, or is not for this process. That this process has no descriptor or memory left
/// says nothing of the other one.
fn opened(memory: Result<UserMemory, Error>) -> Result<Option<UserMemory>, Error> {
    match memory {
        Err(error) if error.has_run_out() => Err(error),
        memory => Ok(memory.ok()),
    }
}

impl Askable {
    /// `None` of what is in another layout.
    fn new(memory: UserMemory, pid: u32) -> Option<Self> {
        let (program, interface) = whose(&memory, MAGIC)?;
        Some(Self {
            memory,
            pid,
            program,
            interface,
        })
    }

    /// A question about its sockets.
    pub fn ask(self) -> Question {
        Question {
            of: self,
            request: None,
        }
    }
}

/// A question that is being answered, in one piece or several.
#[derive(Debug)]
pub struct Question {
    of: Askable,
    /// What was asked last, once nobody else asks.
    request: Option<u64>,
}

impl Question {
    /// Who is asked.
    pub fn of(&self) -> &Askable {
        &self.of
    }

    /// Takes what has been answered; true when that is all, or the program has ended. It answers within a second, and what comes behind
    /// within milliseconds.
    ///
    /// # Errors
    ///
    /// What is in the memory is not what a program of ours writes.
    pub fn poll(&mut self, sockets: &mut Vec<Socket>) -> Result<bool, Error> {
        if has_ended(&self.of.memory) {
            return Ok(true);
        }
        let Some(request) = self.request else {
            if self.of.memory.lock(ASKER) {
                self.go_on_from(0);
            }
            return Ok(false);
        };
        let words = self.of.memory.words();
        if words[head::ANSWERED].load(Acquire) != request {
            return Ok(false);
        }
        let strange = || {
            let (program, pid) = (&self.of.program, self.of.pid);
            Error::new(format!(
                "the sockets of {program} (process {pid}) cannot be read"
            ))
            .mend("use programs of the same version")
        };
        let count = words[head::COUNT].load(Relaxed) as usize;
        if count > SOCKETS {
            return Err(strange());
        }
        for n in 0..count {
            sockets.push(Socket::get(socket_words(words, n)).ok_or_else(strange)?);
        }
        match words[head::NEXT].load(Relaxed) as u32 {
            0 => Ok(true),
            // It goes forward, or never ends.
            place if place <= request as u32 => Err(strange()),
            place => {
                self.go_on_from(place);
                Ok(false)
            }
        }
    }

    fn go_on_from(&mut self, place: u32) {
        let word = &self.of.memory.words()[head::REQUEST];
        let number = (word.load(Relaxed) >> 32).wrapping_add(1);
        let request = number << 32 | u64::from(place);
        self.request = Some(request);
        word.store(request, Release);
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if self.request.is_some() {
            self.of.memory.discard(head::WORDS..MEMORY_WORDS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};
    use std::sync::{Mutex, PoisonError};

    use exos_inet::tcp::{ListenOptions, Options, State};
    use exos_inet::{Config, Instant, Stack};
    use exos_link::{MemoryConfig, MemoryLink};
    use exos_wire::Mac;

    use super::super::{Answers, Protocol, layout};
    use super::*;

    /// A stack with a listener, and connections that are being opened.
    fn stack_with(port: u16, connections: u16) -> (Stack, Answers) {
        let macs = [Mac([2; 6]), Mac([4; 6])];
        let [link, _other] = MemoryLink::pair(macs, MemoryConfig::default());
        let mut config = Config::new(macs[0], 1500);
        let own: IpAddr = "192.0.2.1".parse().expect("an address");
        config.addresses = vec![(own, 24)];
        let mut stack = Stack::new(config, 1, Instant::START).expect("a stack");
        let listening = stack.tcp.listen(None, port, ListenOptions::default());
        listening.expect("a free port");
        let to = SocketAddr::new("192.0.2.2".parse().expect("an address"), 80);
        for n in 0..connections {
            let from = Some(SocketAddr::new(own, 10_000 + n));
            let opened = stack
                .tcp
                .connect(Instant::START, from, to, &Options::default());
            opened.expect("a free port");
        }
        (stack, Answers::new(&link.into()).expect("memory"))
    }

    /// What the program of this port says, while it takes a turn between two looks. Other tests' programs are there too, and silent.
    /// One test asks at a time: a question takes the place of another that waits for an answer.
    fn ask(stack: &Stack, answers: &mut Answers) -> Vec<Socket> {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let all = askable(Some(std::process::id())).stacks.into_iter();
        let mut all: Vec<_> = all.map(|one| (one.ask(), Vec::new())).collect();
        for _ in 0..10 {
            for (question, sockets) in &mut all {
                if question.poll(sockets).expect("sound") && !sockets.is_empty() {
                    return std::mem::take(sockets);
                }
            }
            answers.look(Instant::START, stack);
        }
        panic!("no answer");
    }

    #[test]
    fn what_is_left_out_is_said() {
        const OWN_NAME: &str = "exos-test-asked";
        let made: Vec<_> = (0..=STACKS_ASKED)
            .map(|_| UserMemory::create(OWN_NAME, MEMORY_WORDS).expect("memory"))
            .collect();
        for memory in &made {
            memory.words()[layout::head::MAGIC].store(MAGIC, Release);
        }
        let found = user_memory::find(OWN_NAME, Some(std::process::id()));
        let asked = |found: &[FoundMemory]| {
            let mut all = Askables::default();
            all.add(found).expect("descriptors enough");
            let said: Vec<_> = all.left_out.iter().map(Error::to_string).collect();
            (all.stacks.len(), said)
        };
        let (stacks, said) = asked(&found);
        assert_eq!(stacks, STACKS_ASKED);
        assert!(said.len() == 1 && said[0].contains("65 stacks"), "{said:?}");
        assert_eq!(asked(&found[1..]), (STACKS_ASKED, Vec::new()));
        drop(made);
        assert_eq!(asked(&found[1..]), (0, Vec::new()));
    }

    #[test]
    fn descriptors_that_ran_out_say_nothing_of_a_program() {
        let error = |errno| {
            Err(Error::io(
                "cannot open it",
                std::io::Error::from_raw_os_error(errno),
            ))
        };
        for (errno, is_said) in [
            (libc::EMFILE, true),
            (libc::ENFILE, true),
            (libc::ENOMEM, true),
            (libc::ENOENT, false),
        ] {
            assert_eq!(opened(error(errno)).is_err(), is_said, "{errno}");
        }
    }

    #[test]
    fn listeners_and_datagrams_behind_the_first_answer_are_told_too() {
        const MANY: u16 = SOCKETS as u16 + 5;
        let (mut stack, mut answers) = stack_with(4712, 3);
        for port in 20_000..20_000 + MANY {
            let listening = stack.tcp.listen(None, port, ListenOptions::default());
            listening.expect("a free port");
        }
        let bound = stack.udp.bind(None, 4713);
        bound.expect("a free port");
        let sockets = ask(&stack, &mut answers);
        let count = |state| sockets.iter().filter(|s| s.state == state).count();
        assert_eq!(count(State::Listen), usize::from(MANY) + 1);
        assert_eq!(count(State::SynSent), 3);
        let datagrams = sockets.iter().filter(|s| s.protocol == Protocol::Udp);
        assert_eq!(datagrams.map(|s| s.port).collect::<Vec<_>>(), [4713]);
    }

    #[test]
    fn all_sockets_are_told_in_as_many_answers_as_they_take() {
        const MANY: u16 = 2 * SOCKETS as u16 + 5;
        let (stack, mut answers) = stack_with(4711, MANY);
        let sockets = ask(&stack, &mut answers);
        let ports = |state| {
            let of = sockets.iter().filter(move |socket| socket.state == state);
            of.map(|socket| socket.port).collect::<Vec<_>>()
        };
        assert_eq!(ports(State::Listen), [4711]);
        assert_eq!(
            ports(State::SynSent),
            (10_000..10_000 + MANY).collect::<Vec<_>>()
        );
        let known = sockets.last().and_then(|socket| socket.tcp.as_ref());
        assert!(known.is_some_and(|tcp| !tcp.congestion.is_empty() && tcp.mss > 0));
        assert!(answers.expects_more(Instant::START));
    }
}
