//! The options of `exos lab up`.

use crate::emulator::{BurstLoss, Conditions, Emulation, parse_reorder};
use crate::settings::{Settings, WireKind};
use exos_program::units::{parse_duration, parse_rate, parse_share, parse_size};
use std::time::Duration;

/// How a lab shall be.
#[derive(clap::Args, Debug)]
pub struct UpArgs {
    /// Name of the lab; labs of different names exist side by side
    #[arg(long, default_value = "lab")]
    name: String,
    /// Kind of wire
    #[arg(long, value_enum, default_value_t)]
    wire: WireKind,
    /// MTU of the wire: the longest IP packet, in bytes
    #[arg(long, default_value_t = 1500)]
    mtu: u32,
    /// Interface queues at each end, for programs on several cores (exos serve --cores)
    #[arg(long, value_name = "N", default_value_t = 1)]
    queues: u32,
    /// Have side a's kernel process what it receives on core A, and side b's on core B (receive packet steering), such as
    /// 0,1 [default: on the sender's core, as a veth does by itself: it costs the least]
    #[arg(long, value_name = "A,B", value_parser = parse_cores)]
    receive_cores: Option<[usize; 2]>,
    #[command(flatten)]
    emulation: EmulationArgs,
}

/// Each of them alone has the wire emulated, in each direction by itself.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Emulated wire, in each direction (any of these starts an emulator)")]
struct EmulationArgs {
    /// Delay in each direction, such as 20ms; a round trip takes twice this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// Vary the delay by up to this much more or less, uniformly; frames stay in order
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    jitter: Option<Duration>,
    /// Share of frames lost, each independently, such as 1%
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    loss: Option<f64>,
    /// Loss in bursts (Gilbert-Elliott model): 1%:4 loses 1% of all frames, in bursts of 4 on average; 1%:8:50% loses
    /// half of the frames within a burst
    #[arg(long, value_name = "SHARE:FRAMES[:SHARE]")]
    burst_loss: Option<BurstLoss>,
    /// Share of frames delayed by TIME more, so that later ones overtake them [default TIME: an eighth of the delay, at
    /// least 1ms]
    #[arg(long, value_name = "SHARE[:TIME]", value_parser = parse_reorder)]
    reorder: Option<(f64, Option<Duration>)>,
    /// Share of frames delivered twice
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    duplicate: Option<f64>,
    /// Share of IP packets delivered with one wrong bit
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    corrupt: Option<f64>,
    /// Bandwidth, including Ethernet headers, such as 100mbit
    #[arg(long, value_parser = parse_rate)]
    rate: Option<u64>,
    /// Bytes that may wait for --rate, such as 64kb [default: what --rate sends in 50 ms, at least 64kb]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "rate")]
    queue: Option<u64>,
    /// Mark ECN-capable packets (congestion experienced) while this many bytes wait
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "rate")]
    mark: Option<u64>,
    /// Seed of all random choices: the same frames meet the same fate [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// Pin the emulator to this CPU core
    #[arg(long)]
    core: Option<usize>,
    /// Run the emulator in this process until Ctrl-C, and remove the lab then; prints statistics on SIGUSR1 and at the
    /// end
    #[arg(long)]
    foreground: bool,
    /// Print the statistics as JSON
    #[arg(long, requires = "foreground")]
    json: bool,
}

impl UpArgs {
    /// As the library takes them.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            name: self.name.clone(),
            wire: self.wire,
            mtu: self.mtu,
            queues: self.queues,
            receive_cores: self.receive_cores,
            emulation: self.emulation.emulation(),
        }
    }
}

impl UpArgs {
    /// True when the emulator is to run in this process.
    pub(crate) fn foreground(&self) -> bool {
        self.emulation.foreground
    }

    /// True when its statistics are wanted as JSON.
    pub(crate) fn json(&self) -> bool {
        self.emulation.json
    }
}

/// Two cores with a comma between them.
fn parse_cores(text: &str) -> Result<[usize; 2], String> {
    let cores: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
    let cores = cores.ok().and_then(|cores| cores.try_into().ok());
    cores.ok_or_else(|| format!("{text:?} is not two numbers of cores, such as 0,1"))
}

impl EmulationArgs {
    /// `None` when no option asks for it.
    fn emulation(&self) -> Option<Emulation> {
        let conditions = Conditions {
            delay: self.delay.unwrap_or_default(),
            jitter: self.jitter.unwrap_or_default(),
            loss: self.loss.unwrap_or_default(),
            burst_loss: self.burst_loss,
            reorder: self.reorder.map_or(0.0, |(share, _)| share),
            reorder_by: self.reorder.and_then(|(_, by)| by),
            duplicate: self.duplicate.unwrap_or_default(),
            corrupt: self.corrupt.unwrap_or_default(),
            rate_bits_per_sec: self.rate,
            queue_bytes: self.queue,
            mark_bytes: self.mark,
        };
        let is_asked_for = self.delay.is_some()
            || self.loss.is_some()
            || self.duplicate.is_some()
            || self.corrupt.is_some()
            || self.seed.is_some()
            || self.core.is_some()
            || self.foreground
            || conditions != Conditions::default();
        is_asked_for.then(|| Emulation {
            conditions,
            seed: self.seed.unwrap_or(DEFAULT_SEED),
            core: self.core,
        })
    }
}

/// A fixed one, so that two runs of the same command meet the same losses.
const DEFAULT_SEED: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        up: UpArgs,
    }

    fn settings(line: &str) -> Settings {
        let words = std::iter::once("up").chain(line.split_whitespace());
        Cli::try_parse_from(words).expect("valid").up.settings()
    }

    #[test]
    fn without_options_the_wire_is_direct() {
        assert_eq!(settings(""), Settings::default());
        assert_eq!(settings("--name x --mtu 1400").emulation, None);
    }

    #[test]
    fn any_option_asks_for_an_emulator() {
        for line in [
            "--delay 0",
            "--loss 0%",
            "--burst-loss 1%:4",
            "--reorder 1%",
            "--duplicate 1%",
            "--corrupt 1%",
            "--rate 1mbit",
            "--seed 3",
            "--core 0",
            "--foreground",
        ] {
            assert!(settings(line).emulation.is_some(), "{line}");
        }
    }

    #[test]
    fn options_say_what_they_mean() {
        let line = "--delay 20ms --jitter 2ms --loss 1% --burst-loss 1%:4 --reorder 1%:3ms --duplicate 0.1% \
                    --corrupt 0.01% --rate 100mbit --queue 64kb --mark 30kb --seed 9 --core 1";
        let emulation = settings(line).emulation.expect("asked for");
        assert_eq!(
            emulation.conditions.to_string(),
            "delay 20ms, jitter 2ms, loss 1%, burst loss 1%:4, reorder 1% by 3ms, duplicate 0.1%, \
             corrupt 0.01%, rate 100mbit, queue 64kb, mark from 30kb"
        );
        assert_eq!((emulation.seed, emulation.core), (9, Some(1)));
    }

    #[test]
    fn cores_that_receive_are_two() {
        assert_eq!(settings("--receive-cores 1,0").receive_cores, Some([1, 0]));
        for line in ["1", "0,1,2", "0,x"] {
            let words = ["up", "--receive-cores", line];
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }

    #[test]
    fn a_queue_without_a_rate_is_refused() {
        for line in ["--queue 64kb", "--mark 64kb", "--delay 20", "--loss 1"] {
            let words = std::iter::once("up").chain(line.split_whitespace());
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }
}
