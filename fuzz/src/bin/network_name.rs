//! A zoo name: refused or built.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|name: &str| {
    let _ = network::zoo::build(name, 32, 10);
});
