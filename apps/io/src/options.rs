//! The command lines of the tools.

use exos_replacement::PolicyName;
use std::ffi::OsString;
use std::path::PathBuf;

/// cat, wc, grep and permute on buffers that processes share.
///
/// They read files by reference from the file cache (exos file-cache) where one runs, and by themselves where none does. Two of them with a
/// pipe of the shell's between them pass references instead of bytes. Their results are those of GNU's tools in the C locale.
#[derive(clap::Args, Debug)]
pub struct IoArgs {
    #[command(subcommand)]
    pub(crate) tool: Tool,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Tool {
    Cat(CatArgs),
    Wc(WcArgs),
    Grep(GrepArgs),
    Permute(PermuteArgs),
}

/// What all of them have.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct CommonArgs {
    /// Say on standard error what was passed by reference, what was copied, and why
    #[arg(long)]
    pub verbose: bool,
    /// Read files by oneself, also where a file cache runs
    #[arg(long, conflicts_with = "cache")]
    pub no_cache: bool,
    /// The file cache's socket [default: that of exos file-cache]
    #[arg(long, value_name = "PATH")]
    pub cache: Option<PathBuf>,
    /// Have one share of the file cache's memory with all programs of this user that say this name
    #[arg(long, value_name = "NAME", conflicts_with = "no_cache")]
    pub share: Option<String>,
    /// Have what this program brings into the file cache replaced by a policy of its own, in its share of the memory, so that what others use there
    /// stays: s3-fifo, lru or gds
    #[arg(long, value_name = "NAME", conflicts_with = "no_cache")]
    pub policy: Option<PolicyName>,
}

/// Write files to standard output, one after the other.
#[derive(clap::Args, Debug)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Files; - is standard input
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub files: Vec<PathBuf>,
}

/// Count lines, words and bytes.
#[derive(clap::Args, Debug)]
pub(crate) struct WcArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Count lines
    #[arg(short, long)]
    pub lines: bool,
    /// Count words
    #[arg(short, long)]
    pub words: bool,
    /// Count bytes
    #[arg(short = 'c', long)]
    pub bytes: bool,
    /// Files; - is standard input, which is read if there are none
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Write the lines in which a pattern is found.
///
/// A pattern is a basic regular expression of POSIX with GNU's additions, without references back to groups.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct GrepArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Patterns are extended regular expressions
    #[arg(short = 'E', long, conflicts_with = "fixed_strings")]
    pub extended_regexp: bool,
    /// Patterns are the strings themselves
    #[arg(short = 'F', long)]
    pub fixed_strings: bool,
    /// A pattern; may be given several times
    #[arg(
        short = 'e',
        long = "regexp",
        value_name = "PATTERN",
        allow_hyphen_values = true
    )]
    pub patterns: Vec<OsString>,
    /// Small letters are large ones
    #[arg(short, long)]
    pub ignore_case: bool,
    /// The lines in which no pattern is found
    #[arg(short = 'v', long)]
    pub invert_match: bool,
    /// Write how many lines there are
    #[arg(short, long)]
    pub count: bool,
    /// Write the numbers of lines
    #[arg(short = 'n', long)]
    pub line_number: bool,
    /// Write nothing, and end with the first line
    #[arg(short, long)]
    pub quiet: bool,
    /// Write the name of the file before each line, which is done for several files
    #[arg(short = 'H', long)]
    pub with_filename: bool,
    /// Write no names of files
    #[arg(short = 'h', long, conflicts_with = "with_filename")]
    pub no_filename: bool,
    /// Write lines of binary files as well
    #[arg(short = 'a', long)]
    pub text: bool,
    /// The pattern, if there is no -e, and files; - is standard input, which is read if there are none
    #[arg(value_name = "PATTERN|FILE")]
    pub rest: Vec<OsString>,
}

/// Write all orders of some words, one after the other with nothing between (IO-Lite, Figure 8).
///
/// The words are letters with a space behind them.
#[derive(clap::Args, Debug)]
pub(crate) struct PermuteArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// How many words: all 10! orders of ten words of eight bytes are 290 MB
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=12))]
    pub words: u8,
    /// Bytes of a word
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub length: u16,
}
