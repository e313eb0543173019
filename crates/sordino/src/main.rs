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
            let _ = writeln!(stderr, "error: {}", printable(&error.to_string()));
            for cause in error.chain().skip(1) {
                let _ = writeln!(stderr, "  because: {}", printable(&cause.to_string()));
            }
            ExitCode::from(2)
        }
    }
}

/// A message may quote a file; its control characters must not command the terminal.
fn printable(message: &str) -> String {
    message
        .trim_end()
        .chars()
        .map(|character| {
            let is_layout = character == '\n' || character == '\t';
            if character.is_control() && !is_layout { char::REPLACEMENT_CHARACTER } else { character }
        })
        .collect()
}

/// The reader of our output went away, as `head` does: no error of ours.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
