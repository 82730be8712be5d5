use super::*;

const NO_JITTER: f64 = 1.0;

fn at(seconds: u64) -> Moment {
    Moment { up: Duration::from_secs(seconds), unix: Duration::from_secs(1_000_000 + seconds) }
}

fn http() -> Backend {
    Backend::new(Treatment { http: true, restart: Restart::default(), grace: Duration::from_secs(15) })
}

fn child(restart: Restart) -> Backend {
    Backend::new(Treatment { http: false, restart, grace: Duration::ZERO })
}

fn listed() -> Listed {
    Listed { capabilities: Raw::empty_object(), tools: 1, resources: 2, prompts: 3 }
}

fn names(told: &[Told]) -> Vec<&'static str> {
    told.iter()
        .map(|told| match told {
            Told::Event(event) => event.kind(),
            Told::FailTasks => "fail_tasks",
            Told::RejectRequests => "reject_requests",
        })
        .collect()
}

fn up(backend: &mut Backend, now: Moment) -> u64 {
    let generation = backend.start(now);
    backend.connected(generation, &listed(), false, now).expect("current");
    generation
}

#[test]
fn a_crash_is_told_in_order_and_its_exit_with_it() {
    let mut backend = child(Restart::default());
    let generation = up(&mut backend, at(0));
    let exit = Exit { code: Some(3), signal: None };
    let told = backend.lost(generation, "exited with code 3", Some(&exit), at(1), NO_JITTER).expect("current");
    assert_eq!(
        names(&told),
        ["server_process_crashed", "fail_tasks", "reject_requests", "server_disconnected", "server_reconnecting"]
    );
    assert_eq!((backend.status(), backend.attempt()), (Status::Reconnecting, Some(1)));
    assert_eq!(backend.lost(generation, "again", None, at(1), NO_JITTER).err(), Some(Stale), "told once per loss");
    let generation = backend.start(at(2));
    let told = backend.connected(generation, &listed(), false, at(2)).expect("current");
    assert_eq!(names(&told), ["server_reconnected"]);
}

#[test]
fn waits_double_within_their_bounds() {
    let treatment = Treatment { http: true, restart: Restart::default(), grace: Duration::ZERO };
    let seconds: Vec<_> = (1..=10).map(|n| treatment.delay(n, NO_JITTER).as_secs()).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 180, 180]);
    for attempt in [1, 7, 31, 32, 33, 64, 1_000, u32::MAX] {
        let plain = treatment.delay(attempt, NO_JITTER);
        assert!(treatment.delay(attempt, 0.9) <= plain && plain <= Duration::from_secs(180), "attempt {attempt}");
    }
    let treatment = Treatment { http: false, ..treatment };
    let seconds: Vec<_> = (1..=8).map(|n| treatment.delay(n, NO_JITTER).as_secs()).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
}

#[test]
fn a_process_is_given_up_after_its_attempts_and_a_flapping_one_too() {
    let restart = Restart { attempts_max: 2, ..Restart::default() };
    let mut backend = child(restart.clone());
    let mut generation = up(&mut backend, at(0));
    for (second, want) in [(1, Status::Reconnecting), (2, Status::Reconnecting), (3, Status::Error)] {
        let told = backend.lost(generation, "gone", None, at(second), NO_JITTER).expect("current");
        assert_eq!(backend.status(), want, "after {second}");
        let failed = names(&told).contains(&"server_restart_failed");
        assert_eq!(failed, want == Status::Error);
        if want != Status::Error {
            generation = up(&mut backend, at(second));
        }
    }
    // One that held for a minute is counted anew.
    let mut backend = child(restart);
    for round in 0..10 {
        let generation = up(&mut backend, at(round * 100));
        backend.lost(generation, "gone", None, at(round * 100 + 60), NO_JITTER).expect("current");
        assert_eq!((backend.status(), backend.attempt()), (Status::Reconnecting, Some(1)));
    }
    let mut off = child(Restart { enabled: false, ..Restart::default() });
    let generation = up(&mut off, at(0));
    off.lost(generation, "Process exited with code 1", None, at(1), NO_JITTER).expect("current");
    assert_eq!((off.status(), off.last_error()), (Status::Error, Some("Process exited with code 1")));
}

#[test]
fn a_blip_costs_nothing_and_a_longer_absence_is_a_loss() {
    let mut backend = http();
    let generation = up(&mut backend, at(0));
    let told = backend.suspect(generation, "refused", at(100), NO_JITTER).expect("current");
    assert_eq!(names(&told), ["server_reconnecting"]);
    assert_eq!(names(&backend.still_out_of_reach("refused", at(101), NO_JITTER)), ["server_reconnecting"]);
    let told = backend.resumed(generation, &listed(), at(105)).expect("current");
    let [Told::Event(Happening::ServerReconnected(how))] = told.as_slice() else { panic!("{told:?}") };
    assert!(how.blip && how.tasks_failed == 0 && how.attempts == 2);
    assert_eq!(backend.connected_at(), Some(at(0)), "the connection is the same");

    backend.suspect(generation, "refused", at(200), NO_JITTER).expect("current");
    assert!(backend.tick(at(214)).is_empty());
    assert_eq!(names(&backend.tick(at(215))), ["fail_tasks", "reject_requests", "server_disconnected"]);
    assert!(backend.tick(at(216)).is_empty(), "once per loss");
    assert_eq!(backend.resumed(generation, &listed(), at(217)).err(), Some(Stale));
    backend.note_losses(Losses { tasks: 2, elicitations: 1, sampling: 0 });
    let generation = backend.start(at(220));
    let told = backend.connected(generation, &listed(), false, at(220)).expect("current");
    let [Told::Event(Happening::ServerReconnected(how))] = told.as_slice() else { panic!("{told:?}") };
    assert!(!how.blip && how.tasks_failed == 2 && how.elicitations_lost == 1);
}

#[test]
fn what_an_older_attempt_reports_is_stale() {
    let mut backend = http();
    let first = backend.start(at(0));
    let second = backend.start(at(0));
    assert_eq!(backend.connected(first, &listed(), false, at(0)).err(), Some(Stale));
    assert_eq!(backend.failed(first, "late", Remedy::Time, at(0), NO_JITTER).err(), Some(Stale));
    assert!(backend.stop(None).is_empty(), "it was never up");
    assert_eq!(backend.connected(second, &listed(), false, at(0)).err(), Some(Stale), "removed while connecting");
}

#[test]
fn three_failed_checks_are_told_once_and_one_good_answer_ends_it() {
    let mut backend = http();
    let generation = up(&mut backend, at(0));
    let told: Vec<_> = (0..5).filter_map(|_| backend.unhealthy(generation, "timeout")).collect();
    assert_eq!(names(&told), ["server_health_degraded"]);
    assert_eq!(backend.health(), Some((5, true)));
    let told: Vec<_> = (0..2).filter_map(|_| backend.healthy(generation)).collect();
    assert_eq!(names(&told), ["server_health_restored"]);
    assert_eq!(backend.health(), Some((0, false)));
}

#[test]
fn attempts_are_told_until_they_are_routine() {
    let mut backend = http();
    let mut now = Duration::ZERO;
    let mut told = Vec::new();
    for _ in 0..40 {
        let moment = Moment { up: now, unix: now };
        let generation = backend.start(moment);
        let news = backend.failed(generation, "refused", Remedy::Time, moment, NO_JITTER).expect("current");
        if !news.is_empty() {
            told.push(backend.attempt().expect("is out of reach"));
        }
        now = backend.retry_at().expect("another attempt");
    }
    // 1 to 5, the first at the longest wait (9), then every half hour of 180 s waits.
    assert_eq!(told, [1, 2, 3, 4, 5, 9, 19, 29, 39]);
}

/// One whose program is not there was once tried again for ever, and each attempt was told.
#[test]
fn what_only_somebody_can_mend_is_told_once_for_each_reason_and_left() {
    let mut backend = child(Restart::default());
    let mut fails = |why: &str, remedy| {
        let generation = backend.start(at(1));
        let told = backend.failed(generation, why, remedy, at(1), NO_JITTER).expect("current");
        assert_eq!((backend.status(), backend.retry_at()), (Status::Error, None), "{why}");
        names(&told)
    };
    assert_eq!(fails("program not found", Remedy::Mending), ["server_restart_failed"]);
    for _ in 0..3 {
        assert!(fails("program not found", Remedy::Mending).is_empty(), "whoever uses it is told by the answer");
    }
    assert_eq!(fails("program not executable", Remedy::Mending), ["server_restart_failed"]);
    assert!(fails("a login is needed", Remedy::Known).is_empty());
    let generation = up(&mut backend, at(2));
    backend.lost(generation, "gone", None, at(3), NO_JITTER).expect("current");
    let generation = backend.start(at(4));
    let told =
        backend.failed(generation, "program not executable", Remedy::Mending, at(4), NO_JITTER).expect("current");
    assert_eq!(names(&told), ["server_restart_failed"], "it worked in between");
}

#[test]
fn whoever_is_in_a_hurry_does_not_lengthen_the_waits_of_others() {
    let mut backend = http();
    let generation = backend.start(at(0));
    backend.failed(generation, "refused", Remedy::Time, at(0), NO_JITTER).expect("current");
    for _ in 0..10 {
        let generation = backend.start(at(0));
        assert!(backend.failed(generation, "refused", Remedy::Time, at(0), NO_JITTER).expect("current").is_empty());
        assert_eq!((backend.attempt(), backend.retry_at()), (Some(1), Some(Duration::from_secs(1))));
    }
    let generation = backend.start(at(1));
    backend.failed(generation, "refused", Remedy::Time, at(1), NO_JITTER).expect("current");
    assert_eq!((backend.attempt(), backend.retry_at()), (Some(2), Some(Duration::from_secs(3))));
}

/// Inputs in any order and from any attempt: the events a client sees always make sense.
#[test]
fn any_history_makes_sense() {
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move |bound: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % bound
    };
    let (mut transitions, mut stale) = (0_u64, 0_u64);
    for history in 0..20_000 {
        let restart = Restart { attempts_max: 3, ..Restart::default() };
        let mut backend = if history % 2 == 0 { http() } else { child(restart) };
        let (mut now, mut is_up, mut seen_up, mut failing) = (0, false, false, false);
        for _ in 0..60 {
            now += random(20);
            let moment = at(now);
            let generation = backend.generation().saturating_sub(u64::from(random(4) == 0));
            let outcome = match random(9) {
                0 => {
                    backend.start(moment);
                    Ok(vec![])
                }
                1 => backend.connected(generation, &listed(), random(2) == 0, moment),
                2 => {
                    let remedy = match random(16) {
                        0 => Remedy::Mending,
                        1 => Remedy::Known,
                        _ => Remedy::Time,
                    };
                    backend.failed(generation, "x", remedy, moment, NO_JITTER)
                }
                3 => backend.lost(generation, "x", None, moment, NO_JITTER),
                4 => backend.suspect(generation, "x", moment, NO_JITTER),
                5 => backend.resumed(generation, &listed(), moment),
                6 => Ok(backend.tick(moment)),
                7 if random(4) == 0 => Ok(backend.stop(None)),
                8 => Ok(backend.still_out_of_reach("x", moment, NO_JITTER)),
                _ => Ok(backend.unhealthy(generation, "x").into_iter().collect()),
            };
            let Ok(told) = outcome else {
                stale += 1;
                continue;
            };
            transitions += 1;
            for name in names(&told) {
                match name {
                    "server_connected" => {
                        assert!(!is_up && !seen_up, "first time only");
                        (is_up, seen_up) = (true, true);
                    }
                    "server_reconnected" => {
                        assert!(seen_up);
                        is_up = true;
                    }
                    "fail_tasks" => {
                        assert!(is_up && !failing, "only what was up is lost, once");
                        failing = true;
                    }
                    "server_disconnected" => {
                        assert!(is_up && failing, "tasks fail before");
                        (is_up, failing) = (false, false);
                    }
                    _ => {}
                }
            }
            match backend.status() {
                Status::Connected => assert!(is_up && backend.retry_at().is_none()),
                Status::Error | Status::Disconnected | Status::NotConnected => assert!(!is_up),
                Status::Connecting | Status::Reconnecting => {}
            }
            assert!(backend.attempt().is_none_or(|attempt| 0 < attempt));
        }
    }
    println!("{transitions} transitions, {stale} stale reports");
}
