//! SIGTERM asks workers to stop: after the epoch they are at, with a checkpoint.

use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

use crate::commands::{Answer, slurm};

/// How long an epoch may still take. Slurm kills 30 seconds after it asked, as it is installed. A longer epoch is given up:
/// checkpoints are whole at any time, and the last one counts.
const GRACE: Duration = Duration::from_secs(20);

static ASKED: AtomicBool = AtomicBool::new(false);

/// Begins to listen.
pub(super) fn listen() -> anyhow::Result<()> {
    static BEGUN: Once = Once::new();
    let mut signals = Signals::new([SIGTERM])?;
    BEGUN.call_once(|| {
        thread::spawn(move || {
            if signals.forever().next().is_some() {
                ASKED.store(true, Ordering::Relaxed);
                say("SIGTERM: stops after this epoch, with a checkpoint");
                thread::sleep(GRACE);
                say("the epoch takes too long; the last checkpoint counts");
                std::process::exit(i32::from(answer() != Answer::Yes));
            }
        });
    });
    Ok(())
}

/// Whether it was asked to stop.
pub(super) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// How a call ends that was stopped: well where Slurm will run it again, else with the answer that it is not done.
pub(super) fn answer() -> Answer {
    if slurm::requeue() {
        say("Slurm runs this job again");
        return Answer::Yes;
    }
    say("not done; the same command goes on");
    Answer::No
}

fn say(text: &str) {
    // Nothing can be done when even stderr is closed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
