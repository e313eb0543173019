//! Requests and replies: refused, or written back (padding of probes apart) to the same bytes.
#![no_main]

use inference::requests::{MAX_COUNT, Reply, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(request) = Request::from_bytes(data) {
        match &request {
            Request::Prepare { count, .. } | Request::Classify { count } => {
                assert!((1..=MAX_COUNT).contains(count))
            }
            Request::ClassifyStored { ids, .. } => assert!((1..=MAX_COUNT as usize).contains(&ids.len())),
            Request::Probe { .. } | Request::Bye => {}
            Request::Room | Request::List { .. } | Request::Discard { .. } => {}
        }
        let bytes = request.to_bytes();
        assert_eq!(bytes.len(), data.len());
        assert!(matches!(request, Request::Probe { .. }) || bytes == data);
    }
    if let Ok(reply) = Reply::from_bytes(data) {
        assert_eq!(reply.to_bytes().len(), data.len());
        assert!(matches!(reply, Reply::Probed { .. }) || reply.to_bytes() == data);
    }
});
