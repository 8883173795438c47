//! What an emulated wire does to the frames that cross it: the settings, their bounds and defaults.
//!
//! The conditions hold for each of the two directions, with random numbers of their own. Shares are
//! probabilities from 0 to 1 for each frame.

use crate::limits::{
    DELAY_MAX, QUEUE_DEFAULT, QUEUE_DEFAULT_BYTES_MIN, RATE_MAX_BITS_PER_SEC, REORDER_BY_MIN,
};
use exos_host::{Error, Result};
use exos_program::units::{
    parse_duration, parse_share, show_duration, show_rate, show_share, show_size,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What happens to frames on their way, in each direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// Time on the way, in one direction: a round trip takes twice this.
    #[serde(rename = "delay_ns", with = "nanos")]
    #[schemars(with = "u64")]
    pub delay: Duration,
    /// The delay varies by up to this much in both directions, uniformly; at most the delay. Frames stay in
    /// order.
    #[serde(rename = "jitter_ns", with = "nanos")]
    #[schemars(with = "u64")]
    pub jitter: Duration,
    /// Share of frames lost, each independently of all others.
    pub loss: f64,
    /// Loss in bursts, in addition.
    pub burst_loss: Option<BurstLoss>,
    /// Share of frames held back so that others pass them.
    pub reorder: f64,
    /// How long such frames are held back, on top of the delay; `null`: an eighth of the delay, at least 1 ms.
    #[serde(rename = "reorder_by_ns", with = "optional_nanos")]
    #[schemars(with = "Option<u64>")]
    pub reorder_by: Option<Duration>,
    /// Share of frames that arrive twice, the copy right behind.
    pub duplicate: f64,
    /// Share of IP packets with one wrong bit, behind the Ethernet header.
    pub corrupt: f64,
    /// Bits per second, Ethernet headers counted; `null`: no limit and no queue.
    pub rate_bits_per_sec: Option<u64>,
    /// Bytes that may wait for the link when it has a rate; `null`: 50 ms of the rate, at least 64,000.
    pub queue_bytes: Option<u64>,
    /// When this many bytes wait, ECN-capable packets are marked (RFC 3168 §5); `null`: never.
    pub mark_bytes: Option<u64>,
}

/// Loss in bursts by the model of Gilbert and Elliott: a good state without and a bad state with loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BurstLoss {
    /// Share of all frames that are lost so.
    pub loss: f64,
    /// Mean length of the bad state, in frames.
    pub burst_frames: f64,
    /// Share of frames lost while bad.
    pub loss_in_burst: f64,
}

impl BurstLoss {
    /// Probability for each frame of turning good while bad.
    pub(super) fn leave(&self) -> f64 {
        1.0 / self.burst_frames
    }

    /// Probability for each frame of turning bad while good. The share of bad time is enter / (enter + leave).
    pub(super) fn enter(&self) -> f64 {
        let bad = self.loss / self.loss_in_burst;
        self.leave() * bad / (1.0 - bad)
    }

    fn check(&self) -> std::result::Result<(), String> {
        if !self.burst_frames.is_finite() || self.burst_frames < 1.0 {
            return Err("a burst has at least one frame".to_owned());
        }
        let possible = |share: f64| (0.0..1.0).contains(&share);
        if self.loss_in_burst <= 0.0 || !possible(self.loss / self.loss_in_burst) {
            return Err("less is lost in bursts than overall".to_owned());
        }
        if self.enter() > 1.0 {
            return Err("so much loss leaves no time between bursts so short".to_owned());
        }
        Ok(())
    }
}

/// `1%:4`: 1 % of all frames, in bursts of 4 on average, in which all are lost; `1%:8:50%`: half of them.
impl FromStr for BurstLoss {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let mut parts = text.split(':');
        let (Some(loss), Some(frames), inside, None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(
                "write the share of all frames and the mean length of a burst, for example 1%:4"
                    .to_owned(),
            );
        };
        let burst = Self {
            loss: parse_share(loss)?,
            burst_frames: frames
                .parse()
                .map_err(|_| format!("{frames:?} is not a number of frames"))?,
            loss_in_burst: inside.map_or(Ok(1.0), parse_share)?,
        };
        burst.check()?;
        Ok(burst)
    }
}

impl fmt::Display for BurstLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", show_share(self.loss), self.burst_frames)?;
        if self.loss_in_burst < 1.0 {
            write!(f, ":{}", show_share(self.loss_in_burst))?;
        }
        Ok(())
    }
}

/// The share of reordered frames, and how long they are held back when it is said: `1%`, `1%:5ms`.
pub(crate) fn parse_reorder(text: &str) -> std::result::Result<(f64, Option<Duration>), String> {
    match text.split_once(':') {
        None => Ok((parse_share(text)?, None)),
        Some((share, by)) => Ok((parse_share(share)?, Some(parse_duration(by)?))),
    }
}

impl Conditions {
    /// How long reordered frames are held back: an eighth of the delay, at least 1 ms, unless set.
    pub fn reorder_by(&self) -> Duration {
        self.reorder_by
            .unwrap_or_else(|| (self.delay / 8).max(REORDER_BY_MIN))
    }

    /// Bytes that may wait for the link: what it sends in 50 ms, at least 64 kB, unless set.
    pub fn queue_bytes(&self) -> u64 {
        let rate = self.rate_bits_per_sec.unwrap_or(0);
        let bytes = u128::from(rate / 8) * QUEUE_DEFAULT.as_nanos() / 1_000_000_000;
        self.queue_bytes
            .unwrap_or((bytes as u64).max(QUEUE_DEFAULT_BYTES_MIN))
    }

    /// Says what is wrong with them, and what would be right.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str, mend: &str| Err(Error::new(what).mend(mend));
        let durations = [self.delay, self.jitter, self.reorder_by.unwrap_or_default()];
        if durations.iter().any(|d| *d > DELAY_MAX) {
            return wrong("a wire cannot delay by more than an hour", "choose less");
        }
        if self.jitter > self.delay {
            return wrong(
                "the jitter is larger than the delay, from which it also takes away",
                "choose a jitter up to the delay",
            );
        }
        let shares = [self.loss, self.reorder, self.duplicate, self.corrupt];
        if shares.iter().any(|s| !(0.0..=1.0).contains(s)) {
            return wrong("a share is not between 0 and 1", "choose from 0% to 100%");
        }
        if let Some(Err(what)) = self.burst_loss.map(|burst| burst.check()) {
            return wrong(&what, "choose another --burst-loss, for example 1%:4");
        }
        match self.rate_bits_per_sec {
            Some(rate) if !(1..=RATE_MAX_BITS_PER_SEC).contains(&rate) => {
                wrong("the rate is out of range", "choose 1bit to 100gbit")
            }
            None if self.queue_bytes.is_some() || self.mark_bytes.is_some() => wrong(
                "a queue forms, and marks, only before a link of limited rate",
                "add --rate, for example --rate 100mbit",
            ),
            _ => Ok(()),
        }
    }
}

/// As the options of `exos lab up` say it.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delay {}", show_duration(self.delay))?;
        if !self.jitter.is_zero() {
            write!(f, ", jitter {}", show_duration(self.jitter))?;
        }
        if self.loss > 0.0 {
            write!(f, ", loss {}", show_share(self.loss))?;
        }
        if let Some(burst) = &self.burst_loss {
            write!(f, ", burst loss {burst}")?;
        }
        if self.reorder > 0.0 {
            let by = show_duration(self.reorder_by());
            write!(f, ", reorder {} by {by}", show_share(self.reorder))?;
        }
        if self.duplicate > 0.0 {
            write!(f, ", duplicate {}", show_share(self.duplicate))?;
        }
        if self.corrupt > 0.0 {
            write!(f, ", corrupt {}", show_share(self.corrupt))?;
        }
        if let Some(rate) = self.rate_bits_per_sec {
            let queue = show_size(self.queue_bytes());
            write!(f, ", rate {}, queue {queue}", show_rate(rate))?;
        }
        if let Some(mark) = self.mark_bytes {
            write!(f, ", mark from {}", show_size(mark))?;
        }
        Ok(())
    }
}

/// Durations as whole nanoseconds.
mod nanos {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(d.as_nanos() as u64)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        u64::deserialize(d).map(Duration::from_nanos)
    }
}

/// A duration as nanoseconds, or null.
mod optional_nanos {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(d: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
        d.map(|d| d.as_nanos() as u64).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<u64>::deserialize(d).map(|d| d.map(Duration::from_nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn bursts_are_read_and_their_probabilities_add_up() {
        let burst: BurstLoss = "1%:4".parse().unwrap();
        assert_eq!(burst.to_string(), "1%:4");
        assert_eq!(burst.leave(), 0.25);
        let bad = burst.enter() / (burst.enter() + burst.leave());
        assert!((bad - 0.01).abs() < 1e-12);
        let half: BurstLoss = "1%:8:50%".parse().unwrap();
        assert_eq!(half.to_string(), "1%:8:50%");
        let bad = half.enter() / (half.enter() + half.leave());
        assert!((bad - 0.02).abs() < 1e-12);
        for wrong in [
            "1%",
            "1%:0.5",
            "50%:8:50%",
            "1%:4:0%",
            "90%:1",
            "1%:x",
            "1%:4:50%:1",
            "1:4",
        ] {
            assert!(wrong.parse::<BurstLoss>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        let good = Conditions {
            delay: ms(20),
            jitter: ms(2),
            ..Conditions::default()
        };
        good.check().expect("possible");
        let bad = [
            Conditions {
                jitter: ms(21),
                ..good.clone()
            },
            Conditions {
                delay: Duration::from_secs(4000),
                ..good.clone()
            },
            Conditions {
                loss: 1.5,
                ..good.clone()
            },
            Conditions {
                corrupt: f64::NAN,
                ..good.clone()
            },
            Conditions {
                queue_bytes: Some(64_000),
                ..good.clone()
            },
            Conditions {
                mark_bytes: Some(64_000),
                ..good.clone()
            },
            Conditions {
                rate_bits_per_sec: Some(0),
                ..good.clone()
            },
            Conditions {
                burst_loss: Some(BurstLoss {
                    loss: 0.9,
                    burst_frames: 1.0,
                    loss_in_burst: 1.0,
                }),
                ..good.clone()
            },
        ];
        for conditions in bad {
            let error = conditions.check().expect_err("impossible");
            assert!(error.mend.is_some(), "{error}");
        }
    }

    #[test]
    fn defaults_follow_the_other_settings() {
        let conditions = |delay, rate| Conditions {
            delay,
            rate_bits_per_sec: Some(rate),
            ..Conditions::default()
        };
        assert_eq!(conditions(ms(40), 1).reorder_by(), ms(5));
        assert_eq!(conditions(ms(0), 1).reorder_by(), ms(1));
        assert_eq!(conditions(ms(0), 100_000_000).queue_bytes(), 625_000);
        assert_eq!(conditions(ms(0), 1_000_000).queue_bytes(), 64_000);
        assert_eq!(parse_reorder("1%"), Ok((0.01, None)));
        assert_eq!(parse_reorder("1%:5ms"), Ok((0.01, Some(ms(5)))));
        assert!(parse_reorder("1%:5").is_err());
    }

    #[test]
    fn json_and_text_say_all() {
        let conditions = Conditions {
            delay: ms(20),
            jitter: ms(2),
            loss: 0.01,
            burst_loss: Some("1%:4".parse().unwrap()),
            reorder: 0.01,
            reorder_by: Some(ms(3)),
            duplicate: 0.001,
            corrupt: 0.0001,
            rate_bits_per_sec: Some(100_000_000),
            queue_bytes: Some(64_000),
            mark_bytes: Some(30_000),
        };
        let json = serde_json::to_string(&conditions).unwrap();
        assert_eq!(
            serde_json::from_str::<Conditions>(&json).unwrap(),
            conditions
        );
        assert!(json.contains(r#""delay_ns":20000000"#), "{json}");
        assert_eq!(
            conditions.to_string(),
            "delay 20ms, jitter 2ms, loss 1%, burst loss 1%:4, reorder 1% by 3ms, duplicate 0.1%, \
             corrupt 0.01%, rate 100mbit, queue 64kb, mark from 30kb"
        );
    }
}
