//! Which codings a client takes: the Accept-Encoding field (RFC 9110 §12.5.3).
//!
//! It is read only for a document that has [coded variants](crate::site::variants). A member that
//! is malformed counts as not there. Where nothing that we have is acceptable, the document is sent
//! as it is, as if the field had nothing to do with it (§12.4.1 leaves that or 406).

use super::coding::Coding;
use super::request::Request;

/// A q-value in thousandths: 0 is a refusal (§12.4.2).
type Weight = u16;

const WEIGHT_MAX: Weight = 1000;

/// What a client has said about codings; `None` where it has said nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    coded: [Option<Weight>; Coding::ALL.len()],
    identity: Option<Weight>,
    /// Of every coding without a member of its own: `*`.
    others: Option<Weight>,
}

impl Accepted {
    /// Reads the field of a request; `None` without one, when any coding would be acceptable and
    /// nothing says that the client knows one.
    pub fn of_request(request: &Request) -> Option<Accepted> {
        let named = request
            .fields
            .iter()
            .filter(|field| field.name.eq_ignore_ascii_case("accept-encoding"));
        let mut values = named.map(|field| field.value).peekable();
        values.peek()?;
        Some(Accepted::parse(values))
    }

    /// Reads the values of the field's lines, which are one list (§5.3).
    pub fn parse<'b>(values: impl IntoIterator<Item = &'b [u8]>) -> Accepted {
        let mut accepted = Accepted::default();
        let members = values.into_iter().flat_map(super::request::list);
        for (name, weight) in members.filter_map(member) {
            if let Some(place) = accepted.place(name) {
                *place = Some(weight);
            }
        }
        accepted
    }

    /// Where the weight of a coding is kept; `None` for those that we do not store.
    fn place(&mut self, name: &[u8]) -> Option<&mut Option<Weight>> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("*") {
            return Some(&mut self.others);
        }
        if is("identity") {
            return Some(&mut self.identity);
        }
        let coding = Coding::ALL
            .into_iter()
            .find(|coding| is(coding.name()))
            .or_else(|| is("x-gzip").then_some(Coding::Gzip))?; // §8.4.1.3
        Some(&mut self.coded[coding as usize])
    }

    /// How much the client wants a coding: 0 when it does not take it at all.
    pub fn weight(&self, coding: Coding) -> Weight {
        self.coded[coding as usize].or(self.others).unwrap_or(0)
    }

    /// How much the client wants what is not coded: `None` when it has not said, which is less
    /// than anything that it has asked for, but not a refusal.
    pub fn identity(&self) -> Option<Weight> {
        self.identity.or(self.others)
    }
}

/// `gzip`, or `gzip;q=0.5`, taken apart; `None` when it is malformed.
fn member(member: &[u8]) -> Option<(&[u8], Weight)> {
    let Some(semicolon) = member.iter().position(|&b| b == b';') else {
        return Some((member, WEIGHT_MAX));
    };
    let (name, parameter) = (&member[..semicolon], &member[semicolon + 1..]);
    let [b'q' | b'Q', b'=', value @ ..] = parameter.trim_ascii() else {
        return None;
    };
    Some((name.trim_ascii(), qvalue(value)?))
}

/// `0`, `1`, or with up to three digits behind a point, no larger than 1 (§12.4.2).
fn qvalue(text: &[u8]) -> Option<Weight> {
    let (whole, fraction) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', fraction @ ..] => (whole, fraction),
        _ => return None,
    };
    let is_number = matches!(whole, b'0' | b'1') && fraction.iter().all(u8::is_ascii_digit);
    if !is_number || fraction.len() > 3 {
        return None;
    }
    let digit = |at: usize| fraction.get(at).map_or(0, |&b| Weight::from(b - b'0'));
    let weight = Weight::from(whole - b'0') * 1000 + digit(0) * 100 + digit(1) * 10 + digit(2);
    Some(weight).filter(|&weight| weight <= WEIGHT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weights of br, zstd, gzip, and of what is not coded.
    fn weights(lines: &[&str]) -> ([Weight; 3], Option<Weight>) {
        let accepted = Accepted::parse(lines.iter().map(|line| line.as_bytes()));
        (
            Coding::ALL.map(|coding| accepted.weight(coding)),
            accepted.identity(),
        )
    }

    #[test]
    fn weights_are_as_the_field_says() {
        for (lines, coded, identity) in [
            // The examples of RFC 9110 §12.5.3.
            (&["compress, gzip"][..], [0, 0, 1000], None),
            (&[""], [0, 0, 0], None),
            (&["*"], [1000, 1000, 1000], Some(1000)),
            (&["compress;q=0.5, gzip;q=1.0"], [0, 0, 1000], None),
            (
                &["gzip;q=1.0, identity; q=0.5, *;q=0"],
                [0, 0, 1000],
                Some(500),
            ),
            // What browsers send.
            (&["gzip, deflate"], [0, 0, 1000], None),
            (&["gzip, deflate, br, zstd"], [1000, 1000, 1000], None),
            // Several lines are one list; names and q are not case-sensitive.
            (&["br;q=0.9", "GZip;Q=0.25 , zstd"], [900, 1000, 250], None),
            (&["x-gzip"], [0, 0, 1000], None),
            (&[",, br ,"], [1000, 0, 0], None),
            (&["br;q=0"], [0, 0, 0], None),
            (&["*;q=0"], [0, 0, 0], Some(0)),
            (&["*;q=0.3, br;q=0"], [0, 300, 300], Some(300)),
            (&["identity;q=0"], [0, 0, 0], Some(0)),
            (&["identity;q=0, *"], [1000, 1000, 1000], Some(0)),
            (&["br \t;\t q=0.001"], [1, 0, 0], None),
            (&["br;q=1."], [1000, 0, 0], None),
            (&["br;q=1.000"], [1000, 0, 0], None),
        ] {
            assert_eq!(weights(lines), (coded, identity), "{lines:?}");
        }
    }

    #[test]
    fn malformed_members_count_for_nothing() {
        for bad in [
            "br;q=2",
            "br;q=1.001",
            "br;q=0.0001",
            "br;q=-1",
            "br;q=.5",
            "br;q=",
            "br;q",
            "br;",
            "br;x=1",
            "br;q=0,5", // A list of two.
            "br;q = 1",
            "br;q=1;q=1",
            "b r",
            "brr",
            "br;q=0x",
            "br;q=\u{663}",
        ] {
            assert_eq!(weights(&[bad]).0[0], 0, "{bad}");
            let line = format!("{bad}, gzip");
            assert_eq!(weights(&[&line]).0, [0, 0, 1000], "{bad}");
        }
    }
}
