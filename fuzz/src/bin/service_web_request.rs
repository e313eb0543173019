//! A browser's request: refused with a status, or one that a header given twice makes into none.
#![no_main]

#[path = "../../../crates/service/src/web/request.rs"]
mod request;

use libfuzzer_sys::fuzz_target;
use request::Request;

fuzz_target!(|bytes: &[u8]| {
    match Request::parse(bytes) {
        Err(status) => assert!(status.starts_with('4')),
        Ok(request) => {
            assert!(!request.path.contains(['?', ' ']));
            let (first, rest) =
                bytes.split_at(bytes.windows(2).position(|pair| pair == b"\r\n").unwrap_or(0));
            let twice = [first, b"\r\nTwice: 1\r\ntwice: 2", rest].concat();
            let refused = Request::parse(&twice);
            assert!(first.is_empty() || refused.is_err_and(|status| status.starts_with("400")));
            assert!(request.header("TWICE").is_none(), "names are kept in small letters");
        }
    }
});
