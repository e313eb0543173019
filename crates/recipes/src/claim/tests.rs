use super::*;

const QUICK: Timing = Timing { beat: Duration::from_millis(20), lease: Duration::from_millis(400) };

fn write_claim(folder: &Path, number: u64, holder: &Holder) {
    write_shared(&path_of(folder, number), holder.to_bytes()).unwrap();
}

fn taken(attempt: Attempt) -> Claim {
    match attempt {
        Attempt::Taken(claim) => claim,
        Attempt::Held { holder, life } => panic!("held by {holder:?}, {life:?}"),
    }
}

#[test]
fn of_many_workers_one_gets_the_claim() {
    let scratch = tempfile::tempdir().unwrap();
    let run = scratch.path().join("run");
    let claims: Vec<Option<Claim>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| match Claims::default().take(&run).unwrap() {
                    Attempt::Taken(claim) => Some(claim),
                    Attempt::Held { .. } => None,
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(claims.iter().flatten().count(), 1);
    assert!(!run.exists(), "claims lie beside the folder");
}

#[test]
fn a_live_claim_is_respected_and_a_released_one_is_free() {
    let scratch = tempfile::tempdir().unwrap();
    let run = scratch.path().join("run");
    let mut claims = Claims::default();
    let claim = taken(claims.take(&run).unwrap());
    match claims.take(&run).unwrap() {
        Attempt::Held { holder: Some(holder), life: Life::Alive } => {
            assert!(holder.to_string().contains(&format!("process {}", std::process::id())), "{holder}");
        }
        other => panic!("{other:?}"),
    }
    drop(claim);
    for _ in 0..4 {
        drop(taken(claims.take(&run).unwrap()));
    }
    let files = fs::read_dir(scratch.path().join(FOLDER)).unwrap().count();
    assert_eq!(files, 2, "old claims are removed, but for the one before the last");
}

#[test]
fn a_claim_of_a_process_that_ended_is_taken_over_at_once() {
    let scratch = tempfile::tempdir().unwrap();
    let run = scratch.path().join("run");
    write_claim(&run, 1, &Holder::that_ended());
    taken(Claims::default().take(&run).unwrap());
}

#[test]
fn a_claim_of_another_machine_is_taken_over_when_its_beat_stands_still() {
    let scratch = tempfile::tempdir().unwrap();
    let run = scratch.path().join("run");
    let mut far = Holder::of_another_machine();
    write_claim(&run, 1, &far);
    let mut claims = Claims::with_timing(QUICK);
    assert!(matches!(claims.take(&run).unwrap(), Attempt::Held { life: Life::Unknown, .. }));
    far.beat += 1;
    write_claim(&run, 1, &far);
    assert!(matches!(claims.take(&run).unwrap(), Attempt::Held { life: Life::Alive, .. }));
    thread::sleep(QUICK.lease);
    taken(claims.take(&run).unwrap());
}

#[test]
fn one_that_was_taken_for_dead_learns_it_and_leaves_the_new_claim_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let run = scratch.path().join("run");
    let asleep = taken(Claims::with_timing(QUICK).take(&run).unwrap());
    write_claim(&run, 2, &Holder::of_another_machine());
    let end = Instant::now() + Duration::from_secs(30);
    while !asleep.is_lost() {
        assert!(Instant::now() < end, "it never learned");
        thread::sleep(QUICK.beat);
    }
    drop(asleep);
    let (holder, _) = Claims::default().holder(&run).unwrap().unwrap();
    assert_eq!(holder, Some(Holder::of_another_machine()));
}

#[test]
fn a_number_that_others_left_behind_is_no_claim() {
    let scratch = tempfile::tempdir().unwrap();
    let run = scratch.path().join("run");
    write_claim(&run, 3, &Holder::of_another_machine());
    assert!(Claim::make(&run, 2, QUICK).unwrap().is_none());
    assert!(!path_of(&run, 2).exists());
}

#[test]
fn half_a_claim_holds_until_nobody_finishes_it() {
    let scratch = tempfile::tempdir().unwrap();
    let run = scratch.path().join("run");
    write_shared(&path_of(&run, 1), "{\"host").unwrap();
    let mut claims = Claims::with_timing(QUICK);
    assert!(matches!(claims.take(&run).unwrap(), Attempt::Held { holder: None, life: Life::Unknown }));
    thread::sleep(QUICK.lease);
    taken(claims.take(&run).unwrap());
}

#[test]
fn a_failure_is_noted_and_forgotten() {
    let scratch = tempfile::tempdir().unwrap();
    let run = scratch.path().join("run");
    assert_eq!(failure(&run), None);
    mark_failed(&run, "no such budget").unwrap();
    assert_eq!(failure(&run).as_deref(), Some("no such budget"));
    clear_failure(&run).unwrap();
    clear_failure(&run).unwrap();
    assert_eq!(failure(&run), None);
}
