//! How many operations a piece of work asks libtorch for: what a GPU would launch kernels for.
//!
//! Counted by `shim/operations.cpp`, which lies inside the binary. Views and memory that nobody writes to are free. An
//! operation may take more than one kernel on a GPU, so this is less than what is launched there.
#![allow(unsafe_code, reason = "the border to libtorch")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::os::unix::{Library, Symbol};

use super::{TensorError, gpu};

/// The compiled `shim/operations.cpp`.
static SHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/operations.so"));

static COUNTER: OnceLock<Result<Counter, String>> = OnceLock::new();
/// There is one count at a time.
static COUNTING: Mutex<()> = Mutex::new(());

/// How often each operation ran, by its name in libtorch.
pub type OperationCounts = BTreeMap<String, u64>;

/// The functions of the shim.
struct Counter {
    begin: Symbol<unsafe extern "C" fn()>,
    end: Symbol<unsafe extern "C" fn() -> *mut c_char>,
    free: Symbol<unsafe extern "C" fn(*mut c_char)>,
    _library: Library,
}

/// Does some work, and counts its operations. What other threads do meanwhile is counted too.
///
/// # Errors
/// When the shim cannot be loaded.
pub fn count_operations<T>(work: impl FnOnce() -> T) -> Result<(T, OperationCounts), TensorError> {
    let counter = COUNTER.get_or_init(|| {
        gpu::load();
        Counter::open()
    });
    let counter = counter.as_ref().map_err(|detail| TensorError::Refused { detail: detail.clone() })?;
    let _alone = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: nobody else counts, since the lock is held until the counts were taken.
    unsafe { (counter.begin)() };
    let counting = Counting(counter);
    let outcome = work();
    Ok((outcome, counting.end()))
}

/// Ends the count also where the work panics.
struct Counting<'a>(&'a Counter);

impl Counting<'_> {
    fn end(self) -> OperationCounts {
        let counts = self.0.end();
        std::mem::forget(self);
        counts
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Counter {
    fn open() -> Result<Self, String> {
        let library = gpu::load_carried(SHIM)
            .map_err(|reason| format!("the counter of operations cannot be loaded ({reason})"))?;
        // SAFETY: names and types are those of shim/operations.cpp, which was compiled from the same tree.
        let functions = unsafe {
            let begin = library.get(b"sordino_operations_begin\0");
            let end = library.get(b"sordino_operations_end\0");
            begin.and_then(|begin| Ok((begin, end?, library.get(b"sordino_operations_free\0")?)))
        };
        let (begin, end, free) =
            functions.map_err(|reason| format!("the counter of operations lacks a function ({reason})"))?;
        Ok(Self { begin, end, free, _library: library })
    }

    fn end(&self) -> OperationCounts {
        // SAFETY: the shim answers with a string it made by strdup, which is freed here and nowhere else.
        let lines = unsafe {
            let pointer = (self.end)();
            let lines = CStr::from_ptr(pointer).to_string_lossy().into_owned();
            (self.free)(pointer);
            lines
        };
        let pair = |line: &str| {
            let (name, count) = line.rsplit_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        lines.lines().filter_map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Device, Kind};

    #[test]
    fn views_are_free_and_composed_operations_count_once() {
        let input = Device::Cpu.zeros(&[2, 3, 8, 8], Kind::Float);
        let weight = Device::Cpu.zeros(&[4, 3, 3, 3], Kind::Float);
        let work = || input.conv2d(&weight, None::<&crate::tensor::Tensor>, [1, 1], [1, 1], [1, 1], 1).relu();
        let (output, counts) = count_operations(|| work().view([2, -1]).narrow(1, 0, 7)).unwrap();
        assert_eq!(output.size(), [2, 7]);
        // Other tests may compute meanwhile: at least these two were counted.
        let convolved = counts.keys().any(|name| name.contains("convolution") || name.contains("conv2d"));
        assert!(convolved && counts.contains_key("aten::clamp_min"), "{counts:?}");
        assert!(!counts.contains_key("aten::view") && !counts.contains_key("aten::conv2d"), "{counts:?}");
    }
}
