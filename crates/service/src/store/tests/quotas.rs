//! Quotas are durable, and one for all who share the store.

use std::time::Duration;

use super::in_both;
use crate::quotas::{Drawn, Quota};

#[test]
fn an_hours_quota_is_drawn_once_by_all_servers_together_and_survives_a_restart() {
    in_both("quota", |place| {
        let (one, other) = (place.open().unwrap(), place.open().unwrap());
        let draw = |store: &super::PreparedStore, count| store.draw(b"a", Quota::Answers, count, 60).unwrap();
        assert_eq!(draw(&one, 40), Drawn::Given);
        assert_eq!(draw(&other, 30), Drawn::After(Duration::from_secs(600)));
        assert_eq!(one.left(b"a", Quota::Answers, 60).unwrap(), 20);
        assert_eq!(draw(&other, 20), Drawn::Given);
        assert_eq!(one.left(b"a", Quota::Answers, 60).unwrap(), 0);
        assert_eq!(draw(&one, 61), Drawn::Never);
        drop((one, other));
        let later = place.open().unwrap();
        assert_eq!(draw(&later, 1), Drawn::After(Duration::from_secs(60)));
        assert_eq!(later.draw(b"b", Quota::Answers, 60, 60).unwrap(), Drawn::Given);
        assert_eq!(later.draw(b"a", Quota::Preparations, 60, 60).unwrap(), Drawn::Given);
        place.pass(60);
        assert_eq!(draw(&later, 1), Drawn::Given);
        place.pass(3600);
        assert_eq!(draw(&later, 60), Drawn::Given);
    });
}
