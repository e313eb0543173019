//! The framework panics where it cannot go on; at the crate's border that becomes an error.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::TensorError;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs tensor code; a panic of the framework, such as a GPU without memory, becomes an error and prints nothing.
///
/// # Errors
/// With the framework's words.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, TensorError> {
    quiet_hook();
    let outer = IS_GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(outer);
    result.map_err(|payload| {
        let words = payload.downcast_ref::<String>().map(String::as_str);
        let words =
            words.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without words");
        explain(words)
    })
}

/// Panics inside [`guarded`] are reported by their error, all others as before.
fn quiet_hook() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                previous(info);
            }
        }));
    });
}

fn explain(words: &str) -> TensorError {
    // libtorch's first line says it all; what follows is a stack of C++ frames.
    let line = words.split("\\n").next().unwrap_or(words).lines().next().unwrap_or(words);
    let detail: String = line.chars().take(400).collect();
    if words.contains("out of memory") || words.contains("CUDNN_STATUS_ALLOC_FAILED") {
        TensorError::OutOfMemory { detail }
    } else {
        TensorError::Refused { detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Device;

    #[test]
    fn a_refused_operation_is_an_error_with_the_words_of_the_framework() {
        let work = || Device::Cpu.floats(&[1.0, 2.0], &[2]) + Device::Cpu.floats(&[1.0, 2.0, 3.0], &[3]);
        let error = guarded(work).unwrap_err();
        assert!(matches!(&error, TensorError::Refused { detail } if detail.contains("size")), "{error}");
        assert_eq!(guarded(|| 3), Ok(3));
    }

    #[test]
    fn a_device_without_memory_is_told_apart() {
        let error = explain("called `Result::unwrap()`: Torch(\"CUDA out of memory. Tried\\nframe #0: x\")");
        assert!(
            matches!(&error, TensorError::OutOfMemory { detail } if !detail.contains("frame")),
            "{error}"
        );
    }
}
