//! Which numbers the processor multiplies fast.

/// Caps the instructions of libtorch's convolutions.
const CAP: &str = "ONEDNN_MAX_CPU_ISA";

/// Whether convolutions in bf16 are worth their name here: the processor has instructions for their products.
///
/// Some virtual machines name AMX among their instructions and then end a process that uses it. So where it is named,
/// somebody must have said by `ONEDNN_MAX_CPU_ISA` how far libtorch may go.
pub(super) fn multiplies_bf16() -> bool {
    let description = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    is_fast(&description, std::env::var_os(CAP).is_some())
}

fn is_fast(description: &str, is_capped: bool) -> bool {
    let flags = description.lines().find(|line| line.starts_with("flags"));
    let has = |flag: &str| flags.is_some_and(|flags| flags.split_whitespace().any(|word| word == flag));
    has("avx512_bf16") && (is_capped || !has("amx_bf16"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_products_need_their_instructions_and_leave_amx_to_whoever_knows_it() {
        let description =
            |flags: &str| format!("processor\t: 0\nflags\t\t: fpu {flags} sse2\nbugs\t\t: avx512_bf16\n");
        assert!(is_fast(&description("avx512_bf16"), false));
        assert!(!is_fast(&description("avx512f avx512_bf16_not"), true));
        assert!(!is_fast(&description("avx512_bf16 amx_bf16"), false));
        assert!(is_fast(&description("avx512_bf16 amx_bf16"), true));
        assert!(!is_fast("", true));
    }
}
