//! Who only looks waits for nobody.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::{OWNER, in_both, put, token};
use crate::store::Usage;

#[test]
fn room_and_list_do_not_wait_for_who_changes_something() {
    in_both("readers", |place| {
        let (writer, reader) = (place.open().unwrap(), place.open().unwrap());
        let id = put(&writer, b"half");
        thread::scope(|scope| {
            let ((begun, has_begun), (done, is_done)) = (channel(), channel());
            let writing = scope.spawn(move || {
                let mut was_waited_for = true;
                let work = writer.rows.transaction(&mut |transaction| {
                    transaction.state()?;
                    begun.send(()).unwrap();
                    was_waited_for = is_done.recv_timeout(Duration::from_secs(20)).is_err();
                    Ok(())
                });
                work.map(|()| was_waited_for)
            });
            has_begun.recv().unwrap();
            assert_eq!(reader.room(OWNER, 10).unwrap().stored, 1);
            assert_eq!(reader.list(&token(1)).unwrap(), [id]);
            // It may have given up waiting.
            let _ = done.send(());
            assert!(!writing.join().unwrap().unwrap(), "the reader waited for the writer's end");
        });
    });
}

#[test]
fn what_has_expired_takes_no_room_before_anybody_removes_it() {
    in_both("expired-room", |place| {
        let store = place.open().unwrap();
        put(&store, b"half");
        assert_eq!(store.usage(None).unwrap().count, 1);
        place.pass(100);
        assert_eq!(store.room(OWNER, 10).unwrap().stored, 0);
        assert_eq!((store.usage(None).unwrap(), store.list(&token(1)).unwrap().len()), (Usage::default(), 0));
        assert_eq!(store.expire().unwrap(), 1, "it was still there");
    });
}
