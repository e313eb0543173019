//! The command line. Exit 0: done; 1: a negative answer; 2: an error with its causes.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use signal_hook::consts::signal::SIGXFSZ;
use signal_hook::flag;
use sordino::client::ClientError;
use sordino::commands::{Answer, CommandLine};
use sordino::inference::InferenceError;
use sordino::network::text::causes;
use sordino::printable;

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    // A file that may grow no longer (`ulimit -f`) is an error of writing then, and no death.
    let _ = flag::register(SIGXFSZ, Arc::default());
    let mut out = io::BufWriter::new(Output { stdout: io::stdout().lock(), is_closed: false });
    let result = command_line.run(&mut out).and_then(|answer| Ok(out.flush().map(|()| answer)?));
    match result {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        // The reader of our output went away, as `head` does: no error of ours.
        Err(error) if out.get_ref().is_closed && !is_of_peer(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let mut stderr = io::stderr().lock();
            // Nothing can be done when even stderr is closed.
            for (number, message) in causes(error.as_ref()).iter().enumerate() {
                let label = if number == 0 { "error" } else { "  because" };
                let _ = writeln!(stderr, "{label}: {}", printable(message.trim_end()));
            }
            ExitCode::from(2)
        }
    }
}

/// Whether it was the other party, or the way to it, that failed, whatever became of our output.
fn is_of_peer(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<ClientError>() || cause.is::<InferenceError>())
}

/// Standard output, which remembers that its reader went away. A peer that goes away breaks a pipe, too; only this one's
/// end is no error.
struct Output<W> {
    stdout: W,
    is_closed: bool,
}

impl<W: Write> Output<W> {
    fn noted<R>(&mut self, result: io::Result<R>) -> io::Result<R> {
        result.map_err(|error| {
            self.is_closed |= error.kind() == io::ErrorKind::BrokenPipe;
            match error.kind() {
                io::ErrorKind::BrokenPipe | io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => error,
                kind => {
                    io::Error::new(kind, format!("the result cannot be written to standard output: {error}"))
                }
            }
        })
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.stdout.write(bytes);
        self.noted(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.stdout.flush();
        self.noted(result)
    }
}
