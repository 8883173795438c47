//! Command lines of discard and chargen.

use std::time::Duration;

use clap::Parser as _;
use clap::error::ErrorKind;
use exos_tools::LoadArgs;

#[derive(clap::Parser, Debug)]
struct Cli {
    #[command(flatten)]
    args: LoadArgs,
}

fn parsed(option: &str) -> Result<LoadArgs, ErrorKind> {
    let cli = Cli::try_parse_from(["discard", option]);
    cli.map(|cli| cli.args).map_err(|error| error.kind())
}

#[test]
fn bytes_and_seconds() {
    let bytes = |option| parsed(option).map(|args| args.limits().bytes);
    let time = |option| parsed(option).map(|args| args.limits().time);
    assert_eq!(bytes("--bytes=64K"), Ok(Some(65_536)));
    assert_eq!(bytes("--bytes=0"), Err(ErrorKind::ValueValidation));
    assert_eq!(time("--seconds=0.5"), Ok(Some(Duration::from_millis(500))));
    assert_eq!(time("--seconds=1m"), Ok(Some(Duration::from_secs(60))));
    assert_eq!(time("--seconds=0"), Err(ErrorKind::ValueValidation));
}
