//! A network spec in TOML: refused or walked, never a panic or a large allocation; printed, it reads back as itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use network::spec::NetworkSpec;

fuzz_target!(|text: &str| {
    if let Ok(spec) = NetworkSpec::from_toml(text) {
        let again = NetworkSpec::from_toml(&spec.to_toml()).expect("what was printed can be read");
        assert_eq!(again, spec);
        assert_eq!(again.walk(), spec.walk());
    }
});
