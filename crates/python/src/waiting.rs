//! Long work in a thread of its own, so that the interpreter goes on and Ctrl-C is heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::SordinoError;

/// How often signals are looked for.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether anybody still waits for the work.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Whether nobody does.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Does the work without the interpreter's lock. A signal whose handler raises, as that of Ctrl-C does, ends the wait; the
/// work is told and ends by itself where it next looks.
pub(crate) fn without_interpreter<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Interrupt) -> T + Send + 'static,
) -> PyResult<T> {
    let interrupt = Interrupt::default();
    let (tell, mut result) = channel();
    let told = interrupt.clone();
    thread::Builder::new().name("sordino".to_owned()).spawn(move || {
        // Who no longer waits wants no result.
        let _ = tell.send(work(&told));
    })?;
    loop {
        let waiting = &mut result;
        match py.detach(move || waiting.recv_timeout(PAUSE)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| interrupt.set())?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(SordinoError::new_err(
                    "the work ended in a panic, whose words are on standard error; please report it",
                ));
            }
        }
    }
}
