//! SIGTERM and Ctrl-C ask for an end: after the epoch that is learned, with a checkpoint. A second Ctrl-C ends at once.

use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::commands::{Answer, slurm};

/// How long an epoch may still take after SIGTERM. Slurm kills 30 seconds after it asked, as it is installed. A longer
/// epoch is given up: checkpoints are whole at any time, and the last one counts.
const GRACE: Duration = Duration::from_secs(20);

/// What goes on with work that was stopped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Again {
    /// The same command.
    Same,
    /// The same command with `--resume`.
    WithResume,
}

static ASKED: AtomicBool = AtomicBool::new(false);

/// Begins to listen.
pub(super) fn listen() -> anyhow::Result<()> {
    static BEGUN: Once = Once::new();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    BEGUN.call_once(|| {
        thread::spawn(move || {
            let mut was_interrupted = false;
            for signal in signals.forever() {
                let is_first = !ASKED.swap(true, Ordering::Relaxed);
                match signal {
                    SIGINT if was_interrupted => {
                        say("stopped at once; the last checkpoint counts");
                        std::process::exit(128 + SIGINT);
                    }
                    SIGINT => {
                        was_interrupted = true;
                        say("Ctrl-C: stops after this epoch, with a checkpoint; once more stops at once");
                    }
                    _ if is_first || was_interrupted => give_up_after_grace(),
                    _ => {}
                }
            }
        });
    });
    Ok(())
}

fn give_up_after_grace() {
    say("SIGTERM: stops after this epoch, with a checkpoint");
    thread::spawn(|| {
        thread::sleep(GRACE);
        say("the epoch takes too long; the last checkpoint counts");
        std::process::exit(i32::from(answer(Again::Same) != Answer::Yes));
    });
}

/// Whether it was asked to stop.
pub(super) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// How a call ends that was stopped: well where Slurm will run it again, else with the answer that it is not done.
pub(super) fn answer(again: Again) -> Answer {
    if slurm::requeue() {
        say("Slurm runs this job again");
        return Answer::Yes;
    }
    say(match again {
        Again::Same => "not done; the same command goes on",
        Again::WithResume => "not done; the same command with --resume goes on",
    });
    Answer::No
}

fn say(text: &str) {
    // Nothing can be done when even stderr is closed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
