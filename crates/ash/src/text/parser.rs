//! Text to a handler. Errors say where.

mod expression;
mod layer;
mod statement;

use super::error::{Place, TextError};
use super::lexer::{Token, tokens};
use super::words::is_name;
use crate::check::{Budget, CheckError, Checked, check};
use crate::code::{Block, Handler, Region, RegionKind, Variable, VariableId, VariableKind};
use crate::layers::Layers;

/// Reads a handler and [checks](check) it.
///
/// # Errors
///
/// The text is none, or the handler may not run.
pub fn parse(text: &str) -> Result<Checked, TextError> {
    let tokens = tokens(text)?;
    let start = tokens[0].1;
    let mut parser = Parser {
        tokens,
        next: 0,
        handler: Handler {
            name: String::new(),
            regions: Vec::new(),
            variables: Vec::new(),
            body: Vec::new(),
        },
        statements: Vec::new(),
        layers: Layers::default(),
        added: Added::default(),
        depth: 0,
        budget: Budget::WHOLE,
    };
    parser.handler()?;
    let Parser {
        handler,
        statements,
        ..
    } = parser;
    check(handler).map_err(|CheckError { statement, what }| {
        let place = statement.and_then(|number| statements.get(number).copied());
        TextError::at(place.unwrap_or(start), what)
    })
}

type Parsed<T> = Result<T, TextError>;

/// Parentheses and blocks within one another that are read.
const DEPTH_MAX: usize = 64;

struct Parser<'a> {
    tokens: Vec<(Token<'a>, Place)>,
    next: usize,
    handler: Handler,
    /// Where each statement stands.
    statements: Vec<Place>,
    layers: Layers,
    added: Added,
    depth: usize,
    budget: Budget,
}

/// Where what layers below add to each verdict stands in the text, and how much that is.
#[derive(Default)]
struct Added {
    /// Of each statement of commits below, and of those within them.
    places: Vec<Place>,
    /// Words and signs of commits and headers of those below, and how many were added to verdicts so far.
    tokens: usize,
    total: usize,
}

impl<'a> Parser<'a> {
    fn handler(&mut self) -> Parsed<()> {
        self.expect_word("handler")?;
        self.handler.name = self.name()?.to_owned();
        self.expect("{")?;
        self.regions()?;
        let mut body = Block::new();
        while self.take_word("layer") {
            self.layer(&mut body)?;
        }
        self.regions()?;
        body.extend(self.statements()?);
        self.handler.body = body;
        match self.peek() {
            Token::End => Ok(()),
            _ => Err(self.wrong("nothing stands behind a handler")),
        }
    }

    fn regions(&mut self) -> Parsed<()> {
        while let Some(is) = ["words", "rows", "table"]
            .into_iter()
            .find(|word| self.take_word(word))
        {
            let place = self.place();
            let region = self.region(is)?;
            if self
                .handler
                .regions
                .iter()
                .any(|known| known.name == region.name)
            {
                return Err(TextError::at(
                    place,
                    format!("there is a {} already", region.name),
                ));
            }
            self.handler.regions.push(region);
        }
        Ok(())
    }

    fn region(&mut self, is: &str) -> Parsed<Region> {
        let name = self.name()?;
        let name = self.layers.full_name(name, |_| false);
        self.expect("[")?;
        let count = self.number("how many")?;
        self.expect("]")?;
        let kind = if is == "words" {
            RegionKind::Words
        } else {
            self.expect_word("of")?;
            let bytes = self.number("how many bytes")?;
            match is {
                "rows" => RegionKind::Rows(bytes),
                _ => RegionKind::Table(bytes),
            }
        };
        self.expect(";")?;
        Ok(Region { name, kind, count })
    }

    /// The variable of this name, which begins here if there is none.
    fn variable(&mut self, name: &str, kind: VariableKind, place: Place) -> Parsed<VariableId> {
        let full = self.variable_name(name);
        let variables = &self.handler.variables;
        let position = variables.iter().position(|known| known.name == full);
        let number = position.unwrap_or(self.handler.variables.len());
        match self.handler.variables.get(number) {
            Some(known) if known.kind != kind => {
                return Err(TextError::at(
                    place,
                    format!("{name} is {} already", self.description(known.kind)),
                ));
            }
            Some(_) => {}
            None if self.layers.is_in_commit() => {
                let what = format!("{name} begins before `commit`; say `{name} = 0;` there");
                return Err(TextError::at(place, what));
            }
            None => self.handler.variables.push(Variable { name: full, kind }),
        }
        u8::try_from(number)
            .map(VariableId)
            .map_err(|_| TextError::at(place, "there are too many variables".into()))
    }

    fn variable_name(&self, name: &str) -> String {
        let variables = &self.handler.variables;
        let is_known = |name: &str| variables.iter().any(|known| known.name == name);
        self.layers.full_name(name, is_known)
    }

    fn description(&self, kind: VariableKind) -> String {
        match kind {
            VariableKind::Word => "a word".into(),
            VariableKind::Place(region) => {
                format!(
                    "a place of {}",
                    self.handler.regions[usize::from(region)].name
                )
            }
        }
    }

    /// A variable that there is.
    fn known(&mut self) -> Parsed<VariableId> {
        let place = self.place();
        let name = self.name()?;
        let full = self.variable_name(name);
        let mut variables = self.handler.variables.iter();
        match variables.position(|known| known.name == full) {
            Some(number) => Ok(VariableId(number as u8)),
            None => Err(TextError::at(
                place,
                format!("there is no variable {name} before"),
            )),
        }
    }

    fn name(&mut self) -> Parsed<&'a str> {
        match self.peek() {
            Token::Word(word) if is_name(word) => {
                self.next += 1;
                Ok(word)
            }
            Token::Word(word) => {
                Err(self.wrong(&format!("{word} is a word of the language, not a name")))
            }
            _ => Err(self.wrong("a name is expected here")),
        }
    }

    fn number<T: TryFrom<u64>>(&mut self, what: &str) -> Parsed<T> {
        let Token::Number(number) = self.peek() else {
            return Err(self.wrong(&format!("a number is expected here: {what}")));
        };
        let number =
            T::try_from(number).map_err(|_| self.wrong(&format!("{number} is too many")))?;
        self.next += 1;
        Ok(number)
    }

    fn peek(&self) -> Token<'a> {
        self.tokens[self.next].0
    }

    fn place(&self) -> Place {
        self.tokens[self.next].1
    }

    fn take(&mut self, sign: &str) -> bool {
        let is = matches!(self.peek(), Token::Sign(found) if found == sign);
        self.next += usize::from(is);
        is
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is = matches!(self.peek(), Token::Word(found) if found == word);
        self.next += usize::from(is);
        is
    }

    fn expect(&mut self, sign: &str) -> Parsed<()> {
        match self.take(sign) {
            true => Ok(()),
            false => Err(self.wrong(&format!("`{sign}` is expected here"))),
        }
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        match self.take_word(word) {
            true => Ok(()),
            false => Err(self.wrong(&format!("`{word}` is expected here"))),
        }
    }

    /// One more within; so that no text is too deep for the stack.
    fn within<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong("this is too deep"));
        }
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn wrong(&self, what: &str) -> TextError {
        TextError::at(self.place(), what.to_owned())
    }
}
