//! A handler in the program's own receive path: run on what the stack has received, as machine code where there is some for this
//! processor, else by the interpreter.

use exos_ash::{Checked, Layout, Memory, Native, Outcome, Verdict, interpret};
use exos_inet::limits::HANDLED_BYTES_MAX;
use exos_inet::{Handled, MessageHandler};

use super::{Place, Words};

/// A handler and its memory, which the program shares.
pub(super) struct Here {
    handler: Checked,
    layout: Layout,
    native: Option<Native>,
    words: Words,
}

impl Here {
    pub(super) fn new(handler: Checked, layout: Layout, words: Words) -> Self {
        Self {
            native: handler.compile().ok(),
            handler,
            layout,
            words,
        }
    }

    pub(super) fn words(&self) -> Words {
        self.words.clone()
    }

    pub(super) fn place(&self) -> Place {
        match self.native {
            Some(_) => Place::Compiled,
            None => Place::Interpreted,
        }
    }
}

impl MessageHandler for Here {
    fn handle(&mut self, message: &[u8], reply: &mut [u8; HANDLED_BYTES_MAX]) -> Handled {
        let memory = Memory::new(self.words.all(), &self.layout, self.handler.handler());
        let Some(native) = &self.native else {
            return interpreted(&self.handler, memory, message, reply);
        };
        match native.run(memory, message, reply) {
            Verdict::GivenUp => Handled::GivenUp,
            Verdict::Done => Handled::Done,
            Verdict::Reply(bytes) => Handled::Reply(bytes),
        }
    }
}

fn interpreted(
    handler: &Checked,
    memory: Memory<'_>,
    message: &[u8],
    reply: &mut [u8; HANDLED_BYTES_MAX],
) -> Handled {
    match interpret(handler, memory, message) {
        Outcome::GivenUp => Handled::GivenUp,
        Outcome::Done => Handled::Done,
        Outcome::Reply(bytes) => {
            reply[..bytes.len()].copy_from_slice(&bytes);
            Handled::Reply(bytes.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_machine_code_messages_are_dealt_with_alike() {
        let text = "handler h {
                        words w[2];
                        need 1;
                        if u8(0) == 9 { done; }
                        p = &w[u8(0)];
                        before = add(p, length);
                        reply length { u8(0) = before; }
                    }";
        let handler = exos_ash::parse(text).unwrap();
        let new = || {
            let layout = Layout::of(handler.handler());
            let words = Words::new(&layout);
            Here::new(handler.clone(), layout, words)
        };
        let (mut compiled, mut other) = (new(), new());
        other.native = None;
        assert_eq!(other.place(), Place::Interpreted);
        for message in [&[0, 1, 2][..], &[0], &[1; 19], &[1; 1400], &[2], &[9], &[]] {
            let mut replies = [[0xa5; HANDLED_BYTES_MAX]; 2];
            let handled = compiled.handle(message, &mut replies[0]);
            assert_eq!(other.handle(message, &mut replies[1]), handled);
            if let Handled::Reply(bytes) = handled {
                assert_eq!(bytes, message.len());
                assert_eq!(replies[0][..bytes], replies[1][..bytes]);
            }
        }
        let both = [&compiled, &other].map(|here| Vec::from_iter(here.words.all().iter()));
        assert_eq!(format!("{:?}", both[0]), format!("{:?}", both[1]));
    }
}
