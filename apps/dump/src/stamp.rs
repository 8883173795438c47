//! The time before each line, in tcpdump's six forms.

use exos_program::zone;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Which form; the number of `-t` chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `12:34:56.123456`, local time.
    TimeOfDay,
    /// `-t`: nothing.
    None,
    /// `-tt`: `1700000000.123456`, since 1970.
    Epoch,
    /// `-ttt`: ` 00:00:00.000100`, since the packet before.
    SincePrevious,
    /// `-tttt`: `2023-11-14 12:34:56.123456`, local time.
    Date,
    /// `-ttttt`: ` 00:00:01.000000`, since the first packet.
    SinceFirst,
}

/// Writes times, and remembers what that needs of earlier ones.
#[derive(Debug)]
pub(crate) struct Stamps {
    form: Form,
    /// The local one, as `TZ` or the machine says.
    zone: TimeZone,
    /// What the next one is relative to.
    base_ns: Option<u64>,
}

impl Stamps {
    /// Times of the form that this many `-t` ask for.
    pub(crate) fn new(count: u8) -> Self {
        let form = match count {
            0 => Form::TimeOfDay,
            1 => Form::None,
            2 => Form::Epoch,
            3 => Form::SincePrevious,
            4 => Form::Date,
            _ => Form::SinceFirst,
        };
        Self {
            form,
            zone: zone::local(),
            base_ns: None,
        }
    }

    /// The text before a packet of this time, with the space behind it.
    pub(crate) fn text(&mut self, time_ns: u64) -> String {
        match self.form {
            Form::TimeOfDay => self.local(time_ns, "%H:%M:%S.%6f "),
            Form::None => String::new(),
            Form::Epoch => {
                let (secs, micros) = (time_ns / 1_000_000_000, time_ns / 1000 % 1_000_000);
                format!("{secs}.{micros:06} ")
            }
            Form::SincePrevious => {
                let base = self.base_ns.replace(time_ns).unwrap_or(time_ns);
                since(base, time_ns)
            }
            Form::Date => self.local(time_ns, "%Y-%m-%d %H:%M:%S.%6f "),
            Form::SinceFirst => {
                let base = *self.base_ns.get_or_insert(time_ns);
                since(base, time_ns)
            }
        }
    }

    /// Local time in this form (strftime).
    fn local(&self, time_ns: u64, form: &str) -> String {
        let time = Timestamp::from_nanosecond(time_ns.into());
        let time = time.expect("64 bits of nanoseconds end in 2554");
        time.to_zoned(self.zone.clone()).strftime(form).to_string()
    }
}

/// A difference. Where packets of several processors meet, a later one can be earlier.
fn since(base_ns: u64, time_ns: u64) -> String {
    let sign = if time_ns < base_ns { '-' } else { ' ' };
    let micros = (time_ns / 1000).abs_diff(base_ns / 1000);
    let (secs, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (hours, minutes, secs) = (secs / 3600, secs / 60 % 60, secs % 60);
    format!("{sign}{hours:02}:{minutes:02}:{secs:02}.{micros:06} ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_count_from_the_packet_before_or_the_first() {
        let times = [5_000_000_000, 5_000_100_000, 65_000_000_000, 64_000_000_000];
        let texts = |count| {
            let mut stamps = Stamps::new(count);
            times.map(|time| stamps.text(time))
        };
        assert_eq!(
            texts(3),
            [
                " 00:00:00.000000 ",
                " 00:00:00.000100 ",
                " 00:00:59.999900 ",
                "-00:00:01.000000 "
            ]
        );
        assert_eq!(
            texts(5),
            [
                " 00:00:00.000000 ",
                " 00:00:00.000100 ",
                " 00:01:00.000000 ",
                " 00:00:59.000000 "
            ]
        );
    }
}
