//! A handler as machine code, for a program that runs it itself on what it has received.
//!
//! The code is one function: it reads the message and the memory, writes the memory and the reply, and returns what became of the message.
//! Why each of its loads and stores is within what it is given:
//!
//! | what | why |
//! |---|---|
//! | a number at a constant byte | the [check](crate::check) has found a `need` before it on every way |
//! | other numbers, keys, what a row takes | compared with the message's length before (`part`) |
//! | a place | its number is less than its region's count, compared when it is pointed at; and the check has found that it is pointed at before it is used |
//! | a row | what is copied is no longer than it, compared before |
//! | the reply | no longer than [`MESSAGE_MAX`]; what is written to it ends before its end: compared, or known to the check |
//!
//! Words of memory are read and changed as the interpreter does, atomically; rows by words and bytes, of which nobody is told. One
//! step is a call: a look-up in a table is [`Table::get`](crate::Table::get).

mod body;
mod compile;
mod find;
mod pipes;
mod reply;
mod take;
mod word;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block as Label, InstBuilder, Value};
use cranelift_frontend::{FunctionBuilder, Variable};

pub use compile::Unavailable;

use compile::Function;

use crate::check::Checked;
use crate::code::{Handler, VariableId};
use crate::limits::MESSAGE_MAX;
use crate::memory::{Layout, Memory};

/// What became of a message whose reply, where there is one, lies where the caller wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to the program, as it came.
    GivenUp,
    /// It was dealt with.
    Done,
    /// It was dealt with, and a reply of this many bytes goes back.
    Reply(usize),
}

/// What the code returns: of a reply its length is added.
const GIVEN_UP: i64 = 0;
const DONE: i64 = 1;
const REPLY: i64 = 2;

/// A handler that this processor runs.
#[derive(Debug)]
pub struct Native {
    layout: Layout,
    function: Function,
}

impl Checked {
    /// Makes machine code of it.
    ///
    /// # Errors
    ///
    /// There is none for this machine; [`interpret`](crate::interpret) does the same.
    pub fn compile(&self) -> Result<Native, Unavailable> {
        let layout = Layout::of(self.handler());
        let function = compile::compile(|build, parameters| {
            Generator::begin(build, parameters, self.handler(), &layout).all();
        })?;
        Ok(Native { layout, function })
    }
}

impl Native {
    /// Runs it on a message. Beyond a reply's length, and where there is none, anything may have been written to `reply`.
    ///
    /// # Panics
    ///
    /// If the memory is less than the handler's.
    pub fn run(
        &self,
        memory: Memory<'_>,
        message: &[u8],
        reply: &mut [u8; MESSAGE_MAX as usize],
    ) -> Verdict {
        if message.len() > reply.len() {
            return Verdict::GivenUp;
        }
        let words = memory.all();
        assert!(words.len() * 8 >= self.layout.bytes() as usize);
        let (from, to) = (message.as_ptr(), reply.as_mut_ptr());
        // SAFETY: the code keeps to the message, to `MESSAGE_MAX` bytes of the reply and to the layout's bytes of the memory (see this
        // file's beginning). The first two are borrowed; the memory is words of the program's that others may write: the code alone copies rows of it, as the kernel does.
        let outcome = unsafe {
            self.function
                .call(from, to, message.len(), words.as_ptr().cast_mut().cast())
        };
        match outcome as i64 {
            GIVEN_UP => Verdict::GivenUp,
            DONE => Verdict::Done,
            reply => Verdict::Reply((reply - REPLY) as usize),
        }
    }
}

struct Generator<'a, 'b> {
    build: &'a mut FunctionBuilder<'b>,
    handler: &'a Handler,
    layout: &'a Layout,
    message: Value,
    length: Value,
    reply: Value,
    memory: Value,
    /// Words; of a place, its address.
    variables: Vec<Variable>,
    give_up: Label,
    /// What is behind each repetition that is open.
    loops: Vec<Label>,
}

impl<'a, 'b> Generator<'a, 'b> {
    fn begin(
        build: &'a mut FunctionBuilder<'b>,
        [message, reply, length, memory]: [Value; 4],
        handler: &'a Handler,
        layout: &'a Layout,
    ) -> Self {
        let variables = handler.variables.iter();
        let variables = variables.map(|_| build.declare_var(I64)).collect();
        let give_up = build.create_block();
        build.set_cold_block(give_up);
        Self {
            build,
            handler,
            layout,
            message,
            length,
            reply,
            memory,
            variables,
            give_up,
            loops: Vec::new(),
        }
    }

    fn all(mut self) {
        self.block(&self.handler.body);
        self.build.switch_to_block(self.give_up);
        self.end(GIVEN_UP);
    }

    /// Returns what became of the message.
    fn end(&mut self, outcome: i64) {
        let outcome = self.constant(outcome);
        self.build.ins().return_(&[outcome]);
    }

    fn constant(&mut self, value: i64) -> Value {
        self.build.ins().iconst(I64, value)
    }

    fn compare(&mut self, how: IntCC, a: Value, b: Value) -> Value {
        self.build.ins().icmp(how, a, b)
    }

    /// Gives the message up where this holds; else goes on.
    fn give_up_if(&mut self, holds: Value) {
        let next = self.build.create_block();
        self.build.ins().brif(holds, self.give_up, &[], next, &[]);
        self.build.switch_to_block(next);
    }

    fn give_up_if_more(&mut self, value: Value, most: Value) {
        let more = self.compare(IntCC::UnsignedGreaterThan, value, most);
        self.give_up_if(more);
    }

    /// Where a part of the message is, which is given up if it has none there.
    fn part(&mut self, from: Value, length: Value) -> Value {
        self.give_up_if_more(from, self.length);
        let rest = self.build.ins().isub(self.length, from);
        self.give_up_if_more(length, rest);
        self.build.ins().iadd(self.message, from)
    }

    /// Does something at each `step` of bytes from `first` on, below `end`, which is whole steps away.
    fn each(&mut self, step: i64, first: Value, end: Value, body: impl FnOnce(&mut Self, Value)) {
        let [head, inside, behind] = [(); 3].map(|()| self.build.create_block());
        let at = self.build.declare_var(I64);
        self.build.def_var(at, first);
        self.build.ins().jump(head, &[]);
        self.build.switch_to_block(head);
        let here = self.build.use_var(at);
        let more = self.compare(IntCC::UnsignedLessThan, here, end);
        self.build.ins().brif(more, inside, &[], behind, &[]);
        self.build.switch_to_block(inside);
        body(self, here);
        let next = self.build.ins().iadd_imm(here, step);
        self.build.def_var(at, next);
        self.build.ins().jump(head, &[]);
        self.build.switch_to_block(behind);
    }

    fn variable(&mut self, variable: VariableId) -> Value {
        self.build.use_var(self.variables[usize::from(variable.0)])
    }

    fn keep(&mut self, variable: VariableId, value: Value) {
        self.build
            .def_var(self.variables[usize::from(variable.0)], value);
    }
}
