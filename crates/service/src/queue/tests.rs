use super::*;

#[test]
fn memory_that_runs_is_only_passing_short() {
    let (queue, a) = (Queue::new(Supply { places: 3, ..SUPPLY }), client("a"));
    let running = try_now(&mut queue.line_up(&a, 70)).unwrap();
    assert_eq!(queue.could_keep(&a, 11), Err(Shortage::Passing), "80 of one client");
    assert_eq!(queue.could_keep(&client("b"), 31), Err(Shortage::Passing), "100 of all");
    assert_eq!(queue.could_keep(&a, 61), Err(Shortage::OfServer), "60 of what waits");
    drop(running);
    let kept = queue.keep(&a, 60).unwrap();
    assert_eq!(queue.could_keep(&a, 21), Err(Shortage::OfClient { limit: 80 }));
    drop(kept);
    assert!(queue.lock().clients.is_empty());
}

#[test]
fn what_the_service_has_no_client_gets_until_it_is_given_back() {
    let (queue, client) = (Queue::new(SUPPLY), client("a"));
    let weights = queue.withhold(50).unwrap();
    assert_eq!((queue.spare(), queue.memory(), queue.most_memory(&client)), (10, 50, 50));
    assert!(queue.withhold(11).is_none(), "running inferences need the rest");
    assert_eq!(queue.keep(&client, 11).err(), Some(Shortage::OfServer));
    let mut ticket = queue.line_up(&client, 60);
    assert!(try_now(&mut ticket).is_none());
    drop(weights);
    assert!(try_now(&mut ticket).is_some(), "who waited is called");
    assert_eq!(queue.memory(), 0);
}

const SUPPLY: Supply = Supply {
    places: 1,
    client_places: 9,
    memory: 100,
    kept_memory: 60,
    client: ClientShare { memory: 80, kept: 80 },
};

/// A client with several connections, or one that prepares ahead, asks until it is told to stop. It must be told while its next turn
/// still fits beside what it keeps: nobody else can give that back.
#[test]
fn what_a_client_keeps_leaves_it_a_turn() {
    let queue = Queue::new(Supply { client: ClientShare { memory: 80, kept: 50 }, ..SUPPLY });
    let a = client("a");
    let mut kept: Vec<Reservation> = Vec::new();
    let shortage = loop {
        match queue.keep(&a, 20) {
            Ok(more) => kept.push(more),
            Err(shortage) => break shortage,
        }
        let (place, turn) = try_now(&mut queue.line_up(&a, 30)).expect("a turn of 30 always fits");
        drop((place, turn));
    };
    assert_eq!((kept.len(), shortage), (2, Shortage::OfClient { limit: 50 }));
    assert_eq!((queue.most_memory(&a), queue.most_memory(&client("b"))), (40, 80));
    let mut first = kept.remove(0);
    let second = first.split(15);
    drop(first);
    assert_eq!(queue.most_memory(&a), 45);
    drop((second, kept));
    assert_eq!((queue.memory(), queue.most_memory(&a)), (0, 80));
}

#[test]
fn who_waits_for_more_than_its_share_is_called_when_the_share_grows() {
    let queue = Queue::new(SUPPLY);
    let mut large = queue.line_up(&client("a"), 90);
    assert!(try_now(&mut large).is_none());
    queue.set_share(ClientShare { memory: 90, kept: 10 });
    assert!(try_now(&mut large).is_some());
    assert_eq!(queue.could_keep(&client("a"), 11), Err(Shortage::OfClient { limit: 10 }));
}

fn client(name: &str) -> ClientName {
    ClientName(name.to_owned())
}

/// The place, or none where others come first.
fn try_now(ticket: &mut Ticket) -> Option<(Place, Reservation)> {
    match ticket.wait(Duration::ZERO) {
        Turn::Now(place, memory) => Some((place, memory)),
        _ => None,
    }
}

#[test]
fn of_one_client_the_first_who_came_is_the_first_who_is_served() {
    let (queue, client) = (Queue::new(SUPPLY), client("a"));
    let mut tickets: Vec<_> = (0..4).map(|_| queue.line_up(&client, 0)).collect();
    let place = try_now(&mut tickets[0]).expect("nobody is in front");
    assert!(matches!(tickets[1].wait(Duration::ZERO), Turn::Later(1)));
    assert!(matches!(tickets[3].wait(Duration::ZERO), Turn::Later(3)));
    assert_eq!(queue.lengths(), (1, 3));
    tickets.remove(1);
    assert!(matches!(tickets[2].wait(Duration::ZERO), Turn::Later(2)), "the second went away");
    drop(place);
    assert!(try_now(&mut tickets[2]).is_none() && try_now(&mut tickets[1]).is_some());
    assert!(try_now(&mut tickets[2]).is_some());
    drop(tickets);
    assert_eq!(queue.lengths(), (0, 0));
    assert!(queue.lock().clients.is_empty() && queue.lock().ring.is_empty());
}

#[test]
fn a_client_with_many_requests_keeps_no_other_waiting() {
    let queue = Queue::new(SUPPLY);
    let (greedy, modest) = (client("greedy"), client("modest"));
    let mut place = try_now(&mut queue.line_up(&greedy, 0));
    let mut many: Vec<_> = (0..20).map(|_| queue.line_up(&greedy, 0)).collect();
    let mut one = queue.line_up(&modest, 0);
    assert!(
        matches!(one.wait(Duration::ZERO), Turn::Later(2)),
        "one of the greedy client, and who has the place"
    );
    assert!(matches!(many[19].wait(Duration::ZERO), Turn::Later(21)));
    let mut served = 0;
    while try_now(&mut one).is_none() {
        drop(place.take());
        place = many.iter_mut().find_map(try_now);
        served += usize::from(place.is_some());
    }
    assert_eq!(served, 1, "one of the greedy client's, then the modest client");
}

#[test]
fn what_is_under_way_comes_before_what_its_client_has_not_begun() {
    let (queue, client) = (Queue::new(SUPPLY), client("a"));
    let place = try_now(&mut queue.line_up(&client, 0));
    let mut later = queue.line_up(&client, 0);
    std::thread::scope(|scope| {
        let going_on = scope.spawn(|| queue.go_on(&client));
        while queue.lengths() != (1, 2) {
            std::thread::yield_now();
        }
        drop(place);
        let place = going_on.join().unwrap();
        assert!(try_now(&mut later).is_none());
        drop(place);
    });
    assert!(try_now(&mut later).is_some());
}

#[test]
fn never_more_run_than_there_are_places_nor_than_one_client_may() {
    let queue = Queue::new(Supply { places: 3, client_places: 2, ..SUPPLY });
    let (greedy, modest) = (client("greedy"), client("modest"));
    let mut many: Vec<_> = (0..5).map(|_| queue.line_up(&greedy, 0)).collect();
    let mut places: Vec<_> = many.iter_mut().filter_map(try_now).collect();
    assert_eq!(places.len(), 2, "the third place is not for the same client");
    places.extend(try_now(&mut queue.line_up(&modest, 0)));
    assert_eq!((places.len(), queue.lengths()), (3, (3, 3)));
    let mut other = queue.line_up(&modest, 0);
    assert!(try_now(&mut other).is_none());
    drop(places);
    assert!(try_now(&mut other).is_some());
}

#[test]
fn memory_comes_with_the_turn_and_goes_back() {
    let queue = Queue::new(Supply { places: 9, ..SUPPLY });
    let (a, b, c) = (client("a"), client("b"), client("c"));
    let (place, first) = try_now(&mut queue.line_up(&a, 60)).unwrap();
    drop(place);
    assert_eq!((queue.memory(), queue.lengths()), (60, (0, 0)), "it may be kept longer than the place");
    assert!(try_now(&mut queue.line_up(&a, 21)).is_none(), "80 for one client");
    let mut large = queue.line_up(&b, 41);
    assert!(try_now(&mut large).is_none(), "100 in all");
    let small = try_now(&mut queue.line_up(&c, 40)).expect("more than what is free soon: others go by");
    drop(small);
    let mut due = queue.line_up(&a, 20);
    let second = try_now(&mut due).unwrap();
    let mut next = queue.line_up(&c, 21);
    assert!(try_now(&mut next).is_none() && try_now(&mut queue.line_up(&client("d"), 1)).is_none());
    drop((first, second));
    assert!(try_now(&mut next).is_some() && try_now(&mut large).is_some());
    assert_eq!(queue.memory(), 0);
}

#[test]
fn what_is_kept_takes_nothing_from_what_runs() {
    let queue = Queue::new(SUPPLY);
    let (a, b) = (client("a"), client("b"));
    let kept = queue.keep(&a, 60).unwrap();
    assert_eq!(queue.keep(&b, 1).unwrap_err(), Shortage::OfServer);
    assert_eq!(queue.could_keep(&a, 21), Err(Shortage::OfClient { limit: 80 }));
    assert!(try_now(&mut queue.line_up(&b, 40)).is_some());
    drop(kept);
    assert!(queue.keep(&b, 60).is_ok());
    assert!(queue.could_keep(&b, u64::MAX).is_err());
    assert_eq!(queue.memory(), 0);
}

#[test]
fn who_leaves_the_line_when_called_leaves_nothing_behind() {
    let (queue, client) = (Queue::new(SUPPLY), client("a"));
    drop(queue.line_up(&client, 70));
    assert_eq!((queue.memory(), queue.lengths()), (0, (0, 0)));
}

#[test]
fn a_closed_line_sends_away_who_has_not_begun() {
    let (queue, client) = (Queue::new(SUPPLY), client("a"));
    let place = try_now(&mut queue.line_up(&client, 0));
    let mut waiting = queue.line_up(&client, 0);
    queue.close();
    assert!(matches!(waiting.wait(Duration::from_secs(60)), Turn::Closed));
    drop(place);
    drop(waiting);
    drop(queue.go_on(&client));
}
