//! How a program talks to valgrind's memcheck: a few instructions that do nothing on a processor and that valgrind sees.
//!
//! A secret is marked as undefined memory. Memcheck then follows it through every instruction, and complains where a jump
//! or an address depends on it: exactly where time or caches would show it.
#![allow(unsafe_code, reason = "a request to valgrind is made of instructions that no safe code emits")]

/// Requests of memcheck begin here: 'M', 'C'.
const TOOL: usize = 0x4d43_0000;
const MAKE_MEM_UNDEFINED: usize = TOOL + 1;
const MAKE_MEM_DEFINED: usize = TOOL + 2;
const RUNNING_ON_VALGRIND: usize = 0x1001;
const COUNT_ERRORS: usize = 0x1201;

#[cfg(target_arch = "x86_64")]
fn request(code: usize, first: usize, second: usize) -> usize {
    let arguments = [code, first, second, 0, 0, 0];
    let mut answer = 0_usize;
    // SAFETY: the rotations of rdi add up to 128, a full turn twice, and exchanging a register with itself changes
    // nothing. Under valgrind the sequence reads the six words at rax and writes rdx, which is declared.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") answer,
        );
    }
    answer
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_: usize, _: usize, _: usize) -> usize {
    0
}

/// Whether somebody watches.
pub(crate) fn is_watching() -> bool {
    request(RUNNING_ON_VALGRIND, 0, 0) > 0
}

/// From here on these values are secret.
pub(crate) fn poison<T: Copy>(values: &mut [T]) {
    request(MAKE_MEM_UNDEFINED, values.as_mut_ptr().expose_provenance(), size_of_val(values));
}

/// From here on they are public: what a message shows anyway.
pub(crate) fn publish<T: Copy>(values: &mut [T]) {
    request(MAKE_MEM_DEFINED, values.as_mut_ptr().expose_provenance(), size_of_val(values));
}

/// A secret copy of known values.
pub(crate) fn secret<const N: usize>(byte: u8) -> [u8; N] {
    let mut bytes = [byte; N];
    poison(&mut bytes);
    bytes
}

/// Complaints so far.
fn complaints() -> usize {
    request(COUNT_ERRORS, 0, 0)
}

/// Runs one part and says how many complaints there were in it.
pub(crate) fn watch(name: &str, run: impl FnOnce()) -> usize {
    eprintln!("-- {name}");
    let before = complaints();
    run();
    complaints() - before
}

/// What the parts of a program must come to: the controls must be seen, all else must be silent.
#[derive(Default)]
pub(crate) struct Verdict {
    failed: Vec<String>,
}

impl Verdict {
    /// A part that must not depend on secrets.
    pub(crate) fn silent(&mut self, name: &str, run: impl FnOnce()) {
        self.note(name, watch(name, run), |count| count == 0);
    }

    /// A part that does, on purpose.
    pub(crate) fn caught(&mut self, name: &str, run: impl FnOnce()) {
        self.note(name, watch(name, run), |count| count > 0);
    }

    /// A part with places that are known, and explained where they are.
    #[allow(dead_code, reason = "not every program has such a part")]
    pub(crate) fn at_most(&mut self, most: usize, name: &str, run: impl FnOnce()) {
        self.note(name, watch(name, run), |count| count <= most);
    }

    fn note(&mut self, name: &str, count: usize, is_good: impl FnOnce(usize) -> bool) {
        let good = is_good(count);
        eprintln!(
            "   {count} places depend on secrets: {}",
            if good { "as expected" } else { "NOT as expected" }
        );
        if !good {
            self.failed.push(name.to_owned());
        }
    }

    /// The exit code of the program.
    pub(crate) fn finish(self) -> std::process::ExitCode {
        if self.failed.is_empty() {
            return std::process::ExitCode::SUCCESS;
        }
        eprintln!("failed: {}", self.failed.join(", "));
        std::process::ExitCode::FAILURE
    }
}
