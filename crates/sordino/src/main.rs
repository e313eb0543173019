//! The command line. Exit 0: done; 1: a negative answer; 2: an error with its causes.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use sordino::commands::{Answer, CommandLine};

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let result = command_line.run(&mut out).and_then(|answer| Ok(out.flush().map(|()| answer)?));
    match result {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let mut stderr = io::stderr().lock();
            // Nothing can be done when even stderr is closed.
            let _ = writeln!(stderr, "error: {error}");
            for cause in error.chain().skip(1) {
                let _ = writeln!(stderr, "  because: {cause}");
            }
            ExitCode::from(2)
        }
    }
}

/// The reader of our output went away, as `head` does: no error of ours.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
