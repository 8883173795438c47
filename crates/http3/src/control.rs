//! The peer's streams in one direction (RFC 9114 §6.2): the control stream, and those of QPACK, on which nothing that counts can come.

use exos_http2::priority::Priority;

use crate::error::Fault;
use crate::frame::{self, kind, setting, stream};
use crate::limits::{CONTROL_FRAME_LEN_MAX, PRIORITIES_MAX, WASTE_LEN_MAX};
use crate::varint;

/// Whose streams are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// A client's, by its server.
    #[default]
    Client,
    /// A server's, by a client that has allowed no pushes.
    Server,
}

/// Kinds of these streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Settings, priorities.
    Control,
    /// What the peer's encoder says.
    Encoder,
    /// What its decoder says.
    Decoder,
    /// None that is known: it is not read.
    Unknown,
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The stream is of this kind.
    Opened(Kind),
    /// The response on this stream is so urgent (RFC 9218 §7.2).
    Priority(u64, Priority),
    /// The peer goes away (§5.2): a server handles no requests from this stream on.
    GoAway(u64),
}

/// Which of a peer's streams there are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opened(u8);

impl Opened {
    /// Another one is there.
    ///
    /// # Errors
    ///
    /// There is one of this kind (§6.2.1; RFC 9204 §4.2).
    pub fn open(&mut self, kind: Kind) -> Result<(), Fault> {
        let bit = match kind {
            Kind::Control => 1,
            Kind::Encoder => 2,
            Kind::Decoder => 4,
            Kind::Unknown => 0,
        };
        let is_twice = self.0 & bit != 0;
        self.0 |= bit;
        match is_twice {
            true => Err(Fault::StreamKind),
            false => Ok(()),
        }
    }
}

/// What reads one of them.
#[derive(Debug, Default)]
pub struct Reader {
    peer: Peer,
    kind: Option<Kind>,
    /// What has come of a number, of a frame's head, or of its content.
    partial: Vec<u8>,
    /// Kind and length of the frame that has begun.
    open: Option<(u64, usize)>,
    /// Bytes of a frame that are passed over.
    skipped: u64,
    has_settings: bool,
    priorities: u32,
    /// The latest push that the client would take.
    push_max: Option<u64>,
    /// From which on the peer has gone away.
    gone: Option<u64>,
    waste: u64,
    /// A number goes on, on a decoder's stream.
    is_within_number: bool,
}

impl Reader {
    /// One of a peer's streams.
    pub fn of(peer: Peer) -> Reader {
        Reader {
            peer,
            ..Reader::default()
        }
    }

    /// What it is, when that is known.
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Takes bytes, up to the next event; all where there is none.
    ///
    /// # Errors
    ///
    /// The fault of the connection.
    pub fn receive(&mut self, rest: &mut &[u8]) -> Result<Option<Event>, Fault> {
        while let Some(&byte) = rest.first() {
            let event = match self.kind {
                None => self
                    .take_number(rest)
                    .map(|number| self.begin(number))
                    .transpose()?,
                Some(Kind::Control) => self.receive_control(rest)?,
                Some(Kind::Unknown) => {
                    *rest = &[];
                    None
                }
                Some(kind) => {
                    *rest = &rest[1..];
                    self.waste(1)?;
                    match kind {
                        // RFC 9204 §4.3.1: a table of no room is all that it may set.
                        Kind::Encoder if byte != 0x20 => return Err(Fault::EncoderStream),
                        Kind::Encoder => None,
                        _ => self.receive_decoder(byte)?,
                    }
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// The peer has ended it.
    ///
    /// # Errors
    ///
    /// The connection needs it (§6.2.1).
    pub fn end(&self) -> Result<(), Fault> {
        match self.kind {
            None | Some(Kind::Unknown) => Ok(()),
            Some(Kind::Control | Kind::Encoder | Kind::Decoder) => Err(Fault::CriticalStream),
        }
    }

    fn begin(&mut self, number: u64) -> Result<Event, Fault> {
        let kind = match number {
            stream::CONTROL => Kind::Control,
            stream::QPACK_ENCODER => Kind::Encoder,
            stream::QPACK_DECODER => Kind::Decoder,
            // §6.2.2: only servers push, and only what a client has allowed (§4.6).
            stream::PUSH if self.peer == Peer::Client => return Err(Fault::StreamKind),
            stream::PUSH => return Err(Fault::Identifier),
            _ => Kind::Unknown,
        };
        self.kind = Some(kind);
        Ok(Event::Opened(kind))
    }

    /// RFC 9204 §4.4: it can only say that it has given up a stream.
    fn receive_decoder(&mut self, byte: u8) -> Result<Option<Event>, Fault> {
        if self.is_within_number {
            self.is_within_number = byte & 0x80 != 0;
            return Ok(None);
        }
        if byte & 0xc0 != 0x40 {
            return Err(Fault::DecoderStream);
        }
        self.is_within_number = byte & 0x3f == 0x3f;
        Ok(None)
    }

    fn receive_control(&mut self, rest: &mut &[u8]) -> Result<Option<Event>, Fault> {
        if self.skipped > 0 {
            let len = self.skipped.min(rest.len() as u64);
            self.skipped -= len;
            *rest = &rest[len as usize..];
            return Ok(None);
        }
        let Some((kind, len)) = self.open else {
            if let Some((kind, len)) = self.take_head(rest) {
                self.begin_frame(kind, len)?;
                if let Some((kind, 0)) = self.open {
                    self.open = None;
                    return self.frame(kind, &[]);
                }
            }
            return Ok(None);
        };
        let (part, behind) = rest.split_at(rest.len().min(len - self.partial.len()));
        *rest = behind;
        self.partial.extend_from_slice(part);
        if self.partial.len() < len {
            return Ok(None);
        }
        self.open = None;
        let content = std::mem::take(&mut self.partial);
        self.frame(kind, &content)
    }

    fn begin_frame(&mut self, kind: u64, len: u64) -> Result<(), Fault> {
        if !self.has_settings && kind != kind::SETTINGS {
            return Err(Fault::SettingsMissing);
        }
        match kind {
            kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => Err(Fault::FrameUnexpected),
            kind if kind::is_of_http2(kind) => Err(Fault::FrameOfHttp2),
            kind::SETTINGS if self.has_settings => Err(Fault::FrameUnexpected),
            // §7.2.7, RFC 9218 §7.2: only clients say so.
            kind::MAX_PUSH_ID | kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_PUSH
                if self.peer == Peer::Server =>
            {
                Err(Fault::FrameUnexpected)
            }
            kind::SETTINGS
            | kind::CANCEL_PUSH
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE
            | kind::PRIORITY_UPDATE_PUSH => {
                if len > CONTROL_FRAME_LEN_MAX as u64 {
                    return Err(Fault::WasteFlood);
                }
                self.open = Some((kind, len as usize));
                Ok(())
            }
            _ => {
                self.waste(len.saturating_add(1))?;
                self.skipped = len;
                Ok(())
            }
        }
    }

    /// A whole frame.
    fn frame(&mut self, kind: u64, content: &[u8]) -> Result<Option<Event>, Fault> {
        match kind {
            kind::SETTINGS => {
                self.has_settings = true;
                check_settings(content)?;
                return Ok(None);
            }
            kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_PUSH => {
                return self.priority(kind, content);
            }
            _ => {}
        }
        self.waste(1)?;
        let number = whole_number(content)?;
        match kind {
            // §7.2.3: nothing was promised.
            kind::CANCEL_PUSH => Err(Fault::Identifier),
            // §7.2.7, §5.2: the former grows, the latter falls.
            kind::MAX_PUSH_ID => match self.push_max.replace(number) {
                Some(before) if number < before => Err(Fault::Identifier),
                _ => Ok(None),
            },
            // A server names a request, which a client begins and both sides send on; a client a push.
            _ if self.peer == Peer::Server && number % 4 != 0 => Err(Fault::Identifier),
            _ => match self.gone.replace(number) {
                Some(before) if number > before => Err(Fault::Identifier),
                _ => Ok(Some(Event::GoAway(number))),
            },
        }
    }

    fn priority(&mut self, kind: u64, content: &[u8]) -> Result<Option<Event>, Fault> {
        self.priorities += 1;
        if self.priorities > PRIORITIES_MAX {
            return Err(Fault::PriorityFlood);
        }
        let mut rest = content;
        let stream = varint::take(&mut rest).ok_or(Fault::FrameLength)?;
        // RFC 9218 §7.2: it is of a request, which a client begins and both sides send on.
        if kind != kind::PRIORITY_UPDATE || stream % 4 != 0 {
            return Err(Fault::Identifier);
        }
        Ok(Some(Event::Priority(stream, Priority::parse(rest))))
    }

    fn take_number(&mut self, rest: &mut &[u8]) -> Option<u64> {
        self.take(rest, varint::take)
    }

    fn take_head(&mut self, rest: &mut &[u8]) -> Option<(u64, u64)> {
        self.take(rest, frame::take_head)
    }

    /// Something that may come in pieces.
    fn take<R>(&mut self, rest: &mut &[u8], take: fn(&mut &[u8]) -> Option<R>) -> Option<R> {
        while let Some((&byte, behind)) = rest.split_first() {
            *rest = behind;
            self.partial.push(byte);
            if let Some(taken) = take(&mut &self.partial[..]) {
                self.partial.clear();
                return Some(taken);
            }
        }
        None
    }

    fn waste(&mut self, len: u64) -> Result<(), Fault> {
        self.waste = self.waste.saturating_add(len);
        match self.waste > WASTE_LEN_MAX {
            true => Err(Fault::WasteFlood),
            false => Ok(()),
        }
    }
}

fn whole_number(content: &[u8]) -> Result<u64, Fault> {
    let mut rest = content;
    let number = varint::take(&mut rest).ok_or(Fault::FrameLength)?;
    match rest.is_empty() {
        true => Ok(number),
        false => Err(Fault::FrameLength),
    }
}

/// Settings mean nothing to us, who send nothing that they are about; but they are to be settings (§7.2.4).
fn check_settings(content: &[u8]) -> Result<(), Fault> {
    let (mut rest, mut seen) = (content, Vec::new());
    while !rest.is_empty() {
        let setting = varint::take(&mut rest).ok_or(Fault::FrameLength)?;
        let value = varint::take(&mut rest).ok_or(Fault::FrameLength)?;
        let is_wrong = setting == setting::ENABLE_CONNECT_PROTOCOL && value > 1;
        if setting::is_of_http2(setting) || is_wrong || seen.contains(&setting) {
            return Err(Fault::Settings);
        }
        seen.push(setting);
    }
    Ok(())
}
